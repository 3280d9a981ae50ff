//! Which functions of the table a process's main thread waits in, and what they have been called from.

use super::look::Place;
use crate::cause::tables::{FRAMES, FromFile, Functions, Role};
use crate::cause::{Names, Symbols};
use crate::subject::{self, Subject};
use freezeframe_unwind::images::ImageTable;
use freezeframe_unwind::snapshot::{Options, Snapshot};
use freezeframe_unwind::suspend::{Way, Ways};
use freezeframe_unwind::threads::ThreadId;
use freezeframe_unwind::walk::{Depth, Frame, StopReason};

/// Callbacks are looked for on as many frames.
const DEEP: usize = 512;

/// Where a thread waits, by its functions.
pub(super) struct Waits<'a> {
    /// Those of the innermost functions of the table, innermost first.
    pub(super) roles: &'a [Role],
    /// Whether the stack was walked to its end.
    pub(super) is_whole: bool,
    /// Who has called the loop that waits, if one does: on the stack of all its callbacks.
    pub(super) loop_caller: Option<Place>,
}

/// The memory for one stack.
pub(super) struct Stack {
    images: Box<ImageTable>,
    /// The first thread gets half of the frames.
    snapshot: Box<Snapshot<1, { 2 * DEEP }>>,
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

    /// The functions that the thread waits in. It is looked at; if that does not show all of its stack, it is stopped for a moment,
    /// where its wait does not mind.
    pub(super) fn waits(&mut self, subject: Subject, thread: ThreadId) -> Waits<'_> {
        self.roles.clear();
        let is_whole = self.walk(subject, thread, FRAMES);
        let mut memory = subject::memory(subject);
        let view = self.snapshot.view();
        let frames = view.threads.first().map_or(&[][..], |thread| view.frames(thread));
        let lookup = |frame: &Frame| frame.address.with(view.pac.strip(frame.address.raw())).lookup();
        let names = &mut self.names;
        let functions = Functions::find(
            subject,
            FromFile::Caller,
            &self.images,
            &mut memory,
            names,
            frames.iter().map(lookup),
        );
        self.roles.extend(functions.as_slice().iter().map(|(_, known)| known.role));
        let mut is_loop = |frame: &Frame| {
            let known = names.find(subject, Symbols::All, &self.images, &mut memory, lookup(frame));
            known.is_some_and(|known| known.role == Role::Loop)
        };
        let innermost = functions.as_slice().iter().find(|(_, known)| known.role == Role::Loop);
        let loop_caller = innermost.and_then(|(number, _)| {
            let callers = frames.get(*number as usize + 1..)?;
            callers.iter().find(|frame| !is_loop(frame)).map(place)
        });
        Waits { roles: &self.roles, is_whole, loop_caller }
    }

    /// Whether the thread is in something that was called from there.
    pub(super) fn is_called_from(&mut self, subject: Subject, thread: ThreadId, caller: Place) -> bool {
        self.walk(subject, thread, DEEP);
        let view = self.snapshot.view();
        view.threads.iter().flat_map(|thread| view.frames(thread)).any(|frame| place(frame) == caller)
    }

    /// Walks the stack, and returns whether to its end.
    fn walk(&mut self, subject: Subject, thread: ThreadId, innermost: usize) -> bool {
        if self.take(subject, thread, Ways::only(Way::Peek), innermost) {
            return true;
        }
        // What was loaded since is known at the second try.
        let _ = subject::refresh(subject, &mut self.images);
        self.take(subject, thread, Ways::ALL, innermost)
    }

    /// Whether the stack was walked to its end.
    fn take(&mut self, subject: Subject, thread: ThreadId, ways: Ways, innermost: usize) -> bool {
        let first_depth = Depth { innermost, outermost: 0 };
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

fn place(frame: &Frame) -> Place {
    Place { sp: frame.sp, pc: frame.address.raw() }
}
