//! Descriptors that are kept for when the process has none left: the list of the threads, a pipe, and two that give way to
//! what is opened for a moment.
//!
//! ```text
//! open a file   no descriptor is left: a spare one is closed, the file takes its place; when that is closed, the pipe is
//!               duplicated onto its number, so that nobody takes that in between
//! list, pipe    not even so (the limit was lowered): the kept ones are lent, to one thread at a time
//! ```
//!
//! A program may close descriptors that it does not know, and have files of its own under their numbers: each is looked at
//! before it is used. A forked child has no reserve: the list would be of its parent's threads, the pipe its parent's too.

use super::{Errno, Fd, getpid, gettid, tgkill};
use core::sync::atomic::{AtomicI32, AtomicU64, Ordering};

const NONE: i32 = -1;

/// A kept descriptor, and which file it is of.
struct Kept {
    number: AtomicI32,
    device: AtomicU64,
    inode: AtomicU64,
}

impl Kept {
    const fn nothing() -> Self {
        Self { number: AtomicI32::new(NONE), device: AtomicU64::new(0), inode: AtomicU64::new(0) }
    }

    /// Keeps a descriptor for good.
    fn keep(&self, fd: Fd) {
        if let Some((device, inode)) = super::identity(fd.number) {
            self.device.store(device, Ordering::Relaxed);
            self.inode.store(inode, Ordering::Relaxed);
            self.number.store(fd.number, Ordering::Relaxed);
            core::mem::forget(fd);
        }
    }

    /// Whether that descriptor is of the file that was kept.
    fn is(&self, number: i32) -> bool {
        let kept = (self.device.load(Ordering::Relaxed), self.inode.load(Ordering::Relaxed));
        number != NONE && super::identity(number) == Some(kept)
    }

    /// Its number, if it is still what it was.
    fn number(&self) -> Result<i32, Errno> {
        let number = self.number.load(Ordering::Relaxed);
        if self.is(number) { Ok(number) } else { Err(Errno(libc::EMFILE)) }
    }
}

static LIST: Kept = Kept::nothing();
static PIPE: [Kept; 2] = [const { Kept::nothing() }; 2];
/// Duplicates of the pipe, which a program cannot open by itself, as it can the list; none while one has given way.
static SPARE: [AtomicI32; 2] = [const { AtomicI32::new(NONE) }; 2];
/// The process that they are of; zero before they were made.
static PROCESS: AtomicI32 = AtomicI32::new(0);
/// Which thread uses the list, and which the pipe; zero if none does.
static LIST_USER: AtomicI32 = AtomicI32::new(0);
static PIPE_USER: AtomicI32 = AtomicI32::new(0);

/// What becomes of a descriptor that is not needed any more.
#[derive(Debug)]
pub(super) enum After {
    Close,
    /// It becomes the spare one again that has given way to it.
    PutBack(&'static AtomicI32),
    /// It stays open, for the next user.
    GiveBack(&'static AtomicI32),
    /// It stays open: the other half of what is given back.
    Stay,
}

impl Drop for Fd {
    fn drop(&mut self) {
        match self.after {
            After::Close => super::close(self.number),
            After::PutBack(spare) => {
                match PIPE[0].number().and_then(|pipe| super::replace(self.number, pipe)) {
                    Ok(()) => spare.store(self.number, Ordering::Release),
                    Err(_) => super::close(self.number),
                }
            }
            After::GiveBack(user) => user.store(0, Ordering::Release),
            After::Stay => {}
        }
    }
}

/// Makes what can be made of the reserve, once for the process.
pub(crate) fn reserve(list: &core::ffi::CStr) {
    if let Ok(list) = super::open(list) {
        LIST.keep(list);
    }
    if let Ok((read, write)) = super::pipe() {
        let [kept_read, kept_write] = &PIPE;
        kept_read.keep(read);
        kept_write.keep(write);
    }
    for spare in &SPARE {
        fill(spare);
    }
    PROCESS.store(getpid(), Ordering::Release);
}

fn fill(spare: &AtomicI32) {
    let number = PIPE[0].number().and_then(super::duplicate).unwrap_or(NONE);
    spare.store(number, Ordering::Release);
}

fn is_ours() -> bool {
    PROCESS.load(Ordering::Acquire) == getpid()
}

/// Opens a file in the place of a spare descriptor.
pub(super) fn in_place_of_a_spare(open: impl Fn() -> Result<i32, Errno>, error: Errno) -> Result<Fd, Errno> {
    if !is_ours() {
        return Err(error);
    }
    for spare in &SPARE {
        let number = spare.swap(NONE, Ordering::AcqRel);
        if !PIPE[0].is(number) {
            continue;
        }
        super::close(number);
        return match open() {
            Ok(number) => Ok(Fd { number, after: After::PutBack(spare) }),
            Err(error) => {
                fill(spare);
                Err(error)
            }
        };
    }
    Err(error)
}

/// Lends the list of the threads.
pub(crate) fn kept_list() -> Result<Fd, Errno> {
    let number = lend(&LIST_USER, || LIST.number())?;
    Ok(Fd { number, after: After::GiveBack(&LIST_USER) })
}

/// Lends the pipe, empty.
pub(super) fn kept_pipe(error: Errno) -> Result<(Fd, Fd), Errno> {
    let [read, write] = &PIPE;
    let numbers = || Ok((read.number()?, write.number()?));
    let (read, write) = lend(&PIPE_USER, numbers).map_err(|_| error)?;
    let source = Fd { number: read, after: After::GiveBack(&PIPE_USER) };
    // What an earlier user has left that was interrupted for good.
    while source.read(&mut [0; 512]).is_ok_and(|read| read > 0) {}
    Ok((source, Fd { number: write, after: After::Stay }))
}

/// Lends what is kept to the calling thread: not while another one uses it, unless that has ended. One that has been
/// interrupted in its own use by a signal, whose handler asks again, will not go on with it.
fn lend<T>(user: &AtomicI32, kept: impl Fn() -> Result<T, Errno>) -> Result<T, Errno> {
    if !is_ours() {
        return Err(Errno(libc::EMFILE));
    }
    let me = gettid();
    if let Err(other) = user.compare_exchange(0, me, Ordering::Acquire, Ordering::Relaxed)
        && other != me
    {
        let ended = tgkill(getpid(), other, 0) == Err(Errno(libc::ESRCH));
        if !ended || user.compare_exchange(other, me, Ordering::Acquire, Ordering::Relaxed).is_err() {
            return Err(Errno(libc::EMFILE));
        }
    }
    kept().inspect_err(|_| user.store(0, Ordering::Release))
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use std::sync::{Mutex, MutexGuard, PoisonError};

    /// The reserve, made anew while nobody else does so: the first capture of any test would.
    fn reserved() -> MutexGuard<'static, ()> {
        static TURN: Mutex<()> = Mutex::new(());
        let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        crate::init::init(Default::default()).unwrap();
        reserve(c"/proc/self/task");
        turn
    }

    #[test]
    fn what_is_kept_is_lent_to_one_thread_at_a_time_and_a_forked_child_has_nothing() {
        let _turn = reserved();
        let list = kept_list().unwrap();
        let elsewhere = || std::thread::spawn(|| kept_list().map(drop)).join().unwrap();
        assert_eq!(elsewhere(), Err(Errno(libc::EMFILE)));
        drop(list);
        assert_eq!(elsewhere(), Ok(()));

        let (source, sink) = kept_pipe(Errno(0)).unwrap();
        let said = *b"left behind";
        assert_eq!(sink.write_from_address(said.as_ptr() as u64, said.len()), Ok(said.len()));
        drop((source, sink));
        let (source, _sink) = kept_pipe(Errno(0)).unwrap();
        assert_eq!(source.read(&mut [0; 16]), Err(Errno(libc::EAGAIN)), "it is empty");

        unsafe extern "C" {
            fn fork() -> i32;
        }
        // SAFETY: the child makes system calls only, and ends.
        let child = unsafe { fork() };
        if child == 0 {
            let nothing = kept_list().is_err() && kept_pipe(Errno(7)).err() == Some(Errno(7));
            super::super::exit_now(if nothing { 0 } else { 1 });
        }
        assert_eq!(super::super::wait_for(child, 0), Ok(Some(0)));
    }

    #[test]
    fn a_file_in_the_place_of_a_spare_descriptor_leaves_it_as_it_was() {
        let _turn = reserved();
        let before = SPARE.each_ref().map(|spare| spare.load(Ordering::Relaxed));
        assert!(before.iter().all(|number| PIPE[0].is(*number)));
        let open = || super::super::open_number(c"/proc/self/stat");
        let files = [(); 2].map(|()| in_place_of_a_spare(open, Errno(0)).unwrap());
        assert_eq!(in_place_of_a_spare(open, Errno(7)).err(), Some(Errno(7)), "there are two");
        assert!(files.iter().all(|file| file.read(&mut [0; 8]) == Ok(8)));
        drop(files);
        let after = SPARE.each_ref().map(|spare| spare.load(Ordering::Relaxed));
        assert!(after.iter().all(|number| PIPE[0].is(*number)), "{before:?} {after:?}");
        assert!(in_place_of_a_spare(|| Err(Errno(libc::ENOENT)), Errno(0)).is_err());
        assert!(
            SPARE.iter().all(|spare| PIPE[0].is(spare.load(Ordering::Relaxed))),
            "also if it was not there"
        );
    }

    #[test]
    fn a_programs_own_list_of_its_threads_under_a_spares_number_is_not_taken_for_the_spare() {
        let _turn = reserved();
        let own = super::super::open(c"/proc/self/task").unwrap();
        assert!(!PIPE[0].is(own.number));
    }
}
