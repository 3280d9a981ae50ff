//! What a report file holds.

use crate::arguments::{check_size, give, text};
use crate::error::ff_monitor_error::{self, *};
use crate::error::{because, guarded};
use crate::kinds::{ff_cause, ff_kind, ff_outcome, ff_severity};
use freezeframe_report::read::{Record, Report};
use freezeframe_report::show::{Symbols, TextOptions, to_json, write_text};
use std::ffi::{CString, c_char};
use std::path::Path;

/// The records of a report file, in memory.
#[derive(Debug)]
pub struct ff_records {
    all: Vec<Kept>,
}

#[derive(Debug)]
struct Kept {
    record: Record,
    component: CString,
    uuid: CString,
    json: CString,
    text: CString,
}

/// A record's most important fields; all others are in its JSON. Texts are valid until `ff_records_free`.
#[derive(Debug)]
#[repr(C)]
pub struct ff_record {
    /// `sizeof(ff_record)`, to be set by the caller.
    pub size: u32,
    /// An `ff_kind`.
    pub kind: u32,
    /// An `ff_outcome`.
    pub outcome: u32,
    /// An `ff_severity`; 0 of a crash.
    pub severity: u32,
    /// An `ff_cause`; 0 of a crash.
    pub cause: u32,
    /// The signal's number, of a crash; else 0.
    pub signal: i32,
    /// How many threads there are.
    pub threads: u32,
    /// 1 if every byte of it was there and had the right checksum.
    pub complete: u32,
    /// Its number in the file.
    pub sequence: u64,
    /// How long the freeze lasted, as far as is known.
    pub duration_ns: u64,
    /// When it was detected, in nanoseconds since the beginning of 1970.
    pub wall_ns: u64,
    /// Identifies it.
    pub uuid: *const c_char,
    /// Which part of the program was watched.
    pub component: *const c_char,
    /// Zero.
    pub reserved: [u64; 4],
}

/// Reads what earlier runs have left in the file at `path` and makes room for new records: once, before a monitor opens the file. No
/// file is no error: there are no records then. Names of functions are looked up.
///
/// # Errors
/// `FF_MONITOR_ERROR_FILE`.
///
/// # Safety
/// `path` is null or a text; `records` is null or can be written to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ff_records_take(
    path: *const c_char,
    records: *mut *mut ff_records,
) -> ff_monitor_error {
    // SAFETY: as the caller promises.
    unsafe { read(path, records, freezeframe_monitor::recover) }
}

/// Reads the file at `path` and leaves it as it is. A monitor may write to it meanwhile. Names of functions are looked up.
///
/// # Errors
/// `FF_MONITOR_ERROR_FILE`, also if there is none.
///
/// # Safety
/// As of `ff_records_take`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ff_records_read(
    path: *const c_char,
    records: *mut *mut ff_records,
) -> ff_monitor_error {
    // SAFETY: as the caller promises.
    unsafe { read(path, records, |path| Report::open(path).map(|report| report.records)) }
}

unsafe fn read<E: std::fmt::Display>(
    path: *const c_char,
    out: *mut *mut ff_records,
    read: impl FnOnce(&Path) -> Result<Vec<Record>, E>,
) -> ff_monitor_error {
    guarded(|| {
        if out.is_null() {
            return Err(FF_MONITOR_ERROR_NULL);
        }
        // SAFETY: as the caller promises.
        let path = unsafe { text(path) }?;
        let records = read(Path::new(path)).map_err(|error| because(FF_MONITOR_ERROR_FILE, error))?;
        let mut symbols = Symbols::new();
        let all = records.into_iter().map(|record| keep(record, &mut symbols)).collect::<Result<_, _>>()?;
        // SAFETY: as the caller promises.
        unsafe { give(out, Box::into_raw(Box::new(ff_records { all }))) }
    })
}

fn keep(mut record: Record, symbols: &mut Symbols) -> Result<Kept, ff_monitor_error> {
    symbols.name_frames(&mut record);
    let json = to_json(&record).map_err(|error| because(FF_MONITOR_ERROR_SYSTEM, error))?;
    let mut text = Vec::new();
    let written = write_text(&mut text, &record, TextOptions::default());
    written.map_err(|error| because(FF_MONITOR_ERROR_SYSTEM, error))?;
    text.retain(|byte| *byte != 0);
    let c = |text: Vec<u8>| CString::new(text).unwrap_or_default();
    let (component, uuid) = (record.component.clone(), record.uuid.clone());
    Ok(Kept {
        component: c(component.into()),
        uuid: c(uuid.into()),
        json: c(json.into()),
        text: c(text),
        record,
    })
}

/// How many records there are; none for null.
///
/// # Safety
/// `records` is null, or was given and not freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ff_records_count(records: *const ff_records) -> usize {
    // SAFETY: as the caller promises.
    unsafe { records.as_ref() }.map_or(0, |records| records.all.len())
}

unsafe fn at<'a>(records: *const ff_records, index: usize) -> Result<&'a Kept, ff_monitor_error> {
    // SAFETY: as the caller promises.
    let records = unsafe { records.as_ref() }.ok_or(FF_MONITOR_ERROR_NULL)?;
    records.all.get(index).ok_or(FF_MONITOR_ERROR_NOT_FOUND)
}

/// The most important fields of a record, by its number from 0 on, the oldest first.
///
/// # Errors
/// `FF_MONITOR_ERROR_NOT_FOUND` behind the last.
///
/// # Safety
/// As of `ff_records_count`; `record` is null or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ff_record_at(
    records: *const ff_records,
    index: usize,
    record: *mut ff_record,
) -> ff_monitor_error {
    guarded(|| {
        // SAFETY: as the caller promises.
        let kept = unsafe { at(records, index) }?;
        // SAFETY: as the caller promises.
        unsafe { check_size(record) }?;
        // SAFETY: long enough, as was checked.
        unsafe { record.write(described(kept)) };
        Ok(())
    })
}

/// A record with every field, as one JSON object; null if there is no such record. Valid until `ff_records_free`.
///
/// # Safety
/// As of `ff_records_count`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ff_record_json(records: *const ff_records, index: usize) -> *const c_char {
    // SAFETY: as the caller promises.
    unsafe { at(records, index) }.map_or(std::ptr::null(), |kept| kept.json.as_ptr())
}

/// A record for people, with the stacks of all threads; null if there is no such record. Valid until `ff_records_free`.
///
/// # Safety
/// As of `ff_records_count`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ff_record_text(records: *const ff_records, index: usize) -> *const c_char {
    // SAFETY: as the caller promises.
    unsafe { at(records, index) }.map_or(std::ptr::null(), |kept| kept.text.as_ptr())
}

/// Frees the records and what they point to. Null is let be.
///
/// # Safety
/// `records` is null, or was given and not freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ff_records_free(records: *mut ff_records) {
    if !records.is_null() {
        // SAFETY: as the caller promises.
        drop(unsafe { Box::from_raw(records) });
    }
}

fn described(kept: &Kept) -> ff_record {
    let record = &kept.record;
    let episode = record.episode.as_ref();
    ff_record {
        size: size_of::<ff_record>() as u32,
        kind: ff_kind::from(record.kind) as u32,
        outcome: ff_outcome::from(record.outcome) as u32,
        severity: episode.map_or(0, |episode| ff_severity::from(episode.severity) as u32),
        cause: episode.map_or(0, |episode| ff_cause::from(episode.cause) as u32),
        signal: record.crash.as_ref().map_or(0, |crash| crash.signal),
        threads: record.threads.len().try_into().unwrap_or(u32::MAX),
        complete: record.complete.into(),
        sequence: record.sequence,
        duration_ns: record.duration_ns,
        wall_ns: record.times.wall_ns,
        uuid: kept.uuid.as_ptr(),
        component: kept.component.as_ptr(),
        reserved: [0; 4],
    }
}
