//! The text form, for people: laid out like Apple's crash reports, with what a freeze needs in its place.

use super::apple::{
    numbered, write_crashed_thread, write_exception, write_frame, write_head, write_images, write_registers,
    write_thread_head,
};
use super::episode::write_samples;
use super::list::duration;
use super::notes::{thread_notes, write_details};
use crate::read::{Image, Record, Thread};
use std::io::{Result, Write};

/// Whose registers to print.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RegistersOf {
    /// The watched thread's.
    #[default]
    Watched,
    /// Every thread's.
    All,
}

/// How to write a record as text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TextOptions {
    /// Whose registers to print.
    pub registers: RegistersOf,
    /// Emphasis for a terminal.
    pub color: bool,
}

/// Writes a record as text.
///
/// # Errors
/// The output's.
pub fn write_text(out: &mut dyn Write, record: &Record, options: TextOptions) -> Result<()> {
    write_head(out, record)?;
    write_exception(out, record)?;
    write_crashed_thread(out, record)?;
    writeln!(out)?;
    write_details(out, record)?;
    writeln!(out)?;
    if record.samples.as_ref().is_some_and(|samples| !samples.stacks.is_empty()) {
        write_samples(out, record)?;
        writeln!(out)?;
    }
    for (index, thread) in record.threads.iter().enumerate() {
        write_thread(out, record, index, thread, options)?;
    }
    for (index, thread) in record.threads.iter().enumerate() {
        if thread.watched || options.registers == RegistersOf::All {
            write_registers(out, record, index, thread)?;
        }
    }
    write_images(out, record, build_id)
}

/// The whole build id.
fn build_id(image: &Image) -> String {
    if image.build_id.is_empty() { "no-build-id".to_owned() } else { image.build_id.clone() }
}

fn write_thread(
    out: &mut dyn Write,
    record: &Record,
    index: usize,
    thread: &Thread,
    options: TextOptions,
) -> Result<()> {
    let (bold, plain) = if options.color && thread.watched { ("\x1b[1m", "\x1b[0m") } else { ("", "") };
    write!(out, "{bold}")?;
    write_thread_head(out, index, thread)?;
    write!(out, "{plain}")?;
    let call = thread.system_call.as_ref();
    let call = call.map_or_else(String::new, |call| format!(", in system call {}", call.number));
    writeln!(out, "# tid {}, {}{call}, {} CPU", thread.id, thread.state, duration(thread.cpu_ns))?;
    for note in thread_notes(record, thread) {
        writeln!(out, "# {note}")?;
    }
    for (position, (number, frame)) in numbered(thread).enumerate() {
        if thread.omitted > 0 && position == thread.omitted_after as usize {
            writeln!(out, "... {} frames left out ...", thread.omitted)?;
        }
        write_frame(out, record, number, frame)?;
    }
    writeln!(out)
}
