//! An event with its questions and its requests (event-days).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{EventId, Language, QueryId, RequestId, UnixSeconds};

/// One crisis: what it is called, what is asked about it, and which days are summarised.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Event {
    /// The event's name in records, topics and folders.
    #[serde(rename = "eventID")]
    pub id: EventId,
    /// A short title, for people.
    pub title: String,
    /// The name of the event's data set, for example `2017_12_07_lilac_wildfire.2017`; records may call the event so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dataset: Option<String>,
    /// The kind of crisis, for example `Wildfire`.
    #[serde(rename = "type", default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// A sentence or two, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Where to read more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// The language of items that neither state theirs nor let it be detected; also the language of the queries.
    /// English where absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub language: Option<Language>,
    /// Words and phrases that tell an item of this event from others; route items that name no event.
    #[serde(default)]
    pub keywords: Vec<String>,
    /// The question set.
    #[serde(default)]
    pub queries: Vec<Query>,
    /// The event-days, in the order of their start.
    #[serde(rename = "summaryRequests", default)]
    pub requests: Vec<Request>,
}

impl Event {
    /// The language of the queries and of items whose own cannot be told.
    pub fn default_language(&self) -> Language {
        self.language.unwrap_or(Language::English)
    }

    /// The requests whose day holds `time`.
    pub fn requests_at(&self, time: UnixSeconds) -> impl Iterator<Item = &Request> {
        self.requests.iter().filter(move |request| request.contains(time))
    }
}

/// One question of an event's question set.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Query {
    /// The query's name, which a nugget's `informationNeeds` cites.
    #[serde(rename = "queryID")]
    pub id: QueryId,
    /// The question.
    #[serde(rename = "query")]
    pub text: String,
    /// Words that an answer is likely to hold, separated by white space; searched together with the question.
    #[serde(rename = "indicativeTerms", default, skip_serializing_if = "Option::is_none")]
    pub indicative_terms: Option<String>,
}

impl Query {
    /// What is searched: the question followed by its indicative terms (paper §3.3).
    pub fn search_text(&self) -> String {
        match &self.indicative_terms {
            Some(terms) => format!("{} {terms}", self.text),
            None => self.text.clone(),
        }
    }
}

/// One event-day. Both bounds belong to it, and they come from the event's data, never from a date string.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Request {
    /// The request's name.
    #[serde(rename = "requestID")]
    pub id: RequestId,
    /// The first second of the day.
    #[serde(rename = "startUnixTimestamp")]
    pub start: UnixSeconds,
    /// The last second of the day.
    #[serde(rename = "endUnixTimestamp")]
    pub end: UnixSeconds,
    /// The day in words, for people only.
    #[serde(rename = "dateString", default, skip_serializing_if = "Option::is_none")]
    pub date: Option<String>,
}

impl Request {
    /// Whether an item of this time belongs to the request.
    pub fn contains(&self, time: UnixSeconds) -> bool {
        (self.start..=self.end).contains(&time)
    }
}
