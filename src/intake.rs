//! Takes routed and prepared items into their shards, in the order of the stream, and says which requests close.
//!
//! Keeps true: no item lost, none counted twice. A record is taken whole or not at all as far as any commit can tell;
//! a checkpoint is written only after every shard has committed; after a restart from the checkpoint, what a shard has
//! already is skipped.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
    time::Instant,
};

use crate::{
    config::IndexConfig,
    index::{IndexError, Positions, Prepared, ShardKey, Shards, Snapshot, TakenShard},
    ledger::{Checkpoint, Ledger, LedgerError, StreamCounts},
    model::{DeadLetter, Event, EventId},
    schedule::{Schedule, ScheduleConfig},
};

/// What can go wrong while items are taken; each stops the stream.
#[derive(Debug, thiserror::Error)]
pub enum IntakeError {
    /// A shard.
    #[error(transparent)]
    Index(#[from] IndexError),
    /// The ledger.
    #[error(transparent)]
    Ledger(#[from] LedgerError),
    /// The file of refused records.
    #[error("refused records: {0}")]
    Rejected(std::io::Error),
}

/// Where a record stands in its stream.
#[derive(Debug, Clone, Copy)]
pub struct Place<'a> {
    /// The topic, or the archive file.
    pub topic: &'a str,
    /// The partition; 0 for archive files.
    pub partition: i32,
    /// The record's offset, or its number in the file.
    pub offset: u64,
}

/// A request that has closed, with the items it is to be run over.
pub struct Closed {
    /// Which one.
    pub key: ShardKey,
    /// Its items; nothing where it has none.
    pub snapshot: Option<Snapshot>,
    /// Its shard, to be merged to one segment and closed, where it was open.
    pub shard: Option<TakenShard>,
}

/// Where refused records are kept until someone mends them.
pub trait DeadLetters {
    /// Makes durable what was kept so far; gives its length in bytes.
    fn sync(&mut self) -> std::io::Result<u64>;
}

/// The shards and the schedule behind one stream.
pub struct Intake {
    events: BTreeMap<EventId, Arc<Event>>,
    shards: Shards,
    schedule: Schedule,
    ledger: Arc<Mutex<Ledger>>,
    config: IndexConfig,
    positions: Positions,
    counts: StreamCounts,
    uncommitted: u32,
    last_commit: Instant,
}

impl Intake {
    /// Goes on from the ledger's checkpoint.
    pub fn new(
        events: &[Arc<Event>],
        shards: Shards,
        schedule: ScheduleConfig,
        config: IndexConfig,
        ledger: Arc<Mutex<Ledger>>,
    ) -> Result<Self, IntakeError> {
        let checkpoint = ledger.lock().unwrap_or_else(PoisonError::into_inner).checkpoint()?;
        let schedule = Schedule::new(events.iter().map(Arc::as_ref), schedule, checkpoint.watermarks);
        Ok(Self {
            events: events.iter().map(|event| (event.id.clone(), Arc::clone(event))).collect(),
            shards,
            schedule,
            ledger,
            config,
            positions: checkpoint.positions,
            counts: checkpoint.counts,
            uncommitted: 0,
            last_commit: Instant::now(),
        })
    }

    /// For each source, the first record not yet taken.
    pub fn positions(&self) -> &Positions {
        &self.positions
    }

    /// What became of records that are in no shard.
    pub fn counts(&self) -> &StreamCounts {
        &self.counts
    }

    /// The shards.
    pub fn shards(&self) -> &Shards {
        &self.shards
    }

    /// Takes all that one record gave: its items, and what of it was refused.
    pub fn take(
        &mut self,
        place: Place<'_>,
        items: Vec<Prepared>,
        refused: &[DeadLetter],
    ) -> Result<Vec<Closed>, IntakeError> {
        for letter in refused {
            *self.counts.refused.entry(letter.code.to_string()).or_default() += 1;
        }
        let mut seen: Vec<EventId> = Vec::new();
        for prepared in items {
            let id = prepared.item.event.clone();
            let time = prepared.item.unix_timestamp;
            let Some(event) = self.events.get(&id) else { continue };
            let keys: Vec<ShardKey> =
                event.requests_at(time).map(|request| (id.clone(), request.id.clone())).collect();
            if keys.is_empty() {
                self.counts.outside += 1;
                continue;
            }
            self.schedule.observe(&id, time);
            if !seen.contains(&id) {
                seen.push(id);
            }
            self.add(place, &keys, prepared)?;
        }
        self.taken(place);
        self.shards.shrink(&self.positions)?;
        let mut closed = Vec::new();
        for event in seen {
            for request in self.schedule.due(&event) {
                closed.extend(self.close((event.clone(), request))?);
            }
        }
        Ok(closed)
    }

    fn taken(&mut self, place: Place<'_>) {
        self.counts.records += 1;
        self.positions.advance(place.topic, place.partition, place.offset);
        self.uncommitted += 1;
    }

    fn add(&mut self, place: Place<'_>, keys: &[ShardKey], prepared: Prepared) -> Result<(), IntakeError> {
        // Requests seldom overlap; where they do, each has its own copy of the item.
        let Some((last, others)) = keys.split_last() else { return Ok(()) };
        for key in others {
            self.add_to(place, key, prepared.clone())?;
        }
        self.add_to(place, last, prepared)
    }

    fn add_to(&mut self, place: Place<'_>, key: &ShardKey, prepared: Prepared) -> Result<(), IntakeError> {
        let shard = self.shards.writer(key)?;
        if shard.has(place.topic, place.partition, place.offset) {
            return Ok(());
        }
        shard.add(prepared)?;
        Ok(())
    }

    /// Whether the configuration asks for a commit now.
    pub fn wants_commit(&self) -> bool {
        self.uncommitted >= self.config.commit_items
            || (self.uncommitted > 0 && self.last_commit.elapsed() >= self.config.commit_interval.duration())
    }

    /// Makes everything taken so far durable: the refused records, the shards, then the checkpoint.
    pub fn commit(&mut self, dead_letters: &mut impl DeadLetters) -> Result<(), IntakeError> {
        let rejected_bytes = dead_letters.sync().map_err(IntakeError::Rejected)?;
        self.shards.commit(&self.positions)?;
        let checkpoint = Checkpoint {
            positions: self.positions.clone(),
            watermarks: self.schedule.watermarks().clone(),
            counts: self.counts.clone(),
            rejected_bytes,
        };
        self.ledger.lock().unwrap_or_else(PoisonError::into_inner).set_checkpoint(&checkpoint)?;
        self.uncommitted = 0;
        self.last_commit = Instant::now();
        Ok(())
    }

    /// Closes every request that is still open: the stream has ended.
    pub fn close_all(&mut self) -> Result<Vec<Closed>, IntakeError> {
        let mut closed = Vec::new();
        for key in self.schedule.close_all() {
            closed.extend(self.close(key)?);
        }
        Ok(closed)
    }

    /// Closes a request unless a run before this start has closed it already.
    fn close(&mut self, key: ShardKey) -> Result<Option<Closed>, IntakeError> {
        let mut ledger = self.ledger.lock().unwrap_or_else(PoisonError::into_inner);
        if ledger.is_closed(&key)? {
            return Ok(None);
        }
        let mut shard = self.shards.take(&key);
        if let Some(shard) = &mut shard {
            shard.commit(&self.positions)?;
        }
        let snapshot = match &shard {
            Some(shard) => Some(shard.snapshot()?),
            None => self.shards.snapshot(&key, None)?,
        };
        ledger.close_request(&key, snapshot.as_ref().map_or(0, Snapshot::items))?;
        Ok(Some(Closed { key, snapshot, shard }))
    }
}
