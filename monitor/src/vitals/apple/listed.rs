//! macOS lists a process's descriptors.

use std::mem::MaybeUninit;

/// How many descriptors are open. As many are listed as a process may have unless it asks for more; of one that has more
/// the number is not known.
pub(super) fn open_descriptors() -> Option<u32> {
    const MOST: usize = 10_240;
    let mut list = [const { MaybeUninit::<libc::proc_fdinfo>::uninit() }; MOST];
    let room = size_of_val(&list) as i32;
    // SAFETY: the kernel writes at most `room` bytes to the list.
    let bytes = unsafe {
        let (pid, out) = (std::process::id() as i32, list.as_mut_ptr().cast());
        libc::proc_pidinfo(pid, libc::PROC_PIDLISTFDS, 0, out, room)
    };
    let open = u32::try_from(bytes).ok()? / size_of::<libc::proc_fdinfo>() as u32;
    (bytes > 0 && bytes < room).then_some(open)
}
