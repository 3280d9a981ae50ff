//! The sections of a record, in the order of their worth, into a buffer of the caller's.

use super::About;
use super::crash::write_crash;
use super::sections::{Context, Left, write_images, write_process, write_record, write_system, write_thread};
use super::told::write_told;
use super::writer::Writer;
use crate::layout::{self, SECTION_HEADER, Section};
use freezeframe_unwind::images::ImageTable;
use freezeframe_unwind::snapshot::View;

/// What [`encode`] made of a snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Encoded {
    /// How many bytes of the buffer the record takes.
    pub bytes: usize,
    /// Threads that did not fit, or had not fitted into the snapshot.
    pub dropped_threads: u32,
    /// Images that did not fit, or had not fitted into the table.
    pub dropped_images: u32,
    /// Frames that the snapshot had kept and the record has no room for; counted in their threads as left out.
    pub dropped_frames: u64,
}

/// Writes a record of `snapshot` to `out`. What does not fit is left out and counted: other threads' frames first, then
/// images that no frame is in, then threads; the thread that came first in the snapshot keeps its frames the longest.
///
/// # Signal safety
/// Safe.
pub fn encode(out: &mut [u8], about: &About<'_>, snapshot: &View<'_>, images: &ImageTable) -> Encoded {
    const END_BODY: usize = 16;
    // The last section always fits, if anything does.
    let reserved = SECTION_HEADER + END_BODY;
    let limit = out.len().saturating_sub(reserved);
    let context = Context { about, snapshot, images };
    let mut left = Left { threads: snapshot.dropped_threads as u32, images: images.dropped(), frames: 0 };
    let mut writer = Writer::new(out.get_mut(..limit).unwrap_or(&mut []));

    section(&mut writer, Section::Record, |w| write_record(w, &context));
    if let Some(crash) = &about.crash {
        section(&mut writer, Section::Crash, |w| write_crash(w, crash));
    }
    section(&mut writer, Section::Process, |w| write_process(w, &about.process));
    section(&mut writer, Section::System, |w| write_system(w, &about.system));
    if !about.told.is_empty() {
        section(&mut writer, Section::Told, |w| write_told(w, &about.told));
    }
    let (first, others) = match snapshot.threads.split_first() {
        Some((first, others)) => (Some(first), others),
        None => (None, snapshot.threads),
    };
    if let Some(first) = first {
        // Half of the room is for the first thread, a quarter for the images that frames are in.
        let most = writer.room() / 2;
        one_thread(&mut writer, &context, &mut left, first, true, most);
    }
    let most = writer.room() / 2;
    if !section(&mut writer, Section::Images, |w| write_images(w, &context, &mut left, most)) {
        left.images = images.dropped().saturating_add(images.images().len() as u32);
    }
    for (index, thread) in others.iter().enumerate() {
        let most = writer.room().checked_div(others.len().saturating_sub(index)).unwrap_or(0);
        one_thread(&mut writer, &context, &mut left, thread, false, most);
    }

    let used = writer.used();
    let mut writer = Writer::new(out.get_mut(used..).unwrap_or(&mut []));
    section(&mut writer, Section::End, |w| {
        w.u32(left.threads);
        w.u32(left.images);
        w.u64(left.frames);
    });
    Encoded {
        bytes: used.saturating_add(writer.used()),
        dropped_threads: left.threads,
        dropped_images: left.images,
        dropped_frames: left.frames,
    }
}

fn one_thread(
    writer: &mut Writer<'_>,
    context: &Context<'_>,
    left: &mut Left,
    thread: &freezeframe_unwind::snapshot::ThreadCapture,
    first: bool,
    most: usize,
) {
    let written = section(writer, Section::Thread, |w| write_thread(w, context, left, thread, first, most));
    if !written {
        left.threads = left.threads.saturating_add(1);
    }
}

/// Writes a section whole or not at all, and returns which.
pub(super) fn section(writer: &mut Writer<'_>, kind: Section, body: impl FnOnce(&mut Writer<'_>)) -> bool {
    let start = writer.used();
    writer.u32(kind as u32);
    writer.u32(0);
    writer.u32(0);
    let body_start = writer.used();
    body(writer);
    if !writer.fits() {
        writer.rewind(start);
        return false;
    }
    let length = writer.used().saturating_sub(body_start) as u32;
    writer.patch(start.saturating_add(4), &length.to_le_bytes());
    let head = writer.written(start).get(..8).unwrap_or(&[]);
    let crc = layout::crc(&[head, writer.written(body_start)]);
    writer.patch(start.saturating_add(8), &crc.to_le_bytes());
    true
}
