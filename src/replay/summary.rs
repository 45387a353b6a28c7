//! `summary.json`: what became of everything, stage by stage.

use std::{collections::BTreeMap, sync::Arc};

use serde::Serialize;

use crate::{
    config::Config,
    index::{IndexError, Payload},
    intake::Intake,
    ledger::KnownRequest,
    model::{Event, EventId, Method, RequestRecord},
};

/// Counts of a replay. No clock stands in it: the same run gives the same file.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Summary {
    /// The version of nuggetd.
    pub version: &'static str,
    /// Records read.
    pub records: u64,
    /// Refused records, or items of records that hold several, by code; they stand in `rejected.jsonl`.
    pub refused: BTreeMap<String, u64>,
    /// Items outside every request of their event.
    pub outside: u64,
    /// Items in the shards.
    pub items: u64,
    /// Items with searchable text.
    pub searchable: u64,
    /// Items that repeat another one's clean text.
    pub exact_duplicates: u64,
    /// Items that nearly repeat another one's clean text.
    pub near_duplicates: u64,
    /// Items that clean to nothing.
    pub empty: u64,
    /// Items that came after their request had closed.
    pub late: u64,
    /// Nuggets.
    pub nuggets: u64,
    /// What ordered the candidates.
    pub reranker: &'static str,
    /// What made the facts.
    pub extractor: Method,
    /// Events without any item.
    pub events_without_items: Vec<EventId>,
    /// Files that could not be read to their end.
    pub faults: Vec<String>,
    /// The requests by event, then day.
    pub requests: Vec<RequestSummary>,
}

/// One request: its run, and what its shard holds by now.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RequestSummary {
    /// The last run.
    #[serde(flatten)]
    pub run: RequestRecord,
    /// Items in the shard that repeat another one's clean text.
    pub exact_duplicates: u32,
    /// Items in the shard that nearly repeat another one's clean text.
    pub near_duplicates: u32,
    /// Items in the shard that clean to nothing.
    pub empty: u32,
    /// Items that came after the request had closed.
    pub late: u32,
}

impl Summary {
    pub(super) fn new(
        config: &Config,
        events: &[Arc<Event>],
        closed: &[KnownRequest],
        intake: &Intake,
        faults: Vec<String>,
    ) -> Result<Self, IndexError> {
        let counts = intake.counts();
        let mut summary = Self {
            version: env!("CARGO_PKG_VERSION"),
            records: counts.records,
            refused: counts.refused.clone(),
            outside: counts.outside,
            items: 0,
            searchable: 0,
            exact_duplicates: 0,
            near_duplicates: 0,
            empty: 0,
            late: 0,
            nuggets: 0,
            reranker: "none",
            extractor: config.facts.method,
            events_without_items: Vec::new(),
            faults,
            requests: Vec::new(),
        };
        let closed: BTreeMap<_, _> = closed.iter().map(|request| (&request.key, request)).collect();
        for event in events {
            let before = summary.items;
            for request in &event.requests {
                let key = (event.id.clone(), request.id.clone());
                let Some(&closed) = closed.get(&key) else { continue };
                let Some(run) = closed.run.as_ref().and_then(|run| run.record.clone()) else { continue };
                summary.add(run, closed, &intake.shards().payload(&key)?.unwrap_or_default());
            }
            if summary.items == before {
                summary.events_without_items.push(event.id.clone());
            }
        }
        Ok(summary)
    }

    fn add(&mut self, run: RequestRecord, closed: &KnownRequest, shard: &Payload) {
        let request = RequestSummary {
            exact_duplicates: shard.exact_duplicates,
            near_duplicates: shard.near_duplicates,
            empty: shard.empty,
            late: shard.items.saturating_sub(closed.closed_with.unwrap_or_default()),
            run,
        };
        self.items += u64::from(shard.items);
        self.searchable += u64::from(shard.searchable());
        self.exact_duplicates += u64::from(shard.exact_duplicates);
        self.near_duplicates += u64::from(shard.near_duplicates);
        self.empty += u64::from(shard.empty);
        self.late += u64::from(request.late);
        self.nuggets += request.run.nuggets;
        self.requests.push(request);
    }
}
