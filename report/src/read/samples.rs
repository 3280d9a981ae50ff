//! What the watched thread did while it was frozen.

use super::cursor::Cursor;
use super::decode::{frame_of, run_state};
use super::record::{Frame, Image};
use crate::encode::NO_NODE;
use crate::layout::NODE_BYTES;
use serde::Serialize;

/// The samples of a freeze, folded.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct SamplesInfo {
    /// The stacks, each once, the heaviest first.
    pub stacks: Vec<StackInfo>,
    /// The samples, in the order of time.
    pub samples: Vec<SampleInfo>,
    /// How many were thrown away, since the loop had turned while they were taken.
    pub moved: u32,
    /// How many frames found no place.
    pub left_out: u32,
}

/// A stack that was met once or more.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct StackInfo {
    /// How much of the freeze its samples stand for.
    pub weight_ns: u64,
    /// How many samples have these functions on their stacks.
    pub count: u32,
    /// The frames of the first of them, innermost first.
    pub frames: Vec<Frame>,
}

/// One look at the thread.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SampleInfo {
    /// When, since the last sign of life.
    pub at_ns: u64,
    /// The time that it stands for.
    pub weight_ns: u64,
    /// CPU time since the sample before.
    pub cpu_ns: u64,
    /// Its stack, as an index of [`SamplesInfo::stacks`]; none if there is none.
    pub stack: Option<usize>,
    /// The scheduler's state.
    pub state: &'static str,
    /// The number of the system call that it was in.
    pub system_call: Option<u32>,
}

/// No writer makes more samples: a bound for readers.
const MAX_SAMPLES: u32 = 4096;
/// Nor more frames in all folded stacks together: nodes can be shared by many.
const MAX_FRAMES: usize = 1 << 18;

/// A node of the tree of frames.
struct Node {
    address: u64,
    parent: u16,
    origin: u8,
    trust: u8,
}

pub(super) fn samples(c: &mut Cursor<'_>, pac_mask: u64) -> Option<SamplesInfo> {
    let (moved, left_out, count) = (c.u32()?, c.u32()?, c.u32()?);
    if count > MAX_SAMPLES {
        return None;
    }
    let samples = (0..count).map(|_| sample(c)).collect::<Option<Vec<_>>>()?;
    let nodes = c.u32()?;
    let nodes = c.take((nodes as usize).checked_mul(NODE_BYTES)?)?;
    let nodes = nodes.chunks_exact(NODE_BYTES).map(|bytes| node(&mut Cursor(bytes)));
    let nodes = nodes.collect::<Option<Vec<_>>>()?;
    let mut info = SamplesInfo { moved, left_out, ..SamplesInfo::default() };
    // By the writer's number of each stack.
    let (mut folded, mut room): (Vec<(u16, StackInfo)>, _) = (Vec::new(), MAX_FRAMES);
    for (sample, node, stack) in &samples {
        if *node == NO_NODE {
            continue;
        }
        match folded.iter_mut().find(|(number, _)| number == stack) {
            Some((_, known)) => {
                known.weight_ns = known.weight_ns.saturating_add(sample.weight_ns);
                known.count += 1;
            }
            None => {
                let frames = frames(&nodes, *node, pac_mask, room)?;
                room -= frames.len();
                folded.push((*stack, StackInfo { weight_ns: sample.weight_ns, count: 1, frames }));
            }
        }
    }
    folded.sort_by_key(|(_, stack)| std::cmp::Reverse(stack.weight_ns));
    info.samples = samples
        .into_iter()
        .map(|(sample, node, stack)| {
            let place = folded.iter().position(|(number, _)| *number == stack && node != NO_NODE);
            SampleInfo { stack: place, ..sample }
        })
        .collect();
    info.stacks = folded.into_iter().map(|(_, stack)| stack).collect();
    Some(info)
}

/// A sample, the node of its innermost frame, and the number of its stack.
fn sample(c: &mut Cursor<'_>) -> Option<(SampleInfo, u16, u16)> {
    let (at_ns, weight_ns, cpu_ns) = (c.u64()?, c.u64()?, c.u64()?);
    let (node, stack, state, call) = (c.u16()?, c.u16()?, c.u8()?, c.u32()?);
    let system_call = (call != u32::MAX).then_some(call);
    let state = run_state(state);
    Some((SampleInfo { at_ns, weight_ns, cpu_ns, stack: None, state, system_call }, node, stack))
}

fn node(c: &mut Cursor<'_>) -> Option<Node> {
    Some(Node { address: c.u64()?, parent: c.u16()?, origin: c.u8()?, trust: c.u8()? })
}

/// From a node outward. None if that leads nowhere, or in a circle (callers come before whom they call), or has no room.
fn frames(nodes: &[Node], from: u16, pac_mask: u64, room: usize) -> Option<Vec<Frame>> {
    let mut frames = Vec::new();
    let mut next = from;
    while next != NO_NODE {
        let node = nodes.get(usize::from(next))?;
        if node.parent != NO_NODE && node.parent >= next {
            return None;
        }
        if node.origin != 0 {
            if frames.len() == room {
                return None;
            }
            frames.push(frame_of(node.address, 0, None, node.origin, node.trust, pac_mask));
        }
        next = node.parent;
    }
    Some(frames)
}

impl SamplesInfo {
    /// Finds the images that frames are in.
    pub(super) fn place(&mut self, images: &[Image]) {
        let mut by_address: Vec<&Image> = images.iter().collect();
        by_address.sort_by_key(|image| image.load_address);
        for frame in self.stacks.iter_mut().flat_map(|stack| &mut stack.frames) {
            let behind = by_address.partition_point(|image| image.load_address <= frame.lookup);
            let last = behind.checked_sub(1).and_then(|at| by_address.get(at));
            let found = last.filter(|image| frame.lookup - image.load_address < image.size);
            frame.image = found.map(|image| image.index);
        }
    }

    /// All samples' weights together.
    pub fn weight_ns(&self) -> u64 {
        self.samples.iter().fold(0, |sum, sample| sum.saturating_add(sample.weight_ns))
    }
}
