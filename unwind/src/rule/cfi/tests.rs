use super::*;
use crate::memory::SliceMemory;

const STACK: u64 = 0x7000;
/// Words at `STACK`: their number, in thousands, plus one.
const WORDS: [u64; 8] = [1, 1001, 2001, 3001, 4001, 5001, 6001, 7001];

fn row(architecture: Architecture, column: u64, cfa: CfaRule, rules: &[(usize, RegisterRule)]) -> Row {
    let mut row = Row::new();
    row.architecture = architecture;
    row.return_column = column;
    row.state.cfa = cfa;
    rules.iter().for_each(|(slot, rule)| row.state.set(*slot, *rule));
    row
}

/// Registers that hold 0x100 and their number; sp points to the stack.
fn x86() -> Registers {
    let mut words = core::array::from_fn(|n| 0x100 + n as u64);
    words[7] = STACK;
    Registers::X86_64(RegistersX86_64::from_words(words))
}

fn arm() -> Registers {
    let mut words = core::array::from_fn(|n| 0x100 + n as u64);
    words[31] = STACK;
    Registers::Arm64(RegistersArm64::from_words(words))
}

fn apply(row: &Row, registers: Registers, known: KnownRegisters) -> Result<CfiCaller, RuleError> {
    let mut bytes = [0; 64];
    bytes.chunks_exact_mut(8).zip(WORDS).for_each(|(to, word)| to.copy_from_slice(&word.to_le_bytes()));
    row.apply(&mut SliceMemory::new(STACK, &bytes), &mut SliceMemory::new(0, &[]), &registers, known)
}

const SP_X86: CfaRule = CfaRule::RegisterOffset { register: 7, offset: 32 };
const RIP: (usize, RegisterRule) = (16, RegisterRule::Offset(-8));

fn word(registers: &Registers, n: usize) -> u64 {
    let mut words = [0; Registers::MAX_WORDS];
    registers.copy_words(&mut words);
    words[n]
}

#[test]
fn each_rule_is_its_equation() {
    let rules = [
        RIP,
        (3, RegisterRule::Offset(-32)),
        (6, RegisterRule::ValOffset(-16)),
        (12, RegisterRule::Register(13)),
        (13, RegisterRule::Register(12)),
        (14, RegisterRule::SameValue),
        (0, RegisterRule::Undefined),
    ];
    let caller = apply(&row(Architecture::X86_64, 16, SP_X86, &rules), x86(), KnownRegisters::ALL).unwrap();
    assert_eq!((caller.cfa, caller.return_address), (STACK + 32, Some(3001)));
    assert_eq!((caller.registers.pc(), caller.registers.sp()), (3001, STACK + 32));
    let words = [3, 6, 12, 13, 14, 15].map(|n| word(&caller.registers, n));
    assert_eq!(
        words,
        [1, STACK + 16, 0x10d, 0x10c, 0x10e, 0x10f],
        "12 and 13 are swapped, not copied in turn"
    );
    let known = [0, 3, 7, 15, 16, 17].map(|n| caller.known.contains(n));
    assert_eq!(known, [false, true, true, true, true, false], "undefined, and the flags, are not known");
    assert_eq!((caller.signal_frame, caller.sign), (false, ReturnAddressSign::Plain));
}

#[test]
fn expressions_start_with_the_cfa_on_their_stack() {
    // lit8 minus: cfa - 8. The operations lie in the tables, not on the stack.
    let mut bytes = [0; 64];
    bytes[24..32].copy_from_slice(&0x1234u64.to_le_bytes());
    let mut stack = SliceMemory::new(STACK, &bytes);
    let expression = Expression { address: 0x100, length: 2 };
    let rules = [(16, RegisterRule::Expression(expression)), (3, RegisterRule::ValExpression(expression))];
    let from_sp = row(Architecture::X86_64, 16, SP_X86, &rules);
    let mut tables = SliceMemory::new(0x100, &[0x38, 0x1c]);
    let caller = from_sp.apply(&mut stack, &mut tables, &x86(), KnownRegisters::ALL).unwrap();
    assert_eq!((caller.return_address, word(&caller.registers, 3)), (Some(0x1234), STACK + 24));

    // breg7 24: the CFA by an expression, which has nothing on its stack.
    let mut tables = SliceMemory::new(0x100, &[0x77, 24]);
    let by_expression =
        row(Architecture::X86_64, 16, CfaRule::Expression(expression), &[(16, RegisterRule::Offset(0))]);
    let caller = by_expression.apply(&mut stack, &mut tables, &x86(), KnownRegisters::ALL).unwrap();
    assert_eq!((caller.cfa, caller.return_address), (STACK + 24, Some(0x1234)));
}

#[test]
fn an_undefined_return_address_is_the_end_and_an_omitted_one_is_not() {
    let ends = row(Architecture::X86_64, 16, SP_X86, &[(16, RegisterRule::Undefined)]);
    let caller = apply(&ends, x86(), KnownRegisters::ALL).unwrap();
    assert_eq!((caller.return_address, caller.registers.pc(), caller.known.contains(16)), (None, 0, false));
    for rules in [&[][..], &[(16, RegisterRule::SameValue)]] {
        let omitted = row(Architecture::X86_64, 16, SP_X86, rules);
        assert_eq!(apply(&omitted, x86(), KnownRegisters::ALL), Err(RuleError::NoReturnAddress));
    }
}

#[test]
fn an_arm64_leaf_returns_to_its_link_register_if_that_is_known() {
    let sp = CfaRule::RegisterOffset { register: 31, offset: 0 };
    let leaf = row(Architecture::Arm64, 30, sp, &[]);
    let caller = apply(&leaf, arm(), KnownRegisters::ALL).unwrap();
    assert_eq!((caller.return_address, caller.registers.pc()), (Some(0x11e), 0x11e));
    let unknown = apply(&leaf, arm(), KnownRegisters::ALL.without(30));
    assert_eq!(unknown, Err(RuleError::UnknownRegister(30)));

    let sp = CfaRule::RegisterOffset { register: 31, offset: 16 };
    let rules = [(29, RegisterRule::Offset(-16)), (30, RegisterRule::Offset(-8))];
    let mut framed = row(Architecture::Arm64, 30, sp, &rules);
    framed.state.sign = ReturnAddressSign::Signed;
    let caller = apply(&framed, arm(), KnownRegisters::ALL).unwrap();
    assert_eq!((caller.return_address, caller.registers.lr()), (Some(1001), Some(1001)));
    assert_eq!((caller.registers.fp(), caller.registers.sp()), (1, STACK + 16));
    assert_eq!(caller.sign, ReturnAddressSign::Signed);
}

#[test]
fn what_a_rule_cannot_read_is_unknown_unless_the_walk_needs_it() {
    let far = [RIP, (3, RegisterRule::Offset(1 << 20)), (6, RegisterRule::Register(40))];
    let caller = apply(&row(Architecture::X86_64, 16, SP_X86, &far), x86(), KnownRegisters::ALL).unwrap();
    assert_eq!([3, 6, 12].map(|n| caller.known.contains(n)), [false, false, true]);
    let lost = row(Architecture::X86_64, 16, SP_X86, &[(16, RegisterRule::Offset(1 << 20))]);
    let address = STACK + 32 + (1 << 20);
    assert_eq!(apply(&lost, x86(), KnownRegisters::ALL), Err(RuleError::Unreadable(address)));
    let known = KnownRegisters::ALL.without(7);
    let good = row(Architecture::X86_64, 16, SP_X86, &[RIP]);
    assert_eq!(apply(&good, x86(), known), Err(RuleError::UnknownRegister(7)));
    let nowhere = row(Architecture::X86_64, 16, CfaRule::Unspecified, &[RIP]);
    assert_eq!(apply(&nowhere, x86(), KnownRegisters::ALL), Err(RuleError::NoCfa));
    assert_eq!(apply(&good, arm(), KnownRegisters::ALL), Err(RuleError::Architecture));
}

#[test]
fn a_row_may_restore_the_stack_pointer_itself() {
    let rules = [RIP, (7, RegisterRule::Offset(-16))];
    let caller = apply(&row(Architecture::X86_64, 16, SP_X86, &rules), x86(), KnownRegisters::ALL).unwrap();
    assert_eq!((caller.registers.sp(), caller.cfa), (2001, STACK + 32));
}

#[test]
fn the_preserved_registers_are_those_of_the_abi() {
    let list = |architecture| (0..64).filter(move |n| KnownRegisters::preserved(architecture).contains(*n));
    assert!(list(Architecture::X86_64).eq([3, 6, 7, 12, 13, 14, 15, 16]));
    assert!(list(Architecture::Arm64).eq((19..=29).chain([31, 32])));
    assert!(!KnownRegisters::ALL.contains(64) && !KnownRegisters::NONE.with(5).without(5).contains(5));
}
