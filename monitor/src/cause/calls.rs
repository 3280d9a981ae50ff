//! System calls that wait, and for what. By Linux's numbers; Apple's systems do not tell which call a thread is in.

use freezeframe_arch::Architecture;

/// What a system call waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wait {
    /// For a set time.
    Sleep,
    /// For another thread to change a word.
    Futex,
    /// For a child process.
    Child,
    /// For what its first argument, a descriptor, is open for.
    Descriptor,
    /// For a file system or a device.
    Io,
    /// For another process or machine.
    Peer,
    /// For whatever comes.
    Events,
    /// For a lock on a file, which its first argument is.
    FileLock,
    /// For the child that it begins, if it does so in the way of `vfork`.
    Spawn,
}

/// A system call: its numbers on x86_64 and arm64 (`NONE`: it has none there), its name, and what it waits for.
type Call = (u32, u32, &'static str, Wait);

const NONE: u32 = u32::MAX;

const CALLS: &[Call] = &[
    (0, 63, "read", Wait::Descriptor),
    (1, 64, "write", Wait::Descriptor),
    (17, 67, "pread64", Wait::Io),
    (18, 68, "pwrite64", Wait::Io),
    (19, 65, "readv", Wait::Descriptor),
    (20, 66, "writev", Wait::Descriptor),
    (295, 69, "preadv", Wait::Io),
    (296, 70, "pwritev", Wait::Io),
    (40, 71, "sendfile", Wait::Io),
    (275, 76, "splice", Wait::Io),
    (16, 29, "ioctl", Wait::Io),
    (72, 25, "fcntl", Wait::Io),
    (73, 32, "flock", Wait::FileLock),
    (74, 82, "fsync", Wait::Io),
    (75, 83, "fdatasync", Wait::Io),
    (26, 227, "msync", Wait::Io),
    (162, 81, "sync", Wait::Io),
    (306, 267, "syncfs", Wait::Io),
    (277, 84, "sync_file_range", Wait::Io),
    (2, NONE, "open", Wait::Io),
    (257, 56, "openat", Wait::Io),
    (3, 57, "close", Wait::Io),
    (4, NONE, "stat", Wait::Io),
    (5, 80, "fstat", Wait::Io),
    (6, NONE, "lstat", Wait::Io),
    (262, 79, "newfstatat", Wait::Io),
    (332, 291, "statx", Wait::Io),
    (217, 61, "getdents64", Wait::Io),
    (87, NONE, "unlink", Wait::Io),
    (263, 35, "unlinkat", Wait::Io),
    (82, NONE, "rename", Wait::Io),
    (264, 38, "renameat", Wait::Io),
    (316, 276, "renameat2", Wait::Io),
    (85, NONE, "creat", Wait::Io),
    (437, 437, "openat2", Wait::Io),
    (76, 45, "truncate", Wait::Io),
    (77, 46, "ftruncate", Wait::Io),
    (285, 47, "fallocate", Wait::Io),
    (326, 285, "copy_file_range", Wait::Io),
    (327, 286, "preadv2", Wait::Io),
    (328, 287, "pwritev2", Wait::Io),
    (187, 213, "readahead", Wait::Io),
    (78, NONE, "getdents", Wait::Io),
    (21, NONE, "access", Wait::Io),
    (269, 48, "faccessat", Wait::Io),
    (439, 439, "faccessat2", Wait::Io),
    (80, 49, "chdir", Wait::Io),
    (83, NONE, "mkdir", Wait::Io),
    (258, 34, "mkdirat", Wait::Io),
    (84, NONE, "rmdir", Wait::Io),
    (86, NONE, "link", Wait::Io),
    (265, 37, "linkat", Wait::Io),
    (88, NONE, "symlink", Wait::Io),
    (266, 36, "symlinkat", Wait::Io),
    (89, NONE, "readlink", Wait::Io),
    (267, 78, "readlinkat", Wait::Io),
    (137, 43, "statfs", Wait::Io),
    (138, 44, "fstatfs", Wait::Io),
    (165, 40, "mount", Wait::Io),
    (166, 39, "umount2", Wait::Io),
    (208, 4, "io_getevents", Wait::Io),
    (333, 292, "io_pgetevents", Wait::Io),
    (35, 101, "nanosleep", Wait::Sleep),
    (230, 115, "clock_nanosleep", Wait::Sleep),
    (202, 98, "futex", Wait::Futex),
    (61, 260, "wait4", Wait::Child),
    (247, 95, "waitid", Wait::Child),
    (58, NONE, "vfork", Wait::Child),
    (56, 220, "clone", Wait::Spawn),
    (435, 435, "clone3", Wait::Spawn),
    (42, 203, "connect", Wait::Peer),
    (43, 202, "accept", Wait::Peer),
    (288, 242, "accept4", Wait::Peer),
    (44, 206, "sendto", Wait::Peer),
    (45, 207, "recvfrom", Wait::Peer),
    (46, 211, "sendmsg", Wait::Peer),
    (47, 212, "recvmsg", Wait::Peer),
    (299, 243, "recvmmsg", Wait::Peer),
    (307, 269, "sendmmsg", Wait::Peer),
    (65, 193, "semop", Wait::Peer),
    (220, 192, "semtimedop", Wait::Peer),
    (70, 188, "msgrcv", Wait::Peer),
    (69, 189, "msgsnd", Wait::Peer),
    (242, 182, "mq_timedsend", Wait::Peer),
    (243, 183, "mq_timedreceive", Wait::Peer),
    (449, 449, "futex_waitv", Wait::Peer),
    (34, NONE, "pause", Wait::Peer),
    (128, 137, "rt_sigtimedwait", Wait::Peer),
    (130, 133, "rt_sigsuspend", Wait::Peer),
    (7, NONE, "poll", Wait::Events),
    (271, 73, "ppoll", Wait::Events),
    (23, NONE, "select", Wait::Events),
    (270, 72, "pselect6", Wait::Events),
    (232, NONE, "epoll_wait", Wait::Events),
    (281, 22, "epoll_pwait", Wait::Events),
    (441, 441, "epoll_pwait2", Wait::Events),
    (426, 426, "io_uring_enter", Wait::Events),
];

/// The name of a system call, and what it waits for; none if it is not in the table.
pub(crate) fn find(architecture: Architecture, number: u32) -> Option<(&'static str, Wait)> {
    let number_of = |call: &&Call| match architecture {
        Architecture::X86_64 => call.0,
        Architecture::Arm64 => call.1,
    };
    CALLS.iter().find(|call| number_of(call) == number && number != NONE).map(|call| (call.2, call.3))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_number_is_given_twice() {
        let mut x86: Vec<u32> = CALLS.iter().map(|call| call.0).filter(|number| *number != NONE).collect();
        let mut arm: Vec<u32> = CALLS.iter().map(|call| call.1).filter(|number| *number != NONE).collect();
        for numbers in [&mut x86, &mut arm] {
            let before = numbers.len();
            numbers.sort_unstable();
            numbers.dedup();
            assert_eq!(numbers.len(), before);
        }
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn the_numbers_are_those_of_this_systems_headers() {
        let of = |number: libc::c_long| find(Architecture::NATIVE, number as u32).map(|found| found.0);
        for (number, name) in [
            (libc::SYS_read, "read"),
            (libc::SYS_futex, "futex"),
            (libc::SYS_clock_nanosleep, "clock_nanosleep"),
            (libc::SYS_nanosleep, "nanosleep"),
            (libc::SYS_wait4, "wait4"),
            (libc::SYS_waitid, "waitid"),
            (libc::SYS_recvfrom, "recvfrom"),
            (libc::SYS_recvmsg, "recvmsg"),
            (libc::SYS_connect, "connect"),
            (libc::SYS_accept4, "accept4"),
            (libc::SYS_fsync, "fsync"),
            (libc::SYS_fdatasync, "fdatasync"),
            (libc::SYS_openat, "openat"),
            (libc::SYS_ppoll, "ppoll"),
            (libc::SYS_pselect6, "pselect6"),
            (libc::SYS_epoll_pwait, "epoll_pwait"),
            (libc::SYS_flock, "flock"),
            (libc::SYS_getdents64, "getdents64"),
            (libc::SYS_msgrcv, "msgrcv"),
            (libc::SYS_semtimedop, "semtimedop"),
            (libc::SYS_rt_sigtimedwait, "rt_sigtimedwait"),
            (libc::SYS_statx, "statx"),
            (libc::SYS_renameat2, "renameat2"),
            (libc::SYS_msync, "msync"),
            (libc::SYS_sendfile, "sendfile"),
            (libc::SYS_splice, "splice"),
            (libc::SYS_mq_timedreceive, "mq_timedreceive"),
            (libc::SYS_ioctl, "ioctl"),
            (libc::SYS_openat2, "openat2"),
            (libc::SYS_truncate, "truncate"),
            (libc::SYS_ftruncate, "ftruncate"),
            (libc::SYS_fallocate, "fallocate"),
            (libc::SYS_copy_file_range, "copy_file_range"),
            (libc::SYS_preadv2, "preadv2"),
            (libc::SYS_pwritev2, "pwritev2"),
            (libc::SYS_readahead, "readahead"),
            (libc::SYS_faccessat, "faccessat"),
            (libc::SYS_faccessat2, "faccessat2"),
            (libc::SYS_chdir, "chdir"),
            (libc::SYS_mkdirat, "mkdirat"),
            (libc::SYS_linkat, "linkat"),
            (libc::SYS_symlinkat, "symlinkat"),
            (libc::SYS_readlinkat, "readlinkat"),
            (libc::SYS_statfs, "statfs"),
            (libc::SYS_fstatfs, "fstatfs"),
            (libc::SYS_mount, "mount"),
            (libc::SYS_umount2, "umount2"),
            (libc::SYS_io_getevents, "io_getevents"),
            (libc::SYS_clone, "clone"),
            (libc::SYS_clone3, "clone3"),
        ] {
            assert_eq!(of(number), Some(name));
        }
        assert_eq!(find(Architecture::NATIVE, u32::MAX), None);
    }
}
