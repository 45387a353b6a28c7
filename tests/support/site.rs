//! What a daemon is, apart from Kafka: a data folder with shards and a ledger, an event of some days, and its intake.

use std::{
    path::PathBuf,
    sync::{Arc, Mutex},
};

use nuggetd::{
    clean::Cleaner,
    config::IndexConfig,
    feed::read_events,
    index::{Preparer, ShardKey, ShardOptions, Shards, Snapshot, shard_folder},
    intake::{DeadLetters, Due, Intake, Place},
    ledger::{Announcer, Heard, Ledger, Outbox},
    model::{Event, EventId, Item, Language, RequestId, RequestStatus, SourceType, StreamId, UnixSeconds},
    schedule::ScheduleConfig,
    upkeep::State,
};

use super::{DAY, Folder, START, event};

pub(crate) const TOPIC: &str = "items";

pub(crate) struct NoLetters;

impl DeadLetters for NoLetters {
    fn sync(&mut self) -> std::io::Result<u64> {
        Ok(0)
    }
}

pub(crate) fn item(number: u64, time: i64) -> Item {
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

pub(crate) fn key(request: &str) -> ShardKey {
    (EventId::new("E-1").unwrap(), RequestId::new(request).unwrap())
}

pub(crate) struct Site {
    folder: Folder,
    events: Vec<Arc<Event>>,
    schedule: ScheduleConfig,
}

pub(crate) struct Running {
    pub(crate) intake: Intake,
    pub(crate) ledger: Arc<Mutex<Ledger>>,
    preparer: Preparer,
}

impl Site {
    /// With event E-1 of the days E-1-r0 and E-1-r1.
    pub(crate) fn new(schedule: ScheduleConfig) -> Self {
        let folder = Folder::new();
        let requests = [("E-1-r0", START, START + DAY - 1), ("E-1-r1", START + DAY, START + 2 * DAY - 1)];
        let path = folder.write_event("event.json", &event("E-1", &requests));
        let events = read_events(&[path]).unwrap().into_iter().map(Arc::new).collect();
        std::fs::create_dir(folder.path("data")).unwrap();
        Self { folder, events, schedule }
    }

    pub(crate) fn event(&self) -> &Event {
        &self.events[0]
    }

    pub(crate) fn data(&self) -> PathBuf {
        self.folder.path("data")
    }

    pub(crate) fn state(&self) -> State {
        State::of(&self.data()).unwrap()
    }

    pub(crate) fn start(&self) -> Running {
        let ledger = Ledger::open(&self.data().join("ledger.sqlite")).unwrap();
        let ledger = Arc::new(Mutex::new(ledger));
        let options = ShardOptions { writer_memory: 15_000_000, near_threshold: Some(0.8) };
        let intake = Intake::new(
            &self.events,
            Shards::new(&self.data(), options, 4),
            &self.schedule,
            IndexConfig::default(),
            Arc::clone(&ledger),
            Some(Arc::new(Announcer { configuration: "test".to_owned() })),
        );
        let preparer = Preparer::new(Arc::new(Cleaner::new()));
        Running { intake: intake.unwrap(), ledger, preparer }
    }

    /// The numbers of the items in a shard, sorted.
    pub(crate) fn held(&self, request: &str) -> Vec<u64> {
        let path = shard_folder(&self.data(), &key(request));
        let snapshot = Snapshot::open(&path, None).unwrap();
        let mut numbers: Vec<u64> = (0..snapshot.items())
            .map(|arrival| {
                let id = snapshot.item(arrival).unwrap().stream_id.to_string();
                id.split('-').nth(3).unwrap().parse().unwrap()
            })
            .collect();
        numbers.sort_unstable();
        numbers
    }
}

impl Running {
    pub(crate) fn assign(&mut self, starts: &[(i32, u64)]) {
        let starts: Vec<_> =
            starts.iter().map(|&(partition, at)| (TOPIC.to_owned(), partition, at)).collect();
        self.intake.assigned(&starts).unwrap();
    }

    pub(crate) fn take(&mut self, partition: i32, offset: u64, item: Item) -> Vec<Due> {
        let prepared = self.preparer.prepare(item, Language::English);
        self.intake.take(Place { topic: TOPIC, partition, offset }, vec![prepared], None).unwrap()
    }

    pub(crate) fn commit(&mut self) {
        self.intake.commit(&mut NoLetters).unwrap();
    }

    /// What the outbox says of requests, as the requests topic would tell it.
    pub(crate) fn published(&self) -> Vec<RequestStatus> {
        let waiting = self.ledger.lock().unwrap().waiting(0, 1000).unwrap();
        let entries = waiting.into_iter().flat_map(|waiting| waiting.batch.entries);
        let requests = entries.filter(|entry| entry.topic == Outbox::Requests);
        requests.map(|entry| serde_json::from_str(&entry.value.unwrap()).unwrap()).collect()
    }

    /// Learns what the requests topic says, as a start does.
    pub(crate) fn learn(&mut self, statuses: &[RequestStatus]) {
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
