//! Every instruction: walks of compiled code that is stepped under an emulator are the calls that are going on.
//!
//! `tests/truth/run` installs what this needs; where that is missing, a test says so and passes.

use freezeframe_arch::PacMask;
use freezeframe_tests::emulation::{Emulator, Mismatch, Program, Tally, compare, python};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A compiler and how it is asked for one kind of executable.
struct Target<'a> {
    name: &'a str,
    compiler: Vec<PathBuf>,
    flags: &'static [&'static str],
    /// What distinguishes the executables that are made of each program.
    variants: &'static [&'static str],
    /// Programs that this compiler does not take.
    without: &'static [&'static str],
    /// How many bits of an address are no signature.
    address_bits: u32,
}

/// Wrong walks that the tables cannot help.
struct Exception {
    program: &'static str,
    /// Where the walks begin.
    function: &'static str,
    /// How many there are at most at one instruction of an executable.
    most: u64,
    reason: &'static str,
}

const EXCEPTIONS: [Exception; 2] = [
    Exception {
        program: "jumps",
        function: "inner",
        most: 2,
        reason: "longjmp sets sp, fp and pc one after the other; in between they fit no frame",
    },
    Exception {
        program: "saved-O2-fomit-frame-pointer-funwind-tables-fno-asynchronous",
        function: "nested",
        most: 1,
        reason: "tables for calls do not say that the frame is gone at a jump to another function",
    },
];

impl Exception {
    fn allows(&self, mismatch: &Mismatch) -> bool {
        mismatch.program.starts_with(self.program)
            && mismatch.function.trim_start_matches('_') == self.function
            && mismatch.count <= self.most
    }
}

/// Neither a C library nor calls to one: what is run is what stands in the file.
const FREESTANDING: [&str; 3] = ["-nostdlib", "-ffreestanding", "-fno-stack-protector"];

const GCC: &[&str] = &["-static", "-fno-tree-loop-distribute-patterns", "-Wl,--eh-frame-hdr"];

fn truth() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("truth")
}

fn programs() -> Vec<PathBuf> {
    let folder = truth().join("programs");
    let entries = std::fs::read_dir(folder).expect("the programs are in the tree");
    let mut programs: Vec<PathBuf> = entries.map(|entry| entry.expect("a readable folder").path()).collect();
    programs.retain(|path| path.extension() == Some(OsStr::new("c")));
    programs.sort();
    programs
}

impl Target<'_> {
    fn build(&self, source: &Path, variant: &str) -> Result<PathBuf, String> {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("emulated").join(self.name);
        std::fs::create_dir_all(&folder).map_err(|error| error.to_string())?;
        let name = source.file_stem().unwrap_or_default().to_string_lossy();
        let out = folder.join(format!("{name}{}", variant.replace(' ', "")));
        let [program, arguments @ ..] = &self.compiler[..] else { return Err("no compiler".into()) };
        let output = Command::new(program)
            .args(arguments)
            .args(FREESTANDING)
            .args(self.flags)
            .args(variant.split_whitespace())
            .args([source, Path::new("-o"), &out])
            .output()
            .map_err(|error| format!("{}: {error}", program.display()))?;
        match output.status.success() {
            true => Ok(out),
            false => Err(String::from_utf8_lossy(&output.stderr).into_owned()),
        }
    }

    /// Why this target cannot be had here.
    fn missing(&self) -> Option<String> {
        let [program, arguments @ ..] = &self.compiler[..] else { return Some("no compiler".into()) };
        let output = Command::new(program).args(arguments).arg("--version").output();
        match output.map(|output| output.status.success()) {
            Ok(true) => None,
            _ => Some(format!("there is no {:?}", self.compiler)),
        }
    }

    fn run(&self, emulator: &Emulator, source: &Path, variant: &str) -> Result<Tally, String> {
        let program = Program::open(&self.build(source, variant)?)?;
        compare(&program, &emulator.run(&program)?, PacMask::from_address_bits(self.address_bits))
    }

    /// All programs in all variants; none, with a word why, if what that needs is missing here.
    fn compare(&self) -> Option<Tally> {
        let emulator = Emulator::find(&truth().join("emulate.py"));
        let emulator = match (emulator, self.missing()) {
            (Ok(emulator), None) => emulator,
            (Err(reason), _) | (_, Some(reason)) => {
                println!("{}: skipped, {reason}", self.name);
                return None;
            }
        };
        let mut total = Tally::default();
        for source in programs() {
            let program = source.file_stem().unwrap_or_default().to_string_lossy();
            if self.without.contains(&&*program) {
                continue;
            }
            for variant in self.variants {
                let name = format!("{} {program} {variant}", self.name);
                let tally =
                    self.run(&emulator, &source, variant).unwrap_or_else(|error| panic!("{name}: {error}"));
                println!("{}", tally.line(&name));
                total += tally;
            }
        }
        println!("{}", total.line(&format!("{} in all", self.name)));
        Some(total)
    }

    /// Every walk must be right.
    fn check(&self) {
        let Some(total) = self.compare() else { return };
        assert!(total.instructions > 10_000, "hardly anything was compared");
        assert!(
            total.wrong_by_frame_pointers > 0,
            "functions without frames are there, so the comparison sees nothing"
        );
        let unexpected = unexpected_in(&total);
        assert_eq!(unexpected, 0, "{unexpected} walks are wrong that should not be");
    }
}

/// Prints the wrong walks and returns how many of them no exception allows.
fn unexpected_in(total: &Tally) -> u64 {
    let mut unexpected = 0;
    for mismatch in &total.mismatches {
        match EXCEPTIONS.iter().find(|exception| exception.allows(mismatch)) {
            Some(Exception { reason, .. }) => println!("    as expected, {mismatch} ({reason})"),
            None => {
                unexpected += mismatch.count;
                println!("    {mismatch}");
            }
        }
    }
    unexpected
}

#[test]
fn x86_64_linux() {
    let target = Target {
        name: "x86_64-linux",
        compiler: vec!["x86_64-linux-gnu-gcc".into()],
        flags: GCC,
        without: &[],
        address_bits: 48,
        variants: &[
            "-O0",
            "-O1",
            "-O2",
            "-O3",
            "-Os",
            "-O2 -fno-omit-frame-pointer",
            "-O2 -fstack-clash-protection",
            "-O2 -fcf-protection",
            "-O2 -mstackrealign",
            "-O2 -mno-red-zone -fpic",
        ],
    };
    target.check();
}

#[test]
fn arm64_linux() {
    let target = Target {
        name: "arm64-linux",
        compiler: vec!["aarch64-linux-gnu-gcc".into()],
        flags: GCC,
        without: &[],
        address_bits: 48,
        variants: &[
            "-O0",
            "-O1",
            "-O2",
            "-O3",
            "-Os",
            "-O2 -fomit-frame-pointer",
            "-O2 -fstack-clash-protection",
            "-O2 -mbranch-protection=pac-ret+leaf",
            "-O2 -fomit-frame-pointer -march=armv8.3-a -mbranch-protection=pac-ret+leaf+b-key",
        ],
    };
    target.check();
}

/// The name of a target of clang's, which zig brings with linkers for ELF and Mach-O.
fn zig(target: &str) -> Vec<PathBuf> {
    let arguments = ["-m", "ziglang", "cc", "-target", target].map(PathBuf::from);
    [python()].into_iter().chain(arguments).collect()
}

const ZIG_MACHO: &[&str] = &["-fno-sanitize=all", "-Wl,-e,_start"];
const ZIG_ELF: &[&str] = &["-fno-sanitize=all", "-static", "-Wl,--eh-frame-hdr"];

#[test]
fn arm64_linux_clang() {
    let target = Target {
        name: "arm64-linux-clang",
        compiler: zig("aarch64-linux-none"),
        flags: ZIG_ELF,
        variants: &["-O0", "-O1", "-O2", "-O2 -fomit-frame-pointer -mbranch-protection=pac-ret+leaf"],
        without: &["jumps"],
        address_bits: 48,
    };
    target.check();
}

#[test]
fn x86_64_linux_clang() {
    let target = Target {
        name: "x86_64-linux-clang",
        compiler: zig("x86_64-linux-none"),
        flags: ZIG_ELF,
        variants: &["-O0", "-O1", "-O2", "-O2 -fomit-frame-pointer"],
        without: &[],
        address_bits: 48,
    };
    target.check();
}
/// clang with LLVM's linker for Mach-O, which writes tables as Apple's does.
fn clang(target: &str) -> Vec<PathBuf> {
    ["clang", "-target", target, "-fuse-ld=lld"].map(PathBuf::from).to_vec()
}

const CLANG_MACHO: &[&str] = &["-Wl,-e,_start"];

/// Tables for calls, as Apple's compilers make them, and tables for every instruction. All frames have frame pointers:
/// where they have none on arm64, they need `__eh_frame`, which LLVM's linker before version 15 leaves without addresses.
const MACOS: &[&str] = &[
    "-O0 -funwind-tables",
    "-O1 -funwind-tables",
    "-O2 -funwind-tables",
    "-Os -funwind-tables",
    "-O2 -fasynchronous-unwind-tables",
];

#[test]
fn arm64_macos() {
    let target = Target {
        name: "arm64-macos",
        compiler: clang("arm64-apple-macos12"),
        flags: CLANG_MACHO,
        variants: MACOS,
        without: &["jumps"],
        address_bits: 47,
    };
    target.check();
}

#[test]
fn x86_64_macos() {
    let target = Target {
        name: "x86_64-macos",
        compiler: clang("x86_64-apple-macos12"),
        flags: CLANG_MACHO,
        variants: MACOS,
        without: &[],
        address_bits: 47,
    };
    target.check();
}

/// zig's linker writes other tables than LLVM's, and knows those of `__eh_frame`, too, which frames need that compact
/// encodings cannot describe.
#[test]
fn arm64_macos_zig() {
    let target = Target {
        name: "arm64-macos-zig",
        compiler: zig("aarch64-macos"),
        flags: ZIG_MACHO,
        // The last as Apple's compilers make tables: for calls only.
        variants: &[
            "-O0",
            "-O1",
            "-O2",
            "-O2 -fomit-frame-pointer",
            "-O2 -fomit-frame-pointer -funwind-tables -fno-asynchronous-unwind-tables",
        ],
        without: &["jumps"],
        address_bits: 47,
    };
    target.check();
}

#[test]
fn x86_64_macos_zig() {
    let target = Target {
        name: "x86_64-macos-zig",
        compiler: zig("x86_64-macos"),
        flags: ZIG_MACHO,
        variants: &[
            "-O0",
            "-O1",
            "-O2",
            "-O2 -fomit-frame-pointer",
            "-O2 -fomit-frame-pointer -funwind-tables -fno-asynchronous-unwind-tables",
        ],
        without: &[],
        address_bits: 47,
    };
    target.check();
}

/// Without tables some instructions remain at which a caller is missed; never so many as by the frame pointer alone.
#[test]
fn without_tables() {
    let compilers = [("arm64-linux", "aarch64-linux-gnu-gcc"), ("x86_64-linux", "x86_64-linux-gnu-gcc")];
    for (name, compiler) in compilers {
        let target = Target {
            name: &format!("{name}-without-tables"),
            compiler: vec![compiler.into()],
            flags: GCC,
            variants: &[
                "-O0 -fno-asynchronous-unwind-tables -fno-unwind-tables -fno-omit-frame-pointer",
                "-O2 -fno-asynchronous-unwind-tables -fno-unwind-tables -fno-omit-frame-pointer",
            ],
            without: &["jumps"],
            address_bits: 48,
        };
        let Some(total) = target.compare() else { continue };
        assert!(total.instructions > 10_000, "hardly anything was compared");
        let share = total.wrong as f64 / total.instructions as f64;
        assert!(share < 0.05, "{:.1} % of the walks are wrong", 100.0 * share);
        assert!(total.wrong * 4 < total.wrong_by_frame_pointers, "hardly better than frame pointers");
    }
}
