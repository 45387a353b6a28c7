//! Identifiers. Cheap to clone (shared text), checked when made.

use std::{borrow::Cow, fmt, sync::Arc};

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Longest identifier in bytes; file systems allow 255 for one name.
const LONGEST: usize = 200;

/// Why a text is no identifier.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum IdError {
    /// Nothing in it, or white space alone.
    #[error("{kind} is empty")]
    Empty {
        /// What the identifier names.
        kind: &'static str,
    },
    /// More than 200 bytes.
    #[error("{kind} is longer than {LONGEST} bytes")]
    TooLong {
        /// What the identifier names.
        kind: &'static str,
    },
    /// A character that the identifier cannot carry.
    #[error("{kind} \"{text}\" has the character {character:?}; allowed are {allowed}")]
    Character {
        /// What the identifier names.
        kind: &'static str,
        /// The text as it came.
        text: String,
        /// The first character that is not allowed.
        character: char,
        /// What is allowed, in words.
        allowed: &'static str,
    },
}

/// Events and requests name folders, so they keep to portable file names.
fn names_a_folder(text: &str, kind: &'static str) -> Result<(), IdError> {
    let allowed = "letters, digits, '-', '_' and '.', not '.' first";
    let bad = text
        .chars()
        .enumerate()
        .find(|&(at, c)| !(c.is_ascii_alphanumeric() || matches!(c, '-' | '_') || (c == '.' && at > 0)));
    match bad {
        Some((_, character)) => Err(IdError::Character { kind, text: text.to_owned(), character, allowed }),
        None => Ok(()),
    }
}

/// Queries and items are keys inside files and topics: no white space, no control characters.
fn names_a_key(text: &str, kind: &'static str) -> Result<(), IdError> {
    match text.chars().find(|c| c.is_whitespace() || c.is_control()) {
        Some(character) => Err(IdError::Character {
            kind,
            text: text.to_owned(),
            character,
            allowed: "all but white space and control characters",
        }),
        None => Ok(()),
    }
}

macro_rules! identifier {
    ($(#[$doc:meta])* $name:ident, $kind:literal, $check:path) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(Arc<str>);

        impl $name {
            /// Checks and takes `text`; white space around it is dropped.
            pub fn new(text: impl AsRef<str>) -> Result<Self, IdError> {
                let text = text.as_ref().trim();
                if text.is_empty() {
                    return Err(IdError::Empty { kind: $kind });
                }
                if text.len() > LONGEST {
                    return Err(IdError::TooLong { kind: $kind });
                }
                $check(text, $kind)?;
                Ok(Self(Arc::from(text)))
            }

            /// The identifier as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                out.write_str(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Debug::fmt(&*self.0, out)
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(&self.0)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = Cow::<'de, str>::deserialize(deserializer)?;
                Self::new(&text).map_err(serde::de::Error::custom)
            }
        }

        impl JsonSchema for $name {
            fn schema_name() -> Cow<'static, str> {
                stringify!($name).into()
            }

            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                json_schema!({ "type": "string", "minLength": 1, "maxLength": LONGEST })
            }
        }
    };
}

identifier!(
    /// One crisis, for example `CrisisFACTS-001`.
    EventId, "event id", names_a_folder
);
identifier!(
    /// One event-day, for example `CrisisFACTS-001-r3`.
    RequestId, "request id", names_a_folder
);
identifier!(
    /// One question of an event's question set, for example `CrisisFACTS-General-q001`.
    QueryId, "query id", names_a_key
);
identifier!(
    /// One item of a stream, for example `CrisisFACTS-001-Twitter-12-0`.
    StreamId, "stream id", names_a_key
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_id_cannot_leave_its_folder() {
        for bad in ["..", "a/b", "a\\b", ".hidden", "a b", "é"] {
            assert!(EventId::new(bad).is_err(), "{bad}");
        }
        assert_eq!(EventId::new(" CrisisFACTS-001 ").unwrap().as_str(), "CrisisFACTS-001");
    }

    #[test]
    fn the_message_names_the_character() {
        let message = RequestId::new("a/b").unwrap_err().to_string();
        assert!(message.contains("'/'") && message.contains("a/b"), "{message}");
        assert_eq!(StreamId::new("  ").unwrap_err(), IdError::Empty { kind: "stream id" });
        assert_eq!(StreamId::new("x".repeat(201)).unwrap_err(), IdError::TooLong { kind: "stream id" });
    }
}
