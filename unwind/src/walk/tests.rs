//! Walks by tables, over images that tests lay out.

extern crate std;
use super::{StopReason, Walk, WalkContext, Walker};
use crate::images::ImageTable;
use crate::memory::SliceMemory;
use crate::rule::{FrameAddress, StackBounds, Trust};
use freezeframe_arch::{PacMask, Registers, RegistersArm64, RegistersX86_64};
use std::sync::Mutex;
use std::vec::Vec;

const IMAGE: u64 = 0x10_0000;
const STACK: u64 = 0x7000_0000;
const CALLER: u64 = IMAGE + 0x800;

/// An ELF image of one page, all of it code, without unwind tables, and `code` at 0x500.
fn image(code: &[u8]) -> Vec<u8> {
    let mut bytes = std::vec![0; 0x1000];
    bytes[..6].copy_from_slice(b"\x7fELF\x02\x01");
    bytes[32] = 64;
    (bytes[54], bytes[56]) = (56, 1);
    let (load, read_execute) = (1, 5);
    (bytes[64], bytes[68]) = (load, read_execute);
    bytes[64 + 40..64 + 48].copy_from_slice(&0x1000u64.to_le_bytes());
    bytes[0x500..0x500 + code.len()].copy_from_slice(code);
    bytes
}

fn stack(words: &[u64]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

/// The frames after the first, and why there are no more.
fn callers(
    registers: Registers,
    image: &[u8],
    stack: &[u8],
) -> (Vec<(FrameAddress, u64, Trust)>, StopReason) {
    static STORAGE: Mutex<(ImageTable, WalkContext)> = Mutex::new((ImageTable::new(), WalkContext::new()));
    let mut storage = STORAGE.lock().unwrap();
    let (images, context) = &mut *storage;
    *images = ImageTable::new();
    let tables = SliceMemory::new(IMAGE, image);
    images.add(&mut { tables }, IMAGE, b"image").unwrap();
    *context = WalkContext::new();
    let mut memory = SliceMemory::new(STACK, stack);
    let bounds = StackBounds::above(STACK);
    let mut walker = Walker::new(&registers, bounds, PacMask::NONE, images, tables, context);
    assert_eq!(walker.next(&mut memory).unwrap().address.raw(), registers.pc());
    let mut frames = Vec::new();
    loop {
        match walker.next(&mut memory) {
            Ok(frame) => frames.push((frame.address, frame.sp, frame.trust)),
            Err(stop) => return (frames, stop),
        }
    }
}

fn x86(rip: u64, rsp: u64, rbp: u64) -> Registers {
    Registers::X86_64(RegistersX86_64 { rip, rsp, rbp, ..Default::default() })
}

#[test]
fn a_stub_of_the_linkage_table_is_left_by_what_it_has_pushed() {
    // push map(%rip); jmp *resolver(%rip); nop; jmp *slot(%rip); push $1; jmp first
    let code = [
        0xff, 0x35, 0, 0, 0, 0, 0xff, 0x25, 0, 0, 0, 0, 0x0f, 0x1f, 0x40, 0, //
        0xff, 0x25, 0, 0, 0, 0, 0x68, 1, 0, 0, 0, 0xe9, 0, 0, 0, 0,
    ];
    let image = image(&code);
    for (offset, pushed) in [(16, 0), (22, 0), (27, 1), (0, 1), (6, 2)] {
        let mut words = std::vec![7; pushed];
        words.push(CALLER);
        let registers = x86(IMAGE + 0x500 + offset, STACK, 0);
        let (frames, stop) = callers(registers, &image, &stack(&words));
        let sp = STACK + 8 * words.len() as u64;
        assert_eq!(frames, [(FrameAddress::ReturnAddress(CALLER), sp, Trust::Cfi)], "at {offset}");
        assert_eq!(stop, StopReason::EndOfStack);
    }
}

#[test]
fn code_without_tables_and_without_a_frame_is_left_by_what_it_pops_before_it_returns() {
    // push %rbp; mov %rsp, %rbp; syscall; pop %rbp; ret
    let mut image = image(&[0x55, 0x48, 0x89, 0xe5, 0x0f, 0x05, 0x5d, 0xc3]);
    let outer = IMAGE + 0x900;
    for behind in [CALLER, outer] {
        image[(behind - IMAGE) as usize - 5] = 0xe8;
    }
    // The caller's frame record lies at 0x20, its return address behind another call.
    let record = STACK + 0x20;
    let ahead = (FrameAddress::ReturnAddress(CALLER), Trust::FramePointer);
    for (offset, words) in [(0, [CALLER, 7, 7, 7, 0, outer]), (6, [record, CALLER, 7, 7, 0, outer])] {
        let (frames, stop) = callers(x86(IMAGE + 0x500 + offset, STACK, record), &image, &stack(&words));
        let found: Vec<_> = frames.iter().map(|(address, _, trust)| (*address, *trust)).collect();
        assert_eq!(found, [ahead, (FrameAddress::ReturnAddress(outer), Trust::FramePointer)], "at {offset}");
        assert_eq!(stop, StopReason::EndOfStack);
    }
    // No call lies before what would be the return address: so the frame pointer leads on.
    let (frames, _) =
        callers(x86(IMAGE + 0x500, STACK, record), &image, &stack(&[CALLER + 1, 7, 7, 7, 0, outer]));
    assert_eq!(frames, [(FrameAddress::ReturnAddress(outer), STACK + 0x30, Trust::FramePointer)]);
}

/// A stack from a handler's frame to what a signal interrupted, whose registers `context` holds by offset.
fn signalled(size: usize, context: &[(usize, u64)]) -> Vec<u64> {
    let mut words = std::vec![0; size / 8];
    words[..2].copy_from_slice(&[0, IMAGE + 0x500]);
    context.iter().for_each(|(offset, value)| words[2 + offset / 8] = *value);
    words
}

#[test]
fn a_call_of_no_code_that_raised_a_signal_is_walked_through() {
    let restorer = [0x48, 0xc7, 0xc0, 15, 0, 0, 0, 0x0f, 0x05];
    // ucontext_t: rsp at 160, rip at 168; rbp, at 120, is null.
    let interrupted = STACK + 1600;
    let mut words = signalled(1600, &[(160, interrupted), (168, 0)]);
    words.push(CALLER);
    let (frames, stop) = callers(x86(CALLER, STACK, STACK), &image(&restorer), &stack(&words));
    let expected = [
        (FrameAddress::ReturnAddress(IMAGE + 0x500), STACK + 16, Trust::FramePointer),
        (FrameAddress::SignalReturn(0), interrupted, Trust::Context),
        (FrameAddress::ReturnAddress(CALLER), interrupted + 8, Trust::Scan),
    ];
    assert_eq!((&frames[..], stop), (&expected[..], StopReason::EndOfStack));
}

#[test]
fn a_signals_context_that_leads_back_to_the_handler_ends_the_walk_soon() {
    let restorer = [0x48, 0xc7, 0xc0, 15, 0, 0, 0, 0x0f, 0x05];
    // rbp, rsp and rip are those that the walk begins with.
    let words = signalled(1600, &[(120, STACK), (160, STACK), (168, CALLER)]);
    let (frames, stop) = callers(x86(CALLER, STACK, STACK), &image(&restorer), &stack(&words));
    assert_eq!(stop, StopReason::NotAscending(STACK));
    assert_eq!(frames.len(), 2 * 16 + 1, "sixteen times round, and half");
}

#[test]
fn a_leaf_of_arm64_that_a_signal_interrupted_has_its_caller_in_the_link_register() {
    let restorer = [0x68, 0x11, 0x80, 0xd2, 0x01, 0, 0, 0xd4];
    // Behind siginfo_t's 128 bytes, ucontext_t: x30 at 184 + 240, sp, pc.
    let interrupted = STACK + 5000;
    let context = 128 + 184;
    let registers = [(context + 240, CALLER), (context + 248, interrupted), (context + 256, IMAGE + 0x600)];
    let mut handler = RegistersArm64 { pc: CALLER, sp: STACK, ..Default::default() };
    handler.x[29] = STACK;
    let words = signalled(5000, &registers);
    let mut image = image(&restorer);
    let ret = 0xd65f_03c0u32;
    image[0x600..0x604].copy_from_slice(&ret.to_le_bytes());
    let (frames, _) = callers(Registers::Arm64(handler), &image, &stack(&words));
    let expected = [
        (FrameAddress::ReturnAddress(IMAGE + 0x500), STACK + 16, Trust::FramePointer),
        (FrameAddress::SignalReturn(IMAGE + 0x600), interrupted, Trust::Context),
        (FrameAddress::ReturnAddress(CALLER), interrupted, Trust::LinkRegister),
    ];
    assert_eq!(frames, expected);
}
