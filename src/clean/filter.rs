//! Cleaning as a filter of the command line: JSON Lines or plain lines in, the same lines cleaned out, in input order.
//!
//! Every field of an item goes through as the bytes it came as, so a big number or a float keeps its digits; only what
//! no JSON reader could read is repaired, as a replay does.

use std::io::{self, BufRead, Write};

use super::Cleaner;
use crate::{
    feed::{
        ReadError, Record,
        json::{self, Failure},
        language_of_source,
    },
    filter::{Fields, FilterOutcome, Place},
    model::{Language, Refusal, RefusalCode, SourceType},
};

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

/// Why a filter stopped before the end of its input.
#[derive(Debug, thiserror::Error)]
pub enum FilterError {
    /// Records that cannot be read.
    #[error(transparent)]
    Records(#[from] ReadError),
    /// Lines that cannot be read.
    #[error("cannot be read further: {0}")]
    Lines(io::Error),
    /// The output.
    #[error(transparent)]
    Output(#[from] io::Error),
}

/// Adds `cleanText` and `language` to each item. All other fields stay as they are and where they are; earlier values
/// of these two are replaced. A bad record goes to `problems` with its place and is left out.
pub fn run_items(
    items: impl IntoIterator<Item = Result<Record, ReadError>>,
    out: &mut dyn Write,
    problems: &mut dyn FnMut(Place, String),
    options: &FilterOptions,
) -> Result<FilterOutcome, FilterError> {
    let cleaner = Cleaner::new();
    let mut outcome = FilterOutcome::default();
    for record in items {
        let record = record?;
        match clean_item(&cleaner, &record.bytes, options) {
            Ok(item) => {
                out.write_all(&item)?;
                outcome.written += 1;
            }
            Err(refusal) => {
                problems(Place::of(&record), refusal.message);
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
    problems: &mut dyn FnMut(Place, String),
    options: &FilterOptions,
) -> Result<FilterOutcome, FilterError> {
    let cleaner = Cleaner::new();
    let mut outcome = FilterOutcome::default();
    let mut line = Vec::new();
    while read_line(input, &mut line).map_err(FilterError::Lines)? {
        outcome.written += 1;
        let text = String::from_utf8_lossy(&line);
        if matches!(text, std::borrow::Cow::Owned(_)) {
            problems(Place::Line(outcome.written), "the line is not UTF-8".to_owned());
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

fn clean_item(cleaner: &Cleaner, record: &[u8], options: &FilterOptions) -> Result<Vec<u8>, Refusal> {
    let item = json::read_record(record, Item::read)?;
    let platform = item.platform.as_ref().unwrap_or(&options.platform);
    let clean = cleaner.clean(&item.text, platform, options.language.or(item.language), Language::English);
    let added = [("cleanText", clean.text.as_str()), ("language", clean.language.code())];
    item.fields
        .with(&added)
        .map_err(|error| Refusal::new(RefusalCode::BadJson, format!("cannot be written: {error}")))
}

/// What cleaning needs of an item, and all of it.
struct Item {
    text: String,
    platform: Option<SourceType>,
    language: Option<Language>,
    fields: Fields,
}

impl Item {
    fn read(record: &str) -> Result<Self, Failure> {
        let fields: Fields = serde_json::from_str(record)?;
        let text =
            fields.get("text").ok_or_else(|| Refusal::new(RefusalCode::MissingText, "no field \"text\""))?;
        let text = json::string(Some(text))?
            .ok_or_else(|| Refusal::new(RefusalCode::BadShape, "the field \"text\" is not a string"))?;
        let mut platform = None;
        for name in ["sourceType", "source_type"] {
            platform = platform.or(json::string(fields.get(name))?);
        }
        let stated = json::string(fields.get("language").or_else(|| fields.get("lang")))?;
        let stated = stated.and_then(|code| Language::from_code(&code));
        let language = match stated {
            Some(language) => Some(language),
            None => language_of_source(fields.get("source"))?,
        };
        Ok(Self { text, platform: platform.map(|name| SourceType::from_name(&name)), language, fields })
    }
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use super::*;
    use crate::feed::Records;

    fn items(input: &str) -> (String, Vec<(Place, String)>, FilterOutcome) {
        let (mut out, mut problems) = (Vec::new(), Vec::new());
        let mut report = |place, problem| problems.push((place, problem));
        let records = Records::new(Cursor::new(input.to_owned()), "test");
        let outcome = run_items(records, &mut out, &mut report, &FilterOptions::for_items()).unwrap();
        (String::from_utf8(out).unwrap(), problems, outcome)
    }

    #[test]
    fn the_language_that_the_source_states_counts_as_in_a_replay() {
        for source in [r#"{"lang":"es"}"#, r#""{\"lang\":\"es\"}""#] {
            let (out, ..) = items(&format!("{{\"text\":\"#TodosSantos\",\"source\":{source}}}\n"));
            assert!(out.contains(r#""cleanText":"TodosSantos","language":"es""#), "{out}");
        }
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
            "\u{feff}{\"text\":\"a\"}\r\n\r\n{\"text\":1}\nnot json\n[]\n{}\n{\"text\":NaNa}\n{\"text\":\"d\"}",
        );
        assert_eq!(out.lines().count(), 2);
        assert!(out.contains(r#""cleanText":"a""#) && out.contains(r#""cleanText":"d""#));
        assert_eq!(
            problems.iter().map(|(place, _)| *place).collect::<Vec<_>>(),
            [3, 4, 5, 6, 7].map(Place::Line)
        );
        assert!(problems[0].1.contains("\"text\" is not a string"), "{problems:?}");
        assert!(problems[1].1.contains("byte 1 of the record"), "{problems:?}");
        assert!(problems[2].1.contains("expected a JSON object"), "{problems:?}");
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
            out.contains(r#""text":"Bridge closed \ufffd","cleanText":"Bridge closed""#),
            "{out}{problems:?}"
        );
    }

    #[test]
    fn what_a_replay_repairs_is_repaired() {
        let (out, problems, outcome) = items(concat!(
            r#"{"text":"first","n":1.50,"source":{"a":NaN,"b":[-Infinity,1.50]},"text":"fire NaN"}"#,
            "\n",
            r#"{"text":"fire","source":{"t":"x\ud83d"},"\ud83d":1,"x":Infinity}"#,
            "\n",
            r#"{"text":"fire","source":{"t":"x\ud83d"},"n":1.50}"#,
        ));
        assert!(problems.is_empty(), "{problems:?}");
        assert_eq!(outcome, FilterOutcome { written: 3, refused: 0 });
        let added = r#""cleanText":"fire","language":"en"}"#;
        assert_eq!(
            out.lines().collect::<Vec<_>>(),
            [
                r#"{"n":1.50,"source":{"a":null,"b":[null,1.50]},"text":"fire NaN","cleanText":"fire NaN","language":"en"}"#.to_owned(),
                format!(r#"{{"text":"fire","source":{{"t":"x\ufffd"}},"{key}":1,"x":null,{added}"#, key = '\u{fffd}'),
                format!(r#"{{"text":"fire","source":{{"t":"x\ufffd"}},"n":1.50,{added}"#),
            ]
        );
        for line in out.lines() {
            serde_json::from_str::<serde_json::Value>(line).unwrap();
        }
    }

    #[test]
    fn a_json_array_gives_a_line_an_item() {
        let (out, problems, outcome) =
            items("[\n {\"text\": \"a\",\n  \"source\": {\n   \"b\": 1}},\n 7,\n {\"text\": \"c\"}\n]");
        assert_eq!(out.lines().count(), 2);
        assert!(out.starts_with(r#"{"text":"a","source":{"b": 1},"cleanText":"a""#), "{out}");
        assert_eq!(problems[0].0, Place::Record(1));
        assert_eq!(outcome, FilterOutcome { written: 2, refused: 1 });
    }

    #[test]
    fn plain_lines_stay_lines() {
        let mut out = Vec::new();
        let mut problems = Vec::new();
        let mut report = |place, problem| problems.push((place, problem));
        let input: &[u8] = b"RT @a: #bigflood\r\n\n@b\nok \xff x";
        run_text(&mut &*input, &mut out, &mut report, &FilterOptions::for_text()).unwrap();
        assert_eq!(String::from_utf8(out).unwrap(), "big flood\n\n\nok \u{fffd} x\n");
        assert_eq!(problems.len(), 1);
    }
}
