//! Processes by their folders in `/proc`.

use crate::sys::Path;

/// A process, as the calling one knows it: by its id in the calling process's pid namespace.
///
/// Looking at another one needs what the kernel asks of a tracer: the same user or `CAP_SYS_PTRACE`, and Yama's consent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum ProcessId {
    /// The calling process.
    #[default]
    Own,
    /// Another one.
    Other(i32),
    /// One that the calling process has made: its end is the caller's to wait for, and is not taken away.
    Child(i32),
}

impl ProcessId {
    /// Its number; none for the calling process.
    ///
    /// # Signal safety
    /// Safe.
    pub const fn number(self) -> Option<i32> {
        match self {
            Self::Own => None,
            Self::Other(number) | Self::Child(number) => Some(number),
        }
    }

    /// The path of its folder in `/proc`, with what follows the folder.
    pub(crate) fn path(self, rest: &[u8]) -> Path {
        let mut path = Path::new();
        match self.number() {
            None => path.push(b"/proc/self"),
            Some(number) => {
                path.push(b"/proc/");
                path.push_decimal(number.max(0) as u32);
            }
        }
        path.push(rest);
        path
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_process_has_its_folder() {
        assert_eq!(ProcessId::Own.path(b"/maps").terminated(), c"/proc/self/maps");
        assert_eq!(ProcessId::Other(4711).path(b"/maps").terminated(), c"/proc/4711/maps");
        assert_eq!(ProcessId::Child(-1).path(b"/task").terminated(), c"/proc/0/task");
        assert_eq!((ProcessId::Own.number(), ProcessId::Child(5).number()), (None, Some(5)));
    }
}
