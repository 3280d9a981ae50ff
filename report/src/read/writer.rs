//! Whether the process that wrote a record is still alive.

use crate::ring::Owner;

/// Whether `owner` runs: the same boot, and a process of its id that began at the same time.
pub(super) fn is_alive(owner: &Owner) -> bool {
    boot_id().is_ok_and(|boot_id| boot_id == owner.boot_id)
        && start_ticks(owner.pid).is_ok_and(|ticks| ticks == Some(owner.start_ticks))
}

fn boot_id() -> std::io::Result<[u8; 16]> {
    let text = std::fs::read_to_string("/proc/sys/kernel/random/boot_id")?;
    uuid::Uuid::try_parse(text.trim()).map(uuid::Uuid::into_bytes).map_err(std::io::Error::other)
}

/// Field 22 of `/proc/<pid>/stat`; none for a zombie, which writes no more.
fn start_ticks(pid: u32) -> std::io::Result<Option<u64>> {
    Ok(parse_start_ticks(&std::fs::read(format!("/proc/{pid}/stat"))?))
}

fn parse_start_ticks(stat: &[u8]) -> Option<u64> {
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
    /// `/proc` is not mounted, or cannot be read.
    pub fn this_process() -> std::io::Result<Self> {
        let failed = |error: std::io::Error| {
            std::io::Error::new(error.kind(), format!("/proc cannot be read: {error}"))
        };
        let pid = std::process::id();
        let start_ticks = start_ticks(pid).map_err(failed)?.unwrap_or(0);
        Ok(Self { pid, start_ticks, boot_id: boot_id().map_err(failed)? })
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
