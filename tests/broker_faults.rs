//! What brokers do to their readers: they go away and come back, lose topics, lose records, are others than before.
//! Nothing is lost in silence, and where a person must decide, the daemon stops and says how to go on.

#![allow(clippy::unwrap_used, clippy::panic, clippy::float_cmp, reason = "tests; counts are whole numbers")]

mod support;

use std::{
    net::TcpListener,
    thread,
    time::{Duration, Instant},
};

use serde_json::{Value, json};
use support::{
    Folder, Ran,
    kafka::{Broker, Client, Daemon, DaemonConfig, Ended, Record, wait_until},
    live::{
        LIMIT, assert_holds, await_committed, await_finished, await_logged, await_ready, days, item,
        published, record, replayed,
    },
    nuggetd,
};

const REQUESTS: [&str; 2] = ["A-r0", "A-r1"];

fn configured(broker: &Client, folder: &Folder, topic: &str) -> DaemonConfig {
    let event = folder.write_event("event.json", &days("A", 2));
    let config = DaemonConfig::new(broker.address(), &folder.path("data")).source(topic, "crisisfacts");
    config.event_file(&event).set(&["index.commit_interval=1s", "schedule.idle=1h"])
}

/// Items with these numbers, one every 40 seconds.
fn items(numbers: std::ops::Range<usize>) -> Vec<Value> {
    numbers.map(|number| item("A", number, 40 * i64::try_from(number).unwrap())).collect()
}

/// How it ended, and the error that it said last.
fn error_of(daemon: &mut Daemon) -> (Ended, String) {
    let ended = daemon.wait(LIMIT);
    let log = daemon.log();
    let error = log.lines().rfind(|line| line.starts_with("error: "));
    (ended, error.unwrap_or_else(|| panic!("no error in {log}")).to_owned())
}

/// Has the positions of a topic forgotten, as the error says.
fn reset_positions(config: &DaemonConfig, topic: &str) {
    let file = config.data_dir.with_extension("toml");
    let mut command = nuggetd();
    command.args(["index", "reset-positions", "--topic", topic, "--yes", "--config"]).arg(file);
    Ran::of(command.output().unwrap()).done();
}

#[test]
fn a_broker_that_goes_and_comes_back_costs_nothing_but_time() {
    let Some(broker) = Broker::own() else { return };
    let folder = Folder::new();
    let topic = broker.new_topic("items", 3);
    let config = configured(&broker, &folder, &topic).set(&["schedule.refresh=1s", "schedule.idle=1s"]);
    let all = items(0..4_000);
    let mut daemon = Daemon::start(&config);
    await_ready(&mut daemon);
    let sending = {
        let (client, topic, all) = (broker.client(), topic.clone(), all.clone());
        thread::spawn(move || {
            let mut producer = client.producer();
            for part in all.chunks(20) {
                for item in part {
                    producer.send(&topic, &record(item));
                }
                thread::sleep(Duration::from_millis(40));
            }
            producer.flush();
        })
    };
    let commits = |daemon: &mut Daemon| daemon.metric("nuggetd_items_total", &[]).unwrap_or(0.0);
    for orderly in [true, false] {
        let before = commits(&mut daemon);
        wait_until(LIMIT, "items are taken", || commits(&mut daemon) > before + 200.0);
        if orderly {
            broker.stop();
        } else {
            broker.kill();
        }
        wait_until(LIMIT, "the daemon says that it is not ready", || !daemon.is_ready());
        assert_eq!(daemon.get("/live").0, 200);
        broker.start();
    }
    sending.join().unwrap();
    await_finished(&mut daemon, &broker, &[&topic]);
    assert!(daemon.is_ready(), "{:?}", daemon.get("/ready"));
    let warned: Vec<Value> = daemon.log_lines().into_iter().filter(|line| line["level"] == "WARN").collect();
    for said in ["no broker answers", "a broker answers again"] {
        let times = warned.iter().filter(|line| line["message"].as_str().unwrap().starts_with(said)).count();
        assert_eq!(times, 2, "{said:?} twice: {warned:#?}");
    }
    assert!(warned.len() <= 12, "{warned:#?}");
    assert_eq!(daemon.metric("nuggetd_gap_records_total", &[]).unwrap_or(0.0), 0.0);
    assert_eq!(daemon.stop(), Ended::Code(0));
    assert_holds(&config, "A", &REQUESTS, &all);
    let archive = folder.write_items("all.jsonl", &all);
    let event = folder.path("event.json");
    let expected = replayed(&[&archive], &[&event], &folder.path("out"), &[]);
    let strip = support::live::without_revisions;
    assert_eq!(json!(strip(published(&broker, &config))), json!(strip(expected)));
}

#[test]
fn told_to_end_while_the_broker_is_away_it_ends_in_time_and_goes_on_later() {
    let Some(broker) = Broker::own() else { return };
    let folder = Folder::new();
    let topic = broker.new_topic("items", 1);
    let config = configured(&broker, &folder, &topic).set(&[
        "schedule.idle=1s",
        "shutdown.grace=6s",
        // Nobody can leave a group whose broker is away
        "kafka.consumer.session.timeout.ms=3000",
        "kafka.consumer.heartbeat.interval.ms=500",
    ]);
    let mut daemon = Daemon::start(&config);
    await_ready(&mut daemon);
    let all = items(0..500);
    broker.produce(&topic, all.iter().map(record));
    wait_until(LIMIT, "items are taken", || daemon.metric("nuggetd_items_total", &[]) == Some(500.0));
    broker.kill();
    wait_until(LIMIT, "what cannot be published waits", || {
        daemon.state()["outbox"]["batches"].as_u64() > Some(0)
    });
    let asked = Instant::now();
    daemon.signal("TERM");
    let (ended, error) = error_of(&mut daemon);
    assert_eq!(ended, Ended::Code(75), "{error}");
    assert!(error.contains("of results could be published"), "{error}");
    assert!(daemon.has_logged("results wait to be published"), "{}", daemon.log());
    assert!(asked.elapsed() < Duration::from_secs(9), "{:?}", asked.elapsed());
    broker.start();
    let mut daemon = Daemon::start(&config);
    await_finished(&mut daemon, &broker, &[&topic]);
    assert_eq!(daemon.stop(), Ended::Code(0));
    assert_holds(&config, "A", &REQUESTS, &all);
    let archive = folder.write_items("all.jsonl", &all);
    let expected = replayed(&[&archive], &[&folder.path("event.json")], &folder.path("out"), &[]);
    assert_eq!(json!(published(&broker, &config)), json!(expected));
}

#[test]
fn a_broker_that_is_away_at_the_start_is_named() {
    let folder = Folder::new();
    // A port at which nobody listens
    let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    let config = configured(&Client::new(&address), &folder, "items");
    let mut daemon = Daemon::start(&config);
    let (ended, error) = error_of(&mut daemon);
    assert_eq!(ended, Ended::Code(75), "{error}");
    assert!(error.contains(&address), "{error}");
    let event = daemon.log_lines().pop().unwrap();
    assert_eq!((&event["level"], &event["exit"]), (&"ERROR".into(), &75.into()), "{event}");
    assert!(event["message"].as_str().unwrap().contains(&address), "{event}");
}

#[test]
fn a_topic_that_was_made_anew_stops_the_daemon_until_a_person_resets_it() {
    let Some(broker) = Broker::shared() else { return };
    for (again, case) in [(3, "fewer records"), (60, "more records")] {
        let folder = Folder::new();
        let topic = broker.new_topic("items", 1);
        let config = configured(&broker, &folder, &topic);
        broker.produce(&topic, items(0..30).iter().map(record));
        let mut daemon = Daemon::start(&config);
        await_committed(&mut daemon, &broker, &topic);
        assert_eq!(daemon.stop(), Ended::Code(0));
        broker.delete_topic(&topic);
        broker.create_topic(&topic, 1, &[]);
        let anew = items(100..100 + again);
        broker.produce(&topic, anew.iter().map(record));

        for _ in 0..2 {
            let mut daemon = Daemon::start(&config);
            let (ended, error) = error_of(&mut daemon);
            assert_eq!(ended, Ended::Code(75), "{case}: {error}");
            let command = format!("nuggetd index reset-positions --topic {topic}");
            assert!(error.contains(&command), "{case}: {error}");
        }
        assert_holds(&config, "A", &REQUESTS, &items(0..30));
        reset_positions(&config, &topic);
        let mut daemon = Daemon::start(&config);
        await_committed(&mut daemon, &broker, &topic);
        assert_eq!(daemon.stop(), Ended::Code(0));
        let held: Vec<Value> = items(0..30).into_iter().chain(anew).collect();
        assert_holds(&config, "A", &REQUESTS, &held);
    }
}

#[test]
fn a_topic_that_is_deleted_while_it_is_read_stops_the_daemon() {
    let Some(broker) = Broker::shared() else { return };
    let folder = Folder::new();
    let topic = broker.new_topic("items", 2);
    let config =
        configured(&broker, &folder, &topic).set(&["kafka.consumer.topic.metadata.refresh.interval.ms=2000"]);
    broker.produce(&topic, items(0..30).iter().map(record));
    let mut daemon = Daemon::start(&config);
    await_committed(&mut daemon, &broker, &topic);
    broker.delete_topic(&topic);
    let (ended, error) = error_of(&mut daemon);
    assert_eq!(ended, Ended::Code(75), "{error}");
    assert!(error.contains(&topic) && error.contains("nuggetd index reset-positions"), "{error}");
    assert_holds(&config, "A", &REQUESTS, &items(0..30));
}

/// Whether a check of `/ready` fails with a detail that has this in it.
fn check_fails(daemon: &mut Daemon, name: &str, detail: &str) -> bool {
    let state = daemon.state();
    let checks = state["checks"].as_array().unwrap();
    let check = checks.iter().find(|check| check["name"] == name).unwrap();
    check["ok"] == false && check["detail"].as_str().unwrap().contains(detail)
}

#[test]
fn a_topic_for_results_that_is_deleted_is_named() {
    let Some(broker) = Broker::shared() else { return };
    let folder = Folder::new();
    let topic = broker.new_topic("items", 1);
    let config = configured(&broker, &folder, &topic).set(&["schedule.idle=1s"]);
    let mut daemon = Daemon::start(&config);
    await_ready(&mut daemon);
    broker.delete_topic(&config.nuggets);
    broker.produce(&topic, items(0..30).iter().map(record));
    let names = format!("topic {} does not exist any more", config.nuggets);
    wait_until(LIMIT, "it is named", || check_fails(&mut daemon, "publisher", &names));
}

#[test]
fn dead_letters_that_wait_are_told_of_and_taken_when_their_topic_is_there_again() {
    let Some(broker) = Broker::shared() else { return };
    let folder = Folder::new();
    let topic = broker.new_topic("items", 1);
    let config = configured(&broker, &folder, &topic);
    let mut daemon = Daemon::start(&config);
    await_ready(&mut daemon);
    broker.delete_topic(&config.dead_letters);
    broker.produce(&topic, [Record::new("A", "no record")]);
    let wait = format!("for topic {}", config.dead_letters);
    wait_until(LIMIT, "they are told of", || check_fails(&mut daemon, "dead_letters", &wait));
    assert!(daemon.has_logged("dead letters wait for their topic") && !daemon.is_ready());
    broker.create_topic(&config.dead_letters, 1, &[]);
    await_committed(&mut daemon, &broker, &topic);
    assert!(daemon.has_logged("the dead letters are taken") && daemon.is_ready());
    assert_eq!(broker.read_all(&config.dead_letters).len(), 1);
}

#[test]
fn records_that_retention_removed_unread_are_reported_and_passed() {
    removes_unread_records("range");
}

#[test]
fn they_are_with_cooperative_assignments_too() {
    removes_unread_records("cooperative-sticky");
}

fn removes_unread_records(strategy: &str) {
    let Some(broker) = Broker::shared() else { return };
    let folder = Folder::new();
    let topic = broker.new_topic("items", 1);
    let strategy = format!("kafka.consumer.partition.assignment.strategy={strategy}");
    let config = configured(&broker, &folder, &topic).set(&[strategy.as_str()]);
    let gap = |daemon: &mut Daemon| daemon.metric("nuggetd_gap_records_total", &[]).unwrap_or(0.0);
    let send = |numbers| broker.produce(&topic, items(numbers).iter().map(record));
    send(0..30);
    let mut daemon = Daemon::start(&config);
    await_committed(&mut daemon, &broker, &topic);
    assert_eq!(daemon.stop(), Ended::Code(0));

    // While it is down
    send(30..60);
    broker.delete_records_before(&topic, 0, 50);
    let mut daemon = Daemon::start(&config);
    await_committed(&mut daemon, &broker, &topic);
    assert_eq!(gap(&mut daemon), 20.0);
    await_logged(&mut daemon, "the broker's retention has removed records before they were read");

    // While it stands still
    daemon.signal("STOP");
    send(60..100);
    broker.delete_records_before(&topic, 0, 90);
    daemon.signal("CONT");
    await_committed(&mut daemon, &broker, &topic);
    assert_eq!(gap(&mut daemon), 50.0);
    send(100..110);
    await_committed(&mut daemon, &broker, &topic);
    assert!(daemon.is_ready());
    assert_eq!(daemon.stop(), Ended::Code(0));

    // All that it had not read
    send(110..120);
    broker.delete_records_before(&topic, 0, 120);
    let mut daemon = Daemon::start(&config);
    await_ready(&mut daemon);
    wait_until(LIMIT, "the gap is reported", || gap(&mut daemon) > 0.0);
    assert_eq!(gap(&mut daemon), 10.0);
    send(120..130);
    await_committed(&mut daemon, &broker, &topic);
    assert_eq!(daemon.stop(), Ended::Code(0));
    let held: Vec<Value> = [0..30, 50..60, 90..110, 120..130].into_iter().flat_map(items).collect();
    assert_holds(&config, "A", &REQUESTS, &held);
}

#[test]
fn commits_and_runs_that_take_longer_than_a_poll_may_cost_no_membership() {
    let Some(broker) = Broker::shared() else { return };
    let folder = Folder::new();
    let topic = broker.new_topic("items", 2);
    let config = configured(&broker, &folder, &topic).set(&[
        "kafka.consumer.session.timeout.ms=1500",
        "kafka.consumer.heartbeat.interval.ms=300",
        "kafka.consumer.max.poll.interval.ms=1500",
        "schedule.refresh=1s",
    ]);
    let mut daemon = Daemon::start(&config);
    await_ready(&mut daemon);
    // Whoever holds the ledger makes every commit and the end of every run wait, as a slow disk does
    let ledger = rusqlite::Connection::open(config.data_dir.join("ledger.sqlite")).unwrap();
    ledger.busy_timeout(Duration::from_secs(10)).unwrap();
    for part in 0..2 {
        ledger.execute_batch("BEGIN IMMEDIATE").unwrap();
        let held = Instant::now();
        broker.produce(&topic, items(100 * part..100 * (part + 1)).iter().map(record));
        while held.elapsed() < Duration::from_secs(5) {
            assert_eq!(daemon.get("/live").0, 200);
            thread::sleep(Duration::from_millis(100));
        }
        ledger.execute_batch("COMMIT").unwrap();
        await_committed(&mut daemon, &broker, &topic);
    }
    let slow = daemon.metric("nuggetd_index_commit_duration_seconds_sum", &[]);
    assert!(slow > Some(3.0), "commits did not wait: {slow:?}");
    assert_eq!(daemon.metric("nuggetd_rebalances_total", &["kind=\"lost\""]).unwrap_or(0.0), 0.0);
    assert_eq!(daemon.metric("nuggetd_rebalances_total", &["kind=\"assign\""]), Some(1.0));
    assert!(!daemon.has_logged("polls came too late"));
    assert_eq!(daemon.stop(), Ended::Code(0));
    assert_holds(&config, "A", &REQUESTS, &items(0..200));
}

#[test]
fn another_cluster_stops_the_daemon_until_a_person_resets_it() {
    let (Some(broker), Some(other)) = (Broker::shared(), Broker::own()) else { return };
    let folder = Folder::new();
    let topic = broker.new_topic("items", 1);
    let config = configured(&broker, &folder, &topic);
    broker.produce(&topic, items(0..10).iter().map(record));
    let mut daemon = Daemon::start(&config);
    await_committed(&mut daemon, &broker, &topic);
    assert_eq!(daemon.stop(), Ended::Code(0));

    other.create_topic(&topic, 1, &[]);
    other.produce(&topic, items(10..30).iter().map(record));
    let mut moved = config.clone();
    other.address().clone_into(&mut moved.brokers);
    let mut daemon = Daemon::start(&moved);
    let (ended, error) = error_of(&mut daemon);
    assert_eq!(ended, Ended::Code(75), "{error}");
    assert!(error.contains("nuggetd index reset-positions"), "{error}");
    assert!(error.contains(&*config.data_dir.to_string_lossy()), "{error}");
    assert_eq!(other.read_all(&topic).len(), 20);
    reset_positions(&moved, &topic);
    let mut daemon = Daemon::start(&moved);
    await_committed(&mut daemon, &other, &topic);
    assert_eq!(daemon.stop(), Ended::Code(0));
    assert_holds(&moved, "A", &REQUESTS, &items(0..30));
}
