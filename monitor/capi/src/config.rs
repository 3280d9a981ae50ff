//! How a monitor is set up.

use crate::arguments::{check_size, optional_text, text};
use crate::error::{ff_monitor_error, guarded};
use crate::kinds::{ff_cause, ff_kind, ff_severity};
use freezeframe_monitor::{Builder, Freeze, Monitor, Phase, Values};
use freezeframe_report::file::Size;
use std::ffi::{CString, c_char, c_void};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// A point in a freeze's life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub enum ff_phase {
    /// The threshold has passed. The stacks were taken just now.
    FF_PHASE_DETECTED = 1,
    /// It goes on, and is more severe than before.
    FF_PHASE_WORSENED = 2,
    /// The loop has turned again.
    FF_PHASE_RECOVERED = 3,
    /// The monitor was stopped or paused before the end.
    FF_PHASE_LOST = 4,
}

/// A freeze, as the callback hears of it. Valid while the callback runs.
#[derive(Debug)]
#[repr(C)]
pub struct ff_freeze {
    /// The library's `sizeof(ff_freeze)`.
    pub size: u32,
    /// An `ff_phase`.
    pub phase: u32,
    /// An `ff_kind`.
    pub kind: u32,
    /// An `ff_severity`.
    pub severity: u32,
    /// An `ff_cause`.
    pub cause: u32,
    /// 1 if it is counted in an earlier record of the same stack and has none of its own.
    pub counted: u32,
    /// How long it has lasted.
    pub duration_ns: u64,
    /// How long after the threshold it was noticed; zero later on.
    pub detection_delay_ns: u64,
    /// The number of its record in the report file; zero if there is none.
    pub record: u64,
    /// Which part of the program is watched.
    pub component: *const c_char,
    /// Zero.
    pub reserved: [u64; 4],
}

/// Called on a thread of the monitor's, while the loop may still be frozen. May call every function, `ff_monitor_stop` too.
pub type ff_freeze_callback = Option<unsafe extern "C" fn(context: *mut c_void, freeze: *const ff_freeze)>;

/// How a monitor is set up. `ff_monitor_config_init` fills in what is usual.
#[derive(Debug)]
#[repr(C)]
pub struct ff_monitor_config {
    /// `sizeof(ff_monitor_config)`.
    pub size: u32,
    /// How long one timeout is; 0 is 50.
    pub interval_ms: u32,
    /// How many timeouts in a row make a freeze; 0 is 5.
    pub misses: u32,
    /// How many records are written in a day at most; 0 is 100.
    pub daily_cap: u32,
    /// Not 0: each freeze gets a record, also of a stack that has one.
    pub record_repeats: u32,
    /// Not 0: all threads are held at one time (Linux).
    pub hold_together: u32,
    /// Not 0: a loop that turns but has not waited for so long is reported, too.
    pub never_idle_ms: u32,
    /// Zero.
    pub reserved_word: u32,
    /// Which part of the program is watched: `main`. Needed. Texts are UTF-8, and copied.
    pub component: *const c_char,
    /// The program's identifier; null: the executable's name.
    pub app: *const c_char,
    /// The program's version; may be null.
    pub version: *const c_char,
    /// The file that takes the reports, made if there is none; null: none.
    pub report_file: *const c_char,
    /// Hears of freezes; may be null.
    pub on_freeze: ff_freeze_callback,
    /// Handed to `on_freeze`.
    pub context: *mut c_void,
    /// Zero.
    pub reserved: [u64; 8],
}

/// Fills `config` with zeros, which are the defaults, and its size.
///
/// # Safety
/// `config` is null or can be written to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ff_monitor_config_init(config: *mut ff_monitor_config) -> ff_monitor_error {
    guarded(|| {
        if config.is_null() {
            return Err(ff_monitor_error::FF_MONITOR_ERROR_NULL);
        }
        // SAFETY: all fields may be zero; as the caller promises.
        unsafe {
            config.write_bytes(0, 1);
            (*config).size = size_of::<ff_monitor_config>() as u32;
        }
        Ok(())
    })
}

/// A pointer of the program's that goes to another thread.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Context(*mut c_void);

// SAFETY: nothing is done with it but to hand it back; the header says on which thread.
unsafe impl Send for Context {}
// SAFETY: as above.
unsafe impl Sync for Context {}

impl Context {
    pub(crate) const fn new(pointer: *mut c_void) -> Self {
        Self(pointer)
    }

    /// A method, so that closures take the whole of it.
    pub(crate) const fn get(self) -> *mut c_void {
        self.0
    }
}

/// The values that the program has told, for the next report.
pub(crate) type SharedValues = Arc<Mutex<Values>>;

/// # Safety
/// `config` is null or valid.
pub(crate) unsafe fn builder(
    config: *const ff_monitor_config,
    values: &SharedValues,
) -> Result<Builder, ff_monitor_error> {
    // SAFETY: as the caller promises.
    unsafe { check_size(config) }?;
    // SAFETY: as the caller promises.
    let config = unsafe { &*config };
    // SAFETY: as the caller promises, of every text.
    let (component, app, version, file) = unsafe {
        let (app, version) = (optional_text(config.app)?, optional_text(config.version)?);
        (text(config.component)?, app, version, optional_text(config.report_file)?)
    };
    let mut builder = Monitor::builder(component).app(app.unwrap_or(""), version.unwrap_or(""));
    if config.interval_ms > 0 {
        builder = builder.interval(Duration::from_millis(config.interval_ms.into()));
    }
    if config.misses > 0 {
        builder = builder.misses(config.misses);
    }
    if config.daily_cap > 0 {
        builder = builder.daily_cap(config.daily_cap);
    }
    if config.never_idle_ms > 0 {
        builder = builder.never_idle(Duration::from_millis(config.never_idle_ms.into()));
    }
    if let Some(file) = file {
        builder = builder.report_file(file, Size::default());
    }
    if let Some(callback) = config.on_freeze {
        let (context, component) =
            (Context::new(config.context), CString::new(component).unwrap_or_default());
        builder = builder.on_freeze(move |freeze| {
            let freeze = described(freeze, &component);
            // SAFETY: the program promises a function that can be called with its own context.
            unsafe { callback(context.get(), &freeze) }
        });
    }
    let values = values.clone();
    let enrich =
        move |_: &_, into: &mut Values| *into = *values.lock().unwrap_or_else(PoisonError::into_inner);
    let builder = builder.record_repeats(config.record_repeats != 0);
    Ok(builder.hold_together(config.hold_together != 0).enrich(enrich))
}

fn described(freeze: &Freeze<'_>, component: &CString) -> ff_freeze {
    let phase = match freeze.phase {
        Phase::Detected => ff_phase::FF_PHASE_DETECTED,
        Phase::Worsened => ff_phase::FF_PHASE_WORSENED,
        Phase::Recovered => ff_phase::FF_PHASE_RECOVERED,
        _ => ff_phase::FF_PHASE_LOST,
    };
    ff_freeze {
        size: size_of::<ff_freeze>() as u32,
        phase: phase as u32,
        kind: ff_kind::from(freeze.kind) as u32,
        severity: ff_severity::from(freeze.severity) as u32,
        cause: ff_cause::from(freeze.cause) as u32,
        counted: freeze.counted.into(),
        duration_ns: freeze.duration.as_nanos() as u64,
        detection_delay_ns: freeze.detection_delay.as_nanos() as u64,
        record: freeze.record.as_ref().ok().copied().flatten().unwrap_or(0),
        component: component.as_ptr(),
        reserved: [0; 4],
    }
}
