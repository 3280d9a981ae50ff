//! What a report says of the process and the machine: what stays the same is asked once, when the monitor starts; what
//! changes, at each freeze.

#[cfg(target_vendor = "apple")]
mod apple;
#[cfg(any(target_os = "linux", target_os = "android"))]
mod linux;

#[cfg(target_vendor = "apple")]
use apple as platform;
#[cfg(target_vendor = "apple")]
pub(crate) use apple::task_memory;
#[cfg(any(target_os = "linux", target_os = "android"))]
use linux as platform;

use crate::clock;
use crate::subject::{self, Subject};
use freezeframe_report::encode::{AppState, Process, System};
use freezeframe_report::process;
use freezeframe_report::ring::Owner;
use std::os::unix::ffi::OsStringExt;

/// What stays the same. See [`Process`] and [`System`].
#[derive(Debug)]
pub(crate) struct Facts {
    subject: Subject,
    /// The process that reports are about.
    pub(crate) owner: Owner,
    parent: u32,
    parent_name: Vec<u8>,
    name: Vec<u8>,
    path: Vec<u8>,
    translated: bool,
    os: Vec<u8>,
    build: Vec<u8>,
    kernel: Vec<u8>,
    model: Vec<u8>,
    cores: u32,
    memory_bytes: u64,
}

impl Facts {
    /// Reads them from the system. What cannot be read is empty or zero.
    ///
    /// # Errors
    /// The system does not say when the process began: on Linux, `/proc` is not mounted; or it has ended.
    pub(crate) fn read(subject: Subject) -> std::io::Result<Self> {
        let parent = subject::parent(subject);
        let path = path_of(subject);
        let (os, build) = platform::os();
        Ok(Self {
            subject,
            owner: Owner::of(subject::pid(subject))?,
            parent,
            parent_name: process::status(parent).map(|status| status.name).unwrap_or_default(),
            name: name_in(&path).to_vec(),
            path,
            translated: platform::is_translated(),
            os,
            build,
            kernel: rustix::system::uname().release().to_bytes().to_vec(),
            model: platform::model(),
            cores: std::thread::available_parallelism().map_or(0, |cores| cores.get() as u32),
            memory_bytes: platform::memory_bytes(),
        })
    }

    /// Another process may have begun another program meanwhile. This one's memory stays as it is.
    pub(crate) fn look_again(&mut self) {
        if self.subject != Subject::Own {
            self.path = path_of(self.subject);
            self.name = name_in(&self.path).to_vec();
        }
    }

    pub(crate) fn process<'a>(
        &'a self,
        app: &'a str,
        version: &'a str,
        app_state: AppState,
        moment: &Moment,
    ) -> Process<'a> {
        moment.of(Process {
            pid: self.owner.pid,
            parent: self.parent,
            parent_name: &self.parent_name,
            start_ticks: self.owner.start_ticks,
            name: &self.name,
            path: &self.path,
            app: if app.is_empty() { std::str::from_utf8(&self.name).unwrap_or("") } else { app },
            version,
            debugged: false,
            app_state,
            translated: self.translated,
            cpu_ns: 0,
            footprint_bytes: 0,
        })
    }

    pub(crate) fn system(&self) -> System<'_> {
        System {
            os: &self.os,
            build: &self.build,
            kernel: &self.kernel,
            model: &self.model,
            cores: self.cores,
            page_bytes: rustix::param::page_size() as u32,
            memory_bytes: self.memory_bytes,
        }
    }
}

fn path_of(subject: Subject) -> Vec<u8> {
    subject::executable(subject).map(|path| path.into_os_string().into_vec()).unwrap_or_default()
}

fn name_in(path: &[u8]) -> &[u8] {
    path.rsplit(|byte| *byte == b'/').next().unwrap_or(&[])
}

/// What changes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moment {
    debugged: bool,
    cpu_ns: u64,
    footprint_bytes: u64,
    /// How much longer the machine runs than `clock::now` says: it slept meanwhile.
    slept_ns: u64,
}

impl Moment {
    /// Reads them. Without a lock or an allocation, which a frozen thread may be in the middle of, if it is this process.
    pub(crate) fn read(subject: Subject) -> Self {
        let cpu_ns = subject::cpu_ns(subject);
        // In this order: the difference is not negative then, and at most by the time between too large.
        let awake_ns = clock::now();
        Self {
            debugged: subject::is_traced(subject),
            cpu_ns,
            footprint_bytes: subject::footprint_bytes(subject),
            slept_ns: clock::continuous().saturating_sub(awake_ns),
        }
    }

    /// The same process with what has changed.
    pub(crate) fn of<'a>(&self, process: Process<'a>) -> Process<'a> {
        let Self { debugged, cpu_ns, footprint_bytes, .. } = *self;
        Process { debugged, cpu_ns, footprint_bytes, ..process }
    }

    /// What the clock that goes on while the system sleeps has shown at a time of the other clock.
    pub(crate) fn continuous(&self, time_ns: u64) -> u64 {
        time_ns.saturating_add(self.slept_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_facts_are_those_of_this_process_and_this_machine() {
        let facts = Facts::read(Subject::Own).unwrap();
        let path = std::env::current_exe().unwrap();
        assert_eq!(facts.path, path.to_str().unwrap().as_bytes());
        assert_eq!(facts.name, path.file_name().unwrap().to_str().unwrap().as_bytes());
        assert_eq!(
            (facts.owner.pid, facts.parent),
            (std::process::id(), std::os::unix::process::parent_id())
        );
        assert!(!facts.parent_name.is_empty() && !facts.os.is_empty() && !facts.model.is_empty());
        assert!(facts.kernel.first().is_some_and(u8::is_ascii_digit), "{:?}", facts.kernel);
        assert!(facts.cores > 0 && facts.memory_bytes > 64 << 20, "{facts:?}");
    }

    #[test]
    fn cpu_time_and_footprint_grow_with_what_a_program_does() {
        let before = Moment::read(Subject::Own);
        const ROOM: usize = 64 << 20;
        let mut memory = vec![0u8; ROOM];
        let thread = std::thread::spawn(move || {
            let begun = clock::now();
            let mut round = 0u8;
            // On a loaded machine half of it is somebody else's.
            while clock::now() - begun < 200_000_000 {
                memory.fill(round);
                round = round.wrapping_add(1);
            }
            (memory, Moment::read(Subject::Own))
        });
        let (memory, after) = thread.join().unwrap();
        drop(std::hint::black_box(memory));
        assert!(after.cpu_ns >= before.cpu_ns + 10_000_000, "{before:?} {after:?}");
        // Other tests give memory back meanwhile, but not that much.
        let grown = after.footprint_bytes.saturating_sub(before.footprint_bytes);
        assert!(grown > ROOM as u64 / 2 && grown < 8 << 30, "{before:?} {after:?}");
    }

    #[test]
    fn the_clock_that_goes_on_in_sleep_is_never_behind_the_other() {
        let (now, moment) = (clock::now(), Moment::read(Subject::Own));
        let continuous = moment.continuous(now);
        assert!(continuous >= now && continuous <= clock::continuous(), "{now} {continuous}");
    }
}
