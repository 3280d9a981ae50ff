extern crate std;
use super::*;
use crate::memory::SliceMemory;
use crate::tables::compact::{Encoding, Unwinding};
use std::vec::Vec;

const CODE: u64 = 0x1_0000_4000;
/// How each instruction is written in the tables below: what the CFA and the saved registers are right before it.
type Line<'a> = (&'a [u8], Option<Expected<'a>>);
/// The CFA's register and offset, and where the return address and registers are from there.
type Expected<'a> = (u16, i32, Option<i64>, &'a [(u16, i64)]);

fn body(architecture: Architecture, encoding: u32, code: &[u8]) -> Option<SavedRule> {
    match Encoding(encoding).unwinding(&mut SliceMemory::new(CODE, code), architecture, CODE) {
        Ok(Unwinding::Rule(rule)) => Some(rule),
        _ => None,
    }
}

/// Looks at every instruction; none is expected where the body's rule stands.
fn check(architecture: Architecture, encoding: u32, lines: &[Line<'_>]) {
    let code: Vec<u8> = lines.iter().flat_map(|(bytes, _)| bytes.iter().copied()).collect();
    let function = Range { start: CODE, end: CODE + code.len() as u64 };
    let body = body(architecture, encoding, &code);
    let mut pc = CODE;
    for (index, (bytes, expected)) in lines.iter().enumerate() {
        let position = Position { pc, function, body: body.as_ref() };
        let found = look_ahead(&mut SliceMemory::new(CODE, &code), architecture, &position);
        let found = match found {
            Found::Prologue(rule) | Found::Epilogue(rule) => Some(rule),
            Found::Body => None,
        };
        let saved = |rule: &SavedRule| {
            let registers = (0..32).filter_map(|r| Some((r, rule.saved(architecture, r)?)));
            registers.collect::<Vec<(u16, i64)>>()
        };
        let found = found.map(|rule| (rule.cfa(), rule.return_address(), saved(&rule)));
        let expected =
            expected.map(|(register, offset, pc, saved)| ((register, offset), pc, Vec::from(saved)));
        assert_eq!(found, expected, "instruction {index}");
        pc += bytes.len() as u64;
    }
}

/// An arm64 instruction.
macro_rules! a {
    ($word:expr) => {
        &u32::to_le_bytes($word)[..]
    };
}

const BODY: Option<Expected<'_>> = None;

#[test]
fn a_frame_of_arm64_that_pushes_its_registers_is_right_at_each_instruction() {
    let entry = Some((31, 0, None, &[][..]));
    let pushed = Some((31, 32, None, &[(19, -24), (20, -32)][..]));
    let recorded = Some((31, 32, Some(-8), &[(19, -24), (20, -32), (29, -16)][..]));
    check(
        Architecture::Arm64,
        0x0400_0001,
        &[
            (a!(0xd503_237f), entry),    // pacibsp
            (a!(0xa9be_4ff4), entry),    // stp x20, x19, [sp, #-32]!
            (a!(0xa901_7bfd), pushed),   // stp x29, x30, [sp, #16]
            (a!(0x9100_43fd), recorded), // add x29, sp, #16
            (a!(0xd146_1bff), BODY),     // sub sp, sp, #390, lsl #12
            (a!(0xaa00_03f3), BODY),     // mov x19, x0
            (a!(0x9400_0010), BODY),     // bl
            (a!(0x9146_1bff), Some((31, 390 * 4096 + 32, Some(-8), &[(19, -24), (20, -32), (29, -16)]))), // add sp, sp, #390, lsl #12
            (a!(0xa941_7bfd), recorded), // ldp x29, x30, [sp, #16]
            (a!(0xa8c2_4ff4), Some((31, 32, None, &[(19, -24), (20, -32)]))), // ldp x20, x19, [sp], #32
            (a!(0xd65f_0fff), entry),    // retab
        ],
    );
}

#[test]
fn a_frame_of_arm64_that_lowers_the_stack_at_once_is_right_at_each_instruction() {
    let entry = Some((31, 0, None, &[][..]));
    let all = Some((31, 48, Some(-8), &[(19, -24), (20, -32), (29, -16)][..]));
    check(
        Architecture::Arm64,
        0x0400_0001,
        &[
            (a!(0xd100_c3ff), entry),                                         // sub sp, sp, #48
            (a!(0xf100_001f), Some((31, 48, None, &[]))),                     // cmp x0, #0
            (a!(0xa901_4ff4), Some((31, 48, None, &[]))),                     // stp x20, x19, [sp, #16]
            (a!(0xa902_7bfd), Some((31, 48, None, &[(19, -24), (20, -32)]))), // stp x29, x30, [sp, #32]
            (a!(0x9100_83fd), all),                                           // add x29, sp, #32
            (a!(0x9400_0010), BODY),                                          // bl
            (a!(0x0b13_0000), all),                                           // add w0, w0, w19
            (a!(0xa942_7bfd), all),                                           // ldp x29, x30, [sp, #32]
            (a!(0xa941_4ff4), Some((31, 48, None, &[(19, -24), (20, -32)]))), // ldp x20, x19, [sp, #16]
            (a!(0x9100_c3ff), Some((31, 48, None, &[]))),                     // add sp, sp, #48
            (a!(0x1400_0400), entry),                                         // b, to another function
        ],
    );
}

#[test]
fn a_signed_tail_call_of_arm64_is_checked_before_it_leaves() {
    let record = Some((31, 16, Some(-8), &[(29, -16)][..]));
    let entry = Some((31, 0, None, &[][..]));
    check(
        Architecture::Arm64,
        0x0400_0000,
        &[
            (a!(0x9400_0010), BODY),   // bl
            (a!(0xa8c1_7bfd), record), // ldp x29, x30, [sp], #16
            (a!(0xd503_23ff), entry),  // autibsp
            (a!(0xca1e_07d0), entry),  // eor x16, x30, x30, lsl #1
            (a!(0xb6f0_0050), entry),  // tbz x16, #62, 8
            (a!(0xd438_8e20), BODY),   // brk #0xc471: nobody comes by
            (a!(0x1400_0400), entry),  // b, to another function
        ],
    );
}

#[test]
fn a_frameless_function_of_arm64_is_right_at_each_instruction() {
    let entry = Some((31, 0, None, &[][..]));
    let lowered = Some((31, 32, None, &[][..]));
    check(
        Architecture::Arm64,
        0x0200_2000,
        &[
            (a!(0xd100_83ff), entry),   // sub sp, sp, #32
            (a!(0x1200_0808), lowered), // and w8, w0, #0x7
            (a!(0x9100_03e9), lowered), // mov x9, sp
            (a!(0xb828_5920), lowered), // str w0, [x9, w8, uxtw #2]
            (a!(0xb940_0fe0), lowered), // ldr w0, [sp, #12]
            (a!(0x9100_83ff), lowered), // add sp, sp, #32
            (a!(0xd65f_03c0), entry),   // ret
        ],
    );
    // A longer one, of which the end cannot be seen.
    check(
        Architecture::Arm64,
        0x0200_2000,
        &[
            (a!(0xd100_83ff), Some((31, 0, None, &[]))), // sub sp, sp, #32
            (a!(0xd63f_0100), BODY),                     // blr x8
        ],
    );
}

#[test]
fn a_system_call_of_arm64_has_no_frame_before_or_after_the_kernel() {
    let entry = Some((31, 0, None, &[][..]));
    check(
        Architecture::Arm64,
        0,
        &[
            (a!(0xd280_2630), entry),                                  // mov x16, #305
            (a!(0xd400_1001), entry),                                  // svc #0x80
            (a!(0x5400_00e3), entry),                                  // b.lo 28
            (a!(0xd503_237f), entry),                                  // pacibsp
            (a!(0xa9bf_7bfd), entry),                                  // stp x29, x30, [sp, #-16]!
            (a!(0x9100_03fd), Some((31, 16, Some(-8), &[(29, -16)]))), // mov x29, sp
            (a!(0x9400_0010), BODY),                                   // bl
            (a!(0x9100_03bf), Some((29, 16, Some(-8), &[(29, -16)]))), // mov sp, x29
            (a!(0xa8c1_7bfd), Some((31, 16, Some(-8), &[(29, -16)]))), // ldp x29, x30, [sp], #16
            (a!(0xd65f_0fff), entry),                                  // retab
        ],
    );
}

#[test]
fn a_frame_of_x86_64_is_right_at_each_instruction() {
    let entry = Some((7, 8, Some(-8), &[][..]));
    let pushed = Some((7, 16, Some(-8), &[(6, -16)][..]));
    // r14 and rbx, the last one lowest.
    check(
        Architecture::X86_64,
        0x0102_0021,
        &[
            (&[0x55], entry),                                                           // push %rbp
            (&[0x48, 0x89, 0xe5], pushed),                                              // mov %rsp, %rbp
            (&[0x41, 0x56], Some((6, 16, Some(-8), &[(6, -16)]))),                      // push %r14
            (&[0x53], Some((6, 16, Some(-8), &[(6, -16), (14, -24)]))),                 // push %rbx
            (&[0x48, 0x83, 0xec, 0x10], BODY),                                          // sub $16, %rsp
            (&[0x89, 0xfb], BODY),                                                      // mov %edi, %ebx
            (&[0xe8, 0, 1, 0, 0], BODY),                                                // call
            (&[0x01, 0xd8], Some((7, 48, Some(-8), &[(3, -32), (6, -16), (14, -24)]))), // add %ebx, %eax
            (&[0x48, 0x83, 0xc4, 0x10], Some((7, 48, Some(-8), &[(3, -32), (6, -16), (14, -24)]))), // add $16, %rsp
            (&[0x5b], Some((7, 32, Some(-8), &[(3, -32), (6, -16), (14, -24)]))), // pop %rbx
            (&[0x41, 0x5e], Some((7, 24, Some(-8), &[(6, -16), (14, -24)]))),     // pop %r14
            (&[0x5d], pushed),                                                    // pop %rbp
            (&[0xc3], entry),                                                     // ret
        ],
    );
}

#[test]
fn an_argument_that_is_pushed_is_not_taken_for_a_saved_register() {
    check(
        Architecture::X86_64,
        0x0101_0001,
        &[
            (&[0x31, 0xc0], BODY),       // xor %eax, %eax
            (&[0x53], BODY),             // push %rbx, an argument
            (&[0xe8, 0, 1, 0, 0], BODY), // call
        ],
    );
}

#[test]
fn a_tail_call_and_a_dynamic_frame_of_x86_64_are_right_at_each_instruction() {
    let all = &[(3, -24), (6, -16)][..];
    check(
        Architecture::X86_64,
        0x0101_0001,
        &[
            (&[0xff, 0xd0], BODY),                                     // call *%rax
            (&[0x48, 0x8d, 0x65, 0xf8], Some((6, 16, Some(-8), all))), // lea -8(%rbp), %rsp
            (&[0x5b], Some((7, 24, Some(-8), all))),                   // pop %rbx
            (&[0x5d], Some((7, 16, Some(-8), &[(6, -16)]))),           // pop %rbp
            (&[0xff, 0x25, 0, 0, 0, 0], Some((7, 8, Some(-8), &[]))),  // jmp *(%rip)
        ],
    );
}

#[test]
fn a_frameless_function_of_x86_64_is_right_at_each_instruction() {
    // rbp and rbx, 24 bytes of room: 48 with the return address. rbx is the lowest: 1, 6 of six registers.
    let encoding = 0x0206_0000 | 2 << 10 | 4;
    check(
        Architecture::X86_64,
        encoding,
        &[
            (&[0x55], Some((7, 8, Some(-8), &[]))),          // push %rbp
            (&[0x53], Some((7, 16, Some(-8), &[(6, -16)]))), // push %rbx
            (&[0x48, 0x83, 0xec, 0x18], Some((7, 24, Some(-8), &[(3, -24), (6, -16)]))), // sub $24, %rsp
            (&[0x89, 0xfd], BODY),                           // mov %edi, %ebp
            (&[0xe8, 0, 1, 0, 0], BODY),                     // call
            (&[0x48, 0x83, 0xc4, 0x18], Some((7, 48, Some(-8), &[(3, -24), (6, -16)]))), // add $24, %rsp
            (&[0x5b], Some((7, 24, Some(-8), &[(3, -24), (6, -16)]))), // pop %rbx
            (&[0x5d], Some((7, 16, Some(-8), &[(6, -16)]))), // pop %rbp
            (&[0xe9, 0, 1, 0, 0], Some((7, 8, Some(-8), &[]))), // jmp, to another function
        ],
    );
}

#[test]
fn a_stub_is_left_as_a_function_that_has_done_nothing() {
    let stub = [0xff, 0x25, 0, 0, 0, 0]; // jmp *(%rip)
    let position = Position { pc: CODE, function: Range::default(), body: None };
    let found = look_ahead(&mut SliceMemory::new(CODE, &stub), Architecture::X86_64, &position);
    let Found::Epilogue(rule) = found else { panic!("{found:?}") };
    assert_eq!((rule.cfa(), rule.return_address()), ((7, 8), Some(-8)));
    // adrp x16, 0; ldr x16, [x16]; br x16
    let stub = [0x9000_0010u32, 0xf940_0210, 0xd61f_0200].map(u32::to_le_bytes);
    let found = look_ahead(&mut SliceMemory::new(CODE, stub.as_flattened()), Architecture::Arm64, &position);
    let Found::Epilogue(rule) = found else { panic!("{found:?}") };
    assert_eq!((rule.cfa(), rule.return_address()), ((31, 0), None));
}

#[test]
fn a_jump_by_a_table_is_none_out_of_the_function() {
    check(Architecture::X86_64, 0x0101_0001, &[(&[0xff, 0xe0], BODY)]); // jmp *%rax
    check(Architecture::Arm64, 0x0400_0001, &[(a!(0xd61f_0100), BODY)]); // br x8
}

#[test]
fn code_that_goes_round_or_ends_is_the_body() {
    check(Architecture::X86_64, 0, &[(&[0xeb, 0xfe], BODY)]); // jmp, to itself
    check(Architecture::Arm64, 0, &[(a!(0x1400_0000), BODY)]);
    for architecture in [Architecture::X86_64, Architecture::Arm64] {
        let position = Position { pc: u64::MAX - 1, function: Range::default(), body: None };
        assert_eq!(look_ahead(&mut SliceMemory::new(0, &[]), architecture, &position), Found::Body);
        assert_eq!(
            look_ahead(&mut SliceMemory::new(u64::MAX - 2, &[0x90; 2]), architecture, &position),
            Found::Body
        );
    }
}

#[test]
fn an_instruction_has_no_more_than_15_bytes() {
    // pop %rbp, and nop behind prefixes; ret
    for (prefixes, found) in [(14, true), (15, false)] {
        let code = [&[0x5d][..], &[0x66; 15][..prefixes], &[0x90, 0xc3]].concat();
        let position = Position { pc: CODE, function: Range::default(), body: None };
        let ahead = look_ahead(&mut SliceMemory::new(CODE, &code), Architecture::X86_64, &position);
        assert_eq!(matches!(ahead, Found::Epilogue(_)), found, "{prefixes} prefixes");
    }
}

#[test]
fn what_stands_behind_a_functions_end_is_not_ahead() {
    // svc #0, and another function: ret
    let code = [a!(0xd400_0001), a!(0xd65f_03c0)].concat();
    let found = |end| {
        let position = Position { pc: CODE, function: Range { start: CODE, end: CODE + end }, body: None };
        look_ahead(&mut SliceMemory::new(CODE, &code), Architecture::Arm64, &position)
    };
    assert_eq!(found(4), Found::Body);
    assert!(matches!(found(8), Found::Epilogue(_)), "as one function it would return");
}

#[test]
fn an_indirect_tail_call_behind_any_preserved_register_is_right() {
    for pop in [&[0x5b][..], &[0x41, 0x5e]] {
        let (rbx, r14) = (0x0202_0400, 0x0202_0402);
        let (encoding, register) = if pop.len() == 1 { (rbx, 3) } else { (r14, 14) };
        check(
            Architecture::X86_64,
            encoding,
            &[
                (&[0xff, 0xd0], BODY),                              // call *%rax
                (pop, Some((7, 16, Some(-8), &[(register, -16)]))), // pop
                (&[0xff, 0xe1], Some((7, 8, Some(-8), &[]))),       // jmp *%rcx
            ],
        );
    }
}
