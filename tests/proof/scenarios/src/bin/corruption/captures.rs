//! Captures in the process whose memory is damaged.

use freezeframe_unwind::images::ImageTable;
use freezeframe_unwind::init::{Config, init};
use freezeframe_unwind::rule::FrameAddress;
use freezeframe_unwind::snapshot::{Held, Options, Snapshot, ThreadCapture};
use freezeframe_unwind::suspend::{Purpose, Suspender, Way, Ways};
use freezeframe_unwind::threads::ThreadId;
use freezeframe_unwind::walk::{Depth, Frame, StopReason};
use std::time::{Duration, Instant};

/// No capture takes longer, on a loaded machine too.
const WITHIN: Duration = Duration::from_secs(5);

pub(crate) struct Capturer {
    suspender: Suspender,
    pub(crate) images: Box<ImageTable>,
    snapshot: Box<Snapshot<32, 2048, { 64 * 1024 }>>,
}

/// A thread's stack, as one way has it.
pub(crate) struct Stack {
    pub(crate) frames: Vec<Frame>,
    pub(crate) stop: StopReason,
    pub(crate) capture: ThreadCapture,
}

/// Every way of reading a thread, and all of them in their order.
pub(crate) fn ways() -> [(&'static str, Options<'static>); 5] {
    let only = |way| Options { ways: Ways::only(way), ..Options::default() };
    [
        ("peek", only(Way::Peek)),
        ("signal", only(Way::Signal)),
        ("ptrace", only(Way::Ptrace)),
        ("together", Options { purpose: Purpose::AllTogether, ..Options::default() }),
        ("best", Options::default()),
    ]
}

impl Capturer {
    pub(crate) fn new() -> Self {
        let suspender = init(Config::default()).expect("threads can be stopped");
        let boxes = || (Box::new(ImageTable::new()), Box::new(Snapshot::new()));
        let made = std::thread::Builder::new().stack_size(64 << 20).spawn(boxes).expect("a thread");
        let (images, snapshot) = made.join().expect("memory");
        Self { suspender, images, snapshot }
    }

    /// Captures all threads, this one first.
    pub(crate) fn take(&mut self, thread: ThreadId, options: &Options<'_>) -> Stack {
        let begun = Instant::now();
        let depth = Depth { innermost: 400, outermost: 32 };
        let options = Options { first: Some(thread), first_depth: depth, other_depth: depth, ..*options };
        let taken = self.snapshot.capture(&self.suspender, &self.images, &options);
        assert!(begun.elapsed() < WITHIN, "it took {:?}", begun.elapsed());

        taken.expect("the threads can be listed");
        let view = self.snapshot.view();
        let capture = view.threads[0];
        assert_eq!(capture.thread, thread);
        Stack { frames: interrupted(view.frames(&capture)), stop: capture.summary.stop, capture }
    }
}

/// A thread that a signal has stopped is in the handler for a while yet: from where that has interrupted it on.
fn interrupted(frames: &[Frame]) -> Vec<Frame> {
    let is_return = |frame: &Frame| matches!(frame.address, FrameAddress::SignalReturn(_));
    let begin = frames.iter().rposition(is_return).unwrap_or(0);
    let mut frames = frames[begin..].to_vec();
    if let Some(first) = frames.first_mut() {
        first.address = FrameAddress::InstructionPointer(first.address.raw());
    }
    frames
}

/// Where the callers of the innermost frame are. A thread that waits in a system call stands at its instruction for a signal,
/// and behind it for a peek and a tracer, if it had the time to go back into the call: the best way may be another one each
/// time.
pub(crate) fn addresses(frames: &[Frame]) -> Vec<u64> {
    frames.iter().skip(1).map(|frame| frame.address.raw()).collect()
}

impl Capturer {
    /// What was captured last.
    pub(crate) fn view(&self) -> freezeframe_unwind::snapshot::View<'_> {
        self.snapshot.view()
    }
}

impl Stack {
    /// Whether it was not read, and says so: a thread that was stopped by a signal runs for a while yet.
    pub(crate) fn is_refused(&self) -> bool {
        self.frames.is_empty() && matches!(self.capture.held, Held::Not(_))
    }

    /// Whether it says that it may not be all of the stack.
    pub(crate) fn is_marked(&self) -> bool {
        self.stop != StopReason::EndOfStack || self.frames.is_empty()
    }
}
