//! Records that are refused: why, and the record kept for the one who mends it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

macro_rules! refusal_codes {
    ($($(#[$doc:meta])* $name:ident $code:literal,)+) => {
        /// Why a record is refused. Each costs one dead letter; none stops the stream.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
        #[serde(rename_all = "snake_case")]
        pub enum RefusalCode {
            $($(#[$doc])* $name,)+
        }

        impl RefusalCode {
            /// Every code.
            pub const ALL: &'static [Self] = &[$(Self::$name),+];

            /// The code as it stands in files, headers and metrics.
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$name => $code),+ }
            }
        }
    };
}

refusal_codes! {
    /// Not JSON, or not a JSON object.
    BadJson "bad_json",
    /// More than the largest record allowed.
    TooLarge "too_large",
    /// No text field.
    MissingText "missing_text",
    /// No time field.
    MissingTime "missing_time",
    /// A time that cannot be read.
    BadTime "bad_time",
    /// A time outside 2000..2100.
    TimeOutOfRange "time_out_of_range",
    /// No identifier, or one that is none.
    BadId "bad_id",
    /// Neither the record nor its source names an event that is known, and no event's keyword occurs in it.
    UnknownEvent "unknown_event",
    /// JSON, but not of the shape that the source's format has.
    BadShape "bad_shape",
}

impl std::fmt::Display for RefusalCode {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str(self.as_str())
    }
}

/// A refused record: the reason, for a person and for a counter.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{code}: {message}")]
pub struct Refusal {
    /// The bounded reason.
    pub code: RefusalCode,
    /// What was found, and where in the record.
    pub message: String,
}

impl Refusal {
    /// A refusal with its message.
    pub fn new(code: RefusalCode, message: impl Into<String>) -> Self {
        Self { code, message: message.into() }
    }
}

/// Where a record stands in its source.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Position {
    /// The archive file or topic.
    pub source: String,
    /// The record's number in the source, from 0.
    pub record: u64,
    /// The line of an archive file, from 1; nothing in a JSON array.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<u64>,
    /// The record's first byte in the (unpacked) source.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub byte: Option<u64>,
}

/// A line of `rejected.jsonl`: the refused record with its original bytes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DeadLetter {
    /// The bounded reason.
    pub code: RefusalCode,
    /// What was found.
    pub message: String,
    /// Where the record stands.
    #[serde(flatten)]
    pub position: Position,
    /// The record, where it is UTF-8.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub record_text: Option<String>,
    /// The record in base64, where it is not UTF-8.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub record_base64: Option<String>,
    /// How many bytes the record had, where it is longer than what is kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub truncated_from: Option<u64>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_code_in_files_is_the_code_in_messages() {
        for &code in RefusalCode::ALL {
            assert_eq!(serde_json::to_value(code).unwrap(), code.as_str());
        }
    }
}
