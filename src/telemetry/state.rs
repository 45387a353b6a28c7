//! What `/state`, `/ready` and `/live` answer: plain values, as JSON in camelCase.

use std::collections::BTreeMap;

use serde::Serialize;

use super::labels::{Check, Phase};
use crate::model::{EventId, RequestId};

/// Everything that `/state` shows, as of one moment. Times are Unix seconds.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct StateView {
    /// Of nuggetd.
    pub version: &'static str,
    /// Which of several instances this is.
    pub instance: String,
    /// When the process started.
    pub started: i64,
    /// Where it stands in its life.
    pub phase: Phase,
    /// Whether `/ready` answers 200.
    pub ready: bool,
    /// The checks behind `ready`.
    pub checks: Vec<CheckView>,
    /// The threads that `/live` watches.
    pub heartbeats: BTreeMap<&'static str, HeartView>,
    /// The partitions that this instance reads: topic → partition.
    pub assignment: BTreeMap<String, BTreeMap<i32, PartitionView>>,
    /// How far each event's time has come.
    pub watermarks: BTreeMap<EventId, WatermarkView>,
    /// Requests that still wait for items, or for their run.
    pub open_requests: Vec<OpenRequest>,
    /// Runs of requests.
    pub runs: Runs,
    /// What waits to be published.
    pub outbox: Outbox,
    /// What waits between poll and intake.
    pub queue: Queue,
    /// Why items are not taken: reason → explanation. Empty while all is well.
    pub paused: BTreeMap<&'static str, String>,
    /// All shards together.
    pub index: IndexSize,
    /// When the last commit ended well; nothing before the first.
    pub last_commit: Option<i64>,
    /// When the broker last confirmed a published batch; nothing before the first.
    pub last_publish: Option<i64>,
    /// Free bytes on the disk of `data_dir`; nothing before it was looked at.
    pub free_bytes: Option<u64>,
}

/// One thing that must hold for the process to be ready.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CheckView {
    /// Which: the word of a [`Check`], or `phase`.
    pub name: &'static str,
    /// Whether it holds.
    pub ok: bool,
    /// Why, or since when.
    pub detail: String,
}

impl CheckView {
    /// A check's view.
    pub fn new(check: Check, ok: bool, detail: impl Into<String>) -> Self {
        Self { name: check.as_str(), ok, detail: detail.into() }
    }
}

/// A thread that must not stand still.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct HeartView {
    /// Seconds since its last beat, or since the start where it has not beaten; 0 once it has ended as it should.
    pub age_seconds: f64,
    /// From which age on it is late.
    pub limit_seconds: f64,
    /// Whether it is late.
    pub late: bool,
}

/// How far a partition has been read. Offsets are those of the next record.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PartitionView {
    /// The next record to be taken.
    pub next_offset: Option<i64>,
    /// The record after the last one of the partition.
    pub high_watermark: Option<i64>,
    /// Records still to be taken.
    pub lag: Option<i64>,
    /// Everything before it is committed: in the shards and in the ledger.
    pub committed_offset: Option<i64>,
}

/// How far an event's time has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct WatermarkView {
    /// Up to when everything is believed to have been seen.
    pub watermark: i64,
    /// How far that is behind the clock; negative where items come from the future.
    pub lag_seconds: i64,
}

/// A request that still waits for items, or for its run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct OpenRequest {
    /// Its event.
    pub event: EventId,
    /// Which one.
    #[serde(rename = "requestID")]
    pub request: RequestId,
    /// Items in its shard.
    pub items: u64,
    /// Where its first item stands; nothing while it has none.
    pub first_position: Option<RecordPosition>,
}

/// A record of a topic.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RecordPosition {
    /// The topic.
    pub topic: String,
    /// The partition.
    pub partition: i32,
    /// The record's offset.
    pub offset: i64,
}

/// Runs of requests.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Runs {
    /// In progress.
    pub running: u64,
    /// Waiting for a worker.
    pub waiting: u64,
}

/// What waits to be published.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Outbox {
    /// Batches: results of one (request, revision).
    pub batches: u64,
    /// Records in them.
    pub records: u64,
    /// Since when the oldest waits.
    pub oldest: Option<i64>,
}

/// What waits between poll and intake.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Queue {
    /// Records.
    pub records: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// How large the shards are, all together, as of the last commit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct IndexSize {
    /// Shards on disk.
    pub shards: u64,
    /// Documents in them, duplicates too.
    pub documents: u64,
    /// Segments in them.
    pub segments: u64,
    /// Their bytes on disk.
    pub bytes: u64,
}
