//! CrisisFACTS stream items, by the track's field names or by those of `ir_datasets`.

use serde_json::value::RawValue;

use super::origin;
use crate::{
    feed::{
        RawItem,
        json::{self, Failure, pick},
        time,
    },
    model::{Language, Refusal, RefusalCode, SourceType},
};

/// The fields of an item, not yet read.
pub(super) struct Fields<'a> {
    event: Option<&'a RawValue>,
    stream_id: Option<&'a RawValue>,
    time: Option<&'a RawValue>,
    text: Option<&'a RawValue>,
    source_type: Option<&'a RawValue>,
    source: Option<&'a RawValue>,
    language: Option<&'a RawValue>,
}

impl<'a> Fields<'a> {
    pub(super) fn read(record: &'a str) -> Result<Self, Failure> {
        let [
            event,
            stream_id,
            doc_id,
            time,
            unix_time,
            text,
            source_type,
            renamed_type,
            source,
            language,
            lang,
        ] = pick(
            record,
            [
                "event",
                "streamID",
                "doc_id",
                "unixTimestamp",
                "unix_timestamp",
                "text",
                "sourceType",
                "source_type",
                "source",
                "language",
                "lang",
            ],
        )?;
        Ok(Self {
            event,
            stream_id: stream_id.or(doc_id),
            time: time.or(unix_time),
            text,
            source_type: source_type.or(renamed_type),
            source,
            language: language.or(lang),
        })
    }

    /// Whether the record has a field that only this format has.
    pub(super) fn name_an_item(&self) -> bool {
        self.stream_id.is_some() || self.source_type.is_some()
    }

    pub(super) fn decode(self) -> Result<RawItem, Failure> {
        let stream_id = json::identifier(self.stream_id)?.ok_or_else(|| super::missing_id("streamID"))?;
        let Some(text) = self.text else {
            return Err(super::missing_text("\"text\""));
        };
        let text = json::string(Some(text))?.ok_or_else(|| wrong("text", text))?;
        let time = time::read(self.time, "unixTimestamp")?;
        let event = match self.event {
            Some(event) => Some(json::string(Some(event))?.ok_or_else(|| wrong("event", event))?),
            None => None,
        };
        let source_type = match self.source_type {
            Some(name) => {
                let name = json::string(Some(name))?.ok_or_else(|| wrong("sourceType", name))?;
                SourceType::from_name(&name)
            }
            None => platform_of(&stream_id),
        };
        let source = source(self.source)?;
        let hints = origin::hints(source.as_deref(), &source_type, &text)?;
        let language = json::string(self.language)?.and_then(|code| Language::from_code(&code));
        Ok(RawItem {
            event: event.filter(|event| !event.trim().is_empty()),
            stream_id: Some(stream_id),
            local_id: None,
            time,
            text,
            source_type,
            source,
            language: language.or(hints.language),
            origin: hints.origin,
            routed_by: None,
        })
    }
}

/// The platform that stands in the track's stream ids, as in `CrisisFACTS-001-Reddit-33-17`.
fn platform_of(stream_id: &str) -> SourceType {
    let known =
        stream_id.split('-').map(SourceType::from_name).find(|part| !matches!(part, SourceType::Other(_)));
    known.unwrap_or_else(|| SourceType::Other("Unknown".into()))
}

/// The source as JSON: an object that came as text becomes that object, any other text stays a text.
fn source(value: Option<&RawValue>) -> Result<Option<Box<RawValue>>, Failure> {
    let Some(value) = value else {
        return Ok(None);
    };
    if let Some(text) = json::string(Some(value))?
        && let Some(object) = json::keep_text(&text)
    {
        return Ok(Some(object));
    }
    Ok(json::keep(value))
}

/// The language that an item's source states.
pub(crate) fn language_of_source(value: Option<&RawValue>) -> Result<Option<Language>, Failure> {
    let source = source(value)?;
    Ok(origin::hints(source.as_deref(), &SourceType::Twitter, "")?.language)
}

fn wrong(field: &str, value: &RawValue) -> Failure {
    let shown: String = value.get().chars().take(40).collect();
    Refusal::new(RefusalCode::BadShape, format!("\"{field}\" is no text but {shown}")).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(record: &str) -> Result<RawItem, Failure> {
        Fields::read(record)?.decode()
    }

    fn code(record: &str) -> RefusalCode {
        match read(record) {
            Err(Failure::Refused(refusal)) => refusal.code,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_names_of_the_track_and_of_ir_datasets_mean_the_same() {
        let track = r#"{"event":"E-1","streamID":"E-1-Reddit-s26-c1-0","unixTimestamp":1512604800,"text":"Shelter open","sourceType":"Reddit","source":{"author":"Ann"}}"#;
        let renamed = r#"{"event":"E-1","doc_id":"E-1-Reddit-s26-c1-0","unix_timestamp":1512604800,"text":"Shelter open","source_type":"Reddit","source":"{\"author\":\"Ann\"}"}"#;
        let item = read(track).unwrap();
        assert_eq!(format!("{item:?}"), format!("{:?}", read(renamed).unwrap()));
        assert_eq!(item.stream_id.as_deref(), Some("E-1-Reddit-s26-c1-0"));
        assert_eq!((item.source_type, item.origin.as_deref()), (SourceType::Reddit, Some("ann")));
        assert_eq!(item.source.unwrap().get(), r#"{"author":"Ann"}"#);
    }

    #[test]
    fn a_source_keeps_its_digits_and_may_be_any_text() {
        let record = |source: &str| {
            format!(r#"{{"streamID":"a","unixTimestamp":"1512604800","text":"","source":{source}}}"#)
        };
        let kept = |source: &str| read(&record(source)).unwrap().source.map(|source| source.get().to_owned());
        for object in
            [r#"{"id":123456789012345678901234567890,"x":1.10}"#, "{ }", "[1]", "7", "\"plain {\"", "\"12\""]
        {
            assert_eq!(kept(object).as_deref(), Some(object));
        }
        assert_eq!(
            kept(r#""{\"id\":123456789012345678901}""#).as_deref(),
            Some(r#"{"id":123456789012345678901}"#)
        );
        assert_eq!(kept("null"), None);
    }

    #[test]
    fn text_may_be_empty_but_not_absent() {
        let with = |fields: &str| format!(r#"{{"streamID":"a","unixTimestamp":1512604800{fields}}}"#);
        assert_eq!(read(&with(r#","text":"""#)).unwrap().text, "");
        assert_eq!(code(&with("")), RefusalCode::MissingText);
        assert_eq!(code(&with(r#","text":null"#)), RefusalCode::MissingText);
        assert_eq!(code(&with(r#","text":["a"]"#)), RefusalCode::BadShape);
        assert_eq!(code(&with(r#","text":"a","event":3"#)), RefusalCode::BadShape);
        assert_eq!(code(&with(r#","text":"a","sourceType":3"#)), RefusalCode::BadShape);
        let item = read(&with(r#","text":"a","text":"b","event":" ""#)).unwrap();
        assert_eq!((item.text.as_str(), item.event), ("b", None));
    }

    #[test]
    fn what_is_missing_is_said() {
        assert_eq!(code(r#"{"text":"a","unixTimestamp":1512604800}"#), RefusalCode::BadId);
        assert_eq!(code(r#"{"text":"a","unixTimestamp":1512604800,"streamID":" "}"#), RefusalCode::BadId);
        assert_eq!(code(r#"{"text":"a","streamID":"a"}"#), RefusalCode::MissingTime);
        assert_eq!(code(r#"{"text":"a","streamID":"a","unixTimestamp":"soon"}"#), RefusalCode::BadTime);
        assert_eq!(code(r#"{"text":"a","streamID":"a","unixTimestamp":5}"#), RefusalCode::TimeOutOfRange);
    }

    #[test]
    fn platform_and_language_are_read_from_where_they_stand() {
        let record =
            |fields: &str| read(&format!(r#"{{"text":"a","unixTimestamp":1512604800,{fields}}}"#)).unwrap();
        assert_eq!(record(r#""streamID":"E-News-1-0""#).source_type, SourceType::News);
        assert_eq!(record(r#""streamID":"1""#).source_type.as_str(), "Unknown");
        assert_eq!(record(r#""streamID":"1","lang":"es""#).language, Some(Language::Spanish));
        let item = record(
            r#""streamID":"1","sourceType":"Twitter","source":{"lang":"pt","user":{"screen_name":"Ana"}}"#,
        );
        assert_eq!((item.language, item.origin.as_deref()), (Some(Language::Portuguese), Some("ana")));
    }
}
