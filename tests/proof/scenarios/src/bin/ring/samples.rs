//! Records of several sizes, of this process with some threads in it.

use freezeframe_report::encode::encode;
use freezeframe_report::file::Size;
use freezeframe_scenarios::{about, numbered};
use freezeframe_unwind::images::ImageTable;
use freezeframe_unwind::init::{Config, init};
use freezeframe_unwind::snapshot::{Options, Snapshot};
use std::hint::black_box;
use std::sync::{Arc, Barrier};

pub(crate) const SIZE: Size = Size { slots: 10, stride: 96 * 1024 };

/// The bytes of records, without their numbers.
pub(crate) struct Samples(Vec<Vec<u8>>);

impl Samples {
    /// Captures this process. It has one thread again when this returns: it can be forked.
    pub(crate) fn take() -> Self {
        const THREADS: usize = 24;
        let (begun, over) = (Arc::new(Barrier::new(THREADS + 1)), Arc::new(Barrier::new(THREADS + 1)));
        let threads: Vec<_> = (0..THREADS)
            .map(|depth| {
                let (begun, over) = (begun.clone(), over.clone());
                std::thread::spawn(move || deep(depth, &begun, &over))
            })
            .collect();
        begun.wait();
        let samples = std::thread::Builder::new().stack_size(64 << 20).spawn(capture).expect("a thread");
        let samples = samples.join().expect("a capture");
        over.wait();
        threads.into_iter().for_each(|thread| thread.join().expect("it ends"));
        Self(samples)
    }

    /// The record of that number: every one is another, and one in three of them of the same size.
    pub(crate) fn record(&self, number: u64) -> Vec<u8> {
        let mut bytes = self.0[number as usize % self.0.len()].clone();
        numbered(&mut bytes, number);
        bytes
    }
}

#[inline(never)]
fn deep(depth: usize, begun: &Barrier, over: &Barrier) {
    if depth > 0 {
        return black_box(deep)(depth - 1, begun, over);
    }
    begun.wait();
    over.wait();
}

fn capture() -> Vec<Vec<u8>> {
    let suspender = init(Config::default()).expect("threads can be stopped");
    let (mut images, mut snapshot) = (Box::new(ImageTable::new()), Box::new(Snapshot::<64, 2048>::new()));
    images.refresh().expect("the list of mappings");
    let options = Options { first: Some(freezeframe_unwind::threads::current()), ..Options::default() };
    snapshot.capture(&suspender, &images, &options).expect("a capture");
    let rooms = [5_000, 20_000, 90_000];
    let record = |room| {
        let mut bytes = vec![0; room];
        let encoded = encode(&mut bytes, &about("stream"), &snapshot.view(), &images);
        bytes.truncate(encoded.bytes);
        bytes
    };
    rooms.into_iter().map(record).collect()
}
