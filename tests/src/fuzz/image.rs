//! Images that are right, but for what a fuzzer changes: so that it comes to what lies behind the headers.
//!
//! ```text
//! 0        CODE             TABLES
//! headers │ code │          tables: .eh_frame_hdr and .eh_frame, or __unwind_info and __eh_frame
//! ```

use super::source::Source;
use freezeframe_arch::Architecture;

pub(super) const IMAGE: u64 = 0x40_0000;
pub(super) const CODE: usize = 0x600;
const TABLES: usize = 0x1600;
const BYTES: usize = 0x3000;

/// An image, and where things are in it.
#[derive(Debug)]
pub(super) struct Built {
    pub(super) bytes: Vec<u8>,
    /// The addresses at which functions begin, and the last one's end.
    pub(super) functions: Vec<u64>,
    /// Where the first table lies, and the second: `.eh_frame_hdr` and `.eh_frame`, or `__unwind_info` and `__eh_frame`.
    pub(super) tables: [std::ops::Range<usize>; 2],
}

/// What the tables say of a function.
struct Function<'a> {
    start: u32,
    size: u32,
    /// Instructions for the FDE.
    program: &'a [u8],
    /// Compact encoding.
    encoding: u32,
}

/// Code, and functions that follow each other in it.
fn functions<'a>(source: &mut Source<'a>, image: &mut [u8]) -> Vec<Function<'a>> {
    let code = source.many();
    let length = code.len().min(TABLES - CODE);
    image[CODE..CODE + length].copy_from_slice(&code[..length]);
    let mut start = CODE as u32;
    (0..source.u8() % 16)
        .map(|_| {
            let size = u32::from(source.u8());
            let (encoding, program) = (source.u32(), source.few());
            let function = Function { start, size, program, encoding };
            start += size;
            function
        })
        .collect()
}

fn boundaries(functions: &[Function<'_>]) -> Vec<u64> {
    let ends = functions.last().map(|function| function.start + function.size);
    let starts = functions.iter().map(|function| function.start).chain(ends);
    starts.map(|start| IMAGE + u64::from(start)).collect()
}

/// An ELF image for an architecture. Flags: 1 the CIE says that it is a signal's frame, 2 it signs return addresses, 4 its
/// instructions come from the input, 8 the whole of the tables does.
pub(super) fn elf(source: &mut Source<'_>, architecture: Architecture) -> Built {
    let mut bytes = vec![0; BYTES];
    let flags = source.u8();
    let functions = functions(source, &mut bytes);
    let hdr_bytes = 12 + 8 * functions.len();
    let frame_at = TABLES + hdr_bytes.next_multiple_of(8);
    let end = if flags & 8 == 0 {
        let frame = eh_frame(source, architecture, flags, &functions, frame_at);
        let hdr = eh_frame_hdr(&functions, &frame.1, frame_at);
        let (hdr_end, frame_end) = (TABLES + hdr.len(), (frame_at + frame.0.len()).min(BYTES));
        bytes[TABLES..hdr_end].copy_from_slice(&hdr);
        bytes[frame_at..frame_end].copy_from_slice(&frame.0[..frame_end - frame_at]);
        frame_end
    } else {
        let raw = source.many();
        let length = raw.len().min(BYTES - TABLES);
        bytes[TABLES..TABLES + length].copy_from_slice(&raw[..length]);
        TABLES + length
    };
    let hdr = TABLES..TABLES + hdr_bytes;
    elf_header(&mut bytes, architecture, &hdr);
    source.damage(&mut bytes);
    Built { bytes, functions: boundaries(&functions), tables: [hdr, frame_at..end.max(frame_at)] }
}

fn elf_header(bytes: &mut [u8], architecture: Architecture, hdr: &std::ops::Range<usize>) {
    bytes[..6].copy_from_slice(b"\x7fELF\x02\x01");
    bytes[16] = 3;
    bytes[18] = if architecture == Architecture::X86_64 { 62 } else { 183 };
    (bytes[32], bytes[54], bytes[56]) = (64, 56, 2);
    let segments = [(1u32, 5u32, 0, BYTES), (0x6474_e550, 4, hdr.start, hdr.len())];
    for (header, (kind, flags, start, size)) in bytes[64..].chunks_exact_mut(56).zip(segments) {
        header[..4].copy_from_slice(&kind.to_le_bytes());
        header[4..8].copy_from_slice(&flags.to_le_bytes());
        header[16..24].copy_from_slice(&(start as u64).to_le_bytes());
        header[40..48].copy_from_slice(&(size as u64).to_le_bytes());
    }
}

/// The section, and where in it each function's FDE is.
fn eh_frame(
    source: &mut Source<'_>,
    architecture: Architecture,
    flags: u8,
    functions: &[Function<'_>],
    section: usize,
) -> (Vec<u8>, Vec<usize>) {
    let augmentation: &[u8] = match (flags & 1 != 0, flags & 2 != 0) {
        (false, false) => b"zR\0",
        (true, false) => b"zRS\0",
        (false, true) => b"zRB\0",
        (true, true) => b"zRSB\0",
    };
    let usual: &[u8] = match architecture {
        // cfa = rsp + 8, and the return address right below; cfa = sp.
        Architecture::X86_64 => &[0x0c, 7, 8, 0x90, 1],
        Architecture::Arm64 => &[0x0c, 31, 0],
    };
    let (alignment, column) = if architecture == Architecture::X86_64 { (1, 16) } else { (4, 30) };
    let mut body = [&[0, 0, 0, 0, 1], augmentation, &[alignment, 0x78, column, 1, 0x1b]].concat();
    body.extend(if flags & 4 == 0 { usual } else { source.few() });
    let mut bytes = entry(body);
    let mut places = Vec::new();
    for function in functions {
        let place = bytes.len();
        let code = i64::from(function.start) - (section + place + 8) as i64;
        let mut body = (place as u32 + 4).to_le_bytes().to_vec();
        body.extend((code as i32).to_le_bytes());
        body.extend(function.size.to_le_bytes());
        body.push(0);
        body.extend(function.program);
        bytes.extend(entry(body));
        places.push(place);
    }
    bytes.extend([0; 4]);
    (bytes, places)
}

/// An entry behind its length, filled up with `DW_CFA_nop`.
fn entry(mut body: Vec<u8>) -> Vec<u8> {
    body.resize((body.len() + 4).next_multiple_of(8) - 4, 0);
    [(body.len() as u32).to_le_bytes().to_vec(), body].concat()
}

fn eh_frame_hdr(functions: &[Function<'_>], places: &[usize], section: usize) -> Vec<u8> {
    let mut bytes = vec![1, 0x1b, 0x03, 0x3b];
    bytes.extend((section as u32 - TABLES as u32 - 4).to_le_bytes());
    bytes.extend((functions.len() as u32).to_le_bytes());
    for (function, place) in functions.iter().zip(places) {
        bytes.extend((function.start as i32 - TABLES as i32).to_le_bytes());
        bytes.extend(((section + place) as u32 - TABLES as u32).to_le_bytes());
    }
    bytes
}

/// A Mach-O image for an architecture, with compact unwind information. Flags are those of [`elf`] for its `__eh_frame`,
/// and 16: a compressed page.
pub(super) fn macho(source: &mut Source<'_>, architecture: Architecture) -> Built {
    let mut bytes = vec![0; BYTES];
    let flags = source.u8();
    let functions = functions(source, &mut bytes);
    let info = match flags & 8 {
        0 => unwind_info(&functions, flags & 16 != 0),
        _ => source.many().to_vec(),
    };
    let info_end = (TABLES + info.len()).min(BYTES);
    bytes[TABLES..info_end].copy_from_slice(&info[..info_end - TABLES]);
    let frame_at = info_end.next_multiple_of(8).min(BYTES);
    let frame = eh_frame(source, architecture, flags, &functions, frame_at).0;
    let frame_end = (frame_at + frame.len()).min(BYTES);
    bytes[frame_at..frame_end].copy_from_slice(&frame[..frame_end - frame_at]);
    let tables = [TABLES..info_end, frame_at..frame_end];
    macho_header(&mut bytes, architecture, &tables);
    source.damage(&mut bytes);
    Built { bytes, functions: boundaries(&functions), tables }
}

/// A section of one page, regular or compressed, and the mark of the end.
pub(super) fn unwind_info_of(functions: &[(u32, u32)], end: u32, compressed: bool) -> Vec<u8> {
    let Some((first, _)) = functions.first() else { return Vec::new() };
    let count = functions.len() as u32;
    let mut words = vec![1, 28, 0, 28, 0, 28, 2, *first, 52, 0, end, 0, 0];
    if compressed {
        words.extend([3, count << 16 | 12, count << 16 | (12 + 4 * count)]);
        words.extend(functions.iter().zip(0..).map(|((start, _), own)| own << 24 | (start - first)));
        words.extend(functions.iter().map(|(_, encoding)| encoding));
    } else {
        words.extend([2, count << 16 | 8]);
        words.extend(functions.iter().flat_map(|(start, encoding)| [*start, *encoding]));
    }
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

fn unwind_info(functions: &[Function<'_>], compressed: bool) -> Vec<u8> {
    let end = functions.last().map_or(0, |function| function.start + function.size);
    let functions: Vec<(u32, u32)> =
        functions.iter().map(|function| (function.start, function.encoding)).collect();
    unwind_info_of(&functions, end, compressed)
}

fn macho_header(bytes: &mut [u8], architecture: Architecture, tables: &[std::ops::Range<usize>; 2]) {
    let cpu = if architecture == Architecture::X86_64 { 0x0100_0007u32 } else { 0x0100_000c };
    let text = CODE..TABLES;
    let sections =
        [("__text", text), ("__unwind_info", tables[0].clone()), ("__eh_frame", tables[1].clone())];
    let padded =
        |name: &str| std::array::from_fn::<u8, 16, _>(|n| name.as_bytes().get(n).copied().unwrap_or(0));
    let mut segment = Vec::new();
    segment.extend([0x19u32.to_le_bytes(), (72 + 80 * sections.len() as u32).to_le_bytes()].concat());
    segment.extend(padded("__TEXT"));
    for word in [IMAGE, BYTES as u64, 0, BYTES as u64] {
        segment.extend(word.to_le_bytes());
    }
    for word in [5u32, 5, sections.len() as u32, 0] {
        segment.extend(word.to_le_bytes());
    }
    for (name, range) in &sections {
        segment.extend([padded(name), padded("__TEXT")].concat());
        segment.extend((IMAGE + range.start as u64).to_le_bytes());
        segment.extend((range.len() as u64).to_le_bytes());
        segment.extend([0; 32]);
    }
    let header = [0xfeed_facf, cpu, 0, 2, 1, segment.len() as u32, 0, 0].map(u32::to_le_bytes).concat();
    let head = [header, segment].concat();
    bytes[..head.len()].copy_from_slice(&head);
}
