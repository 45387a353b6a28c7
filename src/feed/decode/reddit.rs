//! Reddit submissions and comments.

use super::{id_part, missing_id, missing_text, origin, whole};
use crate::{
    feed::{
        RawItem,
        json::{self, Failure, pick},
        time,
    },
    model::SourceType,
};

pub(super) fn decode(record: &str) -> Result<RawItem, Failure> {
    let [kind, data] = pick(record, ["kind", "data"])?;
    match data {
        // Reddit's own interface wraps each thing.
        Some(data) if kind.is_some() && data.get().starts_with('{') => post(data.get()),
        _ => post(record),
    }
}

fn post(record: &str) -> Result<RawItem, Failure> {
    let [id, created, title, selftext, body, author] =
        pick(record, ["id", "created_utc", "title", "selftext", "body", "author"])?;
    let id = json::identifier(id)?.ok_or_else(|| missing_id("id"))?;
    let (letter, text) = match (json::string(title)?, json::string(body)?) {
        (Some(title), _) => ('s', submission(title, json::string(selftext)?)),
        (None, Some(body)) => ('c', written(body)),
        (None, None) => return Err(missing_text("\"title\" or \"body\"")),
    };
    Ok(RawItem {
        event: None,
        stream_id: None,
        local_id: Some(format!("Reddit-{letter}{}-0", id_part(&id))),
        time: time::read_with_fraction(created, "created_utc")?,
        text,
        source_type: SourceType::Reddit,
        source: whole(record)?,
        language: None,
        origin: origin::person(author)?,
        routed_by: None,
    })
}

fn submission(title: String, selftext: Option<String>) -> String {
    let selftext = selftext.map(written).unwrap_or_default();
    if selftext.trim().is_empty() { title } else { format!("{title}\n{selftext}") }
}

/// What the author or a moderator took away stands there as a mark, which nobody wrote.
fn written(text: String) -> String {
    if matches!(text.trim(), "[removed]" | "[deleted]") { String::new() } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::RefusalCode;

    fn read(fields: &str) -> RawItem {
        decode(&format!(r#"{{"id":"7ab","created_utc":1512677434.0,{fields}}}"#)).unwrap()
    }

    #[test]
    fn a_submission_is_its_title_and_what_was_not_taken_away() {
        let item = read(r#""title":"Bridge closed","selftext":"Until noon.","author":"Ann""#);
        assert_eq!(item.text, "Bridge closed\nUntil noon.");
        assert_eq!(item.local_id.as_deref(), Some("Reddit-s7ab-0"));
        assert_eq!((item.time.get(), item.origin.as_deref()), (1_512_677_434, Some("ann")));
        for nothing in ["", "[removed]", "[deleted]"] {
            let item = read(&format!(r#""title":"Bridge closed","selftext":"{nothing}""#));
            assert_eq!(item.text, "Bridge closed");
        }
    }

    #[test]
    fn a_comment_that_was_taken_away_is_empty() {
        let item = read(r#""body":"Open again","parent_id":"t3_7ab","link_id":"t3_7ab""#);
        assert_eq!((item.text.as_str(), item.local_id.as_deref()), ("Open again", Some("Reddit-c7ab-0")));
        let removed = read(r#""body":"[removed]","author":"[deleted]""#);
        assert_eq!((removed.text.as_str(), removed.origin), ("", None));
    }

    #[test]
    fn a_wrapped_post_is_read_and_one_without_text_is_refused() {
        let wrapped = r#"{"kind":"t1","data":{"id":"c1","created_utc":1512677434,"body":"Open"}}"#;
        assert_eq!(decode(wrapped).unwrap().local_id.as_deref(), Some("Reddit-cc1-0"));
        let Err(Failure::Refused(refusal)) = decode(r#"{"id":"c1","created_utc":1512677434}"#) else {
            panic!("accepted");
        };
        assert_eq!(refusal.code, RefusalCode::MissingText);
    }
}
