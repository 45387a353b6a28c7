//! Who says it: the account or site of an item, for counting independent sources.
//!
//! Names are in lower case, since accounts and hosts have no other. A repost names the account whose words it repeats,
//! through however many hands they went.

use serde_json::value::RawValue;

use super::twitter;
use crate::{
    feed::json::{self, Failure, pick_from},
    model::{Language, SourceType},
};

/// What a platform's record inside an item tells about it.
#[derive(Debug, Default)]
pub(super) struct Hints {
    pub(super) language: Option<Language>,
    pub(super) origin: Option<String>,
}

/// Reads an item's source.
pub(super) fn hints(source: Option<&RawValue>, platform: &SourceType, text: &str) -> Result<Hints, Failure> {
    let [lang, language, user, author, author_id, retweeted, url, link, site, account, from] = pick_from(
        source,
        [
            "lang",
            "language",
            "user",
            "author",
            "author_id",
            "retweeted_status",
            "url",
            "link",
            "source_domain",
            "account",
            "from",
        ],
    )?;
    let origin = match platform {
        SourceType::Twitter => match repeated_author(retweeted, text)? {
            Some(name) => Some(name),
            None => account_of(user)?.or(json::identifier(author_id)?),
        },
        SourceType::Reddit => person(author)?,
        SourceType::Facebook => page(account)?.or(page(from)?),
        SourceType::News | SourceType::Other(_) => {
            match host_of(url)?.or(host_of(link)?).or(json::string(site)?) {
                Some(site) => Some(site),
                None => account_of(user)?.or(person(author)?),
            }
        }
    };
    let language = json::string(lang.or(language))?.and_then(|code| Language::from_code(&code));
    Ok(Hints { language, origin: origin.map(|name| name.to_lowercase()) })
}

/// The author of what a tweet repeats, by the tweet inside it or by its text.
fn repeated_author(retweeted: Option<&RawValue>, text: &str) -> Result<Option<String>, Failure> {
    let Some(tweet) = innermost(retweeted)? else {
        return Ok(repeated_account(text));
    };
    let repeated = twitter::full_text(tweet.get())?;
    if let Some(name) = repeated.as_deref().and_then(repeated_account).or_else(|| repeated_account(text)) {
        return Ok(Some(name));
    }
    let [author] = pick_from(Some(tweet), ["user"])?;
    account_of(author)
}

/// The tweet at the end of a chain of `retweeted_status`.
pub(super) fn innermost(retweeted: Option<&RawValue>) -> Result<Option<&RawValue>, Failure> {
    let mut found = None;
    let mut next = retweeted;
    // Each lies within the one before, so this ends.
    while let Some(tweet) = next.filter(|tweet| tweet.get().starts_with('{')) {
        found = Some(tweet);
        [next] = pick_from(next, ["retweeted_status"])?;
    }
    Ok(found)
}

/// The account whose words a tweet repeats, by its text: the innermost of the prefixes that it begins with
/// (`RT @b: RT @a:`, `MT @a:`, `"@a:`), or whom it names by `via @a` at its end.
pub(super) fn repeated_account(text: &str) -> Option<String> {
    let mut prefixed = None;
    let mut rest = text;
    while let Some((name, repeated)) = repost_prefix(rest) {
        prefixed = Some(name);
        rest = repeated;
    }
    named_last(rest).or(prefixed).map(str::to_ascii_lowercase)
}

/// The account that the prefix of a repost names, and what stands behind the prefix.
pub(super) fn repost_prefix(text: &str) -> Option<(&str, &str)> {
    let text = text.trim_start();
    let (is_marked, text) = match text.split_at_checked(2) {
        Some((mark, after)) if mark.eq_ignore_ascii_case("RT") || mark.eq_ignore_ascii_case("MT") => {
            (true, after.trim_start_matches(|c: char| c.is_whitespace() || c == ':'))
        }
        _ => (false, text),
    };
    let unquoted = text.strip_prefix(['"', '“', '«', '\'', '‘']);
    if !is_marked && unquoted.is_none() {
        return None;
    }
    let after_sign = unquoted.unwrap_or(text).strip_prefix(['@', '＠'])?;
    let end = after_sign.find(|c| !is_of_a_name(c)).unwrap_or(after_sign.len());
    let (name, after) = after_sign.split_at_checked(end)?;
    let repeated = match after.trim_start().strip_prefix(':') {
        Some(repeated) => repeated,
        // A quotation without a colon may be about anything.
        None if is_marked && !after.starts_with(char::is_alphanumeric) => after,
        None => return None,
    };
    is_name(name).then_some((name, repeated))
}

/// The account behind the `via` that a text ends with.
fn named_last(text: &str) -> Option<&str> {
    let text =
        text.trim_end_matches(|c: char| c.is_whitespace() || matches!(c, '.' | ')' | ']' | '"' | '”' | '»'));
    let (before, name) = text.rsplit_once(['@', '＠'])?;
    let word = before.split_whitespace().next_back()?.trim_start_matches(['(', '[']);
    (word.eq_ignore_ascii_case("via") && is_name(name)).then_some(name)
}

/// The rules for what is a name are Twitter's.
fn is_name(name: &str) -> bool {
    (1..=15).contains(&name.len()) && name.chars().all(is_of_a_name)
}

fn is_of_a_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

/// A Twitter account: its screen name, else its number.
pub(super) fn account_of(user: Option<&RawValue>) -> Result<Option<String>, Failure> {
    let [screen_name, username, id_str, id] = pick_from(user, ["screen_name", "username", "id_str", "id"])?;
    let name = json::identifier(screen_name.or(username))?;
    Ok(name.or(json::identifier(id_str.or(id))?).map(|name| name.to_lowercase()))
}

/// A Reddit author who has not deleted the account.
pub(super) fn person(author: Option<&RawValue>) -> Result<Option<String>, Failure> {
    let name = json::identifier(author)?.filter(|name| name != "[deleted]");
    Ok(name.map(|name| name.to_lowercase()))
}

/// A Facebook page or person, as an object or by name.
pub(super) fn page(account: Option<&RawValue>) -> Result<Option<String>, Failure> {
    let [name, handle, id] = pick_from(account, ["name", "handle", "id"])?;
    let named = match json::identifier(name)? {
        Some(name) => Some(name),
        None => json::identifier(handle.or(id))?.or(json::identifier(account)?),
    };
    Ok(named.map(|name| name.to_lowercase()))
}

pub(super) fn host_of(url: Option<&RawValue>) -> Result<Option<String>, Failure> {
    Ok(json::string(url)?.and_then(|url| host(&url)))
}

/// The host of an address, without `www.` and port.
fn host(url: &str) -> Option<String> {
    let (_, rest) = url.trim().split_once("://")?;
    let authority = rest.split(['/', '?', '#']).next()?;
    let host = authority.rsplit('@').next()?.split(':').next()?;
    let host = host.to_lowercase();
    let host = host.strip_prefix("www.").unwrap_or(&host);
    host.contains('.').then(|| host.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn origin(source: &str, platform: &SourceType, text: &str) -> Option<String> {
        let source = RawValue::from_string(source.to_owned()).unwrap();
        hints(Some(&source), platform, text).unwrap().origin
    }

    #[test]
    fn each_platform_names_its_account() {
        let twitter = |source, text| origin(source, &SourceType::Twitter, text);
        assert_eq!(twitter(r#"{"user":{"screen_name":"Ann","id":5}}"#, "hi").as_deref(), Some("ann"));
        assert_eq!(twitter(r#"{"user":{"id":5}}"#, "hi").as_deref(), Some("5"));
        assert_eq!(twitter(r#"{"user":{"screen_name":"Ann"}}"#, "RT @Bob_1: hi").as_deref(), Some("bob_1"));
        let retweet = r#"{"user":{"screen_name":"Ann"},"retweeted_status":{"user":{"screen_name":"Bob"}}}"#;
        assert_eq!(twitter(retweet, "hi").as_deref(), Some("bob"));
        let chain = r#"{"user":{"screen_name":"Cy"},"retweeted_status":{"text":"hi","user":{"screen_name":"Bob"},
            "retweeted_status":{"text":"hi","user":{"screen_name":"Ann"}}}}"#;
        assert_eq!(twitter(chain, "hi").as_deref(), Some("ann"));
        let written_chain = r#"{"user":{"screen_name":"Cy"},"retweeted_status":{"text":"RT @Ann: hi","user":{"screen_name":"Bob"}}}"#;
        assert_eq!(twitter(written_chain, "RT @Bob: RT @A…").as_deref(), Some("ann"));
        assert_eq!(twitter(r#"{"id_str":"7"}"#, "RT please: hi"), None);
        assert_eq!(twitter("\"plain\"", "hi"), None);
        assert_eq!(origin(r#"{"author":"[deleted]"}"#, &SourceType::Reddit, ""), None);
        assert_eq!(
            origin(r#"{"account":{"name":"City Hall"}}"#, &SourceType::Facebook, "").as_deref(),
            Some("city hall")
        );
        assert_eq!(origin(r#"{"from":{"id":"9"}}"#, &SourceType::Facebook, "").as_deref(), Some("9"));
        let news = r#"{"url":"https://www.Paper.example:80/a?b=c.d"}"#;
        assert_eq!(origin(news, &SourceType::News, "").as_deref(), Some("paper.example"));
    }

    #[test]
    fn a_repost_counts_for_the_innermost_author_it_repeats() {
        for text in [
            "RT @Ann: bridge closed",
            " rt @Ann bridge closed",
            "RT: @Ann: bridge closed",
            "RT @bob: RT @Ann: bridge closed",
            "RT @cy: MT @bob: RT @Ann: bridge closed",
            "MT @Ann: bridge closed",
            "\"@Ann: bridge closed\"",
            "“@Ann : bridge closed”",
            "RT @bob: \"@Ann: bridge closed\"",
            "RT \"@Ann: bridge closed\"",
            "bridge closed via @Ann",
            "bridge closed (Via @Ann) ",
            "RT @bob: bridge closed via @Ann.",
            "RT @Ann",
        ] {
            assert_eq!(repeated_account(text).as_deref(), Some("ann"), "{text}");
        }
        for text in [
            "bridge closed",
            "@Ann: bridge closed",
            "@Ann bridge closed",
            "RTE @Ann: bridge closed",
            "\"@Ann is right\" they say",
            "bridge closed, says @Ann",
            "bridge closed via @Ann again",
            "bridge closed trivia @Ann",
            "RT @Ännchen: bridge closed",
            "RT @a_name_that_is_longer: bridge closed",
            "RT",
            "é",
            "via a@b",
            "",
        ] {
            assert_eq!(repeated_account(text), None, "{text}");
        }
    }

    #[test]
    fn hosts_are_bare() {
        assert_eq!(host("http://user:pw@news.example/x").as_deref(), Some("news.example"));
        for none in ["", "news.example/x", "http://", "http:///x", "http://localhost/"] {
            assert_eq!(host(none), None, "{none}");
        }
    }
}
