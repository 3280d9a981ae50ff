//! Damaged tables: they never panic, never hang, and where they still give a row, it is gimli's.

use freezeframe_tests::elf::{CfiFile, Section};
use freezeframe_tests::oracle;
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
            let same = oracle::compare(&file, *pc);
            slowest.set(slowest.get().max(begin.elapsed()));
            prop_assert!(same.is_ok(), "{}", same.unwrap_err());
            compared.set(compared.get() + same.unwrap_or(0));
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
