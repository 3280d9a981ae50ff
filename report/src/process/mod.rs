//! What the system says of a process: enough to tell it from every other one that ever had its id.

#[cfg(target_vendor = "apple")]
mod apple;
#[cfg(any(target_vendor = "apple", test))]
mod kinfo;
#[cfg(any(target_os = "linux", target_os = "android"))]
mod linux;

#[cfg(target_vendor = "apple")]
use apple as system;
#[cfg(target_vendor = "apple")]
pub use apple::{system_number, system_text};
#[cfg(any(target_os = "linux", target_os = "android"))]
use linux as system;

use crate::ring::Owner;

/// A process that exists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    /// Its name, which the system may have cut off: Linux after 15 bytes, Apple's after 16.
    pub name: Vec<u8>,
    /// When it began. Linux: in clock ticks of 10 ms since the boot. Apple: in microseconds since 1970.
    pub started: u64,
    /// It has ended, and waits for its parent to hear of that.
    pub ended: bool,
}

/// The process of that id.
///
/// # Errors
/// There is none, or the system does not tell: `/proc` is not mounted, or a sandbox hides other processes.
pub fn status(pid: u32) -> std::io::Result<Status> {
    system::status(pid)
}

/// Whether a debugger has attached to this process. False if the system does not tell. Does not allocate.
pub fn is_debugged() -> bool {
    system::is_debugged()
}

impl Owner {
    /// This process.
    ///
    /// # Errors
    /// See [`status`].
    pub fn this_process() -> std::io::Result<Self> {
        Self::of(std::process::id())
    }

    /// The process of that id.
    ///
    /// # Errors
    /// See [`status`].
    pub fn of(pid: u32) -> std::io::Result<Self> {
        Ok(Self { pid, start_ticks: status(pid)?.started, boot_id: system::boot_id()? })
    }

    /// Whether it runs: in this boot, and a process of its id that began at the same time.
    pub(crate) fn is_alive(&self) -> bool {
        system::boot_id().is_ok_and(|boot_id| boot_id == self.boot_id)
            && status(self.pid).is_ok_and(|status| !status.ended && status.started == self.start_ticks)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_told_from_a_later_one_with_its_id() {
        let this = Owner::this_process().unwrap();
        assert!(this.is_alive());
        assert!(!Owner { start_ticks: this.start_ticks + 1, ..this }.is_alive());
        assert!(!Owner { boot_id: [7; 16], ..this }.is_alive());
        assert_eq!(Owner::this_process().unwrap(), this, "the same at every time");
    }

    #[test]
    fn a_child_has_a_name_begins_later_and_does_not_write_any_more_when_it_has_ended() {
        let this = Owner::this_process().unwrap();
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        // Between its fork and the new program it bears our name.
        let begun = std::time::Instant::now();
        let mut running = status(child.id()).unwrap();
        while running.name != b"sleep" {
            assert!(begun.elapsed().as_secs() < 20, "{running:?}");
            running = status(child.id()).unwrap();
        }
        assert!(running.started >= this.start_ticks && !running.ended);
        let owner = Owner { pid: child.id(), start_ticks: running.started, ..this };
        assert!(owner.is_alive());
        child.kill().unwrap();
        // Not waited for: a zombie.
        while owner.is_alive() {
            assert!(begun.elapsed().as_secs() < 20);
        }
        child.wait().unwrap();
        assert!(!owner.is_alive());
    }
}
