//! Linux: `/proc`, `/sys`, os-release(5).

use std::fs;

/// `PRETTY_NAME` and `BUILD_ID`; the latter only of systems that are not made of versions.
pub(super) fn os() -> (Vec<u8>, Vec<u8>) {
    let text = fs::read_to_string("/etc/os-release").or_else(|_| fs::read_to_string("/usr/lib/os-release"));
    let text = text.unwrap_or_default();
    let field = |name: &str| {
        let mut values = text.lines().filter_map(|line| line.strip_prefix(name)?.strip_prefix('='));
        values.next().map(|value| value.trim_matches('"').as_bytes().to_vec())
    };
    (field("PRETTY_NAME").unwrap_or_else(|| b"Linux".to_vec()), field("BUILD_ID").unwrap_or_default())
}

/// What the firmware (x86) or the device tree (arm64) calls the machine.
pub(super) fn model() -> Vec<u8> {
    let sources = ["/sys/class/dmi/id/product_name", "/proc/device-tree/model"];
    let found = sources.into_iter().map(first_line).find(|name| !name.is_empty());
    let mut name = found.unwrap_or_else(|| b"unknown".to_vec());
    name.retain(|byte| *byte != 0);
    name
}

fn first_line(path: &str) -> Vec<u8> {
    let text = fs::read(path).unwrap_or_default();
    text.split(|byte| *byte == b'\n').next().unwrap_or(&[]).to_vec()
}

/// A translator does not show itself here.
pub(super) fn is_translated() -> bool {
    false
}

pub(super) fn memory_bytes() -> u64 {
    let system = rustix::system::sysinfo();
    (system.totalram as u64).saturating_mul(system.mem_unit.into())
}
