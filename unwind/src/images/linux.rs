//! The images of this process, from `/proc/self/maps`, or of another one.
//!
//! The kernel's list of mappings takes no lock of the program's: it can be read while another thread is parked inside
//! the loader, where `dl_iterate_phdr` would wait for it, and from a signal handler. It also knows code that no loader
//! does: what was made at run time. A refresh that finds nothing new reads only this list.

use super::elf;
use super::table::{Image, ImageKind, ImageTable, Range};
use crate::memory::ProcessMemory;
use crate::process::ProcessId;
use crate::sys;
use core::ffi::CStr;

/// Why the table could not be refreshed. It keeps what it had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ImagesError(i32);

impl core::fmt::Display for ImagesError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "the list of mappings in /proc cannot be read (error {}); is /proc mounted?", self.0)
    }
}

impl core::error::Error for ImagesError {}

impl ImageTable {
    /// Brings the table up to date with what is loaded now. Images that are already known are not read again.
    ///
    /// # Errors
    /// `/proc/self/maps` cannot be opened or read.
    ///
    /// # Signal safety
    /// Safe, but for the stack: it uses about 6 KiB. No lock is taken; not to be called while a thread is held.
    pub fn refresh(&mut self) -> Result<(), ImagesError> {
        self.refresh_of(ProcessId::Own)
    }

    /// Brings the table up to date with what is loaded in that process. A table is one process's.
    ///
    /// # Errors
    /// `/proc/<pid>/maps` cannot be opened or read.
    ///
    /// # Signal safety
    /// Safe, like [`refresh`](Self::refresh).
    pub fn refresh_of(&mut self, process: ProcessId) -> Result<(), ImagesError> {
        if self.is_littered() {
            self.clear();
        }
        self.generation = self.generation.wrapping_add(1);
        let open = |path: &CStr| sys::open(path).map_err(|error| ImagesError(error.0));
        let path = process.path(b"/maps");
        let mut maps = open(path.terminated())?;
        let mut is_empty = process == ProcessId::Own;
        let mut reader = Refresh { table: self, memory: ProcessMemory::of(process), candidate: None };
        let mut buffer = [0u8; 5120];
        let mut filled = 0usize;
        // Skipping what is left of a line that is longer than the buffer.
        let mut skipping = false;
        while let Some(free) = buffer.get_mut(filled..) {
            let read = match maps.read(free) {
                // The main thread has ended, and with it what is told of the process; not so of the calling thread.
                Ok(0) if is_empty => {
                    (maps, is_empty) = (open(c"/proc/thread-self/maps")?, false);
                    continue;
                }
                Ok(0) => break,
                Ok(read) => read,
                Err(sys::Errno(libc::EINTR)) => continue,
                Err(error) => return Err(ImagesError(error.0)),
            };
            is_empty = false;
            filled = filled.saturating_add(read).min(buffer.len());
            let text = buffer.get(..filled).unwrap_or(&[]);
            let mut consumed = 0usize;
            while let Some(rest) = text.get(consumed..)
                && let Some(length) = rest.iter().position(|byte| *byte == b'\n')
            {
                let line = rest.get(..length).unwrap_or(&[]);
                consumed = consumed.saturating_add(line.len()).saturating_add(1);
                if !core::mem::take(&mut skipping) {
                    reader.line(line);
                }
            }
            if consumed == 0 && filled == buffer.len() {
                if !skipping {
                    reader.line(text);
                }
                (skipping, consumed) = (true, filled);
            }
            if consumed <= filled {
                buffer.copy_within(consumed..filled, 0);
            }
            filled = filled.saturating_sub(consumed);
        }
        self.settle();
        Ok(())
    }
}

struct Refresh<'a> {
    table: &'a mut ImageTable,
    memory: ProcessMemory,
    /// The last mapping at which an ELF file begins: an image if one of the file's mappings is executable.
    candidate: Option<Candidate>,
}

struct Candidate {
    start: u64,
    file: (u64, u64),
    /// Where the image ends, once it is in the table.
    end: Option<u64>,
}

impl Refresh<'_> {
    fn line(&mut self, line: &[u8]) {
        let Some(mapping) = Mapping::parse(line) else { return };
        if mapping.path == b"[stack]" {
            self.table.main_stack = mapping.range;
        }
        let vdso = mapping.path == b"[vdso]";
        let begins_file = mapping.file.1 != 0 && mapping.offset == 0;
        if mapping.readable && (begins_file || vdso) && elf::begins_at(&mut self.memory, mapping.range.start)
        {
            self.candidate = Some(Candidate { start: mapping.range.start, file: mapping.file, end: None });
        }
        if !mapping.executable {
            return;
        }
        match &mut self.candidate {
            Some(candidate) if candidate.file == mapping.file => {
                if candidate.end.is_some_and(|end| mapping.range.end <= end.next_multiple_of(4096)) {
                    return;
                }
                let kind = if vdso { ImageKind::Vdso } else { ImageKind::Elf };
                let start = candidate.start;
                match self.table.add_image(&mut self.memory, kind, start, mapping.file, mapping.path) {
                    Some(range) if range.contains(mapping.range.start) => candidate.end = Some(range.end),
                    _ => self.table.add_anonymous(&mapping),
                }
            }
            _ => self.table.add_anonymous(&mapping),
        }
    }
}

impl ImageTable {
    fn add_anonymous(&mut self, mapping: &Mapping<'_>) {
        let (kind, range, file) = (ImageKind::Anonymous, mapping.range, mapping.file);
        // Such a mapping can grow in place: its end belongs to what makes it the same.
        if self.keep_known(kind, range.start, file) == Some(range) {
            return;
        }
        let mut image = Image { kind, range, file, generation: self.generation, ..Image::EMPTY };
        image.add_code(range);
        image.path = self.intern(mapping.path).unwrap_or_default();
        self.images.iter_mut().take(self.count).for_each(|old| {
            if old.kind == kind && old.range.start == range.start {
                old.generation = self.generation.wrapping_sub(1);
            }
        });
        self.push(image);
    }
}

/// One line: `start-end perms offset major:minor inode   path`.
struct Mapping<'a> {
    range: Range,
    readable: bool,
    executable: bool,
    offset: u64,
    /// Device and inode; the inode is 0 for memory of no file.
    file: (u64, u64),
    path: &'a [u8],
}

impl<'a> Mapping<'a> {
    fn parse(line: &'a [u8]) -> Option<Self> {
        let mut fields = line.splitn(6, |byte| *byte == b' ');
        let range = fields.next()?;
        let permissions = fields.next()?;
        let offset = sys::hexadecimal(fields.next()?)?;
        let device = fields.next()?;
        let inode = sys::decimal(fields.next()?)?;
        let dash = range.iter().position(|byte| *byte == b'-')?;
        let colon = device.iter().position(|byte| *byte == b':')?;
        let minor = sys::hexadecimal(device.get(colon.checked_add(1)?..)?)?;
        Some(Self {
            range: Range {
                start: sys::hexadecimal(range)?,
                end: sys::hexadecimal(range.get(dash.checked_add(1)?..)?)?,
            },
            readable: permissions.first() == Some(&b'r'),
            executable: permissions.get(2) == Some(&b'x'),
            offset,
            file: (sys::hexadecimal(device)?.checked_shl(32)? | minor, inode),
            path: fields.next().unwrap_or(&[]).trim_ascii_start(),
        })
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use core::sync::atomic::AtomicU8;
    use std::boxed::Box;
    use std::io::Write;
    use std::string::String;

    fn refreshed() -> Box<ImageTable> {
        let mut table = Box::new(ImageTable::new());
        table.refresh().unwrap();
        table
    }

    #[test]
    fn a_line_is_parsed_with_its_path_whatever_that_holds() {
        let line = b"7f10-7f20 r-xp 00026000 fe:01 1234                       /a b (deleted)";
        let mapping = Mapping::parse(line).unwrap();
        assert_eq!(mapping.range, Range { start: 0x7f10, end: 0x7f20 });
        assert!(mapping.readable && mapping.executable);
        assert_eq!(
            (mapping.offset, mapping.file, mapping.path),
            (0x26000, (0xfe << 32 | 1, 1234), &b"/a b (deleted)"[..])
        );
        let anonymous = Mapping::parse(b"10-20 rw-p 00000000 00:00 0 ").unwrap();
        assert!(!anonymous.executable && anonymous.path.is_empty());
        assert!(Mapping::parse(b"").is_none() && Mapping::parse(b"10 rw-p 0 00:00 0").is_none());
    }

    /// Lies in a writable segment.
    static DATA: AtomicU8 = AtomicU8::new(1);

    #[test]
    fn this_program_its_libraries_and_the_vdso_are_there() {
        let table = refreshed();
        let here = this_program_its_libraries_and_the_vdso_are_there as *const () as u64;
        let (_, program) = table.find(here).unwrap();
        let path = std::fs::read_link("/proc/self/exe").unwrap();
        assert_eq!(String::from_utf8_lossy(table.path(program)), path.to_string_lossy());
        assert!(table.build_id(program).len() >= 8, "the build asks for a build id");
        let data = DATA.as_ptr() as u64;
        assert!(program.range.contains(data) && !table.is_code(data), "data is not code");
        assert!(table.is_code(here));

        unsafe extern "C" {
            fn getppid() -> i32;
            fn getauxval(kind: u64) -> u64;
        }
        let (_, libc) = table.find(getppid as *const () as u64).unwrap();
        assert_eq!(libc.kind, ImageKind::Elf);
        let vdso = table.images().iter().find(|image| image.kind == ImageKind::Vdso);
        let at_sysinfo_ehdr = 33;
        // SAFETY: reads a word that the C library keeps.
        match unsafe { getauxval(at_sysinfo_ehdr) } {
            0 => {
                // Not captured, unlike what `eprintln` prints.
                let reason = "not tested: the vDSO, for this kernel or emulator maps none";
                writeln!(std::io::stderr(), "{reason}").unwrap();
                assert_eq!(vdso, None);
            }
            start => {
                let vdso = vdso.unwrap();
                assert_eq!((vdso.range.start, table.build_id(vdso).len()), (start, 20));
                assert_eq!(vdso.code().count(), 1);
            }
        }
        assert!(table.images().windows(2).all(|pair| pair[0].range.end <= pair[1].range.start));
        let local = 0u8;
        let on_main_stack = table.main_stack().contains(&raw const local as u64);
        assert!(!on_main_stack && table.main_stack().end > 0, "tests run on a thread of their own");
    }

    #[test]
    fn a_second_refresh_changes_nothing_but_what_was_mapped_or_unmapped() {
        let mut table = refreshed();
        let before = table.images().len();
        let used = table.bytes_used;
        unsafe extern "C" {
            fn mmap(address: usize, length: usize, prot: i32, flags: i32, fd: i32, offset: i64) -> usize;
            fn munmap(address: usize, length: usize) -> i32;
        }
        let (read_execute, private_anonymous) = (5, 0x22);
        // SAFETY: a new mapping, unmapped below; nothing refers to it.
        let page = unsafe { mmap(0, 4096, read_execute, private_anonymous, -1, 0) };
        table.refresh().unwrap();
        let (_, found) = table.find(page as u64 + 8).unwrap();
        assert_eq!(found.kind, ImageKind::Anonymous);
        assert!(table.is_code(page as u64 + 8));
        assert_eq!(table.images().len(), before + 1);
        // SAFETY: the mapping made above.
        assert_eq!(unsafe { munmap(page, 4096) }, 0);
        table.refresh().unwrap();
        assert_eq!(
            (table.images().len(), table.bytes_used),
            (before, used),
            "known images are not stored again"
        );
        assert!(table.find(page as u64).is_none());
    }
}
