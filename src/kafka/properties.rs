//! What may be said of librdkafka's properties: which are ours to set, which need TLS, and where values are read from.

use std::{env, fs};

/// The properties that nobody else may set, because something the daemon promises rests on them.
const OURS: &[(&str, &str)] = &[
    ("bootstrap.servers", "set kafka.brokers instead"),
    ("metadata.broker.list", "set kafka.brokers instead"),
    ("group.id", "set kafka.group instead"),
    ("group.instance.id", "set kafka.group_instance_id instead"),
    ("enable.auto.commit", POSITIONS),
    ("auto.commit.enable", POSITIONS),
    ("enable.auto.offset.store", POSITIONS),
    ("offset.store.method", POSITIONS),
    ("auto.offset.reset", "a position that the broker no longer has must be reported, not jumped over"),
    (
        "enable.partition.eof",
        "requests of an event that went quiet close when a partition is read to its end",
    ),
    ("isolation.level", "records of a transaction that was given up must not become items"),
    ("consume.callback.max.messages", CALLBACKS),
    ("enable.idempotence", WRITES),
    ("acks", WRITES),
    ("request.required.acks", WRITES),
    (
        "transactional.id",
        "it must be the instance's own; the broker refuses an older producer of the same name",
    ),
    ("dr_cb", CALLBACKS),
    ("dr_msg_cb", CALLBACKS),
    ("delivery.report.only.error", "every delivery must be confirmed"),
    ("enabled_events", CALLBACKS),
    ("log.queue", CALLBACKS),
    ("log_level", "set log.level instead, for example \"warn,librdkafka=debug\""),
    ("opaque", CALLBACKS),
    ("statistics.interval.ms", "the metrics are made of them"),
];

const POSITIONS: &str = "positions are kept beside the data and follow its commits";
const WRITES: &str = "what is sent must arrive once and be confirmed by all replicas";
const CALLBACKS: &str = "it belongs to the program, not to its configuration";

/// Why a property cannot be set, where it cannot.
pub(super) fn ours(name: &str) -> Option<&'static str> {
    OURS.iter().find(|(ours, _)| *ours == name).map(|(_, reason)| *reason)
}

/// Whether a property, with this value, asks for what only a build with TLS has.
pub(super) fn needs_tls(name: &str, value: &str) -> bool {
    match name {
        "security.protocol" => value.to_ascii_lowercase().contains("ssl"),
        "sasl.mechanism" | "sasl.mechanisms" => value.to_ascii_uppercase().starts_with("SCRAM"),
        _ => name.starts_with("ssl.") || name == "enable.ssl.certificate.verification",
    }
}

/// Why a file that a property names cannot be read, where it cannot: librdkafka would say that it failed, but not which
/// file it was.
pub(super) fn unreadable_file(name: &str, path: &str) -> Option<String> {
    let is_path = name.starts_with("ssl.") && name.ends_with(".location");
    // `probe` looks where systems have their certificates
    if !is_path || path.is_empty() || (name == "ssl.ca.location" && path == "probe") {
        return None;
    }
    fs::File::open(path).err().map(|error| format!("{path}: {error}"))
}

/// The value that a property has: what is written, or what the file or the variable holds that it names.
pub(super) fn resolve(written: &str) -> Result<String, String> {
    if let Some(path) = written.strip_prefix("file:") {
        let mut text = fs::read_to_string(path).map_err(|error| format!("file {path}: {error}"))?;
        // One line break: an editor puts it there, a second one somebody meant
        if text.ends_with('\n') {
            text.pop();
            if text.ends_with('\r') {
                text.pop();
            }
        }
        return Ok(text);
    }
    if let Some(name) = written.strip_prefix("env:") {
        return env::var(name).map_err(|error| format!("environment variable {name}: {error}"));
    }
    Ok(written.to_owned())
}

#[cfg(test)]
mod tests {
    use rdkafka::{ClientConfig, error::KafkaError};

    use super::*;

    #[test]
    fn what_is_ours_is_known_to_librdkafka_by_that_name() {
        for (name, _) in OURS {
            if let Err(error) = ClientConfig::new().set(*name, "").create_native_config() {
                let KafkaError::ClientConfig(_, reason, _, _) = error else { panic!("{name}: {error}") };
                assert!(!reason.starts_with("No such configuration"), "{reason}");
            }
        }
    }

    #[test]
    fn a_value_is_what_the_file_or_the_variable_holds_without_its_last_line_break() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("password");
        for (held, expected) in [("a b\n", "a b"), ("a\r\n", "a"), ("a\n\n", "a\n"), ("a", "a"), ("", "")] {
            fs::write(&path, held).unwrap();
            assert_eq!(resolve(&format!("file:{}", path.display())).unwrap(), expected);
        }
        assert_eq!(resolve("env:CARGO_PKG_NAME").unwrap(), "nuggetd");
        assert_eq!(resolve("plain").unwrap(), "plain");
    }

    #[test]
    fn a_certificate_that_cannot_be_read_is_named() {
        let message = unreadable_file("ssl.certificate.location", "/no/such.pem").unwrap();
        assert!(message.contains("/no/such.pem") && message.contains("No such file"), "{message}");
        assert_eq!(unreadable_file("ssl.ca.location", "probe"), None);
        assert_eq!(unreadable_file("ssl.ca.location", env!("CARGO_MANIFEST_DIR")), None);
        assert_eq!(unreadable_file("client.id", "/no/such.pem"), None);
    }

    #[test]
    fn a_missing_file_or_variable_is_named() {
        let message = resolve("file:/no/such/secret").unwrap_err();
        assert!(message.contains("/no/such/secret") && message.contains("No such file"), "{message}");
        let message = resolve("env:NO_SUCH_VARIABLE_HERE").unwrap_err();
        assert!(message.contains("NO_SUCH_VARIABLE_HERE"), "{message}");
    }
}
