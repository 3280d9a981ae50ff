//! The library that tells of GLib's main loop: where it is, and which programs it can be loaded into.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

const NAME: &str = "libfreezeframe_preload.so";
/// Where it may be, from the command's folder: beside it, where Cargo leaves it, where packages put it.
const FOLDERS: [&str; 3] = ["", "deps", "../lib/freezeframe"];

/// The library.
///
/// # Errors
/// What is wrong with where it is.
pub(super) fn find() -> Result<PathBuf, String> {
    let command = std::env::current_exe().map_err(|error| error.to_string())?;
    let folder = command.parent().unwrap_or(Path::new("/"));
    let found = FOLDERS.iter().map(|part| folder.join(part).join(NAME)).find(|path| path.is_file());
    let path = found.ok_or_else(|| {
        format!("{NAME} is not beside {}, nor in deps or ../lib/freezeframe", command.display())
    })?;
    if path.as_os_str().as_bytes().iter().any(|byte| *byte == b':' || byte.is_ascii_whitespace()) {
        return Err(format!("LD_PRELOAD cannot name {}", path.display()));
    }
    Ok(path)
}

/// Whether the dynamic loader of glibc would load it into the program of that name: not into one that gets other rights, nor into a
/// static one, nor into one for another machine or of another C library.
pub(super) fn can_be_loaded_into(name: &OsStr) -> bool {
    let mut path = match resolve(name) {
        Some(path) => path,
        None => return false,
    };
    // A script is run by another program, which may be one, too.
    for _ in 0..4 {
        match kind(&path) {
            Some(Kind::Dynamic) => return true,
            Some(Kind::Script(interpreter)) => path = interpreter,
            None => return false,
        }
    }
    false
}

/// As `execvp` finds it.
fn resolve(name: &OsStr) -> Option<PathBuf> {
    if name.as_bytes().contains(&b'/') {
        return Some(name.into());
    }
    let path = std::env::var_os("PATH").unwrap_or_else(|| OsString::from("/bin:/usr/bin"));
    std::env::split_paths(&path)
        .map(|folder| folder.join(name))
        .find(|path| path.metadata().is_ok_and(|facts| facts.is_file() && facts.mode() & 0o111 != 0))
}

#[derive(Debug, PartialEq, Eq)]
enum Kind {
    Dynamic,
    Script(PathBuf),
}

const SET_ID: u32 = 0o6000;

fn kind(path: &Path) -> Option<Kind> {
    let mut file = File::open(path).ok()?;
    let gets_rights = file.metadata().ok()?.mode() & SET_ID != 0
        || rustix::fs::getxattr(path, c"security.capability", &mut [0u8; 64]).is_ok();
    let mut head = [0; 256];
    let read = file.read(&mut head).ok()?;
    let head = head.get(..read)?;
    if let Some(line) = head.strip_prefix(b"#!") {
        let line = line.split(|byte| *byte == b'\n').next()?.trim_ascii();
        let interpreter = line.split(u8::is_ascii_whitespace).next()?;
        return Some(Kind::Script(PathBuf::from(OsStr::from_bytes(interpreter))));
    }
    (!gets_rights && is_for_glibc(&mut file, head)?).then_some(Kind::Dynamic)
}

/// Whether it is an ELF program for this machine that names glibc's loader.
fn is_for_glibc(file: &mut File, head: &[u8]) -> Option<bool> {
    const MACHINE: u64 = if cfg!(target_arch = "x86_64") { 62 } else { 183 };
    const INTERPRETER: u64 = 3;
    if !head.starts_with(b"\x7fELF\x02\x01") || number(head, 18, 2)? != MACHINE {
        return Some(false);
    }
    let (table, size, count) = (number(head, 32, 8)?, number(head, 54, 2)?, number(head, 56, 2)?);
    for index in 0..count.min(64) {
        let mut entry = [0; 56];
        file.seek(SeekFrom::Start(table.checked_add(index * size)?)).ok()?;
        file.read_exact(&mut entry).ok()?;
        if number(&entry, 0, 4)? == INTERPRETER {
            let mut name = vec![0; number(&entry, 32, 8)?.min(256) as usize];
            file.seek(SeekFrom::Start(number(&entry, 8, 8)?)).ok()?;
            file.read_exact(&mut name).ok()?;
            let name = name.rsplit(|byte| *byte == b'/').next()?;
            return Some(name.starts_with(b"ld-linux"));
        }
    }
    Some(false)
}

/// A little-endian number of so many bytes.
fn number(bytes: &[u8], at: usize, size: usize) -> Option<u64> {
    let mut word = [0; 8];
    word.get_mut(..size)?.copy_from_slice(bytes.get(at..at.checked_add(size)?)?);
    Some(u64::from_le_bytes(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_of_glibcs_loader_and_their_scripts_are_loaded_into_and_others_are_not() {
        // This test is one itself, unless it is linked in another way.
        let own = std::env::current_exe().unwrap();
        assert_eq!(can_be_loaded_into(own.as_os_str()), cfg!(target_env = "gnu"));
        assert!(!can_be_loaded_into(OsStr::new("/etc/passwd")));
        assert!(!can_be_loaded_into(OsStr::new("/nonexistent")));
        assert!(!can_be_loaded_into(OsStr::new("no-such-program-anywhere")));
        let script = std::env::temp_dir().join(format!("freezeframe-script-{}", std::process::id()));
        std::fs::write(&script, format!("#! {} -x\n", own.display())).unwrap();
        assert_eq!(kind(&script), Some(Kind::Script(own)));
        assert_eq!(can_be_loaded_into(script.as_os_str()), cfg!(target_env = "gnu"));
        std::fs::write(&script, format!("#!{}\n", script.display())).unwrap();
        assert!(!can_be_loaded_into(script.as_os_str()), "itself");
        std::fs::remove_file(&script).unwrap();
    }
}
