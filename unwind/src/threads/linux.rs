//! Threads by `/proc/self/task`, or another process's, with raw system calls only.

use super::{RunState, SystemCall, ThreadFacts, ThreadId, ThreadName};
use crate::process::ProcessId;
use crate::sys::{self, Errno};
use core::ffi::CStr;
use core::marker::PhantomData;
use core::sync::atomic::{AtomicU8, Ordering};

/// Why the threads could not be listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ThreadsError(i32);

impl core::fmt::Display for ThreadsError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "the list of threads in /proc cannot be read (error {}); is /proc mounted?", self.0)
    }
}

impl core::error::Error for ThreadsError {}

/// The calling thread.
///
/// # Signal safety
/// Safe: one `gettid`.
pub fn current() -> ThreadId {
    ThreadId(sys::gettid())
}

/// The calling thread runs before others, as far as it may, until this is dropped; see [`hurry`].
#[derive(Debug)]
#[must_use = "the thread runs like others again when this is dropped"]
pub struct Hurry {
    earlier: Option<sys::Schedule>,
    _not_send: PhantomData<*const ()>,
}

/// Has the calling thread run before others, if the process may (`CAP_SYS_NICE`, `RLIMIT_RTPRIO`), as early as it can
/// otherwise: for a few milliseconds of work that the program waits for. Where it fights with hundreds of other threads for
/// the processors, it would take seconds.
///
/// # Signal safety
/// Safe, as is dropping what it gives.
pub fn hurry() -> Hurry {
    let earlier = sys::schedule().ok();
    if earlier.is_some() {
        sys::hurry();
    }
    Hurry { earlier, _not_send: PhantomData }
}

impl Drop for Hurry {
    fn drop(&mut self) {
        if let Some(earlier) = &self.earlier {
            let _ = sys::set_schedule(earlier);
        }
    }
}

/// Whether stopping a thread changes what there is to say of it: a signal ends the wait that it would tell of.
pub(crate) const STOPPING_DISTURBS: bool = true;

/// The threads as they were listed for a capture.
#[derive(Debug)]
pub(crate) struct Listing {
    count: usize,
}

impl Listing {
    /// Lists the threads in `out`.
    pub(crate) fn take(out: &mut [ThreadId]) -> Result<Self, ThreadsError> {
        Ok(Self { count: list(out)? })
    }

    /// How many threads there are, which may be more than fit.
    pub(crate) const fn count(&self) -> usize {
        self.count
    }

    /// The main thread: its id is the process's.
    pub(crate) fn main(&self) -> ThreadId {
        ThreadId(sys::getpid())
    }
}

/// Whether a thread is the main one, as far as that can be told without a list.
pub(crate) fn is_main(thread: ThreadId) -> bool {
    thread.0 == sys::getpid()
}

/// Lists the threads of this process in `out` and returns how many there are, which may be more than fit. The kernel
/// lists them from the oldest to the newest, the main thread first.
///
/// # Errors
/// `/proc/self/task` cannot be opened or read.
///
/// # Signal safety
/// Safe: `openat`, `getdents64`, `close`; about 2 KiB of stack.
pub fn list(out: &mut [ThreadId]) -> Result<usize, ThreadsError> {
    list_opened(&open_list().map_err(|error| ThreadsError(error.0))?, out)
}

/// Lists the threads of another process like [`list`].
///
/// # Errors
/// `/proc/<pid>/task` cannot be opened or read.
///
/// # Signal safety
/// Safe: `openat`, `getdents64`, `close`; about 2 KiB of stack.
pub fn list_of(process: ProcessId, out: &mut [ThreadId]) -> Result<usize, ThreadsError> {
    if process == ProcessId::Own {
        return list(out);
    }
    let directory = sys::open(process.path(b"/task").terminated());
    list_opened(&directory.map_err(|error| ThreadsError(error.0))?, out)
}

fn list_opened(directory: &sys::Fd, out: &mut [ThreadId]) -> Result<usize, ThreadsError> {
    // The kernel passes over threads when others end while it lists them: again, until that finds none that is new.
    const PASSES: u32 = 4;
    let (mut listed, mut most) = (0usize, 0usize);
    for _ in 0..PASSES {
        let (before, mut count, mut hint) = (listed, 0usize, 0usize);
        directory.rewind().map_err(|error| ThreadsError(error.0))?;
        let pass = each(directory, |thread| {
            count = count.saturating_add(1);
            let known = out.get(..listed).unwrap_or(&[]);
            let place = match known.get(hint) {
                Some(next) if *next == thread => Some(hint),
                _ => known.iter().position(|other| *other == thread),
            };
            hint = place.unwrap_or(listed).saturating_add(1);
            if let (None, Some(slot)) = (place, out.get_mut(listed)) {
                *slot = thread;
                listed = listed.saturating_add(1);
            }
        });
        pass.map_err(|error| ThreadsError(error.0))?;
        most = most.max(count);
        if listed == before {
            break;
        }
    }
    Ok(most.max(listed))
}

const LIST: &CStr = c"/proc/self/task";

/// Opens the list of this process's threads; where no descriptor is left, the kept one, which begins where it was left.
pub(crate) fn open_list() -> Result<sys::Fd, Errno> {
    sys::open(LIST).or_else(|error| sys::kept_list().map_err(|_| error))
}

/// Keeps what captures need for when the process has no descriptor left; once for the process.
pub(crate) fn reserve() {
    sys::reserve(LIST);
}

/// Calls `found` with each thread of an open list, from where it was read last.
pub(crate) fn each(list: &sys::Fd, mut found: impl FnMut(ThreadId)) -> Result<(), Errno> {
    let mut buffer = [0u8; 2048];
    loop {
        let read = list.directory_entries(&mut buffer)?;
        if read == 0 {
            return Ok(());
        }
        let mut entries = buffer.get(..read).unwrap_or(&[]);
        while let Some((name, rest)) = first_entry(entries) {
            entries = rest;
            // `.` and `..` are not numbers.
            if let Some(tid) = sys::decimal(name) {
                found(ThreadId(tid as i32));
            }
        }
    }
}

/// The name in the first `linux_dirent64` of `entries`, and the entries after it.
fn first_entry(entries: &[u8]) -> Option<(&[u8], &[u8])> {
    const RECORD_LENGTH: usize = 16;
    const NAME: usize = 19;
    let length: [u8; 2] = *entries.get(RECORD_LENGTH..)?.first_chunk()?;
    let length = usize::from(u16::from_le_bytes(length));
    Some((entries.get(NAME..length)?, entries.get(length..)?))
}

/// What the kernel says of a thread of this process. To be asked before the thread is stopped: a signal ends the wait
/// that it would tell of.
///
/// # Signal safety
/// Safe: `openat`, `read`, `close` twice, `clock_gettime`; about 1 KiB of stack.
pub fn facts(thread: ThreadId) -> ThreadFacts {
    facts_of(ProcessId::Own, thread)
}

/// What the kernel says of a thread of that process.
///
/// # Signal safety
/// Safe, like [`facts`].
pub fn facts_of(process: ProcessId, thread: ThreadId) -> ThreadFacts {
    let mut facts = ThreadFacts { cpu_ns: cpu_time_of(process, thread), ..ThreadFacts::UNKNOWN };
    let mut buffer = [0u8; 512];
    if let Ok(stat) = read(process, thread, b"stat", &mut buffer) {
        facts.name = name_in_stat(stat).map_or(ThreadName::EMPTY, ThreadName::new);
        // proc(5): state is field 3, utime 14, stime 15; counted here from the state.
        let field = |index| sys::field_after_last_paren(stat, index);
        facts.state =
            field(0).and_then(|f| f.first()).map_or(RunState::Unknown, |l| RunState::from_letter(*l));
        facts.user_ticks = field(11).and_then(sys::decimal).unwrap_or(0);
        facts.system_ticks = field(12).and_then(sys::decimal).unwrap_or(0);
    }
    facts.system_call = system_call(process, thread);
    facts
}

/// The system call that a thread waits in. None under an emulator, where the kernel tells of the emulator's.
///
/// # Signal safety
/// Safe: `openat`, `read`, `close`.
pub(crate) fn system_call(process: ProcessId, thread: ThreadId) -> Option<SystemCall> {
    if !calls_are_told() {
        return None;
    }
    let mut buffer = [0u8; 256];
    parse_system_call(read(process, thread, b"syscall", &mut buffer).ok()?)
}

/// Whether the kernel counts system calls as this program does. Found out once, by the call that asks.
fn calls_are_told() -> bool {
    const TOLD: u8 = 1;
    const ANOTHERS: u8 = 2;
    static KNOWN: AtomicU8 = AtomicU8::new(0);
    let mut known = KNOWN.load(Ordering::Relaxed);
    if known == 0 {
        let mut buffer = [0u8; 256];
        let Ok(text) = read(ProcessId::Own, current(), b"syscall", &mut buffer) else { return true };
        let number = parse_system_call(text).map(|call| call.number);
        known = if number == Some(libc::SYS_read as u32) { TOLD } else { ANOTHERS };
        KNOWN.store(known, Ordering::Relaxed);
    }
    known == TOLD
}

/// The name stands between the first `(` and the last `)`.
fn name_in_stat(stat: &[u8]) -> Option<&[u8]> {
    let start = stat.iter().position(|byte| *byte == b'(')?.checked_add(1)?;
    let end = stat.iter().rposition(|byte| *byte == b')')?;
    stat.get(start..end)
}

/// A thread's CPU time in nanoseconds, for much less than all of its facts cost; zero if it has ended.
///
/// # Signal safety
/// Safe: `clock_gettime`.
pub fn cpu_time(thread: ThreadId) -> u64 {
    // The kernel derives the id of a thread's clock from the thread's: `CPUCLOCK_PERTHREAD | CPUCLOCK_SCHED`.
    const PER_THREAD_SCHED: i32 = 6;
    sys::clock(!thread.0 << 3 | PER_THREAD_SCHED)
}

/// The same of a thread of that process: of another one, whose threads have no clocks for us, the first number of `schedstat`.
fn cpu_time_of(process: ProcessId, thread: ThreadId) -> u64 {
    if process == ProcessId::Own {
        return cpu_time(thread);
    }
    let mut buffer = [0u8; 96];
    let times = read(process, thread, b"schedstat", &mut buffer).unwrap_or(&[]);
    times.split(|byte| *byte == b' ').next().and_then(sys::decimal).unwrap_or(0)
}

/// `number 0x… (six arguments) sp pc`, or `running`, or `-1 sp pc` for a wait outside system calls.
fn parse_system_call(text: &[u8]) -> Option<SystemCall> {
    let mut fields = text.split(u8::is_ascii_whitespace);
    let number = sys::decimal(fields.next()?)? as u32;
    let mut arguments = [0; 6];
    for argument in &mut arguments {
        *argument = sys::hexadecimal(fields.next()?)?;
    }
    Some(SystemCall { number, arguments })
}

/// Whether an id is one of this process's threads, as far as the kernel says.
///
/// # Signal safety
/// Safe: `tgkill` without a signal.
pub(crate) fn is_alive(thread: ThreadId) -> bool {
    is_alive_in(ProcessId::Own, thread)
}

/// Whether an id is one of that process's threads.
pub(crate) fn is_alive_in(process: ProcessId, thread: ThreadId) -> bool {
    let number = process.number().unwrap_or_else(sys::getpid);
    thread.0 > 0 && sys::tgkill(number, thread.0, 0) != Err(Errno(libc::ESRCH))
}

/// Who traces a thread of that process; zero: nobody. None if that cannot be read.
pub(crate) fn tracer_of(process: ProcessId, thread: ThreadId) -> Option<u64> {
    let mut buffer = [0u8; 2048];
    let status = read(process, thread, b"status", &mut buffer).ok()?;
    let tracer = status.split(|byte| *byte == b'\n').find_map(|line| line.strip_prefix(b"TracerPid:"))?;
    sys::decimal(tracer.trim_ascii())
}

/// Whether a thread has `signal` blocked; none if that cannot be read.
pub(crate) fn blocks_signal(thread: ThreadId, signal: i32) -> Option<bool> {
    let mut buffer = [0u8; 2048];
    let status = read(ProcessId::Own, thread, b"status", &mut buffer).ok()?;
    let blocked = status.split(|byte| *byte == b'\n').find_map(|line| line.strip_prefix(b"SigBlk:"))?;
    let set = sys::hexadecimal(blocked.trim_ascii())?;
    Some(set & sys::signal_set(signal) != 0)
}

/// Reads `<file>` of a thread's folder.
fn read<'a>(
    process: ProcessId,
    thread: ThreadId,
    file: &[u8],
    buffer: &'a mut [u8],
) -> Result<&'a [u8], Errno> {
    open(process, thread, file)?.read_to_end(buffer)
}

/// Opens `/proc/<process>/task/<thread>/<file>`.
pub(crate) fn open(process: ProcessId, thread: ThreadId, file: &[u8]) -> Result<sys::Fd, Errno> {
    let mut path = process.path(b"/task/");
    path.push_decimal(thread.0.max(0) as u32);
    path.push(b"/");
    path.push(file);
    sys::open(path.terminated())
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use std::io::Write;
    use std::sync::mpsc;
    use std::vec::Vec;

    #[test]
    fn a_started_thread_is_listed_with_its_name_and_its_wait() {
        let (send_tid, receive_tid) = mpsc::channel();
        let (end, ended) = mpsc::channel::<()>();
        let thread = std::thread::Builder::new().name("waits (R) here".into()).spawn(move || {
            send_tid.send(current()).unwrap();
            let _ = ended.recv();
        });
        let tid = receive_tid.recv().unwrap();
        let mut ids = [ThreadId(0); 1024];
        let count = list(&mut ids).unwrap();
        assert!(ids[..count].contains(&tid) && ids[..count].contains(&current()));
        assert_eq!(ids[0].0 as u32, std::process::id(), "the main thread comes first");
        assert!(list(&mut []).unwrap() >= 2, "the count does not depend on the room");

        let number = |facts: ThreadFacts| facts.system_call.map(|call| i64::from(call.number));
        // A thread that asks for itself is in the `read` that answers.
        let own = number(super::facts(current()));
        // It goes to sleep in its own time.
        let asleep = (0..1000).map(|_| facts(tid)).find(|facts| {
            std::thread::sleep(std::time::Duration::from_millis(1));
            facts.state == RunState::Sleeping && (facts.system_call.is_some() || own.is_none())
        });
        let facts = asleep.expect("the thread waits for its channel");
        assert_eq!(facts.name.bytes(), b"waits (R) here");
        if own.is_some() {
            assert_eq!((own, number(facts)), (Some(libc::SYS_read), Some(libc::SYS_futex)));
        } else {
            assert_eq!(number(facts), None, "an emulator's call is none of the program's");
            // Not captured, unlike what `eprintln` prints.
            let reason = "not tested: which call a thread waits in, for /proc tells of an emulator's";
            writeln!(std::io::stderr(), "{reason}").unwrap();
        }
        assert_eq!(blocks_signal(tid, libc::SIGURG), Some(false));
        drop(end);
        thread.unwrap().join().unwrap();
        // Joining does not wait for the kernel to forget the thread.
        while super::facts(tid).state != RunState::Unknown {
            std::thread::yield_now();
        }
    }

    #[test]
    fn who_was_in_a_hurry_is_scheduled_as_before() {
        let policy = || {
            let stat = std::fs::read("/proc/thread-self/stat").unwrap();
            // proc(5): nice is field 19, rt_priority 40, policy 41; counted here from the state.
            let field = |index| sys::field_after_last_paren(&stat, index).map(<[u8]>::to_vec);
            [field(16), field(37), field(38)]
        };
        let before = policy();
        let hurry = hurry();
        // SAFETY: numbers only.
        if unsafe { libc::geteuid() } == 0 && hurry.earlier.is_some() {
            assert_ne!(policy(), before, "root may");
        }
        drop(hurry);
        assert_eq!(policy(), before);
    }

    #[test]
    fn cpu_time_advances_with_work_and_agrees_with_the_ticks() {
        let before = facts(current());
        let mut sum = Vec::new();
        while facts(current()).user_ticks + facts(current()).system_ticks
            < before.user_ticks + before.system_ticks + 5
        {
            sum.push(sum.len());
        }
        let spent = facts(current()).cpu_ns - before.cpu_ns;
        assert!((20_000_000..10_000_000_000).contains(&spent), "five ticks of 10 ms took {spent} ns");
    }

    #[test]
    fn what_the_kernel_prints_for_a_thread_outside_system_calls_is_not_one() {
        assert_eq!(parse_system_call(b"running\n"), None);
        assert_eq!(parse_system_call(b"-1 0x7ffc 0x7f00\n"), None);
        let futex = b"202 0x1 0x80 0x2 0x0 0x0 0xffffffff 0x7ffc 0x7f00\n";
        let expected = SystemCall { number: 202, arguments: [1, 0x80, 2, 0, 0, 0xffff_ffff] };
        assert_eq!(parse_system_call(futex), Some(expected));
    }
}
