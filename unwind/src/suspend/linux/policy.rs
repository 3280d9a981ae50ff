//! In which order the ways of reading a thread are tried, and which are not.

use super::ptrace;
use crate::suspend::{Purpose, SuspendError, Way, Ways};
use crate::sys;
use core::ffi::CStr;
use core::sync::atomic::{AtomicU8, Ordering};

/// What the system permits, as far as it says so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct System {
    /// Processes of the same user may look into this one (`PR_GET_DUMPABLE`).
    pub(crate) dumpable: bool,
    /// We may trace whom we like (`CAP_SYS_PTRACE`).
    pub(crate) capable: bool,
    /// Yama's `ptrace_scope`; 0 without Yama.
    pub(crate) yama: u8,
    /// Somebody traces this process.
    pub(crate) traced: bool,
    /// The helper may register as a tracer.
    pub(crate) registers: bool,
    /// What was learned from an attempt that has failed.
    pub(crate) refused: Option<SuspendError>,
}

/// Whether to try a way, or why not.
pub(crate) type Step = (Way, Result<(), SuspendError>);

/// The ways for a thread, best first. `runs`: it was found running, not waiting.
///
/// | | one thread matters | all together |
/// |---|---|---|
/// | first | peek: nothing is stopped | ptrace: the only way to hold more than one |
/// | then | signal: microseconds, and all registers | peek, for who could not be held |
/// | at last | ptrace: for who takes no signals | signal |
pub(crate) const fn order(purpose: Purpose, allowed: Ways, system: &System, runs: bool) -> [Step; 3] {
    let peek = match may(allowed, Way::Peek) {
        Ok(()) if runs => Err(SuspendError::Running),
        may => may,
    };
    let peek = (Way::Peek, peek);
    let signal = (Way::Signal, may(allowed, Way::Signal));
    let ptrace = match may(allowed, Way::Ptrace) {
        Ok(()) => system.permits_tracing(),
        not => not,
    };
    let ptrace = (Way::Ptrace, ptrace);
    match purpose {
        Purpose::OneThread => [peek, signal, ptrace],
        Purpose::AllTogether => [ptrace, peek, signal],
    }
}

const fn may(allowed: Ways, way: Way) -> Result<(), SuspendError> {
    if allowed.contains(way) { Ok(()) } else { Err(SuspendError::NotAllowed) }
}

impl System {
    /// Whether the helper may trace the other threads.
    const fn permits_tracing(&self) -> Result<(), SuspendError> {
        if self.traced {
            return Err(SuspendError::Traced);
        }
        match self.yama {
            0 => {}
            1 if self.capable || self.registers => {}
            2 if self.capable => {}
            _ => return Err(SuspendError::Yama),
        }
        if !self.dumpable && !self.capable {
            return Err(SuspendError::NotDumpable);
        }
        match self.refused {
            Some(error) => Err(error),
            None => Ok(()),
        }
    }

    /// Asks the kernel.
    ///
    /// # Signal safety
    /// Safe: `prctl`, and two files of `/proc`; about 5 KiB of stack.
    pub(crate) fn learn() -> Self {
        const CAP_SYS_PTRACE: u32 = 19;
        let mut buffer = [0u8; 4096];
        let yama = read(c"/proc/sys/kernel/yama/ptrace_scope", &mut buffer);
        let yama = yama.and_then(sys::decimal).unwrap_or(0).min(u8::MAX.into()) as u8;
        let status = read(c"/proc/self/status", &mut buffer).unwrap_or(&[]);
        let tracer = field(status, b"TracerPid:").and_then(sys::decimal).unwrap_or(0);
        let capabilities = field(status, b"CapEff:").and_then(sys::hexadecimal).unwrap_or(0);
        Self {
            dumpable: sys::process_control(libc::PR_GET_DUMPABLE, 0) == Ok(1),
            capable: capabilities.wrapping_shr(CAP_SYS_PTRACE) & 1 != 0,
            yama,
            traced: tracer != 0,
            registers: ptrace::registers_as_tracer(),
            refused: SuspendError::from_code(REFUSED.load(Ordering::Relaxed)),
        }
    }
}

/// Why no attempt to trace is worth another one; zero while none has failed for good.
static REFUSED: AtomicU8 = AtomicU8::new(0);

/// Notes that the kernel will not let us trace, whomever and whenever: a filter of system calls, an emulator.
pub(crate) fn learn_refusal(error: SuspendError) {
    REFUSED.store(error as u8, Ordering::Relaxed);
}

fn read<'a>(path: &CStr, buffer: &'a mut [u8]) -> Option<&'a [u8]> {
    sys::open(path).and_then(|file| file.read_to_end(buffer)).ok()
}

/// What stands behind `name` on its line of a status file.
fn field<'a>(status: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    let line = status.split(|byte| *byte == b'\n').find_map(|line| line.strip_prefix(name))?;
    Some(line.trim_ascii())
}

#[cfg(test)]
mod tests {
    use super::*;

    const OPEN: System =
        System { dumpable: true, capable: false, yama: 0, traced: false, registers: false, refused: None };

    fn tried(steps: [Step; 3]) -> [Option<Way>; 3] {
        steps.map(|(way, may)| may.is_ok().then_some(way))
    }

    fn ptrace(system: System) -> Result<(), SuspendError> {
        let steps = order(Purpose::AllTogether, Ways::ALL, &system, true);
        assert_eq!(steps[0].0, Way::Ptrace, "it comes first");
        steps[0].1
    }

    #[test]
    fn one_thread_is_peeked_at_first_and_all_together_are_traced_first() {
        let (peek, signal, ptrace) = (Some(Way::Peek), Some(Way::Signal), Some(Way::Ptrace));
        let order = |purpose| tried(order(purpose, Ways::ALL, &OPEN, false));
        assert_eq!(order(Purpose::OneThread), [peek, signal, ptrace]);
        assert_eq!(order(Purpose::AllTogether), [ptrace, peek, signal]);
    }

    #[test]
    fn a_thread_that_runs_is_not_peeked_at_and_what_the_caller_forbids_is_not_done() {
        let steps = order(Purpose::OneThread, Ways::ALL.without(Way::Signal), &OPEN, true);
        let expected = [
            (Way::Peek, Err(SuspendError::Running)),
            (Way::Signal, Err(SuspendError::NotAllowed)),
            (Way::Ptrace, Ok(())),
        ];
        assert_eq!(steps, expected);
        let steps = order(Purpose::OneThread, Ways::only(Way::Peek), &OPEN, false);
        assert_eq!(tried(steps), [Some(Way::Peek), None, None]);
        assert_eq!(steps[2].1, Err(SuspendError::NotAllowed));
    }

    #[test]
    fn each_thing_that_stands_in_a_tracers_way_is_named() {
        assert_eq!(ptrace(OPEN), Ok(()));
        assert_eq!(ptrace(System { traced: true, capable: true, ..OPEN }), Err(SuspendError::Traced));
        assert_eq!(ptrace(System { dumpable: false, ..OPEN }), Err(SuspendError::NotDumpable));
        assert_eq!(ptrace(System { dumpable: false, capable: true, ..OPEN }), Ok(()));
        let refused = Some(SuspendError::Forbidden);
        assert_eq!(ptrace(System { refused, capable: true, ..OPEN }), Err(SuspendError::Forbidden));
        let yama = |yama, capable, registers| ptrace(System { yama, capable, registers, ..OPEN });
        let no = Err(SuspendError::Yama);
        assert_eq!([yama(1, false, false), yama(1, false, true), yama(1, true, false)], [no, Ok(()), Ok(())]);
        assert_eq!([yama(2, false, true), yama(2, true, false)], [no, Ok(())], "only for the privileged");
        assert_eq!(yama(3, true, true), no, "for nobody");
    }

    #[test]
    fn a_field_of_a_status_file_is_found_by_its_name_at_the_beginning_of_a_line() {
        let status = b"Name:\tTracerPid:\nTracerPid:\t42\nCapEff:\t0000000000080000\n";
        assert_eq!(field(status, b"TracerPid:").and_then(sys::decimal), Some(42));
        assert_eq!(field(status, b"CapEff:").and_then(sys::hexadecimal), Some(1 << 19));
        assert_eq!(field(status, b"Cap:"), None);
    }
}
