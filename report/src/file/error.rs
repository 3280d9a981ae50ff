//! Why a file cannot be written or read.

use std::fmt;
use std::path::{Path, PathBuf};

/// Why a report file cannot be used. Each names the file and says what to do.
#[derive(Debug)]
#[non_exhaustive]
pub enum FileError {
    /// The system refused something.
    System {
        /// The file.
        path: PathBuf,
        /// What was tried: "open", "create" and so on.
        action: &'static str,
        /// The system's word.
        error: std::io::Error,
    },
    /// The path is a symbolic link, which a report file must not be.
    SymbolicLink(PathBuf),
    /// The path is a directory, a pipe or another thing that is no file.
    NotAFile(PathBuf),
    /// The file holds something else.
    NotAReport(PathBuf),
    /// The file was written by a newer version.
    NewerVersion {
        /// The file.
        path: PathBuf,
        /// Its major version.
        major: u16,
    },
    /// Both copies of the superblock are damaged, or the file is shorter than they say.
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        what: &'static str,
    },
    /// Another process, or another monitor of this one, writes to the file.
    InUse(PathBuf),
    /// The file belongs to another user.
    NotOurs(PathBuf),
    /// The file system has no room for the file.
    NoSpace {
        /// The file.
        path: PathBuf,
        /// How large it would be.
        bytes: u64,
    },
    /// The size that was asked for makes no sense.
    Size(String),
}

impl FileError {
    pub(crate) fn system(path: &Path, action: &'static str) -> impl Fn(rustix::io::Errno) -> Self {
        move |error| {
            let path = path.to_owned();
            match error {
                // What O_NOFOLLOW answers to a link.
                rustix::io::Errno::LOOP => Self::SymbolicLink(path),
                error => Self::System { path, action, error: error.into() },
            }
        }
    }
}

impl fmt::Display for FileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::System { path, action, error } => write!(f, "cannot {action} {}: {error}", path.display()),
            Self::SymbolicLink(path) => {
                write!(
                    f,
                    "{} is a symbolic link, which a report file must not be: give the file itself",
                    path.display()
                )
            }
            Self::NotAFile(path) => write!(f, "{} is not a regular file", path.display()),
            Self::NotAReport(path) => write!(f, "{} is not a freezeframe report file", path.display()),
            Self::NewerVersion { path, major } => write!(
                f,
                "{} has format version {major}, this program knows {}: use a newer freezeframe",
                path.display(),
                crate::layout::MAJOR
            ),
            Self::Damaged { path, what } => write!(f, "{} is damaged: {what}", path.display()),
            Self::InUse(path) => {
                write!(f, "{} is being written by another monitor: give each its own file", path.display())
            }
            Self::NotOurs(path) => {
                write!(
                    f,
                    "{} belongs to another user or has several names: give another path",
                    path.display()
                )
            }
            Self::NoSpace { path, bytes } => {
                write!(f, "no space for {}: the file needs {bytes} bytes", path.display())
            }
            Self::Size(what) => write!(f, "unusable size of a report file: {what}"),
        }
    }
}

impl std::error::Error for FileError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::System { error, .. } => Some(error),
            _ => None,
        }
    }
}
