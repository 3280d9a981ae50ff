//! What a report says of the process and the machine: asked once, when the monitor starts.

use freezeframe_report::encode::{Process, System};
use freezeframe_report::ring::Owner;
use std::fs;
use std::os::unix::ffi::OsStringExt;

/// See [`Process`] and [`System`].
#[derive(Debug)]
pub(crate) struct Facts {
    pub(crate) owner: Owner,
    parent: u32,
    parent_name: Vec<u8>,
    name: Vec<u8>,
    path: Vec<u8>,
    debugged: bool,
    os: Vec<u8>,
    kernel: Vec<u8>,
    model: Vec<u8>,
    cores: u32,
}

impl Facts {
    /// Reads them from the system. What cannot be read is empty.
    ///
    /// # Errors
    /// `/proc` is not mounted.
    pub(crate) fn read() -> std::io::Result<Self> {
        let parent = rustix::process::getppid().map_or(0, |pid| pid.as_raw_nonzero().get() as u32);
        let path =
            fs::read_link("/proc/self/exe").map(|path| path.into_os_string().into_vec()).unwrap_or_default();
        let name = path.rsplit(|byte| *byte == b'/').next().unwrap_or(&[]).to_vec();
        let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
        let tracer = status.lines().find_map(|line| line.strip_prefix("TracerPid:")).unwrap_or("0");
        let cores = std::thread::available_parallelism().map_or(0, |cores| cores.get() as u32);
        Ok(Self {
            owner: Owner::this_process()?,
            parent,
            parent_name: first_line(&format!("/proc/{parent}/comm")),
            name,
            path,
            debugged: tracer.trim() != "0",
            os: os_name(),
            kernel: rustix::system::uname().release().to_bytes().to_vec(),
            model: model(),
            cores,
        })
    }

    pub(crate) fn process<'a>(&'a self, app: &'a str, version: &'a str) -> Process<'a> {
        Process {
            pid: self.owner.pid,
            parent: self.parent,
            parent_name: &self.parent_name,
            start_ticks: self.owner.start_ticks,
            name: &self.name,
            path: &self.path,
            app: if app.is_empty() { std::str::from_utf8(&self.name).unwrap_or("") } else { app },
            version,
            debugged: self.debugged,
        }
    }

    pub(crate) fn system(&self) -> System<'_> {
        System {
            os: &self.os,
            kernel: &self.kernel,
            model: &self.model,
            cores: self.cores,
            page_bytes: rustix::param::page_size() as u32,
        }
    }
}

fn first_line(path: &str) -> Vec<u8> {
    let text = fs::read(path).unwrap_or_default();
    text.split(|byte| *byte == b'\n').next().unwrap_or(&[]).to_vec()
}

/// `PRETTY_NAME` of os-release(5).
fn os_name() -> Vec<u8> {
    let text = fs::read_to_string("/etc/os-release").or_else(|_| fs::read_to_string("/usr/lib/os-release"));
    let text = text.unwrap_or_default();
    let name = text.lines().find_map(|line| line.strip_prefix("PRETTY_NAME=")).unwrap_or("Linux");
    name.trim_matches('"').as_bytes().to_vec()
}

/// What the firmware (x86) or the device tree (arm64) calls the machine.
fn model() -> Vec<u8> {
    let sources = ["/sys/class/dmi/id/product_name", "/proc/device-tree/model"];
    let found = sources.into_iter().map(first_line).find(|name| !name.is_empty());
    let mut name = found.unwrap_or_else(|| b"unknown".to_vec());
    name.retain(|byte| *byte != 0);
    name
}
