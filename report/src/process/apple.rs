//! Apple's systems: `sysctl`.

use super::{Status, kinfo};
use std::ffi::CStr;
use std::io::{Error, ErrorKind};

/// The text of that name in `sysctl`, in `buffer`; none if there is none, or it is longer. Does not allocate.
pub fn system_text<'a>(name: &CStr, buffer: &'a mut [u8]) -> Option<&'a [u8]> {
    let length = read(name, buffer)?;
    let text = buffer.get(..length)?;
    text.split(|byte| *byte == 0).next()
}

/// The number of that name in `sysctl`, of four or eight bytes. Does not allocate.
pub fn system_number(name: &CStr) -> Option<u64> {
    let mut buffer = [0; 8];
    let length = read(name, &mut buffer)?;
    matches!(length, 4 | 8).then(|| u64::from_le_bytes(buffer))
}

fn read(name: &CStr, out: &mut [u8]) -> Option<usize> {
    let mut length = out.len();
    // SAFETY: the name ends with a zero, and `out` has as many bytes as `length` says; nothing is set.
    let result = unsafe {
        let out = out.as_mut_ptr().cast();
        libc::sysctlbyname(name.as_ptr(), out, &mut length, std::ptr::null_mut(), 0)
    };
    (result == 0).then_some(length)
}

/// The boot's identifier; zero where the system does not tell it: a process is told by the microsecond of its start, too.
pub(super) fn boot_id() -> std::io::Result<[u8; 16]> {
    let mut buffer = [0; 64];
    let text = system_text(c"kern.bootsessionuuid", &mut buffer).unwrap_or(&[]);
    Ok(uuid::Uuid::try_parse_ascii(text).map(uuid::Uuid::into_bytes).unwrap_or([0; 16]))
}

pub(super) fn status(pid: u32) -> std::io::Result<Status> {
    let nothing = || Error::new(ErrorKind::NotFound, "the system says nothing of the process");
    kinfo::status(&info(pid)?, pid).ok_or_else(nothing)
}

pub(super) fn is_debugged() -> bool {
    info(std::process::id()).is_ok_and(|info| kinfo::is_traced(&info))
}

fn info(pid: u32) -> std::io::Result<[u8; kinfo::BYTES]> {
    let mut name = [libc::CTL_KERN, libc::KERN_PROC, libc::KERN_PROC_PID, pid as i32];
    let mut info = [0; kinfo::BYTES];
    let mut length = info.len();
    // SAFETY: four numbers, and as many bytes as `length` says; nothing is set.
    let result = unsafe {
        let out = info.as_mut_ptr().cast();
        libc::sysctl(name.as_mut_ptr(), 4, out, &mut length, std::ptr::null_mut(), 0)
    };
    match (result, length) {
        (0, kinfo::BYTES) => Ok(info),
        (0, _) => Err(Error::new(ErrorKind::NotFound, "there is no such process")),
        _ => Err(Error::last_os_error()),
    }
}

#[cfg(all(test, target_os = "macos"))]
mod tests {
    use super::*;

    fn said_by(program: &str, arguments: &[&str]) -> String {
        let output = std::process::Command::new(program).args(arguments).output().unwrap();
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    }

    #[test]
    fn values_are_those_that_the_command_prints() {
        let mut buffer = [0; 64];
        let version = system_text(c"kern.osproductversion", &mut buffer).unwrap();
        assert_eq!(version, said_by("sw_vers", &["-productVersion"]).as_bytes());
        let memory = system_number(c"hw.memsize").unwrap();
        assert_eq!(memory.to_string(), said_by("sysctl", &["-n", "hw.memsize"]));
        let boot = uuid::Uuid::from_bytes(boot_id().unwrap());
        let told = said_by("sysctl", &["-n", "kern.bootsessionuuid"]);
        assert_eq!(boot.to_string(), told.to_lowercase());
    }

    #[test]
    fn what_there_is_not_or_does_not_fit_is_none() {
        assert_eq!(system_text(c"kern.osproductversion", &mut [0; 1]), None);
        assert_eq!(system_number(c"freezeframe.nothing"), None);
        assert!(status(u32::MAX >> 1).is_err());
    }

    #[test]
    fn this_process_bears_its_name_and_no_debugger_is_attached() {
        let name = std::env::current_exe().unwrap();
        let name = name.file_name().unwrap().to_str().unwrap().as_bytes();
        let status = status(std::process::id()).unwrap();
        assert_eq!(status.name, &name[..name.len().min(16)]);
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
        let age = now.as_micros() as u64 - status.started;
        assert!(age < 3_600_000_000, "it began within the last hour: {age} µs ago");
        assert!(!is_debugged());
    }
}
