//! Sends what waits in the ledger, oldest first, each batch in a transaction, and only for events that are ours.

use std::{
    sync::{
        Arc, Condvar, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use backon::{BackoffBuilder, ExponentialBuilder};
use rdkafka::{
    ClientContext, Message,
    config::RDKafkaLogLevel,
    consumer::ConsumerGroupMetadata,
    error::{KafkaError, RDKafkaErrorCode},
    producer::{BaseProducer, BaseRecord, DeliveryResult, Producer, ProducerContext},
};

use super::Owned;
use crate::{
    config::{KafkaConfig, TopicsConfig},
    feed::kafka::{Member, offset_list},
    kafka::{ClientError, log_error, log_line, producer_config, refusal},
    ledger::{Ledger, LedgerError, Outbox, Waiting},
    model::{EventId, Offsets},
    telemetry::{self, Check, Metrics, PublishFailure, Status},
};

/// How long a broker may take over one step of a transaction.
const STEP: Duration = Duration::from_secs(10);
/// How long a broker may take to say whether a topic exists.
const QUICK_ANSWER: Duration = Duration::from_secs(1);
/// How long the publisher sleeps while nothing happens.
const IDLE: Duration = Duration::from_millis(500);
/// How often the group's offsets are stored while nothing is published.
const OFFSETS_EVERY: Duration = Duration::from_secs(5);
/// Batches in one transaction.
const BATCHES: u32 = 64;
/// How long a transaction may stay open before the broker gives it up. Whoever takes partitions over waits for it.
const TRANSACTION: &str = "10000";

/// Why the publisher ended.
#[derive(Debug, thiserror::Error)]
pub enum PublishError {
    /// The producer's configuration.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// The ledger.
    #[error(transparent)]
    Ledger(#[from] LedgerError),
    /// The thread panicked.
    #[error("the publishing thread ended early")]
    Ended,
}

/// What the publisher and those who wake it share.
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
    /// Held while a transaction is open.
    sending: Mutex<()>,
    stopping: AtomicBool,
}

#[derive(Default)]
struct State {
    /// Raised with each wake.
    wanted: u64,
    /// The `wanted` up to which everything of ours was sent.
    done: u64,
}

/// Wakes the publisher, and waits for it.
#[derive(Clone)]
pub struct PublisherHandle {
    shared: Arc<Shared>,
}

impl PublisherHandle {
    /// Something was put into the outbox.
    pub fn wake(&self) {
        self.state().wanted += 1;
        self.shared.changed.notify_all();
    }

    /// Waits until everything of ours is sent; false where the time is up.
    pub fn drain(&self, limit: Duration) -> bool {
        let until = Instant::now() + limit;
        let mut state = self.state();
        state.wanted += 1;
        let wanted = state.wanted;
        self.shared.changed.notify_all();
        while state.done < wanted {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() || self.shared.stopping.load(Ordering::Relaxed) {
                return false;
            }
            let woken = self.shared.changed.wait_timeout(state, left);
            state = woken.unwrap_or_else(PoisonError::into_inner).0;
        }
        true
    }

    /// Waits until no transaction is open that began before this call; false where the time is up.
    pub fn pass(&self, limit: Duration) -> bool {
        let until = Instant::now() + limit;
        loop {
            match self.shared.sending.try_lock() {
                Ok(_) | Err(std::sync::TryLockError::Poisoned(_)) => return true,
                Err(std::sync::TryLockError::WouldBlock) if Instant::now() >= until => return false,
                Err(std::sync::TryLockError::WouldBlock) => thread::sleep(Duration::from_millis(20)),
            }
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.shared.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The publishing thread.
pub struct Publisher {
    handle: PublisherHandle,
    thread: Option<JoinHandle<Result<(), PublishError>>>,
}

/// What the thread works with.
struct Work {
    kafka: KafkaConfig,
    client_id: String,
    topics: TopicsConfig,
    ledger: Arc<Mutex<Ledger>>,
    owned: Arc<Owned>,
    member: Member,
    status: Arc<Status>,
    metrics: Arc<Metrics>,
    shared: Arc<Shared>,
    /// The group's offsets as they were last stored.
    stored: Offsets,
    stored_at: Instant,
    /// Why nothing was published when that was last tried.
    trouble: Option<String>,
}

impl Publisher {
    /// Starts the thread. `client_id` must be this instance's own: the broker lets only the youngest producer of that
    /// name publish.
    #[expect(clippy::too_many_arguments, reason = "each is shared with another thread")]
    pub fn start(
        kafka: &KafkaConfig,
        client_id: &str,
        topics: &TopicsConfig,
        ledger: Arc<Mutex<Ledger>>,
        owned: Arc<Owned>,
        member: Member,
        status: Arc<Status>,
        metrics: Arc<Metrics>,
    ) -> Result<Self, PublishError> {
        let shared = Arc::new(Shared {
            state: Mutex::default(),
            changed: Condvar::new(),
            sending: Mutex::default(),
            stopping: AtomicBool::new(false),
        });
        let work = Work {
            kafka: kafka.clone(),
            client_id: client_id.to_owned(),
            topics: topics.clone(),
            ledger,
            owned,
            member,
            status,
            metrics,
            shared: Arc::clone(&shared),
            stored: Offsets::default(),
            stored_at: Instant::now(),
            trouble: None,
        };
        // A wrong configuration is found here, not on the thread
        work.producer()?;
        let thread = thread::Builder::new().name("publish".to_owned()).spawn(move || work.run());
        let thread = thread.map_err(|_| PublishError::Ended)?;
        Ok(Self { handle: PublisherHandle { shared }, thread: Some(thread) })
    }

    /// To wake the publisher and to wait for it.
    pub fn handle(&self) -> PublisherHandle {
        self.handle.clone()
    }

    /// Whether the thread has ended by itself.
    pub fn has_ended(&self) -> bool {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// Has the thread end once it is through with what it does now.
    pub fn tell_to_stop(&self) {
        self.handle.shared.stopping.store(true, Ordering::Relaxed);
        self.handle.wake();
    }

    /// Ends the thread; what waits stays in the outbox.
    pub fn stop(&mut self) -> Result<(), PublishError> {
        self.tell_to_stop();
        match self.thread.take() {
            Some(thread) => thread.join().map_err(|_| PublishError::Ended)?,
            None => Ok(()),
        }
    }
}

type TransactionalProducer = BaseProducer<Refused>;

/// What a topic did not take first of a transaction's records, and why: the commit that fails over it does not say.
#[derive(Default)]
struct Refused(Mutex<Option<String>>);

impl Refused {
    fn take(&self) -> Option<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

impl ClientContext for Refused {
    fn log(&self, level: RDKafkaLogLevel, facility: &str, line: &str) {
        log_line(level, facility, line);
    }

    fn error(&self, error: KafkaError, reason: &str) {
        log_error(&error, reason);
    }
}

impl ProducerContext for Refused {
    type DeliveryOpaque = ();

    fn delivery(&self, result: &DeliveryResult<'_>, (): ()) {
        let Err((error, message)) = result else { return };
        let code = error.rdkafka_error_code();
        if code != Some(RDKafkaErrorCode::PurgeQueue) && code != Some(RDKafkaErrorCode::PurgeInflight) {
            let mut first = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            first.get_or_insert_with(|| refusal(message.topic(), error));
        }
    }
}

impl Work {
    fn producer(&self) -> Result<TransactionalProducer, ClientError> {
        let mut config = producer_config(&self.kafka, &self.client_id)?;
        config.set("transactional.id", &self.client_id).set("transaction.timeout.ms", TRANSACTION);
        // Within a transaction nothing waits for ever: what is given up is sent again from the outbox
        config.set("message.timeout.ms", TRANSACTION);
        Ok(config.create_with_context(Refused::default())?)
    }

    fn run(mut self) -> Result<(), PublishError> {
        let mut producer: Option<TransactionalProducer> = None;
        let mut delays = backoff().build();
        while !self.is_stopping() {
            let wanted = self.wanted();
            self.show_outbox()?;
            let sent = self.be_ready(&mut producer).and_then(|()| self.send_all(&mut producer));
            match sent {
                Ok(()) => {
                    delays = backoff().build();
                    if self.trouble.take().is_some() {
                        tracing::warn!("results are published again");
                    }
                    self.store_offsets()?;
                    self.done(wanted);
                    self.status.set_check(Check::Publisher, true, "everything of ours is published");
                    self.sleep(IDLE, wanted);
                }
                Err(Failed::Ledger(error)) => return Err(error.into()),
                Err(Failed::Kafka(step, error)) => {
                    let refused = producer.as_ref().and_then(|producer| {
                        producer.context().take().or_else(|| self.missing_topic(producer))
                    });
                    self.failed(step, &error, refused);
                    // A producer that failed within a transaction is not worth mending
                    producer = None;
                    self.sleep(delays.next().unwrap_or(Duration::from_secs(30)), u64::MAX);
                }
            }
        }
        Ok(())
    }

    fn failed(&mut self, step: &'static str, error: &KafkaError, refused: Option<String>) {
        let kind = match error.rdkafka_error_code() {
            Some(
                RDKafkaErrorCode::MessageTimedOut
                | RDKafkaErrorCode::OperationTimedOut
                | RDKafkaErrorCode::BrokerTransportFailure
                | RDKafkaErrorCode::AllBrokersDown
                | RDKafkaErrorCode::NetworkException,
            ) => PublishFailure::Unreachable,
            Some(RDKafkaErrorCode::Fatal | RDKafkaErrorCode::Fenced) => PublishFailure::Fatal,
            _ => PublishFailure::Refused,
        };
        self.metrics.publish_failure(kind);
        let reason = refused.unwrap_or_else(|| error.to_string());
        let detail = format!("{step}: {reason}");
        if self.trouble.replace(detail.clone()).as_ref() == Some(&detail) {
            tracing::info!(step, reason, "still nothing was published, it is tried again");
        } else {
            tracing::warn!(step, reason, "nothing was published, it is tried again");
        }
        self.status.set_check(Check::Publisher, false, detail);
    }

    /// Says so where a topic of ours does not exist: librdkafka waits for such a one until the time is up.
    fn missing_topic(&self, producer: &TransactionalProducer) -> Option<String> {
        [&self.topics.nuggets, &self.topics.requests].into_iter().find_map(|topic| {
            let metadata = producer.client().fetch_metadata(Some(topic), QUICK_ANSWER).ok()?;
            let found = metadata.topics().first()?;
            let error = KafkaError::MetadataFetch(RDKafkaErrorCode::from(found.error()?));
            (error.rdkafka_error_code() == Some(RDKafkaErrorCode::UnknownTopicOrPartition))
                .then(|| refusal(topic, &error))
        })
    }

    /// Has the broker end a transaction that this instance left open when it was killed: until then nobody can read
    /// what comes after it.
    fn be_ready(&self, producer: &mut Option<TransactionalProducer>) -> Result<(), Failed> {
        if producer.is_none() {
            *producer = Some(self.ready_producer()?);
        }
        Ok(())
    }

    /// Sends what waits for events of ours.
    fn send_all(&mut self, producer: &mut Option<TransactionalProducer>) -> Result<(), Failed> {
        let mut after = 0;
        loop {
            if self.is_stopping() {
                return Ok(());
            }
            let waiting = self.ledger().waiting(after, BATCHES)?;
            let Some(last) = waiting.last() else { return Ok(()) };
            after = last.id;
            let ours = |event: &EventId| self.owned.has(event);
            if !waiting.iter().any(|waiting| ours(&waiting.batch.key.0)) {
                continue;
            }
            let Some(metadata) = self.member.metadata() else { return Ok(()) };
            let ready = match producer.take() {
                Some(ready) => ready,
                None => self.ready_producer()?,
            };
            let shared = Arc::clone(&self.shared);
            let sending = shared.sending.lock().unwrap_or_else(PoisonError::into_inner);
            // Asked again under the lock: whoever takes partitions away waits for it. An event that has become ours
            // meanwhile may have been taken over first, and then what waited of it is void
            let mut ours: Vec<&Waiting> =
                waiting.iter().filter(|waiting| self.owned.has(&waiting.batch.key.0)).collect();
            let ids: Vec<i64> = ours.iter().map(|waiting| waiting.id).collect();
            let still = self.ledger().still_waiting(&ids)?;
            ours.retain(|waiting| still.contains(&waiting.id));
            let done = if ours.is_empty() { Ok(()) } else { self.transact(&ready, &ours, &metadata) };
            drop(sending);
            *producer = Some(ready);
            done?;
        }
    }

    fn ready_producer(&self) -> Result<TransactionalProducer, Failed> {
        let producer = self.producer().map_err(|error| {
            Failed::Kafka("making a producer", KafkaError::ClientCreation(error.to_string()))
        })?;
        producer.init_transactions(STEP).map_err(|error| Failed::Kafka("beginning to publish", error))?;
        Ok(producer)
    }

    fn transact(
        &mut self,
        producer: &TransactionalProducer,
        batches: &[&Waiting],
        metadata: &ConsumerGroupMetadata,
    ) -> Result<(), Failed> {
        let offsets = self.owned.offsets(&self.safe_positions()?);
        producer.begin_transaction().map_err(|error| Failed::Kafka("beginning a transaction", error))?;
        let (mut nuggets, mut tombstones) = (0, 0);
        for entry in batches.iter().flat_map(|waiting| &waiting.batch.entries) {
            let topic = match entry.topic {
                Outbox::Nuggets => &self.topics.nuggets,
                Outbox::Requests => &self.topics.requests,
            };
            match (&entry.topic, &entry.value) {
                (Outbox::Nuggets, Some(_)) => nuggets += 1,
                (Outbox::Nuggets, None) => tombstones += 1,
                (Outbox::Requests, _) => {}
            }
            let mut record = BaseRecord::to(topic).key(&entry.key);
            if let Some(value) = &entry.value {
                record = record.payload(value);
            }
            send(producer, record).map_err(|error| Failed::Kafka("sending", error))?;
        }
        producer
            .send_offsets_to_transaction(&offset_list(&offsets), metadata, STEP)
            .map_err(|error| Failed::Kafka("showing the group's generation", error))?;
        producer
            .commit_transaction(STEP)
            .map_err(|error| Failed::Kafka("committing a transaction", error))?;
        self.ledger().sent(batches)?;
        self.metrics.published(nuggets, tombstones);
        self.status.published();
        self.remember(offsets);
        Ok(())
    }

    /// Positions that may be shown to whoever takes our partitions over: no request has its first item before them
    /// without the requests topic saying so.
    fn safe_positions(&self) -> Result<Offsets, LedgerError> {
        let ledger = self.ledger();
        let unpublished = ledger.unpublished_first()?;
        let mut safe = Offsets::default();
        for (topic, partition, offset) in ledger.checkpoint()?.positions.iter() {
            let bound = unpublished.get(topic, partition).unwrap_or(offset);
            safe.set(topic, partition, offset.min(bound));
        }
        Ok(safe)
    }

    fn store_offsets(&mut self) -> Result<(), LedgerError> {
        if self.stored_at.elapsed() < OFFSETS_EVERY {
            return Ok(());
        }
        let offsets = self.owned.offsets(&self.safe_positions()?);
        if offsets != self.stored && !offsets.is_empty() {
            self.member.commit(&offset_list(&offsets));
            self.remember(offsets);
        }
        self.stored_at = Instant::now();
        Ok(())
    }

    fn remember(&mut self, offsets: Offsets) {
        self.stored = offsets;
        self.stored_at = Instant::now();
    }

    fn show_outbox(&self) -> Result<(), LedgerError> {
        // What waits of events that are somebody else's now stays until their partitions come back
        let waiting = self.ledger().waiting_by_event()?;
        let ours = waiting.into_iter().filter(|(event, _)| self.owned.has(event));
        let batches = ours.map(|(_, batches)| batches).sum();
        let before = self.status.view().outbox;
        let oldest = if batches == 0 { None } else { before.oldest.or(Some(now())) };
        self.status.set_outbox(telemetry::Outbox { batches, records: 0, oldest });
        Ok(())
    }

    fn ledger(&self) -> MutexGuard<'_, Ledger> {
        self.ledger.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_stopping(&self) -> bool {
        self.shared.stopping.load(Ordering::Relaxed)
    }

    fn wanted(&self) -> u64 {
        self.shared.state.lock().unwrap_or_else(PoisonError::into_inner).wanted
    }

    fn done(&self, wanted: u64) {
        let mut state = self.shared.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.done = state.done.max(wanted);
        self.shared.changed.notify_all();
    }

    /// Sleeps until something more is wanted than `known`, or the time is up.
    fn sleep(&self, most: Duration, known: u64) {
        let until = Instant::now() + most;
        let mut state = self.shared.state.lock().unwrap_or_else(PoisonError::into_inner);
        while state.wanted <= known && !self.is_stopping() {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            let woken = self.shared.changed.wait_timeout(state, left);
            state = woken.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

enum Failed {
    Ledger(LedgerError),
    /// In which step, and the client's reason.
    Kafka(&'static str, KafkaError),
}

impl From<LedgerError> for Failed {
    fn from(error: LedgerError) -> Self {
        Self::Ledger(error)
    }
}

/// Puts a record into the producer's queue; waits while that is full.
fn send(producer: &TransactionalProducer, record: BaseRecord<'_, String, String>) -> Result<(), KafkaError> {
    let began = Instant::now();
    let mut record = record;
    loop {
        match producer.send(record) {
            Ok(()) => return Ok(()),
            Err((KafkaError::MessageProduction(RDKafkaErrorCode::QueueFull), same))
                if began.elapsed() < STEP =>
            {
                record = same;
                producer.poll(Duration::from_millis(10));
            }
            Err((error, _)) => return Err(error),
        }
    }
}

fn backoff() -> ExponentialBuilder {
    ExponentialBuilder::default()
        .with_min_delay(Duration::from_millis(200))
        .with_max_delay(Duration::from_secs(30))
        .with_jitter()
        .without_max_times()
}

fn now() -> i64 {
    std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .ok()
        .and_then(|since| i64::try_from(since.as_secs()).ok())
        .unwrap_or_default()
}
