//! What is published: nuggets, and the track's run lines made from them.

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _, ser::Error as _};
use serde_json::value::RawValue;

use super::{EventId, Language, QueryId, RequestId, StreamId, UnixSeconds};

/// Most characters (Unicode scalar values) of a fact; the track's rule.
pub const FACT_LIMIT: usize = 200;

/// How much a nugget matters within its request, in `0..=1`, kept to six decimals.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd, JsonSchema)]
#[schemars(with = "f64", extend("minimum" = 0, "maximum" = 1))]
pub struct Importance(f64);

impl Importance {
    /// Takes a value; outside `0..=1` it is cut to the nearer end, and what is no number counts as 0.
    pub fn new(value: f64) -> Self {
        let value = if value.is_nan() { 0.0 } else { value.clamp(0.0, 1.0) };
        Self((value * 1e6).round() / 1e6)
    }

    /// The value.
    pub fn get(self) -> f64 {
        self.0
    }
}

impl Serialize for Importance {
    /// Always with a decimal point and without an exponent: the official checker refuses `1` and `1e-6`.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        RawValue::from_string(format!("{:.6}", self.0)).map_err(S::Error::custom)?.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Importance {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = f64::deserialize(deserializer)?;
        if (0.0..=1.0).contains(&value) {
            Ok(Self::new(value))
        } else {
            Err(D::Error::custom(format!("importance {value} is not within 0 to 1")))
        }
    }
}

/// Which extractor made the fact.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Method {
    /// Concept coverage by integer programming, ordered by maximal marginal relevance.
    IlpMmr,
    /// The most important items in order.
    Greedy,
}

/// A nugget as it stands in `nuggets.jsonl` and in the nuggets topic: the track's seven submission fields by the same
/// names, and ours.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Nugget {
    /// The event-day it reports on.
    #[serde(rename = "requestID")]
    pub request: RequestId,
    /// The fact, at most 200 characters.
    #[schemars(length(min = 1, max = 200))]
    pub fact_text: String,
    /// When the earliest cited item was written.
    pub unix_timestamp: UnixSeconds,
    /// How much it matters within its request.
    pub importance: Importance,
    /// The items it comes from, never empty.
    #[schemars(length(min = 1))]
    pub sources: Vec<StreamId>,
    /// The single item the fact repeats word for word, where it does.
    #[serde(rename = "streamID")]
    pub stream_id: Option<StreamId>,
    /// The queries it answers.
    pub information_needs: Vec<QueryId>,

    /// Hash of request, normalised text and sorted sources: the same nugget has the same name in every run.
    #[serde(rename = "nuggetID")]
    pub id: String,
    /// The event.
    pub event: EventId,
    /// Place within the request, from 1.
    pub rank: u32,
    /// How often the request had run before, so 0 for its first result.
    pub revision: u32,
    /// The extractor.
    pub method: Method,
    /// The fact's language.
    pub language: Language,
    /// Distinct authors or sites among the cited items and their duplicates; a repost counts for the author it repeats.
    pub independent_sources: u32,
    /// The cited items and all their duplicates.
    pub reports: u32,
    /// When the last of them was written.
    pub last_seen: UnixSeconds,
    /// The earlier nugget that this one brings up to date, where there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub updates: Option<Update>,
}

/// The earlier nugget that a changed number replaces.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Update {
    /// The request it was published for.
    #[serde(rename = "requestID")]
    pub request: RequestId,
    /// Its name.
    #[serde(rename = "nuggetID")]
    pub nugget: String,
    /// What it said.
    pub fact_text: String,
}

/// One line of `run.jsonl`: exactly the submission's seven fields, in the track's order.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RunLine<'a> {
    #[serde(rename = "requestID")]
    request: &'a RequestId,
    fact_text: &'a str,
    unix_timestamp: UnixSeconds,
    importance: Importance,
    sources: &'a [StreamId],
    #[serde(rename = "streamID")]
    stream_id: Option<&'a StreamId>,
    information_needs: &'a [QueryId],
}

impl<'a> From<&'a Nugget> for RunLine<'a> {
    fn from(nugget: &'a Nugget) -> Self {
        Self {
            request: &nugget.request,
            fact_text: &nugget.fact_text,
            unix_timestamp: nugget.unix_timestamp,
            importance: nugget.importance,
            sources: &nugget.sources,
            stream_id: nugget.stream_id.as_ref(),
            information_needs: &nugget.information_needs,
        }
    }
}

/// What one run of a request came to: the ledger's record, and a line of `summary.json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RequestRecord {
    /// The event.
    pub event: EventId,
    /// The event-day.
    #[serde(rename = "requestID")]
    pub request: RequestId,
    /// How often it had run before.
    pub revision: u32,
    /// Items in the shard, duplicates and empty ones too.
    pub items: u64,
    /// Items with searchable text: what BM25 counts.
    pub searchable: u64,
    /// Pairs of query and item that retrieval gave.
    pub candidates: u64,
    /// The model that put them in order; nothing where that was BM25.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reranker: Option<String>,
    /// Whether a model was to put them in order and failed, so that BM25 did.
    #[serde(default, skip_serializing_if = "is_false")]
    pub rerank_failed: bool,
    /// Distinct items among them that went to the extractor.
    pub documents: u64,
    /// Distinct concepts of these.
    pub concepts: u64,
    /// Items that the extractor chose.
    pub selected: u64,
    /// Facts dropped because an earlier request or a better rank of this one says the same.
    pub repeated: u64,
    /// Nuggets that bring an earlier one up to date.
    pub updates: u64,
    /// Nuggets.
    pub nuggets: u64,
    /// The extractor.
    pub method: Method,
    /// Whether the concept coverage is proven best; false where a limit stopped the proof.
    pub optimal: bool,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde asks so")]
fn is_false(value: &bool) -> bool {
    !value
}

impl RequestRecord {
    /// The record of a request that has no items (yet).
    pub fn nothing((event, request): &(EventId, RequestId), revision: u32, method: Method) -> Self {
        Self {
            event: event.clone(),
            request: request.clone(),
            revision,
            items: 0,
            searchable: 0,
            candidates: 0,
            reranker: None,
            rerank_failed: false,
            documents: 0,
            concepts: 0,
            selected: 0,
            repeated: 0,
            updates: 0,
            nuggets: 0,
            method,
            optimal: true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn importance_always_has_a_decimal_point_and_no_exponent() {
        for (value, text) in
            [(1.0, "1.000000"), (0.0, "0.000000"), (1e-6, "0.000001"), (0.123_456_7, "0.123457")]
        {
            assert_eq!(serde_json::to_string(&Importance::new(value)).unwrap(), text);
        }
        assert_eq!(Importance::new(f64::NAN).get().to_bits(), 0.0_f64.to_bits());
        assert!((Importance::new(7.0).get() - 1.0).abs() < f64::EPSILON);
    }
}
