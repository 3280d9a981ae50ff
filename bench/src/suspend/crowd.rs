//! Threads to be captured: all of them wait, or all of them run.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;
use std::time::Duration;

/// Threads that end when this is dropped.
pub(super) struct Crowd {
    pub(super) ids: Vec<i32>,
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Crowd {
    pub(super) fn start(count: usize, runs: bool) -> std::io::Result<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        let (send, receive) = mpsc::channel();
        let threads: Result<Vec<_>, _> = (0..count)
            .map(|_| {
                let (send, stop) = (send.clone(), stop.clone());
                std::thread::Builder::new().spawn(move || {
                    let id = rustix::thread::gettid().as_raw_nonzero().get();
                    let _ = send.send(id);
                    drop(send);
                    while !stop.load(Ordering::Relaxed) {
                        if runs { std::hint::spin_loop() } else { std::thread::park() }
                    }
                })
            })
            .collect();
        let threads = threads?;
        let ids = (0..count).filter_map(|_| receive.recv().ok()).collect();
        std::thread::sleep(Duration::from_millis(20));
        Ok(Self { ids, stop, threads })
    }
}

impl Drop for Crowd {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            thread.thread().unpark();
            let _ = thread.join();
        }
    }
}
