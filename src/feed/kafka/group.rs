//! What the group's callbacks do: partitions come with the place to read from, and go after what was read of them is
//! taken. librdkafka calls them on the poll thread, from within a poll.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
        mpsc::{Receiver, RecvTimeoutError, Sender, sync_channel},
    },
    time::{Duration, Instant},
};

use rdkafka::{
    ClientContext, Offset, Statistics, TopicPartitionList,
    config::RDKafkaLogLevel,
    consumer::{BaseConsumer, Consumer, ConsumerContext, RebalanceProtocol},
    error::KafkaError,
    types::RDKafkaRespErr,
};

use super::{Batch, Budget, Change, KafkaRecord, Notice};
use crate::{
    kafka::{log_error, log_line},
    telemetry::{Check, Heart, Metrics, Rebalance, Status},
};

/// How long a broker may take to answer a question about a partition.
const ANSWER: Duration = Duration::from_secs(10);
/// How long the intake may take to say where to read from: it reads the compacted topics first.
const OFFER: Duration = Duration::from_secs(120);
/// How long the intake may take to let partitions go; after it, whoever takes them over is protected by the group's
/// generation, which publishing checks.
const LETTING_GO: Duration = Duration::from_secs(60);

/// A partition that comes, with what the broker says of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Offered {
    /// The topic.
    pub topic: Arc<str>,
    /// The partition.
    pub partition: i32,
    /// The first record that the broker still has.
    pub low: u64,
    /// The record after the last one.
    pub high: u64,
    /// The group's offset, where it has one.
    pub committed: Option<u64>,
}

/// Where a partition is to be read from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Start {
    /// The topic.
    pub topic: Arc<str>,
    /// The partition.
    pub partition: i32,
    /// The first record wanted.
    pub offset: u64,
}

/// Why no records should come at present, besides a full queue.
#[derive(Debug, Default)]
pub struct Hold(AtomicBool);

impl Hold {
    /// Has no more records come; polling goes on.
    pub fn set(&self, held: bool) {
        self.0.store(held, Ordering::Relaxed);
    }

    /// Whether no records should come.
    pub fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// Batches and notices on their way out, numbered in one sequence.
pub(super) struct Outgoing {
    batches: Sender<Batch>,
    notices: Box<dyn Fn(Notice) -> bool + Send>,
    number: u64,
    pub(super) records: Vec<KafkaRecord>,
    pub(super) bytes: usize,
}

impl Outgoing {
    pub(super) fn new(batches: Sender<Batch>, notices: Box<dyn Fn(Notice) -> bool + Send>) -> Self {
        Self { batches, notices, number: 0, records: Vec::new(), bytes: 0 }
    }

    /// Sends what has gathered; false where nobody listens any more.
    pub(super) fn flush(&mut self) -> bool {
        if self.records.is_empty() {
            return true;
        }
        let records = std::mem::take(&mut self.records);
        self.bytes = 0;
        let number = self.number();
        self.batches.send(Batch { number, records }).is_ok()
    }

    fn notice(&mut self, change: Change) -> bool {
        let number_of_batch = self.flush();
        let number = self.number();
        (self.notices)(Notice { number, change }) && number_of_batch
    }

    fn number(&mut self) -> u64 {
        let number = self.number;
        self.number += 1;
        number
    }
}

/// The consumer's context: everything that its callbacks touch.
pub(super) struct Group {
    pub(super) topics: Vec<Arc<str>>,
    pub(super) outgoing: Mutex<Outgoing>,
    pub(super) budget: Arc<Budget>,
    pub(super) hold: Arc<Hold>,
    pub(super) status: Arc<Status>,
    pub(super) metrics: Arc<Metrics>,
    /// Ours, each with where it was begun.
    pub(super) assigned: Mutex<BTreeMap<(Arc<str>, i32), u64>>,
    /// Partitions of which the end was told, with where it was.
    ended: Mutex<BTreeMap<(Arc<str>, i32), i64>>,
    pub(super) paused: AtomicBool,
    /// Whether a broker was connected when librdkafka last told.
    pub(super) connected: AtomicBool,
    /// Told to end.
    pub(super) stopping: Arc<AtomicBool>,
    /// Why the daemon must stop.
    pub(super) fatal: Mutex<Option<String>>,
}

impl Group {
    pub(super) fn new(
        topics: Vec<Arc<str>>,
        outgoing: Outgoing,
        budget: Arc<Budget>,
        hold: Arc<Hold>,
        status: Arc<Status>,
        metrics: Arc<Metrics>,
    ) -> Self {
        Self {
            topics,
            outgoing: Mutex::new(outgoing),
            budget,
            hold,
            status,
            metrics,
            assigned: Mutex::default(),
            ended: Mutex::default(),
            paused: AtomicBool::new(false),
            connected: AtomicBool::new(false),
            stopping: Arc::default(),
            fatal: Mutex::default(),
        }
    }

    pub(super) fn stop_because(&self, reason: String) {
        lock(&self.fatal).get_or_insert(reason);
    }

    fn topic(&self, name: &str) -> Arc<str> {
        self.topics.iter().find(|topic| &***topic == name).cloned().unwrap_or_else(|| name.into())
    }

    fn partitions(&self, list: &TopicPartitionList) -> Vec<(Arc<str>, i32)> {
        list.elements().iter().map(|element| (self.topic(element.topic()), element.partition())).collect()
    }

    fn assign(&self, consumer: &BaseConsumer<Self>, list: &TopicPartitionList) -> Result<(), String> {
        // Told to end, nobody wants them any more. While a consumer is closed, the broker does not answer its questions
        if self.is_stopping() {
            answer_without(consumer);
            return Ok(());
        }
        let partitions = self.partitions(list);
        let starts = if partitions.is_empty() { Vec::new() } else { self.starts(consumer, &partitions)? };
        let mut wanted = TopicPartitionList::with_capacity(starts.len());
        for start in &starts {
            let offset = Offset::Offset(i64::try_from(start.offset).unwrap_or(i64::MAX));
            wanted
                .add_partition_offset(&start.topic, start.partition, offset)
                .map_err(|error| format!("{} {}: {error}", start.topic, start.partition))?;
        }
        match consumer.rebalance_protocol() {
            RebalanceProtocol::Cooperative => consumer.incremental_assign(&wanted),
            _ => consumer.assign(&wanted),
        }
        .map_err(|error| format!("the assignment cannot be used: {error}"))?;
        if self.paused.load(Ordering::Relaxed) {
            consumer.pause(&wanted).map_err(|error| format!("partitions cannot be paused: {error}"))?;
        }
        for start in starts {
            self.status.assign_partition(&start.topic, start.partition);
            lock(&self.assigned).insert((start.topic, start.partition), start.offset);
        }
        Ok(())
    }

    /// Asks the broker what it has, and the intake where to begin.
    fn starts(
        &self,
        consumer: &BaseConsumer<Self>,
        partitions: &[(Arc<str>, i32)],
    ) -> Result<Vec<Start>, String> {
        let mut asked = TopicPartitionList::with_capacity(partitions.len());
        for (topic, partition) in partitions {
            asked.add_partition(topic, *partition);
        }
        let committed = self
            .retried(|| consumer.committed_offsets(asked.clone(), ANSWER))
            .map_err(|error| format!("the group's offsets cannot be read: {error}"))?;
        let mut offered = Vec::with_capacity(partitions.len());
        for (topic, partition) in partitions {
            let watermarks = self.retried(|| consumer.fetch_watermarks(topic, *partition, ANSWER));
            let (low, high) = watermarks
                .map_err(|error| format!("topic {topic}, partition {partition} cannot be asked: {error}"))?;
            let committed = committed.find_partition(topic, *partition).map(|element| element.offset());
            offered.push(Offered {
                topic: Arc::clone(topic),
                partition: *partition,
                low: u64::try_from(low).unwrap_or_default(),
                high: u64::try_from(high).unwrap_or_default(),
                committed: match committed {
                    Some(Offset::Offset(offset)) => u64::try_from(offset).ok(),
                    _ => None,
                },
            });
        }
        let (answer, answered) = sync_channel(1);
        if !lock(&self.outgoing).notice(Change::Offered(offered, answer)) {
            return Err("the intake has ended".to_owned());
        }
        self.await_answer(&answered, OFFER, &|| self.is_stopping())
            .ok_or("the intake did not say where to read from")?
    }

    fn revoke(&self, consumer: &BaseConsumer<Self>, list: &TopicPartitionList) -> Result<(), String> {
        let partitions = self.partitions(list);
        let is_lost = consumer.assignment_lost();
        self.metrics.rebalance(if is_lost { Rebalance::Lost } else { Rebalance::Revoke });
        if is_lost {
            tracing::warn!(
                partitions = partitions.len(),
                "partitions were lost: the group did not hear from us in time"
            );
        }
        if !partitions.is_empty() {
            let (done, answered) = sync_channel(1);
            let change = Change::Revoked { partitions: partitions.clone(), lost: is_lost, done };
            if lock(&self.outgoing).notice(change)
                && self.await_answer(&answered, LETTING_GO, &|| false).is_none()
            {
                tracing::warn!(
                    "partitions are let go although not all of theirs is committed; it is read again"
                );
            }
        }
        match consumer.rebalance_protocol() {
            RebalanceProtocol::Cooperative => consumer.incremental_unassign(list),
            _ => consumer.unassign(),
        }
        .map_err(|error| format!("partitions cannot be let go: {error}"))?;
        for (topic, partition) in partitions {
            self.status.forget_partition(&topic, partition);
            let key = (topic, partition);
            lock(&self.ended).remove(&key);
            lock(&self.assigned).remove(&key);
        }
        Ok(())
    }

    fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Relaxed)
    }

    /// A question to the broker, asked a few times while the heart goes on beating.
    fn retried<T>(&self, ask: impl Fn() -> Result<T, KafkaError>) -> Result<T, KafkaError> {
        self.status.beat(Heart::Poll);
        let mut last = ask();
        for _ in 0..5 {
            if last.is_ok() || self.is_stopping() {
                break;
            }
            std::thread::sleep(Duration::from_millis(500));
            self.status.beat(Heart::Poll);
            last = ask();
        }
        last
    }

    /// Waits while the heart goes on beating; nothing where the time is up or nobody will answer.
    fn await_answer<T>(
        &self,
        answered: &Receiver<T>,
        limit: Duration,
        give_up: &dyn Fn() -> bool,
    ) -> Option<T> {
        let began = Instant::now();
        while began.elapsed() < limit && !give_up() {
            self.status.beat(Heart::Poll);
            match answered.recv_timeout(Duration::from_millis(200)) {
                Ok(answer) => return Some(answer),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return None,
            }
        }
        None
    }
}

/// Takes nothing. The callback must answer the group, whatever went wrong, and in the protocol's own way: else librdkafka
/// waits for the answer, even when it is told to leave.
fn answer_without(consumer: &BaseConsumer<Group>) {
    let nothing = TopicPartitionList::new();
    let answered = match consumer.rebalance_protocol() {
        RebalanceProtocol::Cooperative => consumer.incremental_assign(&nothing),
        _ => consumer.unassign(),
    };
    if let Err(error) = answered {
        tracing::debug!(%error, "the group was not answered");
    }
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl ClientContext for Group {
    fn log(&self, level: RDKafkaLogLevel, facility: &str, line: &str) {
        log_line(level, facility, line);
    }

    fn error(&self, error: KafkaError, reason: &str) {
        log_error(&error, reason);
    }

    /// Tells how far each partition is from its end, and which are at it. librdkafka's own event of a partition's end
    /// does not say which topic it is of.
    fn stats(&self, statistics: Statistics) {
        let connected = statistics.brokers.values().any(|broker| broker.state == "UP");
        self.connected.store(connected, Ordering::Relaxed);
        if connected && self.status.set_check(Check::Broker, true, "connected") {
            tracing::warn!("a broker answers again, going on");
        }
        for (name, topic) in &statistics.topics {
            let name = self.topic(name);
            for (&partition, of) in &topic.partitions {
                let key = (Arc::clone(&name), partition);
                if !lock(&self.assigned).contains_key(&key) {
                    continue;
                }
                // Of what is held nothing is fetched, so librdkafka does not learn how the partition grows
                if of.ls_offset >= 0 && !self.hold.is_set() {
                    self.status.set_high_watermark(&name, partition, of.ls_offset);
                }
                let at_end = of.eof_offset >= 0 && of.eof_offset == of.next_offset && of.fetchq_cnt == 0;
                if at_end && lock(&self.ended).insert(key, of.eof_offset) != Some(of.eof_offset) {
                    lock(&self.outgoing).notice(Change::Ended(Arc::clone(&name), partition));
                }
            }
        }
    }
}

impl ConsumerContext for Group {
    fn rebalance(&self, consumer: &BaseConsumer<Self>, error: RDKafkaRespErr, list: &mut TopicPartitionList) {
        let outcome = match error {
            RDKafkaRespErr::RD_KAFKA_RESP_ERR__ASSIGN_PARTITIONS => {
                self.metrics.rebalance(Rebalance::Assign);
                self.assign(consumer, list)
            }
            RDKafkaRespErr::RD_KAFKA_RESP_ERR__REVOKE_PARTITIONS => self.revoke(consumer, list),
            _ => Err(format!("the group cannot be joined: {}", KafkaError::Rebalance(error.into()))),
        };
        if let Err(reason) = outcome {
            answer_without(consumer);
            if !self.is_stopping() {
                self.stop_because(reason);
            }
        }
    }
}
