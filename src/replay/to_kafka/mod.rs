//! `nuggetd replay --to-kafka`: an archive into a topic.
//!
//! The records go as they stand in the archive, byte for byte, in the order of time, keyed by their event. The daemon
//! that reads the topic decodes and refuses; here records are decoded only to know their time and their event, so one
//! that cannot be read is sent all the same, without a key. Timestamps are the broker's: a record stamped with the time
//! of an old event would fall to the topic's retention at once.

mod deliveries;
mod pace;
mod sender;

use std::{
    collections::BTreeMap,
    path::PathBuf,
    sync::{Arc, atomic::AtomicBool},
    time::Duration,
};

pub use pace::Speed;
pub use sender::{Clock, Halt, WallClock};

use deliveries::{Place, State};
use pace::Pace;
use sender::{Circumstances, Sender};

use super::Progress;
use crate::{
    config::{Config, FeedConfig, Frame, SourceConfig},
    decoding::{Decoding, UnknownEvent, threads},
    feed::{
        ArchiveError, ArchiveFile, EventsError, Router, RouterError, event_files, open_archive, read_events,
    },
    kafka::{self, ClientError, Cluster, ClusterError},
    model::Event,
    stream::Stream,
};

/// How long an interrupted replay waits for the answers to what it has sent.
const SETTLE: Duration = Duration::from_secs(10);

/// What is replayed, and into which topic.
#[derive(Debug, Clone)]
pub struct ToKafka {
    /// Files, folders, patterns, `-`.
    pub archive: Vec<String>,
    /// Event files or folders.
    pub events: Vec<PathBuf>,
    /// The topic; without one, that of the configuration's first `[[source]]`.
    pub topic: Option<String>,
    /// Where the topic is missing, it is made with so many partitions.
    pub create: Option<i32>,
    /// Whether the events go to `topics.events` first.
    pub publish_events: bool,
    /// How fast.
    pub speed: Speed,
    /// How many records of the stream are left out, as an earlier replay has sent them.
    pub skip: u64,
    /// The longest wait for an answer from the brokers.
    pub patience: Duration,
    /// The configuration.
    pub config: Config,
}

/// Why a replay did not begin.
#[derive(Debug, thiserror::Error)]
pub enum ToKafkaError {
    /// The event files.
    #[error(transparent)]
    Events(#[from] EventsError),
    /// The archive.
    #[error(transparent)]
    Archive(#[from] ArchiveError),
    /// The events' keywords.
    #[error(transparent)]
    Router(#[from] RouterError),
    /// The configured event.
    #[error(transparent)]
    UnknownEvent(#[from] UnknownEvent),
    /// The configuration of the client.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// The brokers.
    #[error(transparent)]
    Cluster(#[from] ClusterError),
    /// No topic is named.
    #[error("the configuration has no [[source]]: name a topic by --topic")]
    NoTopic,
    /// The topic is one that the daemon writes to, or reads events from.
    #[error("topic {0} is {1}, which holds no items: name another by --topic")]
    NotForItems(String, &'static str),
    /// The events have no topic.
    #[error("topics.events is empty: the events have no topic to go to")]
    NoEventTopic,
    /// The topic's records have something around them that is not written here.
    #[error(
        "topic {0} is read with frame = \"confluent\", which a replay does not write: name another by --topic"
    )]
    Framed(String),
    /// There is no such topic.
    #[error("there is no topic {0} at {1}: make it, or let --create PARTITIONS make it")]
    NoSuchTopic(String, String),
    /// An event cannot be written.
    #[error("event {0}: {1}")]
    Event(String, serde_json::Error),
}

/// What went into the topic.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sent {
    /// The topic.
    pub topic: String,
    /// Records that the broker confirmed.
    pub records: u64,
    /// The same, by partition.
    pub partitions: BTreeMap<i32, u64>,
    /// Events that went to `topics.events`.
    pub events: u64,
    /// Records that the broker does not take for their size, each as `file: record N`.
    pub too_large: Vec<String>,
    /// Files that could not be read to their end, in words.
    pub faults: Vec<String>,
    /// What to leave out when the replay is to go on.
    pub next: u64,
    /// Why it stopped, where it did not reach the end.
    pub halt: Option<Halt>,
}

impl ToKafka {
    /// Sends the archive, until its end or until `stop` is set.
    pub fn run(
        &self,
        clock: &mut dyn Clock,
        stop: &AtomicBool,
        progress: &Progress,
    ) -> Result<Sent, ToKafkaError> {
        let (topic, feed) = self.destination()?;
        self.refuse_other_topics(&topic)?;
        kafka::check(&self.config.kafka)?;
        let events: Vec<Arc<Event>> = read_events(&self.events)?.into_iter().map(Arc::new).collect();
        let files = open_archive(&self.archive, &event_files(&self.events))?;
        let names: Vec<Event> = events.iter().map(|event| (**event).clone()).collect();
        // Raw: the items are not used, so nothing is cleaned
        let decoding = Decoding::configured(&feed, Router::new(&names)?, None, &events)?.keeping_bytes();
        self.prepare_topics(&topic)?;

        let mut sent = Sent {
            topic: topic.clone(),
            records: 0,
            partitions: BTreeMap::new(),
            events: 0,
            too_large: Vec::new(),
            faults: Vec::new(),
            next: self.skip,
            halt: None,
        };
        if self.publish_events {
            let around = Circumstances { clock: &mut *clock, stop, patience: self.patience };
            let (state, halt) = self.send_events(&events, around)?;
            sent.events = state.confirmed;
            if halt.is_some() {
                sent.halt = halt;
                return Ok(sent);
            }
        }
        progress.archive(files.iter().map(ArchiveFile::bytes).sum());
        let paths: Vec<String> = files.iter().map(|file| file.path().to_owned()).collect();
        let mut stream = Stream::new(files, &[], decoding, threads(&feed));
        let around = Circumstances { clock, stop, patience: self.patience };
        let mut sender = Sender::new(&self.config.kafka, &topic, self.skip, around)?;
        sent.halt = self.send_records(&mut stream, &mut sender, progress).err();
        if sent.halt.is_some() {
            sender.settle(SETTLE.min(self.patience));
        }
        progress.finish();
        let state = sender.into_state();
        sent.records = state.confirmed;
        sent.partitions = state.partitions;
        sent.next = state.next;
        sent.faults = stream.faults().to_vec();
        let in_words = |(file, number): Place| {
            format!("{}: record {number}", paths.get(file).map_or("?", String::as_str))
        };
        sent.too_large = state.too_large.into_iter().map(in_words).collect();
        Ok(sent)
    }

    /// The topic, and how its records are read.
    fn destination(&self) -> Result<(String, FeedConfig), ToKafkaError> {
        let sources = &self.config.source;
        let source: Option<&SourceConfig> = match &self.topic {
            Some(topic) => sources.iter().find(|source| source.topic == *topic),
            None => Some(sources.first().ok_or(ToKafkaError::NoTopic)?),
        };
        let Some(source) = source else {
            return Ok((self.topic.clone().unwrap_or_default(), self.config.feed.clone()));
        };
        if source.frame == Frame::Confluent {
            return Err(ToKafkaError::Framed(source.topic.clone()));
        }
        // As the daemon will read them, so that a record's key is the event that it will be given
        let feed = FeedConfig {
            format: source.format,
            event: source.event.clone(),
            threads: self.config.feed.threads,
        };
        Ok((source.topic.clone(), feed))
    }

    /// Items among what the daemon has said would be met again at each of its starts.
    fn refuse_other_topics(&self, topic: &str) -> Result<(), ToKafkaError> {
        let topics = &self.config.topics;
        for (key, used) in [
            ("topics.events", &topics.events),
            ("topics.nuggets", &topics.nuggets),
            ("topics.requests", &topics.requests),
            ("topics.dead_letters", &topics.dead_letters),
        ] {
            if topic == used {
                return Err(ToKafkaError::NotForItems(topic.to_owned(), key));
            }
        }
        Ok(())
    }

    fn prepare_topics(&self, topic: &str) -> Result<(), ToKafkaError> {
        let cluster = Cluster::connect(&self.config.kafka, "nuggetd-replay", self.patience)?;
        let topics = &self.config.topics;
        let replication = topics.replication;
        let missing = |name: &str| ToKafkaError::NoSuchTopic(name.to_owned(), cluster.brokers().join(", "));
        match (cluster.partitions(topic)?, self.create) {
            (None, None) => return Err(missing(topic)),
            (None, Some(partitions)) => cluster.create(topic, partitions, replication, false)?,
            (Some(there), Some(asked)) if usize::try_from(asked) != Ok(there) => {
                tracing::warn!(
                    topic,
                    partitions = there,
                    asked,
                    "the topic is there already and stays as it is"
                );
            }
            (Some(_), _) => {}
        }
        if !self.publish_events {
            return Ok(());
        }
        if topics.events.is_empty() {
            return Err(ToKafkaError::NoEventTopic);
        }
        if cluster.partitions(&topics.events)?.is_none() {
            if !topics.create && self.create.is_none() {
                return Err(missing(&topics.events));
            }
            // One partition: events are few, and every instance reads them all
            cluster.create(&topics.events, 1, replication, true)?;
        }
        Ok(())
    }

    fn send_events(
        &self,
        events: &[Arc<Event>],
        around: Circumstances<'_>,
    ) -> Result<(State, Option<Halt>), ToKafkaError> {
        let topic = &self.config.topics.events;
        let mut sender = Sender::new(&self.config.kafka, topic, 0, around)?;
        let mut halt = None;
        for event in events {
            let value = serde_json::to_vec(event.as_ref())
                .map_err(|error| ToKafkaError::Event(event.id.to_string(), error))?;
            halt = sender.send(Some(event.id.as_str()), &value, (0, 0)).err();
            if halt.is_some() {
                break;
            }
        }
        if halt.is_none() {
            halt = sender.finish().err();
        }
        let state = sender.into_state();
        if halt.is_none() && !state.too_large.is_empty() {
            halt = Some(Halt::Refused(format!("an event is larger than topic {topic} takes")));
        }
        Ok((state, halt))
    }

    fn send_records(
        &self,
        stream: &mut Stream,
        sender: &mut Sender<'_>,
        progress: &Progress,
    ) -> Result<(), Halt> {
        let mut pace = Pace::new(self.speed);
        let mut number = 0;
        while let Some(streamed) = stream.next() {
            number += 1;
            if number <= self.skip {
                continue;
            }
            let time = streamed.time();
            let due = pace.due(time, sender.now());
            sender.wait_until(due)?;
            let event = streamed.outcome.items.first().map(|prepared| prepared.item.event.as_str());
            sender.send(event, &streamed.bytes, (streamed.file, streamed.number))?;
            if self.speed != Speed::Max || number.is_multiple_of(256) {
                progress.at(number, stream.packed_read(), time);
            }
        }
        if number <= self.skip && self.skip > 0 {
            tracing::warn!(skip = self.skip, records = number, "all records of the archive are left out");
        }
        sender.finish()
    }
}
