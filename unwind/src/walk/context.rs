//! Finding the rule of an address: kept, from the tables, or by the frame pointer.

use super::epilogue::frame_pointer_above_stack_pointer;
use super::signal::is_signal_return;
use super::stub::pushed_by_stub;
use super::to_return::{follows_call, rule_to_return};
use super::{StopReason, compact, without_tables};
use crate::images::{Image, ImageTable};
use crate::memory::{Memory, Pages};
use crate::rule::{CfiCaller, FrameAddress, KnownRegisters, Row, Rule, RuleCache, RuleError, SavedRule};
use crate::tables::cfi::{RowContext, TableError, Tables};
use freezeframe_arch::{Architecture, Registers};

/// What walks by tables need and learn, in storage of a fixed size (about 320 KiB): `const` constructible, one for
/// each thread that walks. What is learned stays for later walks, while the images stay the same.
#[derive(Debug)]
pub struct WalkContext {
    pub(super) rules: RuleCache,
    pub(super) rows: RowContext,
    pub(super) pages: Pages,
}

impl WalkContext {
    /// Nothing is learned yet.
    pub const fn new() -> Self {
        Self { rules: RuleCache::new(), rows: RowContext::new(), pages: Pages::new() }
    }

    /// Forgets what was learned of images that may have gone since.
    pub(super) fn keep_for(&mut self, images: &ImageTable) {
        if self.rules.keep_for(images.version()) {
            self.pages.forget();
        }
    }
}

impl Default for WalkContext {
    fn default() -> Self {
        Self::new()
    }
}

/// The way from an address to its caller.
#[derive(Clone, Copy, Debug)]
pub(super) enum Found {
    Rule(Rule),
    /// A row that needs more than a kept rule can hold: [`Finder::apply_row`] is next.
    Row,
    /// Neither tables nor instructions can be read.
    Nothing,
    /// A signal handler returns there; there are no tables for it.
    SignalReturn,
}

/// What is known of code: images, their tables as memory, and what was learned of them.
#[derive(Debug)]
pub(super) struct Finder<'a, T> {
    pub(super) images: &'a ImageTable,
    pub(super) memory: T,
    pub(super) context: &'a mut WalkContext,
}

impl<T: Memory> Finder<'_, T> {
    /// Whether `address` lies in code.
    #[inline]
    pub(super) fn is_code(&self, address: FrameAddress) -> bool {
        // What has a rule was code when it was found.
        self.context.rules.find(address).is_some() || self.images.is_code(address.lookup())
    }

    /// The way from `address`, which is stripped, to its caller.
    #[inline]
    pub(super) fn find(
        &mut self,
        architecture: Architecture,
        address: FrameAddress,
    ) -> Result<Found, StopReason> {
        match self.context.rules.get(address) {
            Some(rule) => Ok(Found::Rule(rule)),
            None => self.look_up(architecture, address),
        }
    }

    /// The rule for a thread that stands at `pc` in code without tables, by the instructions to its return (x86_64).
    pub(super) fn rule_to_return(&mut self, pc: u64) -> Option<SavedRule> {
        rule_to_return(&mut self.context.pages.over(&mut self.memory), pc)
    }

    /// How far above the stack pointer the frame pointer lies in the function at `address`, which has this rule, by the
    /// way in which it ends (x86_64).
    pub(super) fn frame_pointer_above_stack_pointer(
        &mut self,
        address: FrameAddress,
        rule: &SavedRule,
    ) -> Option<u64> {
        let lookup = address.lookup();
        let (_, image) = self.images.find(lookup)?;
        let WalkContext { rows, pages, .. } = &mut *self.context;
        let mut memory = pages.over(&mut self.memory);
        let row = tables(image).row(&mut memory, Architecture::X86_64, lookup, rows).ok()?;
        frame_pointer_above_stack_pointer(&mut memory, row.range(), rule)
    }

    /// Whether the code before `pc` is a system call (x86_64).
    pub(super) fn follows_system_call(&mut self, pc: u64) -> bool {
        const SYSCALL: [u8; 2] = [0x0f, 0x05];
        let mut code = [0; SYSCALL.len()];
        let start = pc.wrapping_sub(SYSCALL.len() as u64);
        self.context.pages.over(&mut self.memory).read(start, &mut code) == code.len() && code == SYSCALL
    }

    /// Whether the code before `pc` is a call (x86_64).
    pub(super) fn follows_call(&mut self, pc: u64) -> bool {
        follows_call(&mut self.context.pages.over(&mut self.memory), pc)
    }

    /// Goes to the caller by the row that was found last.
    pub(super) fn apply_row<M: Memory>(
        &mut self,
        stack: &mut M,
        registers: &Registers,
        known: KnownRegisters,
    ) -> Result<CfiCaller, RuleError> {
        let WalkContext { rows, pages, .. } = &mut *self.context;
        rows.latest().apply(stack, &mut pages.over(&mut self.memory), registers, known)
    }

    #[inline(never)]
    fn look_up(&mut self, architecture: Architecture, address: FrameAddress) -> Result<Found, StopReason> {
        let lookup = address.lookup();
        let image = self.images.find(lookup).map(|(_, image)| image).filter(|image| image.is_code(lookup));
        let image = image.ok_or(StopReason::NotCode(address.raw()))?;
        let WalkContext { rules, rows, pages } = &mut *self.context;
        let mut memory = pages.over(&mut self.memory);
        if let Some(section) = image.unwind_info.if_any() {
            match compact::look_up(&mut memory, architecture, address, image, section, rows) {
                compact::Way::Rule(rule) => {
                    rules.insert(architecture, address, rule);
                    return Ok(Found::Rule(rule));
                }
                compact::Way::Unknown => {
                    return Ok(without_tables::look_up(&mut memory, architecture, address));
                }
                compact::Way::Row => {}
            }
            return Ok(by_row(rules, rows.latest(), address));
        }
        let result = tables(image).row(&mut memory, architecture, lookup, rows).map(|row| row.range());
        match result {
            // A return address behind the end of its function: the call never returns, or it is no call and this is
            // where a signal handler returns to.
            Ok(range)
                if !range.contains(address.raw())
                    && is_signal_return(&mut memory, architecture, address.raw()) =>
            {
                return Ok(Found::SignalReturn);
            }
            Ok(_) => {}
            Err(TableError::NoEntry(_) | TableError::NoTables) => {
                if is_signal_return(&mut memory, architecture, address.raw()) {
                    return Ok(Found::SignalReturn);
                }
                // No call returns into a stub.
                let pushed = match address {
                    FrameAddress::ReturnAddress(_) => None,
                    _ => pushed_by_stub(&mut memory, architecture, lookup),
                };
                let found = match pushed {
                    Some(bytes) => Found::Rule(Rule::Saved(SavedRule::above_stack_pointer(bytes))),
                    None => without_tables::look_up(&mut memory, architecture, address),
                };
                if let Found::Rule(rule) = found {
                    rules.insert(architecture, address, rule);
                }
                return Ok(found);
            }
            // Damaged, or with something that is not understood. Not kept: it may have been unreadable for a moment.
            Err(_) => return Ok(without_tables::look_up(&mut memory, architecture, address)),
        }
        Ok(by_row(rules, rows.latest(), address))
    }
}

/// Keeps the rule of a row, if it comes down to one.
fn by_row(rules: &mut RuleCache, row: &Row, address: FrameAddress) -> Found {
    let architecture = row.architecture();
    match Rule::from_row(row) {
        Some(rule) => {
            rules.insert(architecture, address, rule);
            Found::Rule(rule)
        }
        None => Found::Row,
    }
}

pub(super) fn tables(image: &Image) -> Tables {
    let (eh_frame_hdr, eh_frame) = (image.eh_frame_hdr.if_any(), image.eh_frame.if_any());
    Tables { eh_frame_hdr, eh_frame, ..Tables::new(image.range) }
}
