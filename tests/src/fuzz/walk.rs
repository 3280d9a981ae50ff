//! Arbitrary registers, stacks and images of either architecture: every walk ends, and its frames ascend.

use super::Source;
use freezeframe_arch::{Architecture, PacMask, Registers, RegistersArm64, RegistersX86_64};
use freezeframe_unwind::images::{ImageTable, Range};
use freezeframe_unwind::memory::SliceMemory;
use freezeframe_unwind::rule::{FrameAddress, KnownRegisters, StackBounds};
use freezeframe_unwind::tables::cfi::{RowContext, Tables};
use freezeframe_unwind::tables::compact::CompactTable;
use freezeframe_unwind::tables::prologue::{Position, look_ahead};
use freezeframe_unwind::walk::{Backtrace, Depth, Frame, FramePointerWalker, Walk, WalkContext, Walker};
use std::cell::RefCell;

const IMAGE: u64 = 0x40_0000;
const STACK: u64 = 0x7000_0000;
/// Where the tables are in an image, and how large it is.
const TABLES: usize = 0x200;
const IMAGE_BYTES: usize = 0x4000;

/// Registers, stack and image from the bytes: an image's file header is right, so that its tables are reached.
///
/// Flags: bit 0 arm64, bits 1 and 2 which words are moved to where the stack or the image is.
pub fn walk(bytes: &[u8]) {
    let mut source = Source(bytes);
    let flags = source.u8();
    let registers = registers(&mut source, flags);
    let stack_length = usize::from(source.u16() % 2048);
    let stack = source.bytes(stack_length);
    let image = image(source.0);
    let bounds = StackBounds { low: registers.sp(), high: STACK + stack.len() as u64 };
    let pac = PacMask::from_address_bits(48);

    STORAGE.with_borrow_mut(|Storage { images, context }| {
        images.clear();
        images.add(&mut SliceMemory::new(IMAGE, &image), IMAGE, b"image");
        let tables = SliceMemory::new(IMAGE, &image);
        let mut memory = SliceMemory::new(STACK, stack);
        check(Walker::new(&registers, bounds, pac, images, tables, context), &mut memory);
        check(FramePointerWalker::new(&registers, bounds, pac).with_images(images), &mut memory);

        let mut storage = [Frame::EMPTY; 24];
        let mut walker = Walker::new(&registers, bounds, pac, images, tables, context);
        let depth = Depth { innermost: 16, outermost: 8 };
        let summary = Backtrace::new(&mut storage, depth).collect(&mut walker, &mut memory);
        assert!(summary.kept <= 24 && (summary.omitted == 0 || summary.kept == 24));
    });
}

/// A lookup in arbitrary tables, and what its row leads to.
pub fn cfi(bytes: &[u8]) {
    let mut source = Source(bytes);
    let flags = source.u8();
    let registers = registers(&mut source, flags);
    let pc = IMAGE + u64::from(source.u16());
    let image = image(source.0);
    let range =
        |start: usize, end: usize| Some(Range { start: IMAGE + start as u64, end: IMAGE + end as u64 });
    let mut tables = Tables::new(Range { start: IMAGE, end: IMAGE + image.len() as u64 });
    let mut context = RowContext::new();
    let mut memory = SliceMemory::new(IMAGE, &image);
    for (index, eh_frame) in [(range(TABLES, IMAGE_BYTES), None), (None, range(TABLES, IMAGE_BYTES))] {
        (tables.eh_frame_hdr, tables.eh_frame) = (index, eh_frame);
        if let Ok(row) = tables.row(&mut memory, registers.architecture(), pc, &mut context) {
            assert!(row.range().contains(pc));
            let mut stack = SliceMemory::new(IMAGE, &image);
            let _ = row.apply(&mut stack, &mut memory, &registers, KnownRegisters::ALL);
        }
    }
}

/// A lookup in arbitrary compact unwind information, and what lies ahead of an address in arbitrary code.
pub fn compact(bytes: &[u8]) {
    let mut source = Source(bytes);
    let architecture = if source.u8() & 1 == 0 { Architecture::X86_64 } else { Architecture::Arm64 };
    let (pc, length) = (IMAGE + u64::from(source.u16()), usize::from(source.u16() % 4096));
    let code = source.bytes(length);
    let section = source.0;
    let start = IMAGE + 0x10_0000;
    let section_range = Range { start, end: start + section.len() as u64 };
    let text = Range { start: IMAGE, end: IMAGE + length as u64 };
    let table = CompactTable { section: section_range, image: IMAGE, text };
    let mut code = SliceMemory::new(IMAGE, code);
    let function = match table.find(&mut SliceMemory::new(start, section), pc) {
        Ok(function) => {
            assert!(function.code.contains(pc));
            let _ = function.encoding.unwinding(&mut code, architecture, function.code.start);
            function.code
        }
        Err(_) => Range { start: IMAGE, end: IMAGE + length as u64 },
    };
    look_ahead(&mut code, architecture, &Position { pc, function, body: None });
}

struct Storage {
    images: Box<ImageTable>,
    context: Box<WalkContext>,
}

thread_local! {
    /// Made once: what walks have learned of one image must not speak for the next.
    static STORAGE: RefCell<Storage> =
        RefCell::new(Storage { images: Box::new(ImageTable::new()), context: Box::new(WalkContext::new()) });
}

fn check(mut walker: impl Walk, memory: &mut SliceMemory<'_>) {
    let mut last = None;
    for _ in 0..=1 << 21 {
        let frame = match walker.next(memory) {
            Ok(frame) => frame,
            Err(stop) => {
                assert_eq!(walker.next(memory), Err(stop), "an ended walk stays ended");
                return;
            }
        };
        if let (Some(callee), FrameAddress::ReturnAddress(_)) = (last, frame.address) {
            assert!(frame.sp >= callee, "{:#x} is below its callee's {callee:#x}", frame.sp);
        }
        last = Some(frame.sp);
    }
    panic!("the walk does not end");
}

fn registers(source: &mut Source<'_>, flags: u8) -> Registers {
    let mut word = |place: u64| {
        let value = source.u64();
        // Mostly somewhere that matters.
        if flags & 2 == 0 { place + value % 4096 } else { value }
    };
    let architecture = if flags & 1 == 0 { Architecture::X86_64 } else { Architecture::Arm64 };
    let sp = if flags & 4 == 0 { STACK } else { word(STACK) };
    match architecture {
        Architecture::X86_64 => {
            let (rip, rbp, rbx) = (word(IMAGE), word(STACK), word(STACK));
            Registers::X86_64(RegistersX86_64 { rip, rsp: sp, rbp, rbx, r10: rbp, ..Default::default() })
        }
        Architecture::Arm64 => {
            let mut registers = RegistersArm64 { pc: word(IMAGE), sp, ..Default::default() };
            (registers.x[29], registers.x[30], registers.x[19]) = (word(STACK), word(IMAGE), word(STACK));
            Registers::Arm64(registers)
        }
    }
}

/// An ELF image whose one segment is all code, and whose `.eh_frame_hdr` begins at [`TABLES`], where the bytes stand.
fn image(tables: &[u8]) -> Vec<u8> {
    let mut image = vec![0; IMAGE_BYTES];
    image[..6].copy_from_slice(b"\x7fELF\x02\x01");
    (image[32], image[54], image[56]) = (64, 56, 2);
    let segments = [(1u32, 5u32, 0u64), (0x6474_e550, 4, TABLES as u64)];
    for (header, (kind, flags, start)) in image[64..].chunks_exact_mut(56).zip(segments) {
        header[..4].copy_from_slice(&kind.to_le_bytes());
        header[4..8].copy_from_slice(&flags.to_le_bytes());
        header[16..24].copy_from_slice(&start.to_le_bytes());
        header[40..48].copy_from_slice(&(IMAGE_BYTES as u64 - start).to_le_bytes());
    }
    let length = tables.len().min(IMAGE_BYTES - TABLES);
    image[TABLES..TABLES + length].copy_from_slice(&tables[..length]);
    image
}
