//! ELF: the dynamic symbols, which the loader has mapped with the image.

use super::{known_at, number};
use crate::cause::functions::Known;
use freezeframe_unwind::images::Image;
use freezeframe_unwind::memory::Memory;

const HEADER: usize = 64;
const PROGRAM_HEADER: usize = 56;
const DYNAMIC: u64 = 2;
const INTERPRETER: u64 = 3;
const STRINGS: u64 = 5;
const SYMBOLS: u64 = 6;
/// Bytes of a symbol.
const SYMBOL: usize = 24;
/// How many are read at a time, and at most.
const PIECE: usize = 256;
const MOST: u64 = 1 << 20;

pub(super) fn find(memory: &mut impl Memory, image: &Image, lookup: u64) -> Option<Known> {
    let (symbols, strings) = tables(memory, image)?;
    // Every linker puts the strings right behind the symbols.
    search(memory, symbols, strings.checked_sub(symbols)?, strings, lookup.wrapping_sub(image.slide))
}

/// The function of the table at an address of the file's own.
pub(super) fn search(
    memory: &mut impl Memory,
    symbols: u64,
    bytes: u64,
    strings: u64,
    wanted: u64,
) -> Option<Known> {
    let mut left = (bytes / SYMBOL as u64).min(MOST) as usize;
    let mut at = symbols;
    let mut piece = [0; SYMBOL * PIECE];
    while left > 0 {
        let wanted_bytes = piece.len().min(left * SYMBOL);
        let read = memory.read(at, piece.get_mut(..wanted_bytes)?);
        for symbol in piece.get(..read)?.chunks_exact(SYMBOL) {
            let (value, size) = (number::<8>(symbol, 8), number::<8>(symbol, 16));
            let is_function = matches!(symbol.get(4), Some(info) if matches!(info & 15, 2 | 10));
            if is_function
                && wanted.wrapping_sub(value) < size.max(1)
                && let Some(known) = known_at(memory, strings.wrapping_add(number::<4>(symbol, 0)))
            {
                return Some(known);
            }
        }
        if read < wanted_bytes {
            return None;
        }
        left -= wanted_bytes / SYMBOL;
        at = at.wrapping_add(wanted_bytes as u64);
    }
    None
}

/// Whether it is a program: what is loaded into one names no interpreter, but for the C library.
pub(super) fn is_program(memory: &mut impl Memory, image: &Image) -> bool {
    segment(memory, image, INTERPRETER).is_some()
}

/// Where the symbols and their strings lie in memory.
fn tables(memory: &mut impl Memory, image: &Image) -> Option<(u64, u64)> {
    let entry = segment(memory, image, DYNAMIC)?;
    let start = number::<8>(&entry, 16).wrapping_add(image.slide);
    in_dynamic(memory, image, start, number::<8>(&entry, 40))
}

/// The program header of that type.
fn segment(memory: &mut impl Memory, image: &Image, kind: u64) -> Option<[u8; PROGRAM_HEADER]> {
    let mut header = [0; HEADER];
    let read = memory.read(image.range.start, &mut header);
    if read < HEADER || !header.starts_with(b"\x7fELF\x02\x01") {
        return None;
    }
    let mut at = image.range.start.wrapping_add(number::<8>(&header, 32));
    for _ in 0..number::<2>(&header, 56).min(64) {
        let mut entry = [0; PROGRAM_HEADER];
        if memory.read(at, &mut entry) < PROGRAM_HEADER {
            return None;
        }
        if number::<4>(&entry, 0) == kind {
            return Some(entry);
        }
        at = at.wrapping_add(PROGRAM_HEADER as u64);
    }
    None
}

fn in_dynamic(memory: &mut impl Memory, image: &Image, start: u64, bytes: u64) -> Option<(u64, u64)> {
    let (mut symbols, mut strings) = (None, None);
    for at in (0..bytes.min(8192)).step_by(16) {
        let mut entry = [0; 16];
        if memory.read(start.wrapping_add(at), &mut entry) < entry.len() {
            break;
        }
        let value = number::<8>(&entry, 8);
        // glibc's loader has made addresses of them, others leave them as they are in the file.
        let place = if image.range.contains(value) { value } else { value.wrapping_add(image.slide) };
        match number::<8>(&entry, 0) {
            0 => break,
            STRINGS => strings = Some(place),
            SYMBOLS => symbols = Some(place),
            _ => {}
        }
    }
    Some((symbols?, strings?))
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::super::{Names, Symbols};
    use crate::cause::functions::Role;
    use crate::subject::Subject;
    use freezeframe_unwind::images::ImageTable;
    use freezeframe_unwind::memory::ProcessMemory;

    #[test]
    fn a_program_is_told_from_a_library() {
        unsafe extern "C" {
            fn dlsym(handle: *mut libc::c_void, name: *const libc::c_char) -> *mut libc::c_void;
        }
        let mut images = Box::new(ImageTable::new());
        images.refresh().unwrap();
        let is_program = |address: usize| {
            let (_, image) = images.find(address as u64).unwrap();
            super::super::is_program(&mut ProcessMemory::new(), image)
        };
        // SAFETY: the compiler's library, which every program of Rust's has that is linked dynamically.
        let unwinder = unsafe { dlsym(libc::RTLD_DEFAULT, c"_Unwind_Backtrace".as_ptr()) };
        assert!(is_program(a_program_is_told_from_a_library as *const () as usize));
        assert!(!is_program(unwinder as usize));
    }

    #[test]
    fn functions_of_the_c_library_are_found_by_any_of_their_addresses() {
        let mut images = Box::new(ImageTable::new());
        images.refresh().unwrap();
        let (mut names, mut memory) = (Names::new(), ProcessMemory::new());
        let mut find = |address: usize| {
            names.find(Subject::Own, Symbols::Exported, &images, &mut memory, address as u64)
        };
        let lock = libc::pthread_mutex_lock as *const () as usize;
        let read = libc::read as *const () as usize;
        for offset in [0, 5] {
            let found = find(lock + offset).expect("the C library is linked dynamically");
            assert_eq!((found.name, found.role), ("pthread_mutex_lock", Role::Lock));
            assert_eq!(find(read + offset).unwrap().name, "read");
        }
        assert_eq!(find(lock).unwrap().role, Role::Lock, "remembered");
        assert_eq!(find(libc::getpid as *const () as usize), None, "no function that waits");
        assert_eq!(find(0x10), None);
    }
}
