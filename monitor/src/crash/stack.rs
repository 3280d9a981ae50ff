//! Alternate stacks: what a handler begins on when the thread's own stack is no good.
//!
//! The kernel needs one to call a handler for a stack overflow: it writes the registers there. Rust's threads have one of
//! 8 KiB or more from the standard library, threads of other languages mostly none. It only has to hold that and the
//! handler's first steps, for the handler goes on on a stack that is kept for it.

use super::memory::Guarded;
use std::io;
use std::marker::PhantomData;
use std::ptr::null_mut;

/// What the handler needs beside what the kernel writes, with a margin.
const FIRST_STEPS: usize = 4 << 10;
/// What one of ours has beside what the kernel writes: also room for an earlier handler.
const COMFORTABLE: usize = 28 << 10;

/// How much the kernel writes at most (`AT_MINSIGSTKSZ`, since Linux 5.14).
fn written_by_the_kernel() -> usize {
    const AT_MINSIGSTKSZ: libc::c_ulong = 51;
    // SAFETY: reads what the kernel has told the process at its start.
    let told = unsafe { libc::getauxval(AT_MINSIGSTKSZ) } as usize;
    told.max(libc::MINSIGSTKSZ)
}

/// The calling thread's alternate stack.
fn current() -> io::Result<libc::stack_t> {
    let mut stack = libc::stack_t { ss_sp: null_mut(), ss_flags: 0, ss_size: 0 };
    // SAFETY: nothing is replaced; the kernel writes one structure.
    match unsafe { libc::sigaltstack(null_mut(), &mut stack) } {
        0 => Ok(stack),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Makes `stack` the calling thread's alternate stack.
///
/// # Safety
/// It stays mapped while it is.
pub(super) unsafe fn replace(stack: &libc::stack_t) -> io::Result<()> {
    // SAFETY: as the caller promises.
    match unsafe { libc::sigaltstack(stack, null_mut()) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// No alternate stack.
pub(super) const NONE: libc::stack_t =
    libc::stack_t { ss_sp: null_mut(), ss_flags: libc::SS_DISABLE, ss_size: 0 };

/// All of `memory`.
pub(super) fn over(memory: &Guarded) -> libc::stack_t {
    libc::stack_t { ss_sp: memory.start().cast(), ss_flags: 0, ss_size: memory.bytes() }
}

/// A thread's alternate stack, until this is dropped. See [`protect_this_thread`].
#[derive(Debug)]
#[must_use = "the alternate stack goes away when this is dropped"]
pub struct Protection {
    /// None if the thread had one that is large enough.
    ours: Option<(Guarded, libc::stack_t)>,
    /// It belongs to the thread.
    _not_send: PhantomData<*const ()>,
}

/// Gives the calling thread an alternate stack, unless it has one that is large enough: without one, a stack overflow of
/// this thread ends the program without a report. Rust's own threads have one; threads that C or another language has
/// made mostly have none. [`Reporter::install`](super::Reporter::install) does this for the thread that calls it.
///
/// ```
/// use freezeframe_monitor::crash::protect_this_thread;
///
/// // At the beginning of a thread:
/// let protection = protect_this_thread()?;
/// // … until its end.
/// drop(protection);
/// # Ok::<(), std::io::Error>(())
/// ```
///
/// # Errors
/// There is no memory for it.
pub fn protect_this_thread() -> io::Result<Protection> {
    let earlier = current()?;
    let kernels = written_by_the_kernel();
    let enough = earlier.ss_flags & libc::SS_DISABLE == 0 && earlier.ss_size >= kernels + FIRST_STEPS;
    if enough {
        return Ok(Protection { ours: None, _not_send: PhantomData });
    }
    let memory = Guarded::new(kernels + COMFORTABLE)?;
    // SAFETY: it is kept until another one takes its place, when this is dropped.
    unsafe { replace(&over(&memory)) }?;
    Ok(Protection { ours: Some((memory, earlier)), _not_send: PhantomData })
}

impl Drop for Protection {
    fn drop(&mut self) {
        let Some((memory, earlier)) = self.ours.take() else { return };
        let ours = current().is_ok_and(|stack| stack.ss_sp == memory.start().cast());
        // SAFETY: it was the thread's before. Somebody else's that has taken our place stays.
        if ours && unsafe { replace(&earlier) }.is_err() {
            // A handler runs on it just now.
            std::mem::forget(memory);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_without_an_alternate_stack_has_one_while_it_is_protected() {
        let has_one = || current().unwrap().ss_flags & libc::SS_DISABLE == 0;
        std::thread::spawn(move || {
            let std = current().unwrap();
            // SAFETY: the standard library's stays mapped, and is given back below.
            unsafe { replace(&NONE) }.unwrap();
            let protection = protect_this_thread().unwrap();
            assert!(has_one() && current().unwrap().ss_size > COMFORTABLE);
            let second = protect_this_thread().unwrap();
            assert!(second.ours.is_none(), "there is one already");
            drop(second);
            assert!(has_one());
            drop(protection);
            assert!(!has_one());
            // SAFETY: as it was.
            unsafe { replace(&std) }.unwrap();
        })
        .join()
        .unwrap();
    }
}
