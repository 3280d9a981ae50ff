//! Arbitrary code: what is read ahead of an address is bounded, the same however memory is read, and never a caller whose
//! stack lies below.

use super::image::IMAGE;
use super::source::{Source, architecture};
use super::space::Space;
use freezeframe_arch::Architecture;
use freezeframe_unwind::images::Range;
use freezeframe_unwind::memory::SliceMemory;
use freezeframe_unwind::rule::SavedRule;
use freezeframe_unwind::tables::compact::{Encoding, Unwinding};
use freezeframe_unwind::tables::prologue::{Found, Position, look_ahead};

/// More instructions are not followed, and each takes few reads.
const READS: u64 = 4 * 128;

/// Flags: 1 arm64, 2 the function's extent is known, 4 its rule is, from an encoding.
pub fn code(bytes: &[u8]) {
    let mut source = Source(bytes);
    let flags = source.u8();
    let architecture = architecture(flags);
    let (offset, encoding) = (source.u8(), source.u32());
    let code = source.0;
    let pc = IMAGE + u64::from(offset);
    let whole = Range { start: IMAGE, end: IMAGE + code.len() as u64 };
    let function = if flags & 2 == 0 { Range::default() } else { whole };
    let unwinding = Encoding(encoding).unwinding(&mut SliceMemory::new(IMAGE, code), architecture, IMAGE);
    let body = match unwinding {
        Ok(Unwinding::Rule(rule)) if flags & 4 != 0 => Some(rule),
        _ => None,
    };
    if let Some(rule) = &body {
        assert_ascends(architecture, rule);
    }
    let position = Position { pc, function, body: body.as_ref() };
    let mut copied = Space::new([(IMAGE, code), (0, &[])], false);
    let found = look_ahead(&mut copied, architecture, &position);
    assert!(copied.reads <= READS, "{} reads", copied.reads);
    let lent = look_ahead(&mut SliceMemory::new(IMAGE, code), architecture, &position);
    assert_eq!(found, lent, "lent and copied code say the same");
    match found {
        Found::Prologue(rule) | Found::Epilogue(rule) => assert_ascends(architecture, &rule),
        Found::Body => {}
    }
    // With nothing to read there is nothing to say.
    let nothing =
        look_ahead(&mut SliceMemory::new(IMAGE, &[]), architecture, &Position { body: None, ..position });
    assert_eq!(nothing, Found::Body);
}

/// The caller's stack is not below this frame's, and what was saved lies in the frame.
fn assert_ascends(architecture: Architecture, rule: &SavedRule) {
    let (sp, least) = match architecture {
        Architecture::X86_64 => (7, 8),
        Architecture::Arm64 => (31, 0),
    };
    let (register, offset) = rule.cfa();
    assert!(register != sp || offset >= least, "{rule:?}");
    if architecture == Architecture::X86_64 {
        assert_eq!(rule.return_address(), Some(-8), "{rule:?}");
    }
}
