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
use std::path::Path;

/// Functions of images, each image's read once.
#[derive(Debug, Default)]
pub struct Symbols {
    files: HashMap<(String, String), Option<Source>>,
    loaded: macho::Loaded,
}

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
        let key = (image.path.clone(), image.build_id.clone());
        let source = self.files.entry(key).or_insert_with(|| Source::read(image)).as_ref();
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
    // A path from a hostile report: nothing but a file is opened, nothing by way of where this process happens to be, and no
    // pipe is waited for that has taken the file's place meanwhile.
    if !path.is_absolute() || !std::fs::metadata(path).ok()?.is_file() {
        return None;
    }
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
