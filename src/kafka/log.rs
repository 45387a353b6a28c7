//! librdkafka's own log lines and errors, as the daemon's.
//!
//! librdkafka reconnects and repeats by itself, and it leaves out of its lines what is secret. So what it calls an error
//! is only information here: whoever waits for the brokers says so once. An error is what no repetition will mend.

use rdkafka::{
    ClientContext,
    config::RDKafkaLogLevel,
    consumer::ConsumerContext,
    error::{KafkaError, RDKafkaErrorCode},
    producer::{DeliveryResult, ProducerContext},
};
use tracing::Level;

/// The name under which `log.level` sets what is shown of librdkafka, for example `warn,librdkafka=debug`.
const TARGET: &str = "librdkafka";

/// A client's context that logs and does nothing else.
#[derive(Debug, Clone, Copy, Default)]
pub struct LogContext;

impl ClientContext for LogContext {
    fn log(&self, level: RDKafkaLogLevel, facility: &str, line: &str) {
        log_line(level, facility, line);
    }

    fn error(&self, error: KafkaError, reason: &str) {
        log_error(&error, reason);
    }
}

impl ConsumerContext for LogContext {}

impl ProducerContext for LogContext {
    type DeliveryOpaque = ();

    fn delivery(&self, _: &DeliveryResult<'_>, (): ()) {}
}

/// Logs a line of librdkafka's; for contexts that do more than log.
pub fn log_line(level: RDKafkaLogLevel, facility: &str, line: &str) {
    match level {
        RDKafkaLogLevel::Emerg | RDKafkaLogLevel::Alert | RDKafkaLogLevel::Critical => {
            tracing::error!(target: TARGET, facility, "{line}");
        }
        // What it thinks of its configuration a person must know
        RDKafkaLogLevel::Warning if facility == "CONFWARN" => {
            tracing::warn!(target: TARGET, facility, "{line}");
        }
        RDKafkaLogLevel::Error
        | RDKafkaLogLevel::Warning
        | RDKafkaLogLevel::Notice
        | RDKafkaLogLevel::Info => tracing::info!(target: TARGET, facility, "{line}"),
        RDKafkaLogLevel::Debug => tracing::debug!(target: TARGET, facility, "{line}"),
    }
}

/// Logs an error that a client reports about itself; for contexts that do more than log.
pub fn log_error(error: &KafkaError, reason: &str) {
    let code = error.rdkafka_error_code();
    if code == Some(RDKafkaErrorCode::PartitionEOF) {
        // No error: whoever asked to be told is told
        return;
    }
    if code.is_some_and(|code| LASTING.contains(&code)) {
        tracing::error!(target: TARGET, ?code, "{reason}");
    } else {
        tracing::info!(target: TARGET, ?code, "{reason}");
    }
}

/// Whether an error says only that brokers are away.
pub fn is_absence(error: &KafkaError) -> bool {
    let code = error.rdkafka_error_code();
    code.is_some_and(|code| {
        [
            RDKafkaErrorCode::AllBrokersDown,
            RDKafkaErrorCode::BrokerTransportFailure,
            RDKafkaErrorCode::Resolve,
        ]
        .contains(&code)
    })
}

/// Why a topic did not take a record, in plain words.
pub fn refusal(topic: &str, error: &KafkaError) -> String {
    match error.rdkafka_error_code() {
        Some(
            RDKafkaErrorCode::UnknownPartition
            | RDKafkaErrorCode::UnknownTopic
            | RDKafkaErrorCode::UnknownTopicOrPartition,
        ) => format!("topic {topic} does not exist any more"),
        Some(RDKafkaErrorCode::MessageSizeTooLarge) => {
            format!("topic {topic}: a record is larger than its max.message.bytes")
        }
        Some(RDKafkaErrorCode::MessageTimedOut) => {
            format!("topic {topic}: no broker has confirmed it in time")
        }
        Some(code) => format!("topic {topic}: {code}"),
        None => format!("topic {topic}: {error}"),
    }
}

/// What no repetition will mend.
const LASTING: &[RDKafkaErrorCode] = &[
    RDKafkaErrorCode::Fatal,
    RDKafkaErrorCode::Authentication,
    RDKafkaErrorCode::SaslAuthenticationFailed,
    RDKafkaErrorCode::TopicAuthorizationFailed,
    RDKafkaErrorCode::GroupAuthorizationFailed,
    RDKafkaErrorCode::ClusterAuthorizationFailed,
];

/// How much librdkafka has to say, so that it does not make lines that nobody reads.
pub(super) fn level() -> RDKafkaLogLevel {
    if tracing::enabled!(target: TARGET, Level::DEBUG) {
        RDKafkaLogLevel::Debug
    } else if tracing::enabled!(target: TARGET, Level::INFO) {
        RDKafkaLogLevel::Info
    } else {
        RDKafkaLogLevel::Warning
    }
}
