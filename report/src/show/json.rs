//! The JSON form.

use super::clean::is_harmful;
use crate::read::Record;
use std::fmt::Write;

/// A record with every field, as one JSON object. The fields are those of [`Record`]. Characters that a terminal would
/// obey are escaped.
pub fn to_json(record: &Record) -> serde_json::Result<String> {
    serde_json::to_string_pretty(record).map(escaped)
}

/// JSON lets all but the first 32 control characters stand as they are. Such characters are in strings only, and none of
/// them takes more than four digits.
fn escaped(json: String) -> String {
    let stays = |c: char| c == '\n' || !is_harmful(c);
    if json.chars().all(stays) {
        return json;
    }
    let mut text = String::with_capacity(json.len());
    for c in json.chars() {
        if stays(c) {
            text.push(c);
        } else {
            let _ = write!(text, "\\u{:04x}", u32::from(c));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::escaped;

    #[test]
    fn what_a_terminal_would_obey_is_escaped_and_means_the_same() {
        let name = "a\u{7f}b\u{9b}31m\u{202e}c\u{1b}\n\"\u{1f600}é";
        let json = escaped(serde_json::to_string_pretty(&[name]).unwrap());
        assert_eq!(json, "[\n  \"a\\u007fb\\u009b31m\\u202ec\\u001b\\n\\\"\u{1f600}é\"\n]");
        assert_eq!(serde_json::from_str::<[String; 1]>(&json).unwrap(), [name]);
    }
}
