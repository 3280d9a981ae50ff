//! Call frame information: `.eh_frame` and its index `.eh_frame_hdr`.
//!
//! ```text
//! pc ──▶ .eh_frame_hdr ──binary search──▶ FDE ──▶ CIE
//!        (or .eh_frame from its start)     │       │ initial instructions
//!                                          ▼       ▼
//!                                        instructions up to pc ──▶ Row ──apply──▶ caller
//! ```
//!
//! Sources: Linux Standard Base 5.0, chapter 10.6 (the sections, encodings and augmentations); DWARF 5, section 6.4 (the
//! instructions); AADWARF64 (signed return addresses).
//!
//! Nothing that is read is trusted. Every length is checked against the image, every loop is bounded by the bytes that
//! hold it, nothing recurses, and an FDE that was found must contain the address that was asked for.

mod entry;
mod error;
mod header;
mod linear;
mod pointer;
mod program;

pub use error::TableError;
pub use program::RowContext;

use crate::images::Range;
use crate::memory::Memory;
use crate::rule::Row;
use freezeframe_arch::Architecture;
use header::Found;
use pointer::Bases;

/// Where an image's call frame information lies in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tables {
    /// The whole image: no table lies outside it.
    pub image: Range,
    /// The segment `PT_GNU_EH_FRAME`.
    pub eh_frame_hdr: Option<Range>,
    /// The section `.eh_frame`, if it is known: a loaded image does not say where it ends.
    pub eh_frame: Option<Range>,
    /// The start of the code, which pointers of the encoding *textrel* start from; no linker in use writes them.
    pub text: Option<u64>,
}

impl Tables {
    /// An image in which no table is known yet.
    pub const fn new(image: Range) -> Self {
        Self { image, eh_frame_hdr: None, eh_frame: None, text: None }
    }

    /// The row for the address `pc`, which must lie inside the instruction that was executing:
    /// [`FrameAddress::lookup`](crate::rule::FrameAddress::lookup). It is left in `context`.
    ///
    /// The FDE is searched for by `.eh_frame_hdr`; if there is none, or it has no sorted table of the usual encoding,
    /// from FDE to FDE through `.eh_frame`.
    ///
    /// # Errors
    /// No FDE contains `pc` ([`TableError::NoEntry`]), or what is wrong with the tables.
    ///
    /// # Signal safety
    /// Safe if `memory` is: no allocation, and about 500 bytes of stack.
    #[inline]
    pub fn row<'c, M: Memory>(
        &self,
        memory: &mut M,
        architecture: Architecture,
        pc: u64,
        context: &'c mut RowContext,
    ) -> Result<&'c Row, TableError> {
        context.forget();
        let mut start = self.eh_frame.map(|range| range.start);
        if let Some(range) = self.eh_frame_hdr {
            match header::find(memory, &mut context.fde_window, range, self.bases(), pc)? {
                Found::Fde(address) => {
                    let (fde, cie) =
                        entry::fde_at(memory, context.windows(), self.extent(), self.bases(), address)?;
                    if !fde.code.contains(pc) {
                        return Err(TableError::NoEntry(pc));
                    }
                    context.execute(memory, architecture, &cie, &fde, self.bases(), pc)?;
                    return Ok(context.latest());
                }
                Found::NoTable { eh_frame } => start = start.or(eh_frame),
            }
        }
        let start = start.ok_or(TableError::NoTables)?;
        self.row_without_index(memory, architecture, pc, context, start)?;
        Ok(context.latest())
    }

    /// The code of the function that `pc` lies in, by its FDE. None if there is none, or the tables are damaged.
    ///
    /// # Signal safety
    /// Safe if `memory` is.
    pub fn function<M: Memory>(&self, memory: &mut M, pc: u64, context: &mut RowContext) -> Option<Range> {
        context.forget();
        let mut start = self.eh_frame.map(|range| range.start);
        if let Some(range) = self.eh_frame_hdr {
            match header::find(memory, &mut context.fde_window, range, self.bases(), pc).ok()? {
                Found::Fde(address) => {
                    let found =
                        entry::fde_at(memory, context.windows(), self.extent(), self.bases(), address);
                    return found.ok().map(|(fde, _)| fde.code).filter(|code| code.contains(pc));
                }
                Found::NoTable { eh_frame } => start = start.or(eh_frame),
            }
        }
        let extent = Range { start: start?, end: self.extent().end };
        linear::find(memory, context.windows(), extent, self.bases(), pc).ok().map(|(fde, _)| fde.code)
    }

    /// The row for `pc` by the FDE at the address `fde`: for who knows already where that is. Else as
    /// [`row`](Self::row).
    ///
    /// # Errors
    /// There is no FDE at that address, or it does not contain `pc`, or what is wrong with it.
    ///
    /// # Signal safety
    /// Safe if `memory` is.
    pub fn row_at<'c, M: Memory>(
        &self,
        memory: &mut M,
        architecture: Architecture,
        fde: u64,
        pc: u64,
        context: &'c mut RowContext,
    ) -> Result<&'c Row, TableError> {
        context.forget();
        let (fde, cie) = entry::fde_at(memory, context.windows(), self.extent(), self.bases(), fde)?;
        if !fde.code.contains(pc) {
            return Err(TableError::NoEntry(pc));
        }
        context.execute(memory, architecture, &cie, &fde, self.bases(), pc)?;
        Ok(context.latest())
    }

    #[inline(never)]
    fn row_without_index<M: Memory>(
        &self,
        memory: &mut M,
        architecture: Architecture,
        pc: u64,
        context: &mut RowContext,
        start: u64,
    ) -> Result<(), TableError> {
        let extent = Range { start, end: self.extent().end };
        let (fde, cie) = linear::find(memory, context.windows(), extent, self.bases(), pc)?;
        context.execute(memory, architecture, &cie, &fde, self.bases(), pc)
    }

    /// What entries must lie in.
    #[inline]
    fn extent(&self) -> Range {
        self.eh_frame.unwrap_or(self.image)
    }

    #[inline]
    fn bases(&self) -> Bases {
        Bases { text: self.text, data: self.eh_frame_hdr.map(|range| range.start), function: None }
    }
}

#[cfg(test)]
mod tests;
