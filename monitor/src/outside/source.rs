//! The strategies together: while the program's loop runs and tells of it, by what it tells; else by looking.

use super::peek::PeekSource;
use super::shared::SharedBoard;
use crate::activity::Activity;
use crate::clock;
use crate::subject::{self, Subject};
use crate::watch::source::{Source, Watched};
use freezeframe_report::encode::Strategy;
use freezeframe_report::layout::Outcome;
use freezeframe_unwind::memory::Memory;
use freezeframe_unwind::threads::ThreadId;

/// Tells the epochs of the one from those of the other.
const TOLD: u64 = 1 << 40;

/// A process that may tell of its loop.
pub(crate) struct OutsideSource {
    peek: PeekSource,
    board: Option<SharedBoard>,
    /// The last reading was by what is told.
    told: bool,
    /// When that has changed.
    since_ns: u64,
}

impl OutsideSource {
    pub(crate) fn new(peek: PeekSource, board: Option<SharedBoard>, interval_ns: u64) -> Self {
        board.iter().for_each(|board| board.set_interval(interval_ns));
        Self { peek, board, told: false, since_ns: clock::now() }
    }

    /// The board, while the loop runs: and the program is still the one that has it, not another one after an `exec`.
    fn telling(&self) -> Option<&SharedBoard> {
        let board = self.board.as_ref()?;
        let runs = !matches!(Activity::from_code(board.board().activity()), None | Some(Activity::Exit));
        let (address, word) = board.in_program().filter(|_| runs)?;
        let there = subject::memory(self.peek.subject()).read_u64(address) == Some(word);
        there.then_some(board)
    }
}

impl Source for OutsideSource {
    fn read(&mut self, now_ns: u64) -> Watched {
        let told = self.telling().map(|board| board.board().read(now_ns));
        if told.is_some() != self.told {
            (self.told, self.since_ns) = (told.is_some(), now_ns);
        }
        let mut watched = match told {
            Some(mut watched) => {
                watched.reading.epoch.0 |= TOLD;
                watched.reading.silence = watched.reading.silence.map(|(epoch, end)| (epoch | TOLD, end));
                // As in the program itself, a context of GLib's says so before each wait.
                (watched.waited_ns, watched.waits) = (None, Some(false));
                return watched;
            }
            None => self.peek.read(now_ns),
        };
        watched.reading.since_ns = watched.reading.since_ns.max(self.since_ns);
        watched
    }

    fn unchanged(&self, watched: &Watched) -> bool {
        let epoch = watched.reading.epoch.0;
        match &self.board {
            Some(board) if epoch & TOLD != 0 => board.board().read(0).reading.epoch.0 | TOLD == epoch,
            _ => self.peek.unchanged(watched),
        }
    }

    fn park(&mut self, _: &Watched) -> bool {
        false
    }

    fn subject(&self) -> Subject {
        self.peek.subject()
    }

    fn looked(&mut self) {
        self.peek.looked();
    }

    fn outcome(&self) -> Outcome {
        self.peek.outcome()
    }

    fn thread(&self) -> ThreadId {
        match &self.board {
            Some(board) if self.told => board.board().thread(),
            _ => self.peek.thread(),
        }
    }

    fn strategy(&self) -> Strategy {
        if self.told { Strategy::RunLoop } else { Strategy::Peek }
    }
}
