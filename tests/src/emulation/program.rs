//! An executable file, laid out as a loader does it.

use freezeframe_arch::Architecture;
use object::{Object, ObjectSegment, ObjectSymbol, SymbolKind};
use std::path::{Path, PathBuf};

/// Where freestanding programs begin, in both file formats.
const ENTRY: [&str; 2] = ["_start", "start"];

/// By this segment a Mach-O executable keeps the first 4 GiB free.
const KEPT_FREE: &[u8] = b"__PAGEZERO";

/// A statically linked executable in memory, at the addresses that its file asks for.
#[derive(Clone, Debug)]
pub struct Program {
    /// The file.
    pub path: PathBuf,
    /// Whose code it is.
    pub architecture: Architecture,
    /// The address of the first byte, the file header's.
    pub base: u64,
    /// All segments and the gaps between them.
    pub bytes: Vec<u8>,
    /// Where it begins.
    pub entry: u64,
    /// Functions by ascending address.
    functions: Vec<(u64, String)>,
}

impl Program {
    /// Reads an ELF or Mach-O file.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn open(path: &Path) -> Result<Self, String> {
        let bytes = std::fs::read(path).map_err(|error| format!("{}: {error}", path.display()))?;
        let file = object::File::parse(&*bytes).map_err(|error| format!("{}: {error}", path.display()))?;
        let architecture = match file.architecture() {
            object::Architecture::X86_64 => Architecture::X86_64,
            object::Architecture::Aarch64 => Architecture::Arm64,
            other => return Err(format!("{}: code for {other:?}", path.display())),
        };
        let (base, bytes) =
            lay_out(&file).ok_or_else(|| format!("{}: no segments in order", path.display()))?;
        let mut functions: Vec<(u64, String)> = file
            .symbols()
            .filter(|symbol| !symbol.is_undefined())
            .filter(|symbol| matches!(symbol.kind(), SymbolKind::Text | SymbolKind::Unknown))
            .filter_map(|symbol| Some((symbol.address(), symbol.name().ok()?.to_owned())))
            .filter(|(_, name)| !name.is_empty() && !name.starts_with('$'))
            .collect();
        functions.sort();
        let entry = functions.iter().find(|(_, name)| ENTRY.contains(&name.as_str()));
        let entry = entry.ok_or_else(|| format!("{}: no {}", path.display(), ENTRY[0]))?.0;
        Ok(Self { path: path.to_owned(), architecture, base, bytes, entry, functions })
    }

    /// The bytes of the code from `address` on, at most as many as an instruction has.
    pub fn code(&self, address: u64) -> &[u8] {
        let tail = address.checked_sub(self.base).and_then(|offset| self.bytes.get(offset as usize..));
        let tail = tail.unwrap_or(&[]);
        match self.architecture {
            Architecture::Arm64 => tail.get(..4).unwrap_or(tail),
            Architecture::X86_64 => tail.get(..15).unwrap_or(tail),
        }
    }

    /// The function that `address` lies in and the offset there, for people.
    pub fn name(&self, address: u64) -> (&str, u64) {
        let index = self.functions.partition_point(|(start, _)| *start <= address);
        match index.checked_sub(1).and_then(|index| self.functions.get(index)) {
            Some((start, name)) => (name, address - start),
            None => ("?", address),
        }
    }
}

fn lay_out(file: &object::File<'_>) -> Option<(u64, Vec<u8>)> {
    let segments: Vec<_> =
        file.segments().filter(|segment| segment.name_bytes() != Ok(Some(KEPT_FREE))).collect();
    let base = segments.iter().map(|segment| segment.address()).min()?;
    let end = segments.iter().map(|segment| segment.address() + segment.size()).max()?;
    let mut bytes = vec![0; usize::try_from(end - base).ok().filter(|size| *size < 1 << 28)?];
    for segment in segments {
        let data = segment.data().ok()?;
        let start = (segment.address() - base) as usize;
        bytes.get_mut(start..start + data.len())?.copy_from_slice(data);
    }
    Some((base, bytes))
}
