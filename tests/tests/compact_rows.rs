//! Compact unwind information of programs that are built for macOS: each function's encoding is the one that the compiler
//! wrote, and each instruction's rule is the one of the compiler's call frame information.

use freezeframe_arch::Architecture;
use freezeframe_tests::macho::{architecture, build, entries, zig};
use freezeframe_unwind::images::{Image, ImageTable};
use freezeframe_unwind::memory::SliceMemory;
use freezeframe_unwind::rule::SavedRule;
use freezeframe_unwind::tables::cfi::{RowContext, Tables};
use freezeframe_unwind::tables::compact::{CompactTable, Encoding, Unwinding};
use freezeframe_unwind::tables::prologue::{Found, Position, look_ahead};
use gimli::{EhFrame, EndianSlice, LittleEndian, UnwindSection};
use object::{Object, ObjectSection, ObjectSymbol};
use std::collections::HashMap;
use std::path::{Path, PathBuf};

/// Where the programs are put: anywhere but where they were linked.
const LOADED: u64 = 0x7_4000_0000;
/// The mode and what it says, without the number of the personality and the marks.
const MEANING: u32 = 0x0fff_ffff;

#[derive(Debug, Default)]
struct Tally {
    functions: usize,
    encodings: HashMap<u32, usize>,
    dwarf: usize,
    instructions: usize,
    prologues: usize,
    epilogues: usize,
    by_other_register: usize,
    differences: Vec<String>,
}

struct Program<'a> {
    bytes: &'a [u8],
    image: &'a Image,
    architecture: Architecture,
    symbols: HashMap<String, u64>,
}

impl Program<'_> {
    fn memory(&self) -> SliceMemory<'_> {
        SliceMemory::new(LOADED, self.bytes)
    }

    fn table(&self) -> CompactTable {
        CompactTable { section: self.image.unwind_info, image: self.image.range.start, text: self.image.text }
    }

    /// As the walk does for a thread that stands at `pc`.
    fn rule(&self, pc: u64) -> Option<(SavedRule, Found)> {
        let function = self.table().find(&mut self.memory(), pc).ok()?;
        let start = function.code.start;
        let unwinding = function.encoding.unwinding(&mut self.memory(), self.architecture, start).ok()?;
        let Unwinding::Rule(body) = unwinding else { return None };
        let position = Position { pc, function: function.code, body: Some(&body) };
        let found = look_ahead(&mut self.memory(), self.architecture, &position);
        match found {
            Found::Prologue(rule) | Found::Epilogue(rule) => Some((rule, found)),
            Found::Body => Some((body, found)),
        }
    }
}

const fn dwarf_mode(architecture: Architecture) -> u32 {
    match architecture {
        Architecture::Arm64 => 0x0300_0000,
        Architecture::X86_64 => 0x0400_0000,
    }
}

/// Every function that the object file lists has its encoding in the program, at its first byte and at its last.
fn compare_encodings(object: &object::File<'_>, program: &Program<'_>, tally: &mut Tally) {
    for entry in entries(object) {
        let Some(address) = program.symbols.get(&entry.name) else { continue };
        tally.functions += 1;
        *tally.encodings.entry(entry.encoding & MEANING).or_default() += 1;
        for pc in [*address, address + u64::from(entry.length) - 1] {
            let found = program.table().find(&mut program.memory(), pc).map(|function| function.encoding.0);
            let is_dwarf = entry.encoding & 0x0f00_0000 == dwarf_mode(program.architecture);
            let mask = if is_dwarf { 0x0f00_0000 } else { MEANING };
            let same = found.is_ok_and(|found| found & mask == entry.encoding & mask);
            if !same {
                let message = format!("{} {pc:#x}: {found:x?}, not {:#x}", entry.name, entry.encoding);
                tally.differences.push(message);
            }
        }
    }
}

/// Every function of the program whose encoding points into `__eh_frame` has an FDE there, which contains it and is the one
/// that a search from the start finds.
fn compare_fdes(program: &Program<'_>, tally: &mut Tally) {
    let tables = Tables { eh_frame: Some(program.image.eh_frame), ..Tables::new(program.image.range) };
    let mut context = RowContext::new();
    for (name, pc) in &program.symbols {
        let Ok(function) = program.table().find(&mut program.memory(), *pc) else { continue };
        let Encoding(encoding) = function.encoding;
        if encoding & 0x0f00_0000 != dwarf_mode(program.architecture) {
            continue;
        }
        let Ok(Unwinding::Dwarf { fde }) =
            function.encoding.unwinding(&mut program.memory(), program.architecture, 0)
        else {
            continue;
        };
        tally.dwarf += 1;
        let place = program.image.eh_frame.start + u64::from(fde);
        let (memory, architecture) = (&mut program.memory(), program.architecture);
        let direct =
            tables.row_at(memory, architecture, place, *pc, &mut context).map(|row| format!("{row:?}"));
        let searched = tables.row(memory, architecture, *pc, &mut context).map(|row| format!("{row:?}"));
        if direct != searched || direct.is_err() {
            tally.differences.push(format!("{name} {pc:#x}: {direct:?}, not {searched:?}"));
        }
    }
}

const fn followed(architecture: Architecture) -> &'static [u16] {
    match architecture {
        Architecture::X86_64 => &[3, 12, 13, 14, 15, 6],
        Architecture::Arm64 => &[19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29],
    }
}

/// None if the CFAs are by different registers.
fn same(
    program: &Program<'_>,
    rule: &SavedRule,
    row: &gimli::UnwindTableRow<usize>,
) -> Option<Result<(), String>> {
    let gimli::CfaRule::RegisterAndOffset { register, offset } = row.cfa() else { return None };
    let (by, from) = rule.cfa();
    if by != register.0 {
        return None;
    }
    if i64::from(from) != *offset {
        return Some(Err(format!("cfa = r{by} + {from}, not {offset}")));
    }
    for number in followed(program.architecture) {
        let ours = rule.saved(program.architecture, *number);
        let theirs = match row.register(gimli::Register(*number)) {
            Some(gimli::RegisterRule::Offset(offset)) => Some(offset),
            _ => None,
        };
        // One of them may find a register where it still is, or is again.
        if let (Some(ours), Some(theirs)) = (ours, theirs)
            && ours != theirs
        {
            return Some(Err(format!("r{number} at cfa{ours:+}, not {theirs:+}")));
        }
    }
    let theirs = match program.architecture {
        Architecture::Arm64 => row.register(gimli::Register(30)),
        Architecture::X86_64 => row.register(gimli::Register(16)),
    };
    match (rule.return_address(), theirs) {
        (Some(ours), Some(gimli::RegisterRule::Offset(theirs))) if ours != theirs => {
            Some(Err(format!("return address at cfa{ours:+}, not {theirs:+}")))
        }
        _ => Some(Ok(())),
    }
}

/// The rule at every place where call frame information changes, and on arm64 at every instruction. `rows` was compiled
/// from the same source to the same code as `plain`, but with rows for each instruction.
fn compare_rows(plain: &object::File<'_>, rows: &object::File<'_>, program: &Program<'_>, tally: &mut Tally) {
    let Some(section) = rows.section_by_name("__eh_frame") else { return };
    let data = section.data().expect("a section with contents");
    let mut eh_frame = EhFrame::from(EndianSlice::new(data, LittleEndian));
    eh_frame.set_address_size(8);
    if program.architecture == Architecture::Arm64 {
        eh_frame.set_vendor(gimli::Vendor::AArch64);
    }
    let bases = gimli::BaseAddresses::default().set_eh_frame(section.address());
    let mut fdes = Vec::new();
    let mut iterator = eh_frame.entries(&bases);
    while let Some(entry) = iterator.next().expect("a sound table") {
        if let gimli::CieOrFde::Fde(partial) = entry {
            fdes.push(partial.parse(EhFrame::cie_from_offset).expect("a sound FDE"));
        }
    }
    // Addresses in objects are right on x86_64 only. Else both lists are in the order of the functions, but that those with
    // exceptions come last, behind a CIE of their own.
    let by_address = fdes.clone();
    let (plain_fdes, others): (Vec<_>, Vec<_>) =
        fdes.into_iter().partition(|fde| fde.personality().is_none());
    let (mut plain_fdes, mut others) = (plain_fdes.into_iter().peekable(), others.into_iter());
    let pairs = entries(plain).into_iter().map(|entry| {
        let fde = match program.architecture {
            Architecture::X86_64 => {
                by_address.iter().find(|fde| fde.initial_address() == entry.start).cloned()
            }
            Architecture::Arm64 => {
                plain_fdes.next_if(|fde| fde.len() == u64::from(entry.length)).or_else(|| others.next())
            }
        };
        let fde = fde.filter(|fde| fde.len() == u64::from(entry.length)).expect("an FDE for each function");
        (entry, fde)
    });
    let mut context = gimli::UnwindContext::new();
    for (entry, fde) in pairs {
        let Some(address) = program.symbols.get(&entry.name) else { continue };
        let mut rows = fde.rows(&eh_frame, &bases, &mut context).expect("a sound FDE");
        while let Some(row) = rows.next_row().expect("a sound FDE") {
            let start = row.start_address() - fde.initial_address();
            let end = row.end_address() - fde.initial_address();
            let step = if program.architecture == Architecture::Arm64 { 4 } else { usize::MAX };
            for offset in (start..end).step_by(step) {
                let pc = address + offset;
                let Some((rule, found)) = program.rule(pc) else { continue };
                tally.instructions += 1;
                tally.prologues += usize::from(matches!(found, Found::Prologue(_)));
                tally.epilogues += usize::from(matches!(found, Found::Epilogue(_)));
                match same(program, &rule, row) {
                    None => tally.by_other_register += 1,
                    Some(Ok(())) => {}
                    Some(Err(difference)) => {
                        tally
                            .differences
                            .push(format!("{} + {offset:#x}: {found:?}: {difference}", entry.name));
                    }
                }
            }
        }
    }
}

fn text<'a>(object: &object::File<'a>) -> &'a [u8] {
    object.section_by_name("__text").and_then(|section| section.data().ok()).unwrap_or(&[])
}

fn compare(zig: &[String], target: &str, options: &[&str], tally: &mut Tally) {
    let programs = Path::new(env!("CARGO_MANIFEST_DIR")).join("programs");
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
    let name = format!("{target}{}", options.concat());
    let [plain, rows, linked] = ["o", "rows.o", "exe"].map(|kind| folder.join(format!("{name}.{kind}")));
    let (source, main) = (programs.join("frames_macho.cpp"), programs.join("main_macho.c"));
    let compile = |more: &[&str], output: &Path| {
        build(zig, target, &[options, &["-c"], more].concat(), output, &[&source])
    };
    // Rows for epilogues, zig's default, would make nearly every function of arm64 one that needs an FDE.
    let without_rows = ["-fno-asynchronous-unwind-tables", "-funwind-tables"];
    let with_rows = ["-femit-dwarf-unwind=always", "-fasynchronous-unwind-tables"];
    if !compile(&without_rows, &plain)
        || !compile(&with_rows, &rows)
        // Always the same, for zig compiles a library of C++ anew for each level of optimization.
        || !build(zig, target, &["-O2", "-g", "-Wl,--no-gc-sections"], &linked, &[&plain, &main])
    {
        tally.differences.push(format!("{name}: not built"));
        return;
    }
    let [plain, rows, linked] = [plain, rows, linked].map(|path| std::fs::read(path).expect("built above"));
    let mut images = Box::new(ImageTable::new());
    let added = images.add(&mut SliceMemory::new(LOADED, &linked), LOADED, b"program");
    let image = added.and_then(|range| images.find(range.start)).expect("a program has an image").1;
    let file = object::File::parse(&*linked).expect("a program");
    let names =
        file.symbols().filter(|symbol| symbol.is_definition() && symbol.kind() == object::SymbolKind::Text);
    let symbols =
        names.filter_map(|s| Some((s.name().ok()?.to_string(), s.address().wrapping_add(image.slide))));
    let program =
        Program { bytes: &linked, image, architecture: architecture(&file), symbols: symbols.collect() };
    let [plain, rows] = [&plain, &rows].map(|bytes| object::File::parse(&**bytes).expect("an object"));
    compare_encodings(&plain, &program, tally);
    compare_fdes(&program, tally);
    if text(&plain) == text(&rows) {
        compare_rows(&plain, &rows, &program, tally);
    } else {
        println!("{name}: the code differs with rows");
    }
}

#[test]
fn encodings_and_rules_are_what_the_compiler_says() {
    let Some(zig) = zig() else {
        println!("skipped: no zig; python3 -m pip install ziglang, or FREEZEFRAME_ZIG=path");
        return;
    };
    let frames: [&[&str]; 4] = [&["-O2"], &["-O0"], &["-Os"], &["-O3"]];
    let without: &[&str] = &["-O2", "-fomit-frame-pointer"];
    let signed: &[&str] = &["-O2", "-mbranch-protection=pac-ret"];
    for (target, special) in [("aarch64-macos", signed), ("x86_64-macos", without)] {
        let mut tally = Tally::default();
        for options in frames.into_iter().chain([special]) {
            compare(&zig, target, options, &mut tally);
        }
        let Tally {
            functions,
            encodings,
            dwarf,
            instructions,
            prologues,
            epilogues,
            by_other_register,
            differences,
        } = &tally;
        println!(
            "{target}: {functions} functions with {} encodings, {dwarf} lookups of FDEs; {instructions} instructions, \
             {prologues} in prologues, {epilogues} before returns, {by_other_register} by another register; {} \
             differences",
            encodings.len(),
            differences.len()
        );
        differences.iter().take(40).for_each(|difference| println!("  {difference}"));
        assert!(*functions > 0 && *instructions > 0);
        assert!(differences.is_empty(), "{} differences", differences.len());
    }
}
