//! What gdb says.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Stdio};

/// One frame, as gdb sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GdbFrame {
    /// Its pc.
    pub pc: u64,
    /// `normal`, `signal`, `inline`, `tail call` or `other`. Inlined functions and tail calls are no frames of the stack.
    pub kind: String,
}

/// One thread, as gdb sees it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GdbThread {
    /// From the innermost outward.
    pub frames: Vec<GdbFrame>,
    /// Why there are no more.
    pub stop: String,
}

impl GdbThread {
    /// The pcs of the stack's frames.
    pub fn pcs(&self) -> Vec<u64> {
        let real = |frame: &&GdbFrame| frame.kind != "inline" && frame.kind != "tail call";
        self.frames.iter().filter(real).map(|frame| frame.pc).collect()
    }
}

/// What gdb says about the threads of process `pid`, by thread id.
///
/// # Errors
/// gdb is missing, has no Python, or cannot attach; what it says instead.
pub fn ask_gdb(pid: i32) -> Result<BTreeMap<i32, GdbThread>, String> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("programs/frames.py");
    let mut gdb = Command::new("gdb");
    gdb.args(["-nx", "-batch", "-iex", "set debuginfod enabled off", "-iex", "set auto-load off"]);
    gdb.args(["-p", &pid.to_string(), "-x"]).arg(script);
    let output = gdb.stdin(Stdio::null()).output().map_err(|error| error.to_string())?;
    let text = String::from_utf8_lossy(&output.stdout);
    let threads = parse(&text);
    if threads.is_empty() {
        return Err(format!("{text}{}", String::from_utf8_lossy(&output.stderr)));
    }
    Ok(threads)
}

fn parse(text: &str) -> BTreeMap<i32, GdbThread> {
    let mut threads = BTreeMap::new();
    let mut current = 0;
    for line in text.lines() {
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        match word {
            "thread" => {
                current = rest.parse().unwrap_or(0);
                threads.insert(current, GdbThread::default());
            }
            "frame" => {
                let (pc, kind) = rest.split_once(' ').unwrap_or((rest, ""));
                let pc = u64::from_str_radix(pc.trim_start_matches("0x"), 16);
                if let (Some(thread), Ok(pc)) = (threads.get_mut(&current), pc) {
                    thread.frames.push(GdbFrame { pc, kind: kind.into() });
                }
            }
            "stop" => {
                if let Some(thread) = threads.get_mut(&current) {
                    thread.stop = rest.into();
                }
            }
            _ => {}
        }
    }
    threads
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_read_thread_by_thread() {
        let text = "[New LWP 8]\nthread 7\nframe 0x10 normal\nframe 0x10 inline\nframe 0x20 signal\nstop outermost\n\
                    thread 8\nstop no reason\n";
        let threads = parse(text);
        assert_eq!((threads[&7].pcs(), &threads[&7].stop[..]), (vec![0x10, 0x20], "outermost"));
        assert!(threads[&8].pcs().is_empty());
        assert_eq!(threads.len(), 2);
    }
}
