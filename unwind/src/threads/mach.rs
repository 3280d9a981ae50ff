//! Threads by `task_threads` and `thread_info`.

use super::{RunState, ThreadFacts, ThreadId, ThreadName};
use crate::sys;
use mach2::kern_return::{KERN_SUCCESS, kern_return_t};
use mach2::mach_types::thread_act_t;
use mach2::port::MACH_PORT_NULL;

/// Why the threads could not be listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ThreadsError(kern_return_t);

impl core::fmt::Display for ThreadsError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "the threads of this task cannot be listed (task_threads: error {})", self.0)
    }
}

impl core::error::Error for ThreadsError {}

/// Whether stopping a thread changes what there is to say of it.
pub(crate) const STOPPING_DISTURBS: bool = false;

/// The calling thread. Zero, which is no thread's id, if the kernel has no port left to tell it by.
///
/// # Signal safety
/// Safe: `mach_thread_self` and `mach_port_deallocate`.
pub fn current() -> ThreadId {
    // SAFETY: no arguments.
    let port = unsafe { mach2::mach_init::mach_thread_self() };
    // The thread keeps a right to its own port, and so its name.
    if port != MACH_PORT_NULL {
        sys::release_port(port);
    }
    ThreadId(port as i32)
}

/// Whether a thread is the main one, as far as that can be told without a list: not at all.
pub(crate) const fn is_main(_thread: ThreadId) -> bool {
    false
}

/// Lists the threads of this process in `out` and returns how many there are, which may be more than fit. The kernel
/// lists them from the oldest to the newest, the main thread first.
///
/// # Errors
/// The kernel refuses, or has no memory left for the list.
///
/// # Signal safety
/// Safe: `task_threads`, and `mach_port_deallocate` for each thread. Not to be called while a thread is held.
pub fn list(out: &mut [ThreadId]) -> Result<usize, ThreadsError> {
    Listing::take(out).map(|listing| listing.count())
}

/// The threads as they were listed for a capture. While this lives it holds a right to each thread's port, so that none of
/// the names can come to mean another one. To be dropped when no thread is held.
#[derive(Debug)]
pub(crate) struct Listing {
    /// Memory of this task that the kernel has mapped for the list.
    ports: *mut thread_act_t,
    count: u32,
}

impl Listing {
    /// Lists the threads in `out`.
    pub(crate) fn take(out: &mut [ThreadId]) -> Result<Self, ThreadsError> {
        let mut listing = Self { ports: core::ptr::null_mut(), count: 0 };
        // SAFETY: the kernel writes the address of a new mapping and the number of names in it.
        let result =
            unsafe { mach2::task::task_threads(sys::task(), &mut listing.ports, &mut listing.count) };
        if result != KERN_SUCCESS {
            return Err(ThreadsError(result));
        }
        out.iter_mut().zip(listing.ports()).for_each(|(to, port)| *to = ThreadId(*port as i32));
        Ok(listing)
    }

    /// How many threads there are, which may be more than fit.
    pub(crate) const fn count(&self) -> usize {
        self.count as usize
    }

    /// The main thread: the kernel lists threads in the order in which they were made.
    pub(crate) fn main(&self) -> ThreadId {
        self.ports().first().map_or(ThreadId(0), |port| ThreadId(*port as i32))
    }

    const fn ports(&self) -> &[thread_act_t] {
        if self.count == 0 || self.ports.is_null() {
            return &[];
        }
        // SAFETY: the kernel's mapping holds so many names, and lives until this is dropped.
        unsafe { core::slice::from_raw_parts(self.ports, self.count as usize) }
    }
}

impl Drop for Listing {
    fn drop(&mut self) {
        self.ports().iter().for_each(|port| sys::release_port(*port));
        let size = u64::from(self.count).saturating_mul(size_of::<thread_act_t>() as u64);
        if size > 0 {
            // SAFETY: unmaps what the kernel has mapped; no reference into it is left.
            unsafe { sys::deallocate(self.ports as u64, size) };
        }
    }
}

/// What the kernel says of a thread of this process.
///
/// # Signal safety
/// Safe: one `thread_info`. No lock of the pthread library is taken for the name.
pub fn facts(thread: ThreadId) -> ThreadFacts {
    const TICK_NS: u64 = 10_000_000;
    let Some(info) = extended_info(thread) else { return ThreadFacts::UNKNOWN };
    let name = info.pth_name.map(|byte| byte as u8);
    let length = name.iter().position(|byte| *byte == 0).unwrap_or(name.len());
    ThreadFacts {
        name: ThreadName::new(name.get(..length).unwrap_or(&[])),
        state: run_state(info.pth_run_state),
        cpu_ns: info.pth_user_time.saturating_add(info.pth_system_time),
        user_ticks: info.pth_user_time / TICK_NS,
        system_ticks: info.pth_system_time / TICK_NS,
        // A thread of Mach does not say which call it is in.
        system_call: None,
    }
}

/// Whether a thread has not ended.
pub(crate) fn is_alive(thread: ThreadId) -> bool {
    extended_info(thread).is_some()
}

/// The id that a thread has for the whole system.
pub(crate) fn system_wide_id(thread: ThreadId) -> Option<u64> {
    let mut info = core::mem::MaybeUninit::<libc::thread_identifier_info>::zeroed();
    let mut count = libc::THREAD_IDENTIFIER_INFO_COUNT;
    // SAFETY: the kernel writes at most `count` words of four bytes to `info`.
    let result = unsafe {
        let flavor = libc::THREAD_IDENTIFIER_INFO as libc::thread_flavor_t;
        libc::thread_info(sys::port(thread), flavor, info.as_mut_ptr().cast(), &mut count)
    };
    // SAFETY: zeroed at first, and integers only.
    (result == KERN_SUCCESS).then(|| unsafe { info.assume_init() }.thread_id)
}

fn extended_info(thread: ThreadId) -> Option<libc::thread_extended_info> {
    let mut info = core::mem::MaybeUninit::<libc::thread_extended_info>::zeroed();
    let mut count = libc::THREAD_EXTENDED_INFO_COUNT;
    // SAFETY: the kernel writes at most `count` words of four bytes to `info`.
    let result = unsafe {
        let flavor = libc::THREAD_EXTENDED_INFO as libc::thread_flavor_t;
        libc::thread_info(sys::port(thread), flavor, info.as_mut_ptr().cast(), &mut count)
    };
    // SAFETY: zeroed at first, and integers only.
    (result == KERN_SUCCESS).then(|| unsafe { info.assume_init() })
}

/// `mach/thread_info.h`.
const fn run_state(state: i32) -> RunState {
    match state {
        libc::TH_STATE_RUNNING => RunState::Running,
        libc::TH_STATE_STOPPED => RunState::Stopped,
        libc::TH_STATE_WAITING => RunState::Sleeping,
        libc::TH_STATE_UNINTERRUPTIBLE => RunState::Uninterruptible,
        libc::TH_STATE_HALTED => RunState::Dead,
        _ => RunState::Unknown,
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use std::sync::mpsc;

    #[test]
    fn a_started_thread_is_listed_with_its_name_and_its_wait() {
        let (send, receive) = mpsc::channel();
        let (end, ended) = mpsc::channel::<()>();
        let name = "a name that is longer than Linux would keep";
        let thread = std::thread::Builder::new().name(name.into()).spawn(move || {
            send.send(current()).unwrap();
            let _ = ended.recv();
        });
        let id = receive.recv().unwrap();
        let mut ids = [ThreadId(0); 1024];
        let count = list(&mut ids).unwrap();
        assert!(ids[..count].contains(&id) && ids[..count].contains(&current()));
        assert!(list(&mut []).unwrap() >= 2, "the count does not depend on the room");
        let asleep = (0..1000).map(|_| facts(id)).find(|facts| {
            std::thread::sleep(std::time::Duration::from_millis(1));
            facts.state == RunState::Sleeping
        });
        assert_eq!(asleep.expect("the thread waits for its channel").name.bytes(), name.as_bytes());
        drop(end);
        thread.unwrap().join().unwrap();
    }

    #[test]
    fn cpu_time_advances_with_work() {
        let before = facts(current()).cpu_ns;
        while facts(current()).cpu_ns < before + 20_000_000 {}
        assert!(facts(current()).cpu_ns - before < 10_000_000_000);
    }
}
