//! Suspension on Linux: by a signal handshake, by a helper that traces, or none at all, by a peek. Of these three the policy
//! chooses. This is the handshake:
//!
//! ```text
//! capturer                      word                     target (in the signal handler)
//! ────────                      ────                     ──────
//! take the session's lock       IDLE
//! write target, deadline
//! store                    ──▶  REQUEST
//! tgkill ──────────────────────────────────────────────▶ is it mine, for me?
//! wait to a deadline            FILLING  ◀── CAS         copy the registers
//!                               PARKED   ◀── CAS, wake
//! copy the stack                                         wait, to a deadline of its own
//! CAS, wake                ──▶  RELEASED                 return
//!                               EXPIRED  ◀── CAS         … or at the deadline, whatever the capturer does
//! ```
//!
//! The word holds a generation beside the state, so that no step can be taken for another round's. A request that was
//! not heard in time is withdrawn by `CAS REQUEST → IDLE`; one that is being filled is marked `ABANDONED`, and its
//! target says when it is done with the registers. A late or stray signal finds no request for its thread and returns.

mod calls;
mod handshake;
mod peek;
mod policy;
mod ptrace;
mod signal;
mod stack_room;
mod word;

pub(crate) use calls::{goes_on, goes_on_elsewhere};
pub(crate) use handshake::install;
pub use handshake::{Session, Suspended, Suspender};
pub(crate) use peek::Peek;
pub(crate) use policy::{System, learn_refusal, order};
pub use ptrace::Registration;
pub(crate) use ptrace::{Helped, HelperError, Request, Room, Seat, SeatState, Traced, hold_together};
pub(crate) use stack_room::has_room_for_signal;
