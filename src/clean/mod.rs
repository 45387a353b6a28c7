//! From the text as it came to the text that is searched, quoted and compared; and which texts say the same.
//!
//! Pure functions. What this room keeps true:
//! * cleaning twice gives what cleaning once gives, for every platform and language;
//! * letters of every script, digits and the separators within numbers stay;
//! * the same texts in the same order give the same duplicates.

mod characters;
pub(crate) mod claims;
pub mod duplicates;
mod emoji;
mod emoticon;
pub mod filter;
pub(crate) mod fold;
pub mod hashtag;
mod language;
mod output;
mod prose;
pub(crate) mod signature;
mod tweet;
mod url;

use std::{
    borrow::Cow,
    collections::HashMap,
    ops::Range,
    sync::{Arc, Mutex, PoisonError},
};

use xxhash_rust::xxh3::xxh3_64;

pub use self::{
    duplicates::{DEFAULT_NEAR_THRESHOLD, DuplicateFinder, Verdict},
    signature::{Signature, name_different_things, same_claims, similarity},
};
use crate::model::{Language, SourceType};
use hashtag::Segmenter;

/// Parts of the cache, each behind its own lock.
const SHARDS: usize = 16;
/// Hashtags that one part remembers; a full part starts anew.
const TAGS_PER_SHARD: usize = 1024;
/// Longer tags are nobody's hashtags and stay whole; splitting one costs a millisecond a hundred letters.
const LONGEST_TAG: usize = 280;

/// Cleans texts. Shared by threads; remembers how hashtags were split, because the same few repeat.
pub struct Cleaner {
    segmenter: &'static Segmenter,
    split_tags: [Mutex<HashMap<Box<str>, Arc<str>>>; SHARDS],
}

/// A clean text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cleaned {
    /// May be empty.
    pub text: String,
    /// The language that the feed states, else the one detected, else the default.
    pub language: Language,
}

impl Default for Cleaner {
    fn default() -> Self {
        Self::new()
    }
}

impl Cleaner {
    /// A cleaner; the first in a process unpacks the word model (some 60 ms).
    pub fn new() -> Self {
        Self { segmenter: Segmenter::load(), split_tags: std::array::from_fn(|_| Mutex::default()) }
    }

    /// Cleans `text` as its platform needs it (paper §3.2 for tweets).
    ///
    /// Hashtags of English texts are split into words; those of other languages stay whole, because the word model is
    /// English. That is the only thing the language changes, and a clean text has no hashtags, so that cleaning it
    /// again changes nothing whatever its language is then taken for.
    pub fn clean(
        &self,
        text: &str,
        source: &SourceType,
        stated: Option<Language>,
        default: Language,
    ) -> Cleaned {
        if *source == SourceType::Twitter {
            self.clean_tweet(text, stated, default)
        } else {
            let text = clean_prose(text, *source == SourceType::Reddit);
            let language = stated.or_else(|| language::detect(&text, &[])).unwrap_or(default);
            Cleaned { text, language }
        }
    }

    fn clean_tweet(&self, text: &str, stated: Option<Language>, default: Language) -> Cleaned {
        let first = tweet::scan(&characters::normalise(text));
        let language = stated.or_else(|| language::detect(&first.text, &first.tags)).unwrap_or(default);
        let mut clean = self.with_split_tags(first, language);
        loop {
            let again = tweet::scan(&characters::normalise(&clean));
            if again.tags.is_empty() && again.text == clean {
                return Cleaned { text: clean, language };
            }
            clean = self.with_split_tags(again, language);
        }
    }

    fn with_split_tags(&self, scan: tweet::Scan, language: Language) -> String {
        if language != Language::English || scan.tags.is_empty() {
            return scan.text;
        }
        let mut out = String::with_capacity(scan.text.len() + 4 * scan.tags.len());
        let mut written = 0;
        for Range { start, end } in scan.tags {
            out.push_str(scan.text.get(written..start).unwrap_or_default());
            let tag = scan.text.get(start..end).unwrap_or_default();
            out.push_str(&self.split(tag));
            written = end;
        }
        out.push_str(scan.text.get(written..).unwrap_or_default());
        out
    }

    /// The words of a tag with single spaces between them.
    fn split<'a>(&self, tag: &'a str) -> Cow<'a, str> {
        if !tag.is_ascii() || tag.len() > LONGEST_TAG {
            return Cow::Borrowed(tag);
        }
        #[allow(clippy::cast_possible_truncation, reason = "any bits of the hash will do")]
        let shard = &self.split_tags[xxh3_64(tag.as_bytes()) as usize % SHARDS];
        // A thread that panicked while it held the lock left whole entries behind.
        if let Some(words) = shard.lock().unwrap_or_else(PoisonError::into_inner).get(tag) {
            return Cow::Owned(words.to_string());
        }
        let words = self.segmenter.segment(tag).join(" ");
        let mut known = shard.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= TAGS_PER_SHARD {
            known.clear();
        }
        known.insert(tag.into(), Arc::from(words.as_str()));
        Cow::Owned(words)
    }
}

fn clean_prose(text: &str, markdown: bool) -> String {
    let mut clean = prose::scan(&characters::normalise(text), markdown);
    loop {
        let again = prose::scan(&characters::normalise(&clean), markdown);
        if again == clean {
            return clean;
        }
        clean = again;
    }
}

#[cfg(test)]
mod tests;
