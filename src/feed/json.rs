//! JSON as feeds send it: fields picked by name without a tree, and the repair of what Python and cut tweets leave.
//!
//! Keeps true: of a key that stands twice the last value counts, `null` counts as absent, and a value that is kept
//! (`source`) keeps every digit of its numbers.

use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;

use crate::model::{Refusal, RefusalCode};

/// Largest record that is read.
pub(super) const LARGEST: usize = 1 << 20;
/// Deepest nesting that is read: what `serde_json` can parse again later.
const DEEPEST: usize = 127;

/// Why a record could not be decoded.
#[derive(Debug)]
pub(crate) enum Failure {
    /// Not valid JSON; may become so by [`repair`].
    Json(serde_json::Error),
    /// Valid JSON that is refused.
    Refused(Refusal),
}

impl From<serde_json::Error> for Failure {
    fn from(error: serde_json::Error) -> Self {
        Self::Json(error)
    }
}

impl From<Refusal> for Failure {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

/// Reads the text of one record by `read`, where that fails once more after the [`repair`].
pub(crate) fn read_record<T>(record: &[u8], read: impl Fn(&str) -> Result<T, Failure>) -> Result<T, Refusal> {
    if record.len() > LARGEST {
        let message = format!("{} bytes or more; at most {LARGEST} are read", record.len());
        return Err(Refusal::new(RefusalCode::TooLarge, message));
    }
    let text = std::str::from_utf8(record).map_err(|error| {
        Refusal::new(RefusalCode::BadJson, format!("no UTF-8 at byte {} of the record", error.valid_up_to()))
    })?;
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    if too_deep(text) {
        return Err(Refusal::new(RefusalCode::BadJson, "arrays or objects are nested too deep"));
    }
    let error = match read(text) {
        Ok(found) => return Ok(found),
        Err(Failure::Refused(refusal)) => return Err(refusal),
        Err(Failure::Json(error)) => error,
    };
    let Some(repaired) = repair(text) else {
        return Err(not_json(text, &error));
    };
    read(&repaired).map_err(|failure| match failure {
        Failure::Refused(refusal) => refusal,
        Failure::Json(error) => not_json(&repaired, &error),
    })
}

/// Picks the named fields of the JSON object `json`; fails where `json` is anything but one object.
pub(super) fn pick<'a, const N: usize>(
    json: &'a str,
    names: [&str; N],
) -> Result<[Option<&'a RawValue>; N], serde_json::Error> {
    let mut deserializer = serde_json::Deserializer::from_str(json);
    let found = deserializer.deserialize_map(Pick { names: &names })?;
    deserializer.end()?;
    Ok(found)
}

/// Picks the named fields of a value inside a record; finds none where it is absent or no object.
pub(super) fn pick_from<'a, const N: usize>(
    value: Option<&'a RawValue>,
    names: [&str; N],
) -> Result<[Option<&'a RawValue>; N], serde_json::Error> {
    match value {
        Some(object) if object.get().starts_with('{') => pick(object.get(), names),
        _ => Ok([None; N]),
    }
}

/// The elements of an array; none where the value is absent or no array.
pub(super) fn elements(value: Option<&RawValue>) -> Result<Vec<&RawValue>, serde_json::Error> {
    match value {
        Some(array) if array.get().starts_with('[') => serde_json::from_str(array.get()),
        _ => Ok(Vec::new()),
    }
}

/// The text of a JSON string; nothing where the value is absent or no string.
pub(crate) fn string(value: Option<&RawValue>) -> Result<Option<String>, serde_json::Error> {
    match value {
        Some(text) if text.get().starts_with('"') => serde_json::from_str(text.get()).map(Some),
        _ => Ok(None),
    }
}

/// The text of a JSON string that is not blank, or the digits of a number: how platforms write identifiers.
pub(super) fn identifier(value: Option<&RawValue>) -> Result<Option<String>, serde_json::Error> {
    match value {
        Some(number) if number.get().starts_with(|first: char| first.is_ascii_digit()) => {
            Ok(Some(number.get().to_owned()))
        }
        other => Ok(string(other)?.filter(|text| !text.trim().is_empty())),
    }
}

struct Pick<'n, const N: usize> {
    names: &'n [&'n str; N],
}

impl<'de, const N: usize> Visitor<'de> for Pick<'_, N> {
    type Value = [Option<&'de RawValue>; N];

    fn expecting(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str("a JSON object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut found = [None; N];
        while let Some(place) = map.next_key_seed(Place { names: self.names })? {
            match place {
                Some(place) => {
                    let value: &'de RawValue = map.next_value()?;
                    found[place] = (value.get() != "null").then_some(value);
                }
                None => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(found)
    }
}

/// Reads a key as its place among the names.
struct Place<'n> {
    names: &'n [&'n str],
}

impl<'de> DeserializeSeed<'de> for Place<'_> {
    type Value = Option<usize>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl Visitor<'_> for Place<'_> {
    type Value = Option<usize>;

    fn expecting(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str("a key")
    }

    fn visit_str<E>(self, key: &str) -> Result<Self::Value, E> {
        Ok(self.names.iter().position(|name| *name == key))
    }
}

/// A value on its own, to be kept as an item's source: on one line, so that items stay JSON Lines, and without lone
/// surrogates, so that whoever reads it can.
pub(crate) fn keep(value: &RawValue) -> Option<Box<RawValue>> {
    let text = value.get();
    let on_one_line = !text.bytes().any(|byte| matches!(byte, b'\n' | b'\r'));
    let may_hold_surrogates = text.contains("\\ud") || text.contains("\\uD");
    if on_one_line && !may_hold_surrogates {
        return Some(value.to_owned());
    }
    // No JSON string holds a raw line break, so all that follows one is indentation.
    let mut kept: String = text.split(['\n', '\r']).map(str::trim_start).collect();
    if let Some(repaired) = repair(&kept) {
        kept = repaired;
    }
    RawValue::from_string(kept).ok()
}

/// Like [`keep`] for a JSON object that came as text inside a string; nothing where the text is none.
pub(super) fn keep_text(text: &str) -> Option<Box<RawValue>> {
    let text = text.trim();
    if !text.starts_with('{') || too_deep(text) {
        return None;
    }
    match serde_json::from_str::<&RawValue>(text) {
        Ok(value) => keep(value),
        Err(_) => RawValue::from_string(repair(text)?).ok().and_then(|value| keep(&value)),
    }
}

/// Whether arrays and objects are nested deeper than `serde_json` reads. Picking fields would skip over such a value
/// without recursion, but nobody could read it later.
fn too_deep(json: &str) -> bool {
    let openings = json.bytes().filter(|byte| matches!(byte, b'{' | b'[')).count();
    if openings <= DEEPEST {
        return false;
    }
    let mut depth = 0_usize;
    let mut in_string = false;
    let mut bytes = json.bytes();
    while let Some(byte) = bytes.next() {
        match byte {
            b'"' => in_string = !in_string,
            b'\\' if in_string => {
                bytes.next();
            }
            b'{' | b'[' if !in_string => {
                depth += 1;
                if depth > DEEPEST {
                    return true;
                }
            }
            b'}' | b']' if !in_string => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    false
}

/// Replaces lone surrogate escapes in strings by `\ufffd` and `NaN`, `Infinity`, `-Infinity` outside them by `null`.
/// Nothing where there is nothing to replace.
fn repair(json: &str) -> Option<String> {
    let mut repaired = String::with_capacity(json.len() + 8);
    let mut rest = json;
    let mut in_string = false;
    let mut changed = false;
    while let Some(first) = rest.chars().next() {
        let (kept, read) = match first {
            '\\' if in_string => escape(rest),
            '"' => {
                in_string = !in_string;
                (None, 1)
            }
            'N' | 'I' | '-' if !in_string => no_number(rest),
            other => (None, other.len_utf8()),
        };
        let (head, tail) = rest.split_at_checked(read).unwrap_or((rest, ""));
        changed |= kept.is_some();
        repaired.push_str(kept.unwrap_or(head));
        rest = tail;
    }
    changed.then_some(repaired)
}

/// What to write in the place of the escape that `rest` starts with, if not itself, and how many bytes are read.
fn escape(rest: &str) -> (Option<&'static str>, usize) {
    match code_unit(rest) {
        Some(0xd800..=0xdbff) => match rest.get(6..).and_then(code_unit) {
            Some(0xdc00..=0xdfff) => (None, 12),
            _ => (Some("\\ufffd"), 6),
        },
        Some(0xdc00..=0xdfff) => (Some("\\ufffd"), 6),
        Some(_) => (None, 6),
        // A backslash and what it escapes, so that `\\` does not end in the middle and `\"` ends no string.
        None => (None, 1 + rest.chars().nth(1).map_or(0, char::len_utf8)),
    }
}

/// The value of a `\uXXXX` at the start of `text`.
fn code_unit(text: &str) -> Option<u16> {
    let digits = text.strip_prefix("\\u")?.get(..4)?;
    digits.bytes().all(|digit| digit.is_ascii_hexdigit()).then(|| u16::from_str_radix(digits, 16).ok())?
}

fn no_number(rest: &str) -> (Option<&'static str>, usize) {
    for name in ["NaN", "-NaN", "Infinity", "-Infinity"] {
        if rest.starts_with(name) {
            return (Some("null"), name.len());
        }
    }
    (None, 1)
}

/// The refusal for text that is no JSON, with the place in the record.
fn not_json(json: &str, error: &serde_json::Error) -> Refusal {
    let said = error.to_string();
    let said = said.split(" at line ").next().unwrap_or_default();
    let lines_before: usize =
        json.split_inclusive('\n').take(error.line().saturating_sub(1)).map(str::len).sum();
    let byte = lines_before + error.column().saturating_sub(1);
    let place = match error.line() {
        0 | 1 => format!("byte {byte} of the record"),
        line => format!("byte {byte} of the record (its line {line}, column {})", error.column()),
    };
    Refusal::new(RefusalCode::BadJson, format!("{said} at {place}"))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn of_a_key_that_stands_twice_the_last_counts_and_null_is_absent() {
        let [a, b, c] = pick(r#"{"a":1,"b":{"a":3},"a":[2],"c":5,"c":null}"#, ["a", "b", "c"]).unwrap();
        assert_eq!(a.unwrap().get(), "[2]");
        assert_eq!(b.unwrap().get(), r#"{"a":3}"#);
        assert!(c.is_none());
    }

    #[test]
    fn only_one_object_is_an_object() {
        for bad in ["", "1", "[]", "{} {}", r#"{"a":1}{"a":2}"#, r#"{"a":1,}"#, r#"{"a":1"#, "null"] {
            assert!(pick(bad, ["a"]).is_err(), "{bad}");
        }
    }

    #[test]
    fn lone_surrogates_and_what_python_writes_are_repaired() {
        for (broken, whole) in [
            (r#"{"a":"x\ud83d"}"#, r#"{"a":"x\ufffd"}"#),
            (r#"{"a":"\ud83dx\uDE00"}"#, r#"{"a":"\ufffdx\ufffd"}"#),
            (r#"{"a":"\ud83d\ud83d\ude00"}"#, r#"{"a":"\ufffd\ud83d\ude00"}"#),
            (r#"{"a":NaN,"b":[Infinity,-Infinity,-1]}"#, r#"{"a":null,"b":[null,null,-1]}"#),
            (r#"{"NaN":"NaN \" NaN","é":NaN}"#, r#"{"NaN":"NaN \" NaN","é":null}"#),
        ] {
            assert_eq!(repair(broken).as_deref(), Some(whole), "{broken}");
        }
        for whole in
            [r#"{"a":"\ud83d\ude00 \\ud83d é"}"#, r#"{"a":-1,"b":"-Infinity"}"#, r#""\u00e9\"#, r#""\ud83"#]
        {
            assert_eq!(repair(whole), None, "{whole}");
        }
    }

    #[test]
    fn depth_is_measured_outside_strings() {
        let nested = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
        assert!(!too_deep(&nested(127)));
        assert!(too_deep(&nested(128)));
        assert!(serde_json::from_str::<Value>(&nested(127)).is_ok());
        assert!(serde_json::from_str::<Value>(&nested(128)).is_err());
        assert!(!too_deep(&format!("\"\\\"{}\"", "[".repeat(500))));
        assert!(!too_deep(&"[]".repeat(500)));
    }

    #[test]
    fn a_kept_value_is_on_one_line_with_all_its_digits() {
        let value: &RawValue =
            serde_json::from_str("{\n  \"id\": 9007199254740993123,\r\n  \"t\": \"a  b\\ud83d\"\n}").unwrap();
        assert_eq!(keep(value).unwrap().get(), r#"{"id": 9007199254740993123,"t": "a  b\ufffd"}"#);
        assert_eq!(keep_text(" {\"a\": NaN} ").unwrap().get(), r#"{"a": null}"#);
        assert!(keep_text("plain").is_none());
        assert!(keep_text("12").is_none());
    }

    #[test]
    fn the_place_of_a_fault_is_its_byte() {
        let json = "{\"a\":1,\n\"b\":x}";
        let error = pick(json, ["a"]).unwrap_err();
        let message = not_json(json, &error).message;
        assert!(message.contains("byte 12 ") && message.contains("line 2"), "{message}");
    }

    proptest! {
        #[test]
        fn a_repair_leaves_nothing_to_repair(text in r#"["\\udDfF83a0NIinty,-]{0,40}"#) {
            if let Some(repaired) = repair(&text) {
                prop_assert_eq!(repair(&repaired), None);
            }
        }

        #[test]
        fn valid_json_needs_no_repair(text in any::<String>(), number in any::<i64>()) {
            let json = json!({ "text": text, "number": number }).to_string();
            prop_assert_eq!(repair(&json), None);
        }
    }
}
