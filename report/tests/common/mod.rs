//! Real captures of the test's own process, in real files.
#![allow(dead_code)]

use freezeframe_report::encode::{About, AppState, Crash, Kind, Process, Strategy, System, Told, encode};
use freezeframe_report::ring::Owner;
use freezeframe_unwind::images::ImageTable;
use freezeframe_unwind::init::{Config, init};
use freezeframe_unwind::snapshot::{Options, Snapshot};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

pub(crate) type Threads = Snapshot<64, 2048>;

/// A folder that goes away.
pub(crate) struct Folder(PathBuf);

impl Folder {
    pub(crate) fn new() -> Self {
        use std::sync::atomic::{AtomicU32, Ordering};
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name =
            format!("freezeframe-test-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

impl AsRef<Path> for Folder {
    fn as_ref(&self) -> &Path {
        &self.0
    }
}

pub(crate) struct Captured {
    pub(crate) images: Box<ImageTable>,
    pub(crate) snapshot: Box<Threads>,
}

/// All threads of this process.
#[inline(never)]
pub(crate) fn capture() -> Captured {
    static TURN: Mutex<()> = Mutex::new(());
    let _turn = TURN.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let suspender = init(Config::default()).unwrap();
    // On their way to the heap these need more stack than a test's thread has.
    let boxes = std::thread::Builder::new()
        .stack_size(16 << 20)
        .spawn(|| Captured { images: Box::new(ImageTable::new()), snapshot: Box::new(Snapshot::new()) });
    let mut captured = boxes.unwrap().join().unwrap();
    captured.images.refresh().unwrap();
    let first = Some(freezeframe_unwind::threads::current());
    captured
        .snapshot
        .capture(&suspender, &captured.images, &Options { first, ..Options::default() })
        .unwrap();
    captured
}

/// How much of something to do: under an emulator a tenth of it, which takes as long.
pub(crate) fn portion(rounds: usize) -> usize {
    let runner = |(name, _): (String, _)| name.starts_with("CARGO_TARGET_") && name.ends_with("_RUNNER");
    if std::env::vars().any(runner) { rounds / 10 } else { rounds }
}

pub(crate) fn owner() -> Owner {
    Owner::this_process().unwrap()
}

pub(crate) fn about<'a>(uuid: u8) -> About<'a> {
    About {
        uuid: [uuid; 16],
        kind: Kind::Freeze,
        strategy: Strategy::RunLoop,
        crash: None,
        component: "the component",
        activity: 64,
        wall_ns: 1_700_000_000_123_456_789,
        started_ns: 10_000_000_000,
        detected_ns: 10_255_000_000,
        continuous_ns: 99_255_000_000,
        discounted_ns: 1_000_000,
        interval_ns: 50_000_000,
        misses: 5,
        late_ticks: 3,
        wakeups: 77,
        boot_id: [9; 16],
        process: Process {
            pid: std::process::id(),
            parent: 42,
            parent_name: b"parent",
            start_ticks: 4711,
            name: b"name",
            path: b"/the/path",
            app: "the.app",
            version: "1.2.3",
            debugged: true,
            app_state: AppState::Background,
            translated: true,
            cpu_ns: 1_234_567_890,
            footprint_bytes: 45_678_592,
        },
        system: System {
            os: b"an OS",
            build: b"24D70",
            kernel: b"6.1",
            model: b"a model",
            cores: 2,
            page_bytes: 4096,
            memory_bytes: 8_589_934_592,
        },
        told: Told::default(),
        vitals: None,
    }
}

/// A record of a crash as bytes.
pub(crate) fn crash_record(captured: &Captured, uuid: u8, crash: Crash<'_>, room: usize) -> Vec<u8> {
    let mut bytes = vec![0; room];
    let about = About { kind: Kind::Crash, strategy: Strategy::Signal, crash: Some(crash), ..about(uuid) };
    let encoded = encode(&mut bytes, &about, &captured.snapshot.view(), &captured.images);
    bytes.truncate(encoded.bytes);
    bytes
}

pub(crate) const SEGMENTATION_FAULT: Crash<'static> = Crash {
    signal: 11,
    code: 1,
    address: Some(0x1234),
    sender: None,
    name: "SIGSEGV",
    code_name: "SEGV_MAPERR",
};

/// A record as bytes.
pub(crate) fn record(captured: &Captured, uuid: u8, room: usize) -> Vec<u8> {
    let mut bytes = vec![0; room];
    let encoded = encode(&mut bytes, &about(uuid), &captured.snapshot.view(), &captured.images);
    bytes.truncate(encoded.bytes);
    bytes
}

/// What became known of a freeze later: three samples of two stacks, and why.
pub(crate) fn tail() -> Vec<u8> {
    use freezeframe_report::encode::{
        Cause, Episode, Evidence, EvidenceKind, NO_NODE, Node, Sample, Samples, Severity, encode_tail, labels,
    };
    let node = |address, parent, origin| Node { address, parent, origin, trust: 3 };
    let nodes =
        [node(0x1000, NO_NODE, 2), node(0, 0, 0), node(0x2000, 1, 2), node(0x3001, 2, 1), node(0x4002, 0, 1)];
    let sample = |at_ns, weight_ns, node, stack| Sample {
        at_ns,
        weight_ns,
        cpu_ns: 7,
        node,
        stack,
        state: 2,
        system_call: if node == 4 { u32::MAX } else { 202 },
    };
    let samples =
        [sample(150, 175, 3, 0), sample(200, 50, 4, 1), sample(250, 400, 4, 1), sample(900, 1, NO_NODE, 2)];
    let evidence = |kind, a, b, text: &'static str| Evidence { kind, a, b, text: text.as_bytes() };
    let episode = Episode {
        severity: Severity::Severe,
        cause: Cause::Lock,
        labels: labels::NESTED | labels::BACKGROUND,
        depth: 2,
        cpu_ns: 11,
        window_ns: 22,
        expected: "a reason",
        evidence: &[
            evidence(EvidenceKind::SystemCall, 202, 0x55, "futex"),
            evidence(EvidenceKind::CpuShare, 10_000_000, 100_000_000, ""),
        ],
    };
    let samples = Samples { samples: &samples, nodes: &nodes, moved: 4, left_out: 5 };
    let mut bytes = vec![0; 4096];
    let length = encode_tail(&mut bytes, &episode, &samples);
    bytes.truncate(length);
    bytes
}
