//! The bodies of the sections. `FORMAT.md` lists the same fields.

use super::About;
use super::about::{Process, System};
use super::writer::Writer;
use crate::layout::{FRAME_BYTES, NO_IMAGE};
use freezeframe_arch::{Architecture, Registers};
use freezeframe_unwind::images::{Image, ImageTable, MAX_IMAGES};
use freezeframe_unwind::locks::{LockWait, Owner};
use freezeframe_unwind::rule::FrameAddress;
use freezeframe_unwind::snapshot::{Held, Set, ThreadCapture, View};
use freezeframe_unwind::walk::Frame;

/// What all sections are made from.
pub(super) struct Context<'a> {
    pub(super) about: &'a About<'a>,
    pub(super) snapshot: &'a View<'a>,
    pub(super) images: &'a ImageTable,
}

/// What was left out so far.
pub(super) struct Left {
    pub(super) threads: u32,
    pub(super) images: u32,
    pub(super) frames: u64,
}

/// Numbers of architectures.
pub(crate) const fn architecture_code(architecture: Architecture) -> u8 {
    match architecture {
        Architecture::X86_64 => 1,
        Architecture::Arm64 => 2,
    }
}

/// Numbers of ways in which a thread was held; the reason if it was not, or not in a better way; for how long.
const fn held_codes(thread: &ThreadCapture) -> (u8, u8, u64) {
    let not_better = match thread.not_better {
        Some(error) => error as u8,
        None => 0,
    };
    match thread.held {
        Held::Not(error) => (0, error as u8, 0),
        Held::Signal { held_ns } => (1, not_better, held_ns),
        Held::Torn => (2, not_better, 0),
        Held::Itself => (3, 0, 0),
        Held::Mach { held_ns } => (4, not_better, held_ns),
        Held::Ptrace { held_ns } => (5, not_better, held_ns),
        Held::Peek => (6, not_better, 0),
    }
}

/// Numbers of whether the threads were held at one time; the reason if they were not; for how long.
const fn set_codes(set: Set) -> (u8, u8, u64) {
    match set {
        Set::OneByOne => (0, 0, 0),
        Set::Together { held_ns } => (1, 0, held_ns),
        Set::NotTogether(error) => (2, error as u8, 0),
    }
}

pub(super) fn write_record(w: &mut Writer<'_>, context: &Context<'_>) {
    let Context { about, snapshot, .. } = context;
    let held = snapshot.threads.iter().map(|thread| held_codes(thread).2);
    w.bytes(&about.uuid);
    w.u8(about.kind as u8);
    w.u8(about.strategy as u8);
    w.u8(architecture_code(snapshot.architecture));
    w.u8(about.activity);
    w.u64(about.wall_ns);
    w.u64(about.started_ns);
    w.u64(about.detected_ns);
    w.u64(snapshot.started_ns);
    w.u64(snapshot.ended_ns);
    w.u64(held.clone().fold(0, u64::saturating_add));
    w.u64(held.fold(0, u64::max));
    w.u64(about.interval_ns);
    w.u32(about.misses);
    w.u64(about.discounted_ns);
    w.u64(about.late_ticks);
    w.u64(about.wakeups);
    w.bytes(&about.boot_id);
    w.u64(snapshot.pac.bits());
    w.string(about.component.as_bytes());
    w.u64(about.continuous_ns);
    let (set, error, set_held_ns) = set_codes(snapshot.set);
    w.u8(set);
    w.u8(error);
    w.u64(set_held_ns);
}

pub(super) fn write_process(w: &mut Writer<'_>, process: &Process<'_>) {
    w.u32(process.pid);
    w.u32(process.parent);
    w.u64(process.start_ticks);
    w.u8(u8::from(process.debugged));
    w.string(process.name);
    w.string(process.path);
    w.string(process.parent_name);
    w.string(process.app.as_bytes());
    w.string(process.version.as_bytes());
    w.u8(process.app_state as u8);
    w.u8(u8::from(process.translated));
    w.u64(process.cpu_ns);
    w.u64(process.footprint_bytes);
}

pub(super) fn write_system(w: &mut Writer<'_>, system: &System<'_>) {
    w.u32(system.cores);
    w.u32(system.page_bytes);
    w.string(system.os);
    w.string(system.kernel);
    w.string(system.model);
    w.string(system.build);
    w.u64(system.memory_bytes);
}

/// Frames of another thread that come before its registers.
const FEW_FRAMES: usize = 16;
/// Bytes of a thread's section from the number of registers on, beside registers and frames.
const AFTER_REGISTERS: usize = 2 + 9 + 20 + 16 + 14;

/// Bits of a thread's flags.
pub(crate) mod flags {
    pub(crate) const FIRST: u8 = 1;
    pub(crate) const MAIN: u8 = 2;
    pub(crate) const MOVED: u8 = 4;
}

/// Bits of an image's kind.
pub(crate) mod image_flags {
    pub(crate) const VARIANT: u8 = 0x10;
    pub(crate) const IN_SHARED_CACHE: u8 = 0x20;
}

/// A thread in at most `most` bytes: frames that do not fit are left out of the middle, like those that the snapshot
/// had left out already.
pub(super) fn write_thread(
    w: &mut Writer<'_>,
    context: &Context<'_>,
    left: &mut Left,
    thread: &ThreadCapture,
    first: bool,
    most: usize,
) {
    let start = w.used();
    let facts = &thread.facts;
    let (held, error, held_ns) = held_codes(thread);
    w.u32(thread.thread.0 as u32);
    w.u8(if first { flags::FIRST } else { 0 }
        | if thread.main { flags::MAIN } else { 0 }
        | if thread.moved { flags::MOVED } else { 0 });
    w.u8(facts.state as u8);
    w.u8(held);
    w.u8(error);
    w.u64(held_ns);
    w.u64(facts.cpu_ns);
    w.u64(facts.user_ticks);
    w.u64(facts.system_ticks);
    w.u32(facts.system_call.map_or(u32::MAX, |call| call.number));
    facts.system_call.map_or([0; 6], |call| call.arguments).iter().for_each(|argument| w.u64(*argument));
    w.u64(thread.stack_end);
    w.u32(thread.copies);
    w.string(facts.name.bytes());

    let mut words = [0; Registers::MAX_WORDS];
    let count = thread.registers.map_or(0, |registers| registers.copy_words(&mut words));
    // Where there is little room, another thread's frames say more than its registers.
    let frames = context.snapshot.frames(thread);
    let wanted =
        count.saturating_mul(8).saturating_add(frames.len().min(FEW_FRAMES).saturating_mul(FRAME_BYTES));
    let crowded = !first
        && w.used().saturating_sub(start).saturating_add(AFTER_REGISTERS).saturating_add(wanted) > most;
    let count = if crowded { 0 } else { count };
    w.u16(count as u16);
    words.iter().take(count).for_each(|word| w.u64(*word));

    let summary = &thread.summary;
    let walked = !matches!(thread.held, Held::Not(_));
    let (stop, stop_address) = if walked { summary.stop.code() } else { (0, 0) };
    w.u8(stop);
    w.u64(stop_address);
    let (first_repeat, period, times) = summary.repeat.map_or((0, 0, 0), |r| (r.first, r.period, r.times));
    w.u64(first_repeat);
    w.u32(period);
    w.u64(times);

    // What comes before the frames from here on, and what behind them.
    const COUNTS: usize = 16 + LOCK;
    const LOCK: usize = 14;
    let used = w.used().saturating_sub(start).saturating_add(COUNTS);
    let room = most.saturating_sub(used).min(w.room().saturating_sub(COUNTS)) / FRAME_BYTES;
    let kept = frames.len().min(room);
    let outer = frames.len().saturating_sub(summary.omitted_after);
    // A third of what fits shows how the thread got there, as in the snapshot.
    let outer_kept = if kept == frames.len() { outer } else { outer.min(kept / 3) };
    let inner_kept = kept.saturating_sub(outer_kept).min(frames.len().saturating_sub(outer_kept));
    let cut = frames.len().saturating_sub(inner_kept).saturating_sub(outer_kept) as u64;
    left.frames = left.frames.saturating_add(cut);
    w.u32(inner_kept as u32);
    w.u64(summary.omitted.saturating_add(cut));
    w.u32(inner_kept.saturating_add(outer_kept) as u32);
    let (inner, rest) = frames.split_at_checked(inner_kept).unwrap_or((frames, &[]));
    let outermost = rest.get(rest.len().saturating_sub(outer_kept)..).unwrap_or(&[]);
    inner.iter().chain(outermost).for_each(|frame| write_frame(w, context, frame));
    write_lock(w, thread.lock);
}

fn write_lock(w: &mut Writer<'_>, lock: Option<LockWait>) {
    let (owner_kind, owner) = match lock.map_or(Owner::Unknown, |lock| lock.owner) {
        Owner::Unknown => (0, 0),
        Owner::Thread(thread) => (1, thread.0 as u32),
        Owner::Ended(thread) => (2, thread.0 as u32),
        Owner::Readers(count) => (3, count),
    };
    w.u8(lock.map_or(0, |lock| lock.kind as u8));
    w.u8(owner_kind);
    w.u32(owner);
    w.u64(lock.map_or(0, |lock| lock.address));
}

fn write_frame(w: &mut Writer<'_>, context: &Context<'_>, frame: &Frame) {
    let origin = match frame.address {
        FrameAddress::InstructionPointer(_) => 1,
        FrameAddress::ReturnAddress(_) => 2,
        FrameAddress::SignalReturn(_) => 3,
    };
    w.u64(frame.address.raw());
    w.u64(frame.sp);
    w.u32(image_of(context, frame).map_or(NO_IMAGE, |(index, _)| index as u32));
    w.u8(origin);
    w.u8(frame.trust as u8);
    w.u16(0);
}

fn image_of<'a>(context: &Context<'a>, frame: &Frame) -> Option<(usize, &'a Image)> {
    let stripped = frame.address.with(context.snapshot.pac.strip(frame.address.raw()));
    context.images.find(stripped.lookup())
}

/// Images: first those that frames are in, then the others while less than `most` bytes are used.
pub(super) fn write_images(w: &mut Writer<'_>, context: &Context<'_>, left: &mut Left, most: usize) {
    let start = w.used();
    let count_at = w.used();
    w.u32(0);
    // Before anything is taken back: that would forget that not even this had room.
    if !w.fits() {
        return;
    }
    let mut count = 0u32;
    let used = used_images(context);
    for wanted in [true, false] {
        for (index, image) in context.images.images().iter().enumerate() {
            let is_used = used.get(index / 64).is_some_and(|word| word & 1 << (index % 64) != 0);
            if is_used != wanted {
                continue;
            }
            let before = w.used();
            write_image(w, context, index, image);
            if w.fits() && w.used().saturating_sub(start) <= most {
                count = count.saturating_add(1);
            } else {
                w.rewind(before);
                left.images = left.images.saturating_add(1);
            }
        }
    }
    w.patch(count_at, &count.to_le_bytes());
}

/// Which images frames lie in, one bit each.
fn used_images(context: &Context<'_>) -> [u64; MAX_IMAGES / 64] {
    let mut used = [0u64; MAX_IMAGES / 64];
    let frames = context.snapshot.threads.iter().flat_map(|thread| context.snapshot.frames(thread));
    for (index, _) in frames.filter_map(|frame| image_of(context, frame)) {
        if let Some(word) = used.get_mut(index / 64) {
            *word |= 1 << (index % 64);
        }
    }
    used
}

fn write_image(w: &mut Writer<'_>, context: &Context<'_>, index: usize, image: &Image) {
    w.u32(index as u32);
    let flags = if image.variant { image_flags::VARIANT } else { 0 }
        | if image.in_shared_cache { image_flags::IN_SHARED_CACHE } else { 0 };
    w.u8(image.kind as u8 | flags);
    w.u8(image.code().count() as u8);
    w.u64(image.range.start);
    w.u64(image.range.end.saturating_sub(image.range.start));
    w.u64(image.slide);
    for code in image.code() {
        w.u64(code.start);
        w.u64(code.end.saturating_sub(code.start));
    }
    w.string(context.images.build_id(image));
    w.string(context.images.path(image));
}
