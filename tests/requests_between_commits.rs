//! Whoever takes a partition over finds every request in the requests topic, even one that opened, closed and ran
//! between two commits.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod support;

use serde_json::{Value, json};
use support::{
    DAY, Folder,
    kafka::{Broker, Daemon, DaemonConfig, wait_until},
    live::{LIMIT, await_ready, days, item, published, record, replayed, states},
};

#[test]
fn a_request_that_opens_and_closes_between_two_commits_is_known_with_its_first_item() {
    let Some(broker) = Broker::shared() else { return };
    let folder = Folder::new();
    let items = broker.new_topic("items", 1);
    let event = folder.write_event("event.json", &days("DAY", 3));
    let sent: Vec<Value> =
        (0..120).map(|number| item("DAY", number, i64::try_from(number).unwrap() * DAY / 50)).collect();
    broker.produce(&items, sent.iter().map(record));
    // One commit, after the last item
    let config = DaemonConfig::new(broker.address(), &folder.path("one"))
        .source(&items, "auto")
        .event_file(&event)
        .set(&[
            "index.commit_interval=1h",
            "index.commit_items=120",
            "schedule.idle=1h",
            "kafka.consumer.session.timeout.ms=6000",
            "kafka.consumer.heartbeat.interval.ms=500",
        ]);
    let mut daemon = Daemon::start(&config);
    await_ready(&mut daemon);
    wait_until(LIMIT, "the days that are over are final", || {
        ["DAY/DAY-r0", "DAY/DAY-r1"]
            .iter()
            .all(|key| states(&broker, &config, key).last().is_some_and(|(state, _)| state == "final"))
    });
    daemon.kill();
    for (key, first) in [("DAY/DAY-r0", 0), ("DAY/DAY-r1", 50)] {
        let records = broker.read_all(&config.requests);
        let said: Vec<Value> = records
            .iter()
            .filter(|record| record.key() == key)
            .map(support::kafka::ReadRecord::json)
            .collect();
        let states: Vec<&str> = said.iter().map(|status| status["state"].as_str().unwrap()).collect();
        assert_eq!(states, ["open", "final"], "{key}");
        for status in &said {
            assert_eq!(status["first"][&items]["0"], json!(first), "{key}: {status}");
        }
    }

    // One that has nothing of its own goes on with the third day, and says nothing of the others again
    let other = config.instance(&folder.path("two")).set(&["schedule.idle=1s", "index.commit_interval=1s"]);
    let mut daemon = Daemon::start(&other);
    wait_until(LIMIT, "the third day is final", || {
        states(&broker, &config, "DAY/DAY-r2").last().is_some_and(|(state, _)| state == "final")
    });
    daemon.stop();
    for key in ["DAY/DAY-r0", "DAY/DAY-r1"] {
        assert_eq!(states(&broker, &config, key).len(), 2, "{key}");
    }
    let archive = folder.write_items("items.jsonl", &sent);
    let expected = replayed(&[&archive], &[&event], &folder.path("out"), &[]);
    assert_eq!(json!(published(&broker, &config)), json!(expected));
}
