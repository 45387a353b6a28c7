//! What a live stream has and an archive has not: partitions that come and go, events that change, clocks.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Instant,
};

use super::{DeadLetters, Due, Intake, IntakeError, Known, lock};
use crate::{
    index::{ShardKey, Size},
    model::{Event, EventId, Offsets, UnixSeconds},
};

/// A partition by topic and number.
pub type Partition = (String, i32);

/// The part of the intake's state that only a live stream needs.
#[derive(Default)]
pub(super) struct Live {
    assigned: BTreeSet<Partition>,
    /// Partitions that are read to their end.
    ended: BTreeSet<Partition>,
    /// Events whose partitions are ours, with the time of their last item.
    active: BTreeMap<EventId, Instant>,
    /// Requests whose run was asked for before this start and has not begun.
    unfinished: BTreeSet<ShardKey>,
    /// When open requests were last run.
    refreshed: Option<Instant>,
}

impl Live {
    pub(super) fn heard(&mut self, event: &EventId) {
        if let Some(last) = self.active.get_mut(event) {
            *last = Instant::now();
        }
    }

    pub(super) fn is_active(&self, event: &EventId) -> bool {
        self.active.contains_key(event)
    }
}

/// A request that waits for items.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenRequest {
    /// Which one.
    pub key: ShardKey,
    /// Items so far.
    pub items: u32,
    /// Where its first item stands.
    pub first: Offsets,
}

impl Intake {
    /// Notes a digest of the last record taken of a partition.
    pub fn remember_record(&mut self, topic: &str, partition: i32, digest: u64) {
        self.last_records.set(topic, partition, digest);
    }

    /// The digest noted of the last record taken of a partition.
    pub fn last_record(&self, topic: &str, partition: i32) -> Option<u64> {
        self.last_records.get(topic, partition)
    }

    /// Replaces the events. Those that are active go on with their new requests and queries.
    pub fn set_events(&mut self, events: &[Arc<Event>]) {
        self.events = events.iter().map(|event| (event.id.clone(), Arc::clone(event))).collect();
        let active: Vec<EventId> = self.live.active.keys().cloned().collect();
        for id in active {
            match self.events.get(&id) {
                Some(event) => self.schedule.set_event(event),
                None => self.schedule.forget(&id),
            }
        }
    }

    /// Closes what is open of an event that has ended.
    pub fn close_event(&mut self, event: &EventId) -> Result<Vec<Due>, IntakeError> {
        let mut due = Vec::new();
        for request in self.schedule.close_event(event) {
            let key = (event.clone(), request);
            // Days that never had an item were never begun
            if self.known.contains_key(&key) {
                due.extend(self.close(key)?);
            }
        }
        Ok(due)
    }

    /// Where a partition that has become ours is to be read from, unless it was never read here.
    pub fn next_offset(&self, topic: &str, partition: i32) -> Option<u64> {
        self.begun.get(topic, partition).map(|_| self.positions.next(topic, partition))
    }

    /// The first record that was ever looked at of a partition.
    pub fn begun(&self, topic: &str, partition: i32) -> Option<u64> {
        self.begun.get(topic, partition)
    }

    /// The lowest first item of the requests that are built here and lie in this partition.
    pub fn lowest_first(&self, topic: &str, partition: i32, closed_too: bool) -> Option<u64> {
        self.known
            .values()
            .filter(|known| known.here && (closed_too || known.closed_with.is_none()))
            .filter_map(|known| known.first.get(topic, partition))
            .min()
    }

    /// Reads anew what the ledger knows of requests: it has taken some over.
    pub fn reload(&mut self) -> Result<(), IntakeError> {
        let (requests, homes) = {
            let ledger = lock(&self.ledger);
            (ledger.requests()?, ledger.homes()?)
        };
        for request in requests {
            let key = request.key.clone();
            let mut known = Known::from(request);
            if let Some(before) = self.known.remove(&key) {
                known.late = before.late.filter(|_| known.here);
                if self.new_requests.contains(&key) {
                    for (topic, partition, offset) in before.first.iter() {
                        known.first.lower(topic, partition, offset);
                    }
                }
            }
            self.known.insert(key, known);
        }
        for (event, topic, partition) in homes {
            self.homes.entry(event).or_default().insert((topic, partition));
        }
        Ok(())
    }

    /// Partitions have become ours, each to be read from the offset given.
    pub fn assigned(&mut self, partitions: &[(String, i32, u64)]) -> Result<(), IntakeError> {
        for (topic, partition, offset) in partitions {
            if self.begun.get(topic, *partition).is_none() {
                self.begun.set(topic, *partition, *offset);
            }
            if let Some(last) = offset.checked_sub(1) {
                self.positions.advance(topic, *partition, last);
            }
            self.live.ended.remove(&(topic.clone(), *partition));
            self.live.assigned.insert((topic.clone(), *partition));
        }
        let of_these = |homes: &BTreeSet<Partition>| {
            homes.iter().any(|(topic, partition)| {
                partitions.iter().any(|(name, number, _)| name == topic && number == partition)
            })
        };
        let events: Vec<EventId> =
            self.homes.iter().filter(|(_, homes)| of_these(homes)).map(|(event, _)| event.clone()).collect();
        for event in &events {
            self.activate(event);
            // Active already where it has another partition here: its requests may be open again
            if let Some(event) = self.events.get(event) {
                self.schedule.set_event(event);
            }
        }
        if self.schedule_config.revise_late {
            self.find_late(&events)?;
        }
        for request in lock(&self.ledger).requests()? {
            if request.waiting().is_some() && self.live.is_active(&request.key.0) {
                self.live.unfinished.insert(request.key);
            }
        }
        Ok(())
    }

    /// Late items that were committed, and not run before this start or while the partition was elsewhere.
    fn find_late(&mut self, events: &[EventId]) -> Result<(), IntakeError> {
        let closed = self
            .known
            .iter_mut()
            .filter(|(key, known)| events.contains(&key.0) && known.here && known.closed_with.is_some());
        for (key, known) in closed {
            if known.late.is_none() && self.shards.items(key)? > known.seen {
                known.late = Some(Instant::now());
            }
        }
        Ok(())
    }

    pub(super) fn activate(&mut self, event: &EventId) {
        if self.live.active.insert(event.clone(), Instant::now()).is_none()
            && let Some(event) = self.events.get(event)
        {
            self.schedule.set_event(event);
        }
    }

    /// Partitions are no longer ours: commits, closes what is theirs and lets go of it. Gives the events let go.
    pub fn revoked(
        &mut self,
        partitions: &[Partition],
        dead_letters: &mut impl DeadLetters,
    ) -> Result<Vec<EventId>, IntakeError> {
        self.commit(dead_letters)?;
        for partition in partitions {
            self.live.assigned.remove(partition);
            self.live.ended.remove(partition);
        }
        let is_theirs = |homes: &BTreeSet<Partition>| homes.iter().any(|home| partitions.contains(home));
        let events: Vec<EventId> =
            self.homes.iter().filter(|(_, homes)| is_theirs(homes)).map(|(event, _)| event.clone()).collect();
        self.shards.release(&self.positions, |event| events.contains(event))?;
        for event in &events {
            self.live.active.remove(event);
            self.schedule.forget(event);
        }
        self.live.unfinished.retain(|(event, _)| !events.contains(event));
        Ok(events)
    }

    /// A partition is read to its end.
    pub fn partition_ended(&mut self, topic: &str, partition: i32) {
        self.live.ended.insert((topic.to_owned(), partition));
    }

    /// A partition has a record again.
    pub fn partition_goes_on(&mut self, topic: &str, partition: i32) {
        if self.live.ended.is_empty() {
            return;
        }
        self.live.ended.remove(&(topic.to_owned(), partition));
    }

    /// What the clock makes due: quiet events close what lies before now, open requests are run in between, late items
    /// are run once no more come.
    pub fn tick(
        &mut self,
        now: Instant,
        wall: UnixSeconds,
        dead_letters: &mut impl DeadLetters,
    ) -> Result<Vec<Due>, IntakeError> {
        let mut due = self.due_by_watermark()?;
        due.extend(self.begin_unfinished()?);
        due.extend(self.close_quiet(now, wall)?);
        let refresh = self.schedule_config.refresh.duration();
        let last = *self.live.refreshed.get_or_insert(now);
        if !refresh.is_zero() && now.duration_since(last) >= refresh {
            self.live.refreshed = Some(now);
            due.extend(self.refresh(dead_letters)?);
        }
        if self.schedule_config.revise_late {
            due.extend(self.revise_quiet(now, dead_letters)?);
        }
        Ok(due)
    }

    /// What the watermark of an event that has just become active closes.
    fn due_by_watermark(&mut self) -> Result<Vec<Due>, IntakeError> {
        let active: Vec<EventId> = self.live.active.keys().cloned().collect();
        let mut due = Vec::new();
        for event in active {
            for request in self.schedule.due(&event) {
                due.extend(self.close((event.clone(), request))?);
            }
        }
        Ok(due)
    }

    fn begin_unfinished(&mut self) -> Result<Vec<Due>, IntakeError> {
        if self.live.unfinished.is_empty() {
            return Ok(Vec::new());
        }
        let mut due =
            self.unfinished(|event| self.live.is_active(event) && self.is_read_to_its_end(event))?;
        due.retain(|due| self.live.unfinished.remove(&due.key));
        Ok(due)
    }

    fn close_quiet(&mut self, now: Instant, wall: UnixSeconds) -> Result<Vec<Due>, IntakeError> {
        let idle = self.schedule_config.idle.duration();
        let quiet: Vec<EventId> = self
            .live
            .active
            .iter()
            .filter(|(event, last)| now.duration_since(**last) >= idle && self.is_read_to_its_end(event))
            .map(|(event, _)| event.clone())
            .collect();
        let mut due = Vec::new();
        for event in quiet {
            for request in self.schedule.past(&event, wall) {
                due.extend(self.close((event.clone(), request))?);
            }
        }
        Ok(due)
    }

    fn is_read_to_its_end(&self, event: &EventId) -> bool {
        let homes = self.homes.get(event).into_iter().flatten();
        homes.filter(|home| self.live.assigned.contains(home)).all(|home| self.live.ended.contains(home))
    }

    /// Runs the open requests that have new items.
    fn refresh(&mut self, dead_letters: &mut impl DeadLetters) -> Result<Vec<Due>, IntakeError> {
        if self.is_dirty() {
            self.commit(dead_letters)?;
        }
        let mut due = Vec::new();
        for open in self.open_requests()? {
            let seen = self.known.get(&open.key).map_or(0, |known| known.seen);
            // One run at a time: each new one would overtake the last, and none would come to its end
            let is_running =
                lock(&self.ledger).request(&open.key)?.is_some_and(|known| known.waiting().is_some());
            if open.items > seen && !is_running {
                due.extend(self.run_again(&open.key)?);
            }
        }
        Ok(due)
    }

    /// Runs closed requests again whose late items have ceased to come.
    fn revise_quiet(
        &mut self,
        now: Instant,
        dead_letters: &mut impl DeadLetters,
    ) -> Result<Vec<Due>, IntakeError> {
        let idle = self.schedule_config.idle.duration();
        let is_quiet = |late: Option<Instant>| late.is_some_and(|late| now.duration_since(late) >= idle);
        let quiet: Vec<ShardKey> = self
            .known
            .iter()
            .filter(|(key, known)| is_quiet(known.late) && self.live.is_active(&key.0))
            .map(|(key, _)| key.clone())
            .collect();
        if quiet.is_empty() {
            return Ok(Vec::new());
        }
        if self.is_dirty() {
            self.commit(dead_letters)?;
        }
        let mut due = Vec::new();
        for key in quiet {
            if let Some(known) = self.known.get_mut(&key) {
                known.late = None;
            }
            due.extend(self.run_again(&key)?);
        }
        Ok(due)
    }

    /// The requests of active events that have items and wait for more.
    pub fn open_requests(&self) -> Result<Vec<OpenRequest>, IntakeError> {
        let mut open = Vec::new();
        for event in self.live.active.keys() {
            for request in self.schedule.open(event) {
                let key = (event.clone(), request);
                let Some(known) = self.known.get(&key) else { continue };
                if known.here && known.closed_with.is_none() {
                    let items = self.shards.items(&key)?;
                    open.push(OpenRequest { key, items, first: known.first.clone() });
                }
            }
        }
        Ok(open)
    }

    /// The active events, each with its watermark.
    pub fn watermarks(&self) -> Vec<(EventId, i64)> {
        let active = self.live.active.keys();
        active.filter_map(|event| Some((event.clone(), self.schedule.watermark(event)?))).collect()
    }

    /// The partitions that an event's items came from.
    pub fn homes(&self) -> &BTreeMap<EventId, BTreeSet<Partition>> {
        &self.homes
    }

    /// How large the shards are, all together.
    pub fn shards_size(&mut self) -> Size {
        self.shards.size()
    }
}
