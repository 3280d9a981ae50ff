//! A capture from a signal handler: the thread that was interrupted comes first, as it was then.

use super::storage::Snapshot;
use super::{Options, Set};
use crate::images::ImageTable;
use crate::suspend::{Session, SuspendError, Suspender};
use crate::sys;
use crate::threads;
use freezeframe_arch::Registers;

/// How long another thread's capture is waited for: longer than one lasts that keeps to the default options.
const SESSION_WITHIN_NS: u64 = 800_000_000;

impl<const THREADS: usize, const FRAMES: usize, const ARENA: usize> Snapshot<THREADS, FRAMES, ARENA> {
    /// Captures the threads of this process for a signal handler: the calling thread first, from the registers that the
    /// signal has interrupted (of the handler's `ucontext`: [`from_ucontext`](freezeframe_arch::linux::from_ucontext)),
    /// then the others, held as in [`capture`](Self::capture). `options.first` is not looked at.
    ///
    /// A capture that another thread is in the middle of is waited for, for a bounded time; if it does not end, the others
    /// are listed without stacks. One that the calling thread was in the middle of itself is given up: it has crashed in
    /// it. Where the threads cannot be listed, the calling one is there all the same.
    ///
    /// ```
    /// use freezeframe_unwind::images::ImageTable;
    /// use freezeframe_unwind::init::{Config, init};
    /// use freezeframe_unwind::snapshot::{Held, Options, Snapshot};
    /// use std::sync::Mutex;
    ///
    /// static STORAGE: Mutex<(ImageTable, Snapshot<16, 512>)> = Mutex::new((ImageTable::new(), Snapshot::new()));
    ///
    /// let suspender = init(Config::default())?;
    /// let (images, snapshot) = &mut *STORAGE.lock().unwrap();
    /// images.refresh()?;
    /// // In a handler these are those of its third argument.
    /// let registers = freezeframe_arch::capture();
    /// snapshot.capture_from_context(&suspender, images, &registers, &Options::default());
    /// let first = &snapshot.view().threads[0];
    /// assert_eq!((first.held, first.registers), (Held::Itself, Some(registers)));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Signal safety
    /// Safe, with about 12 KiB of stack: to be called on an alternate one. It waits for 800 ms at most, and for as long as
    /// the options say.
    pub fn capture_from_context(
        &mut self,
        suspender: &Suspender,
        images: &ImageTable,
        registers: &Registers,
        options: &Options<'_>,
    ) {
        let me = threads::current();
        let options = Options { first: Some(me), ..*options };
        suspender.give_up_own_session();
        // Before the listing: a thread that ends while this waits is not listed.
        let session = session_within(suspender);
        let listing = self.list(&options);
        if listing.is_err() {
            self.list_only(me);
        }
        self.take_listed(session, images, &options, Some(registers));
        if listing.is_err() {
            self.head.set = Set::NotTogether(SuspendError::Unlisted);
        }
    }
}

/// A session, as soon as nobody else has one.
fn session_within(suspender: &Suspender) -> Result<Session, SuspendError> {
    let give_up = sys::monotonic().saturating_add(SESSION_WITHIN_NS);
    loop {
        match suspender.session() {
            Err(SuspendError::Busy) if sys::monotonic() < give_up => sys::sleep(1_000_000),
            result => return result,
        }
    }
}
