//! Where items come from: archives, the decoders of each platform, and the events that items are sent to.
//!
//! Keeps true: a record, or each item of one that holds several, is accepted or refused with its reason, which becomes
//! a dead letter; none is dropped silently. Decoding and routing take bytes and know nothing of files, so any transport can use them.
//!
//! ```text
//! arguments ─ open_archive ─► files ─ records ─► Record ─ decode ─► RawItem ─ Router ─► Item
//!                                                   └──────── Refusal ─ dead_letter ─► DeadLetter
//! ```
//!
//! | format | told by | fields read | stream id |
//! | --- | --- | --- | --- |
//! | `crisisfacts` | `streamID`, `sourceType` | `event`, `streamID`/`doc_id`, `unixTimestamp`/`unix_timestamp`, `text`, `sourceType`/`source_type`, `source`, `language`/`lang`; from the source `lang` and the author | its own |
//! | `twitter-v1` | `id_str`, `full_text`, `retweeted_status`, `timestamp_ms` | `id_str`/`id`, `created_at`, `timestamp_ms`, `full_text`, `extended_tweet.full_text`, `text`, `retweeted_status`, `lang`, `user` | `<event>-Twitter-<id>-0` |
//! | `twitter-v2` | `data`, `author_id`, `referenced_tweets`, `created_at` | `id`, `created_at`, `text`, `note_tweet.text`, `lang`, `author_id`, `referenced_tweets`, of `includes` the `users` and `tweets` | `<event>-Twitter-<id>-0` |
//! | `reddit` | `created_utc`, `subreddit` | `id`, `created_utc`, `title`, `selftext`, `body`, `author` | `<event>-Reddit-s<id>-0`, of a comment `…-c<id>-0` |
//! | `facebook` | `created_time`, `platformId`, `account` | `platformId`/`id`, `created_time`, `date`, `message`, `story`, `title`, `description`, `account`, `from`, `languageCode`/`lang` | `<event>-Facebook-<id>-0` |
//! | `news` | `title` with `url`, `content`, `maintext` | `id`, `title`, `text`/`content`/`maintext`, `url`, `published_date`/`date_publish`/`publishedAt`/`date`/`unixTimestamp`/`published_utc`/`published`/`pubDate`, `source_domain`, `language`/`lang` | `<event>-News-<id>-0` for the title, `-1`, `-2`, … for the sentences |
//!
//! In any of them a key may stand twice (the last counts), a lone surrogate escape becomes U+FFFD, and `NaN` and
//! `Infinity` become `null`. The platform's record is kept as the item's source to the letter; a news sentence keeps
//! `id`, `url` and `title` of its article.

mod archive;
mod dead_letter;
mod decode;
mod events;
pub(crate) mod json;
pub mod kafka;
mod records;
mod route;
mod time;

use std::sync::Arc;

use serde_json::value::RawValue;

pub use archive::{ArchiveError, ArchiveFile, open_archive};
pub use dead_letter::{dead_letter, dead_letter_of_part};
pub(crate) use decode::language_of_source;
pub use decode::{Decoded, Format, RefusedPart, decode};
pub use events::{EventsError, event_files, read_event, read_events};
pub use records::{ReadError, Record, Records};
pub use route::{Router, RouterError};

use crate::model::{Language, SourceType, UnixSeconds};

/// What a record says, before it is routed: an item without its event.
#[derive(Debug, Clone)]
pub struct RawItem {
    /// The event that the record names, by id, title or data set.
    pub event: Option<String>,
    /// The item's name where the record has one.
    pub stream_id: Option<String>,
    /// Where it has none, the name within its event, for example `Twitter-938871-0`; the router puts the event before it.
    pub local_id: Option<String>,
    /// When it was written.
    pub time: UnixSeconds,
    /// The text as it came; may be empty.
    pub text: String,
    /// The platform.
    pub source_type: SourceType,
    /// The platform's own record, or nothing.
    pub source: Option<Box<RawValue>>,
    /// The language that the record states.
    pub language: Option<Language>,
    /// What names the account or site it comes from (screen name, user id, author, page, host), in lower case, for
    /// counting independent sources; a repost names the account whose words it repeats.
    pub origin: Option<String>,
    /// What keywords are looked for in, where that is more than the text: the lead of a sentence's article.
    pub routed_by: Option<Arc<str>>,
}

#[cfg(test)]
mod tests;
