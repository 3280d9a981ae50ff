//! gdb as a second witness: programs of the distribution are stopped at random moments, and gdb's backtraces of all their
//! threads are compared with ours.
#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

use freezeframe_tests::stepper::Images;
use freezeframe_tests::witness::{GdbThread, Target, WalkedThread, ask_gdb};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, SystemTime};

/// How often each program is stopped.
const STOPS: u32 = if cfg!(debug_assertions) { 2 } else { 5 };

/// Programs that neither end nor write by themselves, and what they are given. `FILE` is a file of this crate.
const PROGRAMS: &[(&str, &[&str])] = &[
    ("bash", &["-c", "f() { local n=$1; (( n > 0 )) && f $((n - 1)); }; while :; do f 20; done"]),
    ("dash", &["-c", "while :; do i=$((i + 1)); done"]),
    ("sleep", &["1000"]),
    ("cat", &[]),
    ("tail", &["-f", "FILE"]),
    ("perl", &["-e", "sub f { my $n = shift; $n ? f($n - 1) . sqrt($n) : sprintf '%g', 1.5 } f(30) while 1"]),
    ("python3", &["-c", PYTHON]),
    // Threads come and go: some are stopped in `clone`, or before they have done anything.
    (
        "python3",
        &["-c", "import threading\nwhile 1: t = threading.Thread(target=id, args=(1,)); t.start(); t.join()"],
    ),
    ("sort", &["-m", "/dev/urandom", "/dev/urandom"]),
    ("find", &["/proc", "/usr", "-name", "no such name", "-size", "+1G"]),
    ("dd", &["if=/dev/zero", "of=/dev/null", "bs=1000"]),
    ("git", &["hash-object", "--stdin"]),
    ("gdb", &["-nx", "-q"]),
    ("vim", &["-u", "NONE", "-es", "-c", "while 1 | call sort(range(9), 'n') | endwhile"]),
    ("gzip", &["-9", "-c", "/dev/urandom"]),
    ("xz", &["-T2", "-c", "/dev/urandom"]),
    ("openssl", &["speed", "-seconds", "60", "sha256"]),
    ("sqlite3", &[":memory:", SQL]),
    ("mawk", &["BEGIN { while (1) s = substr(sprintf(\"%.9f\", sin(i++)), 1, 5) }"]),
];

const PYTHON: &str = "import threading, re, json
def f(n): return f(n - 1) + len(json.dumps([n, 'x'])) if n else len(sorted('cba', key=lambda c: re.sub('a', 'b', c)))
def loop():
    while True: f(20)
threading.Thread(target=loop, daemon=True).start()
loop()";
const SQL: &str = "with recursive n(i) as (select 1 union all select i + 1 from n) \
                   select count(*) from n where i % 7 = 3 and hex(i) like '%FF'";

/// Numbers that differ from run to run, by a linear congruence.
struct Moments(u64);

impl Moments {
    fn new() -> Self {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        Self(now.as_nanos() as u64)
    }

    fn next(&mut self) -> Duration {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        Duration::from_micros(1000 + (self.0 >> 33) % 80_000)
    }
}

#[derive(Debug, Default)]
struct Tally {
    stops: u32,
    threads: u32,
    frames: usize,
    /// Differences whose cause is known.
    explained: Vec<String>,
    differences: Vec<String>,
}

impl Tally {
    fn add(&mut self, other: Self) {
        self.stops += other.stops;
        self.threads += other.threads;
        self.frames += other.frames;
        self.explained.extend(other.explained);
        self.differences.extend(other.differences);
    }

    fn print(&self, name: &str) {
        let Self { stops, threads, frames, explained, differences } = self;
        println!(
            "{name}: {stops} stops, {threads} stacks, {frames} frames, {} differ, {} more with a known cause",
            differences.len(),
            explained.len()
        );
        explained.iter().chain(differences).for_each(|difference| println!("    {difference}"));
    }
}

fn path(name: &str) -> Option<std::path::PathBuf> {
    ["/usr/bin", "/bin"].iter().map(|folder| Path::new(folder).join(name)).find(|path| path.exists())
}

fn witness(path: &Path, arguments: &[&str], moments: &mut Moments) -> Result<Tally, String> {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml");
    let arguments = arguments.iter().map(|argument| if *argument == "FILE" { file } else { argument });
    let mut command = Command::new(path);
    // A pipe that stays open: whoever reads from it waits.
    command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut target = Target::start(&mut command).map_err(|error| error.to_string())?;
    let mut tally = Tally::default();
    // Past the loader, as a rule; not always.
    std::thread::sleep(Duration::from_millis(30));
    for _ in 0..STOPS {
        std::thread::sleep(moments.next());
        if !target.stop() {
            return Err(format!("it has ended after {} stops", tally.stops));
        }
        let (ours, images) = target.walk().map_err(|error| format!("it cannot be traced: {error}"))?;
        let theirs = ask_gdb(target.pid())?;
        let (again, _) = target.walk().map_err(|error| format!("it cannot be traced: {error}"))?;
        target.go_on();
        tally.stops += 1;
        for (id, ours) in &ours {
            let stood_still = again.get(id).is_some_and(|again| again.frames == ours.frames);
            let Some(theirs) = theirs.get(id).filter(|_| stood_still) else {
                tally.differences.push(format!("thread {id} did not stand still or is unknown to gdb"));
                continue;
            };
            tally.threads += 1;
            tally.frames += ours.frames.len();
            if ours.pcs() != theirs.pcs() {
                let text = difference(ours, theirs, &images);
                match explanation(ours, theirs, &images) {
                    Some(why) => tally.explained.push(format!("{why}: {text}")),
                    None => tally.differences.push(text),
                }
            }
        }
    }
    Ok(tally)
}

/// How many of the innermost frames are equal.
fn equal_frames(ours: &WalkedThread, theirs: &GdbThread) -> usize {
    ours.pcs().iter().zip(theirs.pcs()).take_while(|(a, b)| **a == *b).count()
}

/// Why both may differ without either being wrong by the tables.
fn explanation(ours: &WalkedThread, theirs: &GdbThread, images: &Images) -> Option<&'static str> {
    let last_equal = ours.frames.get(equal_frames(ours, theirs).checked_sub(1)?)?;
    (!images.has_tables(last_equal.address.lookup()))
        .then_some("code without unwind tables, where gdb reads the instructions")
}

/// Both stacks side by side, from the last equal frame on.
fn difference(ours: &WalkedThread, theirs: &GdbThread, images: &Images) -> String {
    let (our_pcs, their_pcs) = (ours.pcs(), theirs.pcs());
    let equal = equal_frames(ours, theirs);
    let name = |pc: Option<&u64>| pc.map_or("nothing".into(), |pc| format!("{pc:#x} {}", images.place(*pc)));
    let mut text = format!(
        "{equal} equal of our {} ({}) and gdb's {} ({})",
        our_pcs.len(),
        ours.stop,
        their_pcs.len(),
        theirs.stop
    );
    for index in equal.saturating_sub(1)..(equal + 3).min(our_pcs.len().max(their_pcs.len())) {
        let kind = theirs.frames.iter().find(|frame| Some(&frame.pc) == their_pcs.get(index));
        let kind = kind.map_or("", |frame| &frame.kind);
        let (a, b) = (name(our_pcs.get(index)), name(their_pcs.get(index)));
        text += &format!("\n      #{index} ours {a}, gdb's {b} {kind}");
    }
    text
}

#[test]
fn gdb_sees_the_same_frames() {
    if let Err(error) = Command::new("gdb").arg("--version").output() {
        println!("skipped: gdb cannot be run: {error}");
        return;
    }
    let work = || {
        let mut total = Tally::default();
        let mut programs = 0;
        let mut moments = Moments::new();
        for (name, arguments) in PROGRAMS {
            let Some(path) = path(name) else {
                println!("{name}: skipped: it is not installed");
                continue;
            };
            let tally = match witness(&path, arguments, &mut moments) {
                Ok(tally) => tally,
                Err(reason) => {
                    println!("{name}: skipped: {reason}");
                    continue;
                }
            };
            tally.print(name);
            programs += 1;
            total.add(tally);
        }
        total.print(&format!("{programs} programs"));
        assert!(total.differences.is_empty(), "{} stacks differ", total.differences.len());
    };
    // What walks need is large on its way to the heap.
    std::thread::Builder::new().stack_size(16 << 20).spawn(work).unwrap().join().unwrap();
}
