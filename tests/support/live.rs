//! A daemon beside a broker, seen from outside: what it has taken, what it has published, what lies in its shards.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
    time::{Duration, Instant},
};

use serde_json::Value;

use super::{
    DAY, START, event,
    kafka::{Client, Daemon, DaemonConfig, ReadRecord, Record, wait_until},
    read_lines, replay_command,
    storm::{is_finished, key, without_revision},
    tweet,
};

/// How long anything may take.
pub(crate) const LIMIT: Duration = Duration::from_secs(90);

/// An event of so many days: its requests are `ID-r0`, `ID-r1`, …
pub(crate) fn days(id: &str, days: i64) -> Value {
    let names: Vec<String> = (0..days).map(|day| format!("{id}-r{day}")).collect();
    let requests: Vec<(&str, i64, i64)> = names
        .iter()
        .zip(0..)
        .map(|(name, day)| (name.as_str(), START + day * DAY, START + (day + 1) * DAY - 1))
        .collect();
    event(id, &requests)
}

/// The item of that number, so many seconds into the event. No two have the same text.
pub(crate) fn item(event: &str, number: usize, seconds: i64) -> Value {
    let text = match number % 4 {
        0 => format!("{} homes were destroyed in district {number}", number + 2),
        1 => format!("Road {number} is closed at the bridge of kilometre {}", number * 3 + 1),
        2 => format!("Shelter {number} is open in the school, {} beds are free", number + 11),
        _ => format!("Rescue team {number} has reached {} people by boat", number * 2 + 5),
    };
    tweet(event, number, START + seconds, &format!("author{}", number % 17), &text)
}

/// An item's record, keyed by its event.
pub(crate) fn record(item: &Value) -> Record {
    Record::json(item["event"].as_str().unwrap(), item)
}

/// Waits until the daemon has committed everything that lies in its topic.
pub(crate) fn await_committed(daemon: &mut Daemon, client: &Client, topic: &str) {
    let ends = client.watermarks(topic);
    wait_until(LIMIT, "everything is committed", || {
        let state = daemon.state();
        let of_topic = &state["assignment"][topic];
        (0..).zip(&ends).all(|(partition, &(_, high))| {
            let partition: i32 = partition;
            high == 0 || of_topic[partition.to_string()]["committedOffset"].as_i64() >= Some(high)
        })
    });
}

/// Waits until the daemon has committed, run and published everything that lies in its topics.
pub(crate) fn await_finished(daemon: &mut Daemon, client: &Client, topics: &[&str]) {
    for topic in topics {
        await_committed(daemon, client, topic);
    }
    let mut since = None;
    wait_until(LIMIT, "everything is run and published", || {
        // Whoever has just lost its partitions has nothing left to do
        let assigned = daemon.state()["assignment"].as_object().is_some_and(|topics| !topics.is_empty());
        if assigned && is_finished(daemon) {
            since.get_or_insert_with(Instant::now).elapsed() > Duration::from_millis(1_200)
        } else {
            since = None;
            false
        }
    });
}

/// Waits until `/ready` answers 200.
pub(crate) fn await_ready(daemon: &mut Daemon) {
    wait_until(LIMIT, "the daemon is ready", || {
        assert!(!daemon.has_ended(), "{}", daemon.log());
        daemon.is_ready()
    });
}

/// Waits for a message in the log; fails where the daemon ends without it.
pub(crate) fn await_logged(daemon: &mut Daemon, begins: &str) {
    wait_until(LIMIT, begins, || {
        let ended = daemon.has_ended();
        let logged = daemon.has_logged(begins);
        assert!(logged || !ended, "the daemon ended without {begins:?}:\n{}", daemon.log());
        logged
    });
}

/// What a file replay of these archives gives, by the key that the nuggets topic has.
pub(crate) fn replayed(
    archives: &[&Path],
    events: &[&Path],
    out: &Path,
    further: &[&str],
) -> BTreeMap<String, Value> {
    let ran = replay_command(archives, events, out, further).output().unwrap();
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    read_lines(&out.join("nuggets.jsonl")).into_iter().map(|nugget| (key(&nugget), nugget)).collect()
}

/// The nuggets that stand, by key.
pub(crate) fn published(client: &Client, config: &DaemonConfig) -> BTreeMap<String, Value> {
    let latest = client.latest_by_key(&config.nuggets);
    latest.into_iter().map(|(key, record)| (key, record.json())).collect()
}

/// The same nuggets without the number of the run that gave them.
pub(crate) fn without_revisions(nuggets: BTreeMap<String, Value>) -> BTreeMap<String, Value> {
    nuggets.into_iter().map(|(key, nugget)| (key, without_revision(nugget))).collect()
}

/// What was said of a request, in order: state and revision.
pub(crate) fn states(client: &Client, config: &DaemonConfig, key: &str) -> Vec<(String, Option<u64>)> {
    let records = client.read_all(&config.requests);
    let of_key = records.iter().filter(|record| record.key() == key);
    of_key
        .map(|record| {
            let status = record.json();
            (status["state"].as_str().unwrap().to_owned(), status["revision"].as_u64())
        })
        .collect()
}

/// The stream ids in a request's shard, in the order of arrival; nothing where there is no shard.
pub(crate) fn shard(config: &DaemonConfig, event: &str, request: &str) -> Vec<String> {
    let path = config.data_dir.join("shards").join(event).join(request);
    if !path.join("meta.json").exists() {
        return Vec::new();
    }
    let snapshot = nuggetd::index::Snapshot::open(&path, None).unwrap();
    (0..snapshot.items()).map(|arrival| snapshot.item(arrival).unwrap().stream_id.to_string()).collect()
}

/// That the requests of an event hold exactly these items, each once.
pub(crate) fn assert_holds(config: &DaemonConfig, event: &str, requests: &[&str], items: &[Value]) {
    let held: Vec<String> = requests.iter().flat_map(|request| shard(config, event, request)).collect();
    let distinct: BTreeSet<&str> = held.iter().map(String::as_str).collect();
    assert_eq!(distinct.len(), held.len(), "an item stands in the shards twice");
    let of_event = items.iter().filter(|item| item["event"] == event);
    let expected: BTreeSet<&str> = of_event.map(|item| item["streamID"].as_str().unwrap()).collect();
    let missing: Vec<&&str> = expected.difference(&distinct).take(5).collect();
    let more: Vec<&&str> = distinct.difference(&expected).take(5).collect();
    assert!(missing.is_empty() && more.is_empty(), "{event}: missing {missing:?}, too many {more:?}");
}

/// Where a dead letter's record stood.
pub(crate) fn source_of(letter: &ReadRecord) -> (String, i32, i64) {
    let header = |name: &str| letter.header(name).unwrap_or_else(|| panic!("no {name}: {letter:?}"));
    (
        header("source_topic").to_owned(),
        header("source_partition").parse().unwrap(),
        header("source_offset").parse().unwrap(),
    )
}

/// Keeps the ledger from being written, as a disk that does not answer would.
pub(crate) fn hold_ledger(config: &DaemonConfig) -> rusqlite::Connection {
    let ledger = rusqlite::Connection::open(config.data_dir.join("ledger.sqlite")).unwrap();
    ledger.busy_timeout(Duration::from_secs(20)).unwrap();
    ledger.execute_batch("BEGIN IMMEDIATE").unwrap();
    ledger
}
