//! arm64's encodings.
//!
//! ```text
//! frame (mode 4)                          frameless (mode 2)
//! cfa -  8  lr     ┐ the frame record,    cfa -  8  x19    ┐ the pairs that were saved,
//! cfa - 16  fp ◀── ┘ x29 points to it     cfa - 16  x20    ┘ in this order
//! cfa - 24  x19    ┐ the pairs that       …
//! cfa - 32  x20    ┘ were saved           cfa - size ◀── sp
//! ```
//!
//! Bits 0 to 4 say which pairs x19/x20 … x27/x28 were saved, bits 8 to 11 which of d8/d9 … d14/d15, which lie below.

use super::{CompactError, Encoding, Unwinding};
use crate::rule::{SavedRule, Trust};
use freezeframe_arch::Architecture;

const FRAMELESS: u32 = 2;
const DWARF: u32 = 3;
const FRAME: u32 = 4;

const FP: u16 = 29;
const SP: u16 = 31;
const FIRST_SAVED: u16 = 19;
const PAIRS: u16 = 5;
const VECTOR_PAIRS: u16 = 4;

pub(super) fn unwinding(encoding: Encoding) -> Result<Unwinding, CompactError> {
    match encoding.mode() {
        0 => Ok(Unwinding::None),
        FRAMELESS => frameless(encoding).map(Unwinding::Rule),
        FRAME => Ok(Unwinding::Rule(frame(encoding))),
        DWARF => Ok(Unwinding::Dwarf { fde: encoding.bits(0, 24) }),
        _ => Err(CompactError::Mode(encoding.0)),
    }
}

fn frame(encoding: Encoding) -> SavedRule {
    let mut rule = SavedRule::new(Trust::Compact, FP, 16);
    rule.return_place = 1;
    rule.save(Architecture::Arm64, FP, 2);
    save_pairs(encoding, &mut rule, 3);
    rule
}

/// A function that calls none: its return address stays in the link register.
fn frameless(encoding: Encoding) -> Result<SavedRule, CompactError> {
    let words = encoding.bits(12, 12).saturating_mul(2);
    let mut rule = SavedRule::new(Trust::Compact, SP, words.saturating_mul(8) as i32);
    let next = save_pairs(encoding, &mut rule, 1);
    if u32::from(next) > words.saturating_add(1) {
        return Err(CompactError::Registers(encoding.0));
    }
    Ok(rule)
}

/// Notes the pairs that were saved, from `place` downward, and returns the place below them.
fn save_pairs(encoding: Encoding, rule: &mut SavedRule, mut place: u16) -> u16 {
    for pair in 0..PAIRS {
        if encoding.bits(pair.into(), 1) != 0 {
            let register = FIRST_SAVED.saturating_add(pair.saturating_mul(2));
            rule.save(Architecture::Arm64, register, place);
            rule.save(Architecture::Arm64, register.saturating_add(1), place.saturating_add(1));
            place = place.saturating_add(2);
        }
    }
    let vectors = (0..VECTOR_PAIRS).filter(|pair| encoding.bits(u32::from(*pair).saturating_add(8), 1) != 0);
    place.saturating_add(vectors.count().saturating_mul(2) as u16)
}
