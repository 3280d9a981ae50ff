//! What a traced thread's status says.

/// Why the kernel told of a traced thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stop {
    /// It stands still: because we interrupted it, or because its whole process was stopped (`SIGSTOP`).
    Held,
    /// A signal is about to be delivered to it: it must have it.
    Signal(i32),
    /// It has ended.
    Ended,
}

impl Stop {
    /// From a status of `wait4`. A thread seized without options has no other events.
    pub(super) const fn of(status: i32) -> Self {
        const STOPPED: i32 = 0x7f;
        if status & 0xff != STOPPED {
            return Self::Ended;
        }
        if status >> 16 == libc::PTRACE_EVENT_STOP { Self::Held } else { Self::Signal(status >> 8 & 0xff) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_is_a_hold_a_signal_or_an_end() {
        let event = |signal: i32| libc::PTRACE_EVENT_STOP << 16 | signal << 8 | 0x7f;
        assert_eq!(Stop::of(event(libc::SIGTRAP)), Stop::Held);
        assert_eq!(Stop::of(event(libc::SIGSTOP)), Stop::Held, "a stop of the whole process");
        assert_eq!(Stop::of(event(libc::SIGTTIN)), Stop::Held);
        assert_eq!(Stop::of(libc::SIGUSR1 << 8 | 0x7f), Stop::Signal(libc::SIGUSR1));
        assert_eq!(Stop::of(libc::SIGTRAP << 8 | 0x7f), Stop::Signal(libc::SIGTRAP));
        assert_eq!(Stop::of(3 << 8), Stop::Ended);
        assert_eq!(Stop::of(libc::SIGKILL), Stop::Ended);
        assert_eq!(Stop::of(libc::SIGSEGV | 0x80), Stop::Ended, "with a core file");
    }
}
