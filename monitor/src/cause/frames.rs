//! The functions of the table among a stack's innermost frames.
//!
//! A loop's function is on every stack of every callback, too. It is where the thread waits only if it has come there by the
//! loop's own ways:
//!
//! ```text
//! poll ◀── loop's library ◀── g_main_loop_run ◀── main                                   the loop waits
//! poll ◀── a callback ◀── loop's library ◀── g_main_loop_run ◀── main                     the callback waits
//! ```
//!
//! So between the two there may be functions of the C library and of the loop's image, and no others; and none of the loop's
//! image either if that is the program itself, which its callbacks are in as well.

use super::functions::{FRAMES, Known, Role};
use super::names::{self, Names, Symbols};
use crate::subject::Subject;
use freezeframe_unwind::images::{ImageKind, ImageTable};
use freezeframe_unwind::memory::Memory;
use freezeframe_unwind::walk::Frame;

/// The functions, innermost first, each with its frame's number.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Functions {
    found: [(u32, Known); FRAMES],
    count: usize,
    passed: Passed,
    /// How many of the innermost frames are the C library's.
    of_c_library: usize,
}

/// Whose functions lie between the innermost frame and the one that is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Passed {
    /// At most the C library's.
    Nobody,
    /// Those of one image beside it.
    One(usize),
    /// Those of several, or of nobody knows whom.
    Several,
}

/// What an image is to a loop in it or around it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Home {
    CLibrary,
    Program(usize),
    Library(usize),
    Unknown,
}

/// Of which functions the file is asked, where the image in memory does not name them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FromFile {
    Nobody,
    /// The one that has called the C library's: a loop that is linked into the program is told by no other.
    Caller,
    /// All, until one of them tells how a word is waited for.
    Everybody,
}

impl Functions {
    /// Those at `lookups`, the addresses to look up of the frames, innermost first.
    pub(crate) fn find(
        subject: Subject,
        from_file: FromFile,
        images: &ImageTable,
        memory: &mut impl Memory,
        names: &mut Names,
        lookups: impl Iterator<Item = u64>,
    ) -> Self {
        const NOTHING: Known = Known { name: "", role: Role::Io };
        let mut functions =
            Self { found: [(0, NOTHING); FRAMES], count: 0, passed: Passed::Nobody, of_c_library: 0 };
        for (number, lookup) in lookups.take(FRAMES).enumerate() {
            let home = home(images, memory, lookup);
            // The C library's are all exported that matter, and the innermost one decides.
            let is_told = home == Home::CLibrary || functions.waits().is_some();
            let symbols = match from_file {
                FromFile::Everybody if !is_told => Symbols::All,
                FromFile::Caller if !is_told && functions.passed == Passed::Nobody => Symbols::All,
                _ => Symbols::Exported,
            };
            let known = names.find(subject, symbols, images, memory, lookup);
            functions.add(number as u32, home, known);
        }
        functions
    }

    fn add(&mut self, number: u32, home: Home, known: Option<Known>) {
        let is_callers = |known: &Known| known.role == Role::Loop && !self.leads_to(home);
        if let Some(known) = known.filter(|known| !is_callers(known))
            && let Some(place) = self.found.get_mut(self.count)
        {
            *place = (number, known);
            self.count += 1;
        }
        if home == Home::CLibrary && self.of_c_library == number as usize {
            self.of_c_library += 1;
        }
        self.passed = match (self.passed, home) {
            (passed, Home::CLibrary) => passed,
            (Passed::Nobody, Home::Program(image) | Home::Library(image)) => Passed::One(image),
            (Passed::One(one), Home::Program(image) | Home::Library(image)) if one == image => self.passed,
            _ => Passed::Several,
        };
    }

    /// Whether a loop there has come to the innermost frame by its own ways.
    fn leads_to(&self, home: Home) -> bool {
        match (self.passed, home) {
            (Passed::Nobody, _) => true,
            (Passed::One(image), Home::Library(own)) => image == own,
            _ => false,
        }
    }

    /// Whether an address lies in the stack frames of the C library's own functions, the innermost ones of these frames.
    pub(crate) fn has_in_c_library(&self, address: u64, frames: &[Frame]) -> bool {
        let sp = |number: usize| frames.get(number).map(|frame| frame.sp);
        // A caller's stack begins where its callee's ends.
        let range = sp(0).zip(sp(self.of_c_library));
        range.is_some_and(|(low, high)| (low..high).contains(&address))
    }

    /// The innermost function that says whether a word is waited for as a lock's.
    pub(crate) fn waits(&self) -> Option<Known> {
        let tells = |known: &Known| matches!(known.role, Role::Lock | Role::Peer);
        self.as_slice().iter().map(|(_, known)| *known).find(tells)
    }

    pub(crate) fn as_slice(&self) -> &[(u32, Known)] {
        self.found.get(..self.count).unwrap_or(&[])
    }
}

fn home(images: &ImageTable, memory: &mut impl Memory, lookup: u64) -> Home {
    let Some((index, image)) = images.find(lookup) else { return Home::Unknown };
    match image.kind {
        ImageKind::Vdso => Home::CLibrary,
        ImageKind::Anonymous => Home::Unknown,
        _ if is_c_library(images.path(image)) => Home::CLibrary,
        _ if names::is_program(memory, image) => Home::Program(index),
        _ => Home::Library(index),
    }
}

/// By its file's name: glibc's and musl's, Android's, and the parts of Apple's libSystem.
fn is_c_library(path: &[u8]) -> bool {
    const BEGINNINGS: [&[u8]; 7] =
        [b"libc.so", b"libc-", b"libpthread", b"ld-musl-", b"libc.musl-", b"libsystem_", b"ld-linux"];
    let name = path.rsplit(|byte| *byte == b'/').next().unwrap_or(&[]);
    BEGINNINGS.iter().any(|beginning| name.starts_with(beginning))
}

#[cfg(test)]
mod tests {
    use super::super::functions::known;
    use super::*;

    const GLIB: Home = Home::Library(3);
    const OTHER: Home = Home::Library(4);
    const PROGRAM: Home = Home::Program(0);

    /// Whether the loop at the outer end is where the thread waits.
    fn waits(frames: &[(Home, &str)]) -> bool {
        let found = [(0, known(b"read").unwrap()); FRAMES];
        let mut functions = Functions { found, count: 0, passed: Passed::Nobody, of_c_library: 0 };
        for (number, (home, name)) in frames.iter().enumerate() {
            functions.add(number as u32, *home, known(name.as_bytes()));
        }
        functions.as_slice().iter().any(|(_, known)| known.role == Role::Loop)
    }

    #[test]
    fn a_loop_waits_where_it_has_come_by_its_own_ways() {
        let poll = (Home::CLibrary, "poll");
        assert!(waits(&[poll, (GLIB, ""), (GLIB, "g_main_loop_run"), (PROGRAM, "main")]));
        assert!(waits(&[poll, (GLIB, "g_main_context_iteration"), (OTHER, ""), (PROGRAM, "main")]));
        assert!(waits(&[poll, (PROGRAM, "uv__io_poll")]), "linked into the program, and right there");
        assert!(waits(&[(GLIB, "g_main_loop_run")]), "it makes the call itself");
    }

    #[test]
    fn a_loop_around_a_callback_is_not_where_it_waits() {
        let poll = (Home::CLibrary, "poll");
        let run = (GLIB, "g_main_loop_run");
        assert!(!waits(&[poll, (PROGRAM, "callback"), (GLIB, ""), run]));
        assert!(!waits(&[poll, (OTHER, "callback"), (GLIB, ""), run]), "of another library");
        assert!(!waits(&[poll, (OTHER, ""), (PROGRAM, "callback"), (GLIB, ""), run]));
        assert!(!waits(&[(OTHER, "callback"), (GLIB, ""), run]), "which makes the call itself");
        assert!(!waits(&[poll, (Home::Unknown, ""), (GLIB, ""), run]), "compiled at run time");
        assert!(!waits(&[poll, (PROGRAM, "callback"), (PROGRAM, "uv__io_poll")]), "in the loop's own image");
        assert!(!waits(&[poll, (PROGRAM, "callback"), (PROGRAM, ""), (PROGRAM, "uv_run")]));
    }

    #[test]
    fn a_word_of_the_c_librarys_own_is_below_the_stack_of_its_caller() {
        use freezeframe_unwind::rule::FrameAddress;
        let found = [(0, known(b"read").unwrap()); FRAMES];
        let mut functions = Functions { found, count: 0, passed: Passed::Nobody, of_c_library: 0 };
        for (number, home) in
            [Home::CLibrary, Home::CLibrary, PROGRAM, Home::CLibrary].into_iter().enumerate()
        {
            functions.add(number as u32, home, None);
        }
        let address = FrameAddress::InstructionPointer(0);
        let frames = [1000, 1100, 1200, 1300].map(|sp| Frame { sp, address, ..Frame::EMPTY });
        let has = |address| functions.has_in_c_library(address, &frames);
        assert!(has(1000) && has(1199) && !has(999) && !has(1200) && !has(1250));
        assert!(!functions.has_in_c_library(1150, &frames[..2]), "the caller is not known");
    }

    #[test]
    fn the_c_library_is_known_by_its_files_names() {
        for path in
            ["/lib/x86_64-linux-gnu/libc.so.6", "/lib/ld-musl-x86_64.so.1", "/usr/lib/libsystem_kernel.dylib"]
        {
            assert!(is_c_library(path.as_bytes()), "{path}");
        }
        for path in ["/usr/lib/libcairo.so.2", "/usr/bin/libc", "", "/opt/libc.so.6/libgtk.so"] {
            assert!(!is_c_library(path.as_bytes()), "{path}");
        }
    }
}
