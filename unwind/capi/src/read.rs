//! Reading what was captured.

use crate::error::ff_error;
use crate::storage::{Content, ff_core, with};
use crate::structs::give;
use core::ffi::c_char;
use freezeframe_unwind::snapshot::{Held, ThreadCapture};
use freezeframe_unwind::threads::{RunState, ThreadName};
use freezeframe_unwind::walk::StopReason;

/// How a thread was held while it was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub enum ff_held {
    /// It was not: no registers, no frames. `why` says why.
    FF_HELD_NOT = 0,
    /// By a signal.
    FF_HELD_SIGNAL = 1,
    /// By Mach's `thread_suspend`.
    FF_HELD_MACH = 2,
    /// By a helper that traced it.
    FF_HELD_PTRACE = 3,
    /// It was not stopped, but waited in the kernel all the while.
    FF_HELD_PEEK = 4,
    /// By a signal, but it went on before all was copied: the stack may be torn.
    FF_HELD_TORN = 5,
    /// It is the thread that captured.
    FF_HELD_ITSELF = 6,
}

/// Where a frame's address came from: the smaller, the better.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub enum ff_trust {
    /// The thread's registers.
    FF_TRUST_CONTEXT = 1,
    /// The link register.
    FF_TRUST_LINK_REGISTER = 2,
    /// Call frame information.
    FF_TRUST_CFI = 3,
    /// Compact unwind information.
    FF_TRUST_COMPACT = 4,
    /// The frame pointer.
    FF_TRUST_FRAME_POINTER = 5,
    /// A word that looks like a return address.
    FF_TRUST_SCAN = 6,
}

/// The scheduler's state of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub enum ff_state {
    /// It could not be read.
    FF_STATE_UNKNOWN = 0,
    /// It runs, or waits for a processor.
    FF_STATE_RUNNING = 1,
    /// In a wait that a signal ends.
    FF_STATE_SLEEPING = 2,
    /// In a wait that no signal ends.
    FF_STATE_UNINTERRUPTIBLE = 3,
    /// Stopped by a signal or a debugger.
    FF_STATE_STOPPED = 4,
    /// It has ended.
    FF_STATE_DEAD = 5,
    /// A kernel's idle state.
    FF_STATE_IDLE = 6,
}

/// Why a walk has ended. All but `FF_STOP_END` mean that frames are missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub enum ff_stop {
    /// The thread was not held: there was nothing to walk.
    FF_STOP_NOT_WALKED = 0,
    /// The end of the stack.
    FF_STOP_END = 1,
    /// A frame record without a return address.
    FF_STOP_NULL = 2,
    /// A frame pointer that is not a multiple of eight.
    FF_STOP_MISALIGNED = 3,
    /// A frame that is not above its callee's: a cycle, or not what it should be.
    FF_STOP_NOT_ASCENDING = 4,
    /// A frame pointer outside of the stack.
    FF_STOP_OUT_OF_BOUNDS = 5,
    /// Memory that cannot be read, or that was not copied.
    FF_STOP_UNREADABLE = 6,
    /// A return address in memory that holds no code.
    FF_STOP_NOT_CODE = 7,
    /// The limit of steps.
    FF_STOP_LIMIT = 8,
    /// Neither unwind tables nor a frame pointer lead on from this address.
    FF_STOP_NO_RULE = 9,
    /// The system lets no memory of the process be read.
    FF_STOP_MEMORY_REFUSED = 10,
}

/// How many bytes a thread's name has, the zero at its end included.
pub const FF_NAME_SIZE: usize = 64;

/// One thread of a capture.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct ff_thread {
    /// `sizeof(ff_thread)`, to be set by the caller.
    pub size: u32,
    /// Its id.
    pub id: i32,
    /// Whether it is the main thread: 0 or 1.
    pub main: u8,
    /// An `ff_held`.
    pub held: u8,
    /// An `ff_state`.
    pub state: u8,
    /// Zero.
    pub reserved_byte: u8,
    /// Why it was not held, or not in the next better way; 0 if there is no reason. See `ff_why_text`.
    pub why: u32,
    /// Why the walk has ended: an `ff_stop`, in words by `ff_stop_text`.
    pub stop: u32,
    /// How many frames there are to read.
    pub frames: u32,
    /// After how many of them some are left out, and how many.
    pub omitted_after: u32,
    /// Zero.
    pub reserved_word: u32,
    /// See `omitted_after`.
    pub omitted: u64,
    /// The address that `stop` is about; zero if none.
    pub stop_address: u64,
    /// For how long it was held, in nanoseconds.
    pub held_ns: u64,
    /// Its CPU time, in nanoseconds.
    pub cpu_ns: u64,
    /// Program counter, stack pointer and frame pointer; zero if it was not held. By a peek there is no frame pointer.
    pub pc: u64,
    /// See `pc`.
    pub sp: u64,
    /// See `pc`.
    pub fp: u64,
    /// Its name, with a zero at its end.
    pub name: [c_char; FF_NAME_SIZE],
    /// Zero.
    pub reserved: [u64; 4],
}

/// One frame of a thread.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct ff_frame {
    /// `sizeof(ff_frame)`, to be set by the caller.
    pub size: u32,
    /// An `ff_trust`.
    pub trust: u32,
    /// Where the thread was, without an authentication code.
    pub address: u64,
    /// The address to look up in tables and symbols: inside the instruction that was executing, one less than a return address.
    pub lookup: u64,
    /// The stack pointer in this frame.
    pub sp: u64,
    /// Zero.
    pub reserved: [u64; 4],
}

/// How many threads the latest capture has, and for how many there was no room. `dropped` may be null.
///
/// # Safety
/// `core` is null or from `ff_init`; the others are null or can be written to.
///
/// # Signal safety
/// Safe.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ff_thread_count(
    core: *mut ff_core,
    count: *mut usize,
    dropped: *mut usize,
) -> ff_error {
    if count.is_null() {
        return ff_error::FF_ERROR_NULL;
    }
    let act = |content: &mut Content| {
        let view = content.snapshot.view();
        // SAFETY: not null, and can be written to.
        unsafe { count.write(view.threads.len()) };
        if !dropped.is_null() {
            // SAFETY: as above.
            unsafe { dropped.write(view.dropped_threads) };
        }
        Ok(())
    };
    // SAFETY: as the caller promises.
    unsafe { with(core, act) }
}

/// A thread of the latest capture, by its number from 0 on.
///
/// # Errors
/// `FF_ERROR_NOT_FOUND` behind the last.
///
/// # Safety
/// `core` is null or from `ff_init`; `thread` is null or valid.
///
/// # Signal safety
/// Safe.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ff_thread_at(core: *mut ff_core, index: usize, thread: *mut ff_thread) -> ff_error {
    let act = |content: &mut Content| {
        let view = content.snapshot.view();
        let found = view.threads.get(index).ok_or(ff_error::FF_ERROR_NOT_FOUND)?;
        // SAFETY: as the caller promises.
        unsafe { give(thread, described(found, content.own_frames)) }
    };
    // SAFETY: as the caller promises.
    unsafe { with(core, act) }
}

/// A frame of a thread of the latest capture, both by their numbers from 0 on; the innermost frame is the first.
///
/// # Errors
/// `FF_ERROR_NOT_FOUND` behind the last thread, or its last frame.
///
/// # Safety
/// `core` is null or from `ff_init`; `frame` is null or valid.
///
/// # Signal safety
/// Safe.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ff_frame_at(
    core: *mut ff_core,
    thread: usize,
    index: usize,
    frame: *mut ff_frame,
) -> ff_error {
    let act = |content: &mut Content| {
        let view = content.snapshot.view();
        let thread = view.threads.get(thread).ok_or(ff_error::FF_ERROR_NOT_FOUND)?;
        let index = index.saturating_add(content.own_frames);
        let found = view.frames(thread).get(index).ok_or(ff_error::FF_ERROR_NOT_FOUND)?;
        let address = found.address.with(view.pac.strip(found.address.raw()));
        let value = ff_frame {
            size: size_of::<ff_frame>() as u32,
            trust: found.trust as u32,
            address: address.raw(),
            lookup: address.lookup(),
            sp: found.sp,
            reserved: [0; 4],
        };
        // SAFETY: as the caller promises.
        unsafe { give(frame, value) }
    };
    // SAFETY: as the caller promises.
    unsafe { with(core, act) }
}

fn described(thread: &ThreadCapture, own_frames: usize) -> ff_thread {
    let (held, held_ns, why_not) = match thread.held {
        Held::Not(why) => (ff_held::FF_HELD_NOT, 0, Some(why)),
        Held::Signal { held_ns } => (ff_held::FF_HELD_SIGNAL, held_ns, None),
        Held::Mach { held_ns } => (ff_held::FF_HELD_MACH, held_ns, None),
        Held::Ptrace { held_ns } => (ff_held::FF_HELD_PTRACE, held_ns, None),
        Held::Peek => (ff_held::FF_HELD_PEEK, 0, None),
        Held::Torn => (ff_held::FF_HELD_TORN, 0, None),
        Held::Itself => (ff_held::FF_HELD_ITSELF, 0, None),
    };
    let why = why_not.or(thread.not_better).map_or(0, |why| why as u32);
    let walked = thread.registers.is_some();
    let (stop, stop_address) = if walked { thread.summary.stop.code() } else { (0, 0) };
    let mut name = [0; FF_NAME_SIZE];
    let bytes = thread.facts.name;
    for (to, from) in name.iter_mut().zip(bytes.bytes()) {
        *to = *from as c_char;
    }
    let register = |of: fn(&freezeframe_arch::Registers) -> u64| thread.registers.as_ref().map_or(0, of);
    let own_frames = own_frames.min(thread.summary.kept);
    ff_thread {
        size: size_of::<ff_thread>() as u32,
        id: thread.thread.0,
        main: u8::from(thread.main),
        held: held as u8,
        state: thread.facts.state as u8,
        reserved_byte: 0,
        why,
        stop: u32::from(stop),
        frames: thread.summary.kept.saturating_sub(own_frames) as u32,
        omitted_after: thread.summary.omitted_after.saturating_sub(own_frames) as u32,
        reserved_word: 0,
        omitted: thread.summary.omitted,
        stop_address,
        held_ns,
        cpu_ns: thread.facts.cpu_ns,
        pc: register(freezeframe_arch::Registers::pc),
        sp: register(freezeframe_arch::Registers::sp),
        fp: register(freezeframe_arch::Registers::fp),
        name,
        reserved: [0; 4],
    }
}

static_assertions::const_assert!(ThreadName::MAX < FF_NAME_SIZE);
static_assertions::const_assert!(RunState::Idle as u8 == ff_state::FF_STATE_IDLE as u8);
static_assertions::const_assert!(StopReason::EndOfStack.code().0 == ff_stop::FF_STOP_END as u8);
static_assertions::const_assert!(StopReason::NoRule(0).code().0 == ff_stop::FF_STOP_NO_RULE as u8);
static_assertions::const_assert!(
    StopReason::from_code(ff_stop::FF_STOP_MEMORY_REFUSED as u8 + 1, 0).is_none()
);
