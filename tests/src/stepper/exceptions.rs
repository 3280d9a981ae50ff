//! Where unwind tables cannot say what the shadow call stack says. Nothing else may differ.

use super::{Mismatch, Shadow};
use freezeframe_unwind::rule::FrameAddress;

/// By one instruction or two at either end of a function of its own: `push %rbp`, then `mov %rsp, %rbp`; `leave`, then `lea`
/// and `ret`.
pub(super) const REALIGNED: &str = "wrong tables: for a function that aligns its stack, gcc has rbp in memory before and after it is \
                             there; checked: that is the rule, and rbp still holds the caller's value";

const AHEAD: &str = "the tables of longjmp and of libgcc's last instructions name as caller where they will jump, over \
                     frames; checked: it is the walk of the instruction after the jump";
const LANDING_PAD: &str = "likewise, to a landing pad before which lies code with a frame of its own: it is looked up as a \
                           return address is; checked: it is where libgcc jumps, with that stack pointer";
const LANDING: &str = "libgcc has put a landing pad's registers where it had saved its caller's; checked: all frames up to \
                       its caller are right, and it lands within 512 instructions";

/// For so many instructions a difference waits for the jump over frames that explains it.
pub(super) const PATIENCE: u64 = 512;

/// A difference that a jump over frames may explain.
#[derive(Debug)]
pub(super) struct Pending {
    /// When it was met, counted in instructions.
    pub(super) step: u64,
    /// The code whose caller was not found.
    pub(super) name: String,
    pub(super) mismatch: Mismatch,
    /// What the walk found: all callers with their stack pointers.
    pub(super) found: Vec<(FrameAddress, u64)>,
    /// How many of the right frames begin at a function `_Unwind_…`, it included.
    pub(super) from_unwinder: usize,
}

impl Pending {
    /// Why the walk differs, if the program has now jumped over frames to `rip` with the stack pointer `rsp`.
    pub(super) fn explained_by(&self, (rip, rsp): (u64, u64), shadow: &Shadow) -> Option<&'static str> {
        let callers = shadow.callers().map(|caller| (caller.address, caller.sp));
        let ahead = match self.found.split_first() {
            Some(((address, sp), rest)) if (address.raw(), *sp) == (rip, rsp) => Some(rest),
            _ => None,
        };
        match (self.mismatch.right, ahead) {
            (1, Some(rest)) if rest.iter().copied().eq(callers) => Some(AHEAD),
            (1, Some(_)) if self.from_unwinder == 1 => Some(LANDING_PAD),
            _ if self.from_unwinder > 1 => Some(LANDING),
            _ => None,
        }
    }
}
