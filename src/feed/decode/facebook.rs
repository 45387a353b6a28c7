//! Facebook posts as the Graph interface and CrowdTangle send them.

use super::{id_part, missing_id, missing_text, origin, whole};
use crate::{
    feed::{
        RawItem,
        json::{self, Failure, pick},
        time,
    },
    model::{Language, SourceType},
};

pub(super) fn decode(record: &str) -> Result<RawItem, Failure> {
    let [id, platform_id, created_time, date, message, story, title, description, account, from, lang, code] =
        pick(
            record,
            [
                "id",
                "platformId",
                "created_time",
                "date",
                "message",
                "story",
                "title",
                "description",
                "account",
                "from",
                "lang",
                "languageCode",
            ],
        )?;
    let id = match json::identifier(platform_id)? {
        Some(id) => id,
        None => json::identifier(id)?.ok_or_else(|| missing_id("id"))?,
    };
    let mut parts: Vec<String> = Vec::new();
    let mut has_text = false;
    for field in [message.or(story), title, description] {
        let Some(part) = json::string(field)? else {
            continue;
        };
        has_text = true;
        // The preview of a link often repeats the message.
        let is_new = !parts.iter().any(|before| before.contains(part.trim()));
        if is_new && !part.trim().is_empty() {
            parts.push(part);
        }
    }
    if !has_text {
        return Err(missing_text("\"message\", \"story\", \"title\" or \"description\""));
    }
    let origin = match origin::page(account)? {
        Some(page) => Some(page),
        None => origin::page(from)?,
    };
    Ok(RawItem {
        event: None,
        stream_id: None,
        local_id: Some(format!("Facebook-{}-0", id_part(&id))),
        time: time::read_first(&[(created_time, "created_time"), (date, "date")])?,
        text: parts.join("\n"),
        source_type: SourceType::Facebook,
        source: whole(record)?,
        language: json::string(lang.or(code))?.and_then(|code| Language::from_code(&code)),
        origin,
        routed_by: None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::RefusalCode;

    #[test]
    fn a_graph_post_is_its_message() {
        let item = decode(
            r#"{"id":"12_34","created_time":"2017-12-07T20:10:34+0000","message":"Bridge closed","story":"x","from":{"name":"City Hall"}}"#,
        )
        .unwrap();
        assert_eq!(item.text, "Bridge closed");
        assert_eq!(item.local_id.as_deref(), Some("Facebook-12_34-0"));
        assert_eq!((item.time.get(), item.origin.as_deref()), (1_512_677_434, Some("city hall")));
        let story =
            decode(r#"{"id":"1","created_time":"2017-12-07","story":"City Hall was here."}"#).unwrap();
        assert_eq!(story.text, "City Hall was here.");
    }

    #[test]
    fn a_crowdtangle_post_has_the_preview_it_does_not_repeat() {
        let item = decode(
            r#"{"platformId":"12_34","id":"7|8","date":"2017-12-07 20:10:34","message":"Bridge closed. Take the ferry","title":"Bridge closed",
                "description":"The ferry runs hourly.","account":{"id":3,"name":"Daily Paper"},"languageCode":"en"}"#,
        )
        .unwrap();
        assert_eq!(item.text, "Bridge closed. Take the ferry\nThe ferry runs hourly.");
        assert_eq!(item.local_id.as_deref(), Some("Facebook-12_34-0"));
        assert_eq!((item.time.get(), item.origin.as_deref()), (1_512_677_434, Some("daily paper")));
        assert_eq!(item.language, Some(Language::English));
    }

    #[test]
    fn empty_fields_leave_no_empty_lines() {
        let post = r#"{"id":"1","created_time":"2017-12-07","message":" ","title":"Bridge closed","description":""}"#;
        assert_eq!(decode(post).unwrap().text, "Bridge closed");
    }

    #[test]
    fn a_picture_without_words_is_refused() {
        let Err(Failure::Refused(refusal)) = decode(r#"{"id":"1","created_time":"2017-12-07"}"#) else {
            panic!("accepted");
        };
        assert_eq!(refusal.code, RefusalCode::MissingText);
    }
}
