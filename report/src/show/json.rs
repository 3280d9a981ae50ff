//! The JSON form.

use super::clean::is_harmful;
use crate::read::Record;
use serde::Serialize;
use serde_json::ser::{CharEscape, Formatter, PrettyFormatter, Serializer};
use std::io::{Error, Result, Write};

/// A record with every field, as one JSON object. The fields are those of [`Record`]. What would do something to a terminal is
/// written as an escape of JSON's, which stands for the same text.
pub fn to_json(record: &Record) -> serde_json::Result<String> {
    let mut json = Vec::new();
    record.serialize(&mut Serializer::with_formatter(&mut json, Harmless(PrettyFormatter::new())))?;
    String::from_utf8(json).map_err(|error| serde_json::Error::io(Error::other(error)))
}

/// The usual layout.
struct Harmless<'a>(PrettyFormatter<'a>);

impl Formatter for Harmless<'_> {
    fn write_string_fragment<W: ?Sized + Write>(&mut self, out: &mut W, fragment: &str) -> Result<()> {
        let mut rest = fragment;
        while let Some(at) = rest.find(is_harmful) {
            let (before, behind) = rest.split_at(at);
            out.write_all(before.as_bytes())?;
            let mut behind = behind.chars();
            for unit in behind.next().into_iter().flat_map(|c| c.encode_utf16(&mut [0; 2]).to_vec()) {
                write!(out, "\\u{unit:04x}")?;
            }
            rest = behind.as_str();
        }
        out.write_all(rest.as_bytes())
    }

    fn write_char_escape<W: ?Sized + Write>(&mut self, out: &mut W, escape: CharEscape) -> Result<()> {
        self.0.write_char_escape(out, escape)
    }

    fn begin_array<W: ?Sized + Write>(&mut self, out: &mut W) -> Result<()> {
        self.0.begin_array(out)
    }

    fn end_array<W: ?Sized + Write>(&mut self, out: &mut W) -> Result<()> {
        self.0.end_array(out)
    }

    fn begin_array_value<W: ?Sized + Write>(&mut self, out: &mut W, first: bool) -> Result<()> {
        self.0.begin_array_value(out, first)
    }

    fn end_array_value<W: ?Sized + Write>(&mut self, out: &mut W) -> Result<()> {
        self.0.end_array_value(out)
    }

    fn begin_object<W: ?Sized + Write>(&mut self, out: &mut W) -> Result<()> {
        self.0.begin_object(out)
    }

    fn end_object<W: ?Sized + Write>(&mut self, out: &mut W) -> Result<()> {
        self.0.end_object(out)
    }

    fn begin_object_key<W: ?Sized + Write>(&mut self, out: &mut W, first: bool) -> Result<()> {
        self.0.begin_object_key(out, first)
    }

    fn begin_object_value<W: ?Sized + Write>(&mut self, out: &mut W) -> Result<()> {
        self.0.begin_object_value(out)
    }

    fn end_object_value<W: ?Sized + Write>(&mut self, out: &mut W) -> Result<()> {
        self.0.end_object_value(out)
    }
}
