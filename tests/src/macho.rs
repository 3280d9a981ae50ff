//! Mach-O files that are built for a test, and what they say of their functions.

use freezeframe_arch::Architecture;
use object::{Object, ObjectSection, ObjectSymbol, RelocationTarget};
use std::path::Path;
use std::process::Command;

/// The command that runs zig, a compiler and linker for Apple's platforms that runs anywhere: the environment variable
/// `FREEZEFRAME_ZIG`, or Python's module `ziglang`. None if there is neither.
pub fn zig() -> Option<Vec<String>> {
    let named = std::env::var("FREEZEFRAME_ZIG").ok().map(|path| vec![path]);
    let module = ["python3", "-m", "ziglang"].map(String::from).to_vec();
    named.into_iter().chain([module]).find(|command| {
        let run = Command::new(&command[0]).args(&command[1..]).arg("version").output();
        run.is_ok_and(|output| output.status.success())
    })
}

/// Compiles, or links, with zig; what it says if it fails is printed.
pub fn build(zig: &[String], target: &str, options: &[&str], output: &Path, inputs: &[&Path]) -> bool {
    let mut command = Command::new(&zig[0]);
    command
        .args(&zig[1..])
        .arg("c++")
        .args(["-target", target, "-fno-sanitize=all"])
        .args(options)
        .arg("-o")
        .arg(output);
    // A `.c` file is no C++ for it either.
    let output = command.args(inputs).output().expect("zig runs");
    if !output.status.success() {
        println!("{target} {options:?}: {}", String::from_utf8_lossy(&output.stderr));
    }
    output.status.success()
}

/// An entry of the section `__compact_unwind` of an object file: 32 bytes a function.
#[derive(Clone, Debug)]
pub struct Entry {
    /// The function's name.
    pub name: String,
    /// Its address in the object file.
    pub start: u64,
    /// The size of its code.
    pub length: u32,
    /// The encoding that the compiler wrote.
    pub encoding: u32,
}

/// The entries of an object file, in its order.
pub fn entries(object: &object::File<'_>) -> Vec<Entry> {
    let Some(section) = object.section_by_name("__compact_unwind") else { return Vec::new() };
    let data = section.data().expect("a section with contents");
    let relocations: Vec<_> = section.relocations().collect();
    let names: Vec<(u64, &str)> = object
        .symbols()
        // Of weak ones the linker may take another file's.
        .filter(|symbol| symbol.is_definition() && !symbol.is_weak())
        .filter_map(|symbol| Some((symbol.address(), symbol.name().ok()?)))
        .collect();
    let word = |at: usize| u32::from_le_bytes(data[at..at + 4].try_into().expect("four bytes"));
    let long = |at: usize| u64::from_le_bytes(data[at..at + 8].try_into().expect("eight bytes"));
    (0..data.len() / 32)
        .map(|index| {
            let at = index * 32;
            let relocation = |at| relocations.iter().find(|(offset, _)| *offset == at as u64);
            let start = match relocation(at).map(|(_, relocation)| relocation.target()) {
                Some(RelocationTarget::Symbol(symbol)) => {
                    object.symbol_by_index(symbol).expect("a symbol").address().wrapping_add(long(at))
                }
                _ => long(at),
            };
            // The first assembler-local label is not what the linker keeps.
            let mut names =
                names.iter().filter(|(address, name)| *address == start && !name.starts_with("ltmp"));
            let name = names.find(|(_, name)| name.starts_with('_')).map_or("", |(_, name)| name);
            Entry { name: name.into(), start, length: word(at + 8), encoding: word(at + 12) }
        })
        .collect()
}

/// Whose code a file holds.
pub fn architecture(file: &object::File<'_>) -> Architecture {
    match file.architecture() {
        object::Architecture::Aarch64 => Architecture::Arm64,
        _ => Architecture::X86_64,
    }
}
