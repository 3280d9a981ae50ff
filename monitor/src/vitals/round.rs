//! One look at what was asked for.

use super::cpu::{Meter, ThreadMeters};
use super::platform::Sources;
use super::{
    AvailableMemory, CpuShare, Frames, MemoryPressure, OpenFiles, ProcessMemory, ThreadCpu, process_cpu_ns,
};
use crate::subject::Subject;
use freezeframe_unwind::threads::{ThreadId, cpu_time, facts, list};
use std::borrow::Borrow;
use std::panic::{AssertUnwindSafe, catch_unwind};

type Callback<T> = Box<dyn FnMut(&T) + Send>;

/// What was asked for.
#[derive(Default)]
pub(super) struct Asked {
    pub(super) process_cpu: Option<Callback<CpuShare>>,
    pub(super) threads: Option<Callback<[ThreadCpu]>>,
    pub(super) memory: Option<Callback<ProcessMemory>>,
    pub(super) available: Option<Callback<AvailableMemory>>,
    pub(super) pressure: Option<Callback<MemoryPressure>>,
    pub(super) frames: Option<(Frames, Callback<f64>)>,
    pub(super) files: Option<Callback<OpenFiles>>,
}

impl Asked {
    pub(super) fn is_nothing(&self) -> bool {
        let Self { process_cpu, threads, memory, available, pressure, frames, files } = self;
        process_cpu.is_none()
            && threads.is_none()
            && memory.is_none()
            && available.is_none()
            && pressure.is_none()
            && frames.is_none()
            && files.is_none()
    }
}

/// What is kept from one look to the next.
pub(super) struct Round {
    asked: Asked,
    sources: Sources,
    process: Meter,
    threads: ThreadMeters,
    ids: Vec<ThreadId>,
}

impl Round {
    pub(super) fn new(asked: Asked) -> Self {
        let (process, threads) = (Meter::default(), ThreadMeters::default());
        Self { asked, sources: Sources::open(Subject::Own), process, threads, ids: vec![ThreadId(0); 64] }
    }

    /// Reads what was asked for, and tells it for as long as that is `wanted`.
    pub(super) fn look(&mut self, now_ns: u64, wanted: &dyn Fn() -> bool) {
        let Self { asked, sources, process, threads, ids } = self;
        tell(&mut asked.process_cpu, wanted, || process.look(now_ns, process_cpu_ns()));
        tell(&mut asked.threads, wanted, || busiest(threads, ids, now_ns));
        tell(&mut asked.memory, wanted, || sources.process_memory());
        tell(&mut asked.available, wanted, || sources.available_memory());
        tell(&mut asked.pressure, wanted, || sources.memory_pressure());
        tell(&mut asked.files, wanted, || sources.open_files());
        if let Some((frames, callback)) = &mut asked.frames
            && let Some(rate) = frames.per_second(now_ns)
        {
            call(callback, wanted, &rate);
        }
    }
}

fn busiest(threads: &mut ThreadMeters, ids: &mut Vec<ThreadId>, now_ns: u64) -> Option<Vec<ThreadCpu>> {
    let listed = loop {
        let listed = list(ids).ok()?;
        if listed <= ids.len() {
            break ids.get(..listed).unwrap_or(&[]);
        }
        ids.resize(listed + listed / 4, ThreadId(0));
    };
    let busiest = threads.look(now_ns, listed.iter().map(|thread| (*thread, cpu_time(*thread))))?;
    let named = busiest.into_iter().map(|(thread, cpu)| {
        let name = String::from_utf8_lossy(facts(thread).name.bytes()).into_owned();
        ThreadCpu { thread, name, cpu }
    });
    Some(named.collect())
}

fn tell<T: ?Sized, R: Borrow<T>>(
    callback: &mut Option<Callback<T>>,
    wanted: &dyn Fn() -> bool,
    read: impl FnOnce() -> Option<R>,
) {
    if let Some(callback) = callback
        && let Some(value) = read()
    {
        call(callback, wanted, value.borrow());
    }
}

fn call<T: ?Sized>(callback: &mut Callback<T>, wanted: &dyn Fn() -> bool, value: &T) {
    if wanted() {
        let _ = catch_unwind(AssertUnwindSafe(|| callback(value)));
    }
}
