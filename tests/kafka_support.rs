//! What the tests with a broker stand on: the broker keeps what it acknowledged across a stop and a kill, readers see
//! exactly what was produced, and a daemon's log, endpoints and end are read as they are.

#![allow(clippy::unwrap_used, clippy::panic, clippy::float_cmp, reason = "tests; counts are whole numbers")]

mod support;

use std::{
    io::{BufRead, BufReader, Write},
    net::TcpListener,
    process::Command,
    thread,
    time::Duration,
};

use rdkafka::{
    ClientConfig,
    producer::{BaseProducer, BaseRecord, Producer as _},
};
use serde_json::json;
use support::{
    Folder,
    kafka::{Broker, Daemon, DaemonConfig, Ended, ReadRecord, Record, sum_of_series, topic, wait_until},
};

const LIMIT: Duration = Duration::from_secs(60);

/// Records of every shape: without key, empty, tombstones, headers without value, old time stamps.
fn shapes() -> Vec<Record> {
    vec![
        Record::new("a", "first").in_partition(0),
        Record::default().in_partition(0),
        Record { payload: Some(Vec::new()), ..Record::default() }.in_partition(1),
        Record::tombstone("a").in_partition(0),
        Record::json("b", &json!({ "text": "Straße 水" })).in_partition(1).at(1_512_604_800_000),
        Record {
            headers: vec![("error_code".into(), Some(b"not-json".to_vec())), ("nothing".into(), None)],
            ..Record::new("c", [0xff, 0x00, 0xfe])
        }
        .in_partition(1),
    ]
}

/// A record as it should come back, but for the time stamp that the broker gave.
fn expected(record: &Record, (partition, offset): (i32, i64), read: &ReadRecord) -> ReadRecord {
    ReadRecord {
        partition,
        offset,
        key: record.key.clone(),
        payload: record.payload.clone(),
        headers: record.headers.clone(),
        timestamp: record.timestamp.or(read.timestamp),
    }
}

fn reads_what_was_produced(broker: &Broker) {
    let topic = topic("shapes");
    broker.create_topic(&topic, 2, &[]);
    assert_eq!(broker.read_all(&topic), []);
    let records = shapes();
    let positions = broker.produce(&topic, records.clone());
    assert_eq!(positions, [(0, 0), (0, 1), (1, 0), (0, 2), (1, 1), (1, 2)]);
    let mut produced: Vec<_> = positions.into_iter().zip(&records).collect();
    produced.sort_by_key(|(position, _)| *position);
    let read = broker.read_all(&topic);
    assert_eq!(read.len(), records.len());
    for ((position, record), read) in produced.into_iter().zip(&read) {
        assert_eq!(*read, expected(record, position, read));
    }
    assert_eq!(broker.read_uncommitted(&topic), read);
    assert_eq!(broker.watermarks(&topic), [(0, 3), (0, 3)]);
    assert_eq!(read[4].json(), json!({ "text": "Straße 水" }));
    assert_eq!(
        (read[5].key(), read[5].header("error_code"), read[5].header("nothing")),
        ("c", Some("not-json"), None)
    );
}

#[test]
fn readers_see_exactly_what_was_produced() {
    let Some(broker) = Broker::shared() else { return };
    reads_what_was_produced(&broker);
}

#[test]
fn readers_of_the_mock_see_exactly_what_was_produced() {
    reads_what_was_produced(&Broker::mock());
}

#[test]
fn many_records_keep_their_order_and_their_keys_share_a_partition() {
    let Some(broker) = Broker::shared() else { return };
    let topic = broker.new_topic("many", 4);
    let record = |number: usize| Record::new(&format!("key-{}", number % 37), number.to_string());
    let positions = broker.produce(&topic, (0..50_000).map(record));
    assert_eq!(positions.len(), 50_000);
    let read = broker.read_all(&topic);
    assert_eq!(read.len(), 50_000);
    for key in 0..37 {
        let key = format!("key-{key}");
        let of_key: Vec<&ReadRecord> = read.iter().filter(|record| record.key() == key).collect();
        assert!(of_key.iter().all(|record| record.partition == of_key[0].partition));
        let numbers = of_key.iter().map(|record| record.json().as_u64().unwrap());
        assert!(numbers.is_sorted());
    }
}

#[test]
fn the_latest_of_each_key_is_what_a_compacted_topic_says() {
    let Some(broker) = Broker::shared() else { return };
    let topic = topic("compacted");
    broker.create_topic(&topic, 2, &[("cleanup.policy", "compact")]);
    let records =
        ["a 1", "b 1", "a 2", "c 1", "b -", "d -"].map(|record| match record.split_once(' ').unwrap() {
            (key, "-") => Record::tombstone(key),
            (key, value) => Record::new(key, value),
        });
    broker.produce(&topic, records);
    let latest = broker.latest_by_key(&topic);
    let latest: Vec<(&str, u64)> =
        latest.iter().map(|(key, record)| (key.as_str(), record.json().as_u64().unwrap())).collect();
    assert_eq!(latest, [("a", 2), ("c", 1)]);
}

#[test]
fn records_that_retention_removed_are_gone() {
    let Some(broker) = Broker::shared() else { return };
    let topic = broker.new_topic("short", 2);
    broker.produce(&topic, (0..10).map(|number: i32| Record::new("k", number.to_string()).in_partition(1)));
    broker.delete_records_before(&topic, 1, 7);
    assert_eq!(broker.watermarks(&topic), [(0, 0), (7, 10)]);
    let offsets: Vec<i64> = broker.read_all(&topic).iter().map(|record| record.offset).collect();
    assert_eq!(offsets, [7, 8, 9]);
}

#[test]
fn a_topic_made_again_is_empty() {
    let Some(broker) = Broker::shared() else { return };
    let topic = broker.new_topic("again", 3);
    broker.produce(&topic, [Record::new("k", "v")]);
    broker.delete_topic(&topic);
    broker.create_topic(&topic, 1, &[]);
    assert_eq!(broker.read_all(&topic), []);
    assert_eq!(broker.watermarks(&topic), [(0, 0)]);
}

#[test]
fn aborted_and_open_transactions_are_hidden_from_read_committed_alone() {
    let Some(broker) = Broker::shared() else { return };
    let topic = broker.new_topic("transactions", 1);
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", broker.address()).set("transactional.id", &topic);
    let producer: BaseProducer = config.create().unwrap();
    let send = |value: &str| {
        producer.send(BaseRecord::to(&topic).key("k").payload(value)).map_err(|(error, _)| error).unwrap();
        producer.flush(LIMIT).unwrap();
    };
    producer.init_transactions(LIMIT).unwrap();
    producer.begin_transaction().unwrap();
    send("1");
    producer.commit_transaction(LIMIT).unwrap();
    producer.begin_transaction().unwrap();
    send("2");
    producer.abort_transaction(LIMIT).unwrap();
    producer.begin_transaction().unwrap();
    send("3");
    let values = |records: Vec<ReadRecord>| -> Vec<u64> {
        records.iter().map(|record| record.json().as_u64().unwrap()).collect()
    };
    assert_eq!(values(broker.read_all(&topic)), [1]);
    assert_eq!(values(broker.read_uncommitted(&topic)), [1, 2, 3]);
    producer.commit_transaction(LIMIT).unwrap();
    assert_eq!(values(broker.read_all(&topic)), [1, 3]);
}

#[test]
fn a_broker_of_its_own_keeps_its_records_across_stop_and_kill() {
    let Some(broker) = Broker::own() else { return };
    let topic = broker.new_topic("kept", 2);
    let client = broker.client();
    let mut numbers = 0..;
    let mut produce = |count: usize| {
        let records: Vec<Record> = numbers
            .by_ref()
            .take(count)
            .map(|number: i32| Record::new(&number.to_string(), number.to_string()))
            .collect();
        client.produce(&topic, records);
    };
    produce(1000);
    broker.stop();
    broker.start();
    assert_eq!(client.read_all(&topic).len(), 1000);
    produce(1000);
    broker.kill();
    // A producer that begins while the broker is away delivers once it is back
    thread::scope(|scope| {
        let waiting = scope.spawn(|| produce(1000));
        broker.start();
        waiting.join().unwrap();
    });
    let mut read: Vec<u64> =
        client.read_all(&topic).iter().map(|record| record.json().as_u64().unwrap()).collect();
    read.sort_unstable();
    assert_eq!(read, (0..3000).collect::<Vec<u64>>());
}

#[test]
fn the_configuration_of_a_daemon_is_one_it_takes() {
    let folder = Folder::new();
    let config = DaemonConfig::new("127.0.0.1:9", &folder.path("data"))
        .source("items", "crisisfacts")
        .source_with(
            json!({ "topic": "tweets", "format": "twitter-v1", "event": "E-1", "frame": "confluent" }),
        )
        .event_topic("events")
        .event_file(&folder.path("event.json"));
    let path = folder.write("nuggetd.toml", config.toml());
    let read = nuggetd::config::Config::load_with(Some(&path), [], &[]).unwrap();
    assert_eq!((read.kafka.brokers, read.kafka.group), (config.brokers.clone(), config.group.clone()));
    assert_eq!(read.data_dir, config.data_dir);
    assert_eq!(read.source.iter().map(|source| &source.topic).collect::<Vec<_>>(), ["items", "tweets"]);
    assert_eq!((read.topics.events.as_str(), &read.topics.nuggets), ("events", &config.nuggets));
    assert_eq!(read.events.files, [folder.path("event.json").to_string_lossy()]);
    let other = config.instance(&folder.path("other"));
    assert_eq!((&other.group, &other.nuggets), (&config.group, &config.nuggets));
}

/// Answers each request with its path, and `/state` with JSON.
fn answer(listener: &TcpListener) {
    for stream in listener.incoming() {
        let mut stream = stream.unwrap();
        let lines = BufReader::new(&stream).lines().map(Result::unwrap);
        let request: Vec<String> = lines.take_while(|line| !line.is_empty()).collect();
        let path = request[0].split(' ').nth(1).unwrap();
        let (status, body) = match path {
            "/state" => ("200 OK", "{\"assignment\":[]}"),
            "/metrics" => ("200 OK", "# TYPE a counter\na{x=\"1\",y=\"2\"} 3\na{x=\"1\"} 0.5\nab 7\n"),
            _ => ("503 Service Unavailable", "ledger: slow\n"),
        };
        write!(stream, "HTTP/1.0 {status}\r\nContent-Length: {}\r\n\r\n{body}", body.len()).unwrap();
    }
}

#[test]
fn log_endpoints_and_end_of_a_daemon_are_read_as_they_are() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || answer(&listener));
    let folder = Folder::new();
    let script = format!(
        "echo noise >&2; echo '{{\"message\":\"http endpoints are listening\",\"address\":\"{address}\"}}' >&2; \
         trap 'echo \"{{\\\"message\\\":\\\"draining\\\"}}\" >&2; exit 75' TERM; while :; do sleep 0.05; done"
    );
    let start = || {
        let mut command = Command::new("sh");
        command.args(["-c", &script]);
        Daemon::spawn(command, folder.path("daemon.log"))
    };
    let mut daemon = start();
    assert_eq!(daemon.address(), address);
    assert_eq!(daemon.state(), json!({ "assignment": [] }));
    assert_eq!(daemon.metric("a", &["x=\"1\""]), Some(3.5));
    assert!(!daemon.is_ready());
    assert_eq!(daemon.get("/ready"), (503, "ledger: slow\n".to_owned()));
    assert!(!daemon.has_ended() && !daemon.has_logged("draining"));
    wait_until(LIMIT, "the script waits for signals", || daemon.log().lines().count() == 2);
    assert_eq!(daemon.stop(), Ended::Code(75));
    assert!(daemon.has_logged("draining"));
    let mut killed = start();
    killed.signal("KILL");
    assert_eq!(killed.wait(LIMIT), Ended::Signal(9));
}

#[test]
fn metrics_are_summed_over_the_series_that_have_the_labels() {
    let metrics = "# HELP a b\na{x=\"1\",y=\"2\"} 3\na{x=\"1\",y=\"3\"} 4\na_total 5\nb 1e3\n";
    assert_eq!(sum_of_series(metrics, "a", &[]), Some(7.0));
    assert_eq!(sum_of_series(metrics, "a", &["y=\"3\""]), Some(4.0));
    assert_eq!(sum_of_series(metrics, "a", &["y=\"4\""]), None);
    assert_eq!(sum_of_series(metrics, "b", &[]), Some(1000.0));
    assert_eq!(sum_of_series(metrics, "c", &[]), None);
}
