//! Damaged tables: they never panic, never hang, and where they still give a row, it is gimli's.

use freezeframe_tests::elf::{CfiFile, Section};
use freezeframe_tests::oracle;
use freezeframe_unwind::rule::{CfaRule, KnownRegisters, Row};
use freezeframe_unwind::tables::cfi::{RowContext, TableError, Tables};
use gimli::UnwindSection;
use proptest::prelude::*;
use std::cell::Cell;
use std::path::Path;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// The first FDEs of a real library, with the part of its index that belongs to them: small enough that a few changed
/// bytes hit something that matters.
fn original() -> Option<&'static CfiFile> {
    static FILE: OnceLock<Option<CfiFile>> = OnceLock::new();
    FILE.get_or_init(|| {
        let paths = ["/usr/lib/x86_64-linux-gnu/libc.so.6", "/usr/lib64/libc.so.6", "/proc/self/exe"];
        let file = paths.iter().find_map(|path| CfiFile::open(Path::new(path)))?;
        Some(shortened(&file, 6000))
    })
    .as_ref()
}

fn shortened(file: &CfiFile, wanted: usize) -> CfiFile {
    let bytes = &file.eh_frame.bytes;
    let word = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"));
    let mut size = 0;
    while size < wanted && size + 4 <= bytes.len() && word(size) != 0 {
        size += 4 + word(size) as usize;
    }
    let mut eh_frame = Section { address: file.eh_frame.address, bytes: bytes[..size].to_vec() };
    eh_frame.bytes.extend([0; 4]);
    // The index is made anew, of the FDEs that are left, where the old one was.
    let mut short = CfiFile { eh_frame, ..file.clone() };
    let start = file.eh_frame_hdr.as_ref().map_or(file.image.start, |header| header.address);
    let mut entries = Vec::new();
    let (section, bases) = (oracle::section(&short), oracle::bases(&short));
    let mut iterator = section.entries(&bases);
    while let Ok(Some(entry)) = iterator.next() {
        if let gimli::CieOrFde::Fde(partial) = entry
            && let Ok(fde) = partial.parse(gimli::EhFrame::cie_from_offset)
        {
            let address = file.eh_frame.address + fde.offset() as u64;
            entries
                .push((fde.initial_address().wrapping_sub(start) as i32, address.wrapping_sub(start) as i32));
        }
    }
    entries.sort();
    let mut header = vec![1, 0x1b, 0x03, 0x3b];
    header.extend((file.eh_frame.address.wrapping_sub(start + 4) as i32).to_le_bytes());
    header.extend((entries.len() as u32).to_le_bytes());
    header.extend(entries.iter().flat_map(|(code, fde)| [code.to_le_bytes(), fde.to_le_bytes()].concat()));
    short.eh_frame_hdr = Some(Section { address: start, bytes: header });
    short
}

#[derive(Debug)]
enum Ours {
    /// Boxed, for it outlives the context.
    Row(Box<Row>),
    Error(TableError),
}

fn ours(file: &CfiFile, tables: &Tables, lends: bool, pc: u64) -> Ours {
    let mut context = RowContext::new();
    match tables.row(&mut file.memory(lends), file.architecture, pc, &mut context) {
        Ok(row) => Ours::Row(Box::new(row.clone())),
        Err(error) => Ours::Error(error),
    }
}

/// Compares our row for `pc` with gimli's, if both have one.
///
/// What may differ, and why:
/// * One has a row and the other an error. We stop at the row that was asked for, and pass over unknown augmentations
///   that have a length and FDEs of a damaged CIE; gimli knows no `DW_EH_PE_aligned`, accepts overlong numbers, and
///   accepts rows in CIEs. So only pairs of rows are compared.
/// * The CFA, where no instruction defined it: "unspecified" with us, register 0 plus 0 with gimli.
/// * FDEs that overlap, or an index out of order: which FDE is found depends on the search. So gimli is asked for the
///   FDE by the same kind of search, and in the index only if the damaged one is still in order.
/// * An index whose pointer to `.eh_frame` is damaged: gimli counts FDEs from there, we go to their addresses.
fn compare(file: &CfiFile, pc: u64, compared: &Cell<usize>) -> Result<(), String> {
    let header = Tables { ..file.tables() };
    let linear = Tables { eh_frame_hdr: None, ..header };
    let (section, bases) = (oracle::section(file), oracle::bases(file));
    let mut context = gimli::UnwindContext::new();
    for (way, tables) in [("header", header), ("linear", linear)] {
        let lent = ours(file, &tables, true, pc);
        let copied = ours(file, &tables, false, pc);
        if format!("{lent:?}") != format!("{copied:?}") {
            // Memory that is copied is read a window at a time: a field may be cut short there instead.
            let short =
                |ours: &Ours| matches!(ours, Ours::Error(TableError::CutShort | TableError::Unreadable(_)));
            if !short(&copied) {
                return Err(format!("{way}: {lent:?} lent, {copied:?} copied"));
            }
        }
        let Ours::Row(row) = lent else { continue };
        let _ =
            row.apply(&mut file.memory(true), &mut file.memory(true), &registers(file), KnownRegisters::ALL);
        let get_cie = gimli::EhFrame::cie_from_offset;
        let theirs = match way {
            "linear" => section.unwind_info_for_address(&bases, &mut context, pc, get_cie).ok().cloned(),
            _ if index_is_sound(file) => {
                let header = file.eh_frame_hdr.as_ref().expect("made above");
                let index = gimli::EhFrameHdr::new(&header.bytes, gimli::LittleEndian).parse(&bases, 8);
                let table = index.as_ref().ok().and_then(|index| index.table());
                table.and_then(|table| {
                    table.unwind_info_for_address(&section, &bases, &mut context, pc, get_cie).ok().cloned()
                })
            }
            _ => None,
        };
        let Some(theirs) = theirs else { continue };
        if row.cfa() != CfaRule::Unspecified {
            compared.set(compared.get() + 1);
            oracle::same_rules(file, &section, &row, &theirs).map_err(|e| format!("{way} {pc:#x}: {e}"))?;
        }
    }
    Ok(())
}

fn index_is_sound(file: &CfiFile) -> bool {
    let Some(header) = &file.eh_frame_hdr else { return false };
    let mut start = vec![1, 0x1b, 0x03, 0x3b];
    start.extend((file.eh_frame.address.wrapping_sub(header.address + 4) as i32).to_le_bytes());
    let table = header.bytes.get(12..).unwrap_or(&[]);
    // As addresses: one that wraps around is the last to gimli, and the first to us.
    let keys = table
        .chunks_exact(8)
        .map(|e| header.address.wrapping_add_signed(i32::from_le_bytes([e[0], e[1], e[2], e[3]]).into()));
    header.bytes.starts_with(&start) && keys.is_sorted_by(|a, b| a < b)
}

fn registers(file: &CfiFile) -> freezeframe_arch::Registers {
    // Into the middle of the tables: memory like any other.
    let words = [file.eh_frame.address + file.eh_frame.bytes.len() as u64 / 2; 18];
    freezeframe_arch::Registers::X86_64(freezeframe_arch::RegistersX86_64::from_words(words))
}

/// Bytes to change, most of them in the first entries; a changed byte is set, or has one bit flipped.
fn changes() -> impl Strategy<Value = Vec<(bool, usize, u8, bool)>> {
    let place = prop_oneof![0..64usize, 0..600usize, 0..6000usize];
    prop::collection::vec((prop::bool::weighted(0.15), place, any::<u8>(), any::<bool>()), 1..12)
}

#[test]
fn damaged_tables_give_gimlis_rows_or_an_error_in_bounded_time() {
    let Some(original) = original() else {
        println!("skipped: no x86_64 or arm64 file with call frame information");
        return;
    };
    let code: Vec<u64> = {
        let mut pcs = Vec::new();
        oracle::each_row(original, |_, _, row| pcs.push(row.start_address())).expect("a real table");
        pcs
    };
    let compared = Cell::new(0);
    let slowest = Cell::new(Duration::ZERO);
    // More by the environment variable PROPTEST_CASES.
    let cases = ProptestConfig::default().cases.max(3000);
    let config = ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() };
    let mut runner = proptest::test_runner::TestRunner::new(config);
    let result = runner.run(&(changes(), any::<prop::sample::Index>()), |(changes, first)| {
        let mut file = original.clone();
        for (in_header, place, byte, set) in changes {
            let section = if in_header { file.eh_frame_hdr.as_mut() } else { Some(&mut file.eh_frame) };
            let bytes = section.map_or(&mut [][..], |section| &mut section.bytes[..]);
            let place = place % bytes.len().max(1);
            if let Some(to) = bytes.get_mut(place) {
                *to = if set { byte } else { *to ^ (1 << (byte & 7)) };
            }
        }
        let start = first.index(code.len());
        for pc in code.iter().chain(&code[..]).skip(start).step_by(code.len() / 12 + 1).take(12) {
            let begin = Instant::now();
            let same = compare(&file, *pc, &compared);
            slowest.set(slowest.get().max(begin.elapsed()));
            prop_assert!(same.is_ok(), "{}", same.unwrap_err());
        }
        Ok(())
    });
    println!(
        "{cases} damaged tables, {} pairs of rows compared, slowest lookup {:?}",
        compared.get(),
        slowest.get()
    );
    if let Err(error) = result {
        panic!("{error}");
    }
    assert!(compared.get() > 0, "no row was compared");
    assert!(slowest.get() < Duration::from_secs(5), "{:?}", slowest.get());
}
