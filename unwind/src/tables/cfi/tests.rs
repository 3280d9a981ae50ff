extern crate std;
use super::entry::Cie;
use super::*;
use crate::memory::{SliceMemory, Window};
use crate::rule::{CfaRule, Expression, RegisterRule, ReturnAddressSign};
use std::vec::Vec;

const BASE: u64 = 0x10_0000;
const CODE: u64 = 0x20_0000;
const IMAGE: Range = Range { start: BASE, end: 0x30_0000 };
const CFA_RSP_8: CfaRule = CfaRule::RegisterOffset { register: 7, offset: 8 };

/// An entry of the fields after the length: an id or distance, and the rest, padded with nops.
fn entry(id: u32, rest: &[u8]) -> Vec<u8> {
    let mut body: Vec<u8> = id.to_le_bytes().into();
    body.extend(rest);
    body.resize(body.len().next_multiple_of(4), 0);
    let mut bytes: Vec<u8> = (body.len() as u32).to_le_bytes().into();
    bytes.extend(body);
    bytes
}

/// `.eh_frame` of one CIE of `cie` (all after its id) and an FDE of 0x1000 bytes of code from `CODE` on, with absolute
/// addresses, behind which `fde` stands.
fn eh_frame(cie: &[u8], fde: &[u8]) -> Vec<u8> {
    let mut bytes = entry(0, cie);
    let distance = bytes.len() as u32 + 4;
    let mut fields: Vec<u8> = CODE.to_le_bytes().into();
    fields.extend(0x1000u64.to_le_bytes());
    fields.extend(fde);
    bytes.extend(entry(distance, &fields));
    bytes.extend([0; 4]);
    bytes
}

/// Version 1, no augmentation, factors 1 and -8, column 16; cfa = rsp + 8, rip at cfa - 8.
const PLAIN: [u8; 10] = [1, 0, 1, 0x78, 16, 0x0c, 7, 8, 0x90, 1];

fn row_in(bytes: &[u8], pc: u64, architecture: Architecture) -> Result<Row, TableError> {
    let eh_frame = Range { start: BASE, end: BASE + bytes.len() as u64 };
    let tables = Tables { eh_frame: Some(eh_frame), text: Some(CODE), ..Tables::new(IMAGE) };
    let mut context = RowContext::new();
    tables.row(&mut SliceMemory::new(BASE, bytes), architecture, pc, &mut context).cloned()
}

/// The row at `CODE + offset` of an FDE with these instructions, after the usual CIE.
fn row(offset: u64, instructions: &[u8]) -> Result<Row, TableError> {
    row_in(&eh_frame(&PLAIN, instructions), CODE + offset, Architecture::X86_64)
}

fn rule(register: u16, instructions: &[u8]) -> RegisterRule {
    row(0, instructions).unwrap().rule(register)
}

#[test]
fn each_advance_begins_a_row_and_the_last_ends_with_the_code() {
    // push %rbp: advance 1, def_cfa_offset 16, rbp at cfa - 16; then by 1, 2 and 4 bytes of operand; set_loc.
    let set_loc = [&[0x01][..], &(CODE + 0xe00).to_le_bytes()].concat();
    let program =
        [
            &[
                0x41, 0x0e, 16, 0x86, 2, 0x02, 0x80, 0x0e, 24, 0x03, 0, 2, 0x0e, 32, 0x04, 0, 8, 0, 0, 0x0e,
                40,
            ][..],
            &set_loc,
            &[0x0e, 48],
        ]
        .concat();
    let rows: Vec<(u64, u64, i64)> = [0, 1, 0x80, 0x81, 0x280, 0x281, 0xa80, 0xa81, 0xdff, 0xe00, 0xfff]
        .map(|offset| {
            let row = row(offset, &program).unwrap();
            let CfaRule::RegisterOffset { register: 7, offset } = row.cfa() else { panic!("{row:?}") };
            (row.range().start - CODE, row.range().end - CODE, offset)
        })
        .into();
    let (a, b, c) = ((0, 1, 8), (1, 0x81, 16), (0x81, 0x281, 24));
    let (d, e, f) = ((0x281, 0xa81, 32), (0xa81, 0xe00, 40), (0xe00, 0x1000, 48));
    assert_eq!(rows, [a, b, b, c, c, d, d, e, e, f, f]);
    assert_eq!(row(1, &program).unwrap().rule(6), RegisterRule::Offset(-16));
    assert_eq!(row(0x1000, &program).map(|_| ()), Err(TableError::NoEntry(CODE + 0x1000)));
    assert_eq!(row_in(&[0; 4], CODE, Architecture::X86_64).map(|_| ()), Err(TableError::NoEntry(CODE)));
}

#[test]
fn each_register_instruction_gives_its_rule() {
    use RegisterRule::{Offset, Register, SameValue, Undefined, ValOffset};
    assert_eq!(rule(3, &[0x83, 4]), Offset(-32));
    assert_eq!(rule(3, &[0x05, 3, 4]), Offset(-32));
    assert_eq!(rule(3, &[0x11, 3, 0x7c]), Offset(32));
    assert_eq!(rule(3, &[0x2f, 3, 4]), Offset(32));
    assert_eq!(rule(3, &[0x14, 3, 4]), ValOffset(-32));
    assert_eq!(rule(3, &[0x15, 3, 0x7c]), ValOffset(32));
    assert_eq!(rule(3, &[0x09, 3, 12]), Register(12));
    assert_eq!((rule(3, &[0x07, 3]), rule(3, &[0x08, 3])), (Undefined, SameValue));
    assert_eq!(rule(3, &[]), RegisterRule::Unspecified);
    assert_eq!(rule(16, &[0x07, 16]), Undefined, "the end of a stack");
    assert_eq!(rule(16, &[0x07, 16, 0xd0]), Offset(-8), "restore: as in the CIE");
    assert_eq!(rule(16, &[0x07, 16, 0x06, 16]), Offset(-8));
    assert_eq!(rule(3, &[0x83, 4, 0xc3]), RegisterRule::Unspecified);
    // Vector registers: passed over.
    assert_eq!(row(0, &[0x05, 40, 4, 0x06, 41, 0x07, 0x80, 0x80, 4]).unwrap().rules().count(), 1);
}

#[test]
fn each_cfa_instruction_gives_its_rule() {
    let cfa = |instructions: &[u8]| row(0, instructions).unwrap().cfa();
    let at = |register, offset| CfaRule::RegisterOffset { register, offset };
    assert_eq!(cfa(&[]), CFA_RSP_8);
    assert_eq!(cfa(&[0x0c, 6, 16]), at(6, 16));
    assert_eq!(cfa(&[0x12, 6, 0x7e]), at(6, 16));
    assert_eq!((cfa(&[0x0d, 6]), cfa(&[0x0e, 0x80, 1])), (at(6, 8), at(7, 128)));
    assert_eq!(cfa(&[0x13, 0x7c]), at(7, 32));
    assert_eq!(cfa(&[0x2e, 0x80, 1]), CFA_RSP_8, "GNU_args_size says nothing");
}

#[test]
fn expressions_are_given_by_their_place() {
    let bytes = eh_frame(&PLAIN, &[0x0f, 2, 0x77, 8, 0x10, 3, 1, 0x9c, 0x16, 4, 0]);
    let row = row_in(&bytes, CODE, Architecture::X86_64).unwrap();
    let place = |wanted: &[u8]| BASE + bytes.windows(wanted.len()).position(|w| w == wanted).unwrap() as u64;
    assert_eq!(row.cfa(), CfaRule::Expression(Expression { address: place(&[0x77, 8]), length: 2 }));
    let (three, four) = (Expression { address: place(&[0x9c]), length: 1 }, place(&[0x9c, 0x16, 4, 0]) + 4);
    assert_eq!(row.rule(3), RegisterRule::Expression(three));
    assert_eq!(row.rule(4), RegisterRule::ValExpression(Expression { address: four, length: 0 }));
}

#[test]
fn states_are_remembered_four_deep_with_their_cfa() {
    let nest = |n: usize| {
        let down: Vec<u8> = (0..n as u8).flat_map(|n| [0x0a, 0x0e, 100 + n, 0x83, n + 1, 0x84, 1]).collect();
        [down, std::vec![0x0b; n]].concat()
    };
    for n in 0..=4 {
        let row = row(0, &nest(n)).unwrap();
        assert_eq!((row.cfa(), row.rules().count()), (CFA_RSP_8, 1), "{n} deep");
    }
    let mut one_left = nest(4);
    one_left.pop();
    let row = row(0, &one_left).unwrap();
    assert_eq!(row.cfa(), CfaRule::RegisterOffset { register: 7, offset: 100 });
    assert_eq!(row.rule(3), RegisterRule::Offset(-8));
    assert_eq!(self::row(0, &nest(5)).map(|_| ()), Err(TableError::StatesFull));
    assert_eq!(self::row(0, &[0x0b]).map(|_| ()), Err(TableError::NoState));
}

#[test]
fn augmentations_are_read_and_unknown_ones_passed_over_by_their_length() {
    // zPLR with an indirect personality, B, S, G: a pc-relative FDE address of four bytes.
    let zplr = [
        &[1, b'z', b'P', b'L', b'R', b'S', b'B', b'G', 0, 1, 0x78, 16, 7, 0x9b, 1, 2, 3, 4, 0x1b, 0x1b][..],
        &[0x0c, 7, 8, 0x90, 1],
    ]
    .concat();
    let mut bytes = entry(0, &zplr);
    let start = BASE + bytes.len() as u64 + 8;
    let mut fields: Vec<u8> = ((CODE as i64 - start as i64) as i32).to_le_bytes().into();
    fields.extend([0, 16, 0, 0, 4, 1, 2, 3, 4, 0x0e, 16]);
    bytes.extend(entry(bytes.len() as u32 + 4, &fields));
    let row = row_in(&bytes, CODE + 0xfff, Architecture::X86_64).unwrap();
    assert_eq!(row.range(), Range { start: CODE, end: CODE + 0x1000 });
    assert_eq!(row.cfa(), CfaRule::RegisterOffset { register: 7, offset: 16 });
    assert!(row.is_signal_frame() && row.is_b_key());
    assert_eq!(row.return_column(), 16);

    let rows = |cie: &[u8], fde: &[u8]| row_in(&eh_frame(cie, fde), CODE, Architecture::X86_64);
    let unknown = [1, b'z', b'Q', b'R', 0, 1, 0x78, 16, 2, 0x77, 0x77, 0x0c, 7, 8];
    assert_eq!(
        rows(&unknown, &[0, 0x0e, 24]).unwrap().cfa(),
        CfaRule::RegisterOffset { register: 7, offset: 24 }
    );
    let unsized_unknown = [1, b'Q', 0, 1, 0x78, 16, 0, 0];
    assert_eq!(rows(&unsized_unknown, &[]).map(|_| ()), Err(TableError::Augmentation(b'Q'.into())));
    let eh = [&[1, b'e', b'h', 0, 9, 9, 9, 9, 9, 9, 9, 9, 1, 0x78, 16, 0x0c, 7, 8][..]].concat();
    assert_eq!(rows(&eh, &[]).unwrap().cfa(), CFA_RSP_8);
    let four = [4, 0, 8, 0, 1, 0x78, 0x90, 1, 0x0c, 7, 8];
    assert_eq!(rows(&four, &[]).unwrap().return_column(), 144);
    let column = rows(&four, &[0x05, 0x90, 1, 2]).unwrap();
    assert_eq!(column.return_address(), RegisterRule::Offset(-16), "a column outside the register file");
    assert_eq!(rows(&[4, 0, 4, 0, 1, 0x78, 16], &[]).map(|_| ()), Err(TableError::AddressSize(4)));
    assert_eq!(rows(&[2, 0, 1, 0x78, 16], &[]).map(|_| ()), Err(TableError::CieVersion(2)));
}

#[test]
fn the_usual_cie_is_read_as_any_other() {
    for factors in [[1, 0x78], [4, 0x7c], [0x7f, 0x3f], [0, 0x40]] {
        let [code, data] = factors;
        let short = entry(0, &[1, b'z', b'R', 0, code, data, 30, 1, 0x1b, 0x0c, 31, 0]);
        // The same with an augmentation that says nothing, which takes the long way.
        let long = entry(0, &[1, b'z', b'R', b'G', 0, code, data, 30, 1, 0x1b, 0x0c, 31, 0]);
        let read = |bytes: &[u8]| {
            let mut memory = SliceMemory::new(BASE, bytes);
            let cie =
                Cie::read(&mut memory, &mut Window::<256>::new(), IMAGE, &Bases::default(), BASE).unwrap();
            (Cie { instructions: IMAGE, ..cie }, cie.instructions.start)
        };
        let ((short, begins), (long, begins_later)) = (read(&short), read(&long));
        assert_eq!((short, begins + 1), (long, begins_later));
    }
}

#[test]
fn arm64_return_addresses_are_signed_and_unsigned() {
    // paciasp at 0, autiasp at 8: code factor 4, column 30.
    let cie = [1, 0, 4, 0x78, 30, 0x0c, 31, 0];
    let bytes = eh_frame(&cie, &[0x41, 0x2d, 0x0a, 0x41, 0x2d, 0x41, 0x0b, 0x41, 0x2c, 0x41, 0x06, 34]);
    let sign = |offset| row_in(&bytes, CODE + offset, Architecture::Arm64).unwrap().sign();
    use ReturnAddressSign::{Plain, Signed, SignedWithPc};
    assert_eq!([0, 4, 8, 12].map(sign), [Plain, Signed, Plain, Signed], "the state is remembered, too");
    assert_eq!([16, 20].map(sign), [Plain, Plain], "flipped by both bits from signed, then restored");
    let with_pc = eh_frame(&cie, &[0x41, 0x2c]);
    assert_eq!(row_in(&with_pc, CODE + 4, Architecture::Arm64).unwrap().sign(), SignedWithPc);
    for opcode in [0x2c, 0x2d] {
        assert_eq!(
            row(0, &[opcode]).map(|_| ()),
            Err(TableError::Instruction(opcode.into())),
            "x86_64 has none"
        );
    }
}

#[test]
fn an_entry_of_64_bits_is_read() {
    let mut bytes = entry(0, &PLAIN);
    let mut fields: Vec<u8> = (bytes.len() as u32 + 12).to_le_bytes().into();
    fields.extend(CODE.to_le_bytes());
    fields.extend(16u64.to_le_bytes());
    fields.extend([0x0e, 32]);
    bytes.extend([255; 4]);
    bytes.extend((fields.len() as u64).to_le_bytes());
    bytes.extend(fields);
    let row = row_in(&bytes, CODE + 15, Architecture::X86_64).unwrap();
    assert_eq!(row.cfa(), CfaRule::RegisterOffset { register: 7, offset: 32 });
}

#[test]
fn without_the_sections_end_the_search_is_bounded_by_the_image() {
    // A header without a table, as the arm64 vDSO's would be, then .eh_frame, at the image's very end.
    let frames = eh_frame(&PLAIN, &[]);
    let mut bytes: Vec<u8> = [1, 0x1b, 0xff, 0xff, 4, 0, 0, 0].into();
    bytes.extend(&frames);
    let image = Range { start: BASE, end: BASE + bytes.len() as u64 };
    let header = Range { start: BASE, end: BASE + 8 };
    let tables = Tables { eh_frame_hdr: Some(header), ..Tables::new(image) };
    let mut context = RowContext::new();
    let mut look_up = |bytes: &[u8], pc| {
        let mut memory = SliceMemory::new(BASE, bytes);
        tables.row(&mut memory, Architecture::X86_64, pc, &mut context).map(Row::cfa)
    };
    assert_eq!(look_up(&bytes, CODE), Ok(CFA_RSP_8));
    assert_eq!(look_up(&bytes, CODE - 1), Err(TableError::NoEntry(CODE - 1)));
    let without_terminator = bytes.len() - 4;
    bytes[without_terminator..].copy_from_slice(&[0xf0, 0xff, 0xff, 0x7f]);
    let address = BASE + without_terminator as u64;
    assert_eq!(look_up(&bytes, CODE - 1), Err(TableError::EntryOutside(address)));
    let nothing = Tables::new(image);
    let row = nothing.row(&mut SliceMemory::new(BASE, &bytes), Architecture::X86_64, CODE, &mut context);
    assert_eq!(row.map(|_| ()), Err(TableError::NoTables));
}

#[test]
fn malformed_tables_end_with_the_reason() {
    let error = |bytes: &[u8]| row_in(bytes, CODE, Architecture::X86_64).map(|_| ()).unwrap_err();
    let good = eh_frame(&PLAIN, &[]);
    let fde = entry(0, &PLAIN).len();
    let with = |at: usize, bytes: &[u8]| {
        let mut changed = good.clone();
        changed[at..at + bytes.len()].copy_from_slice(bytes);
        error(&changed)
    };
    assert_eq!(with(0, &[0xf0, 0xff, 0xff, 0x7f]), TableError::EntryOutside(BASE));
    assert_eq!(with(0, &[255; 12]), TableError::EntryOutside(BASE), "64 bits, beyond the address space");
    assert_eq!(with(0, &[2, 0, 0, 0]), TableError::CutShort, "no room for an id");
    let here = BASE + fde as u64;
    assert_eq!(with(fde + 4, &[4, 0, 0, 0]), TableError::NotCie(here), "an FDE that is its own CIE");
    assert_eq!(with(fde + 4, &[0, 0, 0, 0x80]), TableError::EntryOutside((here + 4).wrapping_sub(1 << 31)));
    assert_eq!(with(fde + 16, &[255; 8]), TableError::CodeRange(CODE));
    let instruction = |instructions: &[u8]| row(0, instructions).map(|_| ()).unwrap_err();
    for opcode in [0x17, 0x1c, 0x1d, 0x2b, 0x30, 0x3f] {
        assert_eq!(instruction(&[opcode]), TableError::Instruction(opcode.into()));
    }
    let padded = |bytes: [u8; 4]| instruction(&bytes);
    assert_eq!(padded([0, 0, 0, 0x0e]), TableError::CutShort);
    assert_eq!(padded([0x0f, 100, 0, 0]), TableError::CutShort, "an expression beyond the entry");
    assert_eq!(padded([0x0c, 7, 0x80, 0x80]), TableError::CutShort);
    assert_eq!(instruction(&[0x0d, 0x80, 0x80, 4]), TableError::RegisterNumber(0x10000));
    assert_eq!(instruction(&[0x0f, 0, 0x0e, 8]), TableError::Misplaced(0x0e), "no register to add to");
    let backwards = [&[0x01][..], &(CODE - 1).to_le_bytes()].concat();
    assert_eq!(instruction(&backwards), TableError::Location(CODE));
    for code in [0x41, 0x02, 0xc3, 0x06] {
        let cie = [1, 0, 1, 0x78, 16, code, 3, 0];
        assert_eq!(error(&eh_frame(&cie, &[])), TableError::Misplaced(code.into()), "in a CIE");
    }
    // A code factor that overflows.
    let cie = [1, 0, 255, 255, 255, 255, 255, 255, 255, 255, 255, 1, 0x78, 16];
    assert_eq!(error(&eh_frame(&cie, &[0x42])), TableError::Location(CODE));
}

#[test]
fn an_unreadable_fde_does_not_hide_the_next() {
    let mut bytes = entry(0, &[9, 0]);
    let bad = [&CODE.to_le_bytes()[..], &16u64.to_le_bytes()].concat();
    bytes.extend(entry(bytes.len() as u32 + 4, &bad));
    let error = row_in(&bytes, CODE, Architecture::X86_64).map(|_| ());
    assert_eq!(error, Err(TableError::CieVersion(9)));
    bytes.extend(eh_frame(&PLAIN, &[]));
    assert_eq!(row_in(&bytes, CODE, Architecture::X86_64).unwrap().cfa(), CFA_RSP_8);
}

#[test]
fn memory_that_lends_nothing_gives_the_same_rows_through_the_windows() {
    struct Copied<'a>(SliceMemory<'a>);
    impl Memory for Copied<'_> {
        fn read(&mut self, address: u64, out: &mut [u8]) -> usize {
            self.0.read(address, out)
        }
    }
    // More instructions than a window holds, with expressions across its edges and one longer than it.
    let mut program: Vec<u8> = Vec::new();
    for n in 0..100u8 {
        program.extend([0x41, 0x10, n % 16, n % 20 + 1]);
        program.extend(std::vec![0x96; usize::from(n % 20 + 1)]);
    }
    program.extend([0x41, 0x0f, 0xac, 2]);
    program.extend([0x96; 300]);
    program.extend([0x41, 0x83, 4]);
    let bytes = eh_frame(&PLAIN, &program);
    let eh_frame = Range { start: BASE, end: BASE + bytes.len() as u64 };
    let tables = Tables { eh_frame: Some(eh_frame), ..Tables::new(IMAGE) };
    for pc in (0..110).map(|n| CODE + n) {
        let lent = row_in(&bytes, pc, Architecture::X86_64).unwrap();
        let mut context = RowContext::new();
        let mut memory = Copied(SliceMemory::new(BASE, &bytes));
        let copied = tables.row(&mut memory, Architecture::X86_64, pc, &mut context).unwrap();
        assert_eq!(std::format!("{lent:?}"), std::format!("{copied:?}"));
    }
    let mut cut = Copied(SliceMemory::new(BASE, &bytes[..bytes.len() - 200]));
    let mut context = RowContext::new();
    let row = tables.row(&mut cut, Architecture::X86_64, CODE + 105, &mut context);
    let end = BASE + bytes.len() as u64 - 200;
    assert!(matches!(row, Err(TableError::Unreadable(at)) if at >= end), "{row:?}");
}
