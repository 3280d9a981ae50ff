//! Numbers in structures, by names.

use freezeframe_report::encode::{Cause, Kind, Severity};
use freezeframe_report::read::{CauseKind, RecordKind, RecordOutcome, SeverityLevel};

/// What was noticed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub enum ff_kind {
    /// Something that this version does not know.
    FF_KIND_UNKNOWN = 0,
    /// A loop that does not turn.
    FF_KIND_FREEZE = 1,
    /// A signal that ends the program.
    FF_KIND_CRASH = 2,
    /// A loop that turns, but never waits.
    FF_KIND_NEVER_IDLE = 3,
    /// A process that takes much of the processors for long.
    FF_KIND_CPU_HIGH = 4,
}

/// How severe a freeze is, by its duration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub enum ff_severity {
    /// Nobody feels it.
    FF_SEVERITY_NONE = 0,
    /// From 250 ms on.
    FF_SEVERITY_MICRO = 1,
    /// From 500 ms on.
    FF_SEVERITY_FREEZE = 2,
    /// From 2 s on.
    FF_SEVERITY_SEVERE = 3,
    /// From 5 s on.
    FF_SEVERITY_UNRESPONSIVE = 4,
}

/// Why a loop does not turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub enum ff_cause {
    /// Nothing that is known speaks for any of the others.
    FF_CAUSE_UNKNOWN = 0,
    /// Its thread computes.
    FF_CAUSE_COMPUTING = 1,
    /// It waits for a lock.
    FF_CAUSE_LOCK = 2,
    /// It waits for a file, a device or a pipe.
    FF_CAUSE_INPUT_OUTPUT = 3,
    /// It sleeps for a set time.
    FF_CAUSE_SLEEPING = 4,
    /// It waits for a child process.
    FF_CAUSE_CHILD = 5,
    /// It waits for another thread, process or machine.
    FF_CAUSE_PEER = 6,
    /// It waits for events, as a loop should: a false alarm, of which the callback does not hear.
    FF_CAUSE_IDLE = 7,
    /// It could run, but got no processor.
    FF_CAUSE_STARVED = 8,
}

/// How a freeze has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub enum ff_outcome {
    /// The monitor was stopped before the end.
    FF_OUTCOME_UNKNOWN = 0,
    /// It goes on: its process is alive.
    FF_OUTCOME_ONGOING = 1,
    /// The loop turned again.
    FF_OUTCOME_RECOVERED = 2,
    /// The process ended in the middle of it.
    FF_OUTCOME_KILLED = 3,
}

/// What a program tells of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub enum ff_app_state {
    /// Nothing.
    FF_APP_STATE_UNKNOWN = 0,
    /// Somebody looks at it.
    FF_APP_STATE_FOREGROUND = 1,
    /// Nobody does.
    FF_APP_STATE_BACKGROUND = 2,
}

impl From<Kind> for ff_kind {
    fn from(kind: Kind) -> Self {
        match kind {
            Kind::Freeze => Self::FF_KIND_FREEZE,
            Kind::Crash => Self::FF_KIND_CRASH,
            Kind::NeverIdle => Self::FF_KIND_NEVER_IDLE,
            Kind::CpuHigh => Self::FF_KIND_CPU_HIGH,
        }
    }
}

impl From<RecordKind> for ff_kind {
    fn from(kind: RecordKind) -> Self {
        match kind {
            RecordKind::Freeze => Self::FF_KIND_FREEZE,
            RecordKind::Crash => Self::FF_KIND_CRASH,
            RecordKind::NeverIdle => Self::FF_KIND_NEVER_IDLE,
            RecordKind::CpuHigh => Self::FF_KIND_CPU_HIGH,
            RecordKind::Unknown => Self::FF_KIND_UNKNOWN,
        }
    }
}

impl From<Severity> for ff_severity {
    fn from(severity: Severity) -> Self {
        match severity {
            Severity::None => Self::FF_SEVERITY_NONE,
            Severity::Micro => Self::FF_SEVERITY_MICRO,
            Severity::Freeze => Self::FF_SEVERITY_FREEZE,
            Severity::Severe => Self::FF_SEVERITY_SEVERE,
            Severity::Unresponsive => Self::FF_SEVERITY_UNRESPONSIVE,
        }
    }
}

impl From<SeverityLevel> for ff_severity {
    fn from(severity: SeverityLevel) -> Self {
        match severity {
            SeverityLevel::None | SeverityLevel::Unknown => Self::FF_SEVERITY_NONE,
            SeverityLevel::Micro => Self::FF_SEVERITY_MICRO,
            SeverityLevel::Freeze => Self::FF_SEVERITY_FREEZE,
            SeverityLevel::Severe => Self::FF_SEVERITY_SEVERE,
            SeverityLevel::Unresponsive => Self::FF_SEVERITY_UNRESPONSIVE,
        }
    }
}

impl From<Cause> for ff_cause {
    fn from(cause: Cause) -> Self {
        match cause {
            Cause::Unknown => Self::FF_CAUSE_UNKNOWN,
            Cause::CpuBound => Self::FF_CAUSE_COMPUTING,
            Cause::Lock => Self::FF_CAUSE_LOCK,
            Cause::Io => Self::FF_CAUSE_INPUT_OUTPUT,
            Cause::Sleeping => Self::FF_CAUSE_SLEEPING,
            Cause::Child => Self::FF_CAUSE_CHILD,
            Cause::Peer => Self::FF_CAUSE_PEER,
            Cause::Idle => Self::FF_CAUSE_IDLE,
            Cause::Starved => Self::FF_CAUSE_STARVED,
        }
    }
}

impl From<CauseKind> for ff_cause {
    fn from(cause: CauseKind) -> Self {
        match cause {
            CauseKind::Unknown => Self::FF_CAUSE_UNKNOWN,
            CauseKind::CpuBound => Self::FF_CAUSE_COMPUTING,
            CauseKind::Lock => Self::FF_CAUSE_LOCK,
            CauseKind::Io => Self::FF_CAUSE_INPUT_OUTPUT,
            CauseKind::Sleeping => Self::FF_CAUSE_SLEEPING,
            CauseKind::Child => Self::FF_CAUSE_CHILD,
            CauseKind::Peer => Self::FF_CAUSE_PEER,
            CauseKind::Idle => Self::FF_CAUSE_IDLE,
            CauseKind::Starved => Self::FF_CAUSE_STARVED,
        }
    }
}

impl From<RecordOutcome> for ff_outcome {
    fn from(outcome: RecordOutcome) -> Self {
        match outcome {
            RecordOutcome::Ongoing => Self::FF_OUTCOME_ONGOING,
            RecordOutcome::Recovered => Self::FF_OUTCOME_RECOVERED,
            RecordOutcome::Killed => Self::FF_OUTCOME_KILLED,
            RecordOutcome::Unknown => Self::FF_OUTCOME_UNKNOWN,
        }
    }
}
