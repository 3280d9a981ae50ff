//! Which waits are ways of idling. By tables; pure.
//!
//! | a wait | is idling |
//! |---|---|
//! | for events (`poll`, `epoll`, `select`), in a function that waits for a peer's answer | never |
//! | for events, in a known event loop's function and no callback of it | always |
//! | for events, a signal, a connection, a child, a time; for input from a terminal or the standard input; until the standard output takes more | unless it is deeper in the stack than the program's home |
//! | for another thread, but not for a lock | unless it is deeper in the stack than the program's home |
//! | for a lock, a file, a pipe, a peer | never |

use crate::cause::tables::{Descriptor, Role, Wait};

/// What is to be asked before a wait is called idle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// Nothing: it is not.
    Never,
    /// Whether it is at home.
    AtHome,
    /// Which functions wait, and then whether it is at home.
    ByFunctions,
}

const STANDARD_INPUT: u64 = 0;
const STANDARD_OUTPUTS: [u64; 2] = [1, 2];
/// Commands of a futex that wait for a lock; see futex(2).
const LOCK_COMMANDS: [u64; 3] = [6, 11, 13];
const COMMAND: u64 = 127;
/// What a mutex of glibc's or of Rust's holds that somebody waits for.
const CONTENDED: u32 = 2;

/// By the call: its name and what it waits for, none if it is not in the table of calls; its arguments; and what its first one is
/// open for.
pub(super) fn way(call: Option<(&str, Wait)>, arguments: [u64; 6], descriptor: Option<Descriptor>) -> Way {
    let Some((name, wait)) = call else { return Way::AtHome };
    let [number, operation, value, ..] = arguments;
    let nobody_sends = matches!(descriptor, Some(Descriptor::Device | Descriptor::Other));
    match (wait, name) {
        (Wait::Sleep | Wait::Child, _) => Way::AtHome,
        (Wait::Events, _) => Way::ByFunctions,
        (Wait::Futex, _) if LOCK_COMMANDS.contains(&(operation & COMMAND)) => Way::Never,
        (Wait::Futex, _) if value as u32 == CONTENDED => Way::Never,
        (Wait::Futex, _) => Way::ByFunctions,
        (_, "accept" | "accept4" | "pause" | "rt_sigtimedwait" | "rt_sigsuspend") => Way::AtHome,
        (_, "msgrcv" | "mq_timedreceive") => Way::AtHome,
        (_, "read" | "readv") if number == STANDARD_INPUT || nobody_sends => Way::AtHome,
        (_, "write" | "writev") if STANDARD_OUTPUTS.contains(&number) => Way::AtHome,
        _ => Way::Never,
    }
}

/// By the functions that wait, innermost first: whether it is one; none if they do not tell.
pub(super) fn by_functions(roles: impl Iterator<Item = Role> + Clone) -> Option<bool> {
    let has = |role| roles.clone().any(|found| found == role);
    if has(Role::Sync) || has(Role::Spawn) || has(Role::Lock) {
        return Some(false);
    }
    has(Role::Loop).then_some(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(name: &'static str, wait: Wait, arguments: [u64; 3], descriptor: Option<Descriptor>) -> Way {
        let [a, b, c] = arguments;
        way(Some((name, wait)), [a, b, c, 0, 0, 0], descriptor)
    }

    #[test]
    fn input_is_waited_for_at_home_from_a_terminal_and_never_from_a_pipe() {
        let read = |number, descriptor| of("read", Wait::Descriptor, [number, 0, 0], Some(descriptor));
        assert_eq!(read(3, Descriptor::Pipe), Way::Never);
        assert_eq!(read(3, Descriptor::Socket), Way::Never);
        assert_eq!(read(0, Descriptor::Pipe), Way::AtHome, "the standard input");
        assert_eq!(read(5, Descriptor::Device), Way::AtHome, "a terminal");
        assert_eq!(read(5, Descriptor::Other), Way::AtHome, "signals, timers, changes of files");
        let write = |number| of("write", Wait::Descriptor, [number, 0, 0], Some(Descriptor::Pipe));
        assert_eq!((write(1), write(4)), (Way::AtHome, Way::Never));
    }

    #[test]
    fn locks_files_and_peers_are_never_idled_at_and_events_depend_on_who_waits() {
        let futex = |operation, value| of("futex", Wait::Futex, [0x1000, operation, value], None);
        assert_eq!((futex(0x80, 2), futex(0x86, 0)), (Way::Never, Way::Never));
        assert_eq!(futex(0x189, 0), Way::ByFunctions, "a condition");
        assert_eq!(of("openat", Wait::Io, [0; 3], None), Way::Never);
        assert_eq!(of("flock", Wait::Io, [0; 3], None), Way::Never);
        assert_eq!(of("connect", Wait::Peer, [0; 3], None), Way::Never);
        assert_eq!(of("accept4", Wait::Peer, [0; 3], None), Way::AtHome);
        assert_eq!(of("epoll_wait", Wait::Events, [0; 3], None), Way::ByFunctions);
        assert_eq!(of("wait4", Wait::Child, [0; 3], None), Way::AtHome);
        assert_eq!(way(None, [0; 6], None), Way::AtHome, "nothing is known of it");
        let told = |roles: &[Role]| by_functions(roles.iter().copied());
        assert_eq!(told(&[Role::Loop]), Some(true));
        assert_eq!(
            told(&[Role::Loop, Role::Loop, Role::Sync]),
            Some(false),
            "a loop of its own for an answer"
        );
        assert_eq!((told(&[Role::Lock]), told(&[Role::Peer]), told(&[])), (Some(false), None, None));
    }
}
