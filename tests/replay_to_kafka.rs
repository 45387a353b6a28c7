//! `nuggetd replay --to-kafka`: what lies in the topic afterwards is the archive.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod support;

use std::{
    cell::Cell,
    path::PathBuf,
    process::Stdio,
    rc::Rc,
    sync::atomic::{AtomicBool, Ordering},
    time::{Duration, Instant},
};

use nuggetd::{
    config::{Config, SourceConfig},
    replay::{Clock, Halt, Progress, Sent, Speed, ToKafka, WallClock},
};
use rdkafka::types::RDKafkaRespErr;
use serde_json::json;
use support::{
    DAY, Folder, Ran, START, event, gzip,
    kafka::{Broker, ReadRecord, topic, wait_until},
    nuggetd, tweet,
};

/// An archive of two events in two files, with records that nobody can read; and its records as they should arrive.
struct Archive {
    folder: Folder,
    expected: Vec<(Option<&'static str>, Vec<u8>)>,
}

impl Archive {
    /// One item a minute, by turns of event A and event B.
    fn new(items: usize) -> Self {
        let folder = Folder::new();
        for (id, request) in [("A", "A-r1"), ("B", "B-r1")] {
            let described = event(id, &[(request, START, START + DAY - 1)]);
            folder.write_event(&format!("events/{id}.json"), &described);
        }
        let mut expected: Vec<(Option<&str>, Vec<u8>)> =
            vec![(None, b"{\"event\": \"A\", no JSON".to_vec()), (None, b"\xff\xfe no UTF-8".to_vec())];
        let (mut lines, mut elements) = (Vec::new(), Vec::new());
        for (_, record) in &expected {
            lines.extend_from_slice(record);
            lines.push(b'\n');
        }
        for number in 0..items {
            let time = START + 60 * i64::try_from(number).unwrap();
            let id = if number % 3 == 0 { "B" } else { "A" };
            let item = tweet(id, number, time, "someone", &format!("{number} homes é 🔥"));
            // Spaces and escapes that a program that writes JSON again would not keep
            let text = item.to_string().replace(",\"text\"", " ,\t\"text\"").replace('é', "\\u00e9");
            if number % 2 == 0 {
                lines.extend_from_slice(format!("  {text}\r\n\n").as_bytes());
            } else {
                elements.push(text.clone());
            }
            expected.push((Some(id), text.into_bytes()));
        }
        folder.write("items/1.jsonl.gz", gzip(&lines));
        folder.write("items/2.json", format!("[\n{}\n]", elements.join(" ,\n ")));
        Self { folder, expected }
    }

    fn replay(&self, brokers: &str, topic: &str) -> ToKafka {
        let source: SourceConfig = serde_json::from_value(json!({ "topic": topic })).unwrap();
        let mut config = Config { source: vec![source], ..Config::default() };
        brokers.clone_into(&mut config.kafka.brokers);
        ToKafka {
            archive: vec![self.folder.path("items").display().to_string()],
            events: vec![self.folder.path("events")],
            topic: None,
            create: None,
            publish_events: false,
            speed: Speed::Max,
            skip: 0,
            patience: Duration::from_secs(120),
            config,
        }
    }

    /// The arguments of the same.
    fn arguments(&self, brokers: &str, topic: &str) -> Vec<String> {
        let path = |path: PathBuf| path.display().to_string();
        let (items, events) = (path(self.folder.path("items")), path(self.folder.path("events")));
        let brokers = format!("kafka.brokers={brokers}");
        let arguments =
            ["replay", &items, "--events", &events, "--to-kafka", "--topic", topic, "--set", &brokers];
        arguments.map(str::to_owned).to_vec()
    }

    /// Each record once, with its key, and those of one partition in the order of the archive.
    fn assert_arrived(&self, records: &[ReadRecord]) {
        let arrived = |record: &ReadRecord| {
            let key = record.key.as_ref().map(|key| String::from_utf8(key.clone()).unwrap());
            (key, record.payload.clone().unwrap())
        };
        let mut places: Vec<usize> = Vec::new();
        let mut before = (-1, 0);
        for record in records {
            let (key, payload) = arrived(record);
            let place = self.expected.iter().position(|(_, expected)| *expected == payload);
            let place = place.unwrap_or_else(|| panic!("{}", String::from_utf8_lossy(&payload)));
            assert_eq!(key.as_deref(), self.expected[place].0);
            assert!(before.0 != record.partition || before.1 < place, "{place} after {before:?}");
            before = (record.partition, place);
            places.push(place);
        }
        places.sort_unstable();
        assert_eq!(places, (0..self.expected.len()).collect::<Vec<_>>());
    }
}

fn run(replay: &ToKafka, clock: &mut dyn Clock, stop: &AtomicBool) -> Sent {
    replay.run(clock, stop, &Progress::hidden()).unwrap()
}

fn never() -> AtomicBool {
    AtomicBool::new(false)
}

/// A clock that goes ten times as fast as the one on the wall, and on which something happens at a certain time.
struct FastClock<'a> {
    begun: Instant,
    /// How much has passed.
    passed: Rc<Cell<Duration>>,
    at: Duration,
    happens: Option<Box<dyn FnOnce() + 'a>>,
}

impl<'a> FastClock<'a> {
    fn new() -> Self {
        Self { begun: Instant::now(), passed: Rc::default(), at: Duration::MAX, happens: None }
    }

    fn at(at: Duration, happens: impl FnOnce() + 'a) -> Self {
        Self { at, happens: Some(Box::new(happens)), ..Self::new() }
    }
}

impl Clock for FastClock<'_> {
    fn now(&self) -> Instant {
        self.begun + self.passed.get()
    }

    fn pass(&mut self, time: Duration, serve: &mut dyn FnMut(Duration)) {
        self.passed.set(self.passed.get() + time);
        serve(time / 10);
        if self.passed.get() >= self.at
            && let Some(happens) = self.happens.take()
        {
            happens();
        }
    }
}

#[test]
fn items_do_not_go_where_the_daemon_writes() {
    let archive = Archive::new(1);
    for topic in ["nuggetd.nuggets", "nuggetd.requests", "nuggetd.dead-letters"] {
        let mut replay = archive.replay("127.0.0.1:1", "items");
        replay.topic = Some(topic.to_owned());
        let stop = AtomicBool::new(false);
        let error = replay.run(&mut WallClock, &stop, &Progress::hidden()).unwrap_err().to_string();
        assert!(error.contains(topic) && error.contains("holds no items"), "{error}");
    }
}

#[test]
fn what_arrives_is_the_archive_byte_for_byte_in_order_and_keyed_by_event() {
    let broker = Broker::mock();
    let topic = broker.new_topic("items", 3);
    let archive = Archive::new(1_000);
    let sent = run(&archive.replay(broker.address(), &topic), &mut WallClock, &never());
    let records = broker.read_all(&topic);
    archive.assert_arrived(&records);
    assert_eq!((sent.records, sent.next, sent.halt), (1_002, 1_002, None));
    assert_eq!(sent.partitions.values().sum::<u64>(), 1_002);
    for (&partition, &count) in &sent.partitions {
        assert_eq!(records.iter().filter(|record| record.partition == partition).count() as u64, count);
    }
}

#[test]
fn at_a_speed_time_passes_so_many_times_as_fast_as_it_did() {
    let broker = Broker::mock();
    let topic = broker.new_topic("items", 1);
    let archive = Archive::new(61);
    let mut replay = archive.replay(broker.address(), &topic);
    replay.speed = Speed::Times(180.0);
    let mut clock = FastClock::new();
    let passed = Rc::clone(&clock.passed);
    run(&replay, &mut clock, &never());
    // An hour of items; the rest is waiting for the last confirmation
    let passed = passed.get().as_secs_f64();
    assert!((20.0..30.0).contains(&passed), "{passed}");
    archive.assert_arrived(&broker.read_all(&topic));
}

#[test]
fn a_replay_that_was_stopped_goes_on_where_it_was() {
    let broker = Broker::mock();
    let topic = broker.new_topic("items", 3);
    let archive = Archive::new(120);
    let mut replay = archive.replay(broker.address(), &topic);
    replay.speed = Speed::Times(180.0);
    let stop = never();
    let mut clock = FastClock::at(Duration::from_millis(10_300), || stop.store(true, Ordering::Relaxed));
    let first = run(&replay, &mut clock, &stop);
    assert_eq!(first.halt, Some(Halt::Interrupted));
    // Two without a time, and those of the first 30 minutes
    assert_eq!((first.records, first.next), (33, 33));
    replay.skip = first.next;
    replay.speed = Speed::Max;
    let second = run(&replay, &mut WallClock, &never());
    assert_eq!((second.records, second.halt), (89, None));
    archive.assert_arrived(&broker.read_all(&topic));
}

#[test]
fn a_broker_that_goes_away_is_waited_for_and_then_given_up() {
    let broker = Broker::mock();
    let topic = broker.new_topic("items", 1);
    let archive = Archive::new(120);
    let mut replay = archive.replay(broker.address(), &topic);
    replay.speed = Speed::Times(180.0);
    // Two seconds on the wall
    replay.patience = Duration::from_secs(20);
    let down = || broker.mock_cluster().broker_down(1).unwrap();
    let mut clock = FastClock::at(Duration::from_secs(10), down);
    let first = run(&replay, &mut clock, &never());
    assert!(matches!(first.halt, Some(Halt::Away(_))), "{first:?}");
    assert!((20..40).contains(&first.next), "{first:?}");
    assert_eq!(first.records, first.next);
    broker.mock_cluster().broker_up(1).unwrap();
    replay.skip = first.next;
    replay.speed = Speed::Max;
    replay.patience = Duration::from_secs(30);
    let second = run(&replay, &mut WallClock, &never());
    assert_eq!(second.halt, None);
    // What had arrived without its confirmation may be there twice
    let mut records = broker.read_all(&topic);
    let mut seen = std::collections::BTreeSet::new();
    records.retain(|record| seen.insert(record.payload.clone()));
    archive.assert_arrived(&records);
}

#[test]
fn a_broker_that_is_away_ends_it_with_75_and_the_address() {
    let archive = Archive::new(3);
    let mut arguments = archive.arguments("127.0.0.1:1", "items");
    arguments.extend(["--timeout".to_owned(), "1s".to_owned()]);
    let ran = Ran::of(nuggetd().args(arguments).output().unwrap());
    assert_eq!(ran.code, 75, "{}", ran.stderr);
    assert!(
        ran.stderr.contains("127.0.0.1:1") && ran.stderr.contains("Connection refused"),
        "{}",
        ran.stderr
    );
}

#[test]
fn a_missing_topic_is_not_made_unless_asked_for() {
    let broker = Broker::mock();
    let missing = RDKafkaRespErr::RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART;
    broker.create_topic("missing", 1, &[]);
    broker.mock_cluster().topic_error("missing", missing).unwrap();
    let archive = Archive::new(3);
    let ran = Ran::of(nuggetd().args(archive.arguments(broker.address(), "missing")).output().unwrap());
    assert_eq!(ran.code, 64, "{}", ran.stderr);
    assert!(ran.stderr.contains("no topic missing") && ran.stderr.contains("--create"), "{}", ran.stderr);
}

#[test]
fn a_record_that_is_too_large_is_named_and_the_others_arrive() {
    let broker = Broker::mock();
    let topic = broker.new_topic("items", 1);
    let archive = Archive::new(10);
    let large = tweet("A", 99, START + 61, "someone", &"homes ".repeat(1_000));
    archive.folder.write_items("items/3.jsonl", &[large]);
    let mut arguments = archive.arguments(broker.address(), &topic);
    arguments.extend(["--set".to_owned(), "kafka.producer.message.max.bytes=3000".to_owned()]);
    let ran = Ran::of(nuggetd().args(arguments).output().unwrap());
    assert_eq!(ran.code, 1, "{}", ran.stderr);
    assert!(ran.stderr.contains("3.jsonl: record 0 is larger"), "{}", ran.stderr);
    assert!(ran.stderr.contains(&format!("12 records → topic {topic} (partition 0: 12)")), "{}", ran.stderr);
    archive.assert_arrived(&broker.read_all(&topic));
}

#[test]
fn ctrl_c_says_how_far_it_came() {
    let broker = Broker::mock();
    let topic = broker.new_topic("items", 1);
    let archive = Archive::new(10);
    let mut command = nuggetd();
    command.args(archive.arguments(broker.address(), &topic)).args(["--speed", "1"]);
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    // Two without a time and the first item; the next one is due in a minute
    wait_until(Duration::from_secs(30), "three records have arrived", || {
        assert!(child.try_wait().unwrap().is_none(), "it ended before it was stopped");
        broker.end(&topic) == 3
    });
    let kill = format!("kill -INT {}", child.id());
    assert!(std::process::Command::new("sh").args(["-c", &kill]).status().unwrap().success());
    let output = child.wait_with_output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(75), "{stderr}");
    assert!(stderr.contains("3 records →") && stderr.contains("go on with --skip 3"), "{stderr}");
}

#[test]
fn a_run_has_a_folder_or_a_topic() {
    let archive = Archive::new(1);
    let arguments = archive.arguments("127.0.0.1:1", "items");
    let code = |further: &[&str], without: &[&str]| {
        let arguments = arguments.iter().filter(|argument| !without.contains(&argument.as_str()));
        let ran = Ran::of(nuggetd().args(arguments).args(further).output().unwrap());
        (ran.code, ran.stderr)
    };
    let to_topic = ["--to-kafka", "--topic", "items"];
    assert_eq!(code(&["--out", "run"], &[]).0, 2);
    assert_eq!(code(&["--resume"], &[]).0, 2);
    assert_eq!(code(&[], &to_topic).0, 2);
    assert_eq!(code(&["--out", "run", "--speed", "2"], &to_topic).0, 2);
    assert_eq!(code(&["--speed", "0"], &[]).0, 2);
    let (exit, stderr) = code(&[], &["--topic", "items"]);
    assert_eq!(exit, 64);
    assert!(stderr.contains("--topic"), "{stderr}");
    let (exit, stderr) = code(&["--publish-events", "--set", "kafka.producer.acks=1"], &[]);
    assert_eq!(exit, 64);
    assert!(stderr.contains("kafka.producer.acks: cannot be set"), "{stderr}");
}

#[test]
fn topics_are_made_where_asked_and_events_go_first() {
    let Some(broker) = Broker::shared() else { return };
    let (items, events) = (topic("items"), topic("events"));
    let archive = Archive::new(100);
    let mut replay = archive.replay(broker.address(), &items);
    replay.create = Some(3);
    replay.publish_events = true;
    events.clone_into(&mut replay.config.topics.events);
    let sent = run(&replay, &mut WallClock, &never());
    assert_eq!((sent.events, sent.records, sent.halt), (2, 102, None));
    let records = broker.read_all(&items);
    archive.assert_arrived(&records);
    assert_eq!(broker.watermarks(&items).len(), 3);
    // Stamped when they came: an old stamp would let retention take them
    let newest = records.iter().map(|record| record.timestamp.unwrap()).min().unwrap();
    assert!(newest / 1000 > START + 5 * 365 * DAY, "{newest}");
    let published = broker.latest_by_key(&events);
    assert_eq!(published.keys().collect::<Vec<_>>(), ["A", "B"]);
    let event = published["A"].json();
    assert_eq!((&event["eventID"], &event["summaryRequests"][0]["requestID"]), (&json!("A"), &json!("A-r1")));
}

#[test]
fn a_topic_that_is_missing_at_a_real_broker_is_not_made() {
    let Some(broker) = Broker::shared() else { return };
    let name = topic("missing");
    let archive = Archive::new(3);
    for _ in 0..2 {
        let ran = Ran::of(nuggetd().args(archive.arguments(broker.address(), &name)).output().unwrap());
        assert_eq!(ran.code, 64, "{}", ran.stderr);
        assert!(ran.stderr.contains(&format!("no topic {name}")), "{}", ran.stderr);
    }
}
