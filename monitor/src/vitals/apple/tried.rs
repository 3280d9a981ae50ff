//! Where descriptors are not listed, as in iOS's SDK: each number is tried.

/// How many descriptors are open, below the limit for new ones; at most so many are tried as a process may have unless it
/// asks for more.
pub(super) fn open_descriptors() -> Option<u32> {
    const MOST: u64 = 10_240;
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
    let numbers = 0..limit.unwrap_or(MOST).min(MOST) as i32;
    // SAFETY: asks for a descriptor's flags and changes nothing; one that is not open gives an error.
    let is_open = |number: &i32| unsafe { libc::fcntl(*number, libc::F_GETFD) } >= 0;
    Some(numbers.filter(is_open).count() as u32)
}
