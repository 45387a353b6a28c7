//! What the state holds, in numbers.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::{
    State, UpkeepError,
    verify::{comes_again, least_items, must_have_items},
};
use crate::{
    index::{Positions, ShardKey, shard_folder, shard_stats, shards_in},
    ledger::{KnownRequest, Ledger},
    model::{EventId, RequestId},
};

/// How far a request is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ShardState {
    /// It waits for items.
    Open,
    /// It waits for items no more.
    Closed,
    /// Another instance finished it.
    Elsewhere,
    /// The ledger does not know it.
    Unknown,
    /// It is not there, and the ledger knows items of it.
    Missing,
}

/// One shard, or a request that should have one.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ShardLine {
    /// The event.
    pub event: EventId,
    /// The request.
    pub request: RequestId,
    /// How far the request is.
    pub state: ShardState,
    /// The latest run that was asked for.
    pub revision: Option<u32>,
    /// Whether that run has not come to its end.
    pub run_waits: bool,
    /// Items, in all.
    pub items: u32,
    /// Items with text that is searched.
    pub searchable: u32,
    /// Items that repeat another one's clean text.
    pub exact_duplicates: u32,
    /// Items that nearly repeat another one's clean text.
    pub near_duplicates: u32,
    /// Items that clean to nothing.
    pub empty: u32,
    /// Segments.
    pub segments: usize,
    /// Bytes on disk.
    pub bytes: u64,
    /// For each topic and partition, the first record not yet in the shard.
    pub positions: Positions,
    /// Why it cannot be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// One partition.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PartitionLine {
    /// The topic, or the archive file.
    pub topic: String,
    /// The partition.
    pub partition: i32,
    /// Where it was begun; nothing for archives.
    pub begun: Option<u64>,
    /// The first record not yet taken.
    pub next: u64,
}

/// All together.
#[derive(Debug, Clone, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Totals {
    /// Shards, missing ones not counted.
    pub shards: u64,
    /// Items.
    pub items: u64,
    /// Items with text that is searched.
    pub searchable: u64,
    /// Bytes of all shards.
    pub bytes: u64,
    /// Batches that wait to be published.
    pub outbox: u64,
    /// Requests that the topics tell of.
    pub known_requests: u64,
    /// Nuggets that the topics tell of.
    pub known_nuggets: u64,
    /// The Kafka cluster that the positions belong to.
    pub cluster: Option<serde_json::Value>,
}

/// What the state holds.
#[derive(Debug, Clone)]
pub struct Stats {
    /// The shards, by name.
    pub shards: Vec<ShardLine>,
    /// The partitions, by name.
    pub partitions: Vec<PartitionLine>,
    /// All together.
    pub totals: Totals,
}

impl Stats {
    /// Counts.
    pub fn of(state: &State) -> Result<Self, UpkeepError> {
        let ledger = state.ledger()?;
        let requests = ledger.as_ref().map(Ledger::requests).transpose()?.unwrap_or_default();
        let known: BTreeMap<ShardKey, KnownRequest> =
            requests.into_iter().map(|request| (request.key.clone(), request)).collect();
        let folders: BTreeSet<ShardKey> = shards_in(state.folder())?.into_iter().collect();
        let positions = ledger.as_ref().map(Ledger::checkpoint).transpose()?.unwrap_or_default().positions;
        let mut totals = Totals::default();
        let mut shards = Vec::new();
        for key in folders.iter().chain(known.keys().filter(|key| !folders.contains(key))) {
            shards.push(line(state, key, known.get(key), &positions, &mut totals));
        }
        shards.sort_by(|one, other| (&one.event, &one.request).cmp(&(&other.event, &other.request)));
        let mut partitions = Vec::new();
        if let Some(ledger) = &ledger {
            let checkpoint = ledger.checkpoint()?;
            partitions.extend(checkpoint.positions.iter().map(|(topic, partition, next)| PartitionLine {
                topic: topic.to_owned(),
                partition,
                begun: checkpoint.begun.get(topic, partition),
                next,
            }));
            totals.outbox = ledger.waiting_batches()?;
            (totals.known_requests, totals.known_nuggets) = ledger.heard()?;
            totals.cluster = ledger.meta("cluster")?;
        }
        Ok(Self { shards, partitions, totals })
    }
}

fn line(
    state: &State,
    key: &ShardKey,
    known: Option<&KnownRequest>,
    positions: &Positions,
    totals: &mut Totals,
) -> ShardLine {
    let (held, mut error) = match shard_stats(&shard_folder(state.folder(), key)) {
        Ok(held) => (held, None),
        Err(error) => (None, Some(error.to_string())),
    };
    let missing = known
        .filter(|_| held.is_none() && error.is_none())
        .filter(|known| must_have_items(known) && !comes_again(known, positions));
    if let Some(known) = missing {
        error = Some(format!(
            "shard {} is missing, the ledger knows {} or more items (`nuggetd index verify` says what mends it)",
            shard_folder(state.folder(), key).display(),
            least_items(known)
        ));
    }
    if let Some(held) = &held {
        totals.shards += 1;
        totals.items += u64::from(held.payload.items);
        totals.searchable += u64::from(held.payload.searchable());
        totals.bytes += held.bytes;
    }
    let (segments, bytes) = held.as_ref().map_or((0, 0), |held| (held.segments, held.bytes));
    let payload = held.map(|held| held.payload).unwrap_or_default();
    ShardLine {
        event: key.0.clone(),
        request: key.1.clone(),
        state: match known {
            Some(_) if missing.is_some() => ShardState::Missing,
            None => ShardState::Unknown,
            Some(known) if !known.here => ShardState::Elsewhere,
            Some(known) if known.is_closed() => ShardState::Closed,
            Some(_) => ShardState::Open,
        },
        revision: known.and_then(|known| known.run.as_ref()).map(|run| run.revision),
        run_waits: known.is_some_and(|known| known.waiting().is_some()),
        items: payload.items,
        searchable: payload.searchable(),
        exact_duplicates: payload.exact_duplicates,
        near_duplicates: payload.near_duplicates,
        empty: payload.empty,
        segments,
        bytes,
        positions: payload.positions,
        error,
    }
}
