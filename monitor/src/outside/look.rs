//! What the kernel tells of a process's main thread, by files that stay open.

use crate::subject::{self, Subject};
use freezeframe_unwind::threads::SystemCall;
use rustix::fs::{CWD, Mode, OFlags};
use std::io::{Error, ErrorKind};
use std::os::fd::OwnedFd;
use std::path::PathBuf;

/// Where a thread waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) sp: u64,
    pub(super) pc: u64,
}

/// What a thread does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    /// It runs, or waits for a processor or for its own memory.
    Runs,
    /// It waits in a system call.
    Waits(SystemCall, Place),
    /// Somebody has stopped it.
    Stopped,
    /// We have: it is being captured.
    Traced,
}

impl Standing {
    pub(super) const fn is_wait(&self) -> bool {
        matches!(self, Self::Waits(..))
    }
}

/// One look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Seen {
    pub(super) standing: Standing,
    /// How often it has gone to sleep.
    pub(super) sleeps: u64,
}

/// The files.
#[derive(Debug)]
pub(super) struct Look {
    status: OwnedFd,
    call: OwnedFd,
    folder: PathBuf,
}

impl Look {
    /// # Errors
    /// There is no such process, or it may not be looked into.
    pub(super) fn open(subject: Subject) -> std::io::Result<Self> {
        let pid = subject::pid(subject);
        let open = |file: &str| {
            let path = format!("/proc/{pid}/task/{pid}/{file}");
            rustix::fs::openat(CWD, path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())
        };
        let look =
            Self { status: open("status")?, call: open("syscall")?, folder: format!("/proc/{pid}").into() };
        let mut text = [0; 256];
        // Opening is allowed to everybody, reading to tracers.
        rustix::io::pread(&look.call, &mut text, 0)?;
        look.see().ok_or_else(|| Error::new(ErrorKind::NotFound, "the process has ended"))?;
        Ok(look)
    }

    /// None if the thread has ended.
    pub(super) fn see(&self) -> Option<Seen> {
        let (mut status, mut call) = ([0; 4096], [0; 256]);
        // The call first: a sleep that begins between the two is a later look's.
        let call_bytes = rustix::io::pread(&self.call, &mut call, 0).unwrap_or(0);
        let status_bytes = rustix::io::pread(&self.status, &mut status, 0).ok()?;
        let status = str::from_utf8(status.get(..status_bytes)?).ok()?;
        let call = str::from_utf8(call.get(..call_bytes)?).ok()?;
        parse(status, call)
    }

    /// How a process has ended, as `wait` has it; none once its parent has heard of that.
    pub(super) fn exit_status(&self) -> Option<i32> {
        let stat = std::fs::read_to_string(self.folder.join("stat")).ok()?;
        // proc(5): field 52, counted here from the state, which is 3.
        stat.rsplit_once(')')?.1.split_ascii_whitespace().nth(49)?.parse().ok()
    }

    /// The program that it runs, by device and number: another one after an `exec`.
    pub(super) fn program(&self) -> Option<(u64, u64)> {
        use std::os::unix::fs::MetadataExt;
        let facts = std::fs::metadata(self.folder.join("exe")).ok()?;
        Some((facts.dev(), facts.ino()))
    }
}

fn parse(status: &str, call: &str) -> Option<Seen> {
    let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
    let sleeps = field("voluntary_ctxt_switches:")?.parse().ok()?;
    let state = field("State:")?.chars().next()?;
    let standing = match state {
        'Z' | 'X' => return None,
        'T' => Standing::Stopped,
        't' => Standing::Traced,
        'S' | 'D' => wait(call).unwrap_or(Standing::Runs),
        _ => Standing::Runs,
    };
    Some(Seen { standing, sleeps })
}

/// `number six arguments sp pc`; `-1 sp pc` outside of calls.
fn wait(text: &str) -> Option<Standing> {
    let mut fields = text.split_ascii_whitespace();
    let number: u32 = fields.next()?.parse().ok()?;
    let mut hexadecimal = || u64::from_str_radix(fields.next()?.strip_prefix("0x")?, 16).ok();
    let mut arguments = [0; 6];
    for argument in &mut arguments {
        *argument = hexadecimal()?;
    }
    let place = Place { sp: hexadecimal()?, pc: hexadecimal()? };
    Some(Standing::Waits(SystemCall { number, arguments }, place))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(state: &str) -> String {
        format!(
            "Name:\tState:\nState:\t{state}\nTgid:\t1\nvoluntary_ctxt_switches:\t42\nnonvoluntary_ctxt_switches:\t7\n"
        )
    }

    #[test]
    fn a_wait_is_told_with_its_place_and_what_is_none_is_not() {
        let call = "0 0x3 0x7f00 0x1000 0x0 0x0 0x0 0x7ffc10 0x40aa\n";
        let seen = parse(&status("S (sleeping)"), call).unwrap();
        let expected = SystemCall { number: 0, arguments: [3, 0x7f00, 0x1000, 0, 0, 0] };
        assert_eq!(seen.standing, Standing::Waits(expected, Place { sp: 0x7f_fc10, pc: 0x40aa }));
        assert_eq!(seen.sleeps, 42);
        let standing = |state, call| parse(&status(state), call).map(|seen| seen.standing);
        assert_eq!(standing("R (running)", "running\n"), Some(Standing::Runs));
        assert_eq!(standing("R (running)", call), Some(Standing::Runs), "it has just woken up");
        assert_eq!(standing("D (disk sleep)", "-1 0x7ffc10 0x40aa\n"), Some(Standing::Runs), "a page fault");
        assert_eq!(standing("T (stopped)", call), Some(Standing::Stopped));
        assert_eq!(standing("t (tracing stop)", call), Some(Standing::Traced));
        assert_eq!(standing("Z (zombie)", ""), None);
    }
}
