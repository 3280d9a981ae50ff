//! A first call of `init` that fails, in a process of its own.
#![cfg(any(target_os = "linux", target_os = "android"))]

mod common;

use common::{PATIENT, spinning, turn};
use freezeframe_unwind::images::ImageTable;
use freezeframe_unwind::init::{Config, InitError, init};
use freezeframe_unwind::snapshot::{Held, Options, Snapshot};
use freezeframe_unwind::suspend::{Way, Ways};
use freezeframe_unwind::walk::StopReason;

#[test]
fn a_signal_that_cannot_be_handled_leaves_it_to_the_next_call_to_set_up() {
    for signal in [999, libc::SIGKILL, libc::SIGSTOP] {
        let refused = init(Config { signal, ..Config::default() });
        assert_eq!(refused.err(), Some(InitError::Refused(libc::EINVAL)), "{signal}");
    }
    let (_turn, suspender) = turn();
    let target = spinning();
    let large = std::thread::Builder::new().stack_size(16 << 20);
    let captured = large.spawn(move || {
        let (mut images, mut snapshot) = (Box::new(ImageTable::new()), Box::new(Snapshot::<8, 512>::new()));
        images.refresh().unwrap();
        let options =
            Options { ways: Ways::only(Way::Signal), first_patience: PATIENT, ..Options::default() };
        snapshot.capture_thread(&suspender, &images, target.id, &options);
        let thread = snapshot.view().threads[0];
        (thread.held, thread.summary.stop)
    });
    let (held, stop) = captured.unwrap().join().unwrap();
    assert!(matches!(held, Held::Signal { .. }), "{held:?}");
    assert_eq!(stop, StopReason::EndOfStack);
}
