//! News articles: the title is the first item, each sentence of the text one more, as in the track's own streams.

use std::sync::Arc;

use serde_json::{Map, Value, value::RawValue};
use xxhash_rust::xxh3::xxh3_64;

use super::{id_part, missing_id, missing_text, origin, sentences};
use crate::{
    feed::{
        RawItem,
        json::{self, Failure, pick},
        time,
    },
    model::{Language, SourceType},
};

/// How much of an article tells its event: its sentences go where the article goes, and news begins with what it is
/// about.
const LEAD: usize = 1_000;
/// Longest address that is repeated in the source of each sentence.
const LONGEST_URL: usize = 2_000;

pub(super) fn decode(record: &str) -> Result<Vec<RawItem>, Failure> {
    let [id, title, text, content, maintext, url, site, language, lang] = pick(
        record,
        ["id", "title", "text", "content", "maintext", "url", "source_domain", "language", "lang"],
    )?;
    let title = json::string(title)?;
    let mut body = None;
    for field in [text, content, maintext] {
        body = body.or(json::string(field)?);
    }
    if title.is_none() && body.is_none() {
        return Err(missing_text("\"title\", \"text\", \"content\" or \"maintext\""));
    }
    let (title, body) = (title.unwrap_or_default(), body.unwrap_or_default());
    let time = published(record)?;
    let url_text = json::string(url)?.filter(|url| !url.trim().is_empty());
    let article = match json::identifier(id)? {
        Some(id) => id_part(&id),
        None => hashed(url_text.as_deref(), &title).ok_or_else(|| missing_id("id, url or title"))?,
    };
    let language = json::string(language.or(lang))?.and_then(|code| Language::from_code(&code));
    let origin = match origin::host_of(url)? {
        Some(host) => Some(host),
        None => json::string(site)?.map(|site| site.to_lowercase()),
    };
    let lead: Arc<str> =
        title.chars().chain(['\n']).chain(body.chars()).take(LEAD).collect::<String>().into();

    let mut texts = sentences::pieces(title.trim());
    let headline = texts.first().cloned().unwrap_or_default();
    if texts.is_empty() {
        // Number 0 is the title's, so that a sentence keeps its number when the title comes later.
        texts.push(String::new());
    }
    for sentence in sentences::split(&body) {
        texts.extend(sentences::pieces(&sentence));
    }
    let source = source(&article, url_text.as_deref(), &headline);
    let items = texts.into_iter().enumerate().map(|(number, text)| RawItem {
        event: None,
        stream_id: None,
        local_id: Some(format!("News-{article}-{number}")),
        time,
        text,
        source_type: SourceType::News,
        source: source.clone(),
        language,
        origin: origin.clone(),
        routed_by: Some(Arc::clone(&lead)),
    });
    Ok(items.collect())
}

fn published(record: &str) -> Result<crate::model::UnixSeconds, Failure> {
    const FIELDS: [&str; 8] = [
        "published_date",
        "date_publish",
        "publishedAt",
        "date",
        "unixTimestamp",
        "published_utc",
        "published",
        "pubDate",
    ];
    let values = pick(record, FIELDS)?;
    let candidates: Vec<(Option<&RawValue>, &str)> = values.into_iter().zip(FIELDS).collect();
    time::read_first(&candidates)
}

/// A name for an article that has none: the same for the same address, or title where there is no address.
fn hashed(url: Option<&str>, title: &str) -> Option<String> {
    let named = url.unwrap_or(title).trim();
    (!named.is_empty()).then(|| format!("{:016x}", xxh3_64(named.as_bytes())))
}

/// What each sentence says about its article. Not the article itself, which would be stored once a sentence.
fn source(article: &str, url: Option<&str>, title: &str) -> Option<Box<RawValue>> {
    let mut fields = Map::new();
    fields.insert("id".to_owned(), Value::from(article));
    if let Some(url) = url.filter(|url| url.len() <= LONGEST_URL) {
        fields.insert("url".to_owned(), Value::from(url));
    }
    fields.insert("title".to_owned(), Value::from(title));
    serde_json::value::to_raw_value(&fields).ok()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::model::RefusalCode;

    fn texts(items: &[RawItem]) -> Vec<&str> {
        items.iter().map(|item| item.text.as_str()).collect()
    }

    #[test]
    fn the_title_is_number_0_and_each_sentence_one_more() {
        let record = json!({"id": "paper 7", "title": "Bridge closed", "content": "It is shut. Since noon!\n\n• Take the ferry\n• Or wait",
            "url": "https://www.paper.example/7", "published_date": "2017-12-07 00:00:00", "language": "en"});
        let items = decode(&record.to_string()).unwrap();
        assert_eq!(
            texts(&items),
            ["Bridge closed", "It is shut.", "Since noon!", "• Take the ferry", "• Or wait"]
        );
        assert_eq!(items[0].local_id.as_deref(), Some("News-paper_7-0"));
        assert_eq!(items[4].local_id.as_deref(), Some("News-paper_7-4"));
        assert_eq!(items[2].origin.as_deref(), Some("paper.example"));
        assert_eq!(items[2].language, Some(Language::English));
        assert_eq!(items[2].time.get(), 1_512_604_800);
        assert!(items[4].routed_by.as_ref().unwrap().starts_with("Bridge closed\nIt is"));
        assert_eq!(
            items[1].source.as_ref().unwrap().get(),
            r#"{"id":"paper_7","url":"https://www.paper.example/7","title":"Bridge closed"}"#
        );
    }

    #[test]
    fn an_article_without_id_is_named_by_its_address() {
        let id = |url: &str, title: &str| {
            let record = json!({"url": url, "title": title, "text": "", "date": "2017-12-07"}).to_string();
            decode(&record).unwrap().swap_remove(0).local_id.unwrap()
        };
        assert_eq!(id("https://a.example/1", "x"), id("https://a.example/1", "y"));
        assert_ne!(id("https://a.example/1", "x"), id("https://a.example/2", "x"));
        assert_ne!(id("", "x"), id("", "y"));
    }

    #[test]
    fn a_missing_title_leaves_number_0_empty() {
        let record = json!({"id": 7, "text": "It is shut.", "date": "2017-12-07"}).to_string();
        assert_eq!(texts(&decode(&record).unwrap()), ["", "It is shut."]);
    }

    #[test]
    fn a_large_article_stays_small() {
        let body = "All is shut. ".repeat(70_000);
        let record =
            json!({"id": 7, "title": "t".repeat(500), "text": body, "date": "2017-12-07"}).to_string();
        let items = decode(&record).unwrap();
        assert_eq!(items.len(), 70_003);
        assert!(items.iter().all(|item| item.source.as_ref().unwrap().get().len() < 300));
    }

    #[test]
    fn faults_are_refused() {
        let code = |record: serde_json::Value| match decode(&record.to_string()) {
            Err(Failure::Refused(refusal)) => refusal.code,
            other => panic!("{other:?}"),
        };
        assert_eq!(code(json!({"id": 7, "date": "2017-12-07"})), RefusalCode::MissingText);
        assert_eq!(code(json!({"id": 7, "title": 8, "date": "2017-12-07"})), RefusalCode::MissingText);
        assert_eq!(code(json!({"text": "It is shut.", "date": "2017-12-07"})), RefusalCode::BadId);
        assert_eq!(code(json!({"id": 7, "text": "It is shut."})), RefusalCode::MissingTime);
        assert_eq!(code(json!({"id": 7, "text": "It is shut.", "date": "soon"})), RefusalCode::BadTime);
    }
}
