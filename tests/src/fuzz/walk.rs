//! Arbitrary registers, stacks and images of either architecture: every walk ends within its bounds, its frames ascend and
//! lie in code, and what was learned by one walk does not change the next.

use super::image::{self, CODE, IMAGE};
use super::source::{Source, architecture};
use super::space::Space;
use freezeframe_arch::{Architecture, PacMask, Registers, RegistersArm64, RegistersX86_64};
use freezeframe_unwind::images::ImageTable;
use freezeframe_unwind::memory::SliceMemory;
use freezeframe_unwind::rule::{FrameAddress, KnownRegisters, StackBounds};
use freezeframe_unwind::walk::{
    Backtrace, Depth, Frame, FramePointerWalker, StopReason, Walk, WalkContext, Walker,
};
use std::cell::RefCell;

const STACK: u64 = 0x7000_0000;
/// The walkers' own bound.
const STEPS: usize = 1 << 20;
/// What is read for a frame at most: tables have their own bounds, and expressions.
const READS: u64 = 1 << 14;
/// How many frames of two walks are compared.
const KEPT: usize = 96;

/// Flags: 1 arm64, 2 Mach-O, 4 memory copies, 8 only sp and pc are known, 16 the end of the stack is known, 32 sp is
/// anywhere.
pub fn walk(bytes: &[u8]) {
    let mut source = Source(bytes);
    let flags = source.u8();
    let architecture = architecture(flags);
    let (registers, stack) = thread(&mut source, architecture, flags);
    let built = if flags & 2 == 0 {
        image::elf(&mut source, architecture)
    } else {
        image::macho(&mut source, architecture)
    };
    let pac = PacMask::from_address_bits(48);
    let high = if flags & 16 == 0 { u64::MAX } else { STACK + stack.len() as u64 };
    let bounds = StackBounds { low: registers.sp(), high };
    let known = match flags & 8 {
        0 => KnownRegisters::ALL,
        _ => KnownRegisters::stack_and_program_counter(architecture),
    };

    STORAGE.with_borrow_mut(|Storage { images, context }| {
        images.clear();
        images.add(&mut SliceMemory::new(IMAGE, &built.bytes), IMAGE, b"image");
        let lends = flags & 4 == 0;
        let tables = Space::new([(IMAGE, &built.bytes), (0, &[])], lends);
        let memory = || Space::new([(STACK, &stack), (IMAGE, &built.bytes)], lends);
        let place = Place { images, high, pac };

        let walker = Walker::new(&registers, bounds, pac, images, tables.clone(), context);
        let first = place.check(walker.knowing(&registers, known), &mut memory());
        let by_frame_pointer = FramePointerWalker::new(&registers, bounds, pac);
        place.check(by_frame_pointer.clone().with_images(images), &mut memory());
        Place { images: &NO_IMAGES, ..place }.check(by_frame_pointer, &mut memory());

        // Again, in a hurry, and with rules that are kept by now.
        let walker = Walker::new(&registers, bounds, pac, images, tables.clone(), context);
        let mut frames = [Frame::EMPTY; KEPT];
        let (filled, stop) = walker.knowing(&registers, known).fill(&mut memory(), &mut frames);
        assert_eq!((&frames[..filled], stop), (&first.frames[..], first.stop.map_or(Ok(()), Err)));

        let mut storage = [Frame::EMPTY; 24];
        let walker = Walker::new(&registers, bounds, pac, images, tables, context);
        let mut walker = walker.knowing(&registers, known);
        let depth = Depth { innermost: 16, outermost: 8 };
        let summary = Backtrace::new(&mut storage, depth).collect(&mut walker, &mut memory());
        assert_eq!(summary.kept as u64 + summary.omitted, first.count as u64);
        assert_eq!(storage[..summary.kept.min(16)], first.frames[..summary.kept.min(16)]);
    });
}

static NO_IMAGES: ImageTable = ImageTable::new();

struct Storage {
    images: Box<ImageTable>,
    context: Box<WalkContext>,
}

thread_local! {
    /// Made once: what walks have learned of one image must not speak for the next.
    static STORAGE: RefCell<Storage> =
        RefCell::new(Storage { images: Box::new(ImageTable::new()), context: Box::new(WalkContext::new()) });
}

/// What a walk must stay in. Without images every address is code.
#[derive(Clone, Copy)]
struct Place<'a> {
    images: &'a ImageTable,
    high: u64,
    pac: PacMask,
}

/// The first frames of a walk, and how it ended if these are all.
struct Walked {
    frames: Vec<Frame>,
    stop: Option<StopReason>,
    count: usize,
}

impl Place<'_> {
    fn check(&self, mut walker: impl Walk, memory: &mut Space<'_>) -> Walked {
        let mut walked = Walked { frames: Vec::new(), stop: None, count: 0 };
        let mut callee: Option<Frame> = None;
        loop {
            let frame = match walker.next(memory) {
                Ok(frame) => frame,
                Err(stop) => {
                    assert_eq!(walker.next(memory), Err(stop), "an ended walk stays ended");
                    walked.stop = (walked.count < KEPT).then_some(stop);
                    break;
                }
            };
            if let (Some(callee), FrameAddress::ReturnAddress(pc)) = (callee, frame.address) {
                let stands = !matches!(callee.address, FrameAddress::ReturnAddress(_));
                let ascends = frame.sp > callee.sp || stands && frame.sp == callee.sp;
                assert!(ascends, "{:#x} is not above its callee's {:#x}", frame.sp, callee.sp);
                // A leaf may leave the stack pointer where it is, wherever that is.
                let inside = frame.sp <= self.high || frame.sp == callee.sp;
                assert!(inside, "{:#x} is above the stack's end", frame.sp);
                let lookup = FrameAddress::ReturnAddress(self.pac.strip(pc)).lookup();
                assert!(self.images.images().is_empty() || self.images.is_code(lookup), "{pc:#x} is no code");
            }
            if walked.count < KEPT {
                walked.frames.push(frame);
            }
            walked.count += 1;
            callee = Some(frame);
            assert!(walked.count <= STEPS + 1, "the walk does not end");
        }
        assert!(memory.reads <= READS * (walked.count as u64 + 1), "{} reads", memory.reads);
        walked
    }
}

/// A number that matters in a stack: mostly an address in the stack, or in code.
fn word(source: &mut Source<'_>) -> u64 {
    let kind = source.u8();
    let pac = if kind & 0x80 == 0 { 0 } else { 0x002a << 48 };
    match kind & 7 {
        0 => 0,
        1 => STACK + 8 * u64::from(source.u8()),
        2 => STACK + u64::from(source.u16()),
        3 | 4 => pac | (IMAGE + CODE as u64 + u64::from(source.u8())),
        5 => pac | (IMAGE + u64::from(source.u16())),
        6 => u64::from(source.u16()),
        _ => source.u64(),
    }
}

fn thread(source: &mut Source<'_>, architecture: Architecture, flags: u8) -> (Registers, Vec<u8>) {
    let sp = if flags & 32 == 0 { STACK } else { word(source) };
    let registers = match architecture {
        Architecture::X86_64 => {
            let [rip, rbp, rbx, rdi] = std::array::from_fn(|_| word(source));
            let rest = RegistersX86_64 { rip, rsp: sp, ..Default::default() };
            Registers::X86_64(RegistersX86_64 { rbp, rbx, rdi, r10: rbp, r12: rdi, ..rest })
        }
        Architecture::Arm64 => {
            let mut registers = RegistersArm64 { pc: word(source), sp, ..Default::default() };
            [registers.x[29], registers.x[30], registers.x[19]] = std::array::from_fn(|_| word(source));
            Registers::Arm64(registers)
        }
    };
    // An odd byte at the end, too.
    let (words, odd) = (source.u8(), source.u8() % 16);
    let stack = (0..words).flat_map(|_| word(source).to_le_bytes());
    let stack = stack.chain((0..odd).map(|n| n.wrapping_mul(37))).collect();
    (registers, stack)
}
