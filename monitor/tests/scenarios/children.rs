//! What happens to whole processes: this program, started anew, with a monitor and a loop.

use super::{Scenario, scenario};
use freezeframe_monitor::{Activity, Monitor, recover};
use freezeframe_report::file::Size;
use freezeframe_report::read::{RecordOutcome, Report};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Barrier, Mutex};
use std::time::{Duration, Instant};

/// The child's part: a loop that says when its callback begins, and ends when it has turned again.
pub(crate) fn run(what: &str, file: &Path) {
    let (monitor, beacon) =
        Monitor::builder("child").report_file(file, Size::default()).watch_run_loop().unwrap();
    beacon.transition(Activity::Entry);
    beacon.transition(Activity::BeforeWaiting);
    std::thread::sleep(Duration::from_millis(120));
    if what == "again" {
        // The third with the same stack is only counted.
        for _ in 0..2 {
            beacon.transition(Activity::AfterWaiting);
            blocks_again(Duration::from_millis(400));
            beacon.transition(Activity::BeforeWaiting);
            std::thread::sleep(Duration::from_millis(150));
        }
        beacon.transition(Activity::AfterWaiting);
        println!("callback");
        return blocks_again(Duration::from_secs(3600));
    }
    beacon.transition(Activity::AfterWaiting);
    println!("callback");
    let callback = match what {
        "short" => Duration::from_millis(120),
        "long" => Duration::from_millis(900),
        _ => Duration::from_secs(3600),
    };
    // Time in which this process runs: a sleep would go on while it is stopped.
    let (mut done, slice) = (Duration::ZERO, Duration::from_millis(5));
    while done < callback {
        let begun = Instant::now();
        std::thread::sleep(slice);
        done += begun.elapsed().min(slice * 4);
    }
    beacon.transition(Activity::BeforeWaiting);
    std::thread::sleep(Duration::from_millis(200));
    monitor.stop();
}

#[inline(never)]
fn blocks_again(time: Duration) {
    std::thread::sleep(time);
    std::hint::black_box(());
}

struct Running {
    child: Child,
    file: PathBuf,
}

impl Running {
    fn start(what: &str) -> Self {
        let file = super::real::file();
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["child", what, file.to_str().unwrap()])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line, "callback\n");
        Self { child, file }
    }

    fn signal(&self, signal: libc::c_int) {
        // SAFETY: the child was not waited for yet.
        assert_eq!(unsafe { libc::kill(self.child.id() as i32, signal) }, 0);
    }

    fn stop_for(&self, time: Duration) {
        self.signal(libc::SIGSTOP);
        std::thread::sleep(time);
        self.signal(libc::SIGCONT);
    }

    /// Its records, once it has ended.
    fn end(mut self) -> Vec<freezeframe_report::read::Record> {
        self.child.wait().unwrap();
        let records = recover(&self.file).unwrap();
        assert!(recover(&self.file).unwrap().is_empty(), "they are handed over once");
        std::fs::remove_file(&self.file).unwrap();
        records
    }
}

/// Forks at moments of a freeze of four loops, among many threads: captures go on then for most of the time. How many children
/// see a freeze of their own, with a monitor of their own, and record it.
fn forks(random: &mut u64) -> usize {
    const CHILDREN: u64 = 5;
    let (begin, freeze) = (Arc::new(Barrier::new(5)), Arc::new(Mutex::new(())));
    let held = freeze.lock().unwrap();
    let file = super::real::file();
    let waits = |work: Box<dyn FnOnce() + Send>| std::thread::spawn(work);
    let others = (0..32).map(|_| {
        let freeze = freeze.clone();
        waits(Box::new(move || drop(freeze.lock())))
    });
    let others: Vec<_> = others.collect();
    let loops = (0..4).map(|_| {
        let (begin, freeze, file) = (begin.clone(), freeze.clone(), file.clone());
        waits(Box::new(move || {
            let builder = Monitor::builder("parent")
                .interval(Duration::from_millis(4))
                .report_file(file, Size::default());
            let (_monitor, beacon) = builder.watch_run_loop().unwrap();
            begin.wait();
            beacon.transition(Activity::AfterWaiting);
            drop(freeze.lock());
        }))
    });
    let loops: Vec<_> = loops.collect();
    begin.wait();
    std::thread::sleep(Duration::from_millis(10));
    let children = (0..CHILDREN).map(|_| {
        *random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        std::thread::sleep(Duration::from_micros((*random >> 33) % 5000));
        let file = super::real::file();
        // SAFETY: the child is this thread alone, which ends in there.
        let child = unsafe { libc::fork() };
        if child == 0 {
            // SAFETY: one that hangs ends by it, and has seen nothing.
            unsafe { libc::alarm(60) };
            let seen = std::panic::catch_unwind(|| sees_its_own_freeze(&file)).unwrap_or(false);
            // SAFETY: nothing of the parent's is touched.
            unsafe { libc::_exit(i32::from(!seen)) };
        }
        (child, file)
    });
    let children: Vec<_> = children.collect();
    let seen = children.into_iter().filter(|(child, file)| {
        let mut status = 0;
        // SAFETY: a child of this process that nobody else waits for.
        let ended = unsafe { libc::waitpid(*child, &mut status, 0) };
        let _ = std::fs::remove_file(file);
        ended == *child && status == 0
    });
    let seen = seen.count();
    drop(held);
    others.into_iter().chain(loops).for_each(|thread| thread.join().unwrap());
    let _ = std::fs::remove_file(file);
    seen
}

fn sees_its_own_freeze(file: &Path) -> bool {
    // SAFETY: whoever hangs is ended.
    unsafe { libc::alarm(20) };
    let builder =
        Monitor::builder("child").interval(Duration::from_millis(10)).report_file(file, Size::default());
    let Ok((monitor, beacon)) = builder.watch_run_loop() else { return false };
    beacon.transition(Activity::AfterWaiting);
    let begun = Instant::now();
    let recorded = || Report::open(file).is_ok_and(|report| report.is_whole() && report.records.len() == 1);
    while !recorded() && begun.elapsed() < Duration::from_secs(5) {
        std::thread::sleep(Duration::from_millis(10));
    }
    recorded() && monitor.statistics().freezes == 1
}

const NO_START: &str = "an emulated program cannot start itself anew";

pub(crate) fn scenarios() -> Vec<Scenario> {
    vec![
        scenario("6", "SIGSTOP for a second in a callback of 120 ms", "0 freezes", || {
            let running = Running::start("short");
            std::thread::sleep(Duration::from_millis(30));
            running.stop_for(Duration::from_secs(1));
            format!("{} freezes", running.end().len())
        })
        .not_emulated(NO_START),
        scenario(
            "10",
            "SIGKILL 1.2 s into the third freeze with the same stack",
            "2 records, 1 killed, 1.0 to 1.3 s into a repeat",
            || {
                let running = Running::start("again");
                std::thread::sleep(Duration::from_millis(1200));
                running.signal(libc::SIGKILL);
                let records = running.end();
                let killed: Vec<_> =
                    records.iter().filter(|record| record.outcome == RecordOutcome::Killed).collect();
                let right = killed.iter().all(|record| {
                    let repeats = record.repeats;
                    (1_000_000_000..1_300_000_000).contains(&repeats.repeating_ns)
                        && (repeats.count, repeats.duration_ns) == (1, repeats.repeating_ns)
                        && record.duration_ns < 600_000_000
                });
                let right = if right { "1.0 to 1.3 s into a repeat" } else { "with other times" };
                format!("{} records, {} killed, {right}", records.len(), killed.len())
            },
        )
        .not_emulated(NO_START),
        scenario(
            "-",
            "forks at 50 moments of freezes, and a monitor in each child",
            "50 see their own freeze",
            || {
                let mut random = u64::from(std::process::id());
                let seen: usize = (0..10).map(|_| forks(&mut random)).sum();
                format!("{seen} see their own freeze")
            },
        )
        .not_emulated("an emulator's own threads hold locks that a child finds taken"),
        scenario(
            "6",
            "SIGSTOP for 2 s in a freeze of 900 ms",
            "1 freezes, stopped, without those 2 s",
            || {
                let running = Running::start("long");
                std::thread::sleep(Duration::from_millis(120));
                running.stop_for(Duration::from_secs(2));
                let records = running.end();
                let labels =
                    records.first().and_then(|record| record.episode.as_ref()).map(|e| e.labels.join(" "));
                let lasted = records.first().map_or(0, |record| record.duration_ns / 1_000_000);
                let without = if (500..1900).contains(&lasted) { "without those 2 s" } else { "with them" };
                format!("{} freezes, {}, {without}", records.len(), labels.unwrap_or_default())
            },
        )
        .not_emulated(NO_START),
        scenario(
            "10",
            "SIGKILL in a freeze, then the next launch",
            "1 killed, over 250 ms, with samples",
            || {
                let running = Running::start("forever");
                let begun = Instant::now();
                while Report::open(&running.file).is_ok_and(|report| report.records.is_empty())
                    && begun.elapsed() < Duration::from_secs(30)
                {
                    std::thread::sleep(Duration::from_millis(5));
                }
                running.signal(libc::SIGKILL);
                let records = running.end();
                let killed = records.iter().filter(|record| record.outcome == RecordOutcome::Killed).count();
                let Some(record) = records.first() else { return "nothing".into() };
                let long = if record.duration_ns >= 250_000_000 { "over 250 ms" } else { "too short" };
                let samples = record.samples.as_ref().map_or(0, |samples| samples.samples.len());
                format!("{killed} killed, {long}, {} samples", if samples >= 2 { "with" } else { "without" })
            },
        )
        .not_emulated(NO_START),
    ]
}
