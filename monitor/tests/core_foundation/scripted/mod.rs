//! A run loop that behaves as CoreFoundation's does, behind the C functions that the adapter and these tests call: so that
//! both run where there is no CoreFoundation.
//!
//! One pass of a run, as it was observed on the open-source CFRunLoop:
//!
//! ```text
//! BeforeTimers · BeforeSources · blocks · sources, blocks again if one was performed
//!      │                                    │ work in the queue: do not wait
//!      │ no source was performed            ▼
//! BeforeWaiting · wait · AfterWaiting ─▶ timers or queue · blocks
//! ```

mod objects;
mod pass;
mod run_loop;

pub(crate) use run_loop::{items, perform, post_to_queue};
