//! Items from Kafka: a member of the consumer group, polled on a thread of its own.
//!
//! ```text
//! poll thread ── Batch (records, in order of arrival) ──► whoever decodes
//!            └── Notice (partitions come, go, end; numbered with the batches) ──► whoever takes items
//! ```
//!
//! Keeps true: polling never waits for those who take items (full = partitions are paused while polling goes on);
//! memory is bounded by [`Budget`]; a partition is let go only after what was read of it is taken.

mod budget;
mod group;
mod poll;

use std::{
    sync::{Arc, mpsc::SyncSender},
    time::SystemTime,
};

pub use budget::Budget;
pub use group::{Hold, Offered, Start};
pub use poll::{FeedError, KafkaFeed, Member, Wiring, changed_topic, offset_list, report_gap};

/// A record as the broker gave it.
#[derive(Debug, Clone)]
pub struct KafkaRecord {
    /// Which of the configured sources it came from.
    pub source: usize,
    /// The partition.
    pub partition: i32,
    /// The offset.
    pub offset: u64,
    /// When the broker had it, or when it was made, as the topic says.
    pub timestamp: Option<SystemTime>,
    /// The key.
    pub key: Option<Vec<u8>>,
    /// The value; nothing = a tombstone.
    pub payload: Option<Vec<u8>>,
    /// The headers, in their order.
    pub headers: RecordHeaders,
}

/// A record's headers: each with a name and mostly a value.
pub type RecordHeaders = Vec<(String, Option<Vec<u8>>)>;

impl KafkaRecord {
    /// The bytes that it holds.
    pub fn bytes(&self) -> usize {
        let of_header =
            |(name, value): &(String, Option<Vec<u8>>)| name.len() + value.as_ref().map_or(0, Vec::len);
        self.payload.as_ref().map_or(0, Vec::len)
            + self.key.as_ref().map_or(0, Vec::len)
            + self.headers.iter().map(of_header).sum::<usize>()
    }
}

/// Records in the order in which they arrived, all topics together.
#[derive(Debug)]
pub struct Batch {
    /// Its place among batches and notices, from 0 without gaps.
    pub number: u64,
    /// The records.
    pub records: Vec<KafkaRecord>,
}

/// What happened to partitions.
#[derive(Debug)]
pub struct Notice {
    /// Its place among batches and notices, from 0 without gaps.
    pub number: u64,
    /// What happened.
    pub change: Change,
}

/// What happened to partitions.
#[derive(Debug)]
pub enum Change {
    /// They come. The answer says where each is to be read from, or why the daemon must stop.
    Offered(Vec<Offered>, SyncSender<Result<Vec<Start>, String>>),
    /// They go, and wait until the answer says that all of theirs is taken and closed.
    Revoked {
        /// Which.
        partitions: Vec<(Arc<str>, i32)>,
        /// Whether the group has given them to somebody else already.
        lost: bool,
        /// The answer.
        done: SyncSender<()>,
    },
    /// A partition is read to its end.
    Ended(Arc<str>, i32),
}
