//! Who waits for whom, in words.

use super::apple::field;
use super::clean::Clean;
use crate::read::{LockInfo, LockOwner, LockStep, Record, Thread};
use std::io::{Result, Write};

/// Whom the watched thread waits for, and the rings in which threads wait for one another.
pub(super) fn write_locks(out: &mut dyn Write, record: &Record) -> Result<()> {
    for step in &record.blocked_by {
        field(out, "Blocked By", step_text(record, step))?;
    }
    for ring in &record.deadlocks {
        let (count, s) = (ring.len(), if ring.len() == 1 { "" } else { "s" });
        field(out, "Deadlock", format_args!("{count} thread{s}, none of which can go on"))?;
        for step in ring {
            writeln!(out, "  {}", step_text(record, step))?;
        }
    }
    Ok(())
}

fn step_text(record: &Record, step: &LockStep) -> String {
    let (waits, holds) = (who(record, step.thread), who(record, step.waits_for));
    if step.thread == step.waits_for {
        return format!("{waits} waits for the {} at {:#x}, which it holds itself", step.kind, step.address);
    }
    format!("{waits} waits for the {} at {:#x} of {holds}", step.kind, step.address)
}

/// What a thread waits for.
pub(super) fn lock_note(record: &Record, lock: &LockInfo) -> String {
    let owner = match lock.owner {
        LockOwner::Unknown => "its owner is not known".to_owned(),
        LockOwner::Thread(id) => format!("held by {}", who(record, id)),
        LockOwner::Ended(id) => format!("held by a thread that has ended (tid {id})"),
        LockOwner::Readers(1) => "held by a reader that is not known".to_owned(),
        LockOwner::Readers(count) => format!("held by {count} readers that are not known"),
    };
    format!("it waits for a lock ({}) at {:#x}, {owner}", lock.kind, lock.address)
}

/// `thread 3 (name, tid 4711)`.
fn who(record: &Record, id: u32) -> String {
    let found = record.threads.iter().enumerate().find(|(_, thread)| thread.id == id);
    let Some((index, Thread { name, .. })) = found else { return format!("a thread (tid {id})") };
    if name.is_empty() {
        format!("thread {index} (tid {id})")
    } else {
        format!("thread {index} ({}, tid {id})", Clean(name))
    }
}
