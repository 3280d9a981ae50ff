//! Every instruction: at each one that a program executes, from its first to its exit, the walk is the shadow call stack.
#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

use freezeframe_tests::stepper::{Settings, Start, Stepper, Stop, Tally};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;

/// More instructions than any of the programs executes.
const LIMIT: u64 = 2_000_000;

/// How often a place is compared that is reached with the same callers. A debug build walks 20 times slower.
const REPEATS: u32 = if cfg!(debug_assertions) { 2 } else { u32::MAX };

/// How many programs are stepped at a time.
const WORKERS: usize = 2;

/// A program, and how to make it.
struct Program {
    source: &'static str,
    compiler: Compiler,
    options: &'static [&'static str],
    start: Start,
}

#[derive(Clone, Copy)]
enum Compiler {
    C,
    Clang,
    Cpp,
    Rust,
}

impl Compiler {
    fn command(self) -> Command {
        match self {
            Self::C => Command::new("cc"),
            Self::Clang => Command::new("clang"),
            Self::Cpp => Command::new("c++"),
            Self::Rust => Command::new(std::env::var_os("RUSTC").unwrap_or("rustc".into())),
        }
    }
}

const fn program(compiler: Compiler, options: &'static [&'static str]) -> Program {
    let source = match compiler {
        Compiler::C | Compiler::Clang => "steps.c",
        Compiler::Cpp => "steps.cpp",
        Compiler::Rust => "steps.rs",
    };
    Program { source, compiler, options, start: Start::Program }
}

const PROGRAMS: &[Program] = &[
    program(Compiler::C, &["-O0", "-lm"]),
    program(Compiler::C, &["-O2", "-lm"]),
    program(Compiler::C, &["-O2", "-fomit-frame-pointer", "-lm"]),
    program(Compiler::C, &["-O2", "-fno-omit-frame-pointer", "-lm"]),
    program(Compiler::C, &["-Os", "-fcf-protection=full", "-Wl,-z,lazy", "-lm"]),
    // gcc leaves the index out of static programs: nothing in memory would say where the tables are.
    program(Compiler::C, &["-O2", "-static", "-Wl,--eh-frame-hdr", "-lm"]),
    Program { start: Start::Loader, ..program(Compiler::C, &["-O1", "-lm"]) },
    program(Compiler::Clang, &["-O2", "-lm"]),
    program(Compiler::Cpp, &["-O0"]),
    program(Compiler::Cpp, &["-O2"]),
    program(Compiler::Rust, &["-Copt-level=0"]),
    program(Compiler::Rust, &["-Copt-level=3"]),
];

impl Program {
    fn name(&self) -> String {
        let compiler = self.compiler.command().get_program().to_string_lossy().into_owned();
        let compiler = Path::new(&compiler).file_name().unwrap_or_default().to_string_lossy().into_owned();
        let from = if self.start == Start::Loader { ", with its loader" } else { "" };
        format!("{} by {compiler} {}{from}", self.source, self.options.join(" "))
    }

    fn compile(&self, output: &Path) -> Result<(), String> {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("programs").join(self.source);
        let mut compiler = self.compiler.command();
        let (libraries, options): (Vec<&str>, Vec<&str>) =
            self.options.iter().copied().partition(|option| option.starts_with("-l"));
        let result = compiler.args(options).arg("-o").arg(output).arg(source).args(libraries).output();
        match result {
            Ok(output) if output.status.success() => Ok(()),
            Ok(output) => Err(String::from_utf8_lossy(&output.stderr).into_owned()),
            Err(error) => Err(format!("the compiler cannot be run: {error}")),
        }
    }

    /// Steps the program to its end.
    ///
    /// # Errors
    /// The system does not let it be traced.
    fn step(&self, executable: &Path, lends: bool) -> std::io::Result<(Tally, Option<Stop>)> {
        let mut command = Command::new(executable);
        command.env_clear().stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let settings = Settings { start: self.start, repeats: REPEATS, lends };
        let mut stepper = Stepper::start(&mut command, settings)?;
        let stop = stepper.run(LIMIT).expect("the program can be stepped");
        Ok((stepper.tally().clone(), stop))
    }
}

#[test]
fn at_every_instruction_the_walk_is_the_shadow_call_stack() {
    let queue = Mutex::new(PROGRAMS.iter().enumerate());
    let total = Mutex::new((Tally::default(), 0));
    let work = || {
        loop {
            let Some((number, program)) = queue.lock().unwrap().next() else { return };
            let executable: PathBuf = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("steps-{number}"));
            if let Err(reason) = program.compile(&executable) {
                println!("{}: skipped: {reason}", program.name());
                continue;
            }
            let (tally, stop) = match program.step(&executable, number % 2 == 0) {
                Ok(result) => result,
                Err(error) => {
                    println!("{}: skipped: it cannot be traced: {error}", program.name());
                    continue;
                }
            };
            println!("{}: {tally}", program.name());
            assert!(matches!(stop, Some(Stop::Exited(0)) | None), "{}: {stop:?}", program.name());
            let mut total = total.lock().unwrap();
            total.0.add(&tally);
            total.1 += 1;
        }
    };
    // What walks need is large on its way to the heap.
    let builder = || std::thread::Builder::new().stack_size(16 << 20);
    std::thread::scope(|scope| {
        for _ in 0..WORKERS {
            builder().spawn_scoped(scope, work).expect("a thread");
        }
    });
    let (total, programs) = total.into_inner().unwrap();
    println!("{programs} programs: {total}");
    if programs > 0 {
        assert!(total.compared > 10_000, "little was compared");
    }
    assert_eq!(total.mismatches, 0);
    assert_eq!(total.by_two_registers[1], 0, "what claims to be whole is right");
}
