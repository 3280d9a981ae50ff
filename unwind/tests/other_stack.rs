//! A stack that goes on elsewhere.
#![cfg(target_os = "linux")]

use freezeframe_asm::call_on_stack;
use freezeframe_unwind::images::ImageTable;
use freezeframe_unwind::init::pac_mask;
use freezeframe_unwind::memory::ProcessMemory;
use freezeframe_unwind::rule::StackBounds;
use freezeframe_unwind::walk::{StopReason, Walk, WalkContext, Walker};
use std::sync::Mutex;
use std::sync::atomic::AtomicUsize;

static STORAGE: Mutex<(ImageTable, WalkContext)> = Mutex::new((ImageTable::new(), WalkContext::new()));
static WALKED: Mutex<(Vec<u64>, Option<StopReason>)> = Mutex::new((Vec::new(), None));

#[inline(never)]
extern "C" fn walks(_argument: usize) {
    let (images, context) = &mut *STORAGE.lock().unwrap();
    images.refresh().unwrap();
    let registers = freezeframe_arch::capture();
    let bounds = StackBounds::above(registers.sp());
    let mut memory = ProcessMemory::new();
    let mut walker = Walker::new(&registers, bounds, pac_mask(), images, ProcessMemory::new(), context);
    let walked = &mut *WALKED.lock().unwrap();
    let stop = loop {
        match walker.next(&mut memory) {
            Ok(frame) => walked.0.push(frame.address.lookup()),
            Err(stop) => break stop,
        }
    };
    walked.1 = Some(stop);
}

#[inline(never)]
fn goes_to_another_stack(stack: &mut [u8]) {
    static LANDING: AtomicUsize = AtomicUsize::new(0);
    // SAFETY: the stack is this call's own.
    unsafe { call_on_stack(stack.as_mut_ptr_range().end as usize, walks, 1, &LANDING) };
    std::hint::black_box(());
}

/// Whether the other stack lies above or below this one.
#[test]
fn a_walk_follows_a_call_to_another_stack_wherever_that_lies() {
    let mut on_the_heap = vec![0u8; 512 << 10];
    let thread = std::thread::Builder::new().stack_size(16 << 20);
    let thread = thread.spawn(move || {
        let mut inside = [0u8; 512 << 10];
        for stack in [&mut inside[..], &mut on_the_heap[..]] {
            goes_to_another_stack(stack);
            let (frames, stop) = std::mem::take(&mut *WALKED.lock().unwrap());
            assert_eq!(stop, Some(StopReason::EndOfStack), "{frames:x?}");
            let function = goes_to_another_stack as *const () as u64;
            assert!(frames.iter().any(|pc| (function..function + 256).contains(pc)), "{frames:x?}");
        }
    });
    thread.unwrap().join().unwrap();
}
