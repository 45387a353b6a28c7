//! The configuration: one documented struct for each section, every key with a default.
//!
//! Later wins: the file, then environment variables `NUGGETD__SECTION__KEY`, then `--set section.key=value`. An unknown
//! key is an error, and all problems are reported at once, each with where it was set.

mod daemon;
mod document;
mod overlay;

use std::{
    env, fs, io,
    path::{Path, PathBuf},
};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use daemon::{
    DeadLettersConfig, EventsConfig, Frame, HttpConfig, KafkaConfig, Properties, ShutdownConfig,
    SourceConfig, TopicsConfig, Unrouted,
};
pub use document::documented_default;
use overlay::Overlay;

use crate::{
    clean::DEFAULT_NEAR_THRESHOLD,
    facts::FactsConfig,
    feed::Format,
    model::{Bytes, Seconds},
    rank::RerankConfig,
    schedule::ScheduleConfig,
    search::SearchConfig,
};

const ENVIRONMENT_PREFIX: &str = "NUGGETD__";

/// Everything that can be configured.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// The folder of the daemon's state: shards and ledger. One process at a time.
    pub data_dir: PathBuf,
    /// The Kafka brokers, and how items are fetched from them.
    pub kafka: KafkaConfig,
    /// The topics that items come from.
    pub source: Vec<SourceConfig>,
    /// The topics besides those that items come from.
    pub topics: TopicsConfig,
    /// Which events there are, besides those of the event topic.
    pub events: EventsConfig,
    /// When a flood of refused records stops the intake.
    pub dead_letters: DeadLettersConfig,
    /// How records become items.
    pub feed: FeedConfig,
    /// How texts are compared for duplicates.
    pub clean: CleanConfig,
    /// How shards are written.
    pub index: IndexConfig,
    /// When requests run.
    pub schedule: ScheduleConfig,
    /// How items are retrieved for a query.
    pub search: SearchConfig,
    /// How retrieved items are reranked by a model.
    pub rerank: RerankConfig,
    /// How nuggets are made of retrieved items.
    pub facts: FactsConfig,
    /// The endpoints for metrics and health.
    pub http: HttpConfig,
    /// How the daemon ends.
    pub shutdown: ShutdownConfig,
    /// What is logged, to stderr.
    pub log: LogConfig,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            data_dir: PathBuf::from("data"),
            kafka: KafkaConfig::default(),
            source: Vec::new(),
            topics: TopicsConfig::default(),
            events: EventsConfig::default(),
            dead_letters: DeadLettersConfig::default(),
            feed: FeedConfig::default(),
            clean: CleanConfig::default(),
            index: IndexConfig::default(),
            schedule: ScheduleConfig::default(),
            search: SearchConfig::default(),
            rerank: RerankConfig::default(),
            facts: FactsConfig::default(),
            http: HttpConfig::default(),
            shutdown: ShutdownConfig::default(),
            log: LogConfig::default(),
        }
    }
}

/// How records become items; of a topic's records, its `[[source]]` says format and event.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct FeedConfig {
    /// The records' format: `auto` (told record by record), `crisisfacts`, `twitter-v1`, `twitter-v2`, `reddit`,
    /// `facebook` or `news`.
    pub format: Format,
    /// The event of records that name none; empty = told by the events' keywords.
    pub event: String,
    /// Threads that read, decode and clean; 0 = as many as the process may use.
    #[schemars(range(max = 256))]
    pub threads: usize,
}

impl Default for FeedConfig {
    fn default() -> Self {
        Self { format: Format::Auto, event: String::new(), threads: 0 }
    }
}

/// How texts are compared for duplicates.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct CleanConfig {
    /// Jaccard similarity of the word sets from which two items of a request are near duplicates; 1 = only items with
    /// the same words are.
    #[schemars(range(min = 0.3, max = 1))]
    pub near_threshold: f64,
}

impl Default for CleanConfig {
    fn default() -> Self {
        Self { near_threshold: DEFAULT_NEAR_THRESHOLD }
    }
}

/// How shards are written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct IndexConfig {
    /// Longest time between two commits; an item is searchable one commit after it came.
    pub commit_interval: Seconds,
    /// Most items between two commits.
    #[schemars(range(min = 1))]
    pub commit_items: u32,
    /// Most shards that are open for writing at once; more requests than that whose items alternate make it slow, since
    /// an opened shard reads what it holds.
    #[schemars(range(min = 1, max = 1_000))]
    pub open_shards: usize,
    /// Memory that one open shard may use before it writes to disk.
    pub writer_memory: Bytes,
    /// The daemon takes no more items while less than this is free on the disk of `data_dir`.
    pub least_free: Bytes,
}

impl Default for IndexConfig {
    fn default() -> Self {
        Self {
            commit_interval: Seconds(10),
            commit_items: 50_000,
            open_shards: 32,
            writer_memory: Bytes(24 * Bytes::MIB),
            least_free: Bytes(256 * Bytes::MIB),
        }
    }
}

/// What is logged, to stderr.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct LogConfig {
    /// `error`, `warn`, `info`, `debug`, `trace`, or directives such as `warn,nuggetd::feed=debug`.
    pub level: String,
    /// `auto` (pretty on a terminal, else JSON), `pretty` or `json`.
    pub format: LogFormat,
}

impl Default for LogConfig {
    fn default() -> Self {
        Self { level: "warn".to_owned(), format: LogFormat::Auto }
    }
}

/// How a log line is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    /// Pretty on a terminal, else JSON.
    Auto,
    /// For people.
    Pretty,
    /// One JSON object a line.
    Json,
}

/// Something wrong with the configuration, and where it was set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// `file:line`, `environment variable NAME` or `--set`.
    pub origin: String,
    /// What is wrong, with the key.
    pub message: String,
}

/// All problems of a configuration.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("configuration {path}: {source}")]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// The contents are wrong.
    #[error("{}", list(.0))]
    Wrong(Vec<Problem>),
}

fn list(problems: &[Problem]) -> String {
    let lines: Vec<String> =
        problems.iter().map(|problem| format!("{}: {}", problem.origin, problem.message)).collect();
    format!("configuration has {} problem(s)\n  {}", lines.len(), lines.join("\n  "))
}

impl Config {
    /// Reads the file where one is given, then the process's environment, then `settings` (`section.key=value`).
    pub fn load(file: Option<&Path>, settings: &[String]) -> Result<Self, ConfigError> {
        Self::load_with(
            file,
            env::vars_os().filter_map(|(key, value)| key.into_string().ok().zip(value.into_string().ok())),
            settings,
        )
    }

    /// [`Self::load`] with the environment passed in.
    pub fn load_with(
        file: Option<&Path>,
        environment: impl IntoIterator<Item = (String, String)>,
        settings: &[String],
    ) -> Result<Self, ConfigError> {
        let mut overlay = Overlay::new();
        if let Some(path) = file {
            let text = fs::read_to_string(path)
                .map_err(|source| ConfigError::Unreadable { path: path.into(), source })?;
            overlay.file(path, &text);
        }
        let mut variables: Vec<(String, String)> =
            environment.into_iter().filter(|(key, _)| key.starts_with(ENVIRONMENT_PREFIX)).collect();
        variables.sort();
        for (name, value) in variables {
            let key = name.strip_prefix(ENVIRONMENT_PREFIX).unwrap_or(&name);
            overlay.variable(&name, key, &value);
        }
        for setting in settings {
            overlay.setting(setting);
        }
        overlay.finish().map_err(ConfigError::Wrong)
    }

    /// What types alone cannot say, as (key, message).
    fn faults(&self) -> Vec<(&'static str, String)> {
        let mut faults = self.rerank.faults();
        let mut check = |holds: bool, key, message: &str| {
            if !holds {
                faults.push((key, message.to_owned()));
            }
        };
        check(
            (0.3..=1.0).contains(&self.clean.near_threshold),
            "clean.near_threshold",
            "must lie within 0.3 and 1",
        );
        check(self.index.commit_items >= 1, "index.commit_items", "must be at least 1");
        check(self.index.commit_interval.0 >= 1, "index.commit_interval", "must be at least 1s");
        check(
            (1..=1000).contains(&self.index.open_shards),
            "index.open_shards",
            "must lie within 1 and 1000",
        );
        check(
            (15 * Bytes::MIB..=2048 * Bytes::MIB).contains(&self.index.writer_memory.0),
            "index.writer_memory",
            "must lie within 15MiB and 2GiB",
        );
        check((1..=10_000).contains(&self.search.top), "search.top", "must lie within 1 and 10000");
        check(
            (1..=1000).contains(&self.search.feedback_items),
            "search.feedback_items",
            "must lie within 1 and 1000",
        );
        check(
            (1..=1000).contains(&self.search.feedback_terms),
            "search.feedback_terms",
            "must lie within 1 and 1000",
        );
        check((1..=10_000).contains(&self.facts.budget), "facts.budget", "must lie within 1 and 10000");
        check((1..=10_000).contains(&self.facts.documents), "facts.documents", "must lie within 1 and 10000");
        check((1..=10_000).contains(&self.facts.nuggets), "facts.nuggets", "must lie within 1 and 10000");
        check((0.05..=1.0).contains(&self.facts.lambda), "facts.lambda", "must lie within 0.05 and 1");
        check(
            (1..=10_000).contains(&self.facts.candidates),
            "facts.candidates",
            "must lie within 1 and 10000",
        );
        check(self.feed.threads <= 256, "feed.threads", "must be at most 256");
        check(
            (10..=1_000_000).contains(&self.dead_letters.window),
            "dead_letters.window",
            "must lie within 10 and 1000000",
        );
        check(
            (0.0..=1.0).contains(&self.dead_letters.most_share),
            "dead_letters.most_share",
            "must lie within 0 and 1",
        );
        check(self.kafka.queue_records >= 100, "kafka.queue_records", "must be at least 100");
        check(self.kafka.queue_bytes.0 >= Bytes::MIB, "kafka.queue_bytes", "must be at least 1MiB");
        check(!self.kafka.brokers.trim().is_empty(), "kafka.brokers", "must name a broker");
        check(!self.kafka.group.trim().is_empty(), "kafka.group", "must not be empty");
        check(self.schedule.idle.0 >= 1, "schedule.idle", "must be at least 1s");
        check((1..=64).contains(&self.schedule.workers), "schedule.workers", "must lie within 1 and 64");
        check(
            (-1..=100).contains(&self.topics.replication) && self.topics.replication != 0,
            "topics.replication",
            "must be -1 or lie within 1 and 100",
        );
        for (key, topic) in [
            ("topics.nuggets", &self.topics.nuggets),
            ("topics.requests", &self.topics.requests),
            ("topics.dead_letters", &self.topics.dead_letters),
        ] {
            check(is_topic(topic), key, "must be a topic's name: 1 to 249 of a-z, A-Z, 0-9, '.', '_', '-'");
        }
        check(
            self.topics.events.is_empty() || is_topic(&self.topics.events),
            "topics.events",
            "must be empty or a topic's name",
        );
        check(!self.data_dir.as_os_str().is_empty(), "data_dir", "must not be empty");
        if let Err(error) = self.http.listen.parse::<std::net::SocketAddr>() {
            faults
                .push(("http.listen", format!("{:?} is no address with a port: {error}", self.http.listen)));
        }
        faults.extend(self.topic_faults());
        faults.extend(self.source_faults());
        let event = &self.feed.event;
        if !event.is_empty()
            && let Err(error) = crate::model::EventId::new(event)
        {
            faults.push(("feed.event", error.to_string()));
        }
        if let Err(error) = self.log.level.parse::<tracing_subscriber::filter::EnvFilter>() {
            faults.push(("log.level", error.to_string()));
        }
        faults
    }

    /// Topics that have the name of one before them. What is read is never written to, and what is compacted holds
    /// nothing else.
    fn topic_faults(&self) -> Vec<(&'static str, String)> {
        let topics = &self.topics;
        let mut named: Vec<(&str, String)> = Vec::new();
        for source in &self.source {
            named.push((&source.topic, "the topic of a [[source]]".to_owned()));
        }
        let mut faults = Vec::new();
        for (key, topic) in [
            ("topics.events", &topics.events),
            ("topics.nuggets", &topics.nuggets),
            ("topics.requests", &topics.requests),
            ("topics.dead_letters", &topics.dead_letters),
        ] {
            if topic.is_empty() {
                continue;
            }
            if let Some((_, other)) = named.iter().find(|(other, _)| other == topic) {
                faults.push((
                    key,
                    format!("is {topic:?}, which is also {other}; each needs a topic of its own"),
                ));
            }
            named.push((topic, key.to_owned()));
        }
        faults
    }

    fn source_faults(&self) -> Vec<(&'static str, String)> {
        let mut faults = Vec::new();
        let mut used = Vec::new();
        for source in &self.source {
            if !is_topic(&source.topic) {
                faults.push(("source", format!("topic {:?} is no topic's name", source.topic)));
            }
            if used.contains(&&source.topic) {
                faults.push(("source", format!("topic {:?} is named twice", source.topic)));
            }
            used.push(&source.topic);
            if !source.event.is_empty()
                && let Err(error) = crate::model::EventId::new(&source.event)
            {
                faults.push(("source", format!("topic {:?}: event {error}", source.topic)));
            }
        }
        faults
    }
}

/// Whether Kafka takes this for a topic's name.
fn is_topic(name: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
    (1..=249).contains(&name.len()) && name.bytes().all(allowed) && name != "." && name != ".."
}

#[cfg(test)]
mod tests;
