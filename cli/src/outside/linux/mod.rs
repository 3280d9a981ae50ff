//! Linux.
//!
//! ```text
//! freezeframe ──fork, exec──▶ program            run only; the program gets its environment, signals and descriptors as they were
//!   │ main thread: waits for the program's end (pidfd) and for signals (signalfd)
//!   ├ watcher ──/proc, process_vm_readv, ptrace──▶ program
//!   │    ▲ shared memory ◀──tells of GLib's main loop── the library that is loaded into it
//!   └ hooks' thread: prints
//! ```

mod attach;
mod news;
mod preload;
mod report;
mod run;
// What Rust has no safe name for.
#[expect(unsafe_code)]
mod signals;
#[expect(unsafe_code)]
mod start;
mod subject;

pub(crate) use attach::attach;
pub(crate) use run::run;
