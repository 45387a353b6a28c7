//! After a repair the stream is read again, and the shards hold exactly its items.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod support;

use std::{
    path::PathBuf,
    sync::{Arc, Mutex},
};

use nuggetd::{
    clean::Cleaner,
    config::IndexConfig,
    feed::read_events,
    index::{Preparer, ShardKey, ShardOptions, Shards, shard_folder},
    intake::{DeadLetters, Intake, Place},
    ledger::{Announcer, Heard, Ledger, Outbox},
    model::{
        Event, EventId, Item, Language, RequestId, RequestState, RequestStatus, Seconds, SourceType,
        StreamId, UnixSeconds,
    },
    schedule::ScheduleConfig,
    upkeep::{Partitions, Rebuild, Reset, State, put_ledger_aside},
};
use support::{DAY, Folder, START, event};

const TOPIC: &str = "items";

struct NoLetters;

impl DeadLetters for NoLetters {
    fn sync(&mut self) -> std::io::Result<u64> {
        Ok(0)
    }
}

/// A topic of two partitions: in each, items of both days take turns.
fn topic(per_partition: u64) -> Vec<(i32, u64, Item)> {
    let mut records = Vec::new();
    for offset in 0..per_partition {
        for partition in [0, 1] {
            let day = i64::try_from(offset % 2).unwrap();
            let number = offset * 2 + u64::try_from(partition).unwrap();
            records.push((partition, offset, item(number, START + day * DAY)));
        }
    }
    records
}

fn item(number: u64, time: i64) -> Item {
    Item {
        event: EventId::new("E-1").unwrap(),
        stream_id: StreamId::new(format!("E-1-Twitter-{number}-0")).unwrap(),
        unix_timestamp: UnixSeconds::new(time).unwrap(),
        text: format!("{number} homes destroyed"),
        source_type: SourceType::from_name("Twitter"),
        source: None,
        language: None,
        origin: None,
    }
}

fn key(request: &str) -> ShardKey {
    (EventId::new("E-1").unwrap(), RequestId::new(request).unwrap())
}

/// What a daemon is, apart from Kafka.
struct Site {
    folder: Folder,
    events: Vec<Arc<Event>>,
}

struct Running {
    intake: Intake,
    ledger: Arc<Mutex<Ledger>>,
    preparer: Preparer,
}

impl Site {
    fn new() -> Self {
        let folder = Folder::new();
        let requests = [("E-1-r0", START, START + DAY - 1), ("E-1-r1", START + DAY, START + 2 * DAY - 1)];
        let path = folder.write_event("event.json", &event("E-1", &requests));
        let events = read_events(&[path]).unwrap().into_iter().map(Arc::new).collect();
        std::fs::create_dir(folder.path("data")).unwrap();
        Self { folder, events }
    }

    fn data(&self) -> PathBuf {
        self.folder.path("data")
    }

    fn state(&self) -> State {
        State::of(&self.data()).unwrap()
    }

    fn start(&self) -> Running {
        let ledger = Ledger::open(&self.data().join("ledger.sqlite")).unwrap();
        let ledger = Arc::new(Mutex::new(ledger));
        let options = ShardOptions { writer_memory: 15_000_000, near_threshold: Some(0.8) };
        let schedule = ScheduleConfig { lateness: Seconds(30 * DAY), ..ScheduleConfig::default() };
        let intake = Intake::new(
            &self.events,
            Shards::new(&self.data(), options, 4),
            &schedule,
            IndexConfig::default(),
            Arc::clone(&ledger),
            Some(Arc::new(Announcer { configuration: "test".to_owned() })),
        );
        let preparer = Preparer::new(Arc::new(Cleaner::new()));
        Running { intake: intake.unwrap(), ledger, preparer }
    }

    /// The numbers of the items in a shard, sorted.
    fn held(&self, request: &str) -> Vec<u64> {
        let path = shard_folder(&self.data(), &key(request));
        let snapshot = nuggetd::index::Snapshot::open(&path, None).unwrap();
        let mut numbers: Vec<u64> = (0..snapshot.items())
            .map(|arrival| {
                let id = snapshot.item(arrival).unwrap().stream_id.to_string();
                id.split('-').nth(3).unwrap().parse().unwrap()
            })
            .collect();
        numbers.sort_unstable();
        numbers
    }

    /// Both shards hold the topic's items, each once.
    fn assert_exact(&self, records: &[(i32, u64, Item)]) {
        for (request, day) in [("E-1-r0", 0), ("E-1-r1", 1)] {
            let of_day = records.iter().filter(|(_, offset, _)| offset % 2 == day);
            let mut expected: Vec<u64> = of_day
                .map(|(partition, offset, _)| offset * 2 + u64::try_from(*partition).unwrap())
                .collect();
            expected.sort_unstable();
            assert_eq!(self.held(request), expected, "{request}");
        }
    }
}

impl Running {
    /// Reads the partitions from where the intake wants them, the second one first: its shards commit while the other
    /// partition stands before what they have.
    fn read(&mut self, records: &[(i32, u64, Item)]) -> u64 {
        let starts: Vec<(String, i32, u64)> = [0, 1]
            .into_iter()
            .map(|partition| {
                let first = self.intake.lowest_first(TOPIC, partition, false);
                let start = self.intake.next_offset(TOPIC, partition).or(first).unwrap_or(0);
                (TOPIC.to_owned(), partition, start)
            })
            .collect();
        self.intake.assigned(&starts).unwrap();
        for partition in [1, 0] {
            let start = starts.iter().find(|start| start.1 == partition).unwrap().2;
            for (_, offset, item) in records.iter().filter(|(of, at, _)| *of == partition && *at >= start) {
                let prepared = self.preparer.prepare(item.clone(), Language::English);
                let place = Place { topic: TOPIC, partition, offset: *offset };
                self.intake.take(place, vec![prepared], None).unwrap();
            }
            self.intake.commit(&mut NoLetters).unwrap();
        }
        self.intake.take_tally().again
    }

    /// What the outbox says of requests, as the requests topic would tell it.
    fn published(&self) -> Vec<RequestStatus> {
        let waiting = self.ledger.lock().unwrap().waiting(0, 1000).unwrap();
        let entries = waiting.into_iter().flat_map(|waiting| waiting.batch.entries);
        let requests = entries.filter(|entry| entry.topic == Outbox::Requests);
        requests.map(|entry| serde_json::from_str(&entry.value.unwrap()).unwrap()).collect()
    }

    /// Learns what the requests topic says, as a start does.
    fn learn(&mut self, statuses: &[RequestStatus]) {
        let heard: Vec<Heard> =
            statuses.iter().map(|status| Heard::Request(Box::new(status.clone()))).collect();
        {
            let mut ledger = self.ledger.lock().unwrap();
            ledger.forget_heard().unwrap();
            ledger.hear(&heard).unwrap();
            for partition in [0, 1] {
                ledger.take_over(TOPIC, partition, false).unwrap();
            }
        }
        self.intake.reload().unwrap();
    }
}

#[test]
fn a_rebuilt_shard_has_its_items_and_the_others_keep_theirs() {
    let (site, records) = (Site::new(), topic(30));
    assert_eq!(site.start().read(&records), 0);
    site.assert_exact(&records);
    let (event, request) = key("E-1-r1");
    let rebuild = Rebuild::apply(&site.state(), &event, Some(&request)).unwrap();
    assert!(rebuild.unplaced.is_empty());
    let back: Vec<_> =
        rebuild.partitions.iter().map(|again| (again.partition, again.from, again.to)).collect();
    assert_eq!(back, [(0, 30, 1), (1, 30, 1)]);
    // More has come meanwhile; the daemon is killed when it has read one partition
    let records = topic(40);
    let of_second: Vec<_> = records.iter().filter(|record| record.0 == 1).cloned().collect();
    assert!(site.start().read(&of_second) > 0);
    assert!(site.start().read(&records) > 0);
    site.assert_exact(&records);
}

#[test]
fn without_its_ledger_a_daemon_takes_nothing_twice() {
    let (site, records) = (Site::new(), topic(30));
    let mut first = site.start();
    first.read(&records);
    let published = first.published();
    drop(first);
    assert_eq!(published.len(), 4, "two requests, told of again as the other partition had its first item");
    put_ledger_aside(&site.state()).unwrap();
    let records = topic(40);
    let mut second = site.start();
    second.learn(&published);
    assert_eq!(second.intake.lowest_first(TOPIC, 0, false), Some(0));
    assert_eq!(second.read(&records), 60);
    site.assert_exact(&records);
}

#[test]
fn without_ledger_and_topics_a_daemon_takes_nothing_twice() {
    let (site, records) = (Site::new(), topic(30));
    site.start().read(&records);
    put_ledger_aside(&site.state()).unwrap();
    assert_eq!(site.start().read(&records), 60);
    site.assert_exact(&records);
}

#[test]
fn after_a_reset_the_new_topic_is_read_from_its_beginning() {
    let (site, old) = (Site::new(), topic(30));
    let mut first = site.start();
    first.read(&old);
    // What is published says where the first items stood in the old topic
    let mut published = first.published();
    for status in &mut published {
        (status.state, status.revision) = (RequestState::Interim, Some(0));
    }
    let last_of_each: Vec<RequestStatus> = published.split_off(published.len() - 2);
    first.learn(&last_of_each);
    assert_eq!(first.intake.lowest_first(TOPIC, 1, false), Some(0));
    drop(first);
    let of = Partitions { topic: Some(TOPIC.to_owned()), partition: None };
    let reset = Reset::apply(&site.state(), &of).unwrap();
    assert_eq!((reset.shards.len(), reset.ledger.positions.len(), reset.ledger.requests.len()), (2, 2, 2));
    let mut second = site.start();
    second.learn(&last_of_each);
    for partition in [0, 1] {
        assert_eq!(second.intake.next_offset(TOPIC, partition), None);
        assert_eq!(second.intake.lowest_first(TOPIC, partition, false), None);
    }
    // The new topic is shorter and holds other items
    let new: Vec<_> = (0..10).map(|offset| (0, offset, item(1000 + offset, START))).collect();
    assert_eq!(second.read(&new), 0);
    assert_eq!(site.held("E-1-r0").len(), 30 + 10);
    assert_eq!(site.held("E-1-r1").len(), 30);
    // What is told from now on is believed
    let told = second.published();
    assert_eq!(told.last().unwrap().first.iter().collect::<Vec<_>>(), [(TOPIC, 0, 0)]);
}
