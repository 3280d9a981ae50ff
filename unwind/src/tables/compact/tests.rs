extern crate std;
use super::*;
use crate::memory::SliceMemory;
use crate::rule::SavedRule;
use freezeframe_arch::Architecture;
use std::vec::Vec;

const SECTION: u64 = 0x9000;
const IMAGE: u64 = 0x1_0000_0000;

fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

/// A section with two encodings that all pages share, a regular page for 0x1000 to 0x2000 and a compressed one, with two
/// encodings of its own, for 0x2000 to 0x3000.
fn section() -> Vec<u8> {
    let head = [1, 28, 2, 0, 0, 36, 3];
    let encodings = [0x0200_0000, 0x0400_0000];
    let index = [0x1000, 72, 0, 0x2000, 96, 0, 0x3000, 0, 0];
    let regular = [2, 2 << 16 | 8, 0x1000, 0x0400_0001, 0x1080, 0x0300_0040];
    let compressed = [
        3,
        4 << 16 | 12,
        2 << 16 | 28,
        0,
        1 << 24 | 0x40,
        2 << 24 | 0x100,
        3 << 24 | 0xf00,
        0x0400_0003,
        0x0200_4000,
    ];
    words(&[&head[..], &encodings, &index, &regular, &compressed].concat())
}

fn find(bytes: &[u8], offset: u64) -> Result<(u64, u64, u32), CompactError> {
    let section = Range { start: SECTION, end: SECTION + bytes.len() as u64 };
    let table = CompactTable { section, image: IMAGE, text: Range::default() };
    let found = table.find(&mut SliceMemory::new(SECTION, bytes), IMAGE.wrapping_add(offset))?;
    Ok((found.code.start - IMAGE, found.code.end - IMAGE, found.encoding.0))
}

#[test]
fn each_kind_of_page_gives_the_function_around_an_address() {
    let bytes = section();
    for (offset, found) in [
        (0x1000, (0x1000, 0x1080, 0x0400_0001)),
        (0x107f, (0x1000, 0x1080, 0x0400_0001)),
        (0x1080, (0x1080, 0x2000, 0x0300_0040)),
        (0x1fff, (0x1080, 0x2000, 0x0300_0040)),
        (0x2000, (0x2000, 0x2040, 0x0200_0000)),
        (0x2050, (0x2040, 0x2100, 0x0400_0000)),
        (0x2100, (0x2100, 0x2f00, 0x0400_0003)),
        (0x2fff, (0x2f00, 0x3000, 0x0200_4000)),
    ] {
        assert_eq!(find(&bytes, offset), Ok(found), "{offset:#x}");
    }
}

#[test]
fn addresses_before_the_first_function_and_behind_the_last_are_not_covered() {
    let bytes = section();
    for offset in [0, 0xfff, 0x3000, 0xffff_ffff, 0x1_0000_1000, 0u64.wrapping_sub(8)] {
        assert_eq!(find(&bytes, offset), Err(CompactError::NotCovered(IMAGE.wrapping_add(offset))));
    }
}

#[test]
fn the_last_function_goes_on_to_the_end_of_the_text_behind_a_mark_that_comes_too_early() {
    let bytes = section();
    let section = Range { start: SECTION, end: SECTION + bytes.len() as u64 };
    let found = |end: u64, offset: u64| {
        let table = CompactTable { section, image: IMAGE, text: Range { start: IMAGE, end: IMAGE + end } };
        let found = table.find(&mut SliceMemory::new(SECTION, &bytes), IMAGE + offset).ok()?;
        Some((found.code.start - IMAGE, found.code.end - IMAGE, found.encoding.0))
    };
    let last = |end| Some((0x2f00, end, 0x0200_4000));
    assert_eq!([0x2fff, 0x3000, 0x32ff].map(|offset| found(0x3300, offset)), [last(0x3300); 3]);
    assert_eq!(found(0x3300, 0x3300), None);
    assert_eq!((found(0x2f80, 0x2fff), found(0x2f80, 0x3000)), (last(0x3000), None), "the mark is right");
    assert_eq!(found(0x3300, 0x1080), Some((0x1080, 0x2000, 0x0300_0040)), "no other page goes on");
}

#[test]
fn memory_that_copies_gives_what_memory_that_lends_gives() {
    struct Copies<'a>(SliceMemory<'a>);
    impl Memory for Copies<'_> {
        fn read(&mut self, address: u64, out: &mut [u8]) -> usize {
            self.0.read(address, out)
        }
    }
    let bytes = section();
    let section = Range { start: SECTION, end: SECTION + bytes.len() as u64 };
    let table = CompactTable { section, image: IMAGE, text: Range::default() };
    for pc in (IMAGE + 0xff0..IMAGE + 0x3010).step_by(8) {
        let mut memory = SliceMemory::new(SECTION, &bytes);
        assert_eq!(table.find(&mut Copies(memory), pc), table.find(&mut memory, pc));
    }
}

#[test]
fn hostile_tables_end_in_errors() {
    let good = section();
    // A word of the section in place of another.
    let with = |at: usize, word: u32| {
        let mut bytes = good.clone();
        bytes[at..at + 4].copy_from_slice(&word.to_le_bytes());
        bytes
    };
    assert_eq!(find(&with(0, 2), 0x1000), Err(CompactError::Version(2)));
    assert_eq!(find(&with(20, u32::MAX), 0x1000), Err(CompactError::Outside(u64::from(u32::MAX))));
    assert_eq!(find(&with(24, u32::MAX), 0x1000), Err(CompactError::Outside(36)), "the count of pages");
    assert_eq!(find(&with(24, 0), 0x1000), Err(CompactError::NotCovered(IMAGE + 0x1000)));
    assert_eq!(find(&with(8, u32::MAX), 0x1000), Err(CompactError::Outside(28)), "the count of encodings");
    assert_eq!(find(&with(40, u32::MAX), 0x1000), Err(CompactError::Outside(u64::from(u32::MAX))));
    assert_eq!(find(&with(40, 0), 0x1000), Err(CompactError::NotCovered(IMAGE + 0x1000)), "no page");
    assert_eq!(find(&with(72, 7), 0x1000), Err(CompactError::PageKind(7)));
    assert_eq!(find(&with(76, 2 << 16 | 0xffff), 0x1000), Err(CompactError::Outside(72 + 0xffff)));
    assert_eq!(find(&with(76, 0xffff << 16 | 8), 0x1000), Err(CompactError::Outside(80)));
    assert_eq!(find(&with(76, 8), 0x1000), Err(CompactError::NotCovered(IMAGE + 0x1000)), "an empty page");
    assert_eq!(find(&with(80, 0x1001), 0x1000), Err(CompactError::NotCovered(IMAGE + 0x1000)));
    assert_eq!(find(&with(88, 0x800), 0x1070), Err(CompactError::Unsorted(IMAGE + 0x1070)));
    assert_eq!(find(&with(104, 1 << 16 | 28), 0x2f00), Err(CompactError::EncodingIndex(3)));
    for size in 0..good.len() {
        for offset in [0x1000, 0x1080, 0x2000, 0x2f00] {
            let _ = find(&good[..size], offset);
        }
    }
    let range = Range { start: SECTION, end: SECTION + 4096 };
    let table = CompactTable { section: range, image: IMAGE, text: Range::default() };
    let found = table.find(&mut SliceMemory::new(SECTION, &good[..40]), IMAGE + 0x2000);
    assert_eq!(found, Err(CompactError::Unreadable(SECTION + 48)), "a section that is not all there");
    let wraps = CompactTable {
        section: Range { start: u64::MAX - 10, end: u64::MAX },
        image: 0,
        text: Range::default(),
    };
    assert_eq!(wraps.find(&mut SliceMemory::new(0, &[]), 0), Err(CompactError::Outside(0)));
}

fn rule(architecture: Architecture, encoding: u32) -> SavedRule {
    let unwinding = Encoding(encoding).unwinding(&mut SliceMemory::new(0, &[]), architecture, 0);
    let Ok(Unwinding::Rule(rule)) = unwinding else { panic!("{encoding:#x}: {unwinding:?}") };
    rule
}

fn saved(architecture: Architecture, rule: &SavedRule) -> Vec<(u16, i64)> {
    (0..32).filter_map(|register| Some((register, rule.saved(architecture, register)?))).collect()
}

#[test]
fn a_frame_of_arm64_has_its_record_and_the_pairs_below() {
    let arm = Architecture::Arm64;
    let plain = rule(arm, 0x0400_0000);
    assert_eq!((plain.cfa(), plain.return_address()), ((29, 16), Some(-8)));
    assert_eq!(saved(arm, &plain), [(29, -16)]);
    // x19/x20, x23/x24, x27/x28 and two pairs of vectors.
    let pairs = rule(arm, 0x0400_0315);
    let expected = [(19, -24), (20, -32), (23, -40), (24, -48), (27, -56), (28, -64), (29, -16)];
    assert_eq!(saved(arm, &pairs), expected);
}

#[test]
fn a_frameless_function_of_arm64_returns_by_its_link_register() {
    let arm = Architecture::Arm64;
    let leaf = rule(arm, 0x0200_0000);
    assert_eq!((leaf.cfa(), leaf.return_address(), saved(arm, &leaf)), ((31, 0), None, Vec::new()));
    let rule = rule(arm, 0x0200_3003);
    assert_eq!((rule.cfa(), rule.return_address()), ((31, 48), None));
    assert_eq!(saved(arm, &rule), [(19, -8), (20, -16), (21, -24), (22, -32)]);
    let none = |encoding| Encoding(encoding).unwinding(&mut SliceMemory::new(0, &[]), arm, 0);
    assert_eq!(none(0x0200_1003), Err(CompactError::Registers(0x0200_1003)), "no room for two pairs");
    assert_eq!(none(0x0100_0000), Err(CompactError::Mode(0x0100_0000)));
    assert_eq!(none(0), Ok(Unwinding::None));
    assert_eq!(none(0x5312_3456), Ok(Unwinding::Dwarf { fde: 0x12_3456 }));
}

#[test]
fn a_frame_of_x86_64_names_the_register_of_each_slot() {
    let x86 = Architecture::X86_64;
    let plain = rule(x86, 0x0100_0000);
    assert_eq!((plain.cfa(), plain.return_address()), ((6, 16), Some(-8)));
    assert_eq!(saved(x86, &plain), [(6, -16)]);
    // push %r15; push %r14; push %r13; push %r12; push %rbx: five slots from rbp - 40 upward.
    let all = rule(x86, 0x0105_58d1);
    assert_eq!(saved(x86, &all), [(3, -56), (6, -16), (12, -48), (13, -40), (14, -32), (15, -24)]);
    // rbx alone, below a word for something else.
    let one = rule(x86, 0x0102_0001);
    assert_eq!(saved(x86, &one), [(3, -32), (6, -16)]);
    let none = |encoding| Encoding(encoding).unwinding(&mut SliceMemory::new(0, &[]), x86, 0);
    assert_eq!(none(0x0101_0006), Err(CompactError::Registers(0x0101_0006)), "rbp twice");
    assert_eq!(none(0x0101_0007), Err(CompactError::Registers(0x0101_0007)), "no such register");
    assert_eq!(
        none(0x0101_0008),
        Err(CompactError::Registers(0x0101_0008)),
        "above the frame pointer's place"
    );
    assert_eq!(none(0x0500_0000), Err(CompactError::Mode(0x0500_0000)));
    assert_eq!(none(0x0412_3456), Ok(Unwinding::Dwarf { fde: 0x12_3456 }));
}

/// The number that stands for an order of registers, made the other way round: by counting.
fn number_of(order: &[usize]) -> u32 {
    let mut left: Vec<usize> = (0..6).collect();
    let mut number = 0;
    for register in order {
        let digit = left.iter().position(|other| other == register).unwrap();
        number = number * left.len() + digit;
        left.remove(digit);
    }
    number as u32
}

fn orders(count: usize) -> Vec<Vec<usize>> {
    if count == 0 {
        return Vec::from([Vec::new()]);
    }
    let longer = |order: Vec<usize>| {
        let next = (0..6).filter(|n| !order.contains(n)).collect::<Vec<_>>();
        next.into_iter().map(move |n| [&order[..], &[n]].concat())
    };
    orders(count - 1).into_iter().flat_map(longer).collect()
}

#[test]
fn every_order_of_pushes_is_told_from_its_number() {
    let x86 = Architecture::X86_64;
    let dwarf = [3, 12, 13, 14, 15, 6];
    let mut orders_seen = 0;
    for count in 0..=6 {
        for order in orders(count) {
            let encoding = 0x0214_0000 | (count as u32) << 10 | number_of(&order);
            let rule = rule(x86, encoding);
            assert_eq!((rule.cfa(), rule.return_address()), ((7, 160), Some(-8)));
            // The first one lies lowest, the last one right below the return address.
            let expected =
                order.iter().rev().zip(2i64..).map(|(register, place)| (dwarf[*register], -8 * place));
            let mut expected: Vec<(u16, i64)> = expected.collect();
            expected.sort();
            assert_eq!(saved(x86, &rule), expected, "{order:?}");
            orders_seen += 1;
        }
    }
    assert_eq!(orders_seen, 1 + 6 + 30 + 120 + 360 + 720 + 720);
    let none = |encoding| Encoding(encoding).unwinding(&mut SliceMemory::new(0, &[]), x86, 0);
    assert_eq!(none(0x0214_1c00), Err(CompactError::Registers(0x0214_1c00)), "seven registers");
    assert_eq!(none(0x0214_0406), Err(CompactError::Registers(0x0214_0406)), "a digit too large");
    assert_eq!(none(0x0201_0400), Err(CompactError::Registers(0x0201_0400)), "no room");
}

#[test]
fn a_large_frame_of_x86_64_is_measured_in_the_code() {
    let x86 = Architecture::X86_64;
    // push %r14; push %rbx; sub $0x12340, %rsp
    let code = [0x41, 0x56, 0x53, 0x48, 0x81, 0xec, 0x40, 0x23, 0x01, 0];
    // At 6; three words beside: two pushes and the return address; two registers, rbx lowest.
    let encoding = Encoding(0x0300_0000 | 6 << 16 | 3 << 13 | 2 << 10 | number_of(&[0, 3]));
    let at = |code: &[u8]| encoding.unwinding(&mut SliceMemory::new(0x500, code), x86, 0x500);
    let Ok(Unwinding::Rule(rule)) = at(&code) else { panic!() };
    assert_eq!(rule.cfa(), (7, 0x12340 + 24));
    assert_eq!(saved(x86, &rule), [(3, -24), (14, -16)]);
    assert_eq!(at(&[0; 10]), Err(CompactError::StackSize(0x503)));
    assert_eq!(at(&code[..9]), Err(CompactError::Unreadable(0x503)));
    let huge = [0x41, 0x56, 0x53, 0x48, 0x81, 0xec, 255, 255, 255, 255];
    assert_eq!(at(&huge), Err(CompactError::Registers(encoding.0)), "more than a rule can hold");
}
