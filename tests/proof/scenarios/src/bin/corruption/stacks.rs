//! Stacks with other words in them, and stacks that are not there.
//!
//! What stands in a frame is computed from what lies beneath its stack pointer. So every frame beneath the first damaged word
//! must be what it was; and a stack that is not what it was must say why it ends.

use super::captures::{Capturer, Stack, addresses, ways};
use super::target::{self, Random, Target};
use freezeframe_unwind::walk::Frame;

const ROUNDS: usize = 400;
const PAGE: usize = 4096;
const WORD: usize = 8;

pub(crate) fn run(how: &str) {
    let mut capturer = Capturer::new();
    // A thread without memory beneath its stack pointer takes no signal: it waits.
    let target = target::start(how == "words of one that runs", None);
    capturer.images.refresh().expect("the list of mappings");
    match how {
        "memory above" | "memory below" => unmapped(&mut capturer, target, how == "memory above"),
        "cycles" => rewritten(&mut capturer, target, |random, at| {
            // Saved frame pointers and other pointers to the stack lead back to where it has been.
            at.saturating_sub(random.below(64) * WORD) as u64
        }),
        _ => rewritten(&mut capturer, target, |random, _| match random.below(4) {
            0 => 0,
            1 => u64::MAX - random.next() % 4096,
            _ => random.next() | 1 << 47,
        }),
    }
}

/// The thread as it is, by each way that can read it.
fn clean(
    capturer: &mut Capturer,
    target: Target,
) -> Vec<(&'static str, freezeframe_unwind::snapshot::Options<'static>, Stack)> {
    let all = ways().into_iter().map(|(way, options)| (way, options, capturer.take(target.id, &options)));
    let read: Vec<_> = all.filter(|(_, _, stack)| stack.frames.len() > 20).collect();
    assert!(read.len() >= 3, "{} ways read it", read.len());
    for (way, _, stack) in &read {
        assert!(!stack.is_marked(), "{way}: {:?}", stack.stop);
    }
    read
}

fn rewritten(capturer: &mut Capturer, target: Target, word: impl Fn(&mut Random, usize) -> u64) {
    let clean = clean(capturer, target);
    let mut random = Random(0x2545_f491_4f6c_dd1d);
    let (mut captures, mut marked, mut refused) = (0, 0, 0);
    let lowest = clean[0].2.frames[5].sp as usize;
    let highest = clean[0].2.frames.iter().map(|frame| frame.sp as usize).max().expect("there are frames");
    for _ in 0..ROUNDS {
        let count = 1 + random.below(24);
        let places: Vec<usize> =
            (0..count).map(|_| (lowest + random.below(highest - lowest)) & !(WORD - 1)).collect();
        let first = *places.iter().min().expect("there is one");
        let earlier: Vec<u64> = places.iter().map(|at| load(*at)).collect();
        places.iter().for_each(|at| store(*at, word(&mut random, *at)));
        for (way, options, before) in &clean {
            let after = capturer.take(target.id, options);
            captures += 1;
            if after.is_refused() {
                refused += 1;
                continue;
            }
            let same = before.frames.iter().take_while(|frame| frame.sp <= first as u64).count();
            let kept = (callers(after.frames.get(..same)), callers(before.frames.get(..same)));
            assert!(
                kept.0 == kept.1,
                "{way}: frames beneath the damage at {first:x}: {kept:x?} {:x?}",
                after.stop
            );
            if addresses(&after.frames) != addresses(&before.frames) {
                marked += 1;
                assert!(
                    after.is_marked(),
                    "{way}: another stack that claims to be whole: {:?}",
                    after.capture
                );
            }
        }
        // Backwards: a place that was damaged twice gets what it had first.
        places.iter().zip(&earlier).rev().for_each(|(at, word)| store(*at, *word));
    }
    assert!(marked > ROUNDS / 4, "only {marked} captures were different");
    assert!(refused < captures / 4, "{refused} of {captures} captures did not read it");
    println!("captures={captures} marked={marked}");
}

/// Without the innermost: see [`addresses`].
fn callers(frames: Option<&[Frame]>) -> Option<&[Frame]> {
    frames.map(|frames| frames.get(1..).unwrap_or(&[]))
}

fn unmapped(capturer: &mut Capturer, target: Target, above: bool) {
    let clean = clean(capturer, target);
    // One that is in a handler still would go on with what is taken away.
    let where_it_waits = |stack: &Stack| stack.capture.registers.map(|registers| registers.pc());
    let waits = where_it_waits(&clean[0].2);
    while where_it_waits(&capturer.take(target.id, &clean[0].1)) != waits {}
    let sp = clean[0].2.capture.registers.expect("it was read").sp() as usize;
    let (start, end) = target.stack;
    let (from, to) = if above {
        // The thread itself may still use what is near its end: its own data. It does not come back.
        ((sp + 2 * PAGE) & !(PAGE - 1), end - 4 * PAGE)
    } else {
        (start, (sp - 256) & !(PAGE - 1))
    };
    // SAFETY: the thread stays beneath, and nobody else uses its stack.
    assert!(from < to && unsafe { libc::munmap(from as *mut _, to - from) } == 0);
    let mut marked = 0;
    for (way, options, before) in &clean {
        // One that a tracer has just let go runs for a moment, and a signal to who runs without room ends the program.
        while where_it_waits(&capturer.take(target.id, &clean[0].1)) != waits {}
        let after = capturer.take(target.id, options);
        if after.is_refused() {
            continue;
        }
        if above {
            let same = before.frames.iter().take_while(|frame| frame.sp <= from as u64).count();
            assert!(same > 3, "{same} frames beneath");
            let kept = (callers(after.frames.get(..same)), callers(before.frames.get(..same)));
            assert_eq!(kept.0, kept.1, "{way}");
            assert!(after.is_marked(), "{way}: {:?}", after.stop);
        } else {
            assert_eq!(
                addresses(&after.frames),
                addresses(&before.frames),
                "{way}: what is beneath is not needed"
            );
        }
        marked += usize::from(after.is_marked());
    }
    println!("captures={} marked={marked}", clean.len());
}

fn load(at: usize) -> u64 {
    // SAFETY: a word of the target's stack, which is mapped.
    unsafe { (at as *const u64).read_volatile() }
}

fn store(at: usize, word: u64) {
    // SAFETY: as above; the thread does not come back to these frames.
    unsafe { (at as *mut u64).write_volatile(word) }
}
