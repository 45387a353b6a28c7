//! The intake thread: takes what the decoders read in the order in which it was polled, commits, and hands requests
//! that are due to the runs.

use std::{
    collections::BTreeMap,
    path::PathBuf,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
        mpsc::{Receiver, RecvTimeoutError},
    },
    time::{Duration, Instant, SystemTime},
};

use super::{
    Arrival, DaemonError,
    decoders::{Outcome, Read},
    flood::Flood,
    memory::Memory,
    merging::Merging,
    runs::Runs,
};
use crate::{
    config::Config,
    feed::kafka::{Budget, Change, Hold, Offered, Start, changed_topic, report_gap},
    intake::{Due, Intake, IntakeError, Partition, Place},
    ledger::Ledger,
    model::{EventId, UnixSeconds},
    publish::kafka::{KafkaDeadLetters, Owned, PublisherHandle},
    telemetry::{
        Check, CommitOutcome, Copy, Heart, IndexSize, MessageOutcome, Metrics, OpenRequest, Pause, Queue,
        RecordPosition, Status,
    },
};

/// How long the thread waits for an arrival.
const PATIENCE: Duration = Duration::from_millis(50);
/// How often clocks are looked at.
const TICK: Duration = Duration::from_millis(500);
/// How long reading the compacted topics may take when partitions come.
const CATCH_UP: Duration = Duration::from_secs(90);
/// How long the publisher may take to send what is theirs when partitions go.
const HAND_OVER: Duration = Duration::from_secs(5);
/// Waiting for a transaction that is open when partitions go.
const LAST_TRANSACTION: Duration = Duration::from_secs(10);

/// Everything that the thread works with.
pub(super) struct Taking {
    pub(super) config: Config,
    pub(super) data_dir: PathBuf,
    pub(super) intake: Intake,
    pub(super) ledger: Arc<Mutex<Ledger>>,
    pub(super) letters: KafkaDeadLetters,
    pub(super) flood: Flood,
    pub(super) memory: Memory,
    pub(super) runs: Arc<Runs>,
    pub(super) merging: Merging,
    pub(super) publisher: PublisherHandle,
    pub(super) owned: Arc<Owned>,
    pub(super) budget: Arc<Budget>,
    pub(super) hold: Arc<Hold>,
    pub(super) status: Arc<Status>,
    pub(super) metrics: Arc<Metrics>,
    /// Told to end: nothing more is read, what was read is still taken.
    pub(super) draining: Arc<AtomicBool>,
    pub(super) state: State,
}

/// What the thread remembers between arrivals.
pub(super) struct State {
    /// The number of the next arrival in order.
    next: u64,
    early: BTreeMap<u64, Arrival>,
    topics: Vec<Arc<str>>,
    /// Partitions of which the last record taken is read again, to see that it is still the same one.
    to_verify: BTreeMap<(Arc<str>, i32), (u64, u64)>,
    /// When the broker had the records that are taken and not committed.
    timestamps: Vec<SystemTime>,
    flooded: bool,
    disk_full: bool,
    events_known: bool,
    last_tick: Instant,
    /// Shards that were closed to make room, when this was last looked at.
    displaced: (u64, Instant),
    last_free: Option<Instant>,
}

impl State {
    pub(super) fn new(topics: &[String], events_known: bool) -> Self {
        Self {
            next: 0,
            early: BTreeMap::new(),
            topics: topics.iter().map(|topic| topic.as_str().into()).collect(),
            to_verify: BTreeMap::new(),
            timestamps: Vec::new(),
            flooded: false,
            disk_full: false,
            events_known,
            last_tick: Instant::now(),
            displaced: (0, Instant::now()),
            last_free: None,
        }
    }
}

impl Taking {
    /// Works until [`Arrival::End`] comes.
    pub(super) fn run(mut self, arrivals: &Receiver<Arrival>) -> Result<(), DaemonError> {
        self.hold();
        loop {
            self.status.beat(Heart::Intake);
            match arrivals.recv_timeout(PATIENCE) {
                Ok(Arrival::Events(events, ended)) => self.set_events(&events, &ended)?,
                Ok(Arrival::End) | Err(RecvTimeoutError::Disconnected) => break,
                Ok(arrival) => self.take_in_order(arrival)?,
                Err(RecvTimeoutError::Timeout) => {}
            }
            if self.intake.wants_commit() {
                self.commit()?;
            }
            if self.state.last_tick.elapsed() >= TICK {
                self.tick()?;
            }
        }
        if self.intake.is_dirty() {
            self.commit()?;
        }
        self.merging.end()?;
        self.status.rest(Heart::Intake);
        Ok(())
    }

    fn take_in_order(&mut self, arrival: Arrival) -> Result<(), DaemonError> {
        let Some(number) = arrival.number() else { return Ok(()) };
        self.state.early.insert(number, arrival);
        while let Some(arrival) = self.state.early.remove(&self.state.next) {
            self.state.next += 1;
            match arrival {
                Arrival::Read(_, records) => self.take_batch(records)?,
                Arrival::Notice(notice) => self.notice(notice.change)?,
                Arrival::Events(..) | Arrival::End => {}
            }
            self.status.beat(Heart::Intake);
            if self.intake.wants_commit() {
                self.commit()?;
            }
        }
        Ok(())
    }

    fn take_batch(&mut self, records: Vec<Read>) -> Result<(), DaemonError> {
        let (count, mut bytes) = (records.len() as u64, 0);
        for record in records {
            bytes += record.bytes as u64;
            // After a flood nothing is taken, and no position moves, until a person has looked
            if !self.state.flooded {
                let due = self.take(record)?;
                self.submit(due)?;
            }
        }
        self.budget.taken(count, bytes);
        Ok(())
    }

    /// Hands requests to the runs, and their shards, where they have closed, to be merged.
    fn submit(&self, due: Vec<Due>) -> Result<(), DaemonError> {
        for mut due in due {
            if let Some(shard) = due.shard.take() {
                self.merging.merge(shard)?;
            }
            self.runs.submit(due);
        }
        Ok(())
    }

    fn take(&mut self, record: Read) -> Result<Vec<Due>, DaemonError> {
        let Some(topic) = self.state.topics.get(record.source).cloned() else { return Ok(Vec::new()) };
        if self.is_known_already(&topic, &record)? {
            return Ok(Vec::new());
        }
        let place = Place { topic: &topic, partition: record.partition, offset: record.offset };
        let (items, letters) = match record.outcome {
            Outcome::Tombstone => {
                self.metrics.message(&topic, MessageOutcome::Tombstone);
                (Vec::new(), Vec::new())
            }
            Outcome::Skipped => {
                self.metrics.message(&topic, MessageOutcome::Skipped);
                (Vec::new(), Vec::new())
            }
            Outcome::Read(items, letters) => {
                let is_refused = items.is_empty();
                if is_refused {
                    self.metrics.message(&topic, MessageOutcome::DeadLetter);
                }
                if let Some(reason) = self.flood.note(is_refused) {
                    self.flooded(&reason);
                }
                (items, letters)
            }
        };
        for letter in &letters {
            self.metrics.dead_letter(letter.refusal.code);
            tracing::info!(topic = &*topic, partition = record.partition, offset = record.offset,
                code = %letter.refusal.code, message = letter.refusal.message, "record refused");
            self.letters
                .keep(letter, (&topic, record.partition, record.offset))
                .map_err(IntakeError::Rejected)?;
        }
        for item in &items {
            self.metrics.item(&item.item.event);
        }
        let gave_items = !items.is_empty();
        self.intake.partition_goes_on(&topic, record.partition);
        let due = self.intake.take(place, items, letters.iter().map(|letter| letter.refusal.code))?;
        self.intake.remember_record(&topic, record.partition, record.digest);
        if let Some(timestamp) = record.timestamp {
            self.state.timestamps.push(timestamp);
        }
        let tally = self.intake.take_tally();
        if gave_items {
            self.metrics.message(
                &topic,
                match (tally.taken, tally.again + tally.elsewhere) {
                    (1.., _) => MessageOutcome::Accepted,
                    (0, 1..) => MessageOutcome::Repeated,
                    (0, 0) => MessageOutcome::Outside,
                },
            );
        }
        for (kind, count) in
            [(Copy::Exact, tally.exact), (Copy::Near, tally.near), (Copy::Empty, tally.empty)]
        {
            for _ in 0..count {
                self.metrics.duplicate(kind);
            }
        }
        Ok(due)
    }

    /// Whether this is the last record taken before, read again to see that the topic is still the same one.
    fn is_known_already(&mut self, topic: &Arc<str>, record: &Read) -> Result<bool, DaemonError> {
        if self.state.to_verify.is_empty() {
            return Ok(false);
        }
        let Some((offset, digest)) = self.state.to_verify.remove(&(Arc::clone(topic), record.partition))
        else {
            return Ok(false);
        };
        if record.offset != offset {
            return Ok(false);
        }
        if record.digest == digest {
            return Ok(true);
        }
        Err(DaemonError::Stopped(format!(
            "topic {topic}, partition {}: the record at {offset} is not the one that was taken; the topic was made anew. \
             If that was meant, `nuggetd index reset-positions --topic {topic} --yes` begins it again",
            record.partition
        )))
    }

    fn flooded(&mut self, reason: &str) {
        self.state.flooded = true;
        let text = format!("{reason}; mend the source or its format, then start again");
        self.status.pause(Pause::Flood, text.clone());
        tracing::error!(reason = text, "nothing more is taken");
        self.hold();
    }

    fn notice(&mut self, change: Change) -> Result<(), DaemonError> {
        match change {
            Change::Ended(topic, partition) => self.intake.partition_ended(&topic, partition),
            Change::Offered(offered, answer) => {
                let starts = self.offered(&offered);
                let failed = starts.as_ref().err().cloned();
                // The other side may have given up waiting
                answer.send(starts).unwrap_or_default();
                if let Some(reason) = failed
                    && !self.draining.load(Ordering::Relaxed)
                {
                    return Err(DaemonError::Stopped(reason));
                }
            }
            Change::Revoked { partitions, lost, done } => {
                self.revoked(&partitions, lost)?;
                done.send(()).unwrap_or_default();
            }
        }
        Ok(())
    }

    /// Partitions come: learns what became of their requests elsewhere, and says where each is to be read from.
    fn offered(&mut self, offered: &[Offered]) -> Result<Vec<Start>, String> {
        let (status, draining) = (Arc::clone(&self.status), Arc::clone(&self.draining));
        let goes_on = || {
            status.beat(Heart::Intake);
            !draining.load(Ordering::Relaxed)
        };
        self.memory
            .catch_up(CATCH_UP, &goes_on)
            .map_err(|error| format!("what other instances did cannot be read: {error}"))?;
        self.status.set_check(Check::Tables, true, "read to their end");
        let closed_too = self.config.schedule.revise_late;
        {
            let mut ledger = lock(&self.ledger);
            for partition in offered {
                ledger
                    .take_over(&partition.topic, partition.partition, closed_too)
                    .map_err(|error| error.to_string())?;
            }
        }
        self.intake.reload().map_err(|error| error.to_string())?;
        let mut starts = Vec::with_capacity(offered.len());
        let mut assigned = Vec::with_capacity(offered.len());
        for partition in offered {
            let next = self.begin(partition, closed_too)?;
            let begun = self.intake.begun(&partition.topic, partition.partition).unwrap_or(next);
            lock(&self.ledger)
                .leave_to_others(&partition.topic, partition.partition, begun)
                .map_err(|error| error.to_string())?;
            let mut offset = next;
            let known = self.intake.last_record(&partition.topic, partition.partition);
            if let (Some(digest), Some(last)) = (known, next.checked_sub(1))
                && last >= partition.low
            {
                let key = (Arc::clone(&partition.topic), partition.partition);
                self.state.to_verify.insert(key, (last, digest));
                offset = last;
            }
            starts.push(Start {
                topic: Arc::clone(&partition.topic),
                partition: partition.partition,
                offset,
            });
            assigned.push((partition.topic.to_string(), partition.partition, next));
        }
        self.intake.reload().map_err(|error| error.to_string())?;
        self.intake.assigned(&assigned).map_err(|error| error.to_string())?;
        self.owned.add(assigned.iter().map(|(topic, partition, _)| (topic.clone(), *partition)));
        self.owned.set_homes(self.intake.homes());
        tracing::info!(partitions = assigned.len(), "partitions assigned");
        self.status.set_check(Check::Assignment, true, "the group has answered");
        self.publisher.wake();
        Ok(starts)
    }

    fn begin(&self, offered: &Offered, closed_too: bool) -> Result<u64, String> {
        let (topic, partition) = (&offered.topic, offered.partition);
        let Some(position) = self.intake.next_offset(topic, partition) else {
            // Above the end it is of a topic that had this name before
            let first =
                self.intake.lowest_first(topic, partition, closed_too).filter(|&first| first <= offered.high);
            // Whatever begins before the group's offset is known by the requests topic; without one nothing is certain
            let begin = offered
                .committed
                .map_or(offered.low, |committed| first.map_or(committed, |first| first.min(committed)));
            return Ok(begin.clamp(offered.low, offered.high.max(offered.low)));
        };
        let signed = |offset: u64| i64::try_from(offset).unwrap_or(i64::MAX);
        if position > offered.high {
            return Err(changed_topic(topic, partition, signed(position), signed(offered.high)));
        }
        if position < offered.low {
            report_gap(&self.metrics, topic, partition, signed(position), signed(offered.low));
        }
        Ok(position.max(offered.low))
    }

    fn revoked(&mut self, partitions: &[(Arc<str>, i32)], lost: bool) -> Result<(), DaemonError> {
        let partitions: Vec<Partition> =
            partitions.iter().map(|(topic, partition)| (topic.to_string(), *partition)).collect();
        let events = self.intake.revoked(&partitions, &mut self.letters)?;
        self.committed(Duration::ZERO);
        self.runs.cancel(&events);
        let is_ending = self.draining.load(Ordering::Relaxed);
        if !lost && !is_ending && !self.publisher.drain(HAND_OVER) {
            tracing::info!(
                "partitions go before everything of theirs is published; whoever has them next goes on"
            );
        }
        self.owned.remove(&partitions);
        if !self.publisher.pass(LAST_TRANSACTION) {
            tracing::warn!("a transaction is still open while partitions go; the broker will refuse it");
        }
        self.state.to_verify.retain(|(topic, partition), _| {
            !partitions.iter().any(|(name, number)| **name == **topic && number == partition)
        });
        for event in &events {
            self.status.forget_event(event);
        }
        tracing::info!(partitions = partitions.len(), lost, "partitions let go");
        Ok(())
    }

    fn set_events(
        &mut self,
        events: &[Arc<crate::model::Event>],
        ended: &[EventId],
    ) -> Result<(), DaemonError> {
        for event in ended {
            let due = self.intake.close_event(event)?;
            self.submit(due)?;
        }
        self.intake.set_events(events);
        self.state.events_known = true;
        self.hold();
        Ok(())
    }

    fn commit(&mut self) -> Result<(), DaemonError> {
        let began = Instant::now();
        if let Err(error) = self.intake.commit(&mut self.letters) {
            self.metrics.commit(CommitOutcome::Failed, began.elapsed());
            self.status.set_check(Check::Index, false, error.to_string());
            return Err(error.into());
        }
        self.metrics.commit(CommitOutcome::Done, began.elapsed());
        self.committed(began.elapsed());
        Ok(())
    }

    /// Tells everybody that there was a commit.
    fn committed(&mut self, took: Duration) {
        let now = SystemTime::now();
        for timestamp in self.state.timestamps.drain(..) {
            self.metrics.searchable(now.duration_since(timestamp).unwrap_or_default());
        }
        self.owned.set_homes(self.intake.homes());
        self.publisher.wake();
        self.status.set_check(Check::Index, true, "the last commit succeeded");
        let size = self.index_size();
        self.status.committed(size);
        tracing::debug!(took_ms = took.as_millis(), "committed");
    }

    fn index_size(&mut self) -> IndexSize {
        let size = self.intake.shards_size();
        IndexSize {
            shards: size.shards,
            documents: size.documents,
            segments: size.segments,
            bytes: size.bytes,
        }
    }

    fn tick(&mut self) -> Result<(), DaemonError> {
        self.state.last_tick = Instant::now();
        if let Some(error) = self.runs.failure() {
            return Err(error.into());
        }
        self.look_at_disk();
        self.look_at_shards();
        let goes_on =
            !self.draining.load(Ordering::Relaxed) && !self.state.flooded && self.state.events_known;
        if goes_on && let Some(wall) = now() {
            let commits = self.intake.commits();
            let due = self.intake.tick(Instant::now(), wall, &mut self.letters)?;
            if self.intake.commits() > commits {
                self.committed(Duration::ZERO);
            }
            self.submit(due)?;
        }
        self.tell()
    }

    fn tell(&self) -> Result<(), DaemonError> {
        let (records, bytes) = self.budget.in_use();
        self.status.set_queue(Queue { records, bytes });
        for (event, watermark) in self.intake.watermarks() {
            self.status.set_watermark(&event, watermark);
        }
        for (topic, partition, next) in self.intake.positions().iter() {
            let next = i64::try_from(next).unwrap_or(i64::MAX);
            self.status.set_next_offset(topic, partition, next);
            // After a restart nothing may come that would be committed
            if !self.intake.is_dirty() {
                self.status.set_committed(topic, partition, next);
            }
        }
        for (topic, partition, next) in self.intake.committed().iter() {
            self.status.set_committed(topic, partition, i64::try_from(next).unwrap_or(i64::MAX));
        }
        let open = self.intake.open_requests()?.into_iter().map(|open| OpenRequest {
            event: open.key.0,
            request: open.key.1,
            items: open.items.into(),
            first_position: open.first.iter().next().map(|(topic, partition, offset)| RecordPosition {
                topic: topic.to_owned(),
                partition,
                offset: i64::try_from(offset).unwrap_or(i64::MAX),
            }),
        });
        let faulty = self.runs.faulty();
        let failed = faulty.iter().map(|((event, request), &items)| OpenRequest {
            event: event.clone(),
            request: request.clone(),
            items: items.into(),
            first_position: None,
        });
        let mut open: Vec<OpenRequest> = open.collect();
        open.retain(|open| !faulty.contains_key(&(open.event.clone(), open.request.clone())));
        open.extend(failed);
        self.status.set_open_requests(open);
        let names: Vec<String> = faulty.keys().map(|(event, request)| format!("{event}/{request}")).collect();
        self.status.set_check(
            Check::Runs,
            names.is_empty(),
            match names.as_slice() {
                [] => "none has failed".to_owned(),
                names => format!(
                    "failed by a fault of nuggetd, to be run again at the next start: {}",
                    names.join(", ")
                ),
            },
        );
        let taking = !self.state.flooded && !self.state.disk_full;
        self.status.set_check(Check::Intake, taking, if taking { "items are taken" } else { "see paused" });
        Ok(())
    }

    /// Holds the stream while too little is free, and lets it go on when there is room again.
    fn look_at_disk(&mut self) {
        if self.state.last_free.is_some_and(|last| last.elapsed() < Duration::from_secs(1)) {
            return;
        }
        self.state.last_free = Some(Instant::now());
        let Some(free) = super::free_bytes(&self.data_dir) else { return };
        self.status.set_free_bytes(free);
        let least = u64::try_from(self.config.index.least_free.0).unwrap_or_default();
        // Room for some more commits, so that it does not alternate
        let enough = least + least / 8;
        if !self.state.disk_full && free < least {
            self.state.disk_full = true;
            let text = format!(
                "{}MiB are free on the disk of {}, less than index.least_free = {}MiB",
                free >> 20,
                self.data_dir.display(),
                least >> 20
            );
            tracing::error!(reason = text, "no more items are taken until there is room");
            self.status.pause(Pause::Disk, text);
        } else if self.state.disk_full && free >= enough {
            self.state.disk_full = false;
            self.status.resume(Pause::Disk);
            tracing::warn!(free, "there is room again, going on");
        }
        self.hold();
    }

    /// Says so where shards are opened and closed in turn.
    fn look_at_shards(&mut self) {
        let (before, since) = self.state.displaced;
        if since.elapsed() < Duration::from_secs(60) {
            return;
        }
        let now = self.intake.shards().displaced();
        if now - before > 60 {
            tracing::warn!(
                closed = now - before,
                "more shards than index.open_shards are written in turn, each is closed for another one; raise it"
            );
        }
        self.state.displaced = (now, Instant::now());
    }

    /// Sets whether records may come.
    fn hold(&self) {
        self.hold.set(self.state.flooded || self.state.disk_full || !self.state.events_known);
    }
}

fn lock(ledger: &Mutex<Ledger>) -> MutexGuard<'_, Ledger> {
    ledger.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The time; nothing where the clock says a year that no item can have.
fn now() -> Option<UnixSeconds> {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).ok()?;
    UnixSeconds::new(i64::try_from(since.as_secs()).ok()?).ok()
}
