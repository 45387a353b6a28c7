//! Tweets as versions 1.1 and 2 of Twitter's interface send them.

use std::collections::HashMap;

use serde_json::value::RawValue;

use super::{Decoded, RefusedPart, id_part, missing_id, missing_text, origin, whole};
use crate::{
    feed::{
        RawItem,
        json::{self, Failure, elements, pick, pick_from},
        time,
    },
    model::{Language, Refusal, RefusalCode, SourceType},
};

/// Version 1.1.
pub(super) fn v1(record: &str) -> Result<RawItem, Failure> {
    let [id_str, id, created_at, milliseconds, lang, user, retweeted] =
        pick(record, ["id_str", "id", "created_at", "timestamp_ms", "lang", "user", "retweeted_status"])?;
    let id = json::identifier(id_str.or(id))?.ok_or_else(|| missing_id("id_str"))?;
    let mut text = full_text(record)?.ok_or_else(|| missing_text("\"full_text\" or \"text\""))?;
    let mut account = origin::account_of(user)?;
    if let Some(retweeted) = origin::innermost(retweeted)? {
        let [author] = pick(retweeted.get(), ["user"])?;
        let [name] = pick_from(author, ["screen_name"])?;
        let name = json::string(name)?;
        if let Some(repeated) = full_text(retweeted.get())? {
            // The outer text is cut where the prefix makes it too long.
            text = retweet(name.as_deref(), &text, &repeated);
        }
        account = origin::account_of(author)?.or(account);
    }
    let origin = origin::repeated_account(&text).or(account);
    Ok(RawItem {
        event: None,
        stream_id: None,
        local_id: Some(local_id(&id)),
        time: time::read_first(&[(created_at, "created_at"), (milliseconds, "timestamp_ms")])?,
        text,
        source_type: SourceType::Twitter,
        source: whole(record)?,
        language: json::string(lang)?.and_then(|code| Language::from_code(&code)),
        origin,
        routed_by: None,
    })
}

fn local_id(id: &str) -> String {
    format!("Twitter-{}-0", id_part(id))
}

pub(super) fn full_text(tweet: &str) -> Result<Option<String>, Failure> {
    let [full, extended, text] = pick(tweet, ["full_text", "extended_tweet", "text"])?;
    let [extended_full] = pick_from(extended, ["full_text"])?;
    for candidate in [full, extended_full, text] {
        if let Some(text) = json::string(candidate)? {
            return Ok(Some(text));
        }
    }
    Ok(None)
}

/// The repeated text behind `RT @name: `; the name as the outer, cut text has it where the record does not say.
fn retweet(name: Option<&str>, outer: &str, repeated: &str) -> String {
    let prefix = match name {
        Some(name) => format!("RT @{name}: "),
        None => match origin::repost_prefix(outer) {
            Some((name, _)) => format!("RT @{name}: "),
            None => String::new(),
        },
    };
    format!("{prefix}{repeated}")
}

/// How many retweets of retweets are followed; Twitter's own records hold one.
const LONGEST_CHAIN: usize = 8;

/// What a version 2 record carries beside its tweets, by id.
struct Includes<'a> {
    users: HashMap<String, &'a str>,
    tweets: HashMap<String, &'a str>,
}

impl Includes<'_> {
    fn user_name(&self, id: &str) -> Result<Option<String>, Failure> {
        match self.users.get(id) {
            Some(user) => Ok(json::string(pick(user, ["username"])?[0])?),
            None => Ok(None),
        }
    }
}

fn by_id(objects: Option<&RawValue>) -> Result<HashMap<String, &str>, Failure> {
    let mut found = HashMap::new();
    for object in elements(objects)? {
        let [id] = pick_from(Some(object), ["id"])?;
        if let Some(id) = json::identifier(id)? {
            found.insert(id, object.get());
        }
    }
    Ok(found)
}

/// Version 2: `{"data": …, "includes": …}`, where `data` may be a list, or a tweet alone. Of a list, each tweet is
/// accepted or refused for itself.
pub(super) fn v2(record: &str) -> Result<Decoded, Failure> {
    let [data, includes] = pick(record, ["data", "includes"])?;
    let [users, tweets] = pick_from(includes, ["users", "tweets"])?;
    let includes = Includes { users: by_id(users)?, tweets: by_id(tweets)? };
    let Some(data) = data else {
        return Ok(v2_tweet(record, &includes)?.into());
    };
    if data.get().starts_with('{') {
        return Ok(v2_tweet(data.get(), &includes)?.into());
    }
    let tweets = elements(Some(data))?;
    if tweets.is_empty() {
        return Err(Refusal::new(RefusalCode::BadShape, "\"data\" holds no tweet").into());
    }
    let mut decoded = Decoded::default();
    for (number, tweet) in (1..).zip(&tweets) {
        match v2_tweet(tweet.get(), &includes) {
            Ok(item) => decoded.items.push(item),
            // Broken JSON may be mended in the whole record.
            Err(Failure::Json(error)) => return Err(Failure::Json(error)),
            Err(Failure::Refused(refusal)) => {
                let [id] = pick_from(Some(tweet), ["id"])?;
                let named = json::identifier(id)?.map(|id| format!(", id {}", id_part(&id)));
                let which = format!("tweet {number} of {}{}", tweets.len(), named.unwrap_or_default());
                decoded.refused.push(RefusedPart {
                    refusal: Refusal::new(refusal.code, format!("{which}: {}", refusal.message)),
                    text: tweet.get().to_owned(),
                });
            }
        }
    }
    Ok(decoded)
}

fn v2_tweet(tweet: &str, includes: &Includes<'_>) -> Result<RawItem, Failure> {
    if !tweet.trim_start().starts_with('{') {
        return Err(Refusal::new(RefusalCode::BadShape, "\"data\" holds something else than tweets").into());
    }
    let [id, created_at, lang, author, referenced] =
        pick(tweet, ["id", "created_at", "lang", "author_id", "referenced_tweets"])?;
    let id = json::identifier(id)?.ok_or_else(|| missing_id("id"))?;
    let mut text = long_text(tweet)?.ok_or_else(|| missing_text("\"text\""))?;
    let mut origin = account(author, includes)?;
    if let Some(repeated) = repeated(referenced, includes)? {
        let [author] = pick(repeated, ["author_id"])?;
        origin = account(author, includes)?.or(origin);
        if let Some(repeated) = long_text(repeated)? {
            let name = match json::identifier(author)? {
                Some(id) => includes.user_name(&id)?,
                None => None,
            };
            text = retweet(name.as_deref(), &text, &repeated);
        }
    }
    let origin = origin::repeated_account(&text).or(origin);
    Ok(RawItem {
        event: None,
        stream_id: None,
        local_id: Some(local_id(&id)),
        time: time::read(created_at, "created_at")?,
        text,
        source_type: SourceType::Twitter,
        source: whole(tweet)?,
        language: json::string(lang)?.and_then(|code| Language::from_code(&code)),
        origin,
        routed_by: None,
    })
}

/// The text, or that of the note where the tweet is longer than a tweet.
fn long_text(tweet: &str) -> Result<Option<String>, Failure> {
    let [text, note] = pick(tweet, ["text", "note_tweet"])?;
    let [note] = pick_from(note, ["text"])?;
    Ok(json::string(note)?.or(json::string(text)?))
}

/// An account by its name where `includes` has it, else by its number.
fn account(author: Option<&RawValue>, includes: &Includes<'_>) -> Result<Option<String>, Failure> {
    let Some(id) = json::identifier(author)? else {
        return Ok(None);
    };
    Ok(Some(includes.user_name(&id)?.map_or(id, |name| name.to_lowercase())))
}

/// The tweet that a retweet repeats, through other retweets, where `includes` has it.
fn repeated<'a>(referenced: Option<&RawValue>, includes: &Includes<'a>) -> Result<Option<&'a str>, Failure> {
    let mut found = None;
    let mut next = retweeted_id(referenced)?;
    for _ in 0..LONGEST_CHAIN {
        let Some(tweet) = next.and_then(|id| includes.tweets.get(&id).copied()) else { break };
        found = Some(tweet);
        let [referenced] = pick(tweet, ["referenced_tweets"])?;
        next = retweeted_id(referenced)?;
    }
    Ok(found)
}

fn retweeted_id(referenced: Option<&RawValue>) -> Result<Option<String>, Failure> {
    for reference in elements(referenced)? {
        let [kind, id] = pick_from(Some(reference), ["type", "id"])?;
        if json::string(kind)?.as_deref() == Some("retweeted") {
            return Ok(json::identifier(id)?);
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn one(record: &Value) -> RawItem {
        v1(&record.to_string()).unwrap()
    }

    #[test]
    fn the_longest_text_of_a_tweet_is_taken() {
        let mut tweet = json!({"id": 93, "timestamp_ms": "1512677434000", "text": "cut…", "lang": "es",
                               "user": {"screen_name": "Ann"}});
        assert_eq!(one(&tweet).text, "cut…");
        tweet["extended_tweet"] = json!({"full_text": "long"});
        assert_eq!(one(&tweet).text, "long");
        tweet["full_text"] = json!("longest");
        let item = one(&tweet);
        assert_eq!(item.text, "longest");
        assert_eq!(item.local_id.as_deref(), Some("Twitter-93-0"));
        assert_eq!((item.language, item.origin.as_deref()), (Some(Language::Spanish), Some("ann")));
        assert_eq!(item.time.get(), 1_512_677_434);
    }

    #[test]
    fn a_retweet_has_the_whole_text_and_names_whom_it_repeats() {
        let item = one(&json!({"id_str": "94", "created_at": "Thu Dec 07 20:10:34 +0000 2017",
            "text": "RT @Bob: Bridge clo…", "user": {"screen_name": "Ann"},
            "retweeted_status": {"text": "Bridge clo…", "extended_tweet": {"full_text": "Bridge closed until noon"},
                                 "user": {"screen_name": "Bob"}}}));
        assert_eq!(item.text, "RT @Bob: Bridge closed until noon");
        assert_eq!(item.origin.as_deref(), Some("bob"));
        let unnamed = json!({"id_str": "94", "timestamp_ms": 1_512_677_434_000_i64,
            "text": "RT @Bob: Bridge clo…", "retweeted_status": {"text": "Bridge closed"}});
        assert_eq!(one(&unnamed).text, "RT @Bob: Bridge closed");
        let chain = one(
            &json!({"id_str": "95", "timestamp_ms": 1_512_677_434_000_i64, "text": "RT @Bob: RT @Ann: Bri…",
            "user": {"screen_name": "Cy"}, "retweeted_status": {"text": "RT @Ann: Bri…", "user": {"screen_name": "Bob"},
            "retweeted_status": {"text": "Bridge closed", "user": {"screen_name": "Ann"}}}}),
        );
        assert_eq!((chain.text.as_str(), chain.origin.as_deref()), ("RT @Ann: Bridge closed", Some("ann")));
        let written = one(
            &json!({"id_str": "95", "timestamp_ms": 1_512_677_434_000_i64, "text": "RT @Bob: RT @Ann: Bri…",
            "user": {"screen_name": "Cy"},
            "retweeted_status": {"text": "RT @Ann: Bridge closed", "user": {"screen_name": "Bob"}}}),
        );
        assert_eq!(written.origin.as_deref(), Some("ann"));
    }

    #[test]
    fn a_bad_tweet_of_an_answer_leaves_the_good_ones() {
        let time = "2017-12-07T20:10:34.000Z";
        let record = json!({"data": [
            {"id": "13", "text": "homes", "created_at": time},
            {"id": "14", "text": "homes no time"},
            7,
            {"id": "15", "text": "more homes", "created_at": time},
        ]});
        let decoded = v2(&record.to_string()).unwrap();
        let ids: Vec<_> = decoded.items.iter().filter_map(|item| item.local_id.as_deref()).collect();
        assert_eq!(ids, ["Twitter-13-0", "Twitter-15-0"]);
        let codes: Vec<_> = decoded.refused.iter().map(|part| part.refusal.code).collect();
        assert_eq!(codes, [RefusalCode::MissingTime, RefusalCode::BadShape]);
        assert!(decoded.refused[0].refusal.message.starts_with("tweet 2 of 4, id 14: "));
        assert_eq!(decoded.refused[0].text, r#"{"id":"14","text":"homes no time"}"#);
        assert_eq!(decoded.refused[1].text, "7");
    }

    #[test]
    fn version_2_reads_what_it_includes() {
        let record = json!({
            "data": [
                {"id": "5", "text": "RT @bob: Bridge clo…", "created_at": "2017-12-07T20:10:34.000Z", "author_id": "1",
                 "referenced_tweets": [{"type": "quoted", "id": "3"}, {"type": "retweeted", "id": "4"}]},
                {"id": "7", "text": "RT @bob: Bridge clo…", "created_at": "2017-12-07T20:10:34.000Z", "author_id": "1",
                 "referenced_tweets": [{"type": "retweeted", "id": "8"}]},
                {"id": "6", "text": "cut", "note_tweet": {"text": "a long note"}, "created_at": "2017-12-07T20:10:34.000Z",
                 "author_id": "1", "lang": "en"},
            ],
            "includes": {
                "users": [{"id": "1", "username": "Ann"}, {"id": "2", "username": "Bob"}],
                "tweets": [{"id": "4", "text": "Bridge closed until noon", "author_id": "2"},
                           {"id": "8", "text": "RT", "author_id": "1", "referenced_tweets": [{"type": "retweeted", "id": "4"}]}],
            }
        });
        let items = v2(&record.to_string()).unwrap().items;
        for retweet in &items[..2] {
            assert_eq!(retweet.text, "RT @Bob: Bridge closed until noon");
            assert_eq!(retweet.origin.as_deref(), Some("bob"));
        }
        assert_eq!((items[2].text.as_str(), items[2].origin.as_deref()), ("a long note", Some("ann")));
        assert_eq!(items[2].local_id.as_deref(), Some("Twitter-6-0"));
        assert!(items[2].source.as_ref().unwrap().get().starts_with("{\"id\":\"6\""));
    }

    #[test]
    fn version_2_without_includes_names_the_author_by_number() {
        let record =
            json!({"id": "6", "text": "hi", "created_at": "2017-12-07T20:10:34.000Z", "author_id": "17"});
        let items = v2(&record.to_string()).unwrap().items;
        assert_eq!(items[0].origin.as_deref(), Some("17"));
    }

    #[test]
    fn faults_are_refused() {
        let code = |result: Result<Decoded, Failure>| match result {
            Err(Failure::Refused(refusal)) => refusal.code,
            other => panic!("{other:?}"),
        };
        let v1 = |record: &str| code(v1(record).map(Decoded::from));
        assert_eq!(v1(r#"{"text":"a","timestamp_ms":"1512677434000"}"#), RefusalCode::BadId);
        assert_eq!(v1(r#"{"id":1,"timestamp_ms":"1512677434000"}"#), RefusalCode::MissingText);
        assert_eq!(v1(r#"{"id":1,"text":"a"}"#), RefusalCode::MissingTime);
        assert_eq!(v1(r#"{"id":1,"text":"a","created_at":"soon"}"#), RefusalCode::BadTime);
        assert_eq!(code(v2(r#"{"data":[]}"#)), RefusalCode::BadShape);
        assert_eq!(code(v2(r#"{"data":{"id":"1","text":"a"}}"#)), RefusalCode::MissingTime);
    }
}
