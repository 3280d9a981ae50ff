//! The report files that this process has open: whoever names the same file shares it.

use crate::per_process::PerProcess;
use freezeframe_report::file::{FileError, ReportFile, Size};
use freezeframe_report::ring::Owner;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::{Arc, Weak};

struct Open {
    /// Device and inode.
    id: (u64, u64),
    file: Weak<ReportFile>,
}

static OPEN: PerProcess<Vec<Open>> = PerProcess::new();

/// Opens the file at `path`, or shares it with who has it open in this process.
pub(crate) fn open(path: &Path, size: Size, owner: Owner) -> Result<Arc<ReportFile>, FileError> {
    let mut open = OPEN.lock();
    open.retain(|open| open.file.strong_count() > 0);
    if let Some(id) = identify(path)
        && let Some(file) = open.iter().find(|open| open.id == id).and_then(|open| open.file.upgrade())
    {
        return Ok(file);
    }
    let file = Arc::new(ReportFile::open(path, size, owner)?);
    if let Some(id) = identify(path) {
        open.push(Open { id, file: Arc::downgrade(&file) });
    }
    Ok(file)
}

/// None if there is nothing at `path` that could be a report file.
fn identify(path: &Path) -> Option<(u64, u64)> {
    let status = std::fs::symlink_metadata(path).ok()?;
    Some((status.dev(), status.ino()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_shared_while_somebody_has_it_and_opened_anew_when_it_was_replaced() {
        let path = std::env::temp_dir().join(format!("freezeframe-files-{}.ffr", std::process::id()));
        let owner = Owner::this_process().unwrap();
        let size = Size { slots: 3, stride: 8192 };
        let first = open(&path, size, owner).unwrap();
        assert!(Arc::ptr_eq(&first, &open(&path, size, owner).unwrap()));
        std::fs::remove_file(&path).unwrap();
        let second = open(&path, size, owner).unwrap();
        assert!(!Arc::ptr_eq(&first, &second));
        drop(second);
        assert_eq!(Arc::strong_count(&open(&path, size, owner).unwrap()), 1, "nobody had it any more");
        std::fs::remove_file(&path).unwrap();
    }
}
