//! Arbitrary compact unwind information: a sound table says what a reader says that goes through it from the first entry to
//! the last, and a damaged one gives an error, or a function around the address.

use super::image::unwind_info_of;
use super::source::{Source, architecture};
use super::space::Space;
use freezeframe_unwind::images::Range;
use freezeframe_unwind::memory::SliceMemory;
use freezeframe_unwind::tables::compact::{CompactError, CompactTable, Encoding, Function};

const IMAGE: u64 = 0x1_0000_0000;
const SECTION: u64 = IMAGE + 0x10_0000;

/// Flags: 1 arm64, 2 a section as it is, 4 a compressed page.
pub fn compact(bytes: &[u8]) {
    let mut source = Source(bytes);
    let flags = source.u8();
    let text_end = u32::from(source.u16());
    let (section, mut wanted) = if flags & 2 == 0 {
        built(&mut source, flags & 4 != 0)
    } else {
        let wanted = vec![source.u32(), source.u32()];
        (source.0.to_vec(), wanted)
    };
    let starts: Vec<u32> =
        Model(&section).functions(0).into_iter().flatten().map(|(start, ..)| start).collect();
    wanted.extend(starts.iter().take(32).flat_map(|start| [start.wrapping_sub(1), *start, start + 1]));
    let range = Range { start: SECTION, end: SECTION + section.len() as u64 };
    let text = Range { start: IMAGE, end: IMAGE + u64::from(text_end) };
    let table = CompactTable { section: range, image: IMAGE, text };
    for wanted in wanted {
        let pc = IMAGE + u64::from(wanted);
        let found = table.find(&mut SliceMemory::new(SECTION, &section), pc);
        let mut copies = Space::new([(SECTION, &section), (0, &[])], false);
        assert_eq!(found, table.find(&mut copies, pc), "lent and copied sections say the same");
        assert!(copies.reads <= 64, "{} reads", copies.reads);
        if let Ok(function) = found {
            assert!(function.code.contains(pc));
            let memory = &mut SliceMemory::new(IMAGE, &section);
            let _ = function.encoding.unwinding(memory, architecture(flags), function.code.start);
        }
        if let Some(functions) = Model(&section).functions(text_end) {
            let around = functions.iter().find(|(start, end, _)| (*start..*end).contains(&wanted));
            let expected = around.and_then(|(start, end, encoding)| {
                let address = |offset: u32| IMAGE + u64::from(offset);
                let code = Range { start: address(*start), end: address(*end) };
                encoding.map(|encoding| Function { code, encoding: Encoding(encoding) })
            });
            assert_eq!(found, expected.ok_or(CompactError::NotCovered(pc)));
        }
    }
}

fn built(source: &mut Source<'_>, compressed: bool) -> (Vec<u8>, Vec<u32>) {
    let mut start = source.u16().into();
    let mut functions = Vec::new();
    for _ in 0..source.u8() {
        functions.push((start, source.u32()));
        start += u32::from(source.u8());
    }
    let mut section = unwind_info_of(&functions, start, compressed);
    source.damage(&mut section);
    (section, vec![start, start.wrapping_add(1)])
}

/// A reader of the section that is as simple as can be.
struct Model<'a>(&'a [u8]);

impl Model<'_> {
    fn word(&self, at: usize) -> Option<u32> {
        self.0.get(at..)?.first_chunk().map(|word| u32::from_le_bytes(*word))
    }

    fn half(&self, at: usize) -> Option<usize> {
        self.0.get(at..)?.first_chunk().map(|half| u16::from_le_bytes(*half).into())
    }

    fn words(&self, at: usize, count: usize) -> Option<Vec<u32>> {
        self.0.get(at..)?;
        (0..count).map(|n| self.word(at.checked_add(n.checked_mul(4)?)?)).collect()
    }

    /// Every entry with its start, its end and its encoding, which a stretch without functions has not. None if the table
    /// is not sound: it is cut off, or out of order. The last entry goes on to `text_end`.
    fn functions(&self, text_end: u32) -> Option<Vec<(u32, u32, Option<u32>)>> {
        let head = self.words(0, 7)?;
        let shared = self.words(head[1] as usize, head[2] as usize)?;
        let pages = self.words(head[5] as usize, (head[6] as usize).checked_mul(3)?)?;
        let pages: Vec<&[u32]> = pages.chunks(3).collect();
        let mut functions = Vec::new();
        for pair in pages.windows(2) {
            let (start, page, next) = (pair[0][0], pair[0][1] as usize, pair[1][0]);
            let end = if std::ptr::eq(pair[1], pages[pages.len() - 1]) { next.max(text_end) } else { next };
            if start >= next {
                return None;
            }
            if page == 0 {
                functions.push((start, end, None));
            } else {
                functions.extend(self.page(page, start, end, &shared)?);
            }
        }
        let ascending = functions.is_sorted_by(|a, b| a.0 < b.0) && functions.iter().all(|f| f.0 < f.1);
        (head[0] == 1 && ascending).then_some(functions)
    }

    fn page(&self, at: usize, first: u32, end: u32, shared: &[u32]) -> Option<Vec<(u32, u32, Option<u32>)>> {
        let (entries, count) = (at + self.half(at + 4)?, self.half(at + 6)?);
        let mut found: Vec<(u32, u32)> = match self.word(at)? {
            2 => self.words(entries, 2 * count)?.chunks(2).map(|entry| (entry[0], entry[1])).collect(),
            3 => {
                let own = self.words(at + self.half(at + 8)?, self.half(at + 10)?)?;
                let encodings = [shared, &own].concat();
                let entry = |entry: u32| {
                    Some((first.checked_add(entry & 0xff_ffff)?, *encodings.get(entry as usize >> 24)?))
                };
                self.words(entries, count)?.into_iter().map(entry).collect::<Option<_>>()?
            }
            _ => return None,
        };
        if found.first().is_some_and(|(start, _)| *start < first) {
            return None;
        }
        found.push((end, 0));
        Some(found.windows(2).map(|pair| (pair[0].0, pair[1].0, Some(pair[0].1))).collect())
    }
}
