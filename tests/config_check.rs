//! `nuggetd config check`: every problem at once, before the daemon starts.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod support;

use std::{fs, time::Instant};

use rdkafka::types::RDKafkaRespErr;
use serde_json::json;
use support::{
    DAY, Folder, Ran, START, event,
    kafka::{Broker, DaemonConfig, topic},
    nuggetd,
};

fn check(folder: &Folder, config: &DaemonConfig, further: &[&str]) -> Ran {
    let path = folder.write("nuggetd.toml", config.toml());
    Ran::of(nuggetd().args(["config", "check", "--config"]).arg(path).args(further).output().unwrap())
}

fn event_file(folder: &Folder) -> std::path::PathBuf {
    let requests = [("r1", START, START + DAY - 1), ("r2", START + DAY, START + 2 * DAY - 1)];
    folder.write_event("events/A.json", &event("A", &requests))
}

#[test]
fn what_librdkafka_refuses_is_reported_without_a_broker() {
    let folder = Folder::new();
    let config = DaemonConfig::new("127.0.0.1:1", &folder.path("data"));
    let ran = check(&folder, &config, &[]).done();
    assert_eq!(ran.stdout, "the configuration is good\n");
    let faults = ["--set", "kafka.librdkafka.no.such.timeout.ms=1", "--set", "kafka.consumer.group.id=other"];
    let ran = check(&folder, &config, &faults);
    assert_eq!(ran.code, 64, "{}", ran.stderr);
    for expected in [
        "kafka.librdkafka.no.such.timeout.ms: No such configuration property",
        "kafka.consumer.group.id: cannot be set: set kafka.group instead",
    ] {
        assert!(ran.stderr.contains(expected), "{}", ran.stderr);
    }
}

#[test]
fn all_that_the_daemon_needs_is_looked_at() {
    let Some(broker) = Broker::shared() else { return };
    let folder = Folder::new();
    let items = broker.new_topic("items", 12);
    let config = DaemonConfig::new(broker.address(), &folder.path("data"))
        .source(&items, "crisisfacts")
        .event_file(&event_file(&folder));
    broker.create_topic(&config.nuggets, 1, &[("cleanup.policy", "compact")]);
    let ran = check(&folder, &config, &["--connect"]).done();
    for expected in [
        "the configuration is good".to_owned(),
        "event files: 1 event, 2 requests".to_owned(),
        "data (will be made): writable, ".to_owned(),
        broker.address().to_owned(),
        format!("group {}: no members yet", config.group),
        format!("source topic {items}: 12 partitions"),
        format!("topics.nuggets {}: 1 partition, cleanup.policy compact", config.nuggets),
        format!("topics.requests {}: will be made", config.requests),
        format!("topics.dead_letters {}: will be made", config.dead_letters),
    ] {
        assert!(ran.stdout.contains(&expected), "{expected:?} is not in\n{}", ran.stdout);
    }
    assert!(!folder.path("data").exists());
}

#[test]
fn several_problems_are_all_reported() {
    let Some(broker) = Broker::shared() else { return };
    let folder = Folder::new();
    let missing = topic("missing");
    let config = DaemonConfig::new(broker.address(), &folder.path("data"))
        .source(&missing, "crisisfacts")
        .event_file(&folder.write("events/broken.json", "{\"eventID\": 3}"));
    broker.create_topic(&config.requests, 1, &[]);
    let settings = ["--connect", "--set", "topics.create=false", "--set", "index.least_free=1000000GiB"];
    let ran = check(&folder, &config, &settings);
    assert_eq!(ran.code, 64, "{}", ran.stderr);
    for expected in [
        format!("source topic {missing} does not exist"),
        format!("topics.requests {} has cleanup.policy delete: set it to compact", config.requests),
        format!("topics.nuggets {} does not exist, and topics.create is false", config.nuggets),
        "broken.json".to_owned(),
        "less than index.least_free".to_owned(),
    ] {
        assert!(ran.stderr.contains(&expected), "{expected:?} is not in\n{}", ran.stderr);
    }
    // Asking for a topic must not make it
    let again = check(&folder, &config, &settings);
    assert!(again.stderr.contains(&format!("source topic {missing} does not exist")), "{}", again.stderr);
}

#[test]
fn the_daemon_does_not_start_on_a_topic_that_forgets() {
    let Some(broker) = Broker::shared() else { return };
    let folder = Folder::new();
    let items = broker.new_topic("items", 1);
    let config = DaemonConfig::new(broker.address(), &folder.path("data"))
        .source(&items, "crisisfacts")
        .event_file(&event_file(&folder));
    broker.create_topic(&config.nuggets, 1, &[("cleanup.policy", "compact,delete")]);
    let ran = Ran::of(config.command().output().unwrap());
    assert_eq!(ran.code, 64, "{}", ran.stderr);
    let expected =
        format!("topic {} has cleanup.policy compact,delete: what the daemon must", config.nuggets);
    assert!(ran.stderr.contains(&expected), "{}", ran.stderr);
}

#[test]
fn a_broker_that_does_not_tell_whether_a_topic_is_compacted_is_no_problem() {
    let broker = Broker::mock();
    let folder = Folder::new();
    let items = broker.new_topic("items", 2);
    let config = DaemonConfig::new(broker.address(), &folder.path("data"))
        .source(&items, "crisisfacts")
        .event_file(&event_file(&folder));
    broker.create_topic(&config.nuggets, 1, &[]);
    let missing = RDKafkaRespErr::RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART;
    for topic in [&config.requests, &config.dead_letters] {
        broker.create_topic(topic, 1, &[]);
        broker.mock_cluster().topic_error(topic, missing).unwrap();
    }
    let ran = check(&folder, &config, &["--connect", "--timeout", "3s"]).done();
    assert!(ran.stdout.contains("whether it is compacted is not told"), "{}", ran.stdout);
    assert!(ran.stdout.contains(&format!("{}: will be made", config.requests)), "{}", ran.stdout);
}

#[test]
fn a_broker_that_is_away_is_named_within_the_time_given() {
    let folder = Folder::new();
    let config = DaemonConfig::new("127.0.0.1:1", &folder.path("data"))
        .source("items", "crisisfacts")
        .event_file(&event_file(&folder));
    let begun = Instant::now();
    let ran = check(&folder, &config, &["--connect", "--timeout", "1s"]);
    assert_eq!(ran.code, 75, "{}", ran.stderr);
    assert!(begun.elapsed().as_secs() < 8, "{:?}", begun.elapsed());
    assert!(ran.stderr.contains("no answer from Kafka at 127.0.0.1:1 within 1s"), "{}", ran.stderr);
    assert!(ran.stderr.contains("Connection refused"), "{}", ran.stderr);
}

#[test]
fn event_files_with_faults_and_a_data_folder_that_is_a_file_are_reported() {
    let folder = Folder::new();
    let broken =
        folder.write("events/broken.json", json!({ "eventID": "A", "summaryRequests": 3 }).to_string());
    let config = DaemonConfig::new("127.0.0.1:1", &folder.path("data")).source("items", "crisisfacts");
    let config = config.event_file(&broken);
    let ran = check(&folder, &config, &["--connect", "--timeout", "1s"]);
    assert_eq!(ran.code, 1, "{}", ran.stderr);
    fs::write(folder.path("data"), "a file").unwrap();
    let ran = check(&folder, &config, &["--connect", "--timeout", "1s"]);
    assert_eq!(ran.code, 64, "{}", ran.stderr);
    assert!(ran.stderr.contains("data cannot be written to"), "{}", ran.stderr);
    assert!(ran.stderr.contains("broken.json"), "{}", ran.stderr);
}
