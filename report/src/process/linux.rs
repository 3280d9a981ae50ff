//! Linux: `/proc`.

use super::Status;
use rustix::fs::{CWD, Mode, OFlags};
use std::io::{Error, ErrorKind};

fn unreadable(error: Error) -> Error {
    Error::new(error.kind(), format!("/proc cannot be read: {error}"))
}

pub(super) fn boot_id() -> std::io::Result<[u8; 16]> {
    let text = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").map_err(unreadable)?;
    uuid::Uuid::try_parse(text.trim()).map(uuid::Uuid::into_bytes).map_err(Error::other)
}

pub(super) fn status(pid: u32) -> std::io::Result<Status> {
    let line = std::fs::read(format!("/proc/{pid}/stat")).map_err(unreadable)?;
    parse(&line).ok_or_else(|| Error::new(ErrorKind::InvalidData, "/proc says nothing of the process"))
}

/// A line of `stat`, see proc(5). The name may hold anything, parentheses and line ends included.
fn parse(stat: &[u8]) -> Option<Status> {
    let open = stat.iter().position(|byte| *byte == b'(')?;
    let close = stat.iter().rposition(|byte| *byte == b')')?;
    let name = stat.get(open + 1..close)?.to_vec();
    let mut fields = stat[close + 1..].split(u8::is_ascii_whitespace).filter(|field| !field.is_empty());
    let ended = matches!(fields.next()?, b"Z" | b"X" | b"x");
    let started = std::str::from_utf8(fields.nth(18)?).ok()?.parse().ok()?;
    Some(Status { name, started, ended })
}

/// `TracerPid` of `status`, one of its first lines.
pub(super) fn is_debugged() -> bool {
    let mut buffer = [0; 1024];
    let flags = OFlags::RDONLY | OFlags::CLOEXEC;
    let file = rustix::fs::openat(CWD, c"/proc/self/status", flags, Mode::empty());
    let read = file.and_then(|file| rustix::io::read(file, &mut buffer)).unwrap_or(0);
    tracer(&buffer[..read]).is_some_and(|tracer| tracer != b"0")
}

fn tracer(status: &[u8]) -> Option<&[u8]> {
    let mut lines = status.split(|byte| *byte == b'\n');
    lines.find_map(|line| line.strip_prefix(b"TracerPid:")).map(<[u8]>::trim_ascii)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tracer_is_read_from_its_line() {
        assert_eq!(tracer(b"Name:\tx\nPPid:\t1\nTracerPid:\t4711\nUid:\t0"), Some(b"4711".as_slice()));
        assert_eq!(tracer(b"Name:\tTracerPid:\n"), None);
        let status = std::fs::read("/proc/self/status").unwrap();
        assert!(tracer(&status[..status.len().min(1024)]).is_some(), "among its first kilobyte");
    }

    #[test]
    fn a_name_with_parentheses_does_not_shift_the_fields() {
        let line = b"12 (a) b (c)) S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 4711 19 20\n";
        assert_eq!(parse(line), Some(Status { name: b"a) b (c)".to_vec(), started: 4711, ended: false }));
        assert!(parse(&line.map(|byte| if byte == b'S' { b'Z' } else { byte })).unwrap().ended);
        assert_eq!(parse(b"12 (a) S 1 2"), None);
    }
}
