//! Numbers out of procfs text, without allocation.

/// A decimal number at the start of `text`; what does not fit saturates.
pub(crate) fn decimal(text: &[u8]) -> Option<u64> {
    number(text, 10)
}

/// A hexadecimal number at the start of `text`, without or after `0x`, and what follows it.
pub(crate) fn hexadecimal(text: &[u8]) -> Option<u64> {
    number(text.strip_prefix(b"0x").unwrap_or(text), 16)
}

fn number(text: &[u8], radix: u32) -> Option<u64> {
    let digits = text.iter().map_while(|byte| (*byte as char).to_digit(radix));
    let mut any = false;
    let value = digits.fold(0u64, |value, digit| {
        any = true;
        value.saturating_mul(radix.into()).saturating_add(digit.into())
    });
    any.then_some(value)
}

/// Field `index` of `/proc/…/stat`, counted from the state, which is 0: the fields before it are the id and the name,
/// and a name may hold spaces and parentheses, so that only the *last* `)` ends it.
pub(crate) fn field_after_last_paren(text: &[u8], index: usize) -> Option<&[u8]> {
    let end = text.iter().rposition(|byte| *byte == b')')?;
    let rest = text.get(end.checked_add(1)?..)?;
    rest.split(u8::is_ascii_whitespace).filter(|field| !field.is_empty()).nth(index)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_end_at_the_first_other_byte() {
        assert_eq!(decimal(b"1234 5"), Some(1234));
        assert_eq!(decimal(b"-1"), None);
        assert_eq!(decimal(b"99999999999999999999999"), Some(u64::MAX));
        assert_eq!(hexadecimal(b"7ffc0010-7ffd"), Some(0x7ffc_0010));
        assert_eq!(hexadecimal(b"0xca 0x1"), Some(0xca));
        assert_eq!(hexadecimal(b""), None);
    }

    #[test]
    fn a_name_with_parentheses_does_not_shift_the_fields() {
        let stat = b"42 (a) R 9 (b) S 1 2 3\n";
        assert_eq!(field_after_last_paren(stat, 0), Some(&b"S"[..]));
        assert_eq!(field_after_last_paren(stat, 3), Some(&b"3"[..]));
        assert_eq!(field_after_last_paren(stat, 4), None);
        assert_eq!(field_after_last_paren(b"no parenthesis", 0), None);
    }
}
