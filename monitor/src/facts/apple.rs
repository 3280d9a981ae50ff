//! Apple's systems: `sysctl`, and the task's own account of its memory.

use freezeframe_report::process::{system_number, system_text};
use mach2::task::task_info;
use mach2::task_info::{TASK_VM_INFO, task_vm_info};
use mach2::traps::mach_task_self;
use std::ffi::CStr;

/// A Mac's model, `Mac14,2`, has this name; its `hw.machine` is the architecture. Of the others it is the other way
/// round: `hw.model` is the board, `hw.machine` the model, `iPhone15,2`.
const MODEL: &CStr = if cfg!(target_os = "macos") { c"hw.model" } else { c"hw.machine" };

fn text(name: &CStr) -> Vec<u8> {
    system_text(name, &mut [0; 256]).unwrap_or(&[]).to_vec()
}

/// `macOS 15.3.1` and `24D70`.
pub(super) fn os() -> (Vec<u8>, Vec<u8>) {
    let name = match std::env::consts::OS {
        "macos" => "macOS",
        "ios" => "iOS",
        "tvos" => "tvOS",
        "watchos" => "watchOS",
        "visionos" => "visionOS",
        other => other,
    };
    let version = text(c"kern.osproductversion");
    ([name.as_bytes(), &version].join(&b' '), text(c"kern.osversion"))
}

pub(super) fn model() -> Vec<u8> {
    text(MODEL)
}

/// Whether Rosetta translates this program.
pub(super) fn is_translated() -> bool {
    system_number(c"sysctl.proc_translated") == Some(1)
}

pub(super) fn memory_bytes() -> u64 {
    system_number(c"hw.memsize").unwrap_or(0)
}

/// The task's account of its memory. What an earlier system does not know is zero.
pub(crate) fn task_memory() -> Option<task_vm_info> {
    let mut info = task_vm_info::default();
    let mut count = (size_of::<task_vm_info>() / size_of::<i32>()) as u32;
    // SAFETY: our own task, and a structure of as many numbers as `count` says; the system fills in those it knows.
    let result = unsafe { task_info(mach_task_self(), TASK_VM_INFO, (&raw mut info).cast(), &mut count) };
    (result == 0).then_some(info)
}

#[cfg(all(test, target_os = "macos"))]
mod tests {
    use super::*;

    #[test]
    fn the_system_is_named_as_it_names_itself() {
        let said_by = |argument: &str| {
            let output = std::process::Command::new("sw_vers").arg(argument).output().unwrap();
            String::from_utf8(output.stdout).unwrap().trim().to_owned()
        };
        let (name, build) = os();
        assert_eq!(name, format!("macOS {}", said_by("-productVersion")).into_bytes());
        assert_eq!(build, said_by("-buildVersion").into_bytes());
    }

    #[test]
    fn only_intel_code_on_another_processor_is_translated() {
        let native = system_number(c"hw.optional.arm64") == Some(1);
        assert_eq!(is_translated(), native && cfg!(target_arch = "x86_64"));
    }
}
