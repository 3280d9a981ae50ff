//! Whether the process that wrote a record is still alive.

use crate::ring::Owner;

/// Whether `owner` runs: the same boot, and a process of its id that began at the same time.
pub(super) fn is_alive(owner: &Owner) -> bool {
    boot_id() == Some(owner.boot_id) && start_ticks(owner.pid) == Some(owner.start_ticks)
}

fn boot_id() -> Option<[u8; 16]> {
    let text = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    uuid::Uuid::try_parse(text.trim()).ok().map(uuid::Uuid::into_bytes)
}

/// Field 22 of `/proc/<pid>/stat`; none for a zombie, which writes no more.
fn start_ticks(pid: u32) -> Option<u64> {
    let stat = std::fs::read(format!("/proc/{pid}/stat")).ok()?;
    let after_name = stat.iter().rposition(|byte| *byte == b')')? + 1;
    let mut fields = stat[after_name..].split(u8::is_ascii_whitespace).filter(|field| !field.is_empty());
    let state = fields.next()?;
    if matches!(state, b"Z" | b"X" | b"x") {
        return None;
    }
    std::str::from_utf8(fields.nth(18)?).ok()?.parse().ok()
}

impl Owner {
    /// This process.
    ///
    /// # Errors
    /// `/proc` is not mounted.
    pub fn this_process() -> std::io::Result<Self> {
        let unreadable = || std::io::Error::other("/proc cannot be read; is it mounted?");
        let pid = std::process::id();
        let start_ticks = start_ticks(pid).ok_or_else(unreadable)?;
        Ok(Self { pid, start_ticks, boot_id: boot_id().ok_or_else(unreadable)? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_told_from_a_later_one_with_its_id() {
        let this = Owner::this_process().unwrap();
        assert!(is_alive(&this));
        assert!(!is_alive(&Owner { start_ticks: this.start_ticks + 1, ..this }));
        assert!(!is_alive(&Owner { boot_id: [7; 16], ..this }));
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let gone = Owner { pid: child.id(), ..this };
        child.wait().unwrap();
        assert!(!is_alive(&gone));
    }
}
