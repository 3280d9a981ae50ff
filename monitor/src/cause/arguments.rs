//! What a system call's arguments say beside its name. By Linux's calls; see their pages in section 2 of its manual.

use super::calls::Wait;
use freezeframe_unwind::memory::Memory;
use freezeframe_unwind::threads::SystemCall;

/// What the call of that name waits for, which `wait` is the table's word for; none if it only waits in ways that its arguments
/// rule out. `is_empty` says whether an epoll's descriptor of that number watches no other one.
pub(crate) fn refine(
    call: &SystemCall,
    (name, wait): (&'static str, Wait),
    memory: &mut impl Memory,
    is_empty: impl Fn(u64) -> bool,
) -> Option<Wait> {
    match wait {
        Wait::Events if watches_nothing(call, name, memory, is_empty) => {
            // Then it is for the time that it waits, and without an end for a signal.
            Some(if ends_by_itself(call, name) { Wait::Sleep } else { Wait::Peer })
        }
        Wait::Spawn => is_spawn(call, name, memory).then_some(Wait::Child),
        Wait::Io if name == "fcntl" && is_lock_command(call) => Some(Wait::FileLock),
        wait => Some(wait),
    }
}

/// Whether its caller goes on only when the child has begun a program, or has ended.
fn is_spawn(call: &SystemCall, name: &str, memory: &mut impl Memory) -> bool {
    const CLONE_VFORK: u64 = 0x4000;
    let [first, ..] = call.arguments;
    let flags = if name == "clone3" { memory.read_u64(first).unwrap_or(0) } else { first };
    flags & CLONE_VFORK != 0
}

/// `F_SETLKW` and `F_OFD_SETLKW`.
fn is_lock_command(call: &SystemCall) -> bool {
    matches!(call.arguments[1], 7 | 38)
}

fn ends_by_itself(call: &SystemCall, name: &str) -> bool {
    let [_, _, third, fourth, fifth, _] = call.arguments;
    let is_limit = |ms: u64| ms as i32 >= 0;
    match name {
        "poll" => is_limit(third),
        "epoll_wait" | "epoll_pwait" => is_limit(fourth),
        // A null pointer: without an end.
        "ppoll" => third != 0,
        "epoll_pwait2" => fourth != 0,
        "select" | "pselect6" => fifth != 0,
        _ => false,
    }
}

/// A wait for events that are nobody's. If what is watched cannot be read, it is something.
fn watches_nothing(
    call: &SystemCall,
    name: &str,
    memory: &mut impl Memory,
    is_empty: impl Fn(u64) -> bool,
) -> bool {
    let [first, second, third, fourth, ..] = call.arguments;
    match name {
        "poll" | "ppoll" => polls_nothing(memory, first, second),
        "select" | "pselect6" => [second, third, fourth].iter().all(|set| is_empty_set(memory, *set, first)),
        "epoll_wait" | "epoll_pwait" | "epoll_pwait2" => is_empty(first),
        _ => false,
    }
}

/// How many entries of a poll are looked at. Who polls more polls something.
const MOST_POLLED: usize = 64;
/// Bytes of one: the descriptor, what is asked for, and what is answered.
const POLLED: usize = 8;

/// Negative descriptors are passed over.
fn polls_nothing(memory: &mut impl Memory, entries: u64, count: u64) -> bool {
    let Some(length) = usize::try_from(count).ok().filter(|count| *count <= MOST_POLLED) else {
        return false;
    };
    let mut bytes = [0; MOST_POLLED * POLLED];
    let Some(bytes) = bytes.get_mut(..length * POLLED) else { return false };
    let is_ignored = |entry: &[u8]| entry.get(3).is_some_and(|highest| highest & 0x80 != 0);
    bytes.is_empty() || memory.read(entries, bytes) == bytes.len() && bytes.chunks(POLLED).all(is_ignored)
}

/// Whether a set for `select` has none of the first `count` descriptors.
fn is_empty_set(memory: &mut impl Memory, set: u64, count: u64) -> bool {
    const MOST_BYTES: usize = 128;
    if set == 0 || count as i32 <= 0 {
        return true;
    }
    let count = count as u32 as usize;
    let mut bytes = [0; MOST_BYTES];
    let Some(bytes) = bytes.get_mut(..count.div_ceil(8)) else { return false };
    let beyond = bytes.len() * 8 - count;
    let is_read = memory.read(set, bytes) == bytes.len();
    if let Some(last) = bytes.last_mut() {
        *last &= 0xff >> beyond;
    }
    is_read && bytes.iter().all(|byte| *byte == 0)
}

#[cfg(test)]
mod tests {
    use super::super::calls;
    use super::*;
    use freezeframe_arch::Architecture;
    use freezeframe_unwind::memory::SliceMemory;

    const AT: u64 = 0x1000;

    fn waits_for(number: u32, arguments: [u64; 6], memory: &[u8]) -> Option<Wait> {
        let call = SystemCall { number, arguments };
        let known = calls::find(Architecture::X86_64, number).unwrap();
        refine(&call, known, &mut SliceMemory::new(AT, memory), |descriptor| descriptor == 9)
    }

    #[test]
    fn a_wait_for_nothing_is_a_sleep_and_without_an_end_for_a_signal() {
        const POLL: u32 = 7;
        const PPOLL: u32 = 271;
        const SELECT: u32 = 23;
        const PSELECT: u32 = 270;
        const EPOLL: u32 = 232;
        let forever = -1i32 as u32 as u64;
        assert_eq!(waits_for(POLL, [0, 0, 700, 0, 0, 0], &[]), Some(Wait::Sleep));
        assert_eq!(waits_for(POLL, [0, 0, forever, 0, 0, 0], &[]), Some(Wait::Peer));
        assert_eq!(waits_for(PPOLL, [0, 0, 0x2000, 0, 0, 0], &[]), Some(Wait::Sleep));
        assert_eq!(waits_for(PPOLL, [0; 6], &[]), Some(Wait::Peer));
        let polled = |descriptor: i32| [&descriptor.to_le_bytes()[..], &[1, 0, 0, 0]].concat();
        assert_eq!(waits_for(POLL, [AT, 1, 700, 0, 0, 0], &polled(5)), Some(Wait::Events));
        assert_eq!(waits_for(POLL, [AT, 1, 700, 0, 0, 0], &polled(-5)), Some(Wait::Sleep));
        let mixed = [polled(-1), polled(3)].concat();
        assert_eq!(waits_for(POLL, [AT, 2, 700, 0, 0, 0], &mixed), Some(Wait::Events));
        assert_eq!(waits_for(POLL, [0x9000, 1, 700, 0, 0, 0], &[]), Some(Wait::Events), "not to be read");
        for number in [SELECT, PSELECT] {
            assert_eq!(waits_for(number, [0, 0, 0, 0, 0x2000, 0], &[]), Some(Wait::Sleep));
            assert_eq!(waits_for(number, [0; 6], &[]), Some(Wait::Peer));
            let set = |bytes: &[u8]| waits_for(number, [10, AT, 0, 0, 0x2000, 0], bytes);
            assert_eq!(set(&[0, 2]), Some(Wait::Events), "number 9");
            assert_eq!(set(&[0, 4]), Some(Wait::Sleep), "number 10 is not asked for");
        }
        assert_eq!(waits_for(EPOLL, [9, 0x2000, 4, 700, 0, 0], &[]), Some(Wait::Sleep));
        assert_eq!(waits_for(EPOLL, [9, 0x2000, 4, forever, 0, 0], &[]), Some(Wait::Peer));
        assert_eq!(waits_for(EPOLL, [8, 0x2000, 4, 700, 0, 0], &[]), Some(Wait::Events));
    }

    #[test]
    fn who_starts_a_program_waits_for_the_child_and_who_starts_a_thread_does_not() {
        const CLONE: u32 = 56;
        const CLONE3: u32 = 435;
        let flags = 0x4100u64;
        assert_eq!(waits_for(CLONE, [flags, 0, 0, 0, 0, 0], &[]), Some(Wait::Child));
        assert_eq!(waits_for(CLONE, [0x3d0f00, 0, 0, 0, 0, 0], &[]), None);
        assert_eq!(waits_for(CLONE3, [AT, 88, 0, 0, 0, 0], &flags.to_le_bytes()), Some(Wait::Child));
        assert_eq!(waits_for(CLONE3, [AT, 88, 0, 0, 0, 0], &[0; 8]), None);
    }

    #[test]
    fn a_files_lock_is_a_lock_and_other_commands_are_not() {
        assert_eq!(waits_for(73, [3, 2, 0, 0, 0, 0], &[]), Some(Wait::FileLock), "flock");
        assert_eq!(waits_for(72, [3, 7, 0, 0, 0, 0], &[]), Some(Wait::FileLock), "F_SETLKW");
        assert_eq!(waits_for(72, [3, 38, 0, 0, 0, 0], &[]), Some(Wait::FileLock), "F_OFD_SETLKW");
        assert_eq!(waits_for(72, [3, 3, 0, 0, 0, 0], &[]), Some(Wait::Io), "F_GETFL");
    }
}
