//! Which functions of the table a process's main thread waits in.

use crate::cause::tables::{FRAMES, Functions, Role};
use crate::cause::{Names, Symbols};
use crate::subject::{self, Subject};
use freezeframe_unwind::images::ImageTable;
use freezeframe_unwind::snapshot::{Options, Snapshot};
use freezeframe_unwind::suspend::{Way, Ways};
use freezeframe_unwind::threads::ThreadId;
use freezeframe_unwind::walk::{Depth, StopReason};

/// The memory for one stack.
pub(super) struct Stack {
    images: Box<ImageTable>,
    /// The first thread gets half of the frames.
    snapshot: Box<Snapshot<1, { 2 * FRAMES }>>,
    names: Names,
    roles: Vec<Role>,
}

impl Stack {
    pub(super) fn new() -> std::io::Result<Self> {
        // Made where there is room for it: it may be made on the stack before it is on the heap.
        let made = std::thread::Builder::new()
            .stack_size(16 << 20)
            .spawn(|| (Box::new(ImageTable::new()), Box::new(Snapshot::new())))?
            .join();
        let (images, snapshot) = made.map_err(|_| std::io::Error::other("there is no memory for a stack"))?;
        Ok(Self { images, snapshot, names: Names::new(), roles: Vec::with_capacity(FRAMES) })
    }

    /// The roles of the innermost functions, innermost first, and whether the stack was walked to its end. The thread is looked at; if that does not show all of its stack, it is
    /// stopped for a moment, where its wait does not mind.
    pub(super) fn roles(&mut self, subject: Subject, thread: ThreadId) -> (&[Role], bool) {
        self.roles.clear();
        // What was loaded since is known at the second try.
        let mut whole = self.take(subject, thread, Ways::only(Way::Peek));
        if !whole {
            let _ = subject::refresh(subject, &mut self.images);
            whole = self.take(subject, thread, Ways::ALL);
        }
        let mut memory = subject::memory(subject);
        let view = self.snapshot.view();
        let frames = view.threads.first().map_or(&[][..], |thread| view.frames(thread));
        let lookups =
            frames.iter().map(|frame| frame.address.with(view.pac.strip(frame.address.raw())).lookup());
        let functions =
            Functions::find(subject, Symbols::Exported, &self.images, &mut memory, &mut self.names, lookups);
        self.roles.extend(functions.as_slice().iter().map(|(_, known)| known.role));
        (&self.roles, whole)
    }

    /// Whether the stack was walked to its end.
    fn take(&mut self, subject: Subject, thread: ThreadId, ways: Ways) -> bool {
        let first_depth = Depth { innermost: FRAMES, outermost: 0 };
        let options = Options { first: Some(thread), ways, first_depth, ..Options::default() };
        self.snapshot.capture_thread_of(subject, &self.images, thread, &options);
        let taken = self.snapshot.view().threads.first().copied();
        taken.is_some_and(|thread| {
            thread.registers.is_some()
                && thread.summary.stop == StopReason::EndOfStack
                && thread.summary.kept > 0
        })
    }
}
