//! Arbitrary call frame information: where we and gimli both have a row, they are the same.

use super::image::{self, IMAGE};
use super::source::{Source, architecture};
use crate::elf::{CfiFile, Section};
use crate::oracle;
use freezeframe_arch::Architecture;
use freezeframe_unwind::images::Range;

/// How many addresses are looked up in one section.
const LOOKUPS: usize = 12;

/// Flags: 1 arm64, 2 a section as it is, without an index.
pub fn cfi(bytes: &[u8]) {
    let mut source = Source(bytes);
    let flags = source.u8();
    let architecture = architecture(flags);
    let (file, pcs) = match flags & 2 {
        0 => built(&mut source, architecture),
        _ => section(source.0, architecture),
    };
    for pc in pcs.iter().step_by(pcs.len() / LOOKUPS + 1) {
        if let Err(difference) = oracle::compare(&file, *pc) {
            panic!("{difference}");
        }
    }
}

fn built(source: &mut Source<'_>, architecture: Architecture) -> (CfiFile, Vec<u64>) {
    let built = image::elf(source, architecture);
    let [hdr, frame] = built
        .tables
        .map(|range| Section { address: IMAGE + range.start as u64, bytes: built.bytes[range].to_vec() });
    let image = Range { start: IMAGE, end: IMAGE + built.bytes.len() as u64 };
    let file = CfiFile { architecture, image, eh_frame: frame, eh_frame_hdr: Some(hdr) };
    let functions = built.functions.windows(2);
    let mut pcs: Vec<u64> =
        functions.flat_map(|pair| [pair[0], pair[0].midpoint(pair[1]), pair[1].saturating_sub(1)]).collect();
    pcs.dedup();
    (file, pcs)
}

fn section(bytes: &[u8], architecture: Architecture) -> (CfiFile, Vec<u64>) {
    let eh_frame = Section { address: IMAGE, bytes: bytes.to_vec() };
    let image = eh_frame.range();
    let file = CfiFile { architecture, image, eh_frame, eh_frame_hdr: None };
    let mut pcs = Vec::new();
    // Up to where gimli does not go on.
    let _ = oracle::each_row(&file, |_, _, row| pcs.push(row.start_address()));
    (file, pcs)
}
