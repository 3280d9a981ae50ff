//! Walks over images and stacks given as bytes, of both architectures.

extern crate std;
use super::*;
use crate::images::Range;
use crate::memory::SliceMemory;
use freezeframe_arch::{RegistersArm64, RegistersX86_64};
use std::boxed::Box;
use std::vec::Vec;

const IMAGE: u64 = 0x40_0000;
const STACK: u64 = 0x7000_0000;

/// Call frame instructions of a function: `advance` by code units, `cfa` register and offset, `saved` register at
/// `-8 × place` from the CFA.
fn advance(units: u8) -> Vec<u8> {
    std::vec![0x40 | units]
}

fn cfa(register: u8, offset: u8) -> Vec<u8> {
    std::vec![0x0c, register, offset]
}

fn saved(register: u8, place: u8) -> Vec<u8> {
    std::vec![0x80 | register, place]
}

/// An image of 0x3000 bytes with these functions (start, size, instructions): file header, `.eh_frame_hdr` at 0x200,
/// `.eh_frame` at 0x400.
fn image(initial: &[u8], return_register: u8, functions: &[(u32, u32, Vec<u8>)]) -> Vec<u8> {
    let mut eh_frame: Vec<u8> = Vec::new();
    let mut entry = |body: Vec<u8>| {
        let at = 0x400 + eh_frame.len() as u32;
        let length = body.len().next_multiple_of(4);
        eh_frame.extend((length as u32).to_le_bytes());
        eh_frame.extend(&body);
        eh_frame.resize(eh_frame.len() + length - body.len(), 0);
        at
    };
    // Version 1, "zR", code alignment 1, data alignment -8, pc-relative 32-bit pointers.
    let head = [0, 0, 0, 0, 1, b'z', b'R', 0, 1, 0x78, return_register, 1, 0x1b];
    let cie = entry([&head, initial].concat());
    let index: Vec<(i32, i32)> = functions
        .iter()
        .map(|(start, size, instructions)| {
            let mut body = std::vec![0; 13];
            body[4..8].copy_from_slice(&[0; 4]);
            body[8..12].copy_from_slice(&size.to_le_bytes());
            body.extend(instructions);
            let at = entry(body);
            (*start as i32 - 0x200, at as i32 - 0x200)
        })
        .collect();
    for ((start, ..), (_, at)) in functions.iter().zip(&index) {
        let at = (at + 0x200) as u32;
        let field = (at - 0x400) as usize;
        eh_frame[field + 4..field + 8].copy_from_slice(&(at + 4 - cie).to_le_bytes());
        eh_frame[field + 8..field + 12].copy_from_slice(&start.wrapping_sub(at + 8).to_le_bytes());
    }
    let mut bytes = std::vec![0; 0x3000];
    bytes[..6].copy_from_slice(b"\x7fELF\x02\x01");
    bytes[32] = 64;
    bytes[54] = 56;
    bytes[56] = 2;
    for (n, (kind, flags, start, size)) in
        [(1u32, 5u32, 0u64, 0x3000u64), (0x6474_e550, 4, 0x200, 0x200)].iter().enumerate()
    {
        let at = 64 + n * 56;
        bytes[at..at + 4].copy_from_slice(&kind.to_le_bytes());
        bytes[at + 4..at + 8].copy_from_slice(&flags.to_le_bytes());
        bytes[at + 16..at + 24].copy_from_slice(&start.to_le_bytes());
        bytes[at + 40..at + 48].copy_from_slice(&size.to_le_bytes());
    }
    let mut header = std::vec![1, 0x1b, 0x03, 0x3b];
    header.extend((0x400i32 - 0x204).to_le_bytes());
    header.extend((index.len() as u32).to_le_bytes());
    index.iter().for_each(|(start, at)| {
        header.extend(start.to_le_bytes());
        header.extend(at.to_le_bytes());
    });
    bytes[0x200..0x200 + header.len()].copy_from_slice(&header);
    bytes[0x400..0x400 + eh_frame.len()].copy_from_slice(&eh_frame);
    bytes
}

fn walk(registers: Registers, image: &[u8], stack: &[u64], pac: PacMask) -> (Vec<(u64, Trust)>, StopReason) {
    let mut images = Box::new(ImageTable::new());
    let mut tables = SliceMemory::new(IMAGE, image);
    assert_eq!(images.add(&mut tables, IMAGE, b"image"), Some(Range { start: IMAGE, end: IMAGE + 0x3000 }));
    let mut context = Box::new(WalkContext::new());
    let bytes: Vec<u8> = stack.iter().flat_map(|word| word.to_le_bytes()).collect();
    let bounds = StackBounds::above(registers.sp());
    let mut one_by_one = || {
        let mut walker = Walker::new(&registers, bounds, pac, &images, tables, &mut context);
        let mut memory = SliceMemory::new(STACK, &bytes);
        let mut frames = Vec::new();
        loop {
            match walker.next(&mut memory) {
                Ok(frame) => frames.push(frame),
                Err(stop) => break (frames, stop),
            }
        }
    };
    let (first, second) = (one_by_one(), one_by_one());
    assert_eq!(first, second, "by rules that are kept as by those that are looked up");
    let (frames, stop) = first;
    for room in 0..=frames.len() + 1 {
        let mut walker = Walker::new(&registers, bounds, pac, &images, tables, &mut context);
        let mut memory = SliceMemory::new(STACK, &bytes);
        let mut filled = std::vec![Frame::EMPTY; room];
        let (count, result) = walker.fill(&mut memory, &mut filled);
        assert_eq!(filled[..count], frames[..room.min(frames.len())], "many at once as one by one");
        assert_eq!(result.err(), (room > frames.len()).then_some(stop));
        let next = frames.get(room).copied().ok_or(stop);
        assert_eq!(walker.next(&mut memory), next, "and from there on");
    }
    (frames.iter().map(|frame| (frame.address.raw(), frame.trust)).collect(), stop)
}

/// x86_64: a leaf with a frame of 24 bytes, a caller by rbx, which the leaf's caller has saved, and the end.
fn x86_image() -> Vec<u8> {
    image(
        &[cfa(7, 8), saved(16, 1)].concat(),
        16,
        &[
            (0x1000, 0x100, [advance(4), std::vec![0x0e, 32]].concat()),
            (0x1100, 0x100, [advance(1), std::vec![0x0e, 16], saved(3, 2)].concat()),
            (0x1200, 0x100, cfa(3, 16)),
            (0x1300, 0x100, std::vec![0x07, 16]),
        ],
    )
}

#[test]
fn tables_lead_to_the_end_through_registers_that_callees_have_saved() {
    let at = |offset: u64| IMAGE + offset;
    // The leaf's frame, its return address; rbx as saved, a return address; that function's frame ends at rbx + 16.
    let stack = [0, 0, 0, at(0x1150), STACK + 48, at(0x1234), 0, at(0x1310), 0];
    let registers = RegistersX86_64 { rip: at(0x1010), rsp: STACK, rbx: 99, ..Default::default() };
    let (frames, stop) = walk(Registers::X86_64(registers), &x86_image(), &stack, PacMask::NONE);
    let expected = [
        (at(0x1010), Trust::Context),
        (at(0x1150), Trust::Cfi),
        (at(0x1234), Trust::Cfi),
        (at(0x1310), Trust::Cfi),
    ];
    assert_eq!((frames.as_slice(), stop), (&expected[..], StopReason::EndOfStack));
    // One instruction earlier the leaf had no frame yet.
    let registers = RegistersX86_64 { rip: at(0x1003), rsp: STACK + 24, ..registers };
    let (frames, stop) = walk(Registers::X86_64(registers), &x86_image(), &stack, PacMask::NONE);
    assert_eq!((frames[1], frames.len(), stop), (expected[1], 4, StopReason::EndOfStack));
}

/// The same, of a thread of which only the stack pointer and the program counter are known; and whether that was enough.
fn walk_from_two_registers(
    registers: Registers,
    image: &[u8],
    stack: &[u64],
) -> (Vec<(u64, Trust)>, StopReason, bool) {
    let mut images = Box::new(ImageTable::new());
    let mut tables = SliceMemory::new(IMAGE, image);
    images.add(&mut tables, IMAGE, b"image").unwrap();
    let mut context = Box::new(WalkContext::new());
    let bytes: Vec<u8> = stack.iter().flat_map(|word| word.to_le_bytes()).collect();
    let bounds = StackBounds::above(registers.sp());
    let known = KnownRegisters::stack_and_program_counter(registers.architecture());
    let mut once = || {
        let mut walker = Walker::new(&registers, bounds, PacMask::NONE, &images, tables, &mut context)
            .knowing(&registers, known);
        let mut frames = std::vec![Frame::EMPTY; 20];
        let (count, result) = walker.fill(&mut SliceMemory::new(STACK, &bytes), &mut frames);
        let frames = frames[..count].iter().map(|frame| (frame.address.raw(), frame.trust)).collect();
        (frames, result.unwrap_err(), !walker.lacked_register())
    };
    let (first, second) = (once(), once());
    assert_eq!(first, second, "by rules that are kept as by those that are looked up");
    first
}

#[test]
fn a_stack_pointer_and_a_program_counter_are_enough_where_tables_need_no_more() {
    let at = |offset: u64| IMAGE + offset;
    let stack = [0, 0, 0, at(0x1150), STACK + 48, at(0x1234), 0, at(0x1310), 0];
    let registers = RegistersX86_64 { rip: at(0x1010), rsp: STACK, ..Default::default() };
    let (frames, stop, enough) = walk_from_two_registers(Registers::X86_64(registers), &x86_image(), &stack);
    let addresses: Vec<u64> = frames.iter().map(|(address, _)| *address).collect();
    assert_eq!(addresses, [at(0x1010), at(0x1150), at(0x1234), at(0x1310)], "rbx is what a callee has saved");
    assert_eq!((stop, enough), (StopReason::EndOfStack, true));
    // The thread stands in the function that is left by rbx: it may be anything, zero included.
    let registers = RegistersX86_64 { rip: at(0x1210), rsp: STACK, ..Default::default() };
    let (frames, stop, enough) = walk_from_two_registers(Registers::X86_64(registers), &x86_image(), &stack);
    assert_eq!((frames.len(), stop, enough), (1, StopReason::NoRule(at(0x1210)), false));
}

#[test]
fn a_walk_that_lacked_a_register_says_so_even_if_it_came_to_an_end() {
    // The leaf saves rbp, its caller is left by rbx, which nobody has saved: the frame pointer leads on.
    let image = image(
        &[cfa(7, 8), saved(16, 1)].concat(),
        16,
        &[
            (0x1000, 0x100, [advance(1), std::vec![0x0e, 16], saved(6, 2)].concat()),
            (0x1200, 0x100, cfa(3, 16)),
            (0x1300, 0x100, std::vec![0x07, 16]),
        ],
    );
    let at = |offset: u64| IMAGE + offset;
    let stack = [STACK + 16, at(0x1210), 0, at(0x1310)];
    let registers = RegistersX86_64 { rip: at(0x1010), rsp: STACK, ..Default::default() };
    let (frames, stop, enough) = walk_from_two_registers(Registers::X86_64(registers), &image, &stack);
    let expected =
        [(at(0x1010), Trust::Context), (at(0x1210), Trust::Cfi), (at(0x1310), Trust::FramePointer)];
    assert_eq!((frames.as_slice(), stop, enough), (&expected[..], StopReason::EndOfStack, false));
}

#[test]
fn a_leaf_of_arm64_is_not_left_without_its_link_register() {
    let image = image(&cfa(31, 0), 30, &[(0x1000, 0x100, Vec::new())]);
    let at = |offset: u64| IMAGE + offset;
    for pc in [at(0x1010), 0] {
        let registers = Registers::Arm64(RegistersArm64 { pc, sp: STACK, ..Default::default() });
        let (frames, stop, enough) = walk_from_two_registers(registers, &image, &[at(0x1110), at(0x1120)]);
        assert_eq!((frames.len(), enough), (1, pc == 0), "{stop:?}");
        assert_ne!(stop, StopReason::EndOfStack);
    }
}

#[test]
fn expressions_are_read_from_the_tables_and_load_from_the_stack() {
    // As gcc realigns a stack: the CFA is kept in a word below rbp, and rbp's place is relative to itself.
    // def_cfa_expression (breg6 -8, deref); expression r6 (breg6 0)
    let realigned = std::vec![0x0f, 3, 0x76, 0x78, 0x06, 0x10, 6, 2, 0x76, 0];
    let image = image(
        &[cfa(7, 8), saved(16, 1)].concat(),
        16,
        &[(0x1000, 0x100, realigned), (0x1100, 0x100, cfa(6, 16)), (0x1200, 0x100, std::vec![0x07, 16])],
    );
    let at = |offset: u64| IMAGE + offset;
    let stack = [0, STACK + 48, STACK + 56, 0, 0, at(0x1150), 0, 0, at(0x1210)];
    let registers = RegistersX86_64 { rip: at(0x1010), rsp: STACK, rbp: STACK + 16, ..Default::default() };
    let (frames, stop) = walk(Registers::X86_64(registers), &image, &stack, PacMask::NONE);
    let expected = [(at(0x1010), Trust::Context), (at(0x1150), Trust::Cfi), (at(0x1210), Trust::Cfi)];
    assert_eq!((frames.as_slice(), stop), (&expected[..], StopReason::EndOfStack));
}

#[test]
fn a_call_to_nowhere_is_led_back_and_marked() {
    let at = |offset: u64| IMAGE + offset;
    let stack = [at(0x1150), STACK + 24, at(0x1234), 0, at(0x1310)];
    let registers = RegistersX86_64 { rip: 0, rsp: STACK, ..Default::default() };
    let (frames, stop) = walk(Registers::X86_64(registers), &x86_image(), &stack, PacMask::NONE);
    assert_eq!(frames[..3], [(0, Trust::Context), (at(0x1150), Trust::Scan), (at(0x1234), Trust::Cfi)]);
    assert_eq!(stop, StopReason::EndOfStack);
    let (frames, stop) = walk(Registers::X86_64(registers), &x86_image(), &[1, 2], PacMask::NONE);
    assert_eq!((frames.len(), stop), (1, StopReason::NotCode(0)), "nothing on the stack is code");
}

#[test]
fn a_return_address_outside_code_or_a_stack_that_does_not_ascend_ends_the_walk() {
    let at = |offset: u64| IMAGE + offset;
    let registers = RegistersX86_64 { rip: at(0x1010), rsp: STACK, ..Default::default() };
    let one = |stack: &[u64]| walk(Registers::X86_64(registers), &x86_image(), stack, PacMask::NONE).1;
    assert_eq!(one(&[0, 0, 0, 0x1234]), StopReason::NotCode(0x1234));
    assert_eq!(one(&[0, 0, 0]), StopReason::Unreadable(STACK + 24));
    // rbx leads back into the leaf's own frame, where a return address lies.
    assert_eq!(one(&[0, at(0x1310), 0, at(0x1150), STACK, at(0x1234)]), StopReason::NotAscending(STACK + 16));
}

#[test]
fn an_arm64_leaf_returns_by_its_link_register_and_signatures_are_stripped() {
    let image = image(
        &cfa(31, 0),
        30,
        &[
            (0x1000, 0x100, Vec::new()),
            (0x1100, 0x100, [advance(4), std::vec![0x0e, 32], saved(29, 4), saved(30, 3)].concat()),
            (0x1200, 0x100, std::vec![0x07, 30]),
        ],
    );
    let at = |offset: u64| IMAGE + offset;
    let signed = at(0x1210) | 0x0055 << 48;
    let mut registers = RegistersArm64 { pc: at(0x1010), sp: STACK, ..Default::default() };
    registers.x[30] = at(0x1150) | 0x0012 << 48;
    let pac = PacMask::from_address_bits(48);
    let (frames, stop) = walk(Registers::Arm64(registers), &image, &[0, signed, 0, 0], pac);
    let addresses: Vec<u64> = frames.iter().map(|(address, _)| *address).collect();
    assert_eq!(addresses, [at(0x1010), registers.x[30], signed], "raw, as they were found");
    assert_eq!(stop, StopReason::EndOfStack);
    // Mach signs where a thread of arm64e stands, too.
    let signed_pc = RegistersArm64 { pc: at(0x1010) | 0x0033 << 48, ..registers };
    let (same, stop) = walk(Registers::Arm64(signed_pc), &image, &[0, signed, 0, 0], pac);
    assert_eq!(same[0], (signed_pc.pc, Trust::Context));
    assert_eq!((&same[1..], stop), (&frames[1..], StopReason::EndOfStack));
    // A link register that is the function's own address again would never end.
    registers.x[30] = at(0x1011);
    let (frames, stop) = walk(Registers::Arm64(registers), &image, &[0; 4], pac);
    assert_eq!((frames.len(), stop), (2, StopReason::NoRule(at(0x1011))));
}

#[test]
fn the_first_instruction_behind_a_call_that_never_returns_may_be_where_the_call_went() {
    // 0x1000 ends with a call of 0x1100, which makes its frame at its second instruction.
    let framed = [cfa(31, 16), saved(29, 2), saved(30, 1)].concat();
    let functions = [
        (0x1000, 0x100, framed.clone()),
        (0x1100, 0x100, [advance(4), framed].concat()),
        (0x1200, 0x100, std::vec![0x07, 30]),
    ];
    let image = image(&cfa(31, 0), 30, &functions);
    let at = |offset: u64| IMAGE + offset;
    let mut registers = RegistersArm64 { pc: at(0x1100), sp: STACK, ..Default::default() };
    registers.x[30] = at(0x1100);
    let (frames, stop) = walk(Registers::Arm64(registers), &image, &[0, at(0x1210)], PacMask::NONE);
    let expected = [(at(0x1100), Trust::Context), (at(0x1100), Trust::Cfi), (at(0x1210), Trust::Cfi)];
    assert_eq!((frames.as_slice(), stop), (&expected[..], StopReason::EndOfStack));
}

#[test]
fn a_link_register_that_a_call_has_just_returned_to_is_no_caller_where_nothing_can_be_read() {
    let image = image(&cfa(31, 0), 30, &[(0x1000, 0x100, Vec::new())]);
    let at = |offset: u64| IMAGE + offset;
    let mut registers = RegistersArm64 { pc: at(0x2008), sp: STACK, ..Default::default() };
    (registers.x[29], registers.x[30]) = (STACK, at(0x2008));
    let code_is_missing = &image[..0x1000];
    let (frames, stop) = walk(
        Registers::Arm64(registers),
        code_is_missing,
        &[STACK + 16, at(0x2110), 0, at(0x2210)],
        PacMask::NONE,
    );
    let expected =
        [(at(0x2008), Trust::Context), (at(0x2110), Trust::FramePointer), (at(0x2210), Trust::FramePointer)];
    assert_eq!((frames.as_slice(), stop), (&expected[..], StopReason::EndOfStack));
}

#[test]
fn without_tables_the_instructions_ahead_tell_a_callers_place() {
    let mut image = image(&cfa(31, 0), 30, &[(0x1000, 0x100, Vec::new())]);
    // stp x29, x30, [sp, #-16]!; mov x29, sp; bl; mov x0, x1; bl; ldp x29, x30, [sp], #16; ret
    let code = [0xa9bf_7bfd, 0x9100_03fd, 0x9400_0010, 0xaa01_03e0, 0x9400_0010, 0xa8c1_7bfd, 0xd65f_03c0u32];
    let at = |offset: u64| IMAGE + offset;
    code.iter().zip(0x2000..).for_each(|(word, n)| {
        let place = 0x2000 + (n - 0x2000) * 4;
        image[place..place + 4].copy_from_slice(&word.to_le_bytes());
    });
    let stack = [STACK + 16, at(0x2110), 0, at(0x2210)];
    // Where the stack and the frame pointer are at each instruction, what the link register holds, and how that is known.
    let (before, inside) = ((STACK + 16, STACK + 16), (STACK, STACK));
    let lines = [
        (before, at(0x2110), Trust::LinkRegister),
        ((STACK, STACK + 16), at(0x2110), Trust::FramePointer),
        (inside, at(0x2110), Trust::FramePointer),
        (inside, at(0x200c), Trust::FramePointer),
        (inside, at(0x200c), Trust::FramePointer),
        (inside, at(0x2014), Trust::FramePointer),
        (before, at(0x2110), Trust::LinkRegister),
    ];
    for (index, ((sp, fp), lr, trust)) in lines.into_iter().enumerate() {
        let mut registers = RegistersArm64 { pc: at(0x2000 + 4 * index as u64), sp, ..Default::default() };
        (registers.x[29], registers.x[30]) = (fp, lr);
        let (frames, stop) = walk(Registers::Arm64(registers), &image, &stack, PacMask::NONE);
        let expected =
            [(registers.pc, Trust::Context), (at(0x2110), trust), (at(0x2210), Trust::FramePointer)];
        assert_eq!((frames.as_slice(), stop), (&expected[..], StopReason::EndOfStack), "{index}");
    }
}
