//! This program again, as a child.

use std::ffi::OsStr;
use std::io::Read;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// A folder that goes away.
#[derive(Debug)]
pub struct Folder(PathBuf);

impl Folder {
    /// A new one beneath `parent`.
    pub fn new(parent: &Path) -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = parent.join(format!("freezeframe-scenario-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&path).expect("a folder can be made");
        Self(path)
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A child that runs.
#[derive(Debug)]
pub struct Child(std::process::Child);

/// How a child has ended.
#[derive(Debug)]
pub struct Ended {
    /// None: it had to be killed.
    pub status: Option<ExitStatus>,
    /// What it has printed.
    pub output: String,
}

impl Ended {
    /// Whether it has ended by itself and well.
    pub fn is_well(&self) -> bool {
        self.status.is_some_and(|status| status.success())
    }

    /// The signal that has ended it.
    pub fn signal(&self) -> Option<i32> {
        self.status.and_then(|status| status.signal())
    }

    /// The number behind `name=` in its output.
    pub fn count(&self, name: &str) -> u64 {
        let mut words = self.output.split_ascii_whitespace();
        words.find_map(|word| word.strip_prefix(name)?.strip_prefix('=')?.parse().ok()).unwrap_or(0)
    }
}

impl Child {
    /// Starts this program with arguments and variables.
    pub fn start<A: AsRef<OsStr>>(arguments: &[A], variables: &[(&str, &str)]) -> Self {
        let program = std::env::current_exe().expect("this program has a path");
        let mut command = Command::new(program);
        command.args(arguments).envs(variables.iter().copied()).stdin(Stdio::null()).stdout(Stdio::piped());
        Self(command.spawn().expect("this program can be started"))
    }

    /// Its process id.
    pub fn id(&self) -> i32 {
        self.0.id() as i32
    }

    /// Waits for its end; kills it if that does not come.
    pub fn end(mut self, within: Duration) -> Ended {
        let begun = Instant::now();
        let mut status = None;
        while status.is_none() && begun.elapsed() < within {
            std::thread::sleep(Duration::from_millis(2));
            status = self.0.try_wait().expect("it is this process's child");
        }
        if status.is_none() {
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
        let mut output = String::new();
        if let Some(mut pipe) = self.0.stdout.take() {
            let _ = pipe.read_to_string(&mut output);
        }
        Ended { status, output }
    }
}
