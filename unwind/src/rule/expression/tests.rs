extern crate std;
use super::*;
use crate::memory::SliceMemory;
use std::vec::Vec;

const BASE: u64 = 0x1000;

/// The value of the operations `code`, which lie at `BASE` and have the words 0x1122334455667788 and 5 behind them.
/// Register `n` holds `100 * n`; 40 is unknown.
fn evaluate(code: &[u8], initial: Option<u64>) -> Result<u64, RuleError> {
    let mut bytes: Vec<u8> = code.into();
    bytes.extend(0x1122_3344_5566_7788u64.to_le_bytes());
    bytes.extend(5u64.to_le_bytes());
    let expression = Expression { address: BASE, length: code.len() as u32 };
    let mut memory = SliceMemory::new(BASE, &bytes);
    expression.evaluate(&mut { memory }, &mut memory, initial, |n| (n != 40).then(|| n.wrapping_mul(100)))
}

fn value(code: &[u8]) -> u64 {
    evaluate(code, None).unwrap()
}

#[test]
fn constants_have_their_width_and_sign() {
    assert_eq!((value(&[0x30]), value(&[0x4f])), (0, 31));
    assert_eq!((value(&[0x08, 0xff]), value(&[0x09, 0xff])), (0xff, u64::MAX));
    assert_eq!((value(&[0x0a, 0xfe, 0xff]), value(&[0x0b, 0xfe, 0xff])), (0xfffe, -2i64 as u64));
    assert_eq!(value(&[0x0c, 0xfe, 0xff, 0xff, 0xff]), 0xffff_fffe);
    assert_eq!(value(&[0x0d, 0xfe, 0xff, 0xff, 0xff]), -2i64 as u64);
    for opcode in [0x03, 0x0e, 0x0f] {
        assert_eq!(value(&[opcode, 1, 2, 3, 4, 5, 6, 7, 8]), 0x0807_0605_0403_0201);
    }
    assert_eq!((value(&[0x10, 0x80, 1]), value(&[0x11, 0x80, 0x7f])), (128, -128i64 as u64));
}

#[test]
fn the_stack_is_shuffled_as_the_standard_says() {
    // 1 2 3, the top last; each line drops down to the word it asks for.
    let after = |code: &[u8]| value(&[&[0x31, 0x32, 0x33], code].concat());
    assert_eq!((after(&[]), after(&[0x12, 0x13]), after(&[0x13])), (3, 3, 2));
    assert_eq!((after(&[0x14]), after(&[0x15, 2]), after(&[0x15, 0])), (2, 1, 3));
    assert_eq!((after(&[0x16]), after(&[0x16, 0x13])), (2, 3));
    // rot: 1 2 3 becomes 3 1 2.
    assert_eq!((after(&[0x17]), after(&[0x17, 0x13]), after(&[0x17, 0x13, 0x13])), (2, 1, 3));
}

#[test]
fn arithmetic_is_of_64_bits_with_the_signs_of_the_standard() {
    let minus_seven_and = |n: u8, opcode: u8| value(&[0x09, 0xf9, 0x09, n, opcode]) as i64;
    assert_eq!((minus_seven_and(2, 0x1b), minus_seven_and(2, 0x1e)), (-3, -14));
    assert_eq!((minus_seven_and(2, 0x22), minus_seven_and(2, 0x1c)), (-5, -9));
    assert_eq!(minus_seven_and(10, 0x1d), ((-7i64 as u64) % 10) as i64);
    assert_eq!(
        (minus_seven_and(4, 0x1a), minus_seven_and(4, 0x21), minus_seven_and(4, 0x27)),
        (-7 & 4, -7 | 4, -7 ^ 4)
    );
    assert_eq!((minus_seven_and(1, 0x24), minus_seven_and(1, 0x26)), (-14, -4));
    assert_eq!(minus_seven_and(60, 0x25), 15);
    assert_eq!((minus_seven_and(64, 0x24), minus_seven_and(64, 0x25), minus_seven_and(64, 0x26)), (0, 0, -1));
    assert_eq!(
        (value(&[0x09, 0xf9, 0x19]), value(&[0x37, 0x1f]), value(&[0x37, 0x20])),
        (7, -7i64 as u64, !7)
    );
    assert_eq!(value(&[0x37, 0x23, 0x80, 1]), 135);
    // i64::MIN / -1 and |i64::MIN| have no 64-bit value with a sign.
    let least: &[u8] = &[0x0e, 0, 0, 0, 0, 0, 0, 0, 0x80];
    assert_eq!(value(&[least, &[0x09, 0xff, 0x1b]].concat()), 1 << 63);
    assert_eq!(value(&[least, &[0x19]].concat()), 1 << 63);
}

#[test]
fn comparisons_have_a_sign() {
    let results = |n: u8| [0x29, 0x2e, 0x2a, 0x2b, 0x2c, 0x2d].map(|op| value(&[0x09, 0xff, 0x09, n, op]));
    assert_eq!(results(1), [0, 1, 0, 0, 1, 1], "-1 beside 1: eq ne ge gt le lt");
    assert_eq!(results(0xff), [1, 0, 1, 0, 1, 0], "-1 beside -1");
}

#[test]
fn registers_and_memory_are_read() {
    assert_eq!((value(&[0x77, 8]), value(&[0x77, 0x78])), (708, 692));
    assert_eq!(value(&[0x92, 33, 1]), 3301);
    assert_eq!(evaluate(&[0x92, 40, 1], None), Err(RuleError::UnknownRegister(40)));
    assert_eq!(evaluate(&[0x06], Some(BASE + 1)), Ok(0x1122_3344_5566_7788));
    assert_eq!(evaluate(&[0x94, 3], Some(BASE + 2)), Ok(0x66_7788));
    assert_eq!(evaluate(&[0x06], Some(4)), Err(RuleError::Unreadable(4)));
    assert_eq!(evaluate(&[0x94, 8], Some(BASE + 15)), Err(RuleError::Unreadable(BASE + 15)));
    for size in [0, 9, 255] {
        assert_eq!(evaluate(&[0x94, size], Some(BASE)), Err(RuleError::ExpressionOpcode(0x94)));
    }
}

#[test]
fn the_expression_of_a_plt_entry_tells_its_halves_apart() {
    // DW_OP_breg7 (rsp) +8, breg16 (rip) +0, lit15, and, lit11, ge, lit3, shl, plus
    let plt = [0x77, 8, 0x80, 0, 0x3f, 0x1a, 0x3b, 0x2a, 0x33, 0x24, 0x22];
    let bytes = SliceMemory::new(BASE, &plt);
    let cfa =
        |rip: u64| {
            Expression { address: BASE, length: plt.len() as u32 }
                .evaluate(&mut { bytes }, &mut { bytes }, None, |n| {
                    if n == 16 { Some(rip) } else { Some(0x7000) }
                })
                .unwrap()
        };
    assert_eq!((cfa(0x4020), cfa(0x402a), cfa(0x402b), cfa(0x402f)), (0x7008, 0x7008, 0x7010, 0x7010));
}

#[test]
fn branches_go_both_ways_and_stay_inside() {
    // A loop: 5 4 3 2 1 are added up: lit0 lit5; rot-free sum by over.
    // 0: lit0; 1: lit5; 2: dup; 3: rot; 4: plus; 5: swap; 6: lit1; 7: minus; 8: dup; 9: bra 2; 12: drop
    let sum = [0x30, 0x35, 0x12, 0x17, 0x16, 0x13, 0x13];
    assert!(evaluate(&sum, None).is_ok());
    let count = [0x30, 0x35, 0x16, 0x31, 0x22, 0x16, 0x31, 0x1c, 0x12, 0x28, 0xf6, 0xff, 0x13];
    assert_eq!(value(&count), 5, "five rounds of: counter + 1, limit - 1");
    assert_eq!(value(&[0x31, 0x2f, 1, 0, 0xff, 0x96]), 1, "skip over an unknown operation");
    assert_eq!(value(&[0x31, 0x2f, 0, 0]), 1, "to the end");
    assert_eq!(evaluate(&[0x31, 0x2f, 1, 0], None), Err(RuleError::ExpressionBranch));
    assert_eq!(evaluate(&[0x31, 0x2f, 0xfb, 0xff], None), Err(RuleError::ExpressionBranch));
    assert_eq!(value(&[0x37, 0x30, 0x28, 0xff, 0x7f]), 7, "a branch that is not taken goes nowhere");
}

#[test]
fn malformed_and_endless_expressions_end_with_the_reason() {
    assert_eq!(evaluate(&[0x2f, 0xfd, 0xff], None), Err(RuleError::ExpressionSteps));
    assert_eq!(evaluate(&[0x31, 0x2f, 0xfc, 0xff], None), Err(RuleError::ExpressionStack), "pushes for ever");
    assert_eq!(evaluate(&[], None), Err(RuleError::ExpressionStack));
    assert_eq!(evaluate(&[], Some(9)), Ok(9));
    for code in
        [&[0x12][..], &[0x13], &[0x31, 0x14], &[0x15, 255], &[0x31, 0x16], &[0x31, 0x32, 0x17], &[0x06]]
    {
        assert_eq!(evaluate(code, None), Err(RuleError::ExpressionStack), "{code:x?}");
    }
    for code in [&[0x31, 0x30, 0x1b][..], &[0x31, 0x30, 0x1d]] {
        assert_eq!(evaluate(code, None), Err(RuleError::ExpressionDivision), "{code:x?}");
    }
    for code in [&[0x08][..], &[0x0e, 1, 2], &[0x10, 0x80], &[0x92, 7], &[0x77]] {
        assert_eq!(evaluate(code, None), Err(RuleError::ExpressionCutShort), "{code:x?}");
    }
    for opcode in [0x00, 0x18, 0x50, 0x90, 0x91, 0x93, 0x97, 0x9c, 0x9f, 0xff] {
        assert_eq!(evaluate(&[0x31, 0x31, opcode], None), Err(RuleError::ExpressionOpcode(opcode)));
    }
    let beyond = Expression { address: u64::MAX, length: 2 };
    assert_eq!(
        beyond.evaluate(&mut SliceMemory::new(0, &[]), &mut SliceMemory::new(0, &[]), None, |_| None),
        Err(RuleError::ExpressionCutShort)
    );
    let unmapped = Expression { address: 0x5000, length: 2 };
    assert_eq!(
        unmapped.evaluate(&mut SliceMemory::new(0, &[]), &mut SliceMemory::new(0, &[]), None, |_| None),
        Err(RuleError::ExpressionCutShort)
    );
}
