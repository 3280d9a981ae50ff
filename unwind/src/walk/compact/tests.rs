//! Walks out of Mach-O images given as bytes, stopped at each instruction of a function.

extern crate std;
use crate::images::{ImageKind, ImageTable};
use crate::memory::SliceMemory;
use crate::rule::{StackBounds, Trust};
use crate::walk::{StopReason, Walk, WalkContext, Walker};
use freezeframe_arch::{PacMask, Registers, RegistersArm64, RegistersX86_64};
use std::boxed::Box;
use std::vec::Vec;

const LOADED: u64 = 0x2_0000_0000;
const OUTER: u64 = LOADED + 0x1000;
const INNER: u64 = LOADED + 0x1040;
const STACK: u64 = 0x7000_0000;
/// The stack pointer of the outer function at its call.
const TOP: u64 = STACK + 0x80;

/// An image of 0x2000 bytes: two functions with an encoding each, and an end at 0x1080.
fn image(cpu: u32, outer: u32, inner: u32, code: &[u8]) -> Vec<u8> {
    let mut bytes = std::vec![0u8; 0x2000];
    let mut put = |at: usize, part: &[u8]| bytes[at..at + part.len()].copy_from_slice(part);
    let words = |words: &[u32]| words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<u8>>();
    put(0, &words(&[0xfeed_facf, cpu, 0, 2, 1, 152, 0, 0]));
    put(32, &words(&[0x19, 152]));
    put(40, b"__TEXT");
    // vmaddr, vmsize, two offsets; protections, one section.
    put(56, &[0u64, 0x2000, 0, 0].map(u64::to_le_bytes).concat());
    put(88, &words(&[5, 5, 1, 0]));
    put(104, b"__unwind_info");
    put(120, b"__TEXT");
    put(136, &[0x1800u64, 76].map(u64::to_le_bytes).concat());
    put(INNER as usize & 0x1fff, code);
    put(0x1800, &words(&[1, 28, 0, 28, 0, 28, 2, 0x1000, 52, 0, 0x1080, 0, 0]));
    put(0x1800 + 52, &words(&[2, 2 << 16 | 8, 0x1000, outer, 0x1040, inner]));
    bytes
}

/// The raw addresses of a walk, and how it ended.
fn walk(image: &[u8], registers: Registers, stack: &[u64]) -> (Vec<u64>, StopReason) {
    let mut memory = SliceMemory::new(LOADED, image);
    let mut images = Box::new(ImageTable::new());
    assert!(images.add(&mut memory, LOADED, b"a.dylib").is_some());
    assert_eq!(images.images()[0].kind, ImageKind::MachO);
    let mut context = Box::new(WalkContext::new());
    let stack: Vec<u8> = stack.iter().flat_map(|word| word.to_le_bytes()).collect();
    let mut stack = SliceMemory::new(STACK, &stack);
    let bounds = StackBounds::above(registers.sp());
    let mut walked = Vec::new();
    // Once by the tables, once by the rules that were kept.
    for _ in 0..2 {
        let mut frames = Vec::new();
        let mut walker = Walker::new(&registers, bounds, PacMask::NONE, &images, memory, &mut context);
        let stop = loop {
            match walker.next(&mut stack) {
                Ok(frame) => {
                    let trust = if frames.is_empty() { Trust::Context } else { Trust::Compact };
                    assert_eq!(frame.trust, trust);
                    frames.push(frame.address.raw());
                }
                Err(stop) => break stop,
            }
        };
        walked.push((frames, stop));
    }
    assert_eq!(walked[0], walked[1]);
    walked.remove(0)
}

/// A stack whose words up to `TOP` are given, the highest first; above lies the outer function's frame record.
fn stack(below: &[u64]) -> Vec<u64> {
    let mut words = std::vec![0xdead; 16];
    below.iter().zip((0..16).rev()).for_each(|(word, at)| words[at] = *word);
    // The end of the chain: no caller's frame, and no return address.
    words.extend([0, 0, 0, 0]);
    words
}

#[test]
fn an_x86_64_thread_is_walked_from_every_instruction_of_a_function() {
    let code = [
        0x55, // push %rbp
        0x48, 0x89, 0xe5, // mov %rsp, %rbp
        0x53, // push %rbx
        0x50, // push %rax
        0xe8, 0, 0, 0, 0, // call
        0x48, 0x83, 0xc4, 0x08, // add $8, %rsp
        0x5b, // pop %rbx
        0x5d, // pop %rbp
        0xc3, // ret
    ];
    let bytes = image(0x0100_0007, 0x0100_0000, 0x0101_0001, &code);
    let back = OUTER + 0x10;
    let (mine, callers) = (TOP - 16, TOP);
    let made = stack(&[back, callers, 7]);
    for (offset, words_pushed, rbp) in [
        (0, 1, callers),
        (1, 2, callers),
        (4, 2, mine),
        (5, 3, mine),
        (6, 4, mine),
        (11, 4, mine),
        (15, 3, mine),
        (16, 2, mine),
        (17, 1, callers),
    ] {
        let registers =
            RegistersX86_64 { rip: INNER + offset, rsp: TOP - 8 * words_pushed, rbp, ..Default::default() };
        // What has not been pushed, or is popped already, is not there any more.
        let kept = made
            .iter()
            .zip(0u64..)
            .map(|(word, at)| if STACK + 8 * at < registers.rsp { 0xbad } else { *word });
        let kept: Vec<u64> = kept.collect();
        let (frames, stop) = walk(&bytes, Registers::X86_64(registers), &kept);
        assert_eq!(
            (frames, stop),
            (Vec::from([INNER + offset, back]), StopReason::EndOfStack),
            "at {offset}"
        );
    }
}

#[test]
fn an_arm64_thread_is_walked_from_every_instruction_of_a_function() {
    let code = [
        0xa9be_4ff4u32, // stp x20, x19, [sp, #-32]!
        0xa901_7bfd,    // stp x29, x30, [sp, #16]
        0x9100_43fd,    // add x29, sp, #16
        0x9400_0010,    // bl
        0xa941_7bfd,    // ldp x29, x30, [sp, #16]
        0xa8c2_4ff4,    // ldp x20, x19, [sp], #32
        0xd65f_03c0,    // ret
    ];
    let bytes = image(0x0100_000c, 0x0400_0000, 0x0400_0001, code.map(u32::to_le_bytes).as_flattened());
    let back = OUTER + 0x10;
    let inside = INNER + 16;
    let (mine, callers) = (TOP - 16, TOP);
    let made = stack(&[back, callers, 7, 8]);
    for (index, lowered, x29, lr) in [
        (0, 0, callers, back),
        (1, 32, callers, back),
        (2, 32, callers, back),
        (3, 32, mine, back),
        (4, 32, mine, inside),
        (5, 32, callers, back),
        (6, 0, callers, back),
    ] {
        let mut registers = RegistersArm64 { pc: INNER + 4 * index, sp: TOP - lowered, ..Default::default() };
        (registers.x[29], registers.x[30]) = (x29, lr);
        // The record is stored by the second instruction.
        let stored = if index < 2 { stack(&[0xbad, 0xbad, 7, 8]) } else { made.clone() };
        let (frames, stop) = walk(&bytes, Registers::Arm64(registers), &stored);
        assert_eq!(
            (frames, stop),
            (Vec::from([INNER + 4 * index, back]), StopReason::EndOfStack),
            "at {index}"
        );
    }
}

#[test]
fn a_null_frame_pointer_ends_a_stack() {
    let bytes = image(0x0100_000c, 0x0400_0000, 0x0400_0000, &0xd63f_0100u32.to_le_bytes()); // blr x8
    let registers = RegistersArm64 { pc: INNER, sp: STACK, ..Default::default() };
    assert_eq!(
        walk(&bytes, Registers::Arm64(registers), &stack(&[])),
        (Vec::from([INNER]), StopReason::EndOfStack)
    );
}
