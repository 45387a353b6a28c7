//! From a record's bytes to items: which format it has, and one decoder a platform.
//!
//! Keeps true: any bytes give items or a refusal with its reason; nothing is dropped and nothing stops the stream. Of a
//! record with several items each is accepted or refused for itself.

mod crisisfacts;
mod facebook;
mod news;
mod origin;
mod reddit;
mod sentences;
mod twitter;

pub(crate) use crisisfacts::language_of_source;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use xxhash_rust::xxh3::xxh3_64;

use super::{
    RawItem,
    json::{self, Failure, pick},
};
use crate::model::{Refusal, RefusalCode};

/// Longest message of a refusal in characters; it may quote a value of the record.
const LONGEST_MESSAGE: usize = 300;
/// Longest platform id that stands in a stream id as it is; a longer one is hashed.
const LONGEST_ID: usize = 100;

/// Which records a source carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Format {
    /// Told from the record's fields, record by record.
    #[default]
    Auto,
    /// CrisisFACTS stream items.
    Crisisfacts,
    /// Tweets as version 1.1 of Twitter's interface sends them.
    TwitterV1,
    /// Tweets as version 2 sends them, with or without `includes`.
    TwitterV2,
    /// Reddit submissions and comments.
    Reddit,
    /// Facebook posts, of the Graph interface or of CrowdTangle.
    Facebook,
    /// News articles, cut into sentences.
    News,
}

/// What one record gives; never nothing.
#[derive(Debug, Default)]
pub struct Decoded {
    /// Its items: several of news articles and of answers of Twitter's version 2.
    pub items: Vec<RawItem>,
    /// What of it is refused while the rest is read.
    pub refused: Vec<RefusedPart>,
}

/// A refused part of a record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RefusedPart {
    /// The reason, and which part it is.
    pub refusal: Refusal,
    /// The part as it stands in the record.
    pub text: String,
}

impl From<RawItem> for Decoded {
    fn from(item: RawItem) -> Self {
        Self::from(vec![item])
    }
}

impl From<Vec<RawItem>> for Decoded {
    fn from(items: Vec<RawItem>) -> Self {
        Self { items, refused: Vec::new() }
    }
}

/// Reads one record; fails where nothing of it can be read.
pub fn decode(record: &[u8], format: Format) -> Result<Decoded, Refusal> {
    let mut decoded =
        json::read_record(record, |text| read_text(text, format)).map_err(|refusal| shortened(&refusal))?;
    for part in &mut decoded.refused {
        part.refusal = shortened(&part.refusal);
    }
    Ok(decoded)
}

fn shortened(refusal: &Refusal) -> Refusal {
    Refusal { code: refusal.code, message: refusal.message.chars().take(LONGEST_MESSAGE).collect() }
}

fn read_text(record: &str, format: Format) -> Result<Decoded, Failure> {
    match format {
        Format::Auto => {
            // The track's own shape is the common one, and one look at it tells whether it is.
            let fields = crisisfacts::Fields::read(record)?;
            if fields.name_an_item() {
                return fields.decode().map(Decoded::from);
            }
            read_text(record, tell(record)?)
        }
        Format::Crisisfacts => crisisfacts::Fields::read(record)?.decode().map(Decoded::from),
        Format::TwitterV1 => twitter::v1(record).map(Decoded::from),
        Format::TwitterV2 => twitter::v2(record),
        Format::Reddit => reddit::decode(record).map(Decoded::from),
        Format::Facebook => facebook::decode(record).map(Decoded::from),
        Format::News => news::decode(record).map(Decoded::from),
    }
}

/// Tells a platform's record by fields that only this platform has.
fn tell(record: &str) -> Result<Format, Failure> {
    let found = pick(
        record,
        [
            "id_str",
            "full_text",
            "retweeted_status",
            "timestamp_ms",
            "author_id",
            "edit_history_tweet_ids",
            "referenced_tweets",
            "data",
            "created_at",
            "created_utc",
            "subreddit",
            "kind",
            "created_time",
            "platformId",
            "account",
            "story",
            "title",
            "url",
            "content",
            "maintext",
            "unixTimestamp",
            "unix_timestamp",
            "event",
        ],
    )?
    .map(|field| field.is_some());
    let [
        id_str,
        full_text,
        retweeted,
        timestamp_ms,
        author_id,
        history,
        referenced,
        data,
        created_at,
        created_utc,
        subreddit,
        kind,
        created_time,
        platform_id,
        account,
        story,
        title,
        url,
        content,
        maintext,
        unix_timestamp,
        unix_timestamp_renamed,
        event,
    ] = found;
    if created_utc || subreddit || (data && kind) {
        Ok(Format::Reddit)
    } else if id_str || full_text || retweeted || timestamp_ms {
        Ok(Format::TwitterV1)
    } else if author_id || history || referenced || data {
        Ok(Format::TwitterV2)
    } else if created_time || platform_id || account || story {
        Ok(Format::Facebook)
    } else if maintext || content || (title && url) {
        Ok(Format::News)
    } else if created_at {
        Ok(Format::TwitterV2)
    } else if unix_timestamp || unix_timestamp_renamed || event {
        // An item of the track that lacks what names it: its decoder says what.
        Ok(Format::Crisisfacts)
    } else if title {
        Ok(Format::News)
    } else {
        let message = "the fields are of no known format; name the source's format if it has one";
        Err(Refusal::new(RefusalCode::BadShape, message).into())
    }
}

/// Part of a stream id: without what stream ids cannot hold, and of bounded length.
fn id_part(id: &str) -> String {
    let id = id.trim();
    if id.len() > LONGEST_ID {
        return format!("{:016x}", xxh3_64(id.as_bytes()));
    }
    id.chars().map(|c| if c.is_whitespace() || c.is_control() { '_' } else { c }).collect()
}

/// The whole record as an item's source.
fn whole(record: &str) -> Result<Option<Box<RawValue>>, Failure> {
    Ok(json::keep(serde_json::from_str(record)?))
}

fn missing_id(field: &str) -> Failure {
    Refusal::new(RefusalCode::BadId, format!("no \"{field}\" that is a text or a number")).into()
}

fn missing_text(fields: &str) -> Failure {
    Refusal::new(RefusalCode::MissingText, format!("no {fields}")).into()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    const FORMATS: [Format; 7] = [
        Format::Auto,
        Format::Crisisfacts,
        Format::TwitterV1,
        Format::TwitterV2,
        Format::Reddit,
        Format::Facebook,
        Format::News,
    ];

    /// One good record of each format.
    fn good() -> Vec<(Format, String)> {
        let records = [
            (
                Format::Crisisfacts,
                json!({"event": "E-1", "streamID": "E-1-Twitter-3-0", "unixTimestamp": 1_512_604_800, "text": "Bridge closed",
                       "sourceType": "Twitter", "source": {"id_str": "1"}}),
            ),
            (
                Format::TwitterV1,
                json!({"id_str": "93", "created_at": "Thu Dec 07 20:10:34 +0000 2017", "text": "Bridge closed"}),
            ),
            (
                Format::TwitterV2,
                json!({"data": {"id": "93", "created_at": "2017-12-07T20:10:34.000Z", "text": "Bridge closed"}}),
            ),
            (
                Format::TwitterV2,
                json!({"id": "93", "created_at": "2017-12-07T20:10:34.000Z", "text": "Bridge closed"}),
            ),
            (
                Format::Reddit,
                json!({"id": "7ab", "created_utc": 1_512_677_434.0, "title": "Bridge closed", "selftext": "", "url": "u"}),
            ),
            (
                Format::Facebook,
                json!({"id": "1_2", "created_time": "2017-12-07T20:10:34+0000", "message": "Bridge closed"}),
            ),
            (
                Format::News,
                json!({"title": "Bridge closed", "url": "https://paper.example/a", "text": "It is shut.", "date": "2017-12-07"}),
            ),
        ];
        records.into_iter().map(|(format, record)| (format, record.to_string())).collect()
    }

    fn code(record: &[u8], format: Format) -> RefusalCode {
        decode(record, format).unwrap_err().code
    }

    #[test]
    fn the_format_is_told_from_the_record() {
        for (format, record) in good() {
            let told = decode(record.as_bytes(), Format::Auto).unwrap();
            let named = decode(record.as_bytes(), format).unwrap();
            assert_eq!(format!("{told:?}"), format!("{named:?}"));
            assert!(told.items[0].text.starts_with("Bridge closed"), "{record}");
        }
        assert_eq!(code(b"{\"weather\":1}", Format::Auto), RefusalCode::BadShape);
        assert_eq!(code(b"{\"text\":\"x\",\"unixTimestamp\":1512604800}", Format::Auto), RefusalCode::BadId);
    }

    #[test]
    fn what_is_no_json_object_is_refused_with_its_place() {
        for bad in [
            "",
            "[]",
            "7",
            "{\"a\":1}{\"a\":2}",
            "{\"a\":1,}",
            "{\"text\":\"cu",
            "null",
            "{\"text\":\"\\ud83\"}",
        ] {
            for format in FORMATS {
                let refusal = decode(bad.as_bytes(), format).unwrap_err();
                assert_eq!(refusal.code, RefusalCode::BadJson, "{bad} {format:?}");
                assert!(refusal.message.contains("byte "), "{}", refusal.message);
            }
        }
        assert!(decode(b"{\"a\":1}{\"a\":2}", Format::Auto).unwrap_err().message.contains("byte 7 "));
        assert!(decode(b"{\"a\":\"\xff\"}", Format::Auto).unwrap_err().message.contains("byte 6 "));
    }

    #[test]
    fn what_is_too_large_or_too_deep_is_refused() {
        assert_eq!(code(&vec![b' '; json::LARGEST + 1], Format::Auto), RefusalCode::TooLarge);
        for (open, close) in [("[", "]"), ("{\"a\":", "}")] {
            let deep =
                format!("{{\"streamID\":\"a\",\"source\":{}1{}}}", open.repeat(50_000), close.repeat(50_000));
            assert_eq!(code(deep.as_bytes(), Format::Crisisfacts), RefusalCode::BadJson);
        }
    }

    #[test]
    fn a_refusal_stays_short_whatever_it_quotes() {
        let record = json!({"streamID": "a", "text": "b", "unixTimestamp": "9".repeat(5_000)}).to_string();
        let refusal = decode(record.as_bytes(), Format::Auto).unwrap_err();
        assert_eq!(refusal.code, RefusalCode::BadTime);
        assert!(refusal.message.len() <= 4 * LONGEST_MESSAGE);
    }

    #[test]
    fn cut_tweets_and_numbers_of_python_are_read() {
        let record = br#"{"id_str":"1","text":"fire \ud83d","timestamp_ms":"1512677434000","geo":NaN}"#;
        let items = decode(record, Format::TwitterV1).unwrap().items;
        assert_eq!(items[0].text, "fire \u{fffd}");
        assert!(items[0].source.as_ref().unwrap().get().ends_with(r#""geo":null}"#));
    }

    #[test]
    fn half_a_character_in_one_tweet_of_an_answer_harms_none() {
        let record =
            br#"{"data":[{"id":"1","text":"fire \ud83d","created_at":"2017-12-07"},{"id":"2","text":"fire"},
            {"id":"3","text":"fire","created_at":"2017-12-07","geo":NaN}]}"#;
        let decoded = decode(record, Format::Auto).unwrap();
        let texts: Vec<&str> = decoded.items.iter().map(|item| item.text.as_str()).collect();
        assert_eq!(texts, ["fire \u{fffd}", "fire"]);
        assert_eq!(decoded.refused.len(), 1);
    }

    #[test]
    fn a_byte_order_mark_before_the_record_does_no_harm() {
        for (format, record) in good() {
            assert!(decode(format!("\u{feff}{record}").as_bytes(), format).is_ok());
        }
    }

    #[test]
    fn parts_of_stream_ids_hold_what_stream_ids_allow() {
        assert_eq!(id_part(" a b\u{7}c\u{a0}d "), "a_b_c_d");
        assert_eq!(id_part(&"x".repeat(101)).len(), 16);
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            for format in FORMATS {
                let _outcome = decode(&bytes, format);
            }
        }

        #[test]
        fn a_changed_record_is_accepted_or_refused(
            which in 0_usize..7,
            at in any::<prop::sample::Index>(),
            cut in 0_usize..4,
            put in "[\"{}\\[\\]:,\\\\0-9a-z\\u{e9}-]{0,4}",
        ) {
            let (format, record) = good().swap_remove(which);
            let at = at.index(record.len());
            let mut bytes = record.into_bytes();
            let end = (at + cut).min(bytes.len());
            bytes.splice(at..end, put.into_bytes());
            for format in [format, Format::Auto] {
                match decode(&bytes, format) {
                    Ok(decoded) => prop_assert!(!decoded.items.is_empty() || !decoded.refused.is_empty()),
                    Err(refusal) => prop_assert!(!refusal.message.is_empty()),
                }
            }
        }

        #[test]
        fn values_of_the_wrong_type_are_read_or_refused(
            which in 0_usize..7,
            field in any::<prop::sample::Index>(),
            wrong in prop::sample::select(vec!["null", "true", "1", "-1.5e300", "\"\"", "\"x\"", "[]", "[1]", "{}", "{\"a\":{}}"]),
        ) {
            let (format, record) = good().swap_remove(which);
            let mut record: serde_json::Map<String, serde_json::Value> = serde_json::from_str(&record).unwrap();
            let name = record.keys().nth(field.index(record.len())).unwrap().clone();
            record.insert(name, serde_json::from_str(wrong).unwrap());
            let record = serde_json::to_vec(&record).unwrap();
            for format in [format, Format::Auto] {
                if let Ok(decoded) = decode(&record, format) {
                    prop_assert!(!decoded.items.is_empty() || !decoded.refused.is_empty());
                }
            }
        }
    }
}
