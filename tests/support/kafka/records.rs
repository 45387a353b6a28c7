//! Records into topics and out of them, and what else a client may ask of a broker.

use std::{
    collections::BTreeMap,
    future::Future,
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

use rdkafka::{
    ClientConfig, ClientContext, Message, Offset, TopicPartitionList,
    admin::{AdminClient, AdminOptions, NewTopic, TopicReplication},
    client::DefaultClientContext,
    consumer::{BaseConsumer, Consumer},
    error::{KafkaError, RDKafkaErrorCode},
    message::{BorrowedMessage, DeliveryResult, Header, Headers, OwnedHeaders},
    producer::{BaseProducer, BaseRecord, Producer as _, ProducerContext},
};
use serde_json::Value;

use super::{random_suffix, wait_until};

const LIMIT: Duration = Duration::from_secs(60);

/// Where a record lies in its topic: partition and offset.
pub(crate) type Position = (i32, i64);

/// A record to produce.
#[derive(Debug, Clone, Default)]
pub(crate) struct Record {
    pub(crate) key: Option<Vec<u8>>,
    /// None = a tombstone.
    pub(crate) payload: Option<Vec<u8>>,
    pub(crate) headers: Vec<(String, Option<Vec<u8>>)>,
    /// Milliseconds; None = now.
    pub(crate) timestamp: Option<i64>,
    /// None = by the key.
    pub(crate) partition: Option<i32>,
}

impl Record {
    pub(crate) fn new(key: &str, payload: impl Into<Vec<u8>>) -> Self {
        Self { key: Some(key.into()), payload: Some(payload.into()), ..Self::default() }
    }

    pub(crate) fn json(key: &str, value: &Value) -> Self {
        Self::new(key, value.to_string())
    }

    pub(crate) fn tombstone(key: &str) -> Self {
        Self { key: Some(key.into()), ..Self::default() }
    }

    pub(crate) fn in_partition(self, partition: i32) -> Self {
        Self { partition: Some(partition), ..self }
    }

    pub(crate) fn at(self, milliseconds: i64) -> Self {
        Self { timestamp: Some(milliseconds), ..self }
    }

    pub(crate) fn header(mut self, name: &str, value: impl Into<Vec<u8>>) -> Self {
        self.headers.push((name.to_owned(), Some(value.into())));
        self
    }
}

/// A record as it lies in a topic.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ReadRecord {
    pub(crate) partition: i32,
    pub(crate) offset: i64,
    pub(crate) key: Option<Vec<u8>>,
    pub(crate) payload: Option<Vec<u8>>,
    pub(crate) headers: Vec<(String, Option<Vec<u8>>)>,
    pub(crate) timestamp: Option<i64>,
}

impl ReadRecord {
    fn of(message: &BorrowedMessage<'_>) -> Self {
        let headers = message.headers().map(|headers| {
            let owned =
                headers.iter().map(|header| (header.key.to_owned(), header.value.map(<[u8]>::to_vec)));
            owned.collect()
        });
        Self {
            partition: message.partition(),
            offset: message.offset(),
            key: message.key().map(<[u8]>::to_vec),
            payload: message.payload().map(<[u8]>::to_vec),
            headers: headers.unwrap_or_default(),
            timestamp: message.timestamp().to_millis(),
        }
    }

    /// The key as text.
    pub(crate) fn key(&self) -> &str {
        std::str::from_utf8(self.key.as_deref().unwrap_or_else(|| panic!("no key: {self:?}"))).unwrap()
    }

    /// The payload as JSON.
    pub(crate) fn json(&self) -> Value {
        let payload = self.payload.as_deref().unwrap_or_else(|| panic!("a tombstone: {self:?}"));
        serde_json::from_slice(payload).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// A header's value as text.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let (_, value) = self.headers.iter().find(|(key, _)| key == name)?;
        Some(std::str::from_utf8(value.as_deref()?).unwrap())
    }
}

/// Which records of transactions are read.
#[derive(Clone, Copy)]
enum Isolation {
    Committed,
    Uncommitted,
}

/// A client of one broker. Cheap to copy, and can go to other threads.
#[derive(Debug, Clone)]
pub(crate) struct Client {
    address: String,
}

impl Client {
    pub(crate) fn new(address: &str) -> Self {
        Self { address: address.to_owned() }
    }

    /// `host:port`.
    pub(crate) fn address(&self) -> &str {
        &self.address
    }

    /// Produces these records in this order and waits until the broker has them all; gives where each lies.
    pub(crate) fn produce(&self, topic: &str, records: impl IntoIterator<Item = Record>) -> Vec<Position> {
        let mut producer = self.producer();
        for record in records {
            producer.send(topic, &record);
        }
        producer.flush()
    }

    /// The same, packed: a topic's limit holds for what goes over the wire.
    pub(crate) fn produce_packed(&self, topic: &str, records: impl IntoIterator<Item = Record>) {
        let mut producer = self.producer_with(&[("compression.type", "zstd")]);
        for record in records {
            producer.send(topic, &record);
        }
        producer.flush();
    }

    /// A producer for a stream of records.
    pub(crate) fn producer(&self) -> Producer {
        self.producer_with(&[])
    }

    fn producer_with(&self, settings: &[(&str, &str)]) -> Producer {
        let mut config = self.config();
        for (name, value) in settings {
            config.set(*name, *value);
        }
        config.set("enable.idempotence", "true").set("linger.ms", "5").set("message.max.bytes", "100000000");
        Producer { client: config.create_with_context(Deliveries::default()).unwrap(), sent: 0 }
    }

    /// All records of a topic from the beginning to where it ends now, as a reader with `read_committed` sees them.
    pub(crate) fn read_all(&self, topic: &str) -> Vec<ReadRecord> {
        self.read(topic, Isolation::Committed)
    }

    /// The same as a reader with `read_uncommitted` sees them.
    pub(crate) fn read_uncommitted(&self, topic: &str) -> Vec<ReadRecord> {
        self.read(topic, Isolation::Uncommitted)
    }

    /// What a compacted topic says: the last record of each key, keys whose last record is a tombstone left out.
    pub(crate) fn latest_by_key(&self, topic: &str) -> BTreeMap<String, ReadRecord> {
        let mut latest = BTreeMap::new();
        for record in self.read_all(topic) {
            if record.payload.is_none() {
                latest.remove(record.key());
            } else {
                latest.insert(record.key().to_owned(), record);
            }
        }
        latest
    }

    /// First offset and next offset of each partition.
    pub(crate) fn watermarks(&self, topic: &str) -> Vec<(i64, i64)> {
        watermarks(&self.reader(Isolation::Uncommitted), topic)
    }

    /// How many records a topic has got, those already removed too.
    pub(crate) fn end(&self, topic: &str) -> i64 {
        self.watermarks(topic).iter().map(|(_, high)| high).sum()
    }

    /// The group's committed offset of each partition; None = none yet.
    pub(crate) fn committed(&self, group: &str, topic: &str) -> Vec<Option<i64>> {
        let reader: BaseConsumer = self.config().set("group.id", group).create().unwrap();
        let mut partitions = TopicPartitionList::new();
        partitions.add_partition_range(topic, 0, i32::try_from(partition_count(&reader, topic)).unwrap() - 1);
        let offsets = reader.committed_offsets(partitions, LIMIT).unwrap();
        let offset = |offset| if let Offset::Offset(next) = offset { Some(next) } else { None };
        offsets.elements().iter().map(|partition| offset(partition.offset())).collect()
    }

    pub(crate) fn create_topic(&self, name: &str, partitions: i32, config: &[(&str, &str)]) {
        let mut topic = NewTopic::new(name, partitions, TopicReplication::Fixed(1));
        for &(key, value) in config {
            topic = topic.set(key, value);
        }
        let results = finish(self.admin().create_topics([&topic], &AdminOptions::new())).unwrap();
        assert_eq!(results, [Ok(name.to_owned())]);
        let reader = self.reader(Isolation::Uncommitted);
        wait_until(LIMIT, "the new topic has leaders", || {
            partition_count(&reader, name) == usize::try_from(partitions).unwrap()
                && (0..partitions).all(|partition| reader.fetch_watermarks(name, partition, LIMIT).is_ok())
        });
    }

    /// Removes a topic and waits until the broker knows it no longer.
    pub(crate) fn delete_topic(&self, name: &str) {
        let results = finish(self.admin().delete_topics(&[name], &AdminOptions::new())).unwrap();
        assert_eq!(results, [Ok(name.to_owned())]);
        let reader = self.reader(Isolation::Uncommitted);
        wait_until(LIMIT, "the topic is gone", || partition_count(&reader, name) == 0);
    }

    /// Removes what lies before `offset`, as retention does.
    pub(crate) fn delete_records_before(&self, topic: &str, partition: i32, offset: i64) {
        let mut partitions = TopicPartitionList::new();
        partitions.add_partition_offset(topic, partition, Offset::Offset(offset)).unwrap();
        let results = finish(self.admin().delete_records(&partitions, &AdminOptions::new())).unwrap();
        for result in results.elements() {
            result.error().unwrap();
            assert_eq!(result.offset(), Offset::Offset(offset));
        }
    }

    fn config(&self) -> ClientConfig {
        let mut config = ClientConfig::new();
        // A broker that starts again should be found at once
        config.set("bootstrap.servers", &self.address).set("reconnect.backoff.max.ms", "500");
        config.set("allow.auto.create.topics", "false");
        config
    }

    fn admin(&self) -> AdminClient<DefaultClientContext> {
        self.config().create().unwrap()
    }

    fn reader(&self, isolation: Isolation) -> BaseConsumer {
        let level = match isolation {
            Isolation::Committed => "read_committed",
            Isolation::Uncommitted => "read_uncommitted",
        };
        let mut config = self.config();
        config.set("group.id", format!("reader-{}", random_suffix())).set("enable.auto.commit", "false");
        config
            .set("isolation.level", level)
            .set("enable.partition.eof", "true")
            .set("fetch.wait.max.ms", "50");
        config.set("fetch.message.max.bytes", "100000000").set("auto.offset.reset", "error");
        config.create().unwrap()
    }

    fn read(&self, topic: &str, isolation: Isolation) -> Vec<ReadRecord> {
        let reader = self.reader(isolation);
        let mut partitions = TopicPartitionList::new();
        let mut ends = BTreeMap::new();
        for (partition, (low, high)) in (0..).zip(watermarks(&reader, topic)) {
            if low < high {
                partitions.add_partition_offset(topic, partition, Offset::Offset(low)).unwrap();
                ends.insert(partition, high);
            }
        }
        reader.assign(&partitions).unwrap();
        let mut records = Vec::new();
        let mut progress = Instant::now();
        while !ends.is_empty() {
            assert!(progress.elapsed() < LIMIT, "{topic}: no record for a minute, still open: {ends:?}");
            match reader.poll(Duration::from_millis(100)) {
                None => continue,
                // The end a reader can see: where a transaction is open, that lies before the high watermark
                Some(Err(KafkaError::PartitionEOF(partition))) => {
                    ends.remove(&partition);
                }
                Some(Err(error)) => panic!("{topic}: {error}"),
                Some(Ok(message)) => {
                    let Some(&end) = ends.get(&message.partition()) else { continue };
                    if message.offset() < end {
                        records.push(ReadRecord::of(&message));
                    }
                    if message.offset() + 1 >= end {
                        ends.remove(&message.partition());
                    }
                }
            }
            progress = Instant::now();
        }
        records.sort_by_key(|record| (record.partition, record.offset));
        records
    }
}

fn watermarks(reader: &BaseConsumer, topic: &str) -> Vec<(i64, i64)> {
    let count = partition_count(reader, topic);
    assert!(count > 0, "no topic {topic}");
    let partitions = 0..i32::try_from(count).unwrap();
    partitions.map(|partition| reader.fetch_watermarks(topic, partition, LIMIT).unwrap()).collect()
}

/// The number of partitions; 0 = there is no such topic.
fn partition_count(reader: &BaseConsumer, topic: &str) -> usize {
    let metadata = reader.fetch_metadata(Some(topic), LIMIT).unwrap();
    let found = metadata.topics().iter().find(|found| found.name() == topic && found.error().is_none());
    found.map_or(0, |found| found.partitions().len())
}

fn finish<T>(answer: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(answer)
}

/// An idempotent producer that knows where each record came to lie.
pub(crate) struct Producer {
    client: BaseProducer<Deliveries>,
    sent: usize,
}

impl Producer {
    /// Sends one record; waits while the queue is full.
    pub(crate) fn send(&mut self, topic: &str, record: &Record) {
        let mut headers = OwnedHeaders::new_with_capacity(record.headers.len());
        for (key, value) in &record.headers {
            headers = headers.insert(Header { key, value: value.as_deref() });
        }
        let mut outgoing = BaseRecord::<[u8], [u8], usize>::with_opaque_to(topic, self.sent);
        outgoing.key = record.key.as_deref();
        outgoing.payload = record.payload.as_deref();
        outgoing.partition = record.partition;
        outgoing.timestamp = record.timestamp;
        outgoing.headers = (!record.headers.is_empty()).then_some(headers);
        while let Err((error, returned)) = self.client.send(outgoing) {
            assert_eq!(error, KafkaError::MessageProduction(RDKafkaErrorCode::QueueFull), "{topic}");
            self.client.poll(Duration::from_millis(10));
            outgoing = returned;
        }
        self.sent += 1;
        if self.sent.is_multiple_of(1000) {
            self.client.poll(Duration::ZERO);
        }
    }

    /// Waits until the broker has all records; gives where each one since the last flush lies, in their order.
    pub(crate) fn flush(&mut self) -> Vec<Position> {
        self.client.flush(Duration::from_secs(300)).unwrap();
        let delivered = std::mem::take(&mut *self.client.context().lock());
        assert_eq!(delivered.len(), self.sent);
        self.sent = 0;
        delivered.into_values().collect()
    }
}

/// Where each record came to lie, by its number.
#[derive(Default)]
struct Deliveries(Mutex<BTreeMap<usize, Position>>);

impl Deliveries {
    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<usize, Position>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ClientContext for Deliveries {}

impl ProducerContext for Deliveries {
    type DeliveryOpaque = usize;

    fn delivery(&self, result: &DeliveryResult<'_>, number: usize) {
        match result {
            Ok(message) => self.lock().insert(number, (message.partition(), message.offset())),
            Err((error, _)) => panic!("record {number} was not delivered: {error}"),
        };
    }
}
