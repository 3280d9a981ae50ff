//! What the watcher sleeps on.

#[cfg(all(any(target_os = "linux", target_os = "android"), not(all(test, explored))))]
mod futex;
#[cfg(any(target_os = "linux", target_os = "android"))]
mod linux;
#[cfg(target_vendor = "apple")]
mod mach;

#[cfg(all(test, explored))]
use freezeframe_races::futex;
#[cfg(any(target_os = "linux", target_os = "android"))]
pub use linux::Semaphore;
#[cfg(target_vendor = "apple")]
pub use mach::Semaphore;

#[cfg(all(test, explored))]
mod races;

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[test]
    fn permits_do_not_add_up() {
        let semaphore = Semaphore::new();
        semaphore.post();
        semaphore.post();
        assert!(semaphore.wait_until(0));
        assert!(!semaphore.wait_until(0));
        semaphore.post();
        semaphore.wait();
        assert!(!semaphore.wait_until(0), "a wait takes the permit, whichever wait it is");
    }

    #[test]
    fn a_wait_ends_at_its_deadline_and_not_before() {
        let deadline = crate::clock::now() + 20_000_000;
        assert!(!Semaphore::new().wait_until(deadline));
        assert!(crate::clock::now() >= deadline);
    }

    #[test]
    fn a_post_ends_a_wait_long_before_its_deadline() {
        let semaphore = Arc::new(Semaphore::new());
        let deadline = crate::clock::now() + 3_600_000_000_000;
        let waiter = std::thread::spawn({
            let semaphore = semaphore.clone();
            move || semaphore.wait_until(deadline)
        });
        std::thread::sleep(std::time::Duration::from_millis(20));
        semaphore.post();
        assert!(waiter.join().unwrap());
        assert!(!semaphore.wait_until(0));
    }

    #[test]
    fn every_post_is_seen_by_a_waiter() {
        let (there, back) = (Arc::new(Semaphore::new()), Arc::new(Semaphore::new()));
        let (t, b) = (there.clone(), back.clone());
        let thread = std::thread::spawn(move || {
            for _ in 0..10_000 {
                t.wait();
                b.post();
            }
        });
        for _ in 0..10_000 {
            there.post();
            back.wait();
        }
        thread.join().unwrap();
    }
}
