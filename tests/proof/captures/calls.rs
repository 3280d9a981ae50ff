//! The table of system calls in `docs/SAFETY.md`.

use std::sync::atomic::{AtomicUsize, Ordering};

const DOC: &str = include_str!("../../../docs/SAFETY.md");

/// A row of the table: a call, and what its arguments must be.
#[derive(Debug)]
pub(crate) struct Call {
    pub(crate) number: u32,
    /// By position: the lower half of the argument.
    pub(crate) arguments: Vec<(u32, u32)>,
    /// The ways of capturing that it is listed for.
    during: Vec<&'static str>,
    why: &'static str,
}

impl Call {
    /// Whether it is listed for any of these ways of capturing.
    pub(crate) fn is_during(&self, kinds: &[&str]) -> bool {
        self.during.iter().any(|kind| kinds.contains(kind))
    }

    /// Whether a capture makes it in circumstances only that no scenario brings about.
    pub(crate) fn is_seldom(&self) -> bool {
        self.why.starts_with("only when ")
    }
}

/// The row that a process does without, to see whether anything needs it.
static OMITTED: AtomicUsize = AtomicUsize::new(usize::MAX);

pub(crate) fn omit(row: usize) {
    OMITTED.store(row, Ordering::Relaxed);
}

/// All rows. A row is `| call | arguments | during | why |`.
pub(crate) fn rows() -> Vec<Call> {
    let (_, section) = DOC.split_once("\n## The kernel is asked for nothing but what is listed\n").unwrap();
    let (section, _) = section.split_once("\n## ").unwrap();
    let rows = section.lines().filter_map(|line| line.strip_prefix("| `")?.strip_suffix(" |"));
    let calls = rows.filter_map(|row| match row.split(" | ").collect::<Vec<_>>()[..] {
        [call, arguments, during, why] if !why.is_empty() => {
            let number = number(call.trim_end_matches('`'))?;
            Some(Call { number, arguments: parse(arguments), during: during.split(", ").collect(), why })
        }
        _ => None,
    });
    calls.collect()
}

/// The calls that are listed for any of these ways of capturing.
pub(crate) fn listed(kinds: &[&str]) -> Vec<Call> {
    let omitted = OMITTED.load(Ordering::Relaxed);
    let rows = rows().into_iter().enumerate().filter(|(row, _)| *row != omitted);
    rows.map(|(_, call)| call).filter(|call| call.is_during(kinds)).collect()
}

/// ``` `0 = PTRACE_SEIZE` `2 = 0` ```: the first argument, and the third.
fn parse(arguments: &str) -> Vec<(u32, u32)> {
    let conditions = arguments.split('`').filter_map(|part| part.split_once(" = "));
    conditions.map(|(position, value)| (position.parse().unwrap(), constant(value))).collect()
}

macro_rules! numbers {
    ($($name:ident $number:ident)*) => {
        /// None for what is no system call: a name in another table.
        pub(crate) fn number(name: &str) -> Option<u32> {
            match name {
                $(stringify!($name) => Some(libc::$number as u32),)*
                _ => None,
            }
        }

        /// The name of a call that some table knows.
        pub(crate) fn name(number: u32) -> &'static str {
            match i64::from(number) {
                $(libc::$number => stringify!($name),)*
                _ => "no name for it here",
            }
        }
    };
}

numbers! {
    brk SYS_brk clock_gettime SYS_clock_gettime clone SYS_clone close SYS_close dup3 SYS_dup3 exit SYS_exit exit_group SYS_exit_group
    fcntl SYS_fcntl fdatasync SYS_fdatasync fstat SYS_fstat fsync SYS_fsync futex SYS_futex getdents64 SYS_getdents64 getpid SYS_getpid
    getppid SYS_getppid getrandom SYS_getrandom getsockopt SYS_getsockopt gettid SYS_gettid kill SYS_kill lseek SYS_lseek madvise SYS_madvise
    mmap SYS_mmap mprotect SYS_mprotect msync SYS_msync munmap SYS_munmap newfstatat SYS_newfstatat openat SYS_openat
    pipe2 SYS_pipe2 prctl SYS_prctl pread64 SYS_pread64 prlimit64 SYS_prlimit64 process_vm_readv SYS_process_vm_readv ptrace SYS_ptrace
    pwrite64 SYS_pwrite64
    read SYS_read restart_syscall SYS_restart_syscall rt_sigaction SYS_rt_sigaction rt_sigprocmask SYS_rt_sigprocmask
    rt_sigreturn SYS_rt_sigreturn rt_sigtimedwait SYS_rt_sigtimedwait rt_tgsigqueueinfo SYS_rt_tgsigqueueinfo
    sched_getattr SYS_sched_getattr sched_setattr SYS_sched_setattr sched_yield SYS_sched_yield set_tid_address SYS_set_tid_address
    sigaltstack SYS_sigaltstack statx SYS_statx tgkill SYS_tgkill wait4 SYS_wait4 write SYS_write
}

fn constant(name: &str) -> u32 {
    let one = |name: &str| match name.trim() {
        "AT_FDCWD" => libc::AT_FDCWD as u32,
        "F_DUPFD_CLOEXEC" => libc::F_DUPFD_CLOEXEC as u32,
        "RLIMIT_FSIZE" => libc::RLIMIT_FSIZE as u32,
        "F_GETFD" => libc::F_GETFD as u32,
        "CLONE_FILES" => libc::CLONE_FILES as u32,
        "CLONE_FS" => libc::CLONE_FS as u32,
        "CLONE_UNTRACED" => libc::CLONE_UNTRACED as u32,
        "CLONE_VM" => libc::CLONE_VM as u32,
        "O_NONBLOCK" => libc::O_NONBLOCK as u32,
        "O_CLOEXEC" => libc::O_CLOEXEC as u32,
        // What the kernel calls by that name; the C library's is 0.
        "O_LARGEFILE" => 0o100_000,
        "SOL_SOCKET" => libc::SOL_SOCKET as u32,
        "PR_GET_DUMPABLE" => libc::PR_GET_DUMPABLE as u32,
        "PR_SET_PTRACER" => libc::PR_SET_PTRACER as u32,
        "PR_SET_PDEATHSIG" => libc::PR_SET_PDEATHSIG as u32,
        "PTRACE_CONT" => libc::PTRACE_CONT,
        "PTRACE_DETACH" => libc::PTRACE_DETACH,
        "PTRACE_GETREGSET" => libc::PTRACE_GETREGSET,
        "PTRACE_INTERRUPT" => libc::PTRACE_INTERRUPT,
        "PTRACE_SEIZE" => libc::PTRACE_SEIZE,
        "SIGKILL" => libc::SIGKILL as u32,
        "SIGURG" => libc::SIGURG as u32,
        "WNOHANG" => libc::WNOHANG as u32,
        "__WALL" => libc::__WALL as u32,
        number => number.parse().unwrap_or_else(|_| panic!("docs/SAFETY.md: what is {number}?")),
    };
    name.split('+').map(one).fold(0, |all, bit| all | bit)
}
