//! First inputs of the fuzz targets, from real files and real captures, and from what people know to be awkward.

use crate::elf::loaded_files;
use freezeframe_report::encode::{
    About, AppState, Crash, Kind, OpenFiles, Process, ProcessMemory, Strategy, System, Told, Vitals, encode,
};
use freezeframe_unwind::images::ImageTable;
use freezeframe_unwind::init::{Config, init};
use freezeframe_unwind::snapshot::{Options, Snapshot};
use object::{Object, ObjectSection, ObjectSymbol};
use std::path::Path;
use std::process::Command;

/// An input: its target, its name in the corpus, and its bytes.
pub type Seed = (&'static str, String, Vec<u8>);

/// All seeds. What needs a compiler that is not there is left out, and said.
pub fn all(scratch: &Path) -> Vec<Seed> {
    let mut seeds = walks();
    for (number, path) in loaded_files().iter().enumerate() {
        let Ok(bytes) = std::fs::read(path) else { continue };
        seeds.extend(of_elf(number, &bytes));
    }
    seeds.extend(small_elf_files(scratch));
    seeds.extend(of_mach_o());
    seeds.extend(records());
    seeds.extend(steps());
    seeds
}

/// Pieces of a file's call frame information and code.
fn of_elf(number: usize, bytes: &[u8]) -> Vec<Seed> {
    let Ok(file) = object::File::parse(bytes) else { return Vec::new() };
    let mut seeds = Vec::new();
    if let Some(Ok(frame)) = file.section_by_name(".eh_frame").map(|section| section.data()) {
        // Whole entries, as many as there are in some bytes.
        let mut end = 0;
        while end < 1500 {
            let Some(length) = frame.get(end..).and_then(|rest| rest.first_chunk()) else { break };
            end += 4 + u32::from_le_bytes(*length) as usize;
        }
        if let Some(entries) = frame.get(..end) {
            seeds.push(("cfi", format!("entries-{number}"), [&[2], entries, &[0; 4]].concat()));
        }
    }
    seeds.extend(functions(&file).into_iter().zip(0..).map(|(code, function)| {
        ("code", format!("function-{number}-{function}"), [&[0, 0, 0, 0, 0, 0], &code[..]].concat())
    }));
    seeds
}

/// The code of a few functions.
fn functions(file: &object::File<'_>) -> Vec<Vec<u8>> {
    let symbols = file.symbols().chain(file.dynamic_symbols());
    let sized = symbols.filter(|symbol| symbol.is_definition() && (16..200).contains(&symbol.size()));
    let code = sized.filter_map(|symbol| {
        let section = file.section_by_index(symbol.section_index()?).ok()?;
        section.data_range(symbol.address(), symbol.size()).ok()?.map(<[u8]>::to_vec)
    });
    let code: Vec<Vec<u8>> = code.collect();
    code.iter().step_by(code.len() / 12 + 1).cloned().collect()
}

/// A program and a library, as small as linkers make them.
fn small_elf_files(scratch: &Path) -> Vec<Seed> {
    const SOURCE: &str = "int one(int n) { return n + 1; }\nint two(int n) { return one(n) * 2; }\nint main(void) { return two(3); }\n";
    let source = scratch.join("small.c");
    std::fs::write(&source, SOURCE).expect("the temporary folder can be written");
    let builds: [(&str, &[&str]); 3] = [
        ("library", &["-shared", "-fPIC", "-nostdlib"]),
        ("program", &["-nostdlib", "-Wl,-e,main", "-static"]),
        ("stripped", &["-shared", "-fPIC", "-nostdlib", "-s"]),
    ];
    let mut seeds = Vec::new();
    for (name, options) in builds {
        let output = scratch.join(name);
        let mut command = Command::new("cc");
        command.args(["-O1", "-Wl,--build-id", "-Wl,-z,noseparate-code", "-Wl,-z,max-page-size=4096"]);
        let built = command.args(options).arg("-o").arg(&output).arg(&source).status();
        match built {
            Ok(status) if status.success() => {
                let bytes = std::fs::read(&output).expect("the compiler has written it");
                seeds.push(("elf", name.to_owned(), bytes));
            }
            other => println!("left out: {name}: {other:?}"),
        }
    }
    seeds
}

/// Apple's side, from a library that is kept for tests.
fn of_mach_o() -> Vec<Seed> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../report/tests/data/functions.dylib");
    let fat = std::fs::read(path).expect("it is kept in the tree");
    let architectures = [freezeframe_arch::Architecture::X86_64, freezeframe_arch::Architecture::Arm64];
    let mut seeds = Vec::new();
    for (flag, architecture) in (0u8..).zip(architectures) {
        let part = freezeframe_unwind::images::part_of_fat_file(&fat, architecture).expect("it has both");
        let file = object::File::parse(part).expect("a Mach-O file");
        let name = architecture.name();
        if part.len() < 1 << 15 {
            seeds.push(("macho", name.to_owned(), part.to_vec()));
        }
        let data = |name| file.section_by_name(name).and_then(|section| section.data().ok()).unwrap_or(&[]);
        let text = data("__text");
        let info = data("__unwind_info");
        let start = file.section_by_name("__text").map_or(0, |section| section.address() as u32);
        let wanted = [start.to_le_bytes(), (start + 40).to_le_bytes()].concat();
        seeds.push(("compact", format!("section-{name}"), [&[2 | flag, 0, 16], &wanted[..], info].concat()));
        for (number, code) in text.chunks(96).enumerate().step_by(text.len() / 96 / 8 + 1) {
            let head = [flag | (number as u8 % 2 * 2), 0, 0, 0, 0, 4 - flag];
            seeds.push(("code", format!("text-{name}-{number}"), [&head[..], code].concat()));
        }
    }
    seeds
}

/// Thread, image and tables, written as the targets read them.
fn walks() -> Vec<Seed> {
    // push %rbp; mov %rsp, %rbp; call; pop %rbp; ret, and a system call
    let x86: &[u8] =
        &[0x55, 0x48, 0x89, 0xe5, 0xe8, 0, 0, 0, 0, 0x48, 0x83, 0xc4, 0x10, 0x5d, 0xc3, 0x0f, 0x05, 0xc3];
    // stp x29, x30, [sp, #-16]!; mov x29, sp; bl; ldp x29, x30, [sp], #16; ret
    let arm: &[u8] = &[
        0xfd, 0x7b, 0xbf, 0xa9, 0xfd, 0x03, 0, 0x91, 0, 0, 0, 0x94, 0xfd, 0x7b, 0xc1, 0xa8, 0xc0, 0x03, 0x5f,
        0xd6,
    ];
    // rt_sigreturn of either architecture
    let returns: [&[u8]; 2] =
        [&[0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0, 0x0f, 0x05], &[0x68, 0x11, 0x80, 0xd2, 0x01, 0, 0, 0xd4]];
    // cfa = rsp + 16, rbp at cfa - 16; cfa = rbp + 16 behind the next instruction; the same of arm64
    let programs: [&[u8]; 2] =
        [&[0x0e, 16, 0x86, 2, 0x43, 0x0d, 6], &[0x44, 0x0e, 16, 0x9d, 2, 0x9e, 1, 0x44, 0x0d, 29]];
    // rbp frame, without frame, in the FDE; frame, without, FDE
    let encodings: [[u32; 3]; 2] =
        [[0x0100_0000, 0x0202_0000, 0x0400_0018], [0x0400_0000, 0x0200_1000, 0x0300_0018]];
    let mut seeds = Vec::new();
    for flags in 0..32u8 {
        let which = usize::from(flags & 1);
        let mut bytes = vec![flags];
        // Registers: in code, in the stack, and the others in one of these.
        bytes.extend([3, 12, 1, 2]);
        bytes.extend(if which == 0 { [1, 4, 7, 1, 2, 3, 4, 5] } else { [3, 20, 1, 6, 0, 0, 0, 0] });
        bytes.extend(&[0; 3][..if which == 0 { 3 } else { 0 }]);
        let thread = bytes.len();
        let stack = |bytes: &mut Vec<u8>| {
            bytes.extend([24, 0]);
            (0..12u8).for_each(|frame| bytes.extend([1, 2 * frame + 4, 3, 9 + frame % 3 * 20]));
        };
        stack(&mut bytes);
        // The image: flags, code, functions.
        bytes.push(flags >> 1 & 3 | flags << 3 & 16);
        let code: Vec<u8> = [[x86, arm][which], returns[which], [x86, arm][which]].concat();
        bytes.extend((code.len() as u16).to_le_bytes());
        bytes.extend(&code);
        bytes.push(3);
        for encoding in encodings[which] {
            bytes.push([x86, arm][which].len() as u8 + 4);
            bytes.extend(encoding.to_le_bytes());
            bytes.push(programs[which].len() as u8);
            bytes.extend(programs[which]);
        }
        seeds.push(("cfi", format!("built-{flags}"), [&[flags & 1], &bytes[thread + 50..]].concat()));
        seeds.push(("walk", format!("thread-{flags}"), bytes));
    }
    let functions = (0..40u8).flat_map(|n| [n, 0, n, 2 + n % 2, 16]);
    for flags in [0, 1, 4, 5] {
        let head = [flags, 0, 16, 0, 16, 40];
        seeds.push((
            "compact",
            format!("built-{flags}"),
            head.into_iter().chain(functions.clone()).collect(),
        ));
    }
    seeds
}

/// Records of this process, of a freeze and of a crash, as the target takes them: sections without their checksums.
fn records() -> Vec<Seed> {
    let crash = Crash {
        signal: 11,
        code: 1,
        address: Some(0x1234),
        sender: None,
        name: "SIGSEGV",
        code_name: "SEGV_MAPERR",
    };
    let mut images = Box::new(ImageTable::new());
    let suspender = init(Config::default()).expect("captures work here");
    images.refresh().expect("this process has images");
    let mut snapshot = Box::<Snapshot<4, 64>>::default();
    let first = Some(freezeframe_unwind::threads::current());
    let options = Options { first, ..Options::default() };
    snapshot.capture(&suspender, &images, &options).expect("this process has threads");
    let records =
        [(Kind::Freeze, Strategy::RunLoop, None, 1), (Kind::Crash, Strategy::Signal, Some(crash), 2)];
    // No section, in a slot that is being written, or was committed, and more bytes than a slot has.
    let mut seeds: Vec<Seed> = [5, 6]
        .map(|state| {
            let bytes = [&[0, state, 0], &[0; 9][..], &[0xff, 0xff]].concat();
            ("report", format!("longer-than-its-slot-{state}"), bytes)
        })
        .into();
    for (kind, strategy, crash, outcome) in records {
        let mut record = vec![0; 3000];
        let about = About { kind, strategy, crash, ..about() };
        let length = encode(&mut record, &about, &snapshot.view(), &images).bytes;
        // Committed, how it ended, and for how long it was.
        let mut bytes = vec![0, 2, outcome, 0, 0, 0, 20, 0, 0, 0, 0];
        let mut rest = &record[..length];
        while let Some((head, behind)) = rest.split_at_checked(12) {
            let body = u32::from_le_bytes([head[4], head[5], head[6], head[7]]) as usize;
            bytes.extend([head[0], head[4], head[5]]);
            bytes.extend(&behind[..body]);
            rest = &behind[body..];
        }
        bytes.push(0);
        hide_folder(&mut bytes);
        seeds.push(("report", format!("{kind:?}").to_lowercase(), bytes));
    }
    seeds
}

/// Where somebody has built this is nobody's business.
fn hide_folder(bytes: &mut [u8]) {
    let program = std::env::current_exe().unwrap_or_default();
    let folder = program.parent().and_then(Path::to_str).unwrap_or_default().as_bytes();
    let mut at = 0;
    while let Some(rest) = bytes.get_mut(at..).filter(|rest| rest.len() >= folder.len().max(1)) {
        if rest.starts_with(folder) {
            rest[1..folder.len()].fill(b'f');
        }
        at += 1;
    }
}

fn about() -> About<'static> {
    let process = Process {
        pid: 11,
        parent: 1,
        parent_name: b"parent",
        start_ticks: 4711,
        name: b"name",
        path: b"/the/path",
        app: "the.app",
        version: "1.2.3",
        debugged: true,
        app_state: AppState::Background,
        translated: true,
        cpu_ns: 1_234_567_890,
        footprint_bytes: 45_678_592,
    };
    let system = System {
        os: b"an OS",
        build: b"24D70",
        kernel: b"6.1",
        model: b"a model",
        cores: 2,
        page_bytes: 4096,
        memory_bytes: 8_589_934_592,
    };
    About {
        uuid: [1; 16],
        kind: Kind::Freeze,
        strategy: Strategy::RunLoop,
        crash: None,
        component: "the component",
        activity: 64,
        wall_ns: 1_700_000_000_123_456_789,
        started_ns: 10_000_000_000,
        detected_ns: 10_255_000_000,
        continuous_ns: 99_255_000_000,
        discounted_ns: 1_000_000,
        interval_ns: 50_000_000,
        misses: 5,
        late_ticks: 3,
        wakeups: 77,
        boot_id: [9; 16],
        process,
        system,
        told: Told::default(),
        vitals: Some(Vitals {
            process: Some(ProcessMemory { footprint_bytes: 1 << 20, resident_bytes: 2 << 20 }),
            files: Some(OpenFiles { open: 57, limit: None }),
            ..Vitals::default()
        }),
    }
}

/// What happens to a ring and to a run loop.
fn steps() -> Vec<Seed> {
    let mut seeds = Vec::new();
    // A record, a note, and a death at each of its first writes; then all again, in a full ring.
    for at in 1..=16u8 {
        let deaths =
            [[0, at, 0, 0], [4, at, 0, 0], [0, 7, at, 0], [3, 9, 0, 0], [4, 2, at, 0], [5, 0, at % 4, 0]];
        seeds.push(("ring", format!("deaths-{at}"), deaths.concat()));
    }
    let full: Vec<u8> = (0..8).flat_map(|n| [0, n, 0, 0, 4, n, 0, 0]).collect();
    seeds.push(("ring", "full".into(), full.clone()));
    seeds.push((
        "ring",
        "full-read".into(),
        [&full[..], &[5, 1, 0, 0, 5, 0, 0, 0, 1, 3, 9, 0, 7, 0, 0, 0]].concat(),
    ));
    let turns: Vec<u8> = (0..20u8).flat_map(|n| [n.wrapping_mul(40), n % 5, n, n * 3]).collect();
    for misses in [0, 1, 4, 7] {
        seeds.push(("detector", format!("turns-{misses}"), [&[1, 49, misses], &turns[..]].concat()));
    }
    seeds
}
