//! What each kind of client is configured with: our defaults, then the operator's properties, then what must not be
//! otherwise.

use std::fmt;

use rdkafka::{ClientConfig, client::Client, error::KafkaError, types::RDKafkaType};

use super::{
    log::{LogContext, level},
    properties::{needs_tls, ours, resolve, unreadable_file},
};
use crate::config::{KafkaConfig, Properties};

/// One property that cannot be used as it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// The key in the configuration, for example `kafka.librdkafka.sasl.password`.
    pub key: String,
    /// What is wrong with it.
    pub message: String,
}

impl fmt::Display for Fault {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}: {}", self.key, self.message)
    }
}

/// Why no client can be made of the configuration.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ClientError {
    /// Properties, each with what is wrong.
    #[error("the Kafka configuration has {} problem(s)\n  {}", .0.len(), in_lines(.0))]
    Properties(Vec<Fault>),
    /// Each property is good by itself, but librdkafka does not take them together.
    #[error("no Kafka client can be made of kafka.librdkafka, kafka.consumer and kafka.producer: {0}")]
    Creation(String),
}

impl From<KafkaError> for ClientError {
    fn from(error: KafkaError) -> Self {
        match error {
            KafkaError::ClientCreation(reason) => Self::Creation(reason),
            // Its last part is the value, which may be a secret
            KafkaError::ClientConfig(_, reason, key, _) => Self::Creation(format!("{key}: {reason}")),
            error => Self::Creation(error.to_string()),
        }
    }
}

fn in_lines(faults: &[Fault]) -> String {
    faults.iter().map(Fault::to_string).collect::<Vec<_>>().join("\n  ")
}

/// Of a consumer that is a member of the group. Positions, pausing and what to do at a partition's end are up to it.
pub fn consumer_config(kafka: &KafkaConfig, client_id: &str) -> Result<ClientConfig, ClientError> {
    let mut config = configured(kafka, client_id, CONSUMER, Some(("kafka.consumer", &kafka.consumer)))?;
    config.set("group.id", &kafka.group);
    if !kafka.group_instance_id.is_empty() {
        config.set("group.instance.id", &kafka.group_instance_id);
    }
    Ok(config)
}

/// Of a consumer that reads given partitions and is no member of the group, as for the compacted topics.
pub fn reader_config(kafka: &KafkaConfig, client_id: &str) -> Result<ClientConfig, ClientError> {
    let mut config = configured(kafka, client_id, CONSUMER, Some(("kafka.consumer", &kafka.consumer)))?;
    // librdkafka wants a group's name even of a consumer that joins none
    config.set("group.id", format!("{}-reader", kafka.group));
    Ok(config)
}

/// Of a producer: idempotent, confirmed by all replicas, and patient. A record waits as long as the broker is away;
/// whoever cannot wait that long counts the time itself, or sets `message.timeout.ms`.
pub fn producer_config(kafka: &KafkaConfig, client_id: &str) -> Result<ClientConfig, ClientError> {
    configured(kafka, client_id, PRODUCER, Some(("kafka.producer", &kafka.producer)))
}

/// Of a client that asks about topics and makes them.
pub fn admin_config(kafka: &KafkaConfig, client_id: &str) -> Result<ClientConfig, ClientError> {
    configured(kafka, client_id, &[], None)
}

const EVERYWHERE: &[(&str, &str)] = &[
    // A topic whose name is misspelt must be missed, not made
    ("allow.auto.create.topics", "false"),
    ("topic.metadata.refresh.interval.ms", "60000"),
    ("statistics.interval.ms", "0"),
];

const CONSUMER: &[(&str, &str)] = &[
    ("enable.auto.commit", "false"),
    ("enable.auto.offset.store", "false"),
    ("auto.offset.reset", "error"),
    ("enable.partition.eof", "true"),
    ("isolation.level", "read_committed"),
    ("partition.assignment.strategy", "range"),
    // What librdkafka reads ahead, over all partitions: more would not be faster, and memory is bounded by it
    ("queued.max.messages.kbytes", "16384"),
    // librdkafka fetches no more for this long once that much is read ahead; its own 1000 is longer than the intake
    // takes for it, which then has nothing to do
    ("fetch.queue.backoff.ms", "10"),
];

const PRODUCER: &[(&str, &str)] = &[
    ("enable.idempotence", "true"),
    ("acks", "all"),
    ("compression.type", "zstd"),
    // As Java's producers choose: one event's records lie in one partition, whoever wrote them
    ("partitioner", "murmur2_random"),
    ("linger.ms", "5"),
    // For ever: a broker that is away for an hour costs nothing but time
    ("message.timeout.ms", "0"),
    ("queue.buffering.max.kbytes", "65536"),
    // The largest record goes alone (batch.size is less) and packed; whether it is too large the broker says
    ("message.max.bytes", "8388608"),
];

fn configured(
    kafka: &KafkaConfig,
    client_id: &str,
    defaults: &[(&str, &str)],
    own: Option<(&str, &Properties)>,
) -> Result<ClientConfig, ClientError> {
    let mut config = ClientConfig::new();
    config.set_log_level(level());
    for (name, value) in EVERYWHERE.iter().chain(defaults) {
        config.set(*name, *value);
    }
    config.set("bootstrap.servers", &kafka.brokers).set("client.id", client_id);
    let mut faults = Vec::new();
    let sections = [Some(("kafka.librdkafka", &kafka.librdkafka)), own];
    for (section, properties) in sections.into_iter().flatten() {
        for (name, written) in properties.iter() {
            match property(name, written) {
                Ok(value) => drop(config.set(name, value)),
                Err(message) => faults.push(Fault { key: format!("{section}.{name}"), message }),
            }
        }
    }
    if faults.is_empty() { Ok(config) } else { Err(ClientError::Properties(faults)) }
}

/// The value of one property, if librdkafka takes it.
fn property(name: &str, written: &str) -> Result<String, String> {
    if let Some(reason) = ours(name) {
        return Err(format!("cannot be set: {reason}"));
    }
    let value = resolve(written)?;
    if cfg!(not(feature = "tls")) && needs_tls(name, &value) {
        return Err("this build has no TLS: build with `cargo build --release --features tls`".to_owned());
    }
    if let Some(reason) = unreadable_file(name, &value) {
        return Err(reason);
    }
    match ClientConfig::new().set(name, &value).create_native_config() {
        Ok(_) => Ok(value),
        // Its last part is the value, which may be a secret
        Err(KafkaError::ClientConfig(_, reason, _, _)) => Err(reason),
        // A value with a zero byte inside
        Err(error) => Err(error.to_string()),
    }
}

/// Checks all that can be known without a broker: each property, and that a client of each kind can be made, which
/// reads certificates and keys.
pub fn check(kafka: &KafkaConfig) -> Result<(), ClientError> {
    let name = "nuggetd-check";
    let made = [consumer_config(kafka, name), producer_config(kafka, name), admin_config(kafka, name)];
    let mut faults: Vec<Fault> = Vec::new();
    let mut configs = Vec::new();
    for config in made {
        match config {
            Ok(config) => configs.push(config),
            Err(ClientError::Properties(found)) => {
                faults.extend(found.into_iter().filter(|fault| !faults.contains(fault)).collect::<Vec<_>>());
            }
            Err(error) => return Err(error),
        }
    }
    if !faults.is_empty() {
        return Err(ClientError::Properties(faults));
    }
    let kinds =
        [RDKafkaType::RD_KAFKA_CONSUMER, RDKafkaType::RD_KAFKA_PRODUCER, RDKafkaType::RD_KAFKA_PRODUCER];
    for (mut config, kind) in configs.into_iter().zip(kinds) {
        // Without an address it does not connect
        config.remove("bootstrap.servers");
        Client::new(&config, config.create_native_config()?, kind, LogContext)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;

    fn kafka(settings: &[&str]) -> KafkaConfig {
        let settings: Vec<String> = settings.iter().map(|setting| format!("kafka.{setting}")).collect();
        Config::load_with(None, [], &settings).unwrap().kafka
    }

    fn refused(settings: &[&str]) -> String {
        check(&kafka(settings)).unwrap_err().to_string()
    }

    #[test]
    fn the_defaults_make_clients() {
        check(&KafkaConfig::default()).unwrap();
        let kafka = kafka(&["group=g", "group_instance_id=one", "brokers=b:1"]);
        let consumer = consumer_config(&kafka, "me").unwrap();
        for (name, value) in [
            ("group.id", "g"),
            ("group.instance.id", "one"),
            ("bootstrap.servers", "b:1"),
            ("client.id", "me"),
            ("enable.auto.commit", "false"),
        ] {
            assert_eq!(consumer.get(name), Some(value));
        }
        assert_eq!(reader_config(&kafka, "me").unwrap().get("group.instance.id"), None);
        assert_eq!(producer_config(&kafka, "me").unwrap().get("enable.idempotence"), Some("true"));
        assert_eq!(admin_config(&kafka, "me").unwrap().get("group.id"), None);
    }

    #[test]
    fn a_section_of_its_own_wins_over_the_shared_one_and_both_over_our_defaults() {
        let kafka = kafka(&[
            "librdkafka.linger.ms=7",
            "producer.linger.ms=9",
            "librdkafka.topic.metadata.refresh.interval.ms=5000",
        ]);
        check(&kafka).unwrap();
        assert_eq!(producer_config(&kafka, "p").unwrap().get("linger.ms"), Some("9"));
        let consumer = consumer_config(&kafka, "c").unwrap();
        assert_eq!(consumer.get("topic.metadata.refresh.interval.ms"), Some("5000"));
    }

    #[test]
    fn all_faults_are_reported_at_once_each_with_its_key_and_reason() {
        let message = refused(&[
            "librdkafka.socket.timeout.ms=soon",
            "librdkafka.no.such.thing=1",
            "librdkafka.sasl.password=file:/no/such/secret",
            "consumer.enable.auto.commit=true",
            "producer.transactional.id=t",
            "producer.compression.type=rar",
        ]);
        for expected in [
            "6 problem(s)",
            "kafka.librdkafka.socket.timeout.ms: Invalid value",
            "kafka.librdkafka.no.such.thing: No such configuration property",
            "kafka.librdkafka.sasl.password: file /no/such/secret",
            "kafka.consumer.enable.auto.commit: cannot be set: positions are kept",
            "kafka.producer.transactional.id: cannot be set",
            "kafka.producer.compression.type: Invalid value \"rar\"",
        ] {
            assert!(message.contains(expected), "{expected:?} is not in\n{message}");
        }
    }

    #[test]
    fn properties_that_do_not_go_together_are_refused_before_any_broker_is_asked() {
        let message = refused(&["producer.max.in.flight.requests.per.connection=6"]);
        assert!(message.contains("max.in.flight"), "{message}");
        let message =
            refused(&["librdkafka.security.protocol=SASL_PLAINTEXT", "librdkafka.sasl.mechanism=DIGEST-MD5"]);
        assert!(message.contains("DIGEST-MD5"), "{message}");
    }

    #[test]
    #[cfg(not(feature = "tls"))]
    fn what_needs_tls_says_how_to_get_it() {
        let message = refused(&[
            "librdkafka.security.protocol=SASL_SSL",
            "librdkafka.ssl.ca.location=/etc/ca.pem",
            "librdkafka.sasl.mechanism=SCRAM-SHA-512",
        ]);
        assert_eq!(message.matches("cargo build --release --features tls").count(), 3, "{message}");
        // Neither do plain passwords
        check(&kafka(&[
            "librdkafka.security.protocol=SASL_PLAINTEXT",
            "librdkafka.sasl.mechanism=PLAIN",
            "librdkafka.sasl.username=a",
            "librdkafka.sasl.password=env:CARGO_PKG_NAME",
        ]))
        .unwrap();
    }

    #[test]
    fn a_secret_is_in_no_message() {
        // What a file holds may be taken for a property that it is not meant for
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("password");
        std::fs::write(&path, "hunter\0two").unwrap();
        let message = refused(&[&format!("librdkafka.sasl.password=file:{}", path.display())]);
        assert!(
            message.contains("kafka.librdkafka.sasl.password") && !message.contains("hunter"),
            "{message}"
        );
        let mut native = ClientConfig::new();
        let error = native.set("sasl.passwort", "hunter2").create_native_config().map(drop).unwrap_err();
        let message = ClientError::from(error).to_string();
        assert!(message.contains("sasl.passwort") && !message.contains("hunter2"), "{message}");
    }
}
