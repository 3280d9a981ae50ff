//! Names of functions. They come from the file that was loaded, if it is still the same file; of a Mach-O image without
//! one, from the image itself, if this process has loaded the same. What has no name keeps its image and offset: the
//! nearest name would be a guess.

mod commands;
mod elf;
mod functions;
mod macho;
mod name;

pub use commands::Placement;
pub use functions::{Function, FunctionIndex};

use crate::read::{Image, Record, Symbol};
use memmap2::Mmap;
use rustix::fs::{Mode, OFlags};
use std::collections::HashMap;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Functions of images, each file's read once, however many names a report has for it.
#[derive(Debug, Default)]
pub struct Symbols {
    paths: HashMap<String, Option<Identity>>,
    files: HashMap<(Identity, String), Option<Source>>,
    loaded: macho::Loaded,
}

/// A file's device and number: what is the same whichever path leads to it.
type Identity = (u64, u64);

/// The functions of a file.
#[derive(Debug)]
enum Source {
    Elf(elf::Table),
    MachO(macho::File),
}

impl Symbols {
    /// Nothing read yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Names every frame of a record whose image is at hand with the same build id: its file, or, of a Mach-O image, the
    /// image as it is loaded in this process. A frame outside every function's extent stays without a name: the nearest
    /// one would be a guess.
    pub fn name_frames(&mut self, record: &mut Record) {
        self.loaded.look_again();
        let images = std::mem::take(&mut record.images);
        let sampled = record.samples.iter_mut().flat_map(|samples| &mut samples.stacks);
        let sampled = sampled.flat_map(|stack| &mut stack.frames);
        for frame in record.threads.iter_mut().flat_map(|thread| &mut thread.frames).chain(sampled) {
            let Some(image) = Image::of(&images, frame) else { continue };
            frame.symbol = self.symbol(image, frame.address, frame.lookup);
        }
        record.images = images;
    }

    fn symbol(&mut self, image: &Image, address: u64, lookup: u64) -> Option<Symbol> {
        if image.build_id.is_empty() || !matches!(image.kind, "elf" | "mach-o") {
            return None;
        }
        // A hostile report has a thousand names for a large file.
        let file = *self.paths.entry(image.path.clone()).or_insert_with(|| identity(Path::new(&image.path)));
        let source = file.and_then(|file| {
            let key = (file, image.build_id.clone());
            self.files.entry(key).or_insert_with(|| Source::read(image)).as_ref()
        });
        if let Some(Source::Elf(table)) = source {
            let in_file = |address: u64| address.wrapping_sub(image.slide);
            let (start, name) = table.find(in_file(lookup))?;
            return Some(Symbol { name: name::readable(name), offset: in_file(address).wrapping_sub(start) });
        }
        let in_image = |address: u64| address.wrapping_sub(image.load_address);
        let (function, name) = match source {
            Some(Source::MachO(file)) => file.find(in_image(lookup)),
            _ if image.kind == "mach-o" => self.loaded.find(&image.build_id, in_image(lookup)),
            _ => None,
        }?;
        let offset = in_image(address).wrapping_sub(function.start);
        Some(Symbol { name: name::readable_mach_o(&name), offset })
    }
}

/// None of what is not opened. A path from a hostile report: nothing but a file is, and nothing by way of where this process
/// happens to be.
fn identity(path: &Path) -> Option<Identity> {
    if !path.is_absolute() {
        return None;
    }
    let facts = std::fs::metadata(path).ok().filter(std::fs::Metadata::is_file)?;
    Some((facts.dev(), facts.ino()))
}

impl Source {
    fn read(image: &Image) -> Option<Self> {
        let map = map(Path::new(&image.path))?;
        match image.kind {
            "elf" => elf::Table::read(map, &image.build_id).map(Self::Elf),
            _ => macho::File::read(map, &image.build_id).map(Self::MachO),
        }
    }
}

fn map(path: &Path) -> Option<Mmap> {
    // No pipe is waited for that has taken the file's place meanwhile.
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
    let file = std::fs::File::from(rustix::fs::open(path, flags, Mode::empty()).ok()?);
    if !file.metadata().ok()?.is_file() {
        return None;
    }
    // SAFETY: the file may change while it is mapped; every offset is checked against the mapping's length, so that the
    // worst is a wrong name or, if it is truncated meanwhile, the end of this reading process.
    unsafe { Mmap::map(&file) }.ok()
}

/// Two lowercase digits a byte, as records give build ids.
fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_read_once_whatever_a_report_calls_it() {
        let path = std::env::current_exe().unwrap().to_str().unwrap().to_owned();
        let mut symbols = Symbols::new();
        for name in [path.clone(), format!("/{path}"), format!("/.{path}"), format!("/proc/self/root{path}")]
        {
            let image = Image {
                index: 0,
                kind: "elf",
                architecture: "",
                in_shared_cache: false,
                path: name,
                build_id: "00".into(),
                debug_id: None,
                load_address: 0,
                size: 0,
                slide: 0,
                code: Vec::new(),
            };
            symbols.symbol(&image, 0, 0);
        }
        assert_eq!((symbols.paths.len(), symbols.files.len()), (4, 1));
    }
}
