//! The strategy: progress by looking.

use super::home::Home;
use super::idle::{self, Way};
use super::look::{Look, Place, Seen, Standing};
use super::stack::Stack;
use crate::cause::tables;
use crate::detect::Reading;
use crate::subject::{self, Subject};
use crate::watch::source::{Source, Watched};
use freezeframe_arch::Architecture;
use freezeframe_report::encode::Strategy;
use freezeframe_report::layout::Outcome;
use freezeframe_unwind::threads::{SystemCall, ThreadId};

/// How often a wait for events, or another one, is come back to before it is the way in which the program idles.
const EVENTS_VISITS: u32 = 2;
const VISITS: u32 = 3;
/// How often a stack is looked at that is not seen to its end. Together with the first tick they are fewer than make a freeze.
const TRIES: u32 = 3;

/// Looks at the main thread of another process.
pub(crate) struct PeekSource {
    subject: Subject,
    thread: ThreadId,
    look: Look,
    stack: Stack,
    home: Home,
    program: Option<(u64, u64)>,
    /// The last look, and how often the thread had made progress then.
    seen: Option<Seen>,
    epoch: u64,
    since_ns: u64,
    /// Whether the wait of this epoch is none of idling, once that is known.
    is_busy: Option<bool>,
    /// How often its functions are still asked for.
    tries: u32,
}

impl PeekSource {
    pub(crate) fn new(subject: Subject) -> std::io::Result<Self> {
        let look = Look::open(subject)?;
        let program = look.program();
        Ok(Self {
            subject,
            thread: ThreadId(subject::pid(subject) as i32),
            look,
            stack: Stack::new()?,
            home: Home::default(),
            program,
            seen: None,
            epoch: 0,
            since_ns: 0,
            is_busy: None,
            tries: TRIES,
        })
    }

    /// Notes a look, and returns whether the thread has made progress since the one before.
    fn note(&mut self, seen: Seen, now_ns: u64) -> bool {
        let key = |seen: &Seen| (seen.sleeps, seen.standing.is_wait());
        let fresh = self.seen.as_ref().map(key) != Some(key(&seen)) && !self.goes_on(&seen);
        if fresh {
            self.epoch += 1;
            (self.since_ns, self.is_busy) = (now_ns, None);
        }
        self.seen = Some(seen);
        fresh
    }

    /// Whether the kernel has begun the same wait anew, as it does after a stop.
    fn goes_on(&self, now: &Seen) -> bool {
        match (self.seen.map(|seen| seen.standing), now.standing) {
            (Some(Standing::Waits(_, then)), Standing::Waits(call, now)) => {
                then == now && i64::from(call.number) == libc::SYS_restart_syscall
            }
            _ => false,
        }
    }

    /// Whether a wait is none of idling. What its functions say is asked when it has lasted for a tick: most do not.
    fn is_busy_in(&mut self, call: SystemCall, place: Place, fresh: bool) -> bool {
        if let Some(busy) = self.is_busy {
            return busy;
        }
        let known = tables::system_call(Architecture::NATIVE, call.number);
        let descriptor = tables::descriptor_of(self.subject, call.arguments[0]);
        let way = idle::way(known, call.arguments, descriptor);
        let by_functions = match way {
            // Until it is known, it is as good as busy: it has not lasted for long.
            Way::ByFunctions if fresh => {
                let waits_for_events = known.is_some_and(|(_, wait)| wait == tables::Wait::Events);
                self.home.visit(place, if waits_for_events { EVENTS_VISITS } else { VISITS });
                self.tries = TRIES;
                return true;
            }
            Way::ByFunctions => {
                let waits = self.stack.waits(self.subject, self.thread);
                let said = idle::by_functions(waits.roles.iter().copied());
                self.tries = self.tries.saturating_sub(1);
                // What is not seen of the stack may say something else.
                if !waits.is_whole && self.tries > 0 {
                    return true;
                }
                if said == Some(true) {
                    self.home.settle(place, waits.loop_caller);
                }
                said
            }
            Way::AtHome => {
                if fresh {
                    self.home.visit(place, VISITS);
                }
                None
            }
            Way::Never => Some(false),
        };
        let busy = match (by_functions, self.home.loop_caller(place)) {
            (Some(is_idle), _) => !is_idle,
            (None, _) if self.home.is_above(place) => true,
            (None, Some(_)) if fresh => return true,
            (None, Some(caller)) => self.stack.is_called_from(self.subject, self.thread, caller),
            (None, None) => false,
        };
        self.is_busy = Some(busy);
        busy
    }
}

impl Source for PeekSource {
    fn read(&mut self, now_ns: u64) -> Watched {
        let program = self.look.program();
        if program.is_some() && program != self.program {
            (self.program, self.home) = (program, Home::default());
        }
        let mut busy = false;
        match self.look.see() {
            None => self.seen = None,
            Some(seen) => {
                let fresh = self.note(seen, now_ns);
                busy = match seen.standing {
                    Standing::Runs => self.home.is_known(),
                    Standing::Waits(call, place) => self.is_busy_in(call, place, fresh),
                    Standing::Stopped | Standing::Traced => false,
                };
            }
        }
        let reading = Reading { epoch: (self.epoch, 0), busy, since_ns: self.since_ns, silence: None };
        Watched { reading, activity: 0, waited_ns: None, depth: 0, waits: Some(false) }
    }

    fn unchanged(&self, _: &Watched) -> bool {
        let (Some(now), Some(seen)) = (self.look.see(), &self.seen) else { return false };
        // Being stopped by us is a sleep too.
        let own = u64::from(now.standing == Standing::Traced);
        now.sleeps.saturating_sub(own) <= seen.sleeps
    }

    fn park(&mut self, _: &Watched) -> bool {
        false
    }

    fn subject(&self) -> Subject {
        self.subject
    }

    /// If it stands where it stood, what it has slept meanwhile was our doing.
    fn looked(&mut self) {
        let Some(seen) = &mut self.seen else { return };
        let Some(now) = self.look.see() else { return };
        let stands_still = match (seen.standing, now.standing) {
            (Standing::Waits(_, then), Standing::Waits(_, now)) => then == now,
            (then, now) => then == now,
        };
        if stands_still {
            seen.sleeps = now.sleeps;
        }
    }

    fn outcome(&self) -> Outcome {
        match (self.look.see(), self.look.exit_status()) {
            (Some(_), _) => Outcome::Unknown,
            // To end by itself it had to go on.
            (None, Some(status)) if status & 0x7f == 0 => Outcome::Recovered,
            // It went on when the process died.
            (None, _) => Outcome::Ongoing,
        }
    }

    fn thread(&self) -> ThreadId {
        self.thread
    }

    fn strategy(&self) -> Strategy {
        Strategy::Peek
    }
}
