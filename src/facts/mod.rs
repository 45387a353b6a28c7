//! From ranked candidates to facts: which documents become nuggets, in which order, and what is new about them.
//!
//! Two methods, both without a language model: `greedy` takes the most relevant documents; `ilp-mmr` chooses the
//! documents whose concepts together weigh most (`coverage`) and orders them by maximal marginal relevance (`mmr`).
//! Sources: Seeberger & Riedhammer 2022a, and §3.3 "Baselines" of their paper of 2023.
//!
//! What the room keeps true: pure functions; the same documents give the same facts on every machine, at any speed and
//! in whatever order they come; no document is chosen twice; importance never rises with rank.

mod branch;
mod concepts;
mod coverage;
mod exchange;
mod gazetteer;
mod mmr;
mod names;
mod novelty;
mod quantities;
mod select;
mod text;
mod tfidf;
mod words;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use gazetteer::Gazetteer;
pub use novelty::{ALIKE, History, Novelty};
pub use select::select;
pub use text::{fact_text, nugget_id};

use crate::model::{Importance, Language, Method, QueryId, Seconds, StreamId, UnixSeconds};

/// One item that some query of the request retrieved.
#[derive(Debug, Clone, PartialEq)]
pub struct Document {
    /// Its number in the shard, in the order of arrival; breaks ties.
    pub arrival: u32,
    /// Its name.
    pub stream_id: StreamId,
    /// When it was written.
    pub time: UnixSeconds,
    /// The text as it came.
    pub text: String,
    /// The text without platform noise.
    pub clean: String,
    /// Its language.
    pub language: Language,
    /// How relevant it is to the request, `0..=1`, over all its queries.
    pub relevance: f64,
    /// The queries it answers, each with its relevance `0..=1`, best first.
    pub queries: Vec<(QueryId, f64)>,
    /// Distinct authors or sites among it and its duplicates.
    pub independent_sources: u32,
    /// The item and all its duplicates.
    pub reports: u32,
    /// When the last of them was written.
    pub last_seen: UnixSeconds,
}

/// How facts are extracted.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct FactsConfig {
    /// The extractor.
    pub method: Method,
    /// Most documents that the concept coverage chooses for one request (`L` of the paper).
    #[schemars(range(min = 1))]
    pub budget: usize,
    /// What counts in the order of the chosen: 1 is relevance alone, smaller values count more against repetition.
    #[schemars(range(min = 0.05, max = 1.0))]
    pub lambda: f64,
    /// Most documents of one request that the extractor looks at; the most relevant are kept.
    #[schemars(range(min = 1))]
    pub documents: usize,
    /// Most items of each query that the extractor sees, best first.
    #[schemars(range(min = 1))]
    pub candidates: usize,
    /// Most nuggets of one request.
    #[schemars(range(min = 1))]
    pub nuggets: usize,
    /// Most work on one request's concept coverage, in visits of a concept of a document (a hundred million take about 0.15 s).
    /// Where it ends the search, the best answer so far is used and reported as not proven best. It bounds time
    /// without making the answer depend on the machine.
    pub work_limit: u64,
    /// Backstop in clock time for the same. Answers stay the same on every machine as long as it is not reached.
    pub time_limit: Seconds,
}

impl Default for FactsConfig {
    fn default() -> Self {
        Self {
            method: Method::IlpMmr,
            budget: 150,
            lambda: 0.8,
            documents: 3000,
            candidates: 50,
            nuggets: 32,
            work_limit: 200_000_000,
            time_limit: Seconds(30),
        }
    }
}

/// The documents that become nuggets.
#[derive(Debug, Clone, PartialEq)]
pub struct Selection {
    /// In rank order; importance never rises.
    pub chosen: Vec<Chosen>,
    /// Distinct concepts of the documents looked at; 0 for `greedy`, which looks for none.
    pub concepts: usize,
    /// Documents that the extractor chose, before the best of them were taken as nuggets.
    pub selected: usize,
    /// The weight of the concepts that the coverage reached.
    pub covered: u64,
    /// No choice of so many documents reaches more.
    pub bound: u64,
    /// Whether `covered` is proven best; always so for `greedy`, which proves nothing.
    pub optimal: bool,
}

/// One chosen document.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Chosen {
    /// Its index in the documents given.
    pub document: usize,
    /// How much it matters within the request.
    pub importance: Importance,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A document of the given text and relevance.
    pub(super) fn document(text: &str, relevance: f64) -> Document {
        let time = UnixSeconds::new(1_512_604_800).unwrap();
        Document {
            arrival: 0,
            stream_id: StreamId::new("E-1-Twitter-1-0").unwrap(),
            time,
            text: text.to_owned(),
            clean: text.replace('#', ""),
            language: Language::English,
            relevance,
            queries: Vec::new(),
            independent_sources: 1,
            reports: 1,
            last_seen: time,
        }
    }
}
