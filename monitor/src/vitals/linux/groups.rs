//! Control groups of version 2: each of those that a process is in, up to the outermost, may limit its memory.

use super::{Kept, PAGE, line, number};
use crate::vitals::{AvailableMemory, MemoryOf};
use std::fs::read_to_string;
use std::path::{Component, Path, PathBuf};

/// A group's files.
pub(super) struct Group {
    limit: Kept,
    used: Kept,
    statistics: Kept,
}

/// More groups in each other than that are not looked at, the outermost.
const DEPTH: usize = 8;

/// The groups of the process with that folder in `/proc`, the innermost first.
pub(super) fn of_process(folder: &Path) -> Vec<Group> {
    let (mounts, own) = (read_to_string("/proc/self/mounts"), read_to_string(folder.join("cgroup")));
    match (mounts, own) {
        (Ok(mounts), Ok(own)) => {
            folders(&mounts, &own).iter().filter_map(|folder| Group::open(folder)).collect()
        }
        _ => Vec::new(),
    }
}

/// The folders of the groups, the innermost first: of what the kernel says is mounted, and which group the process is in.
fn folders(mounts: &str, own: &str) -> Vec<PathBuf> {
    let is_second_version = |line: &&str| line.split(' ').nth(2) == Some("cgroup2");
    let root = mounts.lines().find(is_second_version).and_then(|line| line.split(' ').nth(1));
    let group = own.lines().find_map(|line| line.strip_prefix("0::/"));
    let (Some(root), Some(group)) = (root, group) else { return Vec::new() };
    let mut group = Path::new(group);
    // Outside of what is mounted here.
    if group.components().any(|part| part == Component::ParentDir) {
        group = Path::new("");
    }
    group.ancestors().take(DEPTH).map(|group| Path::new(root).join(group)).collect()
}

impl Group {
    /// None if it has no limit to be set, as the outermost has not.
    fn open(folder: &Path) -> Option<Self> {
        let file = |name| Kept::open(&folder.join(name));
        let group =
            Self { limit: file("memory.max"), used: file("memory.current"), statistics: file("memory.stat") };
        (group.limit.0.is_some() && group.used.0.is_some()).then_some(group)
    }

    /// What its limit leaves; none if none is set.
    pub(super) fn available(&self) -> Option<AvailableMemory> {
        let mut buffer = [0; PAGE];
        let total_bytes = number(self.limit.read(&mut buffer)?)?;
        let used = number(self.used.read(&mut buffer)?)?;
        // Files that were read and not again since: the kernel takes that memory back first.
        let statistics = self.statistics.read(&mut buffer);
        let cached = statistics.and_then(|text| number(line(text, b"inactive_file ")?)).unwrap_or(0);
        let available_bytes = total_bytes.saturating_sub(used.saturating_sub(cached));
        Some(AvailableMemory { of: MemoryOf::Limit, total_bytes, available_bytes })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOUNTS: &str = "proc /proc proc rw 0 0\ncgroup2 /sys/fs/cgroup/unified cgroup2 rw,nosuid 0 0\n";

    #[test]
    fn every_group_around_the_process_is_looked_at() {
        let own = "4:memory:/else\n0::/user.slice/app.scope\n";
        let expected = ["user.slice/app.scope", "user.slice", ""];
        let expected = expected.map(|group| Path::new("/sys/fs/cgroup/unified").join(group));
        assert_eq!(folders(MOUNTS, own), expected);
        assert_eq!(folders(MOUNTS, "0::/\n"), [Path::new("/sys/fs/cgroup/unified/")]);
        assert_eq!(folders(MOUNTS, "0::/../other\n"), [Path::new("/sys/fs/cgroup/unified/")]);
        assert_eq!(folders("proc /proc proc rw 0 0\n", own), Vec::<PathBuf>::new(), "it is not mounted");
        assert_eq!(folders(MOUNTS, "4:memory:/else\n"), Vec::<PathBuf>::new());
    }

    #[test]
    fn a_limit_leaves_what_is_not_used_and_what_can_be_taken_back() {
        let folder = std::env::temp_dir().join(format!("freezeframe-group-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let write = |name: &str, text: &str| std::fs::write(folder.join(name), text).unwrap();
        assert!(Group::open(&folder).is_none());
        write("memory.max", "max\n");
        write("memory.current", "900000\n");
        write("memory.stat", "anon 500000\nfile 400000\ninactive_file 300000\nactive_file 100000\n");
        let group = Group::open(&folder).unwrap();
        assert_eq!(group.available(), None, "none is set");
        write("memory.max", "1000000\n");
        let expected =
            AvailableMemory { of: MemoryOf::Limit, total_bytes: 1_000_000, available_bytes: 400_000 };
        assert_eq!(group.available(), Some(expected), "it was set later");
        write("memory.current", "1400000\n");
        assert_eq!(group.available().unwrap().available_bytes, 0);
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
