//! What the compacted topics say of requests and nuggets: read whole at start, and again up to their end whenever
//! partitions come.

use std::{
    sync::{Arc, Mutex, PoisonError},
    thread,
    time::{Duration, Instant},
};

use rdkafka::{
    ClientConfig, Message, Offset, TopicPartitionList,
    consumer::{BaseConsumer, Consumer},
    error::KafkaError,
    message::BorrowedMessage,
};

use crate::{
    config::{KafkaConfig, TopicsConfig},
    kafka::{ClientError, LogContext, is_absence, reader_config},
    ledger::{Heard, Ledger, LedgerError, read_nugget_key},
    model::{Nugget, Offsets, RequestStatus},
};

/// How long a broker may take to answer a question about a partition.
const ANSWER: Duration = Duration::from_secs(10);
/// Records noted in one transaction.
const TOGETHER: usize = 500;

/// Why the topics could not be read to their end.
#[derive(Debug, thiserror::Error)]
pub enum MemoryError {
    /// The client's configuration.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// The ledger.
    #[error(transparent)]
    Ledger(#[from] LedgerError),
    /// The broker.
    #[error("topic {topic}: {source}")]
    Kafka {
        /// Which topic.
        topic: String,
        /// The client's reason.
        source: KafkaError,
    },
    /// It took too long.
    #[error("topic {0} could not be read to its end in time")]
    Late(String),
}

/// Reads the requests and nuggets topics into the ledger.
pub(super) struct Memory {
    kafka: KafkaConfig,
    client_id: String,
    topics: [String; 2],
    ledger: Arc<Mutex<Ledger>>,
    /// How far they are read.
    read: Offsets,
}

impl Memory {
    /// Forgets what was known; the first [`Self::catch_up`] reads all anew, since what was withdrawn long ago has left
    /// no trace.
    pub(super) fn new(
        kafka: &KafkaConfig,
        client_id: &str,
        topics: &TopicsConfig,
        ledger: Arc<Mutex<Ledger>>,
    ) -> Result<Self, LedgerError> {
        ledger.lock().unwrap_or_else(PoisonError::into_inner).forget_heard()?;
        Ok(Self {
            kafka: kafka.clone(),
            client_id: client_id.to_owned(),
            topics: [topics.nuggets.clone(), topics.requests.clone()],
            ledger,
            read: Offsets::default(),
        })
    }

    /// Reads up to what the topics hold now, and waits for transactions that are open now: they may be of whoever had
    /// our partitions before. `goes_on` is asked now and then.
    pub(super) fn catch_up(
        &mut self,
        limit: Duration,
        goes_on: &dyn Fn() -> bool,
    ) -> Result<(), MemoryError> {
        let until = Instant::now() + limit;
        for topic in self.topics.clone() {
            self.read_topic(&topic, until, goes_on).map_err(|failed| failed.of(&topic))?;
        }
        Ok(())
    }

    fn read_topic(&mut self, topic: &str, until: Instant, goes_on: &dyn Fn() -> bool) -> Result<(), Failed> {
        let committed = reader_config(&self.kafka, &self.client_id)?;
        let mut all = committed.clone();
        all.set("isolation.level", "read_uncommitted");
        let consumer = client(&committed)?;
        let any = client(&all)?;
        let metadata = consumer.fetch_metadata(Some(topic), ANSWER)?;
        let partitions: Vec<i32> = metadata
            .topics()
            .iter()
            .flat_map(|topic| topic.partitions().iter().map(rdkafka::metadata::MetadataPartition::id))
            .collect();
        for &partition in &partitions {
            let (_, end) = any.fetch_watermarks(topic, partition, ANSWER)?;
            while consumer.fetch_watermarks(topic, partition, ANSWER)?.1 < end {
                if !goes_on() || Instant::now() >= until {
                    return Err(Failed::Late);
                }
                thread::sleep(Duration::from_millis(100));
            }
        }
        self.read_to_end(&consumer, topic, &partitions, until, goes_on)
    }

    fn read_to_end(
        &mut self,
        consumer: &BaseConsumer<LogContext>,
        topic: &str,
        partitions: &[i32],
        until: Instant,
        goes_on: &dyn Fn() -> bool,
    ) -> Result<(), Failed> {
        let mut from = TopicPartitionList::new();
        for &partition in partitions {
            let (low, high) = consumer.fetch_watermarks(topic, partition, ANSWER)?;
            let next =
                self.read.get(topic, partition).and_then(|next| i64::try_from(next).ok()).unwrap_or(low);
            // A topic that was made anew is read anew
            let next = if next > high { low } else { next.max(low) };
            from.add_partition_offset(topic, partition, Offset::Offset(next))?;
        }
        consumer.assign(&from)?;
        let mut open = partitions.len();
        let mut heard = Vec::new();
        while open > 0 {
            if !goes_on() || Instant::now() >= until {
                return Err(Failed::Late);
            }
            match consumer.poll(Duration::from_millis(100)) {
                Some(Ok(message)) => {
                    let offset = u64::try_from(message.offset()).unwrap_or_default();
                    heard.extend(understand(&message));
                    self.read.set(topic, message.partition(), offset + 1);
                }
                // Of one topic alone the event says enough
                Some(Err(KafkaError::PartitionEOF(_))) => open -= 1,
                Some(Err(error)) if is_absence(&error) => {}
                Some(Err(error)) => {
                    tracing::warn!(topic, %error, "reading what is known failed, it is tried again");
                }
                None => {}
            }
            if heard.len() >= TOGETHER || open == 0 {
                self.ledger.lock().unwrap_or_else(PoisonError::into_inner).hear(&heard)?;
                heard.clear();
            }
        }
        Ok(())
    }
}

fn client(config: &ClientConfig) -> Result<BaseConsumer<LogContext>, Failed> {
    config.create_with_context(LogContext).map_err(|error| Failed::Client(error.into()))
}

/// A record's meaning; nothing where it is none of ours, which is logged.
fn understand(message: &BorrowedMessage<'_>) -> Option<Heard> {
    let key = message.key().and_then(|key| std::str::from_utf8(key).ok())?;
    let read = match (message.payload(), read_nugget_key(key)) {
        (None, Some((request, name))) => return Some(Heard::Withdrawn(request, name)),
        // Nobody withdraws a request; whoever does wants it forgotten
        (None, None) => return None,
        (Some(value), Some(_)) => {
            serde_json::from_slice::<Nugget>(value).map(|nugget| Heard::Nugget(Box::new(nugget)))
        }
        (Some(value), None) => {
            serde_json::from_slice::<RequestStatus>(value).map(|status| Heard::Request(Box::new(status)))
        }
    };
    match read {
        Ok(heard) => Some(heard),
        Err(error) => {
            tracing::warn!(topic = message.topic(), offset = message.offset(), key, %error, "a record cannot be understood, left out");
            None
        }
    }
}

enum Failed {
    Client(ClientError),
    Ledger(LedgerError),
    Kafka(KafkaError),
    Late,
}

impl Failed {
    fn of(self, topic: &str) -> MemoryError {
        match self {
            Self::Client(error) => error.into(),
            Self::Ledger(error) => error.into(),
            Self::Kafka(source) => MemoryError::Kafka { topic: topic.to_owned(), source },
            Self::Late => MemoryError::Late(topic.to_owned()),
        }
    }
}

impl From<ClientError> for Failed {
    fn from(error: ClientError) -> Self {
        Self::Client(error)
    }
}

impl From<LedgerError> for Failed {
    fn from(error: LedgerError) -> Self {
        Self::Ledger(error)
    }
}

impl From<KafkaError> for Failed {
    fn from(error: KafkaError) -> Self {
        Self::Kafka(error)
    }
}
