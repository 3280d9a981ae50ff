//! framehop, by call frame information, with each way it has of allocating.

use super::mapped::Sections;
use super::{Start, cost_of_first, row};
use crate::table::Table;
use crate::walk;
use framehop::{
    AllocationPolicy, CacheNative, ExplicitModuleSectionInfo, MayAllocateDuringUnwind, Module,
    MustNotAllocateDuringUnwind, UnwindRegsNative, Unwinder, UnwinderNative,
};
use freezeframe_arch::Registers;
use std::hint::black_box;

/// All rows of framehop's. Yields its best with its rules kept.
#[inline(never)]
pub(super) fn walks(table: &mut Table, start: &Start<'_>) -> Result<f64, String> {
    let may = Framehop::<MayAllocateDuringUnwind>::new(start);
    let must_not = Framehop::<MustNotAllocateDuringUnwind>::new(start);
    let (mut kept, mut kept_too) = (CacheNative::new_in(), CacheNative::new_in());
    let ours = row(table, "framehop, rules kept", |pcs| may.walk(&mut kept, pcs))?;
    let theirs =
        row(table, "framehop, rules kept, never allocating", |pcs| must_not.walk(&mut kept_too, pcs))?;
    let found = [kept.stats(), kept_too.stats()].map(|stats| 100 * stats.hits() / stats.total().max(1));
    table.notes.push(format!("framehop found {} % and {} % of its rules kept", found[0], found[1]));
    may.first_walk(table, "framehop, a new cache each walk")?;
    must_not.first_walk(table, "framehop, a new cache each walk, never allocating")?;
    Ok(ours.min(theirs))
}

struct Framehop<P: AllocationPolicy> {
    unwinder: UnwinderNative<&'static [u8], P>,
    registers: Registers,
}

impl<P: AllocationPolicy> Framehop<P> {
    fn new(start: &Start<'_>) -> Self {
        let mut unwinder = UnwinderNative::new();
        start.mapped.sections(start.images).iter().for_each(|image| unwinder.add_module(module(image)));
        Self { unwinder, registers: start.registers }
    }

    #[inline]
    fn walk(&self, cache: &mut CacheNative<P>, pcs: &mut [u64]) -> usize {
        // SAFETY: the stack of this thread, all of it described by tables; the end is told by the tables, too.
        let mut read = |address: u64| Ok(unsafe { *(address as *const u64) });
        let registers = native(&self.registers);
        let mut frames = self.unwinder.iter_frames(self.registers.pc(), registers, cache, &mut read);
        let mut filled = 0;
        for slot in pcs {
            let Ok(Some(frame)) = frames.next() else { break };
            *slot = frame.address();
            filled += 1;
        }
        filled
    }

    fn first_walk(&self, table: &mut Table, name: &str) -> Result<f64, String> {
        let mut pcs = vec![0; walk::FRAMES];
        let mut cache = CacheNative::new_in();
        let frames = self.walk(&mut cache, &mut pcs);
        let seen = pcs[..frames].to_vec();
        let renew = |cache: &mut CacheNative<P>| *cache = CacheNative::new_in();
        let cost = cost_of_first(&mut cache, renew, |cache| {
            black_box(self.walk(cache, &mut pcs));
        });
        walk::row(table, name, &seen, cost)
    }
}

/// Addresses in the file are said to be those in memory: that way nothing need be translated.
fn module(sections: &Sections) -> Module<&'static [u8]> {
    let range = |start: u64, bytes: &[u8]| Some(start..start + bytes.len() as u64);
    let (header, eh_frame) = (sections.header.slice(), sections.eh_frame.slice());
    let image = sections.image;
    let info = ExplicitModuleSectionInfo {
        base_svma: image.start,
        eh_frame_hdr_svma: range(sections.header_at, header),
        eh_frame_hdr: Some(header),
        eh_frame_svma: range(sections.eh_frame_at, eh_frame),
        eh_frame: Some(eh_frame),
        ..Default::default()
    };
    Module::new(String::new(), image.start..image.end, image.start, info)
}

#[cfg(target_arch = "x86_64")]
fn native(registers: &Registers) -> UnwindRegsNative {
    UnwindRegsNative::new(registers.pc(), registers.sp(), registers.fp())
}

#[cfg(target_arch = "aarch64")]
fn native(registers: &Registers) -> UnwindRegsNative {
    UnwindRegsNative::new(registers.lr().unwrap_or(0), registers.sp(), registers.fp())
}
