//! What the storms share: an archive of real texts for many events, its stream into a topic, and what must hold when all
//! is over.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt, fs,
    path::PathBuf,
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use super::{
    DAY, Folder, START, event, json_lines,
    kafka::{Client, Daemon, DaemonConfig, Record},
    read_lines, real_data, replay_command,
};

/// One record in so many is bad.
const ITEMS_A_BAD_ONE: usize = 500;

/// Pseudo-random numbers; the same seed gives the same storm.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// A number below `bound`.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }

    /// A time between two, in milliseconds.
    pub(crate) fn between(&mut self, from: u64, to: u64) -> Duration {
        Duration::from_millis(from + self.below(to - from))
    }
}

/// How large a storm is.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Size {
    pub(crate) items: usize,
    pub(crate) kills: usize,
}

/// The small size, or with `NUGGETD_STORM=full` the large one.
pub(crate) fn size(small: Size, full: Size) -> Size {
    if std::env::var("NUGGETD_STORM").is_ok_and(|storm| storm == "full") { full } else { small }
}

/// An archive for many events, three days each.
pub(crate) struct Archive {
    pub(crate) events: Vec<String>,
    pub(crate) event_file: PathBuf,
    /// Items in the order of time.
    pub(crate) items: Vec<Value>,
}

impl Archive {
    /// Real texts where there are any, told over and over with numbers of their own.
    pub(crate) fn new(folder: &Folder, events: usize, items: usize) -> Self {
        let texts = texts();
        let events: Vec<String> = (0..events).map(|number| format!("STORM-{number:02}")).collect();
        let described: Vec<Value> = events
            .iter()
            .map(|id| {
                let days: Vec<String> = (0..3).map(|day| format!("{id}-r{day}")).collect();
                let bounds = |day: i64| (START + day * DAY, START + (day + 1) * DAY - 1);
                let requests: Vec<(&str, i64, i64)> = days
                    .iter()
                    .zip(0..)
                    .map(|(name, day)| (name.as_str(), bounds(day).0, bounds(day).1))
                    .collect();
                event(id, &requests)
            })
            .collect();
        let event_file = folder.write("storm.events.json", Value::from(described).to_string());
        let items: Vec<Value> = (0..items)
            .map(|number| {
                let id = &events[number % events.len()];
                let time =
                    START + i64::try_from(number).unwrap() * (3 * DAY - 1) / i64::try_from(items).unwrap();
                let text = &texts[(number * 7919) % texts.len()];
                json!({
                    "event": id,
                    "streamID": format!("{id}-Twitter-{number}-0"),
                    "unixTimestamp": time,
                    "text": format!("{text} ({})", number % 1009),
                    "sourceType": "Twitter",
                    "source": { "user": { "screen_name": format!("author{}", number % 311) } },
                })
            })
            .collect();
        Self { events, event_file, items }
    }

    /// The records as they go into the topic: each item under its event's key, here and there a bad one.
    pub(crate) fn records(&self) -> impl Iterator<Item = Record> {
        self.items.iter().enumerate().flat_map(move |(number, item)| {
            let good = Record::json(item["event"].as_str().unwrap(), item);
            self.bad_at(number).into_iter().chain([good])
        })
    }

    fn bad(&self) -> impl Iterator<Item = Record> {
        (0..self.items.len()).filter_map(|number| self.bad_at(number))
    }

    /// The bad record that comes before the item of that number, if one does.
    fn bad_at(&self, number: usize) -> Option<Record> {
        let key = self.items[number]["event"].as_str().unwrap();
        (number % ITEMS_A_BAD_ONE == 7).then(|| Record::new(key, format!("no record {number}")))
    }

    /// Sends the records within about so long, on a thread of its own.
    pub(crate) fn send(&self, client: &Client, topic: &str, within: Duration) -> JoinHandle<()> {
        const TOGETHER: usize = 100;
        let records: Vec<Record> = self.records().collect();
        let (client, topic) = (client.clone(), topic.to_owned());
        let pause = within / u32::try_from(records.len() / TOGETHER + 1).unwrap();
        thread::spawn(move || {
            let mut producer = client.producer();
            for records in records.chunks(TOGETHER) {
                for record in records {
                    producer.send(&topic, record);
                }
                thread::sleep(pause);
            }
            producer.flush();
        })
    }

    /// What a file replay of the archive gives, by key of the nuggets topic, without the revision.
    pub(crate) fn expected(&self, folder: &Folder, settings: &[&str]) -> BTreeMap<String, Value> {
        let archive = folder.write("storm.jsonl", json_lines(&self.items));
        let out = folder.path("expected");
        let mut flags: Vec<&str> = Vec::new();
        for setting in settings {
            flags.extend(["--set", setting]);
        }
        let mut command = replay_command(&[archive.as_path()], &[self.event_file.as_path()], &out, &flags);
        assert!(command.output().unwrap().status.success());
        let nuggets = read_lines(&out.join("nuggets.jsonl"));
        assert!(nuggets.len() >= self.events.len(), "a replay finds something to say of each event");
        fs::remove_dir_all(out).unwrap();
        nuggets.into_iter().map(|nugget| (key(&nugget), without_revision(nugget))).collect()
    }

    /// The items that belong in a request's shard.
    pub(crate) fn of_request(&self, event: &str, day: i64) -> Vec<String> {
        let bounds = START + day * DAY..START + (day + 1) * DAY;
        let mut ids: Vec<String> = self
            .items
            .iter()
            .filter(|item| {
                item["event"] == event && bounds.contains(&item["unixTimestamp"].as_i64().unwrap())
            })
            .map(|item| item["streamID"].as_str().unwrap().to_owned())
            .collect();
        ids.sort();
        ids
    }
}

fn texts() -> Vec<String> {
    let Some(folder) = real_data("archives") else {
        return (0..500)
            .map(|n| format!("{n} homes burn on road {} near shelter {}", n * 7 % 97, n % 13))
            .collect();
    };
    let mut files: Vec<PathBuf> = fs::read_dir(folder.join("crisislex26"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| {
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            name.ends_with(".jsonl.gz") && !name.contains(".labels.")
        })
        .collect();
    files.sort();
    let items = files.iter().take(12).flat_map(|file| read_lines(file));
    items.filter_map(|item| Some(item["text"].as_str()?.to_owned())).filter(|text| !text.is_empty()).collect()
}

pub(crate) fn key(nugget: &Value) -> String {
    let text = |name: &str| nugget[name].as_str().unwrap().to_owned();
    format!("{}/{}/{}", text("event"), text("requestID"), text("nuggetID"))
}

pub(crate) fn without_revision(mut nugget: Value) -> Value {
    nugget.as_object_mut().unwrap().remove("revision");
    nugget
}

/// Lets daemons work for so long. None of them may end by itself, whatever happens to the others.
pub(crate) fn live_for<'a>(time: Duration, daemons: impl IntoIterator<Item = &'a mut Daemon>) {
    let mut daemons: Vec<&mut Daemon> = daemons.into_iter().collect();
    thread::sleep(time);
    for daemon in &mut daemons {
        assert!(!daemon.has_ended(), "a daemon ended by itself:\n{}", last_lines(daemon));
    }
}

/// The end of a daemon's log.
fn last_lines(daemon: &Daemon) -> String {
    let log = daemon.log();
    let lines: Vec<&str> = log.lines().collect();
    lines[lines.len().saturating_sub(30)..].join("\n")
}

/// Whether a daemon has read and finished all that its partitions hold.
pub(crate) fn is_finished(daemon: &mut Daemon) -> bool {
    let state = daemon.state();
    let partitions = state["assignment"]
        .as_object()
        .unwrap()
        .values()
        .flat_map(|topic| topic.as_object().unwrap().values().cloned().collect::<Vec<Value>>());
    let read = partitions.into_iter().all(|partition| {
        let high = partition["highWatermark"].as_i64();
        high == Some(0) || (high.is_some() && partition["committedOffset"].as_i64() == high)
    });
    let is_zero = |value: &Value| value.as_u64() == Some(0);
    read && state["openRequests"].as_array().unwrap().is_empty()
        && is_zero(&state["runs"]["running"])
        && is_zero(&state["runs"]["waiting"])
        && is_zero(&state["outbox"]["batches"])
}

/// Waits until these daemons together have all partitions, and have read and finished everything for a while.
pub(crate) fn await_finished<'a>(
    daemons: impl IntoIterator<Item = &'a mut Daemon>,
    partitions: usize,
    quiet: Duration,
) {
    let mut daemons: Vec<&mut Daemon> = daemons.into_iter().collect();
    let began = Instant::now();
    let mut since: Option<Instant> = None;
    loop {
        for daemon in &mut daemons {
            assert!(!daemon.has_ended(), "a daemon ended by itself:\n{}", last_lines(daemon));
        }
        let has_all = daemons.iter_mut().map(|daemon| assigned(daemon).len()).sum::<usize>() == partitions;
        if has_all && daemons.iter_mut().all(|daemon| is_finished(daemon)) {
            if since.get_or_insert_with(Instant::now).elapsed() > quiet {
                return;
            }
        } else {
            since = None;
        }
        if began.elapsed() > Duration::from_secs(150) {
            for daemon in &mut daemons {
                eprintln!("{}\n{}\n", daemon.state(), last_lines(daemon));
            }
            panic!("not all is read and run");
        }
        thread::sleep(Duration::from_millis(50));
    }
}

/// The partitions that a daemon has.
pub(crate) fn assigned(daemon: &mut Daemon) -> Vec<i32> {
    let state = daemon.state();
    let topics = state["assignment"].as_object().unwrap().values();
    topics.flat_map(|topic| topic.as_object().unwrap().keys().map(|number| number.parse().unwrap())).collect()
}

/// What the topics hold at the end, in numbers.
#[derive(Debug, Default)]
pub(crate) struct Published {
    /// Records of the nuggets topic, withdrawals among them.
    pub(crate) records: usize,
    /// Distinct pairs of key and revision.
    pub(crate) keys_and_revisions: usize,
    /// Records whose key and revision were there before, with the same value.
    pub(crate) repeated: usize,
    /// Withdrawals.
    pub(crate) withdrawn: usize,
    /// Nuggets that stand.
    pub(crate) latest: usize,
    pub(crate) largest_revision: u64,
    /// Records of the requests topic.
    pub(crate) statuses: usize,
}

impl fmt::Display for Published {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            formatter,
            "{} records in the nuggets topic, {} pairs of key and revision, {} of them repeated with the same value, \
             {} withdrawals, {} nuggets that stand, up to revision {}, {} records in the requests topic",
            self.records,
            self.keys_and_revisions,
            self.repeated,
            self.withdrawn,
            self.latest,
            self.largest_revision,
            self.statuses
        )
    }
}

/// What the dead-letter topic holds at the end, in numbers.
#[derive(Debug)]
pub(crate) struct Letters {
    pub(crate) records: usize,
    pub(crate) distinct: usize,
}

impl fmt::Display for Letters {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} dead letters of {} bad records", self.records, self.distinct)
    }
}

/// Every nugget that is expected is in the topic, no other stands, and no key has two values in one revision.
pub(crate) fn check_nuggets(
    client: &Client,
    config: &DaemonConfig,
    expected: &BTreeMap<String, Value>,
) -> Published {
    let mut published = Published::default();
    let mut values: BTreeMap<(String, u64), Vec<u8>> = BTreeMap::new();
    for record in client.read_all(&config.nuggets) {
        published.records += 1;
        let Some(value) = &record.payload else {
            published.withdrawn += 1;
            continue;
        };
        let revision = record.json()["revision"].as_u64().unwrap();
        published.largest_revision = published.largest_revision.max(revision);
        let place = (record.key().to_owned(), revision);
        match values.get(&place) {
            Some(before) => {
                assert_eq!(before, value, "two values of {place:?}");
                published.repeated += 1;
            }
            None => {
                values.insert(place, value.clone());
            }
        }
    }
    published.keys_and_revisions = values.len();
    let latest: BTreeMap<String, Value> = client
        .latest_by_key(&config.nuggets)
        .into_iter()
        .map(|(key, record)| (key, without_revision(record.json())))
        .collect();
    published.latest = latest.len();
    for (key, value) in expected {
        assert_eq!(latest.get(key), Some(value), "{key}");
    }
    let more: Vec<&String> = latest.keys().filter(|key| !expected.contains_key(*key)).collect();
    assert!(more.is_empty(), "nobody expects {more:?}");
    let counts = expected.keys().fold(BTreeMap::<String, u64>::new(), |mut counts, key| {
        let request = key.rsplit_once('/').unwrap().0;
        *counts.entry(request.to_owned()).or_default() += 1;
        counts
    });
    published.statuses = client.read_all(&config.requests).len();
    let finished = client.latest_by_key(&config.requests);
    for request in counts.keys() {
        assert!(finished.contains_key(request), "nothing is said of {request}");
    }
    for (key, record) in finished {
        let status = record.json();
        assert_eq!(status["state"], "final", "{key}: {status}");
        assert_eq!(status["run"]["nuggets"].as_u64(), Some(counts.get(&key).copied().unwrap_or(0)), "{key}");
    }
    published
}

/// Every bad record is a dead letter, at least once, with the bytes as they came, and nothing else is.
pub(crate) fn check_dead_letters(client: &Client, config: &DaemonConfig, archive: &Archive) -> Letters {
    let letters: Vec<Vec<u8>> =
        client.read_all(&config.dead_letters).into_iter().filter_map(|record| record.payload).collect();
    let found: BTreeSet<&[u8]> = letters.iter().map(Vec::as_slice).collect();
    let bad: Vec<Vec<u8>> = archive.bad().filter_map(|record| record.payload).collect();
    assert!(!bad.is_empty(), "there are bad records");
    assert_eq!(found, bad.iter().map(Vec::as_slice).collect::<BTreeSet<_>>());
    Letters { records: letters.len(), distinct: bad.len() }
}

/// The stream ids of a shard, sorted; nothing where there is no such shard.
pub(crate) fn shard(config: &DaemonConfig, event: &str, day: i64) -> Option<Vec<String>> {
    let path = config.data_dir.join("shards").join(event).join(format!("{event}-r{day}"));
    if !path.join("meta.json").exists() {
        return None;
    }
    let snapshot = nuggetd::index::Snapshot::open(&path, None).unwrap();
    let ids = (0..snapshot.items()).map(|arrival| snapshot.item(arrival).unwrap().stream_id.to_string());
    let mut ids: Vec<String> = ids.collect();
    ids.sort();
    Some(ids)
}
