//! The poll thread: records in, batches out, never waiting for anybody.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
        mpsc::Sender,
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant, UNIX_EPOCH},
};

use rdkafka::{
    Message, Offset, Timestamp, TopicPartitionList,
    consumer::{BaseConsumer, CommitMode, Consumer, ConsumerGroupMetadata, RebalanceProtocol},
    error::{KafkaError, RDKafkaErrorCode},
    message::{BorrowedHeaders, BorrowedMessage, Headers},
};

use super::{
    Batch, Budget, Hold, KafkaRecord, Notice, RecordHeaders,
    group::{Group, Outgoing, lock},
};
use crate::{
    config::KafkaConfig,
    kafka::{ClientError, consumer_config},
    model::Offsets,
    telemetry::{Check, Heart, Metrics, Pause, Status},
};

/// Records in one piece of work.
const BATCH_RECORDS: usize = 256;
/// Bytes after which a piece of work gets no more records.
const BATCH_BYTES: usize = 512 << 10;
/// How long a poll waits while nothing comes.
const PATIENCE: Duration = Duration::from_millis(100);
/// How long a full queue is waited for before partitions are paused; far below any `max.poll.interval.ms`.
const SHORT_WAIT: Duration = Duration::from_secs(1);
/// How long a broker may take to answer a question about a partition.
const ANSWER: Duration = Duration::from_secs(10);
/// How long a broker may take to answer a question that can as well be asked again.
const QUICK_ANSWER: Duration = Duration::from_millis(500);
/// How often partitions that are held are asked for their ends.
const ASK_ENDS: Duration = Duration::from_secs(5);
/// How often librdkafka says how far partitions are from their end.
const STATISTICS: &str = "1000";

/// Why the feed cannot begin, or has ended.
#[derive(Debug, thiserror::Error)]
pub enum FeedError {
    /// The configuration of the client.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// librdkafka refuses.
    #[error("the consumer of group {group} cannot start: {source}")]
    Start {
        /// The group.
        group: String,
        /// librdkafka's reason.
        source: KafkaError,
    },
    /// Something that no repetition will mend, or that a person must decide.
    #[error("{0}")]
    Stopped(String),
    /// The thread panicked.
    #[error("the poll thread ended early")]
    Ended,
}

/// Where a feed's batches and notices go, and what it shares with those who take them.
pub struct Wiring {
    /// Records, to be decoded.
    pub batches: Sender<Batch>,
    /// What happens to partitions; gives false where nobody listens any more.
    pub notices: Box<dyn Fn(Notice) -> bool + Send>,
    /// How much may be read and not yet taken.
    pub budget: Arc<Budget>,
    /// Set while no records should come.
    pub hold: Arc<Hold>,
    /// What is.
    pub status: Arc<Status>,
    /// What happened.
    pub metrics: Arc<Metrics>,
}

/// A running consumer.
pub struct KafkaFeed {
    consumer: Arc<BaseConsumer<Group>>,
    stopping: Arc<AtomicBool>,
    thread: Option<JoinHandle<Result<(), FeedError>>>,
}

impl KafkaFeed {
    /// Joins the group and begins to poll. `topics` in the order of the configured sources.
    pub fn start(
        config: &KafkaConfig,
        client_id: &str,
        topics: &[String],
        wiring: Wiring,
    ) -> Result<Self, FeedError> {
        let group = Group::new(
            topics.iter().map(|topic| topic.as_str().into()).collect(),
            Outgoing::new(wiring.batches, wiring.notices),
            wiring.budget,
            wiring.hold,
            wiring.status,
            wiring.metrics,
        );
        let fail = |source| FeedError::Start { group: config.group.clone(), source };
        let mut client = consumer_config(config, client_id)?;
        client.set("statistics.interval.ms", STATISTICS);
        let consumer: BaseConsumer<Group> = client.create_with_context(group).map_err(fail)?;
        let names: Vec<&str> = topics.iter().map(String::as_str).collect();
        consumer.subscribe(&names).map_err(fail)?;
        let stopping = Arc::clone(&consumer.context().stopping);
        let consumer = Arc::new(consumer);
        let thread = {
            let (consumer, stopping) = (Arc::clone(&consumer), Arc::clone(&stopping));
            thread::Builder::new().name("poll".to_owned()).spawn(move || poll(&consumer, &stopping))
        };
        let thread =
            thread.map_err(|error| FeedError::Stopped(format!("the poll thread cannot start: {error}")))?;
        Ok(Self { consumer, stopping, thread: Some(thread) })
    }

    /// Tells the thread to end. What was read is still handed on.
    pub fn stop(&self) {
        self.stopping.store(true, Ordering::Relaxed);
    }

    /// Whether the thread has ended, by itself or because it was told to.
    pub fn has_ended(&self) -> bool {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// Waits for the thread's end and says why it ended.
    pub fn join(&mut self) -> Result<(), FeedError> {
        match self.thread.take() {
            Some(thread) => thread.join().map_err(|_| FeedError::Ended)?,
            None => Ok(()),
        }
    }

    /// A handle for those who publish.
    pub fn member(&self) -> Member {
        Member { consumer: Arc::clone(&self.consumer) }
    }
}

/// This process's membership of the group.
#[derive(Clone)]
pub struct Member {
    consumer: Arc<BaseConsumer<Group>>,
}

impl Member {
    /// What a transaction shows the broker, which refuses a member that is no longer one.
    pub fn metadata(&self) -> Option<ConsumerGroupMetadata> {
        self.consumer.group_metadata()
    }

    /// Stores the group's offsets, for those who watch lags and for whoever takes a partition over. A failure changes
    /// nothing: the ledger has the positions.
    pub fn commit(&self, offsets: &TopicPartitionList) {
        if let Err(error) = self.consumer.commit(offsets, CommitMode::Async) {
            tracing::debug!(%error, "the group's offsets were not stored");
        }
    }
}

/// Offsets as librdkafka takes them. These are the next records wanted: neither `commit` nor a transaction adds 1.
pub fn offset_list(offsets: &Offsets) -> TopicPartitionList {
    let mut list = TopicPartitionList::new();
    for (topic, partition, offset) in offsets.iter() {
        let offset = Offset::Offset(i64::try_from(offset).unwrap_or(i64::MAX));
        // It fails for negative offsets alone
        list.add_partition_offset(topic, partition, offset).unwrap_or_default();
    }
    list
}

fn poll(consumer: &BaseConsumer<Group>, stopping: &AtomicBool) -> Result<(), FeedError> {
    let group = consumer.context();
    let mut since_flush = Instant::now();
    let mut since_ends: Option<Instant> = None;
    while !stopping.load(Ordering::Relaxed) {
        group.status.beat(Heart::Poll);
        if let Some(reason) = lock(&group.fatal).take() {
            return Err(FeedError::Stopped(reason));
        }
        pause_or_resume(consumer, group)?;
        if group.hold.is_set() && since_ends.is_none_or(|since| since.elapsed() >= ASK_ENDS) {
            ask_ends(consumer, group);
            since_ends = Some(Instant::now());
        }
        // While records come, a poll that waits would hold back those that have come
        let patience = if lock(&group.outgoing).records.is_empty() { PATIENCE } else { Duration::ZERO };
        let full = match consumer.poll(patience) {
            Some(Ok(message)) => keep(group, &message),
            Some(Err(error)) => {
                failed(consumer, group, &error)?;
                false
            }
            None => true,
        };
        if (full || since_flush.elapsed() > PATIENCE) && !lock(&group.outgoing).flush() {
            return Err(FeedError::Stopped("those who take items have ended".to_owned()));
        }
        if full {
            since_flush = Instant::now();
        }
    }
    lock(&group.outgoing).flush();
    Ok(())
}

/// Keeps a record for the next batch; true where that is full.
fn keep(group: &Group, message: &BorrowedMessage<'_>) -> bool {
    let Some(source) = group.topics.iter().position(|topic| **topic == *message.topic()) else {
        return false;
    };
    let timestamp = match message.timestamp() {
        Timestamp::CreateTime(ms) | Timestamp::LogAppendTime(ms) => {
            u64::try_from(ms).ok().map(|ms| UNIX_EPOCH + Duration::from_millis(ms))
        }
        Timestamp::NotAvailable => None,
    };
    let record = KafkaRecord {
        source,
        partition: message.partition(),
        offset: u64::try_from(message.offset()).unwrap_or_default(),
        timestamp,
        key: message.key().map(<[u8]>::to_vec),
        payload: message.payload().map(<[u8]>::to_vec),
        headers: message.headers().map(headers).unwrap_or_default(),
    };
    let bytes = record.bytes();
    group.budget.read(1, bytes as u64);
    let mut outgoing = lock(&group.outgoing);
    outgoing.bytes += bytes;
    outgoing.records.push(record);
    outgoing.records.len() >= BATCH_RECORDS || outgoing.bytes >= BATCH_BYTES
}

fn headers(of: &BorrowedHeaders) -> RecordHeaders {
    of.iter().map(|header| (header.key.to_owned(), header.value.map(<[u8]>::to_vec))).collect()
}

/// Waits a moment for those who take items. Most often that is enough, and a pause would cost more: librdkafka throws away
/// what it has fetched ahead and asks for it again.
fn await_room(group: &Group) {
    let until = Instant::now() + SHORT_WAIT;
    lock(&group.outgoing).flush();
    while !group.budget.has_room() && Instant::now() < until && !group.stopping.load(Ordering::Relaxed) {
        group.status.beat(Heart::Poll);
        thread::sleep(Duration::from_millis(2));
    }
}

fn pause_or_resume(consumer: &BaseConsumer<Group>, group: &Group) -> Result<(), FeedError> {
    let paused = group.paused.load(Ordering::Relaxed);
    let held = group.hold.is_set();
    if !paused && !held && group.budget.is_full() {
        await_room(group);
    }
    if !paused && (held || group.budget.is_full()) {
        // Polling a paused partition gives nothing, so what has gathered goes out first
        lock(&group.outgoing).flush();
        consumer.pause(&assignment(group)).map_err(|error| stopped("partitions cannot be paused", &error))?;
        group.paused.store(true, Ordering::Relaxed);
        if !held {
            group.status.pause(Pause::Queue, "as much is read and not yet taken as may be");
        }
    } else if paused && !held && group.budget.has_room() {
        consumer.resume(&assignment(group)).map_err(|error| stopped("partitions cannot go on", &error))?;
        group.paused.store(false, Ordering::Relaxed);
        group.status.resume(Pause::Queue);
    }
    Ok(())
}

/// Tells how far held partitions are from their ends: of those librdkafka knows it from the records that it fetches.
fn ask_ends(consumer: &BaseConsumer<Group>, group: &Group) {
    let assigned: Vec<_> = lock(&group.assigned).keys().cloned().collect();
    for (topic, partition) in assigned {
        // A broker that does not answer is not asked about the others too
        let Ok((_, high)) = consumer.fetch_watermarks(&topic, partition, QUICK_ANSWER) else { return };
        group.status.set_high_watermark(&topic, partition, high);
    }
}

fn assignment(group: &Group) -> TopicPartitionList {
    let mut list = TopicPartitionList::new();
    for (topic, partition) in lock(&group.assigned).keys() {
        list.add_partition(topic, *partition);
    }
    list
}

fn stopped(what: &str, error: &KafkaError) -> FeedError {
    FeedError::Stopped(format!("{what}: {error}"))
}

/// What to do about an error: most of them librdkafka mends by itself.
fn failed(consumer: &BaseConsumer<Group>, group: &Group, error: &KafkaError) -> Result<(), FeedError> {
    let code = match error {
        KafkaError::PartitionEOF(_) => return Ok(()),
        KafkaError::MessageConsumptionFatal(code) => {
            return Err(FeedError::Stopped(format!("the consumer can go on no more: {code}")));
        }
        KafkaError::MessageConsumption(code) => *code,
        other => {
            tracing::warn!(error = %other, "poll failed, it is tried again");
            return Ok(());
        }
    };
    match code {
        RDKafkaErrorCode::AutoOffsetReset | RDKafkaErrorCode::OffsetOutOfRange => {
            go_on_after_gaps(consumer, group)
        }
        RDKafkaErrorCode::UnknownTopicOrPartition | RDKafkaErrorCode::UnknownTopic => {
            refuse_missing_topics(consumer, group)
        }
        RDKafkaErrorCode::TopicAuthorizationFailed
        | RDKafkaErrorCode::GroupAuthorizationFailed
        | RDKafkaErrorCode::SaslAuthenticationFailed
        | RDKafkaErrorCode::Authentication => Err(FeedError::Stopped(format!(
            "the broker does not allow it: {code}; see kafka.librdkafka and the broker's access rules"
        ))),
        RDKafkaErrorCode::PollExceeded => {
            tracing::warn!("polls came too late for max.poll.interval.ms, the group is joined again");
            Ok(())
        }
        // One broker of several may go
        RDKafkaErrorCode::BrokerTransportFailure if group.connected.load(Ordering::Relaxed) => Ok(()),
        RDKafkaErrorCode::AllBrokersDown
        | RDKafkaErrorCode::BrokerTransportFailure
        | RDKafkaErrorCode::Resolve => {
            group.connected.store(false, Ordering::Relaxed);
            if group.status.set_check(Check::Broker, false, code.to_string()) {
                tracing::warn!(%code, "no broker answers, everything waits and is tried again");
            }
            Ok(())
        }
        _ => {
            tracing::warn!(%code, "poll failed, it is tried again");
            Ok(())
        }
    }
}

/// The broker no longer has a position: retention has removed what was not read (go on after it, and say so), or the
/// topic is another one (stop).
fn go_on_after_gaps(consumer: &BaseConsumer<Group>, group: &Group) -> Result<(), FeedError> {
    let positions = consumer.position().map_err(|error| stopped("positions cannot be read", &error))?;
    let mut starts = lock(&group.assigned).clone();
    for ((topic, partition), start) in &mut starts {
        let position = match positions.find_partition(topic, *partition).map(|found| found.offset()) {
            Some(Offset::Offset(position)) => position,
            // Nothing has come of it yet
            _ => i64::try_from(*start).unwrap_or(i64::MAX),
        };
        *start = u64::try_from(position).unwrap_or_default();
        let (low, high) = match consumer.fetch_watermarks(topic, *partition, ANSWER) {
            Ok(watermarks) => watermarks,
            Err(error) => {
                tracing::warn!(topic = &**topic, partition, %error, "the partition cannot be asked, it is tried again");
                continue;
            }
        };
        if position > high {
            return Err(FeedError::Stopped(changed_topic(topic, *partition, position, high)));
        }
        if position < low {
            report_gap(&group.metrics, topic, *partition, position, low);
            *start = u64::try_from(low).unwrap_or_default();
        }
    }
    begin_again(consumer, group, starts)
}

/// Begins every partition of ours anew at an offset. librdkafka stops reading a partition whose position is gone, and
/// one that it has stopped cannot be sought.
fn begin_again(
    consumer: &BaseConsumer<Group>,
    group: &Group,
    starts: BTreeMap<(Arc<str>, i32), u64>,
) -> Result<(), FeedError> {
    let fail = |error: KafkaError| stopped("the gap cannot be passed", &error);
    let mut wanted = TopicPartitionList::with_capacity(starts.len());
    for ((topic, partition), &start) in &starts {
        let offset = Offset::Offset(i64::try_from(start).unwrap_or(i64::MAX));
        wanted.add_partition_offset(topic, *partition, offset).map_err(fail)?;
    }
    match consumer.rebalance_protocol() {
        RebalanceProtocol::Cooperative => consumer
            .incremental_unassign(&assignment(group))
            .and_then(|()| consumer.incremental_assign(&wanted)),
        _ => consumer.assign(&wanted),
    }
    .map_err(fail)?;
    if group.paused.load(Ordering::Relaxed) {
        consumer.pause(&wanted).map_err(fail)?;
    }
    *lock(&group.assigned) = starts;
    Ok(())
}

/// Says that records were removed before they were read.
pub fn report_gap(metrics: &Metrics, topic: &str, partition: i32, position: i64, low: i64) {
    let lost = u64::try_from(low - position).unwrap_or_default();
    metrics.gap(topic, lost);
    tracing::error!(
        topic,
        partition,
        position,
        first_available = low,
        lost,
        "the broker's retention has removed records before they were read, going on after them"
    );
}

/// Why a position cannot be right.
pub fn changed_topic(topic: &str, partition: i32, position: i64, high: i64) -> String {
    format!(
        "topic {topic}, partition {partition}: the position is {position}, but the topic ends at {high}; it was made \
         anew or cut off. If that was meant, `nuggetd index reset-positions --topic {topic} --yes` begins it again"
    )
}

fn refuse_missing_topics(consumer: &BaseConsumer<Group>, group: &Group) -> Result<(), FeedError> {
    for topic in &group.topics {
        let Ok(metadata) = consumer.fetch_metadata(Some(topic), ANSWER) else { continue };
        let exists = metadata.topics().iter().any(|found| {
            found.name() == &**topic && !found.partitions().is_empty() && found.error().is_none()
        });
        if !exists {
            return Err(FeedError::Stopped(format!(
                "topic {topic} does not exist any more; if it is made anew, `nuggetd index reset-positions --topic {topic} --yes` begins it again"
            )));
        }
    }
    Ok(())
}
