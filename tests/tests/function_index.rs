//! Functions of Mach-O files that compilers and linkers have made: for every instruction the index finds what LLVM's tools and
//! the `object` crate say of the same file.
//!
//! `FREEZEFRAME_MACHO=file:file` compares other files as well.

use freezeframe_report::show::{FunctionIndex, Placement};
use freezeframe_tests::macho::{build, zig};
use freezeframe_unwind::memory::SliceMemory;
use object::{Object, ObjectSection, ObjectSegment, ObjectSymbol, SectionKind};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

/// What others say of a file, in the addresses that it was linked for.
struct Witness {
    header: u64,
    code: Vec<std::ops::Range<u64>>,
    starts: BTreeSet<u64>,
    /// Names in code by address; those first that other images see.
    names: BTreeMap<u64, Vec<(bool, String)>>,
}

fn witness(path: &Path, bytes: &[u8]) -> Option<Witness> {
    let file = object::File::parse(bytes).ok()?;
    let header = file.segments().find(|segment| segment.name() == Ok(Some("__TEXT")))?.address();
    let code = file.sections().filter(|section| section.kind() == SectionKind::Text);
    let code: Vec<_> = code.map(|section| section.address()..section.address() + section.size()).collect();
    let mut names: BTreeMap<u64, Vec<(bool, String)>> = BTreeMap::new();
    for symbol in file.symbols().filter(|symbol| symbol.is_definition()) {
        if code.iter().any(|range| range.contains(&symbol.address())) {
            names
                .entry(symbol.address())
                .or_default()
                .push((symbol.is_local(), symbol.name().ok()?.to_owned()));
        }
    }
    names.values_mut().for_each(|names| names.sort_by_key(|(local, _)| *local));
    let output =
        Command::new("llvm-objdump").args(["--macho", "--function-starts"]).arg(path).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    let lines = text.lines().filter(|line| line.len() == 16);
    let starts = lines.filter_map(|line| u64::from_str_radix(line, 16).ok());
    let starts = starts.filter(|start| code.iter().any(|range| range.contains(start))).collect();
    Some(Witness { header, code, starts, names })
}

impl Witness {
    /// The start of the function, and the names it may have; none without a name.
    fn at(&self, address: u64) -> Option<(u64, &[(bool, String)])> {
        let section = self.code.iter().find(|range| range.contains(&address))?;
        let start = self.starts.range(section.start..=address).next_back();
        let name = self.names.range(section.start..=address).next_back();
        match (start, name) {
            (Some(start), Some((at, names))) if at >= start => Some((*at, names)),
            (Some(start), _) => Some((*start, &[])),
            (None, Some((at, names))) if self.starts.is_empty() => Some((*at, names)),
            (None, _) => None,
        }
    }
}

/// Compares every fourth byte of code, and the bytes around each start.
fn compare(what: &str, path: &Path) {
    let bytes = std::fs::read(path).expect("a file");
    let Some(witness) = witness(path, &bytes) else {
        println!("{what}: skipped, no llvm-objdump");
        return;
    };
    let mut memory = SliceMemory::new(0, &bytes);
    let begun = Instant::now();
    let index = FunctionIndex::read(&mut memory, 0, Placement::File).expect("an image");
    let built = begun.elapsed();
    let mut addresses: Vec<u64> = witness.code.iter().flat_map(|range| range.clone().step_by(4)).collect();
    let places = witness.starts.iter().chain(witness.names.keys());
    addresses.extend(places.flat_map(|start| [start - 1, *start, start + 1]));
    let (mut named, mut nameless, mut outside, mut differences) = (0, 0, 0, String::new());
    for address in &addresses {
        let found = index.find(address - witness.header);
        let name = found.and_then(|function| index.name(&mut memory, &function));
        let expected = witness.at(*address);
        let same = match (found, expected) {
            (None, None) => true,
            (Some(found), Some((start, names))) => {
                // Of equals any is right; a local one only where no other image sees any.
                let best =
                    |(local, _): &&(bool, String)| Some(*local) == names.first().map(|(local, _)| *local);
                found.start == start - witness.header
                    && match &name {
                        Some(name) => names.iter().filter(best).any(|(_, other)| name == other),
                        None => names.is_empty(),
                    }
            }
            _ => false,
        };
        match (&found, &name) {
            (None, _) => outside += 1,
            (_, None) => nameless += 1,
            _ => named += 1,
        }
        if !same && differences.len() < 4_000 {
            writeln!(differences, "  {address:#x}: {found:?} {name:?}, not {expected:?}").expect("a string");
        }
    }
    let begun = Instant::now();
    let found = addresses.iter().filter(|address| index.find(*address - witness.header).is_some()).count();
    let lookup = begun.elapsed().as_nanos() / addresses.len().max(1) as u128;
    println!(
        "{what}: {} starts, {} places with a name; {named} addresses in functions with a name, {nameless} without, {outside} in \
         none; index built in {built:?}, a lookup takes {lookup} ns",
        witness.starts.len(),
        witness.names.len(),
    );
    assert!(differences.is_empty(), "{what}:\n{differences}");
    assert!(found == named + nameless && named > 0);
}

/// Many small functions, every third of them static; fewer for a debug build, which takes long to find each.
fn many() -> String {
    let mut text = String::from("volatile int v;\n");
    for n in 0..if cfg!(debug_assertions) { 4_000 } else { 20_000 } {
        let local = if n % 3 == 0 { "static " } else { "" };
        writeln!(text, "__attribute__((used)) {local}int function_{n}(int a) {{ return a * {n} + v; }}")
            .expect("a string");
    }
    text
}

/// A library, by clang and LLVM's linker.
fn clang(target: &str, source: &Path, more: &[&str], output: &Path) -> bool {
    let mut command = Command::new("clang");
    command.args(["-target", target, "-fuse-ld=lld", "-nostdlib", "-shared", "-O1", "-o"]).arg(output);
    command.arg(source).args(more).output().is_ok_and(|output| output.status.success())
}

#[test]
fn functions_are_those_that_the_compilers_tools_show() {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
    let programs = Path::new(env!("CARGO_MANIFEST_DIR")).join("programs");
    let source = folder.join("many.c");
    std::fs::write(&source, many()).unwrap();
    for target in ["arm64-apple-macos12", "x86_64-apple-macos12"] {
        let [whole, nameless, without] =
            ["", "-stripped", "-without-starts"].map(|kind| folder.join(format!("many-{target}{kind}")));
        if !clang(target, &source, &[], &whole) {
            println!("{target}: skipped, no clang with lld");
            continue;
        }
        compare(&format!("{target} by lld"), &whole);
        assert!(clang(target, &source, &["-Wl,-no_function_starts"], &without));
        compare(&format!("{target} by lld, without starts"), &without);
        let strip = Command::new("llvm-objcopy").arg("--discard-all").args([&whole, &nameless]).status();
        match strip.is_ok_and(|status| status.success()) {
            true => compare(&format!("{target} by lld, stripped"), &nameless),
            false => println!("{target}: skipped, no llvm-objcopy"),
        }
    }
    match zig() {
        Some(zig) => {
            for target in ["aarch64-macos", "x86_64-macos"] {
                let output = folder.join(format!("functions-{target}"));
                let inputs = ["frames_macho.cpp", "main_macho.c"].map(|name| programs.join(name));
                let inputs = inputs.each_ref().map(PathBuf::as_path);
                assert!(build(&zig, target, &["-O2", "-g", "-Wl,--no-gc-sections"], &output, &inputs));
                compare(&format!("{target} by zig"), &output);
            }
        }
        None => println!("skipped: no zig; python3 -m pip install ziglang, or FREEZEFRAME_ZIG=path"),
    }
    for path in std::env::var_os("FREEZEFRAME_MACHO").iter().flat_map(std::env::split_paths) {
        compare(&path.display().to_string(), &path);
    }
}
