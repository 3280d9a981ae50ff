//! Arbitrary Mach-O images through the index of their functions.

use freezeframe_report::show::{FunctionIndex, Placement};
use freezeframe_unwind::memory::SliceMemory;

/// Where an image lies that is taken as loaded.
const LOADED: u64 = 0x1_8000_0000;

/// The bytes are a file, and an image in memory. What is found lies where it was looked for.
pub fn symbols(bytes: &[u8]) {
    for (address, placement) in [(0, Placement::File), (LOADED, Placement::Loaded)] {
        let mut memory = SliceMemory::new(address, bytes);
        let Some(index) = FunctionIndex::read(&mut memory, address, placement) else { continue };
        let everywhere = (0..0x1000).chain((0..64).map(|bit| 1 << bit)).chain([u64::MAX]);
        for offset in everywhere {
            let Some(function) = index.find(offset) else { continue };
            assert!(function.start <= offset);
            assert_eq!(index.find(function.start), Some(function), "a function begins at its start");
            let name = index.name(&mut memory, &function);
            assert!(name.is_none_or(|name| !name.is_empty() && name.len() <= 3 * bytes.len()));
        }
    }
}
