//! Takes routed and prepared items into their shards, in the order of the stream, and says which requests are to run.
//!
//! Keeps true: no item lost, none counted twice. A record is taken whole or not at all as far as any commit can tell;
//! a checkpoint is written only after every shard has committed; after a restart from the checkpoint, what a shard has
//! already is skipped. A run sees the items up to a cut-off that the ledger knows before the run begins.

mod live;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Instant,
};

pub use live::{OpenRequest, Partition};

use crate::{
    config::IndexConfig,
    index::{IndexError, Positions, Prepared, ShardKey, Shards, Snapshot, TakenShard, Verdict},
    ledger::{Announcer, Checkpoint, KnownRequest, Ledger, LedgerError, Opened, StreamCounts},
    model::{Event, EventId, Offsets, RefusalCode},
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
    /// Where refused records go.
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

/// A request that is to run.
pub struct Due {
    /// Which one.
    pub key: ShardKey,
    /// The run's number among the request's runs, from 0.
    pub revision: u32,
    /// How many items it was asked for over; the snapshot holds fewer where retention has removed some.
    pub cutoff: u32,
    /// The items to be run over; nothing where it has none.
    pub snapshot: Option<Snapshot>,
    /// Its shard, to be merged to one segment and closed, where it has closed and was open.
    pub shard: Option<TakenShard>,
}

/// Where refused records are kept until someone mends them.
pub trait DeadLetters {
    /// Makes durable what was kept so far; gives its length in bytes.
    fn sync(&mut self) -> std::io::Result<u64>;
}

/// What became of items since it was last asked for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tally {
    /// Taken into a shard.
    pub taken: u64,
    /// Of these, repeats of another one's clean text.
    pub exact: u64,
    /// Of these, near repeats of another one's clean text.
    pub near: u64,
    /// Of these, what cleans to nothing.
    pub empty: u64,
    /// Of these, what came after its request had closed.
    pub late: u64,
    /// In a shard already: read again after a restart.
    pub again: u64,
    /// Outside every request of their event.
    pub outside: u64,
    /// Of a request that was finished by another instance.
    pub elsewhere: u64,
}

/// What is known of a request while items come.
#[derive(Debug, Clone, Default)]
struct Known {
    first: Offsets,
    here: bool,
    closed_with: Option<u32>,
    /// Items that the latest run saw.
    seen: u32,
    /// When its last late item came.
    late: Option<Instant>,
}

impl From<KnownRequest> for Known {
    fn from(request: KnownRequest) -> Self {
        Self {
            first: request.first,
            here: request.here,
            closed_with: request.closed_with,
            seen: request.run.map_or(0, |run| run.cutoff),
            late: None,
        }
    }
}

/// The shards and the schedule behind one stream.
pub struct Intake {
    events: BTreeMap<EventId, Arc<Event>>,
    shards: Shards,
    schedule: Schedule,
    schedule_config: ScheduleConfig,
    ledger: Arc<Mutex<Ledger>>,
    config: IndexConfig,
    positions: Positions,
    /// What the ledger knows of them.
    committed: Positions,
    counts: StreamCounts,
    begun: Offsets,
    last_records: Offsets,
    known: BTreeMap<ShardKey, Known>,
    homes: BTreeMap<EventId, BTreeSet<(String, i32)>>,
    /// Requests and homes that the ledger does not know yet.
    new_requests: BTreeSet<ShardKey>,
    new_homes: Vec<(EventId, String, i32)>,
    /// Writes what is published of requests that open; nothing where nothing is published.
    announcer: Option<Arc<Announcer>>,
    live: live::Live,
    tally: Tally,
    uncommitted: u32,
    commits: u64,
    last_commit: Instant,
}

impl Intake {
    /// Goes on from the ledger's checkpoint. With an announcer the stream is a live one: events become active as
    /// partitions do ([`Self::assigned`]); without, all are from the start.
    pub fn new(
        events: &[Arc<Event>],
        shards: Shards,
        schedule: &ScheduleConfig,
        config: IndexConfig,
        ledger: Arc<Mutex<Ledger>>,
        announcer: Option<Arc<Announcer>>,
    ) -> Result<Self, IntakeError> {
        let (checkpoint, requests, homes) = {
            let ledger = lock(&ledger);
            (ledger.checkpoint()?, ledger.requests()?, ledger.homes()?)
        };
        let active = if announcer.is_some() { &[] } else { events };
        let mut intake = Self {
            events: events.iter().map(|event| (event.id.clone(), Arc::clone(event))).collect(),
            shards,
            schedule: Schedule::new(active.iter().map(Arc::as_ref), schedule.clone(), checkpoint.watermarks),
            schedule_config: schedule.clone(),
            ledger,
            config,
            committed: checkpoint.positions.clone(),
            positions: checkpoint.positions,
            counts: checkpoint.counts,
            begun: checkpoint.begun,
            last_records: checkpoint.last_records,
            known: requests.into_iter().map(|known| (known.key.clone(), Known::from(known))).collect(),
            homes: BTreeMap::new(),
            new_requests: BTreeSet::new(),
            new_homes: Vec::new(),
            announcer,
            live: live::Live::default(),
            tally: Tally::default(),
            uncommitted: 0,
            commits: 0,
            last_commit: Instant::now(),
        };
        for (event, topic, partition) in homes {
            intake.homes.entry(event).or_default().insert((topic, partition));
        }
        Ok(intake)
    }

    /// For each source, the first record not yet taken.
    pub fn positions(&self) -> &Positions {
        &self.positions
    }

    /// The same as of the last commit.
    pub fn committed(&self) -> &Positions {
        &self.committed
    }

    /// What became of records that are in no shard.
    pub fn counts(&self) -> &StreamCounts {
        &self.counts
    }

    /// The shards.
    pub fn shards(&self) -> &Shards {
        &self.shards
    }

    /// What became of items since this was last called.
    pub fn take_tally(&mut self) -> Tally {
        std::mem::take(&mut self.tally)
    }

    /// Takes all that one record gave: its items, and why some of it was refused. A record that gave nothing, such as a
    /// tombstone, is taken too.
    pub fn take(
        &mut self,
        place: Place<'_>,
        items: Vec<Prepared>,
        refused: impl IntoIterator<Item = RefusalCode>,
    ) -> Result<Vec<Due>, IntakeError> {
        for code in refused {
            *self.counts.refused.entry(code.to_string()).or_default() += 1;
        }
        let mut seen: Vec<EventId> = Vec::new();
        for prepared in items {
            let id = prepared.item.event.clone();
            let time = prepared.item.unix_timestamp;
            let Some(event) = self.events.get(&id) else { continue };
            let keys: Vec<ShardKey> =
                event.requests_at(time).map(|request| (id.clone(), request.id.clone())).collect();
            self.at_home(&id, place);
            if keys.is_empty() {
                self.counts.outside += 1;
                self.tally.outside += 1;
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
        let mut due = Vec::new();
        for event in seen {
            for request in self.schedule.due(&event) {
                due.extend(self.close((event.clone(), request))?);
            }
        }
        Ok(due)
    }

    fn taken(&mut self, place: Place<'_>) {
        self.counts.records += 1;
        self.positions.advance(place.topic, place.partition, place.offset);
        self.uncommitted += 1;
    }

    /// Notes which partition an event's items come from.
    fn at_home(&mut self, event: &EventId, place: Place<'_>) {
        if self.announcer.is_none() {
            return;
        }
        self.live.heard(event);
        let homes = self.homes.entry(event.clone()).or_default();
        if homes.iter().any(|(topic, partition)| topic == place.topic && *partition == place.partition) {
            if !self.live.is_active(event) {
                self.activate(event);
            }
            return;
        }
        homes.insert((place.topic.to_owned(), place.partition));
        if homes.len() == 2 {
            tracing::warn!(%event, topic = place.topic, partition = place.partition, "an event's items lie in several partitions; instances that share these each publish results of their own: key the records by event");
        }
        self.new_homes.push((event.clone(), place.topic.to_owned(), place.partition));
        self.activate(event);
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
        if !self.is_here(place, key) {
            self.tally.elsewhere += 1;
            return Ok(());
        }
        let shard = self.shards.writer(key)?;
        if shard.has(place.topic, place.partition, place.offset) {
            self.tally.again += 1;
            return Ok(());
        }
        match shard.add(prepared)? {
            Verdict::First => {}
            Verdict::Exact => self.tally.exact += 1,
            Verdict::Near => self.tally.near += 1,
            Verdict::Empty => self.tally.empty += 1,
        }
        self.tally.taken += 1;
        let items = shard.payload().items;
        if let Some(known) = self.known.get_mut(key)
            && known.closed_with.is_some_and(|closed_with| items > closed_with)
        {
            known.late = Some(Instant::now());
            self.tally.late += 1;
        }
        Ok(())
    }

    /// Whether the request's items belong in this shard folder; notes where its first item stands.
    fn is_here(&mut self, place: Place<'_>, key: &ShardKey) -> bool {
        if let Some(known) = self.known.get_mut(key) {
            if known.here && known.first.get(place.topic, place.partition).is_none() {
                known.first.set(place.topic, place.partition, place.offset);
                self.new_requests.insert(key.clone());
            }
            return known.here;
        }
        let mut known = Known { here: true, ..Known::default() };
        known.first.set(place.topic, place.partition, place.offset);
        self.known.insert(key.clone(), known);
        self.new_requests.insert(key.clone());
        true
    }

    /// Whether the configuration asks for a commit now.
    pub fn wants_commit(&self) -> bool {
        self.uncommitted >= self.config.commit_items
            || (self.uncommitted > 0 && self.last_commit.elapsed() >= self.config.commit_interval.duration())
    }

    /// Whether anything was taken since the last commit.
    pub fn is_dirty(&self) -> bool {
        self.uncommitted > 0
    }

    /// How many commits there were.
    pub fn commits(&self) -> u64 {
        self.commits
    }

    /// Makes everything taken so far durable: the refused records, the shards, then the checkpoint.
    pub fn commit(&mut self, dead_letters: &mut impl DeadLetters) -> Result<(), IntakeError> {
        let rejected_bytes = dead_letters.sync().map_err(IntakeError::Rejected)?;
        self.shards.commit(&self.positions)?;
        self.save(rejected_bytes)
    }

    fn save(&mut self, rejected_bytes: u64) -> Result<(), IntakeError> {
        let checkpoint = Checkpoint {
            positions: self.positions.clone(),
            watermarks: self.schedule.watermarks().clone(),
            counts: self.counts.clone(),
            rejected_bytes,
            begun: self.begun.clone(),
            last_records: self.last_records.clone(),
        };
        let mut ledger = lock(&self.ledger);
        let mut opened = Opened { homes: std::mem::take(&mut self.new_homes), ..Opened::default() };
        for key in std::mem::take(&mut self.new_requests) {
            self.tell_first(&ledger, key, &mut opened)?;
        }
        ledger.set_checkpoint(&checkpoint, &opened)?;
        drop(ledger);
        self.committed = checkpoint.positions;
        self.uncommitted = 0;
        self.commits += 1;
        self.last_commit = Instant::now();
        Ok(())
    }

    fn tell_first(&self, ledger: &Ledger, key: ShardKey, opened: &mut Opened) -> Result<(), IntakeError> {
        let Some(known) = self.known.get(&key) else { return Ok(()) };
        if let Some(announcer) = &self.announcer {
            opened.batches.push(announcer.opened(ledger, &key, &known.first)?);
        }
        opened.requests.push((key, known.first.clone()));
        Ok(())
    }

    /// Closes every request that is still open: the stream has ended.
    pub fn close_all(&mut self) -> Result<Vec<Due>, IntakeError> {
        let mut closed = Vec::new();
        for key in self.schedule.close_all() {
            closed.extend(self.close(key)?);
        }
        Ok(closed)
    }

    /// Closes a request unless that was done already.
    fn close(&mut self, key: ShardKey) -> Result<Option<Due>, IntakeError> {
        if lock(&self.ledger).is_closed(&key)? {
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
        let cutoff = snapshot.as_ref().map_or(0, Snapshot::items);
        let revision = self.tell_closed(&key, cutoff)?;
        let known = self.known.entry(key.clone()).or_insert_with(|| Known { here: true, ..Known::default() });
        known.closed_with = Some(cutoff);
        known.seen = cutoff;
        Ok(Some(Due { key, revision, cutoff, snapshot, shard }))
    }

    /// A request may open and close between two commits; whoever takes it over must find it even then.
    fn tell_closed(&mut self, key: &ShardKey, cutoff: u32) -> Result<u32, IntakeError> {
        let mut opened = Opened::default();
        let is_new = self.new_requests.remove(key);
        if is_new {
            opened.homes = self.new_homes.extract_if(.., |(event, ..)| *event == key.0).collect();
        }
        let mut ledger = lock(&self.ledger);
        if is_new {
            self.tell_first(&ledger, key.clone(), &mut opened)?;
        }
        Ok(ledger.close_request(key, cutoff, &opened)?)
    }

    /// Asks for one more run of a request over the items that are committed now.
    fn run_again(&mut self, key: &ShardKey) -> Result<Option<Due>, IntakeError> {
        let Some(snapshot) = self.shards.snapshot(key, None)? else { return Ok(None) };
        let cutoff = snapshot.items();
        let revision = lock(&self.ledger).revise_request(key, cutoff)?;
        if let Some(known) = self.known.get_mut(key) {
            known.seen = cutoff;
        }
        Ok(Some(Due { key: key.clone(), revision, cutoff, snapshot: Some(snapshot), shard: None }))
    }

    /// The runs that were asked for and did not come to their end before this start, in the order in which their
    /// requests came. What a shard that is being built anew does not hold yet is left for later, unless `no_more` says
    /// that nothing more will come of its event: retention has removed some of it.
    pub fn unfinished(&self, no_more: impl Fn(&EventId) -> bool) -> Result<Vec<Due>, IntakeError> {
        let requests = lock(&self.ledger).requests()?;
        let mut due = Vec::new();
        for request in requests {
            let Some(run) = request.waiting() else { continue };
            let held = self.shards.payload(&request.key)?.map_or(0, |held| held.items);
            if held < run.cutoff && !no_more(&request.key.0) {
                continue;
            }
            let snapshot = self.shards.snapshot(&request.key, Some(run.cutoff))?;
            let (revision, cutoff) = (run.revision, run.cutoff);
            due.push(Due { key: request.key, revision, cutoff, snapshot, shard: None });
        }
        Ok(due)
    }

    /// Every request that items came for after it had closed, to run once more; call after a commit.
    pub fn revise_late(&mut self) -> Result<Vec<Due>, IntakeError> {
        let closed: Vec<ShardKey> = self
            .known
            .iter()
            .filter(|(_, known)| known.here && known.closed_with.is_some())
            .map(|(key, _)| key.clone())
            .collect();
        let mut due = Vec::new();
        for key in closed {
            let seen = self.known.get(&key).map_or(0, |known| known.seen);
            if self.shards.payload(&key)?.is_some_and(|held| held.items > seen) {
                due.extend(self.run_again(&key)?);
            }
        }
        Ok(due)
    }
}

fn lock(ledger: &Mutex<Ledger>) -> MutexGuard<'_, Ledger> {
    ledger.lock().unwrap_or_else(PoisonError::into_inner)
}
