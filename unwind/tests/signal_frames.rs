//! Stacks that go on beneath a signal handler.
#![cfg(target_os = "linux")]

mod common;

use common::{handler, in_a_handler, interrupted, is_in, turn};
use freezeframe_unwind::images::{ImageKind, ImageTable};
use freezeframe_unwind::rule::FrameAddress;
use freezeframe_unwind::snapshot::{Options, Snapshot};
use freezeframe_unwind::walk::StopReason;
use std::sync::Mutex;

static STORAGE: Mutex<(ImageTable, Snapshot<256, 8192>)> = Mutex::new((ImageTable::new(), Snapshot::new()));

#[test]
fn a_stack_goes_on_beneath_a_signal_handler_on_whichever_stack_that_runs() {
    let (_turn, suspender) = turn();
    let (images, snapshot) = &mut *STORAGE.lock().unwrap();
    images.refresh().unwrap();
    // On arm64 a handler returns through the vDSO; qemu-user has none, and returns through a page that is no code of the
    // program's.
    if cfg!(target_arch = "aarch64") && !images.images().iter().any(|i| i.kind == ImageKind::Vdso) {
        println!("skipped: there is no vDSO here, so it is an emulator's page that handlers return to");
        return;
    }
    for alternate in [false, true] {
        let target = in_a_handler(alternate);
        images.refresh().unwrap();
        let options =
            Options { first: Some(target.id), first_patience: common::PATIENT, ..Options::default() };
        snapshot.capture(&suspender, images, &options).unwrap();
        let view = snapshot.view();
        let thread = view.threads[0];
        let frames = view.frames(&thread);
        let pcs: Vec<u64> = frames.iter().map(|frame| frame.address.lookup()).collect();
        let place = |function: usize| pcs.iter().position(|pc| is_in(*pc, function));
        let (inner, outer) = (place(handler as *const () as usize), place(interrupted as *const () as usize));
        assert!(
            inner.is_some() && inner < outer,
            "alternate stack {alternate}: {frames:#x?} {:?}",
            thread.summary
        );
        let signal = frames.iter().position(|frame| matches!(frame.address, FrameAddress::SignalReturn(_)));
        assert!(inner < signal && signal < outer, "where the signal interrupted: {frames:#x?}");
        assert_eq!(thread.summary.stop, StopReason::EndOfStack);
    }
}
