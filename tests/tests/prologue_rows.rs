//! What is read from instructions is what call frame information says: in the libraries of Linux, whose tables are right
//! at every instruction.

use freezeframe_arch::Architecture;
use freezeframe_tests::code::CodeFile;
use freezeframe_tests::elf::CfiFile;
use freezeframe_tests::oracle;
use freezeframe_unwind::images::Range;
use freezeframe_unwind::memory::Memory;
use freezeframe_unwind::rule::{CfaRule, RegisterRule, Row, SavedRule};
use freezeframe_unwind::tables::cfi::RowContext;
use freezeframe_unwind::tables::prologue::{Found, Position, look_ahead};
use std::path::{Path, PathBuf};
use std::process::Command;

#[derive(Debug, Default)]
struct Tally {
    instructions: usize,
    /// At which something was found that can be compared: a CFA by the same register.
    compared: usize,
    prologues: usize,
    by_other_register: usize,
    differences: Vec<String>,
}

const fn followed(architecture: Architecture) -> &'static [u16] {
    match architecture {
        Architecture::X86_64 => &[3, 12, 13, 14, 15, 6],
        Architecture::Arm64 => &[19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29],
    }
}

/// Where both say that something lies in the frame, they must say where. That it is saved when one still or already has
/// it in its register is no difference: between a store and the change of the register both are right.
fn compare(row: &Row, rule: &SavedRule) -> Result<bool, String> {
    let CfaRule::RegisterOffset { register, offset } = row.cfa() else { return Ok(false) };
    let (by, from) = rule.cfa();
    if register != by {
        return Ok(false);
    }
    if offset != i64::from(from) {
        return Err(format!("cfa = r{by} + {from}, not {offset}"));
    }
    let same = |name: String, ours: Option<i64>, theirs| match (ours, theirs) {
        (Some(ours), RegisterRule::Offset(theirs)) if ours != theirs => {
            Err(format!("{name} at cfa{ours:+}, not {theirs:+}"))
        }
        (Some(ours), RegisterRule::Unspecified | RegisterRule::SameValue) => {
            Err(format!("{name} at cfa{ours:+}, not in its register"))
        }
        _ => Ok(()),
    };
    same("return address".into(), rule.return_address(), row.return_address())?;
    for register in followed(row.architecture()) {
        same(format!("r{register}"), rule.saved(row.architecture(), *register), row.rule(*register))?;
    }
    Ok(true)
}

/// The functions of a file.
fn functions(file: &CfiFile) -> Vec<Range> {
    let mut functions: Vec<Range> = Vec::new();
    oracle::each_row(file, |_, fde, _| {
        let range = Range { start: fde.initial_address(), end: fde.end_address() };
        if functions.last() != Some(&range) {
            functions.push(range);
        }
    })
    .expect("a sound table");
    functions.sort_by_key(|range| range.start);
    functions
}

/// The addresses of a file's instructions but those that do nothing: many of them fill the room between jumps, where no
/// thread comes by.
fn instructions(path: &Path, file: &CfiFile, code: &CodeFile) -> Vec<u64> {
    const NOP: [u8; 4] = [0x1f, 0x20, 0x03, 0xd5];
    match file.architecture {
        Architecture::Arm64 => {
            let all = functions(file).into_iter().flat_map(|range| (range.start..range.end).step_by(4));
            all.filter(|pc| Memory::bytes(&code, *pc).is_some_and(|code| !code.starts_with(&NOP))).collect()
        }
        Architecture::X86_64 => {
            let output = Command::new("objdump").args(["-d", "--no-show-raw-insn"]).arg(path).output();
            let Ok(output) = output else { return Vec::new() };
            let text = String::from_utf8_lossy(&output.stdout);
            let lines = text.lines().filter_map(|line| line.trim_start().split_once(":\t"));
            let lines =
                lines.filter(|(_, text)| !text.contains("nop") && !text.starts_with("xchg   %ax,%ax"));
            lines.filter_map(|(address, _)| u64::from_str_radix(address, 16).ok()).collect()
        }
    }
}

fn check(paths: &[PathBuf]) {
    let mut total = Tally::default();
    for path in paths {
        let Ok(bytes) = std::fs::read(path) else { continue };
        let (Some(file), Some(code)) = (CfiFile::parse(&bytes), CodeFile::parse(&bytes)) else { continue };
        let mut context = RowContext::new();
        let mut tally = Tally::default();
        let functions = functions(&file);
        // All of them take a debug build a minute.
        let every = if cfg!(debug_assertions) { 5 } else { 1 };
        for pc in instructions(path, &file, &code).into_iter().step_by(every) {
            let tables = file.tables();
            let Ok(row) = tables.row(&mut file.memory(true), file.architecture, pc, &mut context) else {
                continue;
            };
            if row.is_signal_frame() || row.return_address() == RegisterRule::Undefined {
                continue;
            }
            tally.instructions += 1;
            let after = functions.partition_point(|range| range.start <= pc);
            let Some(function) = after.checked_sub(1).and_then(|index| functions.get(index)) else {
                continue;
            };
            let position = Position { pc, function: *function, body: None };
            let found = look_ahead(&mut &code, file.architecture, &position);
            let rule = match found {
                Found::Epilogue(rule) => rule,
                // GCC puts arm64's frame record at the bottom of the frame, where Apple's compilers never have it.
                Found::Prologue(rule) if file.architecture == Architecture::X86_64 => rule,
                _ => continue,
            };
            match compare(row, &rule) {
                Ok(true) => tally.compared += 1,
                Ok(false) => tally.by_other_register += 1,
                Err(difference) => {
                    tally.differences.push(format!("{}: {pc:#x}: {difference}", path.display()))
                }
            }
            tally.prologues += usize::from(matches!(found, Found::Prologue(_)));
        }
        println!(
            "{}: {} instructions, {} compared, {} of them in prologues, {} by another register, {} differences",
            path.display(),
            tally.instructions,
            tally.compared,
            tally.prologues,
            tally.by_other_register,
            tally.differences.len()
        );
        tally.differences.iter().take(30).for_each(|difference| println!("  {difference}"));
        total.compared += tally.compared;
        total.differences.extend(tally.differences);
    }
    // Those that were looked into are the tables': hand-written code whose pushes they leave out, registers that are saved
    // some instructions before a row says so, room between functions.
    let few = total.compared / 500;
    assert!(total.differences.len() <= few, "{} differences", total.differences.len());
    if total.compared == 0 {
        println!("skipped: no such libraries, or no objdump");
    }
}

fn libraries(folders: &[&str]) -> Vec<PathBuf> {
    let names = ["libc.so.6", "libstdc++.so.6", "libm.so.6", "libcrypto.so.3"];
    let paths = folders.iter().flat_map(|folder| names.map(|name| Path::new(folder).join(name)));
    paths.filter(|path| path.exists()).collect()
}

#[test]
fn instructions_of_x86_64_say_what_the_rows_say() {
    check(&libraries(&["/usr/lib/x86_64-linux-gnu", "/usr/lib64"]));
}

#[test]
fn instructions_of_arm64_say_what_the_rows_say() {
    check(&libraries(&["/usr/aarch64-linux-gnu/lib", "/usr/lib/aarch64-linux-gnu"]));
}
