//! Damaged compact unwind information and any code: lookups never panic, never hang, and a function that is found
//! contains the address that was asked for.

use freezeframe_arch::Architecture;
use freezeframe_unwind::images::Range;
use freezeframe_unwind::memory::{Memory, SliceMemory};
use freezeframe_unwind::tables::compact::{CompactTable, Encoding, Unwinding};
use freezeframe_unwind::tables::prologue::{Position, look_ahead};
use proptest::prelude::*;
use std::time::{Duration, Instant};

const SECTION: u64 = 0x9000;
const IMAGE: u64 = 0x1_0000_0000;
const FUNCTIONS: u32 = 400;
/// What a lookup may take on a machine under load; one takes microseconds.
const BOUND: Duration = Duration::from_secs(2);

/// Memory that lends nothing, as a process's.
struct Copies<'a>(SliceMemory<'a>);

impl Memory for Copies<'_> {
    fn read(&mut self, address: u64, out: &mut [u8]) -> usize {
        self.0.read(address, out)
    }
}

/// A sound section: 400 functions of 64 bytes from 0x1000 on, one half in a regular page, one in a compressed one.
fn section() -> Vec<u8> {
    let encodings = [0x0400_0001u32, 0x0200_1000, 0x0300_0040, 0x0101_0001, 0x0205_0c0a, 0x0306_4c0a, 0];
    let shared = &encodings[..3];
    let half = FUNCTIONS / 2;
    let start = |function: u32| 0x1000 + function * 64;
    let index = 28 + shared.len() as u32 * 4;
    let regular = index + 36;
    let compressed = regular + 8 + half * 8;
    let mut words = vec![1, 28, shared.len() as u32, 0, 0, index, 3];
    words.extend(shared);
    words.extend([start(0), regular, 0, start(half), compressed, 0, start(FUNCTIONS), 0, 0]);
    words.extend([2, half << 16 | 8]);
    words.extend(
        (0..half).flat_map(|function| [start(function), encodings[function as usize % encodings.len()]]),
    );
    words.extend([3, half << 16 | 12, 4 << 16 | (12 + half * 4)]);
    words.extend((0..half).map(|function| (function % 7) << 24 | (function * 64)));
    words.extend(&encodings[3..]);
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

fn table(bytes: &[u8]) -> CompactTable {
    let section = Range { start: SECTION, end: SECTION + bytes.len() as u64 };
    CompactTable { section, image: IMAGE, text: Range::default() }
}

#[test]
fn every_function_of_the_sound_section_is_found() {
    let bytes = section();
    for function in 0..u64::from(FUNCTIONS) {
        let start = IMAGE + 0x1000 + function * 64;
        for pc in [start, start + 63] {
            let found = table(&bytes).find(&mut SliceMemory::new(SECTION, &bytes), pc).expect("covered");
            assert_eq!(found.code, Range { start, end: start + 64 });
        }
    }
}

/// Bytes to change: most of them in the head, the index and the pages' heads.
fn changes() -> impl Strategy<Value = Vec<(usize, u8)>> {
    let place = prop_oneof![0..76usize, 76..100usize, 1670..1700usize, 0..2600usize];
    prop::collection::vec((place, any::<u8>()), 1..12)
}

#[test]
fn damaged_sections_give_functions_around_the_address_or_errors_in_bounded_time() {
    let good = section();
    let cases = ProptestConfig::default().cases.max(5000);
    let config = ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() };
    let mut runner = proptest::test_runner::TestRunner::new(config);
    let inputs = (changes(), 0..0x8000u64, any::<prop::sample::Index>());
    let result = runner.run(&inputs, |(changes, offset, cut)| {
        let mut bytes = good.clone();
        changes
            .iter()
            .filter(|(place, _)| *place < good.len())
            .for_each(|(place, byte)| bytes[*place] = *byte);
        let whole = table(&bytes);
        let cut = &bytes[..cut.index(bytes.len() * 4).min(bytes.len())];
        for pc in [IMAGE + offset, IMAGE + 0x1000 + offset % 0x6400] {
            let begin = Instant::now();
            let lent = whole.find(&mut SliceMemory::new(SECTION, &bytes), pc);
            let copied = whole.find(&mut Copies(SliceMemory::new(SECTION, &bytes)), pc);
            prop_assert_eq!(lent, copied);
            for found in [lent, whole.find(&mut SliceMemory::new(SECTION, cut), pc)].into_iter().flatten() {
                prop_assert!(found.code.contains(pc), "{:x?} for {:#x}", found, pc);
            }
            prop_assert!(begin.elapsed() < BOUND);
        }
        Ok(())
    });
    if let Err(error) = result {
        panic!("{error}");
    }
}

#[test]
fn any_encoding_and_any_code_give_a_rule_or_none_in_bounded_time() {
    // Bytes of prologues and epilogues are likelier than chance has them.
    let likely = prop::sample::select(vec![
        0x55u8, 0x48, 0x89, 0xe5, 0x53, 0x41, 0x56, 0x5b, 0x5d, 0xc3, 0xeb, 0xfe, 0xc9, 0x8d, 0x83, 0xec,
        0xa9, 0xfd, 0x7b, 0xbf, 0x91, 0xd1, 0xff, 0x14, 0x00,
    ]);
    let code = prop::collection::vec(prop_oneof![likely, any::<u8>()], 0..400);
    let config = ProptestConfig { failure_persistence: None, ..ProptestConfig::default() };
    let cases = config.cases.max(5000);
    let mut runner = proptest::test_runner::TestRunner::new(ProptestConfig { cases, ..config });
    let result = runner.run(&(code, any::<u32>(), 0..420u64), |(code, encoding, offset)| {
        for base in [IMAGE, u64::MAX - 399] {
            let function = Range { start: base, end: base.saturating_add(code.len() as u64) };
            let pc = base.saturating_add(offset);
            for architecture in [Architecture::X86_64, Architecture::Arm64] {
                let begin = Instant::now();
                let mut memory = SliceMemory::new(base, &code);
                let body = match Encoding(encoding).unwinding(&mut memory, architecture, base) {
                    Ok(Unwinding::Rule(rule)) => Some(rule),
                    _ => None,
                };
                let position = Position { pc, function, body: body.as_ref() };
                let lent = look_ahead(&mut memory, architecture, &position);
                prop_assert_eq!(lent, look_ahead(&mut Copies(memory), architecture, &position));
                prop_assert!(begin.elapsed() < BOUND);
            }
        }
        Ok(())
    });
    if let Err(error) = result {
        panic!("{error}");
    }
}
