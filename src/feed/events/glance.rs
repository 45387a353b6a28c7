//! A look at the start of a file: does it describe events, or hold items?

use std::io::BufRead;

use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

/// How much of the file is looked at; no item is larger.
const GLANCE: u64 = 1 << 20;
/// Fields of event files, of which no item has one beside `eventID`.
const FIELDS: [&str; 4] = ["queries", "summaryRequests", "requests", "keywords"];

/// Whether the first record, alone or in an array, is an object that describes an event.
pub(in crate::feed) fn describe_events(file: impl BufRead) -> bool {
    let mut file = file.take(GLANCE);
    let Ok(start) = file.fill_buf() else { return false };
    if start.starts_with(b"\xef\xbb\xbf") {
        file.consume(3);
    }
    let mut seen = Seen::default();
    let mut json = serde_json::Deserializer::from_reader(file);
    // A file that breaks off, or whose record is longer than the glance, has shown its first fields all the same.
    let _end = First { seen: &mut seen, in_array: false }.deserialize(&mut json);
    seen.id && seen.other
}

#[derive(Default)]
struct Seen {
    id: bool,
    other: bool,
}

/// Reads the fields of the first object.
struct First<'s> {
    seen: &'s mut Seen,
    in_array: bool,
}

impl<'de> DeserializeSeed<'de> for First<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for First<'_> {
    type Value = ();

    fn expecting(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str("an object or an array of objects")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(key) = map.next_key::<String>()? {
            self.seen.id |= key == "eventID";
            self.seen.other |= FIELDS.contains(&key.as_str());
            map.next_value::<IgnoredAny>()?;
        }
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<(), A::Error> {
        if !self.in_array {
            // The array is left after its first element, which ends the reading.
            elements.next_element_seed(First { seen: self.seen, in_array: true })?;
        }
        Ok(())
    }
}
