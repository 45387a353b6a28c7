//! What the brokers say about themselves and their topics, for those who ask before they work. Every question is
//! answered or given up within the time it was given.

use std::{
    fmt,
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

use rdkafka::{
    ClientContext,
    admin::{AdminClient, AdminOptions, NewTopic, ResourceSpecifier, TopicReplication},
    config::RDKafkaLogLevel,
    error::{KafkaError, RDKafkaErrorCode},
    producer::{BaseProducer, DeliveryResult, Producer, ProducerContext},
    types::RDKafkaRespErr,
};

use super::{ClientError, LogContext, admin_config, log_error, log_line};
use crate::config::KafkaConfig;

/// How often one asks again for what is not there yet.
const AGAIN: Duration = Duration::from_millis(100);
/// How long a broker may take to tell how a topic is configured.
const TELLS: Duration = Duration::from_secs(3);

/// Why the brokers did not answer as they should.
#[derive(Debug, thiserror::Error)]
pub enum ClusterError {
    /// The configuration.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// No broker could be reached, or none answered in time.
    #[error("no answer from Kafka at {brokers} within {}s{reason}", .patience.as_secs_f64())]
    Away {
        /// The addresses.
        brokers: String,
        /// How long one has waited.
        patience: Duration,
        /// What librdkafka said last, after a colon; empty where it said nothing.
        reason: String,
    },
    /// The broker said no.
    #[error("{asked}: {reason}")]
    Refused {
        /// What was asked.
        asked: String,
        /// The broker's reason.
        reason: String,
    },
    /// No thread or socket could be had for asking.
    #[error("asking Kafka: {0}")]
    Io(#[from] std::io::Error),
}

/// A connection to the brokers.
pub struct Cluster {
    client: BaseProducer<LastReason>,
    admin: AdminClient<LogContext>,
    addresses: String,
    patience: Duration,
    /// The brokers that answered, `host:port`.
    brokers: Vec<String>,
}

/// The consumer group, as far as the brokers know it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Group {
    /// `Stable`, `Empty`, …
    pub state: String,
    /// How many members it has.
    pub members: usize,
}

impl Cluster {
    /// Connects; every question is given up after `patience`.
    pub fn connect(kafka: &KafkaConfig, client_id: &str, patience: Duration) -> Result<Self, ClusterError> {
        let config = admin_config(kafka, client_id)?;
        let client: BaseProducer<LastReason> =
            config.create_with_context(LastReason::default()).map_err(ClientError::from)?;
        let admin = config.create_with_context(LogContext).map_err(ClientError::from)?;
        let addresses = kafka.brokers.clone();
        let mut cluster = Self { client, admin, addresses, patience, brokers: Vec::new() };
        let metadata =
            cluster.client.client().fetch_metadata(None, patience).map_err(|error| cluster.away(&error))?;
        cluster.brokers =
            metadata.brokers().iter().map(|broker| format!("{}:{}", broker.host(), broker.port())).collect();
        Ok(cluster)
    }

    /// The brokers, `host:port`.
    pub fn brokers(&self) -> &[String] {
        &self.brokers
    }

    /// The cluster's own name.
    pub fn id(&self) -> Option<String> {
        self.client.client().fetch_cluster_id(self.patience)
    }

    /// How many partitions a topic has; nothing where there is no such topic.
    pub fn partitions(&self, topic: &str) -> Result<Option<usize>, ClusterError> {
        let metadata = self
            .client
            .client()
            .fetch_metadata(Some(topic), self.patience)
            .map_err(|error| self.away(&error))?;
        let Some(found) = metadata.topics().first() else { return Ok(None) };
        match found.error() {
            None => Ok(Some(found.partitions().len())),
            Some(
                RDKafkaRespErr::RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART
                | RDKafkaRespErr::RD_KAFKA_RESP_ERR__UNKNOWN_TOPIC,
            ) => Ok(None),
            Some(error) => Err(refused(format!("topic {topic}"), &RDKafkaErrorCode::from(error))),
        }
    }

    /// A topic's `cleanup.policy`, for example `delete` or `compact`.
    pub fn cleanup_policy(&self, topic: &str) -> Result<String, ClusterError> {
        let asked = || format!("cleanup.policy of topic {topic}");
        let topics = [ResourceSpecifier::Topic(topic)];
        // A broker that does not know the question leaves it unanswered
        let options = AdminOptions::new().request_timeout(Some(self.patience.min(TELLS)));
        let described = wait(self.admin.describe_configs(&topics, &options))?;
        let described = described.map_err(|error| refused(asked(), &error))?;
        let found = described.into_iter().next().ok_or_else(|| refused(asked(), &"no answer"))?;
        let found = found.map_err(|error| refused(asked(), &error))?;
        let policy = found.get("cleanup.policy").and_then(|entry| entry.value.clone());
        policy.ok_or_else(|| refused(asked(), &"not told"))
    }

    /// The consumer group; nothing where the brokers do not know it.
    pub fn group(&self, name: &str) -> Result<Option<Group>, ClusterError> {
        let groups = self.client.client().fetch_group_list(Some(name), self.patience);
        let groups = groups.map_err(|error| refused(format!("group {name}"), &error))?;
        // `Dead` is also what brokers call a group that they have never heard of
        let found = groups.groups().iter().find(|group| group.name() == name && group.state() != "Dead");
        Ok(found.map(|group| Group { state: group.state().to_owned(), members: group.members().len() }))
    }

    /// Makes a topic and waits until it can be written to. One that is there already stays as it is.
    pub fn create(
        &self,
        topic: &str,
        partitions: i32,
        replication: i32,
        compacted: bool,
    ) -> Result<(), ClusterError> {
        let asked = || format!("making topic {topic}");
        let policy = if compacted { "compact" } else { "delete" };
        let new = NewTopic::new(topic, partitions, TopicReplication::Fixed(replication))
            .set("cleanup.policy", policy);
        let made = wait(self.admin.create_topics([&new], &self.options()))?;
        for result in made.map_err(|error| refused(asked(), &error))? {
            match result {
                Ok(_) | Err((_, RDKafkaErrorCode::TopicAlreadyExists)) => {}
                Err((_, error)) => return Err(refused(asked(), &error)),
            }
        }
        let begun = Instant::now();
        while self.partitions(topic).ok().flatten().is_none_or(|found| found == 0) {
            if begun.elapsed() > self.patience {
                return Err(refused(asked(), &"it was made but is not there yet"));
            }
            std::thread::sleep(AGAIN);
        }
        Ok(())
    }

    fn options(&self) -> AdminOptions {
        AdminOptions::new().request_timeout(Some(self.patience)).operation_timeout(Some(self.patience))
    }

    /// What the client has to say is said while it is polled, one thing a poll, lines of its log among it.
    fn last_reason(&self) -> Option<String> {
        for _ in 0..50 {
            self.client.poll(Duration::from_millis(5));
            let last = self.client.context().0.lock().unwrap_or_else(PoisonError::into_inner).take();
            if last.is_some() {
                return last;
            }
        }
        None
    }

    fn away(&self, error: &KafkaError) -> ClusterError {
        let reason = self.last_reason().unwrap_or_else(|| error.to_string());
        let brokers = self.addresses.clone();
        ClusterError::Away { brokers, patience: self.patience, reason: format!(": {reason}") }
    }
}

/// Why a topic with this `cleanup.policy` does not keep the last record of each key for ever; nothing where it does.
pub fn forgets(policy: &str) -> Option<&'static str> {
    let has = |name: &str| policy.split(',').any(|part| part.trim() == name);
    if !has("compact") {
        Some("set it to compact")
    } else if has("delete") {
        Some("what the daemon must remember is deleted by age; set it to compact")
    } else {
        None
    }
}

fn refused(asked: String, reason: &impl fmt::Display) -> ClusterError {
    ClusterError::Refused { asked, reason: reason.to_string() }
}

/// Waits for an answer. Whoever asks is no task of a runtime.
fn wait<T>(answer: impl Future<Output = T>) -> Result<T, std::io::Error> {
    Ok(tokio::runtime::Builder::new_current_thread().build()?.block_on(answer))
}

/// Remembers what went wrong last, since a question that was not answered does not say why.
#[derive(Default)]
struct LastReason(Mutex<Option<String>>);

impl ClientContext for LastReason {
    fn log(&self, level: RDKafkaLogLevel, facility: &str, line: &str) {
        log_line(level, facility, line);
    }

    fn error(&self, error: KafkaError, reason: &str) {
        log_error(&error, reason);
        let is_summary = error.rdkafka_error_code() == Some(RDKafkaErrorCode::AllBrokersDown);
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if !is_summary || last.is_none() {
            *last = Some(reason.to_owned());
        }
    }
}

impl ProducerContext for LastReason {
    type DeliveryOpaque = ();

    fn delivery(&self, _: &DeliveryResult<'_>, (): ()) {}
}
