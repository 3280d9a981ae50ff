//! Names from a file, made harmless for a terminal.

use std::fmt;

/// Whether a character does something to a terminal or to the text around it: a control character (C0, DEL and C1), the end
/// of a line or a paragraph, or one that changes the direction of text.
pub(super) fn is_harmful(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Text in which what is harmful became U+FFFD: an escape sequence in a thread's name must not reach the terminal as one.
#[derive(Debug)]
pub struct Clean<'a>(pub &'a str);

impl fmt::Display for Clean<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.0.contains(is_harmful) {
            return f.pad(self.0);
        }
        let clean: String = self.0.chars().map(|c| if is_harmful(c) { '\u{fffd}' } else { c }).collect();
        f.pad(&clean)
    }
}

#[cfg(test)]
mod tests {
    use super::Clean;

    #[test]
    fn escape_sequences_and_direction_marks_become_visible() {
        assert_eq!(
            Clean("a\u{1b}[31mb\nc\u{9b}\u{202e}d\u{2028}\u{61c}\u{7f}").to_string(),
            "a\u{fffd}[31mb\u{fffd}c\u{fffd}\u{fffd}d\u{fffd}\u{fffd}\u{fffd}"
        );
        assert_eq!(format!("{:<6}|", Clean("naïve")), "naïve |");
    }
}
