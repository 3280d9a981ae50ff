//! Starting a program with everything as this command was given it: Rust's runtime ignores a signal, and opens descriptors that
//! were closed, before `main`.

use std::ffi::{CStr, CString, OsString, c_char};
use std::io::Result;
use std::mem::MaybeUninit;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command};
use std::sync::atomic::{AtomicU8, Ordering};

/// Which of the descriptors 0 to 2 were closed, and whether `SIGPIPE` was ignored.
static GIVEN: AtomicU8 = AtomicU8::new(0);
const PIPE_IGNORED: u8 = 1 << 3;

/// Runs before Rust's runtime.
#[used]
#[unsafe(link_section = ".init_array")]
static AT_START: extern "C" fn() = look_at_start;

extern "C" fn look_at_start() {
    let mut given = 0;
    for number in 0..3 {
        // SAFETY: numbers only.
        if unsafe { libc::fcntl(number, libc::F_GETFD) } < 0 {
            given |= 1 << number;
        }
    }
    let mut action = MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: the current action is written to `action`, of which zeros are a valid one.
    let action = unsafe {
        libc::sigaction(libc::SIGPIPE, std::ptr::null(), action.as_mut_ptr());
        action.assume_init()
    };
    if action.sa_sigaction == libc::SIG_IGN {
        given |= PIPE_IGNORED;
    }
    GIVEN.store(given, Ordering::Relaxed);
}

/// The signals that the calling thread blocks.
#[derive(Clone, Copy)]
pub(super) struct Mask(libc::sigset_t);

impl Mask {
    pub(super) fn current() -> Self {
        let mut mask = MaybeUninit::<libc::sigset_t>::zeroed();
        // SAFETY: the current mask is written to `mask`, of which zeros are a valid one.
        unsafe {
            libc::pthread_sigmask(libc::SIG_BLOCK, std::ptr::null(), mask.as_mut_ptr());
            Self(mask.assume_init())
        }
    }
}

unsafe extern "C" {
    static mut environ: *const *const c_char;
}

/// The environment of a program that loads a library: every variable as it is and in its place, `LD_PRELOAD` with the library, and
/// one for the library, which takes both back before the program begins.
pub(super) struct Environment {
    variables: Vec<*const c_char>,
    /// What of them is not this process's own.
    _texts: [CString; 2],
}

// SAFETY: pointers to texts that stay where they are.
unsafe impl Send for Environment {}
// SAFETY: as above.
unsafe impl Sync for Environment {}

impl Environment {
    /// None if one of the paths holds a zero.
    pub(super) fn loading(library: &Path, shared: &str) -> Option<Self> {
        const NAME: &[u8] = b"LD_PRELOAD=";
        let mut variables = Vec::new();
        let mut before = None;
        // SAFETY: no other thread of this process changes its environment, which ends with a null pointer.
        unsafe {
            let mut entry = environ;
            while !entry.is_null() && !(*entry).is_null() {
                if let Some(value) = CStr::from_ptr(*entry).to_bytes().strip_prefix(NAME) {
                    before.get_or_insert((variables.len(), value));
                }
                variables.push(*entry);
                entry = entry.add(1);
            }
        }
        let library = library.as_os_str().as_bytes();
        let with = match before {
            Some((_, value)) => [NAME, library, b":", value].concat(),
            None => [NAME, library].concat(),
        };
        let was_there = u8::from(before.is_some());
        let texts = [
            CString::new(with).ok()?,
            CString::new(format!("FREEZEFRAME_PRELOAD={was_there}{shared}")).ok()?,
        ];
        match before {
            Some((place, _)) => variables[place] = texts[0].as_ptr(),
            None => variables.push(texts[0].as_ptr()),
        }
        variables.extend([texts[1].as_ptr(), std::ptr::null()]);
        Some(Self { variables, _texts: texts })
    }
}

/// Starts a program, which blocks what `mask` says, in the environment of this command or another one.
pub(super) fn start(words: &[OsString], mask: Mask, environment: Option<Environment>) -> Result<Child> {
    let (program, arguments) = words.split_first().ok_or(std::io::ErrorKind::InvalidInput)?;
    let mut command = Command::new(program);
    command.args(arguments);
    let given = GIVEN.load(Ordering::Relaxed);
    let as_given = move || {
        for number in (0..3).filter(|number| given & 1 << number != 0) {
            // SAFETY: nobody uses what the runtime has opened in its place.
            unsafe { libc::close(number) };
        }
        if given & PIPE_IGNORED != 0 {
            // SAFETY: nothing runs when it comes.
            unsafe { libc::signal(libc::SIGPIPE, libc::SIG_IGN) };
        }
        if let Some(environment) = &environment {
            // SAFETY: the child's only thread.
            unsafe { environ = environment.variables.as_ptr() };
        }
        // SAFETY: a mask that was in force.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &mask.0, std::ptr::null_mut()) };
        Ok(())
    };
    // SAFETY: system calls only, after the runtime's own changes and right before the program begins.
    unsafe { command.pre_exec(as_given) };
    command.spawn()
}
