//! Every row: our rows of call frame information are gimli's, in all the real tables that are at hand.

use freezeframe_arch::Architecture;
use freezeframe_tests::elf::{CfiFile, SectionMemory, loaded_files};
use freezeframe_tests::oracle;
use freezeframe_unwind::images::ImageTable;
use freezeframe_unwind::memory::{Memory, ProcessMemory};
use freezeframe_unwind::rule::ReturnAddressSign;
use freezeframe_unwind::tables::cfi::{RowContext, Tables};
use std::path::{Path, PathBuf};
use std::process::Command;

/// How many entries the linear search may pass in one file of a debug build: it takes the square of the file's size.
/// A release build searches for every row.
const DEBUG_LINEAR_STEPS: usize = 1_000_000;
/// Of how many rows a debug build compares one. A release build compares all.
const DEBUG_ROWS: usize = 4;

#[derive(Debug, Default)]
struct Tally {
    files: usize,
    fdes: usize,
    rows: usize,
    linear_rows: usize,
    /// Rules of vector registers and the like, which our rows do not keep.
    untracked: usize,
    /// Lookups whose return address is signed.
    signed: usize,
    differences: Vec<String>,
}

impl Tally {
    fn add(&mut self, other: Self) {
        self.files += other.files;
        self.fdes += other.fdes;
        self.rows += other.rows;
        self.linear_rows += other.linear_rows;
        self.untracked += other.untracked;
        self.signed += other.signed;
        self.differences.extend(other.differences);
    }

    fn print(&self, name: &str) {
        let Self { files, fdes, rows, linear_rows, untracked, signed, differences } = self;
        println!(
            "{name}: {files} files, {fdes} FDEs, {rows} rows compared at both ends ({linear_rows} also by the linear \
             search), {signed} lookups signed, {untracked} rules of untracked registers, {} differences",
            differences.len()
        );
    }
}

/// One way to look a row up.
struct Lookup<'a> {
    name: &'static str,
    tables: Tables,
    memory: SectionMemory<'a>,
}

fn compare(name: &str, file: &CfiFile) -> Tally {
    let mut tally = Tally { files: 1, ..Tally::default() };
    let linear = Tables { eh_frame_hdr: None, ..file.tables() };
    let lent = Lookup { name: "header", tables: file.tables(), memory: file.memory(true) };
    let copied = Lookup { name: "header, copied", tables: file.tables(), memory: file.memory(false) };
    let linear = Lookup { name: "linear", tables: linear, memory: file.memory(true) };
    let mut rows = 0;
    let entries = oracle::each_row(file, |_, _, _| rows += 1).unwrap_or(0);
    let every = match cfg!(debug_assertions) {
        true => (entries * rows / DEBUG_ROWS / DEBUG_LINEAR_STEPS).max(1),
        false => 1,
    };
    let portion = if cfg!(debug_assertions) { DEBUG_ROWS } else { 1 };
    let mut seen = 0;
    let mut context = RowContext::new();
    let mut differences = Vec::new();
    let (mut compared, mut by_linear, mut untracked, mut signed) = (0, 0, 0, 0);
    let fdes = oracle::each_row(file, |section, fde, row| {
        if row.start_address() >= row.end_address() {
            return;
        }
        seen += 1;
        if seen % portion != 0 {
            return;
        }
        let with_linear = compared % every == 0;
        compared += 1;
        by_linear += usize::from(with_linear);
        let tracked = oracle::tracked(file.architecture);
        untracked +=
            row.registers().filter(|(r, _)| r.0 >= tracked && *r != gimli::AArch64::RA_SIGN_STATE).count();
        for pc in [row.start_address(), row.end_address() - 1] {
            for Lookup { name: way, tables, memory } in [&lent, &copied, &linear] {
                if *way == "linear" && !with_linear {
                    continue;
                }
                let ours = tables.row(&mut { *memory }, file.architecture, pc, &mut context);
                let result = ours.map_err(|error| error.to_string()).and_then(|ours| {
                    oracle::same_rules(file, section, ours, row)?;
                    let range = ours.range();
                    if (range.start, range.end) != (row.start_address(), row.end_address()) {
                        return Err(format!("range {range:x?}"));
                    }
                    if ours.return_column() != u64::from(fde.cie().return_address_register().0) {
                        return Err(format!("return column {}", ours.return_column()));
                    }
                    if ours.is_signal_frame() != fde.is_signal_trampoline() {
                        return Err("signal frame".into());
                    }
                    signed += usize::from(ours.sign() != ReturnAddressSign::Plain);
                    Ok(())
                });
                if let Err(difference) = result {
                    differences.push(format!("{name} {pc:#x} by {way}: {difference}"));
                }
            }
        }
    });
    if let Err(error) = &fdes {
        differences.push(format!("{name}: gimli: {error}"));
    }
    tally.fdes = fdes.unwrap_or(0);
    (tally.rows, tally.linear_rows, tally.untracked, tally.signed) = (compared, by_linear, untracked, signed);
    tally.differences = differences;
    tally.print(name);
    tally
}

fn compare_all(paths: impl IntoIterator<Item = PathBuf>) -> Tally {
    let mut total = Tally::default();
    for path in paths {
        match CfiFile::open(&path) {
            Some(file) => total.add(compare(&path.display().to_string(), &file)),
            None => println!("{}: skipped, no ELF file with call frame information", path.display()),
        }
    }
    total
}

fn check(name: &str, total: &Tally) {
    total.print(name);
    for difference in total.differences.iter().take(20) {
        println!("  {difference}");
    }
    assert!(total.rows > 0, "nothing was compared");
    assert!(total.differences.is_empty(), "{} differences", total.differences.len());
}

#[test]
fn every_row_of_every_loaded_and_common_library_is_gimlis() {
    let folders =
        ["/lib64", "/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64", "/usr/lib"];
    let names =
        ["libc.so.6", "libstdc++.so.6", "ld-linux-x86-64.so.2", "ld-linux-aarch64.so.1", "libcrypto.so.3"];
    let common = folders.iter().flat_map(|folder| names.map(|name| Path::new(folder).join(name)));
    let mut paths: Vec<PathBuf> = common.filter_map(|path| path.canonicalize().ok()).collect();
    paths.extend(loaded_files());
    paths.sort();
    paths.dedup();
    check("all x86_64 or arm64 files of this system", &compare_all(paths));
}

#[test]
fn every_row_of_the_vdso_is_gimlis() {
    let mut images = Box::new(ImageTable::new());
    images.refresh().expect("the images of this process");
    let Some(vdso) = images.images().iter().find(|image| images.path(image) == b"[vdso]") else {
        println!("skipped: this process has no vDSO");
        return;
    };
    let mut bytes = vec![0; (vdso.range.end - vdso.range.start).next_multiple_of(4096) as usize];
    let read = ProcessMemory::new().read(vdso.range.start, &mut bytes);
    let file = CfiFile::parse(&bytes[..read]).expect("the vDSO has call frame information");
    check("[vdso]", &compare("[vdso]", &file));
}

#[test]
fn every_row_of_a_program_in_cpp_is_gimlis() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("programs/frames.cpp");
    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join("frames");
    let mut total = Tally::default();
    for options in [&["-O0"][..], &["-O2"], &["-Os", "-fomit-frame-pointer"], &["-O3", "-static"]] {
        let compiled = Command::new("c++").args(options).arg("-o").arg(&program).arg(&source).output();
        match compiled {
            Ok(output) if output.status.success() => {
                let file = CfiFile::open(&program).expect("a compiled program has call frame information");
                total.add(compare(&format!("frames.cpp {options:?}"), &file));
            }
            Ok(output) => println!("skipped {options:?}: {}", String::from_utf8_lossy(&output.stderr)),
            Err(error) => {
                println!("skipped: c++ cannot be run: {error}");
                return;
            }
        }
    }
    check("frames.cpp", &total);
}

#[test]
fn every_row_of_arm64_libraries_is_gimlis() {
    let folder = Path::new("/usr/aarch64-linux-gnu/lib");
    let names = ["libc.so.6", "libstdc++.so.6", "ld-linux-aarch64.so.1", "libm.so.6", "libgcc_s.so.1"];
    let paths: Vec<PathBuf> =
        names.map(|name| folder.join(name)).into_iter().filter(|path| path.exists()).collect();
    if paths.is_empty() {
        println!("skipped: no arm64 libraries in {} (Debian: libstdc++6-arm64-cross)", folder.display());
        return;
    }
    let file = CfiFile::open(&paths[0]).expect("an ELF file");
    assert_eq!(file.architecture, Architecture::Arm64);
    check("all arm64 files", &compare_all(paths));
}

#[test]
fn every_row_with_signed_return_addresses_is_gimlis() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("programs/signed.c");
    let library = Path::new(env!("CARGO_TARGET_TMPDIR")).join("libsigned.so");
    let mut total = Tally::default();
    let options = ["-shared", "-fPIC", "-nostdlib", "-fasynchronous-unwind-tables"];
    // Not with key B: gimli does not know its augmentation.
    for protection in ["-mbranch-protection=pac-ret", "-mbranch-protection=pac-ret+leaf"] {
        for optimize in ["-O0", "-O2"] {
            let mut compiler = Command::new("aarch64-linux-gnu-gcc");
            compiler.args(options).args([protection, optimize, "-o"]).arg(&library).arg(&source);
            match compiler.output() {
                Ok(output) if output.status.success() => {
                    let file =
                        CfiFile::open(&library).expect("a compiled library has call frame information");
                    total.add(compare(&format!("signed.c {protection} {optimize}"), &file));
                }
                Ok(output) => println!("skipped {protection}: {}", String::from_utf8_lossy(&output.stderr)),
                Err(error) => {
                    println!("skipped: aarch64-linux-gnu-gcc cannot be run: {error}");
                    return;
                }
            }
        }
    }
    check("signed.c", &total);
    assert!(total.signed > 0, "no return address was signed");
}
