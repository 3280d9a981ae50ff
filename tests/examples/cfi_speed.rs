//! What an uncached lookup costs: search, CIE, instructions, and the rule applied, over libc's tables as a slice.
//!
//! `cargo run --release -p freezeframe-tests --example cfi_speed [FILE]`

use freezeframe_arch::{Registers, RegistersX86_64};
use freezeframe_tests::elf::CfiFile;
use freezeframe_tests::oracle;
use freezeframe_unwind::memory::SliceMemory;
use freezeframe_unwind::rule::KnownRegisters;
use freezeframe_unwind::tables::cfi::RowContext;
use gimli::{EhFrameHdr, LittleEndian, UnwindSection};
use std::hint::black_box;
use std::path::Path;
use std::time::Instant;

const ROUNDS: usize = 25;
const STACK: u64 = 0x7fff_0000_0000;

/// The best of several rounds, in ns a lookup.
fn best(pcs: &[u64], mut look_up: impl FnMut(u64) -> bool) -> f64 {
    let passes = 10_000usize.div_ceil(pcs.len());
    let mut round = |_| {
        let start = Instant::now();
        for _ in 0..passes {
            assert_eq!(pcs.iter().filter(|pc| !look_up(**pc)).count(), 0, "lookups failed");
        }
        start.elapsed().as_nanos() as f64 / (passes * pcs.len()) as f64
    };
    (0..ROUNDS).map(&mut round).fold(f64::INFINITY, f64::min)
}

fn main() {
    let path = std::env::args().nth(1).unwrap_or("/usr/lib/x86_64-linux-gnu/libc.so.6".into());
    let file = CfiFile::open(Path::new(&path)).expect("an ELF file with call frame information");
    let header = file.eh_frame_hdr.as_ref().expect(".eh_frame_hdr");
    let start = header.address.min(file.eh_frame.address);
    let mut bytes = vec![0; (header.range().end.max(file.eh_frame.range().end) - start) as usize];
    for section in [header, &file.eh_frame] {
        let at = (section.address - start) as usize;
        bytes[at..at + section.bytes.len()].copy_from_slice(&section.bytes);
    }

    // One address in each row, in an order that no cache likes.
    let mut pcs = Vec::new();
    let fdes = oracle::each_row(&file, |_, _, row| {
        if matches!(row.cfa(), gimli::CfaRule::RegisterAndOffset { .. })
            && row.start_address() < row.end_address()
        {
            pcs.push(row.start_address().midpoint(row.end_address()));
        }
    });
    let mut random = 1u64;
    for n in (1..pcs.len()).rev() {
        random = random.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        pcs.swap(n, (random >> 33) as usize % (n + 1));
    }
    println!("{path}: {} FDEs, {} rows", fdes.expect("readable tables"), pcs.len());

    let few: Vec<u64> = pcs.iter().copied().step_by(pcs.len() / 64).collect();
    for (name, pcs) in [("64 functions, again and again", &few), ("all rows, in random order", &pcs)] {
        measure(name, &file, &SliceMemory::new(start, &bytes), pcs);
    }
    println!("RowContext: {} bytes", size_of::<RowContext>());
}

fn measure(name: &str, file: &CfiFile, memory: &SliceMemory<'_>, pcs: &[u64]) {
    let (tables, architecture) = (file.tables(), file.architecture);
    let mut memory = *memory;
    let mut context = RowContext::new();
    let row = best(pcs, |pc| black_box(tables.row(&mut memory, architecture, pc, &mut context)).is_ok());

    let words = [STACK + (1 << 15); 18];
    let registers = Registers::X86_64(RegistersX86_64::from_words(words));
    let stack = vec![1; 1 << 16];
    let mut stack = SliceMemory::new(STACK, &stack);
    let applied = best(pcs, |pc| {
        let row = tables.row(&mut memory, architecture, pc, &mut context);
        let Ok(row) = row else { return false };
        // Two rows, of libc's signal trampoline, find no return address on this stack.
        let _ = black_box(row.apply(&mut stack, &mut memory, &registers, KnownRegisters::ALL));
        true
    });

    let (section, bases) = (oracle::section(file), oracle::bases(file));
    let header = file.eh_frame_hdr.as_ref().expect(".eh_frame_hdr");
    let index = EhFrameHdr::new(&header.bytes, LittleEndian).parse(&bases, 8).expect("a header");
    let table = index.table().expect("a table");
    let mut theirs = gimli::UnwindContext::new();
    let gimli = best(pcs, |pc| {
        let get_cie = gimli::EhFrame::cie_from_offset;
        black_box(table.unwind_info_for_address(&section, &bases, &mut theirs, pc, get_cie)).is_ok()
    });
    println!(
        "{name}: row {row:.1} ns, row and apply {applied:.1} ns, gimli's row {gimli:.1} ns (best of {ROUNDS})"
    );
}
