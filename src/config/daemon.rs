//! The sections that `nuggetd run` alone reads: the brokers, the topics, the endpoints.

use std::{collections::BTreeMap, fmt};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize, Serializer, ser::SerializeMap};

use crate::{
    feed::Format,
    model::{Bytes, Seconds},
};

/// The Kafka brokers, and how items are fetched from them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct KafkaConfig {
    /// Brokers to ask first, `host:port`, separated by commas.
    pub brokers: String,
    /// The consumer group. Instances of one group share the partitions, and so the events.
    pub group: String,
    /// A name for this instance that no other one of the group has. With it a restart causes no rebalance, as long as
    /// it takes less than `session.timeout.ms`. Empty = none.
    pub group_instance_id: String,
    /// Most records read but not yet taken. When full, partitions are paused while polling goes on.
    #[schemars(range(min = 100))]
    pub queue_records: u32,
    /// Most bytes of records read but not yet taken.
    pub queue_bytes: Bytes,
    /// Any librdkafka property, for consumers and producers. A value `file:PATH` is read from that file (without the
    /// line break at its end), `env:NAME` from that environment variable. TLS and SASL need a build with
    /// `--features tls`.
    pub librdkafka: Properties,
    /// librdkafka properties for consumers alone.
    pub consumer: Properties,
    /// librdkafka properties for producers alone.
    pub producer: Properties,
}

impl Default for KafkaConfig {
    fn default() -> Self {
        Self {
            brokers: "127.0.0.1:9092".to_owned(),
            group: "nuggetd".to_owned(),
            group_instance_id: String::new(),
            queue_records: 20_000,
            queue_bytes: Bytes(64 * Bytes::MIB),
            librdkafka: Properties::default(),
            consumer: Properties::default(),
            producer: Properties::default(),
        }
    }
}

/// librdkafka properties by name. What is secret is never printed.
#[derive(Clone, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(from = "BTreeMap<String, Setting>")]
#[schemars(with = "BTreeMap<String, String>")]
pub struct Properties(BTreeMap<String, String>);

/// A property's value as people write it.
#[derive(Deserialize)]
#[serde(untagged)]
enum Setting {
    Text(String),
    Number(i64),
    Fraction(f64),
    Switch(bool),
}

impl From<BTreeMap<String, Setting>> for Properties {
    fn from(settings: BTreeMap<String, Setting>) -> Self {
        let text = |setting| match setting {
            Setting::Text(text) => text,
            Setting::Number(number) => number.to_string(),
            Setting::Fraction(fraction) => fraction.to_string(),
            Setting::Switch(switch) => switch.to_string(),
        };
        Self(settings.into_iter().map(|(name, setting)| (name, text(setting))).collect())
    }
}

impl Properties {
    /// The properties as written, in the order of their names.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// A property's value as written.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// Whether a librdkafka property holds what nobody should read.
    pub(crate) fn is_secret(name: &str) -> bool {
        ["password", "secret", "key.pem", "jaas", "token", "oauthbearer.config"]
            .iter()
            .any(|part| name.contains(part))
    }

    fn shown<'a>(name: &str, value: &'a str) -> &'a str {
        if Self::is_secret(name) && !refers_elsewhere(value) { "(hidden)" } else { value }
    }
}

fn refers_elsewhere(value: &str) -> bool {
    value.starts_with("file:") || value.starts_with("env:")
}

impl fmt::Debug for Properties {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_map().entries(self.iter().map(|(name, value)| (name, Self::shown(name, value)))).finish()
    }
}

impl Serialize for Properties {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for (name, value) in self.iter() {
            map.serialize_entry(name, Self::shown(name, value))?;
        }
        map.end()
    }
}

/// One topic that items come from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SourceConfig {
    /// The topic.
    pub topic: String,
    /// The records' format: `auto` (told record by record), `crisisfacts`, `twitter-v1`, `twitter-v2`, `reddit`,
    /// `facebook` or `news`.
    #[serde(default)]
    pub format: Format,
    /// The event of records that name none; empty = told by the events' keywords.
    #[serde(default)]
    pub event: String,
    /// What stands around a record: `none`, or `confluent` (a zero byte and a schema number of four bytes before it).
    #[serde(default)]
    pub frame: Frame,
    /// What becomes of a record that belongs to no known event: a `dead-letter`, or `skip` (counted, kept nowhere) for
    /// a topic that carries much that is of no event.
    #[serde(default)]
    pub unrouted: Unrouted,
}

/// What stands around a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Frame {
    /// Nothing.
    #[default]
    None,
    /// A zero byte and a schema number of four bytes, as Confluent's serialisers write them.
    Confluent,
}

/// What becomes of a record that belongs to no known event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Unrouted {
    /// A dead letter.
    #[default]
    DeadLetter,
    /// Counted, kept nowhere.
    Skip,
}

/// The topics besides those that items come from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct TopicsConfig {
    /// Event files, keyed by event id, compacted; a record without a value ends its event. Empty = events come from
    /// files alone.
    pub events: String,
    /// Nuggets, keyed `event/request/nuggetID`, compacted.
    pub nuggets: String,
    /// What became of each request, keyed `event/request`, compacted.
    pub requests: String,
    /// Refused records with their original bytes.
    pub dead_letters: String,
    /// Whether to make the topics above (not those of items) where they are missing.
    pub create: bool,
    /// Copies of each record in a topic that is made; -1 = as the broker is configured.
    #[schemars(range(min = -1, max = 100))]
    pub replication: i32,
}

impl Default for TopicsConfig {
    fn default() -> Self {
        Self {
            events: String::new(),
            nuggets: "nuggetd.nuggets".to_owned(),
            requests: "nuggetd.requests".to_owned(),
            dead_letters: "nuggetd.dead-letters".to_owned(),
            create: true,
            replication: -1,
        }
    }
}

/// Which events there are, besides those of the event topic.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct EventsConfig {
    /// Event files, folders of them, or patterns.
    pub files: Vec<String>,
}

/// When a flood of refused records stops the intake.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct DeadLettersConfig {
    /// Most refused records one after the other; 0 = any number.
    pub most_consecutive: u32,
    /// Largest share of refused records among the last `window`; 1 = any.
    #[schemars(range(min = 0, max = 1))]
    pub most_share: f64,
    /// The number of records over which the share is taken.
    #[schemars(range(min = 10))]
    pub window: u32,
}

impl Default for DeadLettersConfig {
    fn default() -> Self {
        Self { most_consecutive: 1_000, most_share: 0.5, window: 5_000 }
    }
}

/// The endpoints for metrics and health.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct HttpConfig {
    /// Address and port of `/metrics`, `/live`, `/ready` and `/state`; port 0 = any free one, which is logged.
    pub listen: String,
}

impl Default for HttpConfig {
    fn default() -> Self {
        Self { listen: "127.0.0.1:9184".to_owned() }
    }
}

/// How the daemon ends.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ShutdownConfig {
    /// How long after SIGTERM or SIGINT what is under way may take to end.
    pub grace: Seconds,
}

impl Default for ShutdownConfig {
    fn default() -> Self {
        Self { grace: Seconds(25) }
    }
}
