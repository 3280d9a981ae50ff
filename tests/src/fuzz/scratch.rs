//! Files of this process, in memory where the system has a place for that.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

/// A path that is nobody else's.
pub(super) fn path(name: &str) -> PathBuf {
    let shared_memory = Path::new("/dev/shm");
    let folder = if shared_memory.is_dir() { shared_memory.to_owned() } else { std::env::temp_dir() };
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    folder.join(format!("freezeframe-fuzz-{name}-{}-{number}", std::process::id()))
}

/// Writes a file, hands its path to `then`, and takes the file away.
pub(super) fn with_file<T>(name: &str, bytes: &[u8], then: impl FnOnce(&Path) -> T) -> T {
    let path = path(name);
    std::fs::write(&path, bytes).expect("the temporary folder can be written");
    let result = then(&path);
    let _ = std::fs::remove_file(&path);
    result
}
