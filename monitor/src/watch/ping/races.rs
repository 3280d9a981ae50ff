//! Every order of the loop's answers and the watcher's looks.

use super::*;
use freezeframe_races::{explore, loom::thread};
use std::sync::Mutex;

/// Keeps the latest question for a thread that answers it.
#[derive(Clone, Default)]
struct Box(Arc<Mutex<Option<Ping>>>);

impl PingTarget for Box {
    fn post(&mut self, ping: Ping) {
        *self.0.lock().unwrap() = Some(ping);
    }
}

#[test]
fn the_end_of_a_silence_is_its_own_answers_time() {
    explore("ping: an answer has its own time", None, || {
        let posted = Box::default();
        let mut source = PingSource::new(posted.clone(), ThreadId(1), Arc::default());
        let take = |posted: &Box| posted.0.lock().unwrap().take();
        source.read(1000);
        let first = take(&posted).unwrap();
        let answering = thread::spawn(move || first.answer_at(1500));
        let looked = source.read(2000);
        match take(&posted) {
            // Seen: the next question is open, and the first was answered at its own time, whenever the second is.
            Some(second) => {
                let answering = thread::spawn(move || second.answer_at(2500));
                assert_eq!(looked.reading.silence, Some((open_epoch(1), 1500)));
                assert!(looked.reading.busy && looked.reading.epoch.0 == open_epoch(2));
                let again = source.read(3000).reading;
                match again.epoch.0 {
                    epoch if epoch == open_epoch(2) => assert!(again.busy),
                    _ => assert_eq!(again.silence, Some((open_epoch(2), 2500))),
                }
                answering.join().unwrap();
            }
            None => assert!(looked.reading.busy && looked.reading.epoch.0 == open_epoch(1)),
        }
        answering.join().unwrap();
    });
}
