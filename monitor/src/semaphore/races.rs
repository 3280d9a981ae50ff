//! Every order of posts and waits.

use super::*;
use freezeframe_races::{explore, futex, loom::thread};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32 as Plain, Ordering};

#[test]
fn no_post_is_lost_and_what_was_written_before_it_is_seen() {
    use crate::sync::atomic::AtomicU32;
    explore("semaphore: no post is lost", Some(3), || {
        let shared = Arc::new((Semaphore::new(), AtomicU32::new(0)));
        let other = shared.clone();
        let posting = thread::spawn(move || {
            for n in 1..=2 {
                other.1.store(n, Ordering::Relaxed);
                other.0.post();
            }
        });
        // Sleeps without a deadline: a lost post would leave no thread that can go on.
        while shared.1.load(Ordering::Relaxed) < 2 {
            shared.0.wait();
            assert!(shared.1.load(Ordering::Relaxed) > 0);
        }
        posting.join().unwrap();
    });
}

#[test]
fn a_permit_is_taken_once() {
    explore("semaphore: a permit is taken once", Some(3), || {
        let semaphore = Arc::new(Semaphore::new());
        let taken = Arc::new(Plain::new(0));
        semaphore.post();
        let waiters: Vec<_> = (0..2)
            .map(|_| {
                let (semaphore, taken) = (semaphore.clone(), taken.clone());
                thread::spawn(move || {
                    taken.fetch_add(semaphore.wait_until(10).into(), Ordering::Relaxed);
                })
            })
            .collect();
        futex::advance(10);
        waiters.into_iter().for_each(|waiter| waiter.join().unwrap());
        assert_eq!(taken.load(Ordering::Relaxed), 1);
    });
}
