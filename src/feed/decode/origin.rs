//! Who says it: the account or site of an item, for counting independent sources.
//!
//! Names are in lower case, since accounts and hosts have no other. A retweet names the account it repeats.

use serde_json::value::RawValue;

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
    let [retweeted_user] = pick_from(retweeted, ["user"])?;
    let origin = match platform {
        SourceType::Twitter => match retweeted_account(text) {
            Some(name) => Some(name),
            None => account_of(retweeted_user)?.or(account_of(user)?).or(json::identifier(author_id)?),
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

/// The account that a tweet repeats, by the `RT @name:` it begins with.
pub(super) fn retweeted_account(text: &str) -> Option<String> {
    let (name, _) = text.trim_start().strip_prefix("RT @")?.split_once(':')?;
    let is_name =
        (1..=15).contains(&name.len()) && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
    is_name.then(|| name.to_ascii_lowercase())
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
    fn hosts_are_bare() {
        assert_eq!(host("http://user:pw@news.example/x").as_deref(), Some("news.example"));
        for none in ["", "news.example/x", "http://", "http:///x", "http://localhost/"] {
            assert_eq!(host(none), None, "{none}");
        }
    }
}
