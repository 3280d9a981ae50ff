//! What was captured, in words of 64 bits, so that both sides agree on the layout.

use crate::storage;
use freezeframe_unwind::rule::FrameAddress;
use freezeframe_unwind::snapshot::Held;

const NAME: usize = 64;
const PATH: usize = 256;

/// A snapshot as a whole.
#[repr(C)]
#[derive(Debug)]
pub struct SnapshotResult {
    threads: u64,
    dropped: u64,
    started_ns: u64,
    ended_ns: u64,
    pac: u64,
}

/// One thread.
#[repr(C)]
#[derive(Debug)]
pub struct ThreadResult {
    id: u64,
    main: u64,
    /// As reports count: 3 itself, 4 by Mach, 0 not held.
    held: u64,
    error: u64,
    held_ns: u64,
    has_registers: u64,
    copies: u64,
    moved: u64,
    kept: u64,
    omitted_after: u64,
    omitted: u64,
    stop: u64,
    stop_address: u64,
    repeat: [u64; 3],
    state: u64,
    cpu_ns: u64,
    name: [u8; NAME],
}

/// One frame.
#[repr(C)]
#[derive(Debug)]
pub struct FrameResult {
    address: u64,
    /// Whether it is a return address.
    returns: u64,
    sp: u64,
    trust: u64,
}

/// One image.
#[repr(C)]
#[derive(Debug)]
pub struct ImageResult {
    start: u64,
    end: u64,
    slide: u64,
    build_id: [u8; 16],
    path: [u8; PATH],
}

/// Describes the snapshot.
///
/// # Safety
/// `out` can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn driver_snapshot(out: *mut SnapshotResult) -> i32 {
    let view = storage().snapshot.view();
    let result = SnapshotResult {
        threads: view.threads.len() as u64,
        dropped: view.dropped_threads as u64,
        started_ns: view.started_ns,
        ended_ns: view.ended_ns,
        pac: view.pac.bits(),
    };
    // SAFETY: as the caller promises.
    unsafe { out.write(result) };
    0
}

/// Describes a thread of the snapshot. Returns minus one if there is none of that index.
///
/// # Safety
/// `out` can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn driver_thread(index: u64, out: *mut ThreadResult) -> i32 {
    let view = storage().snapshot.view();
    let Some(thread) = view.threads.get(index as usize) else { return -1 };
    let (held, error, held_ns) = match thread.held {
        Held::Signal { held_ns } => (1, 0, held_ns),
        Held::Torn => (2, 0, 0),
        Held::Itself => (3, 0, 0),
        Held::Mach { held_ns } => (4, 0, held_ns),
        Held::Ptrace { held_ns } => (5, 0, held_ns),
        Held::Peek => (6, 0, 0),
        Held::Not(error) => (0, error as u64, 0),
    };
    let (stop, stop_address) = thread.summary.stop.code();
    let repeat =
        thread.summary.repeat.map_or([0; 3], |repeat| [repeat.first, repeat.period.into(), repeat.times]);
    let result = ThreadResult {
        id: thread.thread.0 as u64,
        main: thread.main.into(),
        held,
        error,
        held_ns,
        has_registers: thread.registers.is_some().into(),
        copies: thread.copies.into(),
        moved: thread.moved.into(),
        kept: thread.summary.kept as u64,
        omitted_after: thread.summary.omitted_after as u64,
        omitted: thread.summary.omitted,
        stop: stop.into(),
        stop_address,
        repeat,
        state: thread.facts.state as u64,
        cpu_ns: thread.facts.cpu_ns,
        name: padded(thread.facts.name.bytes()),
    };
    // SAFETY: as the caller promises.
    unsafe { out.write(result) };
    0
}

/// Describes the frames of a thread. Returns how many there are.
///
/// # Safety
/// `out` has room for as many as the thread has kept.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn driver_frames(thread: u64, out: *mut FrameResult) -> i32 {
    let view = storage().snapshot.view();
    let Some(thread) = view.threads.get(thread as usize) else { return -1 };
    let frames = view.frames(thread);
    for (index, frame) in frames.iter().enumerate() {
        let result = FrameResult {
            address: frame.address.raw(),
            returns: matches!(frame.address, FrameAddress::ReturnAddress(_)).into(),
            sp: frame.sp,
            trust: frame.trust as u64,
        };
        // SAFETY: as the caller promises.
        unsafe { out.add(index).write(result) };
    }
    frames.len() as i32
}

/// Describes an image. Returns minus one if there is none of that index.
///
/// # Safety
/// `out` can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn driver_image(index: u64, out: *mut ImageResult) -> i32 {
    let images = &storage().images;
    let Some(image) = images.get(index as usize) else { return -1 };
    let result = ImageResult {
        start: image.range.start,
        end: image.range.end,
        slide: image.slide,
        build_id: padded(images.build_id(image)),
        path: padded(images.path(image)),
    };
    // SAFETY: as the caller promises.
    unsafe { out.write(result) };
    0
}

fn padded<const N: usize>(bytes: &[u8]) -> [u8; N] {
    let mut padded = [0; N];
    padded.iter_mut().zip(bytes).for_each(|(to, from)| *to = *from);
    padded
}
