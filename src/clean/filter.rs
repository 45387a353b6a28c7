//! Cleaning as a filter of the command line: JSON Lines or plain lines in, the same lines cleaned out, in input order.
//!
//! Every field of an item goes through as the bytes it came as, so a big number or a float keeps its digits.

use std::{
    collections::HashSet,
    io::{self, BufRead, Write},
};

use serde::de::{self, Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::Cleaner;
use crate::model::{Language, SourceType};

/// How to clean.
#[derive(Debug, Clone)]
pub struct FilterOptions {
    /// The platform of plain lines, and of items that name none.
    pub platform: SourceType,
    /// The language of every line. Without it that which an item states, else the one detected, else English.
    pub language: Option<Language>,
}

impl FilterOptions {
    /// For items: tweets, unless they say otherwise, in any language.
    pub fn for_items() -> Self {
        Self { platform: SourceType::Twitter, language: None }
    }

    /// For plain lines: English tweets.
    pub fn for_text() -> Self {
        Self { platform: SourceType::Twitter, language: Some(Language::English) }
    }
}

/// What a filter did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FilterOutcome {
    /// Lines written.
    pub written: u64,
    /// Lines reported and left out.
    pub refused: u64,
}

/// Adds `cleanText` and `language` to each item. All other fields stay as they are and where they are; earlier values
/// of these two are replaced. A bad line goes to `problems` with its number (from 1) and is left out; blank lines are
/// passed over.
pub fn run_items(
    input: &mut dyn BufRead,
    out: &mut dyn Write,
    problems: &mut dyn FnMut(u64, String),
    options: &FilterOptions,
) -> io::Result<FilterOutcome> {
    let cleaner = Cleaner::new();
    let mut outcome = FilterOutcome::default();
    let mut number = 0;
    let mut line = Vec::new();
    while read_line(input, &mut line)? {
        number += 1;
        if line.iter().all(u8::is_ascii_whitespace) {
            continue;
        }
        match clean_item(&cleaner, &line, options) {
            Ok(item) => {
                out.write_all(&item)?;
                outcome.written += 1;
            }
            Err(problem) => {
                problems(number, problem);
                outcome.refused += 1;
            }
        }
    }
    Ok(outcome)
}

/// Cleans plain texts, one a line; an empty line, and one that cleans to nothing, is an empty line. A line that is not
/// UTF-8 is cleaned with U+FFFD in the place of what cannot be read, and reported.
pub fn run_text(
    input: &mut dyn BufRead,
    out: &mut dyn Write,
    problems: &mut dyn FnMut(u64, String),
    options: &FilterOptions,
) -> io::Result<FilterOutcome> {
    let cleaner = Cleaner::new();
    let mut outcome = FilterOutcome::default();
    let mut line = Vec::new();
    while read_line(input, &mut line)? {
        outcome.written += 1;
        let text = String::from_utf8_lossy(&line);
        if matches!(text, std::borrow::Cow::Owned(_)) {
            problems(outcome.written, "the line is not UTF-8".to_owned());
            outcome.refused += 1;
        }
        let clean = cleaner.clean(&text, &options.platform, options.language, Language::English);
        writeln!(out, "{}", clean.text)?;
    }
    Ok(outcome)
}

/// The next line without its end (LF or CRLF); false at the end of the input.
fn read_line(input: &mut dyn BufRead, line: &mut Vec<u8>) -> io::Result<bool> {
    line.clear();
    if input.read_until(b'\n', line)? == 0 {
        return Ok(false);
    }
    if line.last() == Some(&b'\n') {
        line.pop();
    }
    if line.last() == Some(&b'\r') {
        line.pop();
    }
    Ok(true)
}

fn clean_item(cleaner: &Cleaner, line: &[u8], options: &FilterOptions) -> Result<Vec<u8>, String> {
    let line = line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line);
    let fields: Fields =
        serde_json::from_slice(line).map_err(|error| format!("not a JSON object: {error}"))?;
    let text = fields.get("text").ok_or("no field \"text\"")?;
    let text = string_of(text).ok_or("the field \"text\" is not a string")?;
    let platform = ["sourceType", "source_type"]
        .into_iter()
        .find_map(|name| string_of(fields.get(name)?))
        .map_or_else(|| options.platform.clone(), |name| SourceType::from_name(&name));
    let stated = || Language::from_code(&string_of(fields.get("language").or_else(|| fields.get("lang"))?)?);

    let clean = cleaner.clean(&text, &platform, options.language.or_else(stated), Language::English);
    let added = [("cleanText", clean.text.as_str()), ("language", clean.language.code())];
    write_item(&fields, &added).map_err(|error| error.to_string())
}

fn write_item(fields: &Fields, added: &[(&str, &str)]) -> serde_json::Result<Vec<u8>> {
    let mut out = vec![b'{'];
    let kept = fields.0.iter().filter(|(name, _)| added.iter().all(|(new, _)| new != name));
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

/// A JSON string's text. Half of a surrogate pair, which tweets cut in the middle have, is read as U+FFFD.
fn string_of(value: &RawValue) -> Option<String> {
    let json = value.get();
    if let Ok(text) = serde_json::from_str::<String>(json) {
        return Some(text);
    }
    if !json.starts_with('"') {
        return None;
    }
    // Reading as bytes lets halves through (as WTF-8), each of them three bytes that are not UTF-8.
    let bytes = serde_json::from_str::<Bytes>(json).ok()?.0;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

struct Bytes(Vec<u8>);

impl<'de> Deserialize<'de> for Bytes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Reader;
        impl Visitor<'_> for Reader {
            type Value = Bytes;

            fn expecting(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                out.write_str("a string")
            }

            fn visit_bytes<E: de::Error>(self, bytes: &[u8]) -> Result<Bytes, E> {
                Ok(Bytes(bytes.to_owned()))
            }
        }
        deserializer.deserialize_bytes(Reader)
    }
}

/// The fields of an object in their order, their values as they were written.
struct Fields(Vec<(String, Box<RawValue>)>);

impl Fields {
    fn get(&self, name: &str) -> Option<&RawValue> {
        self.0.iter().find(|(field, _)| field == name).map(|(_, value)| &**value)
    }
}

impl<'de> Deserialize<'de> for Fields {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Reader;
        impl<'de> Visitor<'de> for Reader {
            type Value = Fields;

            fn expecting(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                out.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Fields, A::Error> {
                let mut fields = Vec::with_capacity(8);
                let mut names = HashSet::new();
                while let Some((name, value)) = map.next_entry::<String, Box<RawValue>>()? {
                    if !names.insert(name.clone()) {
                        return Err(de::Error::custom(format!("the field \"{name}\" stands there twice")));
                    }
                    fields.push((name, value));
                }
                Ok(Fields(fields))
            }
        }
        deserializer.deserialize_map(Reader)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn items(input: &str) -> (String, Vec<(u64, String)>, FilterOutcome) {
        let (mut out, mut problems) = (Vec::new(), Vec::new());
        let mut report = |line, problem| problems.push((line, problem));
        let outcome =
            run_items(&mut input.as_bytes(), &mut out, &mut report, &FilterOptions::for_items()).unwrap();
        (String::from_utf8(out).unwrap(), problems, outcome)
    }

    #[test]
    fn fields_keep_their_order_and_their_bytes() {
        let (out, problems, _) = items(
            r#"{"z":12345678901234567890123,"text":"RT @a: #bigflood","n":1.50, "source":{"b":[1E5,null],"a":"\u00e9"},"sourceType":"Twitter"}"#,
        );
        assert_eq!(
            out,
            concat!(
                r##"{"z":12345678901234567890123,"text":"RT @a: #bigflood","n":1.50,"source":{"b":[1E5,null],"a":"\u00e9"},"##,
                r#""sourceType":"Twitter","cleanText":"big flood","language":"en"}"#,
                "\n"
            )
        );
        assert!(problems.is_empty());
    }

    #[test]
    fn a_bad_line_is_reported_and_the_others_go_on() {
        let (out, problems, outcome) = items(
            "\u{feff}{\"text\":\"a\"}\r\n\r\n{\"text\":1}\nnot json\n[]\n{}\n{\"text\":\"b\",\"text\":\"c\"}\n{\"text\":\"d\"}",
        );
        assert_eq!(out.lines().count(), 2);
        assert!(out.contains(r#""cleanText":"a""#) && out.contains(r#""cleanText":"d""#));
        assert_eq!(problems.iter().map(|(line, _)| *line).collect::<Vec<_>>(), [3, 4, 5, 6, 7]);
        assert!(problems[0].1.contains("\"text\" is not a string"), "{problems:?}");
        assert_eq!(outcome, FilterOutcome { written: 2, refused: 5 });
    }

    #[test]
    fn the_item_tells_its_platform_and_language() {
        let (out, _, _) = items(concat!(
            r##"{"text":"#bigflood @x","source_type":"Reddit"}"##,
            "\n",
            r##"{"text":"#bigflood @x","language":"es","cleanText":"old"}"##
        ));
        let lines: Vec<&str> = out.lines().collect();
        assert!(lines[0].contains(r##""cleanText":"#bigflood @x""##), "{out}");
        assert!(lines[1].ends_with(r#""cleanText":"bigflood","language":"es"}"#), "{out}");
    }

    #[test]
    fn trap_half_a_surrogate_pair_at_the_end_of_a_cut_tweet() {
        let (out, problems, _) = items(r#"{"text":"Bridge closed \ud83d"}"#);
        assert!(
            out.contains(r#""text":"Bridge closed \ud83d","cleanText":"Bridge closed""#),
            "{out}{problems:?}"
        );
    }

    #[test]
    fn plain_lines_stay_lines() {
        let mut out = Vec::new();
        let mut problems = Vec::new();
        let mut report = |line, problem| problems.push((line, problem));
        let input: &[u8] = b"RT @a: #bigflood\r\n\n@b\nok \xff x";
        run_text(&mut &*input, &mut out, &mut report, &FilterOptions::for_text()).unwrap();
        assert_eq!(String::from_utf8(out).unwrap(), "big flood\n\n\nok \u{fffd} x\n");
        assert_eq!(problems.len(), 1);
    }
}
