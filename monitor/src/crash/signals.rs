//! The signals that end a program: their handlers, what they say, and how they go on to who handled them before.

use freezeframe_report::encode::{Crash, Sender};
use std::io;
use std::mem::zeroed;
use std::ptr::null_mut;
use std::sync::OnceLock;

/// A handler with `SA_SIGINFO`.
pub(super) type Handler = extern "C" fn(i32, *mut libc::siginfo_t, *mut libc::c_void);

/// The signals that are handled. Each ends a program that does nothing about it, with a core dump.
const FATAL: [i32; 7] =
    [libc::SIGSEGV, libc::SIGBUS, libc::SIGILL, libc::SIGFPE, libc::SIGABRT, libc::SIGTRAP, libc::SIGSYS];

/// The actions that were there before ours, and our handler.
static EARLIER: OnceLock<([libc::sigaction; FATAL.len()], Handler)> = OnceLock::new();

/// Reads, and if `new` is given replaces, a signal's action.
fn action(signal: i32, new: Option<&libc::sigaction>) -> io::Result<libc::sigaction> {
    // SAFETY: `sigaction` is plain data. A new action is the program's own, or ours, whose handler may run anywhere.
    unsafe {
        let mut old = zeroed();
        match libc::sigaction(signal, new.map_or(null_mut(), |new| new), &mut old) {
            0 => Ok(old),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

/// Puts `handler` in the place of the handlers of all fatal signals. A signal that the program ignores is left alone.
pub(super) fn install(handler: Handler) -> io::Result<()> {
    // SAFETY: plain data, filled in below.
    let mut earlier: [libc::sigaction; FATAL.len()] = unsafe { zeroed() };
    for (signal, earlier) in FATAL.iter().zip(&mut earlier) {
        *earlier = action(*signal, None)?;
    }
    EARLIER.get_or_init(|| (earlier, handler));
    // SAFETY: plain data, filled in below.
    let mut ours: libc::sigaction = unsafe { zeroed() };
    ours.sa_sigaction = handler as *const () as usize;
    ours.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
    // SAFETY: sets of our own.
    unsafe {
        libc::sigfillset(&mut ours.sa_mask);
        // A crash in the handler must come to the handler: the kernel ends a program that blocks it.
        FATAL.iter().for_each(|signal| {
            libc::sigdelset(&mut ours.sa_mask, *signal);
        });
    }
    ours.sa_flags |= libc::SA_NODEFER;
    for (signal, earlier) in FATAL.iter().zip(&earlier) {
        if earlier.sa_sigaction != libc::SIG_IGN {
            action(*signal, Some(&ours))?;
        }
    }
    Ok(())
}

/// Puts the earlier actions back, where nobody has replaced ours.
///
/// # Signal safety
/// Safe.
pub(super) fn restore_earlier() {
    let Some((earlier, handler)) = EARLIER.get() else { return };
    for (signal, earlier) in FATAL.iter().zip(earlier) {
        if action(*signal, None).is_ok_and(|now| now.sa_sigaction == *handler as *const () as usize) {
            let _ = action(*signal, Some(earlier));
        }
    }
}

/// Takes care that the signal comes again, to the earlier action, once the calling handler has returned.
///
/// The instruction that the kernel has stopped a thread for is executed again, and is stopped for again. Other signals,
/// of memory that the hardware has found damaged in no instruction's course too, are sent again, to this thread, and wait until the handler's return unblocks them: so a core dump shows the thread as
/// it was.
///
/// # Signal safety
/// Safe.
pub(super) fn come_again(info: &Info) {
    let by_the_instruction = [libc::SIGSEGV, libc::SIGBUS, libc::SIGILL, libc::SIGFPE];
    let of_no_instruction = info.signal == libc::SIGBUS && info.code == libc::BUS_MCEERR_AO;
    if info.code > 0 && by_the_instruction.contains(&info.signal) && !of_no_instruction {
        return;
    }
    // SAFETY: a set of our own; system calls that read what the kernel has written.
    unsafe {
        let mut only = zeroed();
        libc::sigemptyset(&mut only);
        libc::sigaddset(&mut only, info.signal);
        libc::pthread_sigmask(libc::SIG_BLOCK, &only, null_mut());
        let (pid, tid) = (libc::getpid(), libc::syscall(libc::SYS_gettid));
        // With what it said, which the kernel allows to the main thread only.
        if libc::syscall(libc::SYS_rt_tgsigqueueinfo, pid, tid, info.signal, info.raw) != 0 {
            libc::syscall(libc::SYS_tgkill, pid, tid, info.signal);
        }
    }
}

/// Lets a signal come to the calling thread.
///
/// # Signal safety
/// Safe.
pub(super) fn unblock(signal: i32) {
    // SAFETY: a set of our own.
    unsafe {
        let mut only = zeroed();
        libc::sigemptyset(&mut only);
        libc::sigaddset(&mut only, signal);
        libc::pthread_sigmask(libc::SIG_UNBLOCK, &only, null_mut());
    }
}

/// What the kernel says of a signal.
#[derive(Clone, Copy, Debug)]
pub(super) struct Info {
    pub(super) signal: i32,
    pub(super) code: i32,
    /// The word where the kernel tells an address, or who has sent the signal.
    word: u64,
    raw: *mut libc::siginfo_t,
}

impl Info {
    /// # Safety
    /// `raw` is what the kernel gave to a handler that still runs.
    pub(super) unsafe fn read(raw: *mut libc::siginfo_t) -> Self {
        // The three numbers and their padding come first on every 64-bit architecture.
        const WORD: usize = 16;
        // SAFETY: as the caller promises; a siginfo has 128 bytes.
        unsafe {
            let word = raw.byte_add(WORD).cast::<u64>().read();
            Self { signal: (*raw).si_signo, code: (*raw).si_code, word, raw }
        }
    }

    /// Whether another process has sent it: it says nothing of what the thread was doing.
    pub(super) fn is_from_another_process(&self) -> bool {
        // SAFETY: no arguments.
        let this = unsafe { libc::getpid() };
        self.sender().is_some_and(|sender| sender.pid != this as u32)
    }

    fn sender(&self) -> Option<Sender> {
        let sent = matches!(self.code, libc::SI_USER | libc::SI_TKILL | libc::SI_QUEUE);
        sent.then_some(Sender { pid: self.word as u32, uid: (self.word >> 32) as u32 })
    }

    fn address(&self) -> Option<u64> {
        // The processor has found fault with an address that is none, and does not tell it.
        const SI_KERNEL: i32 = 0x80;
        (self.code > 0 && self.code != SI_KERNEL && self.signal != libc::SIGABRT).then_some(self.word)
    }

    pub(super) fn crash(&self) -> Crash<'static> {
        Crash {
            signal: self.signal,
            code: self.code,
            address: self.address(),
            sender: self.sender(),
            name: name(self.signal),
            code_name: code_name(self.signal, self.code),
        }
    }
}

fn name(signal: i32) -> &'static str {
    match signal {
        libc::SIGSEGV => "SIGSEGV",
        libc::SIGBUS => "SIGBUS",
        libc::SIGILL => "SIGILL",
        libc::SIGFPE => "SIGFPE",
        libc::SIGABRT => "SIGABRT",
        libc::SIGTRAP => "SIGTRAP",
        libc::SIGSYS => "SIGSYS",
        _ => "",
    }
}

/// The names in the kernel's `asm-generic/siginfo.h`, those of codes from 1 on in their order.
fn code_name(signal: i32, code: i32) -> &'static str {
    let names: &[&str] = match signal {
        libc::SIGSEGV => &[
            "SEGV_MAPERR",
            "SEGV_ACCERR",
            "SEGV_BNDERR",
            "SEGV_PKUERR",
            "SEGV_ACCADI",
            "SEGV_ADIDERR",
            "SEGV_ADIPERR",
            "SEGV_MTEAERR",
            "SEGV_MTESERR",
            "SEGV_CPERR",
        ],
        libc::SIGBUS => &["BUS_ADRALN", "BUS_ADRERR", "BUS_OBJERR", "BUS_MCEERR_AR", "BUS_MCEERR_AO"],
        libc::SIGILL => &[
            "ILL_ILLOPC",
            "ILL_ILLOPN",
            "ILL_ILLADR",
            "ILL_ILLTRP",
            "ILL_PRVOPC",
            "ILL_PRVREG",
            "ILL_COPROC",
            "ILL_BADSTK",
        ],
        libc::SIGFPE => &[
            "FPE_INTDIV",
            "FPE_INTOVF",
            "FPE_FLTDIV",
            "FPE_FLTOVF",
            "FPE_FLTUND",
            "FPE_FLTRES",
            "FPE_FLTINV",
            "FPE_FLTSUB",
        ],
        libc::SIGTRAP => &["TRAP_BRKPT", "TRAP_TRACE", "TRAP_BRANCH", "TRAP_HWBKPT", "TRAP_UNK", "TRAP_PERF"],
        libc::SIGSYS => &["SYS_SECCOMP", "SYS_USER_DISPATCH"],
        _ => &[],
    };
    match code {
        libc::SI_USER => "SI_USER",
        libc::SI_TKILL => "SI_TKILL",
        libc::SI_QUEUE => "SI_QUEUE",
        0x80 => "SI_KERNEL",
        1.. => names.get(code as usize - 1).copied().unwrap_or(""),
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_have_the_names_of_the_kernels_header() {
        // The numbers as they stand there; not every C library tells them.
        let all = [
            (libc::SIGSEGV, 1, "SEGV_MAPERR"),
            (libc::SIGSEGV, 2, "SEGV_ACCERR"),
            (libc::SIGSEGV, 10, "SEGV_CPERR"),
            (libc::SIGSEGV, 0x80, "SI_KERNEL"),
            (libc::SIGBUS, 2, "BUS_ADRERR"),
            (libc::SIGBUS, libc::BUS_MCEERR_AO, "BUS_MCEERR_AO"),
            (libc::SIGILL, 2, "ILL_ILLOPN"),
            (libc::SIGTRAP, libc::TRAP_HWBKPT, "TRAP_HWBKPT"),
            (libc::SIGFPE, 1, "FPE_INTDIV"),
            (libc::SIGABRT, libc::SI_TKILL, "SI_TKILL"),
            (libc::SIGSYS, 1, "SYS_SECCOMP"),
            (libc::SIGSYS, 3, ""),
            (libc::SIGSEGV, -60, ""),
        ];
        for (signal, code, expected) in all {
            assert_eq!(code_name(signal, code), expected);
        }
    }
}
