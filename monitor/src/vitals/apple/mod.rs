//! Apple's systems: what Mach says of the task and of its host, `sysctl`, and the table of descriptors.

#[cfg(target_os = "macos")]
mod listed;
#[cfg(not(target_os = "macos"))]
mod tried;

#[cfg(target_os = "macos")]
use listed as descriptors;
#[cfg(not(target_os = "macos"))]
use tried as descriptors;

use super::{AvailableMemory, MemoryOf, MemoryPressure, OpenFiles, PressureLevel, ProcessMemory, open_files};
use crate::facts::task_memory;
use crate::subject::Subject;
use freezeframe_report::process::system_number;
use mach2::mach_init::mach_host_self;
use mach2::traps::mach_task_self;

/// What is read.
pub(crate) struct Sources {
    /// A right to the host's port, which is given back at the end.
    host: u32,
}

impl Sources {
    pub(crate) fn open(_: Subject) -> Self {
        // SAFETY: no arguments.
        Self { host: unsafe { mach_host_self() } }
    }

    pub(crate) fn process_memory(&self) -> Option<ProcessMemory> {
        let memory = task_memory()?;
        Some(ProcessMemory { footprint_bytes: memory.phys_footprint, resident_bytes: memory.resident_size })
    }

    /// The machine's, less what its programs, the kernel and the compressor hold, as its Activity Monitor counts; or what the
    /// system's limit leaves to this process.
    pub(crate) fn available_memory(&self) -> Option<AvailableMemory> {
        let total_bytes = system_number(c"hw.memsize")?;
        let pages = self.statistics()?;
        let used = u64::from(pages.internal_page_count)
            .saturating_sub(pages.purgeable_count.into())
            .saturating_add(pages.wire_count.into())
            .saturating_add(pages.compressor_page_count.into());
        let used_bytes = used.saturating_mul(rustix::param::page_size() as u64);
        let available_bytes = total_bytes.saturating_sub(used_bytes);
        let machine = AvailableMemory { of: MemoryOf::Machine, total_bytes, available_bytes };
        let limit = task_memory().and_then(|memory| {
            // Zero where there is none.
            let left = Some(memory.limit_bytes_remaining).filter(|left| *left > 0)?;
            let total_bytes = memory.phys_footprint.saturating_add(left);
            Some(AvailableMemory { of: MemoryOf::Limit, total_bytes, available_bytes: left })
        });
        limit.into_iter().chain([machine]).min_by_key(|memory| memory.available_bytes)
    }

    fn statistics(&self) -> Option<libc::vm_statistics64> {
        let mut statistics = std::mem::MaybeUninit::<libc::vm_statistics64>::zeroed();
        let mut count = libc::HOST_VM_INFO64_COUNT;
        // SAFETY: the kernel writes at most `count` words of four bytes to it.
        let result = unsafe {
            let out = statistics.as_mut_ptr().cast();
            libc::host_statistics64(self.host, libc::HOST_VM_INFO64, out, &mut count)
        };
        // SAFETY: zeroed at first, and integers only.
        (result == 0).then(|| unsafe { statistics.assume_init() })
    }

    pub(crate) fn memory_pressure(&self) -> Option<MemoryPressure> {
        let level = level(system_number(c"kern.memorystatus_vm_pressure_level")?)?;
        Some(MemoryPressure { level: Some(level), ..MemoryPressure::default() })
    }

    pub(crate) fn open_files(&self) -> Option<OpenFiles> {
        descriptors::open_descriptors().map(open_files)
    }
}

impl Drop for Sources {
    fn drop(&mut self) {
        // SAFETY: gives back the right that was got at the start, once. There is nothing to do if that fails.
        let _ = unsafe { mach2::mach_port::mach_port_deallocate(mach_task_self(), self.host) };
    }
}

/// `DISPATCH_MEMORYPRESSURE_NORMAL`, `_WARN`, `_CRITICAL`.
const fn level(number: u64) -> Option<PressureLevel> {
    match number {
        1 => Some(PressureLevel::Normal),
        2 => Some(PressureLevel::Warning),
        4 => Some(PressureLevel::Critical),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_system_tells_of_this_process_and_this_machine() {
        let sources = Sources::open(Subject::Own);
        let memory = sources.process_memory().unwrap();
        assert!(memory.footprint_bytes > 100 << 10 && memory.resident_bytes > 100 << 10, "{memory:?}");
        let available = sources.available_memory().unwrap();
        assert!(available.available_bytes > 0 && available.used_bytes() > 0, "{available:?}");
        let files = sources.open_files().unwrap();
        assert!((3..10_000).contains(&files.open), "{files:?}");
    }

    #[test]
    fn levels_have_the_numbers_of_the_system() {
        assert_eq!([0, 1, 2, 3, 4].map(level), {
            use PressureLevel::*;
            [None, Some(Normal), Some(Warning), None, Some(Critical)]
        });
    }
}
