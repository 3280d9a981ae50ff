//! The JSON form.

use crate::read::Record;

/// A record with every field, as one JSON object. The fields are those of [`Record`].
pub fn to_json(record: &Record) -> serde_json::Result<String> {
    serde_json::to_string_pretty(record)
}
