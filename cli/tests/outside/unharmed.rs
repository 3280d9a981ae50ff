//! That a program is the same with and without `freezeframe run`.

use super::*;
use std::os::unix::process::CommandExt;

/// How a program is started in each way: with signals ignored and blocked, and with a descriptor closed.
#[derive(Clone, Copy)]
struct Given {
    ignored: &'static [i32],
    blocked: &'static [i32],
    closed: Option<i32>,
}

fn give(command: &mut Command, given: Given) {
    let change = move || {
        // SAFETY: system calls only.
        unsafe {
            let mut set = std::mem::zeroed();
            libc::sigemptyset(&mut set);
            given.blocked.iter().for_each(|signal| {
                libc::sigaddset(&mut set, *signal);
            });
            libc::sigprocmask(libc::SIG_SETMASK, &set, std::ptr::null_mut());
            libc::signal(libc::SIGPIPE, libc::SIG_DFL);
            given.ignored.iter().for_each(|signal| {
                libc::signal(*signal, libc::SIG_IGN);
            });
            given.closed.iter().for_each(|number| {
                libc::close(*number);
            });
        }
        Ok(())
    };
    // SAFETY: as above.
    unsafe { command.pre_exec(change) };
}

/// What the program prints by itself and under the command, with its exit status.
fn both(words: &[&str], given: Given) -> [Output; 2] {
    let folder = Folder::new();
    let mut alone = Command::new(words[0]);
    alone.args(&words[1..]).stdin(Stdio::null());
    let mut watched = run(&folder.path("r"), words);
    [&mut alone, &mut watched].map(|command| {
        let path = std::env::var_os("PATH").unwrap();
        command.env_clear().env("PATH", path).env("LD_PRELOAD", "").env("OF_THE_TEST", "1");
        give(command, given);
        command.output().unwrap()
    })
}

#[test]
fn signals_descriptors_environment_and_threads_are_those_that_it_would_have_alone() {
    if cannot_look() {
        return;
    }
    let tell = built("tell").unwrap();
    let usual = Given { ignored: &[], blocked: &[], closed: None };
    let given = [
        usual,
        Given { ignored: &[libc::SIGPIPE, libc::SIGHUP, libc::SIGINT], ..usual },
        Given { blocked: &[libc::SIGUSR1, libc::SIGCHLD, libc::SIGTERM, libc::SIGURG], ..usual },
        Given { closed: Some(0), ..usual },
        Given { closed: Some(2), ..usual },
    ];
    for given in given {
        let [alone, watched] = both(&[tell, "a b", ""], given);
        assert_eq!(text(&alone.stdout), text(&watched.stdout));
        assert!(text(&alone.stdout).contains("variable OF_THE_TEST=1"), "{}", told(&alone));
        assert_eq!((alone.status.code(), watched.status.code()), (Some(9), Some(9)), "{}", told(&watched));
        assert_eq!(text(&alone.stderr), text(&watched.stderr));
    }
}

#[test]
fn the_environment_of_a_program_that_is_preloaded_into_stays_so() {
    if cannot_look() {
        return;
    }
    let library = ["libc.so.6", "libm.so.6"].join(":");
    let folder = Folder::new();
    let mut outputs = Vec::new();
    for mut command in [Command::new("env"), run(&folder.path("r"), &["env"])] {
        let output = command.env("LD_PRELOAD", &library).output().unwrap();
        assert_eq!(output.status.code(), Some(0));
        outputs.push(text(&output.stdout));
    }
    assert!(outputs[0].contains("LD_PRELOAD=libc.so.6:libm.so.6"));
    assert_eq!(outputs[0], outputs[1]);
}

#[test]
fn the_standard_streams_are_the_programs_own() {
    if cannot_look() {
        return;
    }
    let folder = Folder::new();
    let mut child = run(&folder.path("r"), &["sh", "-c", "cat; echo to stderr >&2"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(b"through\0the pipe").unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!((&*output.stdout, &*output.stderr), (&b"through\0the pipe"[..], &b"to stderr\n"[..]));
}
