//! The daemon's plain path on librdkafka's mock of a broker, which needs no Java: items in, nuggets and dead letters out,
//! and a restart that goes on where it was.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod support;

use serde_json::{Value, json};
use support::{
    Folder,
    kafka::{Broker, Daemon, DaemonConfig, Ended, Record},
    live::{assert_holds, await_committed, await_finished, days, item, published, record, replayed},
};

#[test]
fn items_become_the_nuggets_of_their_file_replay() {
    let broker = Broker::mock();
    let folder = Folder::new();
    let topic = broker.new_topic("items", 2);
    let event = folder.write_event("event.json", &days("A", 2));
    let config = DaemonConfig::new(broker.address(), &folder.path("data"))
        .source(&topic, "crisisfacts")
        .event_file(&event)
        // The mock keeps the place of a member that has left until its session ends
        .set(&[
            "index.commit_interval=1s",
            "schedule.idle=1s",
            "kafka.consumer.session.timeout.ms=3000",
            "kafka.consumer.heartbeat.interval.ms=500",
        ]);
    for topic in [&config.nuggets, &config.requests, &config.dead_letters] {
        broker.create_topic(topic, 1, &[]);
    }
    let all: Vec<Value> = (0..400).map(|n| item("A", n, 400 * i64::try_from(n).unwrap())).collect();
    let (first, second) = all.split_at(150);
    broker.produce(&topic, first.iter().map(record));
    broker.produce(&topic, [Record::new("A", "no record"), Record::tombstone("A")]);
    let long = config.clone().set(&["schedule.idle=1h"]);
    let mut daemon = Daemon::start(&long);
    await_committed(&mut daemon, &broker, &topic);
    assert_eq!(daemon.stop(), Ended::Code(0));
    broker.produce(&topic, second.iter().map(record));
    let mut daemon = Daemon::start(&config);
    await_finished(&mut daemon, &broker, &[&topic]);
    assert_eq!(daemon.stop(), Ended::Code(0));

    assert_holds(&config, "A", &["A-r0", "A-r1"], &all);
    let letters = broker.read_all(&config.dead_letters);
    assert_eq!(letters.len(), 1);
    assert_eq!(letters[0].header("error_code"), Some("bad_json"));
    let archive = folder.write_items("all.jsonl", &all);
    let expected = replayed(&[&archive], &[&event], &folder.path("out"), &[]);
    assert_eq!(json!(published(&broker, &config)), json!(expected));
}
