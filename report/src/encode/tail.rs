//! A record's tail: what becomes known while its freeze lasts.

use super::encoder::section;
use super::episode::{Episode, write_episode};
use super::writer::Writer;
use crate::layout::{NODE_BYTES, Section};

/// No node: the sample has no stack.
pub const NO_NODE: u16 = u16::MAX;

/// A frame in the tree of all samples' stacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Node {
    /// The frame's address as it was found.
    pub address: u64,
    /// The caller's node, which comes before this one; [`NO_NODE`]: it is outermost.
    pub parent: u16,
    /// As in a frame: 1 program counter, 2 return address, 3 where a signal interrupted; 0: frames are left out here.
    pub origin: u8,
    /// As in a frame.
    pub trust: u8,
}

/// One look at the watched thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    /// When, counted from the last sign of life, without the time that does not count; nanoseconds.
    pub at_ns: u64,
    /// The time that it stands for.
    pub weight_ns: u64,
    /// The thread's CPU time since the sample before, or since it was first looked at.
    pub cpu_ns: u64,
    /// The innermost frame; [`NO_NODE`]: its stack could not be taken, or has no room.
    pub node: u16,
    /// Samples with the same number have the same functions on their stacks.
    pub stack: u16,
    /// The scheduler's state, as of a thread.
    pub state: u8,
    /// The system call that it was in; `u32::MAX`: none.
    pub system_call: u32,
}

/// What the watched thread did while it was frozen.
#[derive(Clone, Copy, Debug)]
pub struct Samples<'a> {
    /// In the order of time.
    pub samples: &'a [Sample],
    /// The frames of their stacks, callers first.
    pub nodes: &'a [Node],
    /// How many were thrown away, since the loop had turned while they were taken.
    pub moved: u32,
    /// How many frames found no place.
    pub left_out: u32,
}

/// Writes the tail of a record, and returns how many bytes it takes. Frames that do not fit are left out, the latest first.
///
/// # Signal safety
/// Safe.
pub fn encode_tail(out: &mut [u8], episode: &Episode<'_>, samples: &Samples<'_>) -> usize {
    let mut writer = Writer::new(out);
    section(&mut writer, Section::Episode, |w| write_episode(w, episode));
    section(&mut writer, Section::Samples, |w| write_samples(w, samples));
    writer.used()
}

fn write_samples(w: &mut Writer<'_>, samples: &Samples<'_>) {
    const HEAD: usize = 4 + 4 + 4 + 4;
    const SAMPLE: usize = 3 * 8 + 2 + 2 + 1 + 4;
    let room = w.room().saturating_sub(HEAD);
    let kept = samples.samples.get(..room / SAMPLE).unwrap_or(samples.samples);
    let room = room.saturating_sub(kept.len().saturating_mul(SAMPLE));
    let nodes = samples.nodes.get(..room / NODE_BYTES).unwrap_or(samples.nodes);
    let cut = samples.nodes.len().saturating_sub(nodes.len()) as u32;
    w.u32(samples.moved);
    w.u32(samples.left_out.saturating_add(cut));
    w.u32(kept.len() as u32);
    for sample in kept {
        w.u64(sample.at_ns);
        w.u64(sample.weight_ns);
        w.u64(sample.cpu_ns);
        w.u16(if usize::from(sample.node) < nodes.len() { sample.node } else { NO_NODE });
        w.u16(sample.stack);
        w.u8(sample.state);
        w.u32(sample.system_call);
    }
    w.u32(nodes.len() as u32);
    for node in nodes {
        w.u64(node.address);
        w.u16(node.parent);
        w.u8(node.origin);
        w.u8(node.trust);
    }
}
