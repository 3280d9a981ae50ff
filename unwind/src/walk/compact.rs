//! The way on from an address in an image that has compact unwind information.
//!
//! ```text
//!                         a call: ──▶ the encoding's rule, or the FDE it points to
//! __unwind_info ──▶ encoding
//!                         an instruction: ──▶ what the instructions ahead say; if nothing, as for a call
//! ```

use crate::images::{Image, Range};
use crate::memory::Memory;
use crate::rule::{FrameAddress, Row, Rule, SavedRule};
use crate::tables::cfi::{RowContext, TableError, Tables};
use crate::tables::compact::{CompactError, CompactTable, Function, Unwinding};
use crate::tables::prologue::{Found, Position, look_ahead};
use freezeframe_arch::Architecture;

/// What was found.
#[derive(Clone, Copy, Debug)]
pub(super) enum Way {
    Rule(Rule),
    /// The row that the context holds now.
    Row,
    /// The tables are damaged, or cannot be read at the moment.
    Unknown,
}

/// Looks up `address` by the section `__unwind_info` of its image.
pub(super) fn look_up<M: Memory>(
    memory: &mut M,
    architecture: Architecture,
    address: FrameAddress,
    image: &Image,
    section: Range,
    rows: &mut RowContext,
) -> Way {
    let table = CompactTable { section, image: image.range.start, text: image.text };
    let site = Site { architecture, address, image };
    match table.find(memory, address.lookup()) {
        Ok(function) => site.in_function(memory, &function, rows),
        // Stubs, and code behind the last function.
        Err(CompactError::NotCovered(_)) => site.without_rule(memory, Range::default()),
        Err(_) => Way::Unknown,
    }
}

/// Where a frame is.
struct Site<'a> {
    architecture: Architecture,
    address: FrameAddress,
    image: &'a Image,
}

impl Site<'_> {
    fn in_function<M: Memory>(&self, memory: &mut M, function: &Function, rows: &mut RowContext) -> Way {
        match function.encoding.unwinding(memory, self.architecture, function.code.start) {
            Ok(Unwinding::Rule(rule)) => match self.ahead(memory, function.code, Some(&rule)) {
                Found::Prologue(now) | Found::Epilogue(now) => Way::Rule(Rule::Saved(now)),
                Found::Body => Way::Rule(Rule::Saved(rule)),
            },
            Ok(Unwinding::Dwarf { fde }) => self.by_fde(memory, function, fde, rows),
            Ok(Unwinding::None) => self.without_rule(memory, function.code),
            Err(_) => Way::Unknown,
        }
    }

    /// Call frame information describes prologues, if it was made for every instruction, but mostly no epilogues.
    fn by_fde<M: Memory>(&self, memory: &mut M, function: &Function, fde: u32, rows: &mut RowContext) -> Way {
        if let Found::Epilogue(rule) = self.ahead(memory, function.code, None) {
            return Way::Rule(Rule::Saved(rule));
        }
        let pc = self.address.lookup();
        let Some(code) = self.row(memory, fde, pc, rows) else { return Way::Unknown };
        // Made for calls only, as Apple's compilers do it, the first row stands for all of the prologue, though it is right at
        // its beginning only: what comes after it is what the frame will be.
        let in_first = code.start == function.code.start && pc > code.start && code.end < function.code.end;
        if self.architecture == Architecture::X86_64 || self.is_call() || !in_first {
            return Way::Row;
        }
        if self.row(memory, fde, code.end, rows).is_some()
            && let Some(Rule::Saved(body)) = Rule::from_row(rows.latest())
            && let Found::Prologue(now) = self.ahead(memory, function.code, Some(&body))
        {
            return Way::Rule(Rule::Saved(now));
        }
        self.row(memory, fde, pc, rows).map_or(Way::Unknown, |_| Way::Row)
    }

    /// Finds the row of `pc`, and returns for which code it stands.
    fn row<M: Memory>(&self, memory: &mut M, fde: u32, pc: u64, rows: &mut RowContext) -> Option<Range> {
        let section = self.image.eh_frame.if_any()?;
        let tables = Tables { eh_frame: Some(section), ..Tables::new(self.image.range) };
        let place = section.start.saturating_add(fde.into());
        let row = match tables.row_at(memory, self.architecture, place, pc, rows) {
            // The place has 24 bits, and the section can be larger.
            Err(TableError::NotFde(_) | TableError::NoEntry(_)) => {
                tables.row(memory, self.architecture, pc, rows)
            }
            row => row,
        };
        row.ok().map(Row::range)
    }

    /// No table knows this code.
    fn without_rule<M: Memory>(&self, memory: &mut M, function: Range) -> Way {
        match self.ahead(memory, function, None) {
            Found::Prologue(rule) | Found::Epilogue(rule) => Way::Rule(Rule::Saved(rule)),
            Found::Body => Way::Rule(Rule::FramePointer),
        }
    }

    fn is_call(&self) -> bool {
        matches!(self.address, FrameAddress::ReturnAddress(_))
    }

    /// What the instructions ahead say of a thread that stands here. A frame that has called another is complete.
    fn ahead<M: Memory>(&self, memory: &mut M, function: Range, body: Option<&SavedRule>) -> Found {
        if self.is_call() {
            return Found::Body;
        }
        look_ahead(memory, self.architecture, &Position { pc: self.address.raw(), function, body })
    }
}

#[cfg(test)]
mod tests;
