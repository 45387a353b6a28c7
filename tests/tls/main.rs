//! A build with the feature `tls` takes TLS and SASL properties, and names the file that is wrong.
//!
//! Clients are made, which reads certificates and keys; no broker takes part.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]
#![cfg(feature = "tls")]

use std::path::{Path, PathBuf};

use nuggetd::{
    config::{Config, KafkaConfig},
    kafka,
};

fn file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/tls").join(name)
}

/// SASL over TLS, with the server's and the client's certificate; `further` goes over it.
fn kafka(secrets: &Path, mechanism: &str, further: &[&str]) -> KafkaConfig {
    std::fs::write(secrets.join("password"), "correct horse\n").unwrap();
    std::fs::write(secrets.join("key-password"), "open-sesame\n").unwrap();
    let certificate = file("ca.pem");
    let settings = [
        "security.protocol=SASL_SSL".to_owned(),
        format!("sasl.mechanism={mechanism}"),
        "sasl.username=nuggetd".to_owned(),
        format!("sasl.password=file:{}", secrets.join("password").display()),
        format!("ssl.ca.location={}", certificate.display()),
        format!("ssl.certificate.pem=file:{}", certificate.display()),
        format!("ssl.key.pem=file:{}", file("encrypted_key.pem").display()),
        format!("ssl.key.password=file:{}", secrets.join("key-password").display()),
    ];
    let settings = settings.iter().map(String::as_str).chain(further.iter().copied());
    let settings: Vec<String> = settings.map(|setting| format!("kafka.librdkafka.{setting}")).collect();
    Config::load_with(None, [], &settings).unwrap().kafka
}

#[test]
fn scram_over_tls_with_secrets_from_files_makes_clients() {
    let folder = tempfile::tempdir().unwrap();
    for mechanism in ["SCRAM-SHA-256", "SCRAM-SHA-512", "PLAIN", "OAUTHBEARER"] {
        kafka::check(&kafka(folder.path(), mechanism, &[]))
            .unwrap_or_else(|error| panic!("{mechanism}: {error}"));
    }
}

#[test]
fn a_wrong_certificate_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let message = |further: &str| {
        kafka::check(&kafka(folder.path(), "SCRAM-SHA-512", &[further])).unwrap_err().to_string()
    };
    let missing = message("ssl.ca.location=/no/such/ca.pem");
    assert!(missing.contains("ssl.ca.location") && missing.contains("/no/such/ca.pem"), "{missing}");
    let missing = message("ssl.key.pem=file:/no/such/key.pem");
    assert!(missing.contains("kafka.librdkafka.ssl.key.pem: file /no/such/key.pem"), "{missing}");
    let wrong = message("ssl.key.password=hunter2");
    assert!(wrong.contains("ssl.key.pem") && !wrong.contains("hunter2"), "{wrong}");
}
