//! How the process and its machine are, once a second, for a program that wants to know.
//!
//! Only what somebody asked for is read, by one thread; without a question there is none. A report tells the same of the
//! moment in which it was made, whether or not anybody asked.
//!
//! ```
//! use freezeframe_monitor::vitals::{Frames, Vitals};
//!
//! let frames = Frames::new();
//! let vitals = Vitals::builder()
//!     .on_process_cpu(|cpu| println!("{:.0} % of a processor", cpu.percent()))
//!     .on_frames(&frames, |rate| println!("{rate:.0} frames per second"))
//!     .start()?;
//! frames.tick();    // by the thread that draws, at each frame
//! drop(vitals);     // not a call after this
//! # Ok::<(), std::io::Error>(())
//! ```

#[cfg(target_vendor = "apple")]
mod apple;
mod builder;
mod cpu;
mod detection;
mod frames;
#[cfg(any(target_os = "linux", target_os = "android"))]
mod linux;
mod round;

#[cfg(target_vendor = "apple")]
use apple as platform;
#[cfg(any(target_os = "linux", target_os = "android"))]
use linux as platform;

pub use builder::Builder;
pub use cpu::ThreadCpu;
pub(crate) use detection::AtDetection;
pub use frames::Frames;
pub use freezeframe_report::encode::{
    AvailableMemory, CpuShare, MemoryOf, MemoryPressure, OpenFiles, PressureLevel, ProcessMemory,
};

use crate::clock::now;
use round::Round;
use rustix::time::{ClockId, clock_gettime};
use std::sync::mpsc::{Receiver, sync_channel};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::ThreadId;
use std::time::Duration;

/// Tells how the process and its machine are, until it is dropped.
///
/// # Threads
/// The callbacks run on a thread of its own. If one panics, that call is lost. Dropping this ends the thread at once; if a
/// callback is running, it is waited for, but not longer than 100 ms.
#[derive(Debug)]
pub struct Vitals {
    /// None if nobody asked for anything.
    running: Option<Running>,
}

#[derive(Debug)]
struct Running {
    stop: Arc<Stop>,
    thread: ThreadId,
    /// Closed when the thread has ended.
    ended: Mutex<Receiver<()>>,
}

#[derive(Debug, Default)]
struct Stop {
    stopped: Mutex<bool>,
    changed: Condvar,
}

impl Vitals {
    /// Begins to say what is asked for.
    pub fn builder() -> Builder {
        Builder::new()
    }

    fn nothing() -> Self {
        Self { running: None }
    }

    fn run(interval: Duration, round: Round) -> std::io::Result<Self> {
        let stop = Arc::new(Stop::default());
        let theirs = stop.clone();
        let (alive, ended) = sync_channel(0);
        let thread = std::thread::Builder::new().name("freezeframe-vitals".into());
        let thread = thread.spawn(move || {
            rounds(&theirs, interval, round);
            drop(alive);
        })?;
        Ok(Self { running: Some(Running { stop, thread: thread.thread().id(), ended: Mutex::new(ended) }) })
    }
}

impl Drop for Vitals {
    fn drop(&mut self) {
        let Some(running) = &self.running else { return };
        *running.stop.stopped.lock().unwrap_or_else(PoisonError::into_inner) = true;
        running.stop.changed.notify_one();
        // A callback may be what drops it.
        if running.thread != std::thread::current().id() {
            let ended = running.ended.lock().unwrap_or_else(PoisonError::into_inner);
            let _ = ended.recv_timeout(Duration::from_millis(100));
        }
    }
}

/// One round after the other, at equal distances; those that would have been while nobody could look are left out.
fn rounds(stop: &Stop, interval: Duration, mut round: Round) {
    let interval_ns = u64::try_from(interval.as_nanos()).unwrap_or(u64::MAX);
    let mut due = now();
    let mut stopped = stop.stopped.lock().unwrap_or_else(PoisonError::into_inner);
    while !*stopped {
        let at = now();
        if at < due {
            let left = Duration::from_nanos(due - at);
            let waited = stop.changed.wait_timeout(stopped, left);
            stopped = waited.unwrap_or_else(PoisonError::into_inner).0;
            continue;
        }
        drop(stopped);
        let wanted = || !*stop.stopped.lock().unwrap_or_else(PoisonError::into_inner);
        round.look(at, &wanted);
        let next = due.saturating_add(interval_ns);
        due = if next > now() { next } else { now().saturating_add(interval_ns) };
        stopped = stop.stopped.lock().unwrap_or_else(PoisonError::into_inner);
    }
}

/// CPU time that all threads have had, ended ones included.
pub(crate) fn process_cpu_ns() -> u64 {
    let cpu = clock_gettime(ClockId::ProcessCPUTime);
    cpu.tv_sec as u64 * 1_000_000_000 + cpu.tv_nsec as u64
}

/// The open files, and how many there may be.
fn open_files(open: u32) -> OpenFiles {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
    OpenFiles { open, limit: limit.map(|limit| limit.try_into().unwrap_or(u32::MAX - 1)) }
}
