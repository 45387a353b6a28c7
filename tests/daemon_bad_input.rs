//! Invariant 5 beside a broker: bad input costs a dead letter with the bytes as they came, never the stream, and no
//! memory; a flood of it stops the intake and loses nothing.

#![allow(clippy::unwrap_used, clippy::panic, clippy::float_cmp, reason = "tests; counts are whole numbers")]

mod support;

use std::{collections::BTreeMap, time::Instant};

use serde_json::{Value, json};
use support::{
    Folder,
    kafka::{Broker, Client, Daemon, DaemonConfig, Ended, Position, Record, wait_until},
    live::{
        LIMIT, assert_holds, await_committed, await_logged, await_ready, days, item, record, shard, source_of,
    },
    storm::{Random, Size, size},
};

const REQUESTS: [&str; 2] = ["BAD-r0", "BAD-r1"];

fn configured(broker: &Client, folder: &Folder, topic: &str) -> DaemonConfig {
    let event = folder.write_event("event.json", &days("BAD", 2));
    let config = DaemonConfig::new(broker.address(), &folder.path("data")).source(topic, "crisisfacts");
    config.event_file(&event).set(&["index.commit_interval=1s", "schedule.idle=1h"])
}

/// Good items, evenly over the event's two days. What they say repeats: a text that nobody has said before is
/// remembered, and that is no fault of the bad ones.
fn good(number: usize, of: usize) -> Value {
    let mut item = item("BAD", number, i64::try_from(number * 172_000 / of).unwrap());
    item["text"] = self::item("BAD", number % 500, 0)["text"].clone();
    item
}

/// What is wrong with a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    /// Bits of a good one are turned; it may still be one.
    Flipped,
    Cut,
    Empty,
    Deep,
    NoUtf8,
    Random,
    Huge,
    Tombstone,
}

impl Kind {
    fn is_certainly_bad(self) -> bool {
        !matches!(self, Self::Flipped | Self::Tombstone)
    }
}

/// The record of that number, spoiled.
fn bad(random: &mut Random, number: usize) -> (Kind, Record) {
    let mut bytes = item("BAD", 1_000_000 + number, 1_000).to_string().into_bytes();
    let kind = match number % 50 {
        0 => Kind::Tombstone,
        1..=4 => Kind::Empty,
        5..=9 => Kind::Deep,
        10..=16 => Kind::NoUtf8,
        17..=22 => Kind::Random,
        23..=30 => Kind::Cut,
        31 if number % 400 == 31 => Kind::Huge,
        _ => Kind::Flipped,
    };
    let length = bytes.len() as u64;
    match kind {
        Kind::Flipped => {
            for _ in 0..=random.below(3) {
                let at = usize::try_from(random.below(length)).unwrap();
                bytes[at] ^= 1 << random.below(8);
            }
        }
        Kind::Cut => bytes.truncate(usize::try_from(random.below(length - 1)).unwrap()),
        Kind::Empty | Kind::Tombstone => bytes.clear(),
        Kind::Deep => {
            let depth = 200 + usize::try_from(random.below(60_000)).unwrap();
            bytes = [&b"["[..], &b"{\"a\":"[..]][number % 2].repeat(depth);
        }
        Kind::NoUtf8 => {
            let text = bytes.windows(6).position(|window| window == b"\"text\"").unwrap();
            bytes.splice(text + 8..text + 8, [0xc3, 0x28, 0xff, 0xfe]);
        }
        Kind::Random => {
            let count = random.below(2_000);
            bytes = (0..=count).map(|_| u8::try_from(random.below(256)).unwrap()).collect();
        }
        Kind::Huge => bytes = vec![b'x'; 3_000_000],
    }
    let payload = (kind != Kind::Tombstone).then_some(bytes);
    // Of bad ones the key may be anything, too
    let key = match number % 3 {
        0 => None,
        1 => Some(b"BAD".to_vec()),
        _ => Some(vec![0xff, 0, u8::try_from(number % 251).unwrap()]),
    };
    (kind, Record { key, payload, ..Record::default() })
}

/// Every dead letter stands for one record, with its bytes, its key and why. Gives those that have one.
fn check_letters(
    client: &Client,
    config: &DaemonConfig,
    sent: &BTreeMap<Position, (Kind, Record)>,
    topic: &str,
) -> usize {
    let mut lettered: BTreeMap<Position, usize> = BTreeMap::new();
    for letter in client.read_all(&config.dead_letters) {
        let (source, partition, offset) = source_of(&letter);
        assert_eq!(source, topic);
        let (kind, record) =
            sent.get(&(partition, offset)).unwrap_or_else(|| panic!("a good record was refused: {letter:?}"));
        assert!(letter.payload == record.payload, "{kind:?} at {offset} is not as it came");
        assert_eq!(letter.key, record.key);
        let code = letter.header("error_code").unwrap();
        assert!(nuggetd::model::RefusalCode::ALL.iter().any(|known| known.as_str() == code), "{code}");
        assert!(letter.header("error_message").is_some_and(|message| !message.is_empty()));
        assert_eq!(letter.header("app_version"), Some(env!("CARGO_PKG_VERSION")));
        *lettered.entry((partition, offset)).or_default() += 1;
    }
    for (position, (kind, _)) in sent {
        let count = lettered.get(position).copied().unwrap_or(0);
        if kind.is_certainly_bad() {
            assert_eq!(count, 1, "{kind:?} at {position:?}");
        }
        assert!(count <= 1 && !(*kind == Kind::Tombstone && count > 0), "{kind:?} at {position:?}");
    }
    lettered.len()
}

#[test]
fn every_good_item_arrives_among_bad_ones_and_each_bad_one_is_a_dead_letter() {
    let Some(broker) = Broker::shared() else { return };
    let began = Instant::now();
    let wanted = size(Size { items: 5_000, kills: 0 }, Size { items: 100_000, kills: 0 }).items;
    let folder = Folder::new();
    let topic = broker.new_topic("items", 3);
    let config = configured(&broker, &folder, &topic).set(&[
        "dead_letters.most_consecutive=0",
        "dead_letters.most_share=1",
        "log.level=warn,nuggetd::telemetry=info",
    ]);
    // glibc keeps an arena for each thread, and large records leave holes in all of them; with one it can be seen what
    // the daemon itself keeps
    let mut command = config.command();
    command.env("MALLOC_ARENA_MAX", "1");
    let mut daemon = Daemon::spawn(command, config.data_dir.with_extension("log"));
    await_ready(&mut daemon);
    let mut random = Random::new(5);
    let mut sent = BTreeMap::new();
    let mut resident = Vec::new();
    // In parts, so that memory can be looked at on the way
    for part in 0..5 {
        let numbers = part * wanted / 5..(part + 1) * wanted / 5;
        let mut producer = broker.producer();
        let mut kinds = Vec::new();
        for number in numbers {
            let (kind, record) = bad(&mut random, number);
            let record = record.in_partition(i32::try_from(number % 3).unwrap());
            producer.send(&topic, &record);
            kinds.push(Some((kind, Record { partition: None, ..record })));
            producer.send(&topic, &self::record(&good(number, wanted)));
            kinds.push(None);
        }
        for (position, kind) in producer.flush().into_iter().zip(kinds) {
            sent.extend(kind.map(|kind| (position, kind)));
        }
        await_committed(&mut daemon, &broker, &topic);
        resident.push(daemon.metric("process_resident_memory_bytes", &[]).unwrap());
    }
    let lettered = check_letters(&broker, &config, &sent, &topic);
    let tombstones = sent.values().filter(|(kind, _)| *kind == Kind::Tombstone).count();
    let mut outcome = |name: &str| {
        let label = format!("outcome=\"{name}\"");
        daemon.metric("nuggetd_messages_total", &[label.as_str()]).unwrap_or(0.0)
    };
    let counts = ["accepted", "dead_letter", "tombstone", "outside", "skipped", "repeated"].map(&mut outcome);
    let [accepted, refused, skipped_tombstones, ..] = counts;
    assert_eq!((refused, skipped_tombstones), (lettered as f64, tombstones as f64));
    assert_eq!(
        counts.iter().sum::<f64>(),
        2.0 * wanted as f64,
        "every record has become something: {counts:?}"
    );
    // What the largest records need is needed from the first part on
    let (first, last) = (resident[0], *resident.last().unwrap());
    assert!(last < 1.25 * first + 64e6, "memory grows: {resident:?}");
    assert!(daemon.is_ready(), "{:?}", daemon.get("/ready"));
    assert_eq!(daemon.stop(), Ended::Code(0));
    let held: Vec<String> = REQUESTS.iter().flat_map(|request| shard(&config, "BAD", request)).collect();
    assert_eq!(held.len() as f64, accepted);
    let held: std::collections::BTreeSet<String> = held.into_iter().collect();
    for number in 0..wanted {
        let id = good(number, wanted)["streamID"].as_str().unwrap().to_owned();
        assert!(held.contains(&id), "{id} is missing");
    }
    eprintln!(
        "bad input: {wanted} bad between as many good, {lettered} dead letters, {tombstones} tombstones, memory \
         {:?} MB, {} s",
        resident.iter().map(|bytes| bytes / 1e6).map(f64::round).collect::<Vec<_>>(),
        began.elapsed().as_secs()
    );
}

#[test]
fn a_poison_record_at_the_end_of_its_partition_is_passed() {
    let Some(broker) = Broker::shared() else { return };
    let folder = Folder::new();
    let topic = broker.new_topic("items", 2);
    let config = configured(&broker, &folder, &topic);
    broker.produce(
        &topic,
        [
            record(&good(1, 10)).in_partition(0),
            Record::new("BAD", "poison").in_partition(0).header("trace", "7").header("error_code", "theirs"),
            Record::tombstone("BAD").in_partition(1),
        ],
    );
    let mut daemon = Daemon::start(&config);
    await_committed(&mut daemon, &broker, &topic);
    wait_until(LIMIT, "the group's offsets are at the ends", || {
        broker.committed(&config.group, &topic) == [Some(2), Some(1)]
    });
    assert_eq!(daemon.stop(), Ended::Code(0));
    let letters = broker.read_all(&config.dead_letters);
    assert_eq!(letters.len(), 1);
    let named = |name: &str| -> Vec<String> {
        let of_name = letters[0].headers.iter().filter(|(key, _)| key == name);
        of_name.map(|(_, value)| String::from_utf8(value.clone().unwrap()).unwrap()).collect()
    };
    assert_eq!(
        (named("trace"), named("error_code")),
        (vec!["7".into()], vec!["theirs".into(), "bad_json".into()])
    );
    // And it does not come again
    let mut daemon = Daemon::start(&config);
    await_committed(&mut daemon, &broker, &topic);
    assert_eq!(daemon.metric("nuggetd_messages_total", &[]).unwrap_or(0.0), 0.0);
    assert_eq!(daemon.stop(), Ended::Code(0));
    assert_eq!(broker.read_all(&config.dead_letters).len(), 1);
}

#[test]
fn a_flood_stops_the_intake_until_a_person_has_looked() {
    let Some(broker) = Broker::shared() else { return };
    let folder = Folder::new();
    let topic = broker.new_topic("items", 1);
    let config = configured(&broker, &folder, &topic);
    let limited = config.clone().set(&["dead_letters.most_consecutive=20"]);
    let items: Vec<Value> = (0..40).map(|number| good(number, 40)).collect();
    let bad = |number: usize| Record::new("BAD", format!("bad {number}"));
    let records =
        items[..20].iter().map(record).chain((0..200).map(bad)).chain(items[20..].iter().map(record));
    broker.produce(&topic, records);

    let mut daemon = Daemon::start(&limited);
    await_logged(&mut daemon, "nothing more is taken");
    wait_until(LIMIT, "the daemon is not ready", || !daemon.is_ready());
    let (status, body) = daemon.get("/ready");
    assert_eq!(status, 503, "{body}");
    let state = daemon.state();
    assert!(state["paused"]["flood"].as_str().unwrap().contains("most_consecutive"), "{state:#}");
    assert_eq!(daemon.get("/live").0, 200);
    assert_eq!(daemon.metric("nuggetd_paused", &["reason=\"flood\""]), Some(1.0));
    // More comes, and is not taken
    let taken = daemon.metric("nuggetd_messages_total", &[]);
    broker.produce(&topic, (200..210).map(bad));
    let commits = |daemon: &mut Daemon| daemon.state()["assignment"][&topic]["0"]["nextOffset"].as_i64();
    let next = commits(&mut daemon).unwrap();
    assert!(next <= 41, "{next}");
    wait_until(LIMIT, "the broker's new end is known", || {
        daemon.state()["assignment"][&topic]["0"]["highWatermark"] == 250
    });
    assert_eq!((commits(&mut daemon), daemon.metric("nuggetd_messages_total", &[])), (Some(next), taken));
    assert_eq!(daemon.stop(), Ended::Code(0));

    // A person says that these are expected
    let mut daemon = Daemon::start(&config);
    await_committed(&mut daemon, &broker, &topic);
    assert!(daemon.is_ready());
    assert_eq!(daemon.stop(), Ended::Code(0));
    assert_holds(&config, "BAD", &REQUESTS, &items);
    let mut letters: BTreeMap<Position, Vec<u8>> = BTreeMap::new();
    for letter in broker.read_all(&config.dead_letters) {
        let (_, partition, offset) = source_of(&letter);
        letters.insert((partition, offset), letter.payload.unwrap());
    }
    assert_eq!(letters.len(), 210, "each bad one, some perhaps twice");
}

#[test]
fn a_share_of_bad_records_is_a_flood_too() {
    let Some(broker) = Broker::shared() else { return };
    let folder = Folder::new();
    let topic = broker.new_topic("items", 1);
    let config = configured(&broker, &folder, &topic).set(&[
        "dead_letters.most_consecutive=0",
        "dead_letters.most_share=0.3",
        "dead_letters.window=100",
    ]);
    let records = (0..300)
        .map(|number| if number % 2 == 0 { record(&good(number, 300)) } else { Record::new("BAD", "bad") });
    broker.produce(&topic, records);
    let mut daemon = Daemon::start(&config);
    await_logged(&mut daemon, "nothing more is taken");
    wait_until(LIMIT, "the reason is said", || {
        daemon.state()["paused"]["flood"].as_str().is_some_and(|reason| reason.contains("most_share"))
    });
    assert_eq!(daemon.stop(), Ended::Code(0));
}

#[test]
fn a_confluent_frame_is_taken_off_and_one_that_is_missing_is_a_dead_letter() {
    let Some(broker) = Broker::shared() else { return };
    let folder = Folder::new();
    let topic = broker.new_topic("items", 1);
    let event = folder.write_event("event.json", &days("BAD", 2));
    let config = DaemonConfig::new(broker.address(), &folder.path("data"))
        .source_with(json!({ "topic": topic, "format": "crisisfacts", "frame": "confluent" }))
        .event_file(&event)
        .set(&["index.commit_interval=1s"]);
    let items: Vec<Value> = (0..10).map(|number| good(number, 10)).collect();
    let framed = |item: &Value| {
        let mut bytes = vec![0, 0, 0, 0, 7];
        bytes.extend_from_slice(item.to_string().as_bytes());
        Record::new("BAD", bytes)
    };
    broker.produce(&topic, items.iter().map(framed));
    broker.produce(&topic, [record(&good(11, 12))]);
    let mut daemon = Daemon::start(&config);
    await_committed(&mut daemon, &broker, &topic);
    assert_eq!(daemon.stop(), Ended::Code(0));
    assert_holds(&config, "BAD", &REQUESTS, &items);
    let letters = broker.read_all(&config.dead_letters);
    assert_eq!(letters.len(), 1);
    assert_eq!(letters[0].json(), good(11, 12));
    assert_eq!(letters[0].header("error_code"), Some("bad_shape"));
}

#[test]
fn a_bad_record_that_is_too_large_for_the_dead_letter_topic_does_not_stop_the_stream() {
    let Some(broker) = Broker::shared() else { return };
    let folder = Folder::new();
    let topic = broker.new_topic("items", 1);
    let config = configured(&broker, &folder, &topic);
    // The broker takes 16 MiB: one has no room for a letter's headers, one is packed and larger than any letter
    let mut random = Random::new(3);
    let noise = (0..(16 << 20) - 200).map(|_| u8::try_from(random.below(256)).unwrap()).collect();
    let full = Record { payload: Some(noise), ..Record::default() };
    let packed = Record { payload: Some(vec![b'y'; 40 << 20]), ..Record::default() };
    let large = Record { payload: Some(vec![b'z'; 12 << 20]), ..Record::default() };
    broker.produce(&topic, [full, large]);
    broker.produce_packed(&topic, [packed]);
    broker.produce(&topic, [record(&good(1, 10))]);
    let mut daemon = Daemon::start(&config);
    await_ready(&mut daemon);
    await_committed(&mut daemon, &broker, &topic);
    assert_eq!(daemon.stop(), Ended::Code(0));
    let mut letters = broker.read_all(&config.dead_letters);
    letters.sort_by_key(|letter| source_of(letter).2);
    let seen: Vec<(i64, usize, Option<&str>)> = letters
        .iter()
        .map(|letter| {
            let bytes = letter.payload.as_ref().map_or(0, Vec::len);
            (source_of(letter).2, bytes, letter.header("left_out_bytes"))
        })
        .collect();
    assert_eq!(
        seen,
        [(0, 0, Some("16777016")), (1, 12 << 20, None), (2, 0, Some("41943040"))],
        "what has room is kept, of the others one is told where they lie"
    );
    assert_holds(&config, "BAD", &REQUESTS, &[good(1, 10)]);
}
