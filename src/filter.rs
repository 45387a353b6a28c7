//! What the stages have in common as filters of the command line: JSON Lines in, the same lines with fields added out.
//!
//! Every other field goes through as the bytes it came as, so a big number or a float keeps its digits.

use std::collections::HashSet;

use serde::{
    Serialize,
    de::{Deserialize, Deserializer, MapAccess, Visitor},
};
use serde_json::value::RawValue;

use crate::feed::{Record, json};

/// What a filter did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FilterOutcome {
    /// Lines written.
    pub written: u64,
    /// Lines reported and left out.
    pub refused: u64,
}

/// Where a fault is: the line from 1, or, in a JSON array, the record from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// Of lines.
    Line(u64),
    /// Of an array.
    Record(u64),
}

impl Place {
    /// Where a record stands.
    pub fn of(record: &Record) -> Self {
        record.line.map_or(Self::Record(record.number), Self::Line)
    }
}

impl std::fmt::Display for Place {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Line(line) => write!(out, "{line}"),
            Self::Record(record) => write!(out, "record {record}"),
        }
    }
}

/// The fields of an object in their order, their values as they were written; of a name that stands twice the last.
pub(crate) struct Fields(Vec<(String, Box<RawValue>)>);

impl Fields {
    /// The object as a line, with these fields at its end; earlier values of theirs are replaced.
    pub(crate) fn with(&self, added: &[(&str, impl Serialize)]) -> serde_json::Result<Vec<u8>> {
        let mut out = vec![b'{'];
        let kept = self.0.iter().filter(|(name, _)| added.iter().all(|(new, _)| new != name));
        for (name, value) in kept {
            serde_json::to_writer(&mut out, name)?;
            out.push(b':');
            out.extend_from_slice(value.get().as_bytes());
            out.push(b',');
        }
        for (name, value) in added {
            serde_json::to_writer(&mut out, name)?;
            out.push(b':');
            serde_json::to_writer(&mut out, value)?;
            out.push(b',');
        }
        out.pop();
        out.extend_from_slice(b"}\n");
        Ok(out)
    }

    pub(crate) fn get(&self, name: &str) -> Option<&RawValue> {
        self.0.iter().find(|(field, _)| field == name).map(|(_, value)| &**value)
    }
}

impl<'de> Deserialize<'de> for Fields {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Reader;
        impl<'de> Visitor<'de> for Reader {
            type Value = Fields;

            fn expecting(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                out.write_str("a JSON object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Fields, A::Error> {
                let mut fields = Vec::with_capacity(8);
                while let Some((name, value)) = map.next_entry::<String, &'de RawValue>()? {
                    // Nothing is lost where a value cannot be made one line: it is valid JSON as it stands.
                    fields.push((name, json::keep(value).unwrap_or_else(|| value.to_owned())));
                }
                let mut names = HashSet::new();
                let is_last: Vec<bool> =
                    fields.iter().rev().map(|(name, _)| names.insert(name.clone())).collect();
                let mut is_last = is_last.into_iter().rev();
                fields.retain(|_| is_last.next().unwrap_or(true));
                Ok(Fields(fields))
            }
        }
        deserializer.deserialize_map(Reader)
    }
}
