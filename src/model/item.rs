//! One short text of a stream.

use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;

use super::{EventId, Language, StreamId, UnixSeconds};

/// The platform an item comes from, by the track's names. Names that the track does not have are kept as they are.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SourceType {
    /// A tweet.
    Twitter,
    /// A Reddit submission or comment.
    Reddit,
    /// A Facebook post.
    Facebook,
    /// One sentence of a news article.
    News,
    /// Anything else, by its own name.
    Other(Box<str>),
}

impl SourceType {
    /// Reads a platform name, whatever its case; `Webnews` and `X` are the track's and the platform's other names.
    pub fn from_name(name: &str) -> Self {
        let name = name.trim();
        match name.to_ascii_lowercase().as_str() {
            "twitter" | "x" => Self::Twitter,
            "reddit" => Self::Reddit,
            "facebook" => Self::Facebook,
            "news" | "webnews" => Self::News,
            _ => Self::Other(name.into()),
        }
    }

    /// The platform by the track's name.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Twitter => "Twitter",
            Self::Reddit => "Reddit",
            Self::Facebook => "Facebook",
            Self::News => "News",
            Self::Other(name) => name,
        }
    }
}

impl fmt::Display for SourceType {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.as_str())
    }
}

impl Serialize for SourceType {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl<'de> Deserialize<'de> for SourceType {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Self::from_name(&String::deserialize(deserializer)?))
    }
}

impl JsonSchema for SourceType {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "SourceType".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "examples": ["Twitter", "Reddit", "Facebook", "News"] })
    }
}

/// An item as it travels through the daemon and in item topics: the CrisisFACTS stream item plus `language`.
///
/// Made by `feed`, which reads the looser shapes that archives and platforms send.
#[derive(Debug, Clone, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Item {
    /// The event the item was routed to.
    pub event: EventId,
    /// The item's own name, unique within the event.
    #[serde(rename = "streamID")]
    pub stream_id: StreamId,
    /// When it was written.
    pub unix_timestamp: UnixSeconds,
    /// The text as it came; may be empty.
    pub text: String,
    /// The platform.
    pub source_type: SourceType,
    /// The platform's own record as JSON text, or nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<serde_json::Value>")]
    pub source: Option<Box<RawValue>>,
    /// The language that the feed states, if it does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub language: Option<Language>,
    /// What names the account or site it comes from, for counting independent sources; a repost names the account it
    /// repeats. Read from `source` where it stands there, so it is not written again.
    #[serde(skip)]
    pub origin: Option<Box<str>>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn platform_names_read_in_any_case_and_others_are_kept() {
        assert_eq!(SourceType::from_name("twitter"), SourceType::Twitter);
        assert_eq!(SourceType::from_name("Webnews"), SourceType::News);
        assert_eq!(SourceType::from_name("Mastodon").as_str(), "Mastodon");
    }
}
