//! From sections to a [`Record`]. `FORMAT.md` lists the same fields.

use super::crash::crash;
use super::cursor::Cursor;
use super::episode::episode;
use super::locks::{Waits, lock};
use super::record::*;
use super::samples::samples;
use super::slot::Slot;
use super::told::told;
use super::vitals::vitals;
use crate::encode::{AppState, Kind, Strategy};
use crate::layout::{FRAME_BYTES, NO_IMAGE, Outcome, Section};
use freezeframe_arch::{Architecture, PacMask, Registers};
use freezeframe_unwind::suspend::SuspendError;
use freezeframe_unwind::walk::StopReason;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

/// Makes a record of a slot. None if the section that says what it is about is missing.
pub(super) fn decode(slot: &Slot<'_>, index: usize, alive: bool) -> Option<Record> {
    let mut sections = slot.sections.iter();
    let Some((Section::Record, body)) = sections.next() else { return None };
    let mut record = about(&mut Cursor(body))?;
    (record.slot, record.sequence) = (index, slot.sequence);
    record.faults.clone_from(&slot.faults);
    for (section, body) in sections {
        let mut cursor = Cursor(body);
        let decoded = match section {
            Section::Record => None,
            Section::Process => process(&mut cursor).map(|process| record.process = Some(process)),
            Section::System => system(&mut cursor).map(|system| record.system = Some(system)),
            Section::Thread => thread(&mut cursor, &record).map(|thread| record.threads.push(thread)),
            Section::Images => images(&mut cursor, record.architecture).map(|images| record.images = images),
            Section::Crash => crash(&mut cursor).map(|crash| record.crash = Some(crash)),
            Section::Episode => episode(&mut cursor).map(|episode| record.episode = Some(episode)),
            Section::Samples => {
                samples(&mut cursor, record.pac_mask).map(|samples| record.samples = Some(samples))
            }
            Section::Told => told(&mut cursor).map(|told| record.told = Some(told)),
            Section::Vitals => vitals(&mut cursor).map(|vitals| record.vitals = Some(vitals)),
            Section::End => end(&mut cursor).map(|dropped| record.dropped = Some(dropped)),
        };
        if decoded.is_none() {
            record.faults.push(format!("a section ({section:?}) makes no sense"));
        }
    }
    let waits = Waits::of(&record.threads);
    record.blocked_by = record.watched().map_or_else(Vec::new, |thread| waits.chain(thread.id));
    record.deadlocks = waits.rings(record.threads.iter().map(|thread| thread.id));
    if record.dropped.is_none() {
        record.faults.push("it is cut off: its last section is missing".into());
    }
    if let Some(live) = slot.live {
        record.duration_ns = live.duration_ns;
        record.repeats = live.repeats;
        record.outcome = match live.outcome {
            Outcome::Recovered => RecordOutcome::Recovered,
            Outcome::Unknown => RecordOutcome::Unknown,
            Outcome::Ongoing if alive => RecordOutcome::Ongoing,
            Outcome::Ongoing => RecordOutcome::Killed,
        };
    } else {
        record.outcome = if alive { RecordOutcome::Ongoing } else { RecordOutcome::Killed };
    }
    let Record { samples, images, .. } = &mut record;
    if let Some(samples) = samples {
        samples.place(images);
    }
    record.complete = record.faults.is_empty();
    Some(record)
}

fn about(c: &mut Cursor<'_>) -> Option<Record> {
    let uuid = uuid::Uuid::from_bytes(c.array()?).to_string();
    let (kind, strategy, architecture, activity) = (c.u8()?, c.u8()?, c.u8()?, c.u8()?);
    let (wall_ns, started_ns, detected_ns) = (c.u64()?, c.u64()?, c.u64()?);
    let (capture_started_ns, capture_ended_ns) = (c.u64()?, c.u64()?);
    let (held_total_ns, held_longest_ns) = (c.u64()?, c.u64()?);
    let threshold = Threshold { interval_ns: c.u64()?, misses: c.u32()? };
    let (discounted_ns, late_ticks, wakeups) = (c.u64()?, c.u64()?, c.u64()?);
    let boot_id = uuid::Uuid::from_bytes(c.array()?).to_string();
    let pac_mask = c.u64()?;
    let component = c.text()?;
    let continuous_ns = known(c.u64());
    let (together, why_not_together) = (c.u8().unwrap_or(0), c.u8().unwrap_or(0));
    let set =
        SetInfo { how: set_how(together), why_not: why_not(why_not_together), ns: c.u64().unwrap_or(0) };
    let lasted = detected_ns.saturating_sub(started_ns).saturating_sub(discounted_ns);
    let limit = threshold.interval_ns.saturating_mul(threshold.misses.into());
    Some(Record {
        uuid,
        sequence: 0,
        slot: 0,
        complete: false,
        faults: Vec::new(),
        kind: match kind {
            k if k == Kind::Freeze as u8 => RecordKind::Freeze,
            k if k == Kind::Crash as u8 => RecordKind::Crash,
            k if k == Kind::NeverIdle as u8 => RecordKind::NeverIdle,
            k if k == Kind::CpuHigh as u8 => RecordKind::CpuHigh,
            _ => RecordKind::Unknown,
        },
        strategy: match strategy {
            s if s == Strategy::RunLoop as u8 => RecordStrategy::RunLoop,
            s if s == Strategy::Ping as u8 => RecordStrategy::Ping,
            s if s == Strategy::Signal as u8 => RecordStrategy::Signal,
            s if s == Strategy::CpuTime as u8 => RecordStrategy::CpuTime,
            s if s == Strategy::Peek as u8 => RecordStrategy::Peek,
            _ => RecordStrategy::Unknown,
        },
        crash: None,
        component,
        last_activity: activity_name(activity),
        outcome: RecordOutcome::Unknown,
        duration_ns: lasted,
        repeats: Repeats::default(),
        episode: None,
        samples: None,
        told: None,
        vitals: None,
        times: Times {
            wall: wall_time(wall_ns),
            wall_ns,
            started_ns,
            detected_ns,
            continuous_ns,
            discounted_ns,
            detection_delay_ns: lasted.saturating_sub(limit),
            capture_started_ns,
            capture_ended_ns,
            held_total_ns,
            held_longest_ns,
        },
        set,
        threshold,
        late_ticks,
        wakeups,
        boot_id,
        pac_mask,
        architecture: architecture_of(architecture).map_or("unknown", Architecture::name),
        process: None,
        system: None,
        threads: Vec::new(),
        blocked_by: Vec::new(),
        deadlocks: Vec::new(),
        images: Vec::new(),
        dropped: None,
    })
}

/// A number that is zero if it is not known; records of earlier versions do not have it.
fn known(number: Option<u64>) -> Option<u64> {
    number.filter(|number| *number != 0)
}

/// The names of `CFRunLoopActivity`.
fn activity_name(activity: u8) -> Option<&'static str> {
    Some(match activity {
        1 => "Entry",
        2 => "BeforeTimers",
        4 => "BeforeSources",
        32 => "BeforeWaiting",
        64 => "AfterWaiting",
        128 => "Exit",
        _ => return None,
    })
}

fn wall_time(ns: u64) -> String {
    let time = OffsetDateTime::from_unix_timestamp_nanos(ns.into()).ok();
    time.and_then(|time| time.format(&Rfc3339).ok()).unwrap_or_else(|| format!("{ns} ns after 1970"))
}

fn architecture_of(code: u8) -> Option<Architecture> {
    match code {
        1 => Some(Architecture::X86_64),
        2 => Some(Architecture::Arm64),
        _ => None,
    }
}

fn process(c: &mut Cursor<'_>) -> Option<ProcessInfo> {
    let (pid, parent, start_ticks, debugged) = (c.u32()?, c.u32()?, c.u64()?, c.u8()? != 0);
    let (name, path, parent_name) = (c.text()?, c.text()?, c.text()?);
    Some(ProcessInfo {
        pid,
        parent,
        parent_name,
        start_ticks,
        name,
        path,
        app: c.text()?,
        version: c.text()?,
        debugged,
        // From here on a record of version 1.0 has nothing.
        app_state: match AppState::from_code(c.u8().unwrap_or(0)) {
            AppState::Foreground => "foreground",
            AppState::Background => "background",
            AppState::Unknown => "unknown",
        },
        translated: c.u8().unwrap_or(0) != 0,
        cpu_ns: known(c.u64()),
        footprint_bytes: known(c.u64()),
    })
}

fn system(c: &mut Cursor<'_>) -> Option<SystemInfo> {
    let (cores, page_bytes) = (c.u32()?, c.u32()?);
    let (os, kernel, model) = (c.text()?, c.text()?, c.text()?);
    let (build, memory_bytes) = (c.text().unwrap_or_default(), known(c.u64()));
    Some(SystemInfo { os, build, kernel, model, cores, page_bytes, memory_bytes })
}

fn thread(c: &mut Cursor<'_>, record: &Record) -> Option<Thread> {
    use crate::encode::thread_flags as flags;
    let (id, flags_set, state, held, error) = (c.u32()?, c.u8()?, c.u8()?, c.u8()?, c.u8()?);
    let held = HeldInfo { how: held_how(held), why_not: why_not(error), ns: c.u64()? };
    let (cpu_ns, user_ticks, system_ticks) = (c.u64()?, c.u64()?, c.u64()?);
    let number = c.u32()?;
    let arguments = (0..6).map(|_| c.u64()).collect::<Option<Vec<u64>>>()?;
    let (stack_end, copies, name) = (c.u64()?, c.u32()?, c.text()?);
    let register_count = c.u16()?;
    let values = (0..register_count).map(|_| c.u64()).collect::<Option<Vec<u64>>>()?;
    let architecture = [Architecture::X86_64, Architecture::Arm64].into_iter();
    let names = architecture.filter(|a| a.name() == record.architecture).flat_map(Registers::names);
    // Of a thread that was not stopped the others are not known.
    let known = |name: &str| held.how != HeldHow::Peek || matches!(name, "rsp" | "rip" | "sp" | "pc");
    let registers = names.copied().zip(values).filter(|(name, _)| known(name)).collect();
    let (stop_code, stop_address) = (c.u8()?, c.u64()?);
    let stop = StopReason::from_code(stop_code, stop_address);
    let (first, period, times) = (c.u64()?, c.u32()?, c.u64()?);
    let (omitted_after, omitted, frame_count) = (c.u32()?, c.u64()?, c.u32()?);
    // The count is bounded by the bytes that are there before anything is allocated for it.
    let frames = c.take((frame_count as usize).checked_mul(FRAME_BYTES)?)?;
    let frames = frames.chunks_exact(FRAME_BYTES).map(|bytes| frame(&mut Cursor(bytes), record.pac_mask));
    let frames = frames.collect::<Option<Vec<Frame>>>()?;
    let lock = lock(c);
    Some(Thread {
        id,
        name,
        watched: flags_set & flags::FIRST != 0,
        main: flags_set & flags::MAIN != 0,
        moved: flags_set & flags::MOVED != 0,
        state: run_state(state),
        held,
        cpu_ns,
        user_ticks,
        system_ticks,
        lock,
        system_call: (number != u32::MAX).then_some(SystemCall { number, arguments }),
        stack_end,
        copies,
        registers,
        stop: Stop {
            code: stop_code,
            address: stop_address,
            text: match (stop_code, stop) {
                (0, _) => "not walked".into(),
                (_, Some(stop)) => stop.to_string(),
                (code, None) => format!("reason {code}"),
            },
        },
        repeat: (times > 0).then_some(Repeat { first, period, times }),
        omitted_after,
        omitted,
        frames,
    })
}

fn held_how(code: u8) -> HeldHow {
    match code {
        0 => HeldHow::Not,
        1 => HeldHow::Signal,
        2 => HeldHow::Torn,
        3 => HeldHow::Itself,
        4 => HeldHow::Mach,
        5 => HeldHow::Ptrace,
        6 => HeldHow::Peek,
        _ => HeldHow::Unknown,
    }
}

fn set_how(code: u8) -> SetHow {
    match code {
        0 => SetHow::OneByOne,
        1 => SetHow::Together,
        2 => SetHow::NotTogether,
        _ => SetHow::Unknown,
    }
}

fn why_not(code: u8) -> Option<String> {
    if code == 0 {
        return None;
    }
    Some(SuspendError::from_code(code).map_or_else(|| format!("reason {code}"), |error| error.to_string()))
}

pub(super) fn run_state(code: u8) -> &'static str {
    match code {
        1 => "running",
        2 => "sleeping",
        3 => "uninterruptible",
        4 => "stopped",
        5 => "dead",
        6 => "idle",
        _ => "unknown",
    }
}

fn frame(c: &mut Cursor<'_>, pac_mask: u64) -> Option<Frame> {
    let (pc, sp, image, origin, trust) = (c.u64()?, c.u64()?, c.u32()?, c.u8()?, c.u8()?);
    let image = (image != NO_IMAGE).then_some(image);
    Some(frame_of(pc, sp, image, origin, trust, pac_mask))
}

/// A frame of its fields.
pub(super) fn frame_of(pc: u64, sp: u64, image: Option<u32>, origin: u8, trust: u8, pac_mask: u64) -> Frame {
    let address = PacMask::new(pac_mask).strip(pc);
    let origin = match origin {
        1 => "instruction",
        2 => "return",
        3 => "signal",
        _ => "unknown",
    };
    let trust = match trust {
        1 => "context",
        2 => "link-register",
        3 => "cfi",
        4 => "compact",
        5 => "frame-pointer",
        6 => "scan",
        _ => "unknown",
    };
    let lookup = if origin == "return" { address.wrapping_sub(1) } else { address };
    Frame { pc, address, lookup, sp, image, origin, trust, symbol: None }
}

fn images(c: &mut Cursor<'_>, architecture: &'static str) -> Option<Vec<Image>> {
    let count = c.u32()?;
    // Not allocated ahead: the count may be anything.
    let mut images = (0..count).map(|_| image(c, architecture)).collect::<Option<Vec<Image>>>()?;
    images.sort_by_key(|image| image.index);
    Some(images)
}

fn image(c: &mut Cursor<'_>, architecture: &'static str) -> Option<Image> {
    use crate::encode::image_flags as flags;
    let (index, kind_and_flags, ranges) = (c.u32()?, c.u8()?, c.u8()?);
    let (load_address, size, slide) = (c.u64()?, c.u64()?, c.u64()?);
    let range = |c: &mut Cursor<'_>| Some((format!("{:#x}", c.u64()?), format!("{:#x}", c.u64()?)));
    let code = (0..ranges).map(|_| range(c)).collect::<Option<Vec<_>>>()?;
    let build_id = c.bytes()?;
    let has = |flag| kind_and_flags & flag != 0;
    let kind = match kind_and_flags & !(flags::VARIANT | flags::IN_SHARED_CACHE) {
        1 => "elf",
        2 => "vdso",
        3 => "anonymous",
        4 => "mach-o",
        _ => "unknown",
    };
    Some(Image {
        index,
        kind,
        architecture: match architecture {
            "arm64" if has(flags::VARIANT) => "arm64e",
            "x86_64" if has(flags::VARIANT) => "x86_64h",
            usual => usual,
        },
        in_shared_cache: has(flags::IN_SHARED_CACHE),
        build_id: build_id.iter().map(|byte| format!("{byte:02x}")).collect(),
        debug_id: Image::debug_id_of(kind, build_id),
        load_address,
        size,
        slide,
        code,
        path: c.text()?,
    })
}

fn end(c: &mut Cursor<'_>) -> Option<Dropped> {
    Some(Dropped { threads: c.u32()?, images: c.u32()?, frames: c.u64()? })
}
