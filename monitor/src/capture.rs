//! The stacks of threads, in memory that is there from the start.

use crate::cause::{self, Circumstances, Finding, Names};
use crate::per_process::PerProcess;
use crate::stacks::Stacks;
use crate::subject::{self, Subject};
use freezeframe_arch::PacMask;
use freezeframe_unwind::images::{ImageTable, ImagesError};
use freezeframe_unwind::rule::FrameAddress;
use freezeframe_unwind::snapshot::{Options, ThreadCapture, View};
use freezeframe_unwind::suspend::Suspender;
use freezeframe_unwind::threads::{ThreadId, current};
use freezeframe_unwind::walk::Frame;
/// Takes stacks, never of the monitor's own threads.
pub(crate) struct Capturer {
    pub(crate) subject: Subject,
    suspender: Suspender,
    pub(crate) images: Box<ImageTable>,
    snapshot: Stacks,
    names: Names,
    own: [ThreadId; 2],
}

/// Loops that freeze together, on the same lock say, are captured one after the other.
static CAPTURING: PerProcess<()> = PerProcess::new();

impl Capturer {
    pub(crate) fn new(subject: Subject, suspender: Suspender, together: bool) -> std::io::Result<Self> {
        let (images, snapshot) = storage(together)?;
        Ok(Self { subject, suspender, images, snapshot, names: Names::new(), own: [ThreadId(0); 2] })
    }

    /// To be called on the watcher's thread before it watches: learns which threads to leave out, and brings the image
    /// table up to date, so that a freeze pays only for what has changed.
    pub(crate) fn begin(&mut self, hooks: Option<ThreadId>) {
        let watcher = current();
        self.own = [watcher, hooks.unwrap_or(watcher)];
        // It is made now, not in the middle of a freeze.
        drop(CAPTURING.lock());
        // Without a table now, the refresh at the freeze will say so.
        let _ = self.refresh();
    }

    /// Brings the image table up to date. An older one is better than none: frames in what was loaded since end their walk.
    pub(crate) fn refresh(&mut self) -> Result<(), ImagesError> {
        subject::refresh(self.subject, &mut self.images)
    }

    /// Takes the stacks of all threads, `first` first. `still` says, while that is held, whether what is to be seen goes on.
    pub(crate) fn all(&mut self, first: ThreadId, still: &dyn Fn() -> bool) -> Result<(), String> {
        let _turn = CAPTURING.lock();
        let options = Options { first: Some(first), exclude: &self.own, still, ..Options::default() };
        let captured = self.snapshot.capture(self.subject, &self.suspender, &self.images, &options);
        self.check_locks();
        captured.map_err(|error| error.to_string())
    }

    /// Takes the stack of one thread.
    pub(crate) fn one(&mut self, thread: ThreadId, still: &dyn Fn() -> bool) {
        let _turn = CAPTURING.lock();
        // A sample is not worth a call of the program's.
        let options = Options { first: Some(thread), interrupt: false, still, ..Options::default() };
        self.snapshot.capture_thread(self.subject, &self.suspender, &self.images, thread, &options);
        self.check_locks();
    }

    /// Forgets locks that are none by the functions that wait.
    fn check_locks(&mut self) {
        let Self { subject, images, snapshot, names, .. } = self;
        let pac = snapshot.view().pac;
        snapshot.retain_locks(|thread, frames| {
            let lookups = frames.iter().map(|frame| lookup(pac, frame.address));
            cause::waits_for_lock(*subject, thread, lookups, images, names)
        });
    }

    /// What a look at a thread shows that was captured just now.
    pub(crate) fn investigate(&mut self, circumstances: &Circumstances, thread: &ThreadCapture) -> Finding {
        let Self { subject, images, snapshot, names, .. } = self;
        let view = snapshot.view();
        let lookup = |address| lookup(view.pac, address);
        cause::investigate(*subject, circumstances, thread, view.frames(thread), lookup, images, names)
    }

    /// What was captured last.
    pub(crate) fn view(&self) -> View<'_> {
        self.snapshot.view()
    }

    /// The thread that was captured first, if there is one.
    pub(crate) fn first(&self) -> Option<ThreadCapture> {
        self.view().threads.first().copied()
    }

    /// Its frame of that number, innermost first.
    pub(crate) fn frame(&self, thread: &ThreadCapture, number: usize) -> Option<Frame> {
        self.view().frames(thread).get(number).copied()
    }

    /// The address to look up of a frame's, without an authentication code.
    pub(crate) fn lookup(&self, address: FrameAddress) -> u64 {
        lookup(self.view().pac, address)
    }

    /// Where the function begins that an address lies in; the address itself, if that is not known.
    pub(crate) fn function(&mut self, lookup: u64) -> u64 {
        self.snapshot.function_start(self.subject, &self.images, lookup).unwrap_or(lookup)
    }
}

fn lookup(pac: PacMask, address: FrameAddress) -> u64 {
    address.with(pac.strip(address.raw())).lookup()
}

/// The large storage: made on a stack of its own, since it may be too large for the caller's on its way to the heap.
fn storage(together: bool) -> std::io::Result<(Box<ImageTable>, Stacks)> {
    const STACK: usize = 16 << 20;
    let made = std::thread::Builder::new()
        .stack_size(STACK)
        .spawn(move || (Box::new(ImageTable::new()), Stacks::new(together)))?
        .join();
    made.map_err(|_| std::io::Error::other("the memory for captures could not be set up"))
}
