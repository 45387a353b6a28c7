//! The daemon decides as a file replay does, follows its events while running, and says in order what becomes of each
//! request.

#![allow(clippy::unwrap_used, clippy::panic, clippy::float_cmp, reason = "tests; counts are whole numbers")]

mod support;

use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use support::{
    DAY, Folder, START,
    kafka::{Broker, Client, Daemon, DaemonConfig, Ended, Record, topic, wait_until},
    live::{
        LIMIT, assert_holds, await_committed, await_finished, await_ready, days, item, published, record,
        replayed, shard, states, without_revisions,
    },
    nuggetd, real_data, root, tweet,
};

/// Sends archives into a topic.
fn replay_to_kafka(client: &Client, topic: &str, archives: &[&Path], events: &[&Path]) {
    let mut command = nuggetd();
    command.arg("replay").args(archives).arg("--to-kafka").arg("--topic").arg(topic);
    for path in events {
        command.arg("--events").arg(path);
    }
    command.arg("--set").arg(format!("kafka.brokers={}", client.address()));
    let ran = command.output().unwrap();
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
}

fn quick(config: DaemonConfig) -> DaemonConfig {
    config.set(&["schedule.idle=1s", "index.commit_interval=1s"])
}

/// What a daemon publishes of archives that were sent into a topic of so many partitions.
fn through_kafka(broker: &Broker, partitions: i32, archives: &[&Path], events: &[&Path]) -> (Value, Value) {
    let folder = Folder::new();
    let items = broker.new_topic("items", partitions);
    replay_to_kafka(broker, &items, archives, events);
    let mut config = quick(DaemonConfig::new(broker.address(), &folder.path("data")).source(&items, "auto"));
    for path in events {
        config = config.event_file(path);
    }
    let mut daemon = Daemon::start(&config);
    await_finished(&mut daemon, broker, &[&items]);
    daemon.stop();
    let expected = replayed(archives, events, &folder.path("out"), &[]);
    assert!(!expected.is_empty());
    (json!(published(broker, &config)), json!(expected))
}

#[test]
fn the_demo_through_kafka_gives_the_nuggets_of_its_file_replay() {
    let Some(broker) = Broker::shared() else { return };
    let (items, event) = (root().join("demo/items.jsonl"), root().join("demo/event.json"));
    let (published, expected) = through_kafka(&broker, 3, &[&items], &[&event]);
    assert_eq!(published, expected);
}

#[test]
fn real_archives_through_kafka_give_the_nuggets_of_their_file_replay() {
    let Some(broker) = Broker::shared() else { return };
    let Some(archives) = real_data("archives") else { return };
    let names = ["2012_Colorado_wildfires", "2012_Costa_Rica_earthquake", "2012_Philipinnes_floods"];
    let paths = |ending: &str| -> Vec<PathBuf> {
        names.iter().map(|name| archives.join("crisislex26").join(format!("{name}.{ending}"))).collect()
    };
    let (items, events) = (paths("jsonl.gz"), paths("event.json"));
    let items: Vec<&Path> = items.iter().map(PathBuf::as_path).collect();
    let events: Vec<&Path> = events.iter().map(PathBuf::as_path).collect();
    let (published, expected) = through_kafka(&broker, 4, &items, &events);
    assert_eq!(published, expected);
}

/// A tweet as Twitter's first interface gave it.
fn raw_tweet(number: usize, seconds: i64) -> Value {
    let item = item("RAW", number, seconds);
    let time = START + seconds;
    let hours = (time % DAY) / 3600;
    let day = 7 + (time - START) / DAY;
    json!({
        "created_at": format!("Thu Dec {day:02} {hours:02}:{:02}:{:02} +0000 2017", time % 3600 / 60, time % 60),
        "id_str": number.to_string(),
        "text": item["text"],
        "user": { "screen_name": item["source"]["user"]["screen_name"] },
    })
}

#[test]
fn topics_of_two_formats_give_the_nuggets_of_the_file_replays() {
    let Some(broker) = Broker::shared() else { return };
    let folder = Folder::new();
    let (plain, raw) = (broker.new_topic("items", 2), broker.new_topic("tweets", 2));
    let items: Vec<Value> = (0..400).map(|n| item("PLAIN", n, 400 * i64::try_from(n).unwrap())).collect();
    let tweets: Vec<Value> = (0..400).map(|n| raw_tweet(n, 400 * i64::try_from(n).unwrap())).collect();
    let events = [
        folder.write_event("plain.json", &days("PLAIN", 2)),
        folder.write_event("raw.json", &days("RAW", 2)),
    ];
    broker.produce(&plain, items.iter().map(record));
    broker.produce(&raw, tweets.iter().map(|tweet| Record::json("RAW", tweet)));
    let mut config =
        quick(DaemonConfig::new(broker.address(), &folder.path("data")).source(&plain, "crisisfacts"));
    config = config.source_with(json!({ "topic": raw, "format": "twitter-v1", "event": "RAW" }));
    config = config.event_file(&events[0]).event_file(&events[1]);
    let mut daemon = Daemon::start(&config);
    await_finished(&mut daemon, &broker, &[&plain, &raw]);
    daemon.stop();

    let archive = folder.write_items("plain.jsonl", &items);
    let mut expected = replayed(&[&archive], &[&events[0]], &folder.path("plain"), &[]);
    let archive = folder.write_items("raw.jsonl", &tweets);
    let flags = ["--set", "feed.format=twitter-v1", "--set", "feed.event=RAW"];
    let of_raw = replayed(&[&archive], &[&events[1]], &folder.path("raw"), &flags);
    assert!(!expected.is_empty() && !of_raw.is_empty());
    expected.extend(of_raw);
    assert_eq!(json!(published(&broker, &config)), json!(expected));
}

/// What the events check says.
fn said_of_events(daemon: &mut Daemon) -> String {
    let checks = daemon.state()["checks"].clone();
    let check = checks.as_array().unwrap().iter().find(|check| check["name"] == "events").cloned();
    check.unwrap()["detail"].as_str().unwrap().to_owned()
}

#[test]
fn an_event_whose_latest_record_is_bad_stays_as_it_was_over_a_restart() {
    let Some(broker) = Broker::shared() else { return };
    let folder = Folder::new();
    let items = broker.new_topic("items", 1);
    let config = quick(DaemonConfig::new(broker.address(), &folder.path("data")).source(&items, "auto"));
    let config = config.set(&["schedule.idle=1h"]);
    let (good, bad) = (topic("good"), topic("bad"));
    let of_one: Vec<Value> = (0..20).map(|number| item("ONE", number, 0)).collect();
    let (before, after) = of_one.split_at(10);

    broker.create_topic(&good, 1, &[("cleanup.policy", "compact")]);
    broker.produce(&good, [Record::json("ONE", &days("ONE", 1))]);
    broker.produce(&items, before.iter().map(record));
    let mut daemon = Daemon::start(&config.clone().event_topic(&good));
    await_committed(&mut daemon, &broker, &items);
    assert_eq!(daemon.stop(), Ended::Code(0));

    // What compaction leaves of a topic once the record that was good is gone; and an event that claims its request
    let mut claims = days("ONE", 1);
    (claims["eventID"], claims["title"], claims["dataset"]) = (json!("TWO"), json!("Two"), json!("two"));
    broker.create_topic(&bad, 1, &[("cleanup.policy", "compact")]);
    broker.produce(&bad, [Record::json("TWO", &claims), Record::new("ONE", "{{{")]);
    broker.produce(&items, after.iter().map(record));
    let mut daemon = Daemon::start(&config.clone().event_topic(&bad));
    await_committed(&mut daemon, &broker, &items);
    let said = said_of_events(&mut daemon);
    assert!(said.starts_with("1 events, 2 records refused, among them the latest of ONE, TWO"), "{said}");
    assert!(daemon.log().contains("which is also a request of event ONE"), "{}", daemon.log());
    assert_eq!(daemon.stop(), Ended::Code(0));
    assert_holds(&config, "ONE", &["ONE-r0"], &of_one);

    // Without its event the request is open for ever, and that is said
    let other = folder.write_event("other.json", &days("OTHER", 1));
    let mut daemon = Daemon::start(&config.event_file(&other));
    await_ready(&mut daemon);
    let said = said_of_events(&mut daemon);
    assert!(said.contains("no event describes") && said.ends_with(": ONE/ONE-r0"), "{said}");
    assert!(daemon.has_logged("open requests that no event describes"));
}

#[test]
fn events_come_change_and_end_while_the_daemon_runs() {
    let Some(broker) = Broker::shared() else { return };
    let folder = Folder::new();
    let (items, events) = (broker.new_topic("items", 2), topic("events"));
    broker.create_topic(&events, 1, &[("cleanup.policy", "compact")]);
    let config = quick(DaemonConfig::new(broker.address(), &folder.path("data")).source(&items, "auto"))
        .event_topic(&events)
        .set(&["schedule.idle=1h"]);
    let mut daemon = Daemon::start(&config);
    await_ready(&mut daemon);
    let send = |daemon: &mut Daemon, sent: &[Value]| {
        broker.produce(&items, sent.iter().map(record));
        await_committed(daemon, &broker, &items);
    };
    let of = |event: &str, numbers: std::ops::Range<usize>, seconds: i64| -> Vec<Value> {
        numbers.map(|n| item(event, n, seconds + i64::try_from(n).unwrap())).collect()
    };

    // Nobody knows any event yet
    send(&mut daemon, &of("ONE", 0..3, 0));
    assert_eq!(daemon.metric("nuggetd_dead_letters_total", &["code=\"unknown_event\""]), Some(3.0));

    broker.produce(&events, [Record::json("ONE", &days("ONE", 1)), Record::json("TWO", &days("TWO", 1))]);
    wait_until(LIMIT, "two events are known", || said_of_events(&mut daemon).starts_with("2 events, 0 "));
    let of_one = of("ONE", 10..40, 0);
    let of_two = of("TWO", 10..40, 0);
    send(&mut daemon, &of_one);
    send(&mut daemon, &of_two);
    // The second day is none of the event's yet
    send(&mut daemon, &of("ONE", 40..45, DAY));
    assert_eq!(daemon.metric("nuggetd_messages_total", &["outcome=\"outside\""]), Some(5.0));

    // A second day, with one question more; and records that describe no event
    let mut changed = days("ONE", 2);
    changed["queries"].as_array_mut().unwrap().push(
        json!({ "queryID": "boats", "query": "Whom did rescue teams reach by boat", "indicativeTerms": "rescue team boat" }),
    );
    let bad = [
        Record::json("ONE", &changed),
        Record::new("TWO", "no event"),
        Record::json("TWO", &days("OTHER", 1)),
        Record { key: Some(vec![0xff]), payload: Some(b"{}".to_vec()), ..Record::default() },
    ];
    broker.produce(&events, bad);
    wait_until(LIMIT, "bad events are refused", || said_of_events(&mut daemon).starts_with("2 events, 3 "));
    assert_eq!(daemon.metric("nuggetd_events_refused_total", &[]), Some(3.0));
    assert!(daemon.is_ready(), "what was known of the events stays");
    let of_second_day = of("ONE", 50..90, DAY + 4_000);
    send(&mut daemon, &of_second_day);
    let request =
        |key: &str| broker.latest_by_key(&config.requests).get(key).map(support::kafka::ReadRecord::json);
    wait_until(LIMIT, "the first day has closed", || {
        request("ONE/ONE-r0").is_some_and(|status| status["state"] == "final")
    });

    // One event ends: what is open of it is run, what still comes is outside
    broker.produce(&events, [Record::tombstone("TWO")]);
    wait_until(LIMIT, "the ended event's day has closed", || {
        request("TWO/TWO-r0").is_some_and(|status| status["state"] == "final")
    });
    send(&mut daemon, &of("TWO", 60..67, 7_000));
    assert_eq!(daemon.metric("nuggetd_messages_total", &["outcome=\"outside\""]), Some(12.0));
    assert_eq!(daemon.metric("nuggetd_dead_letters_total", &[]), Some(3.0));
    broker.produce(&events, [Record::tombstone("ONE")]);
    wait_until(LIMIT, "both days have closed", || {
        request("ONE/ONE-r1").is_some_and(|status| status["state"] == "final")
    });
    daemon.stop();

    assert_holds(&config, "ONE", &["ONE-r0"], &of_one);
    assert_holds(&config, "ONE", &["ONE-r1"], &of_second_day);
    assert_holds(&config, "TWO", &["TWO-r0"], &of_two);
    let asked = |request: &str| {
        let nuggets = published(&broker, &config).into_values();
        let of_request: Vec<Value> = nuggets.filter(|nugget| nugget["requestID"] == request).collect();
        assert!(!of_request.is_empty(), "no nuggets of {request}");
        of_request.iter().any(|nugget| nugget["informationNeeds"].to_string().contains("\"boats\""))
    };
    assert!(asked("ONE-r1"), "the new question is answered");
    assert!(!asked("TWO-r0"));

    // A restart knows from the topic what there was: nothing of an event that has ended is refused
    let mut daemon = Daemon::start(&config);
    await_ready(&mut daemon);
    send(&mut daemon, &of("TWO", 70..72, 7_000));
    assert_eq!(daemon.metric("nuggetd_messages_total", &["outcome=\"outside\""]), Some(2.0));
    daemon.stop();
}

#[test]
fn what_comes_late_makes_one_more_revision_and_takes_back_what_no_longer_stands() {
    let Some(broker) = Broker::shared() else { return };
    let folder = Folder::new();
    let items = broker.new_topic("items", 1);
    let event = folder.write_event("event.json", &days("LATE", 2));
    let settings = ["schedule.revise_late=true", "facts.nuggets=6"];
    let config = quick(DaemonConfig::new(broker.address(), &folder.path("data")).source(&items, "auto"))
        .event_file(&event)
        .set(&settings);
    let mut sent: Vec<Value> = (0..60).map(|n| item("LATE", n, 60 * i64::try_from(n).unwrap())).collect();
    broker.produce(&items, sent.iter().map(record));
    let mut daemon = Daemon::start(&config);
    await_committed(&mut daemon, &broker, &items);
    // The next day begins, and closes the first
    let next_day = item("LATE", 900, DAY + 4_000);
    broker.produce(&items, [record(&next_day)]);
    sent.push(next_day);
    await_finished(&mut daemon, &broker, &[&items]);
    assert_eq!(states(&broker, &config, "LATE/LATE-r0").last(), Some(&("final".to_owned(), Some(0))));
    let first = published(&broker, &config);

    // Many say again what was said, and something new
    let late: Vec<Value> = (0..40)
        .map(|n| {
            let text = match n % 2 {
                0 => format!("{} homes were destroyed in the whole valley, says the mayor", 4_000 + n / 8),
                _ => format!("The bridge to the shelter is closed, {} roads are flooded", 70 + n / 8),
            };
            tweet("LATE", 2_000 + n, START + 40_000 + i64::try_from(n).unwrap(), &format!("late{n}"), &text)
        })
        .collect();
    broker.produce(&items, late.iter().map(record));
    let is_revised = || states(&broker, &config, "LATE/LATE-r0").last().is_some_and(|last| last.1 >= Some(1));
    wait_until(LIMIT, "the day is revised", is_revised);
    await_finished(&mut daemon, &broker, &[&items]);
    // On a busy machine the late ones may come with a pause between them, which makes two revisions
    let revisions = daemon.metric("nuggetd_request_runs_total", &["outcome=\"revised\""]).unwrap();
    assert!((1.0..=2.0).contains(&revisions), "{revisions}");
    daemon.stop();

    let said = states(&broker, &config, "LATE/LATE-r0");
    let states_alone: Vec<&str> = said.iter().map(|(state, _)| state.as_str()).collect();
    assert_eq!(states_alone[..3], ["open", "final", "final"]);
    assert_eq!((said[1].1, said[2].1), (Some(0), Some(1)));
    let revised = published(&broker, &config);
    let records = broker.read_all(&config.nuggets);
    let withdrawn: Vec<&str> = records
        .iter()
        .filter(|record| record.payload.is_none())
        .map(support::kafka::ReadRecord::key)
        .collect();
    assert!(!withdrawn.is_empty(), "something no longer stands");
    for key in withdrawn {
        assert!(!revised.contains_key(key), "{key}");
        assert!(revisions > 1.0 || first.contains_key(key), "{key}");
    }
    sent.extend(late);
    let archive = folder.write_items("late.jsonl", &sent);
    let expected =
        replayed(&[&archive], &[&event], &folder.path("out"), &["--set", settings[0], "--set", settings[1]]);
    assert_eq!(json!(without_revisions(revised)), json!(without_revisions(expected)));
}

#[test]
fn an_open_request_is_refreshed_then_final() {
    let Some(broker) = Broker::shared() else { return };
    let folder = Folder::new();
    let items = broker.new_topic("items", 1);
    let event = folder.write_event("event.json", &days("DAY", 2));
    let config = quick(DaemonConfig::new(broker.address(), &folder.path("data")).source(&items, "auto"))
        .event_file(&event)
        .set(&["schedule.refresh=1s", "schedule.idle=1h", "facts.nuggets=5"]);
    let mut daemon = Daemon::start(&config);
    await_ready(&mut daemon);
    let mut sent = Vec::new();
    for batch in 0..3 {
        let more: Vec<Value> =
            (0..30).map(|n| item("DAY", 30 * batch + n, i64::try_from(300 * batch + n).unwrap())).collect();
        broker.produce(&items, more.iter().map(record));
        sent.extend(more);
        let runs = states(&broker, &config, "DAY/DAY-r0").len();
        wait_until(LIMIT, "the open request is run", || {
            states(&broker, &config, "DAY/DAY-r0").len() > runs.max(1)
        });
    }
    let closing = vec![item("DAY", 500, DAY + 5_000)];
    broker.produce(&items, closing.iter().map(record));
    sent.extend(closing);
    wait_until(LIMIT, "the request is final", || {
        states(&broker, &config, "DAY/DAY-r0").last().is_some_and(|(state, _)| state == "final")
    });
    daemon.stop();

    let said = states(&broker, &config, "DAY/DAY-r0");
    let (last, before) = said.split_last().unwrap();
    let (first, between) = before.split_first().unwrap();
    assert_eq!((first.0.as_str(), last.0.as_str()), ("open", "final"));
    assert!(between.len() >= 3 && between.iter().all(|(state, _)| state == "interim"), "{said:?}");
    let revisions: Vec<u64> = said.iter().filter_map(|(_, revision)| *revision).collect();
    assert!(revisions.windows(2).all(|pair| pair[0] < pair[1]), "{revisions:?}");
    assert_eq!(shard(&config, "DAY", "DAY-r0").len(), 90);
    let archive = folder.write_items("day.jsonl", &sent);
    let mut expected = replayed(&[&archive], &[&event], &folder.path("out"), &["--set", "facts.nuggets=5"]);
    expected.retain(|_, nugget| nugget["requestID"] == "DAY-r0");
    let mut stand = published(&broker, &config);
    stand.retain(|_, nugget| nugget["requestID"] == "DAY-r0");
    assert_eq!(json!(without_revisions(stand)), json!(without_revisions(expected)));
}
