//! Refused records, to a topic of their own: the bytes as they came, the reason in headers.
//!
//! Keeps true: no record is so large that it stops the stream. Where the topic takes no letter of that size, the letter
//! goes without the record's key and bytes and says so; its headers name where the record lies.

use std::{
    cell::Cell,
    io,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use rdkafka::{
    ClientContext,
    config::RDKafkaLogLevel,
    error::{KafkaError, RDKafkaErrorCode},
    message::{Header, Headers, Message, OwnedHeaders},
    producer::{BaseProducer, BaseRecord, DeliveryResult, Producer, ProducerContext},
};

use crate::{
    config::KafkaConfig,
    feed::kafka::RecordHeaders,
    intake::DeadLetters,
    kafka::{ClientError, log_error, log_line, producer_config, refusal},
    model::Refusal,
    telemetry::{Check, Heart, Status},
};

/// How long one waits before looking again whether there is room, or an answer.
const MOMENT: Duration = Duration::from_millis(20);
/// How long letters may wait before that is said.
const LONG: Duration = Duration::from_secs(3);
/// Largest record whose bytes are put into a letter. Less than the producer's queue holds.
const LARGEST: usize = 32 << 20;
/// What a letter may be: the record's bytes, its key and the headers.
const LARGEST_LETTER: &str = "34603008";
/// The header that gives the size of what was too large for the topic.
const LEFT_OUT: &str = "left_out_bytes";
/// The headers that every letter has besides the record's own.
const OURS: usize = 6;
/// Longest message in a header, in bytes.
const LONGEST_MESSAGE: usize = 1_000;

/// A refused record, or a refused part of one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Letter {
    /// Why.
    pub refusal: Refusal,
    /// The record's key.
    pub key: Option<Vec<u8>>,
    /// The record's bytes as they came; of a refused part, the part's.
    pub payload: Vec<u8>,
    /// The record's own headers.
    pub headers: RecordHeaders,
}

/// The dead-letter topic.
pub struct KafkaDeadLetters {
    producer: BaseProducer<Confirmations>,
    topic: String,
    /// Set when waiting for the broker must end.
    giving_up: Arc<AtomicBool>,
    /// Told while one waits: the thread is not dead, the broker does not answer.
    status: Arc<Status>,
    /// Whether it was said that letters wait.
    told: Cell<bool>,
}

/// What the broker has refused.
#[derive(Default)]
struct Confirmations(Mutex<Refused>);

#[derive(Default)]
struct Refused {
    /// For good: why.
    failed: Option<String>,
    /// Letters that were too large for the topic: their headers, and the size of the record.
    too_large: Vec<(OwnedHeaders, usize)>,
}

impl Confirmations {
    fn refused(&self) -> MutexGuard<'_, Refused> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ClientContext for Confirmations {
    fn log(&self, level: RDKafkaLogLevel, facility: &str, line: &str) {
        log_line(level, facility, line);
    }

    fn error(&self, error: KafkaError, reason: &str) {
        log_error(&error, reason);
    }
}

impl ProducerContext for Confirmations {
    type DeliveryOpaque = ();

    fn delivery(&self, result: &DeliveryResult<'_>, (): ()) {
        if let Err((error, message)) = result {
            let code = error.rdkafka_error_code();
            if code == Some(RDKafkaErrorCode::PurgeQueue) || code == Some(RDKafkaErrorCode::PurgeInflight) {
                return;
            }
            let size = message.payload_len() + message.key_len();
            let mut refused = self.refused();
            if code == Some(RDKafkaErrorCode::MessageSizeTooLarge)
                && let Some(headers) = message.headers()
                && (size > 0 || headers.count() > OURS + 1)
            {
                // The record's own headers are left out with its bytes: they may be what is too large
                let ours = headers.iter().skip(headers.count().saturating_sub(OURS));
                refused.too_large.push((ours.fold(OwnedHeaders::new(), OwnedHeaders::insert), size));
                return;
            }
            refused.failed.get_or_insert_with(|| refusal(message.topic(), error));
        }
    }
}

impl KafkaDeadLetters {
    /// Connects when the first letter is sent.
    pub fn new(
        kafka: &KafkaConfig,
        client_id: &str,
        topic: &str,
        giving_up: Arc<AtomicBool>,
        status: Arc<Status>,
    ) -> Result<Self, ClientError> {
        let mut config = producer_config(kafka, client_id)?;
        config.set("message.max.bytes", LARGEST_LETTER);
        let producer = config.create_with_context(Confirmations::default())?;
        Ok(Self { producer, topic: topic.to_owned(), giving_up, status, told: Cell::new(false) })
    }

    /// Sends a letter; waits while the producer's queue is full.
    pub fn keep(&self, letter: &Letter, source: (&str, i32, u64)) -> io::Result<()> {
        let (topic, partition, offset) = source;
        let message: String = letter.refusal.message.chars().take(LONGEST_MESSAGE).collect();
        let ours = OwnedHeaders::new_with_capacity(OURS)
            .insert(Header { key: "error_code", value: Some(letter.refusal.code.as_str()) })
            .insert(Header { key: "error_message", value: Some(&message) })
            .insert(Header { key: "source_topic", value: Some(topic) })
            .insert(Header { key: "source_partition", value: Some(&partition.to_string()) })
            .insert(Header { key: "source_offset", value: Some(&offset.to_string()) })
            .insert(Header { key: "app_version", value: Some(env!("CARGO_PKG_VERSION")) });
        let size = letter.payload.len() + letter.key.as_ref().map_or(0, Vec::len);
        let of_headers: usize =
            letter.headers.iter().map(|(key, value)| key.len() + value.as_ref().map_or(0, Vec::len)).sum();
        if size + of_headers > LARGEST {
            return self.send_without_bytes(ours, size);
        }
        // Whoever asks for a header by name is given the last one
        let mut headers = OwnedHeaders::new_with_capacity(letter.headers.len() + OURS);
        for (key, value) in &letter.headers {
            headers = headers.insert(Header { key, value: value.as_ref() });
        }
        let headers = ours.iter().fold(headers, OwnedHeaders::insert);
        let mut record = BaseRecord::to(&self.topic).payload(&letter.payload).headers(headers);
        if let Some(key) = &letter.key {
            record = record.key(key);
        }
        self.send(record)
    }

    fn send_without_bytes(&self, headers: OwnedHeaders, size: usize) -> io::Result<()> {
        tracing::error!(
            topic = self.topic,
            size,
            "a refused record is larger than the dead-letter topic takes, its letter goes without its bytes; raise the \
             topic's max.message.bytes"
        );
        let headers = headers.insert(Header { key: LEFT_OUT, value: Some(&size.to_string()) });
        self.send(BaseRecord::to(&self.topic).headers(headers))
    }

    fn send(&self, record: BaseRecord<'_, Vec<u8>, Vec<u8>>) -> io::Result<()> {
        let (mut record, since) = (record, Instant::now());
        loop {
            match self.producer.send(record) {
                Ok(()) => break,
                Err((KafkaError::MessageProduction(RDKafkaErrorCode::QueueFull), same)) => {
                    record = same;
                    self.wait(since)?;
                }
                Err((error, _)) => return Err(io::Error::other(refusal(&self.topic, &error))),
            }
        }
        self.producer.poll(Duration::ZERO);
        self.look()
    }

    fn wait(&self, since: Instant) -> io::Result<()> {
        self.status.beat(Heart::Intake);
        self.producer.poll(MOMENT);
        if since.elapsed() >= LONG {
            self.say_that_they_wait(since.elapsed());
        }
        if self.giving_up.load(Ordering::Relaxed) {
            return Err(io::Error::new(
                io::ErrorKind::Interrupted,
                "told to end while the broker is away; what was not confirmed is read again",
            ));
        }
        self.look()
    }

    fn say_that_they_wait(&self, waited: Duration) {
        let (letters, topic, seconds) = (self.producer.in_flight_count(), &self.topic, waited.as_secs());
        let detail = format!(
            "{letters} dead letters wait since {seconds}s for topic {topic} to take them, no items are taken meanwhile"
        );
        self.status.set_check(Check::DeadLetters, false, detail);
        if !self.told.replace(true) {
            tracing::warn!(topic, letters, "dead letters wait for their topic, no items are taken meanwhile");
        }
    }

    fn say_that_none_waits(&self) {
        if self.told.replace(false) {
            self.status.set_check(Check::DeadLetters, true, "none waits long");
            tracing::warn!(topic = self.topic, "the dead letters are taken, going on");
        }
    }

    fn look(&self) -> io::Result<()> {
        let failed = self.producer.context().refused().failed.clone();
        match failed {
            Some(reason) => Err(io::Error::other(reason)),
            None => match self.producer.client().fatal_error() {
                Some((_, reason)) => Err(io::Error::other(format!("topic {}: {reason}", self.topic))),
                None => Ok(()),
            },
        }
    }
}

impl DeadLetters for KafkaDeadLetters {
    /// Waits until the broker has confirmed every letter, however long it is away.
    fn sync(&mut self) -> io::Result<u64> {
        let since = Instant::now();
        loop {
            while self.producer.in_flight_count() > 0 {
                self.wait(since)?;
            }
            self.look()?;
            let too_large = std::mem::take(&mut self.producer.context().refused().too_large);
            if too_large.is_empty() {
                self.say_that_none_waits();
                return Ok(0);
            }
            for (headers, size) in too_large {
                self.send_without_bytes(headers, size)?;
            }
        }
    }
}
