//! The daemon as a process: signals, its folder, a disk without room, state that somebody has damaged, its endpoints.

#![allow(clippy::unwrap_used, clippy::panic, clippy::float_cmp, reason = "tests; counts are whole numbers")]

mod support;

use std::{
    collections::BTreeSet,
    fs,
    io::{BufRead, BufReader},
    net::TcpListener,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use serde_json::Value;
use support::{
    Folder,
    kafka::{Broker, Client, Daemon, DaemonConfig, Ended, wait_until},
    live::{
        LIMIT, assert_holds, await_committed, await_logged, await_ready, days, hold_ledger, item, record,
    },
};

const REQUESTS: [&str; 2] = ["A-r0", "A-r1"];
/// What `shutdown.grace` is by default.
const GRACE: Duration = Duration::from_secs(25);

fn configured(broker: &Client, folder: &Folder, topic: &str) -> DaemonConfig {
    let event = folder.write_event("event.json", &days("A", 2));
    let config = DaemonConfig::new(broker.address(), &folder.path("data")).source(topic, "crisisfacts");
    config.event_file(&event).set(&[
        "index.commit_interval=1s",
        "schedule.idle=1h",
        // Whoever is not let go in order keeps its place in the group so long
        "kafka.consumer.session.timeout.ms=6000",
        "kafka.consumer.heartbeat.interval.ms=1000",
    ])
}

/// Items with these numbers, one every 4 seconds.
fn items(numbers: std::ops::Range<usize>) -> Vec<Value> {
    numbers.map(|number| item("A", number, 4 * i64::try_from(number).unwrap())).collect()
}

/// How it ended, and the error that it said last.
fn error_of(daemon: &mut Daemon) -> (Ended, String) {
    let ended = daemon.wait(LIMIT);
    let log = daemon.log();
    let error = log.lines().rfind(|line| line.starts_with("error: "));
    (ended, error.unwrap_or_else(|| panic!("no error in {log}")).to_owned())
}

#[test]
fn told_to_end_under_load_it_ends_in_time_and_reads_nothing_twice() {
    let Some(broker) = Broker::shared() else { return };
    let folder = Folder::new();
    let topic = broker.new_topic("items", 3);
    let config = configured(&broker, &folder, &topic).set(&[
        "schedule.refresh=1s",
        "kafka.group_instance_id=one",
        "index.commit_interval=5s",
    ]);
    let done = Arc::new(AtomicBool::new(false));
    let sending = {
        let (client, topic, done) = (broker.client(), topic.clone(), Arc::clone(&done));
        thread::spawn(move || {
            let mut producer = client.producer();
            let mut sent = 0;
            while !done.load(Ordering::Relaxed) && sent < 40_000 {
                for item in items(sent..sent + 100) {
                    producer.send(&topic, &record(&item));
                }
                sent += 100;
                thread::sleep(Duration::from_millis(40));
            }
            producer.flush();
            sent
        })
    };
    let metric =
        |daemon: &mut Daemon, name: &str, labels: &[&str]| daemon.metric(name, labels).unwrap_or(0.0);
    let mut longest = Duration::ZERO;
    for least in [1.0, 300.0, 3_000.0] {
        let mut daemon = Daemon::start(&config);
        wait_until(LIMIT, "items are taken", || metric(&mut daemon, "nuggetd_items_total", &[]) >= least);
        assert!(metric(&mut daemon, "nuggetd_messages_total", &["outcome=\"repeated\""]) < 1.0);
        let asked = Instant::now();
        assert_eq!(daemon.stop(), Ended::Code(0), "{}", daemon.log());
        longest = longest.max(asked.elapsed());
    }
    assert!(longest < GRACE, "{longest:?}");
    done.store(true, Ordering::Relaxed);
    let sent = sending.join().unwrap();
    let mut daemon = Daemon::start(&config);
    await_committed(&mut daemon, &broker, &topic);
    assert!(metric(&mut daemon, "nuggetd_messages_total", &["outcome=\"repeated\""]) < 1.0);
    assert_eq!(daemon.stop(), Ended::Code(0));
    assert_holds(&config, "A", &REQUESTS, &items(0..sent));
    eprintln!("told to end under load: within {} ms, {sent} items", longest.as_millis());
}

#[test]
fn told_a_second_time_it_leaves_at_once() {
    let Some(broker) = Broker::shared() else { return };
    let folder = Folder::new();
    let topic = broker.new_topic("items", 1);
    let config = configured(&broker, &folder, &topic);
    let mut daemon = Daemon::start(&config);
    await_ready(&mut daemon);
    let ledger = hold_ledger(&config);
    broker.produce(&topic, items(0..100).iter().map(record));
    // The first commit waits, perhaps before all of them have come
    wait_until(LIMIT, "items are taken", || daemon.metric("nuggetd_items_total", &[]).is_some());
    daemon.signal("TERM");
    wait_until(LIMIT, "it finishes what is under way", || daemon.has_logged("told to end"));
    assert!(!daemon.has_ended());
    daemon.signal("INT");
    assert_eq!(daemon.wait(Duration::from_secs(5)), Ended::Code(75));
    drop(ledger);
    let mut daemon = Daemon::start(&config);
    await_committed(&mut daemon, &broker, &topic);
    assert_eq!(daemon.stop(), Ended::Code(0));
    assert_holds(&config, "A", &REQUESTS, &items(0..100));
}

#[test]
fn what_does_not_end_within_the_grace_period_goes_on_after_a_restart() {
    let Some(broker) = Broker::shared() else { return };
    let folder = Folder::new();
    let topic = broker.new_topic("items", 1);
    let config = configured(&broker, &folder, &topic);
    let hasty = config.clone().set(&["shutdown.grace=2s"]);
    let mut daemon = Daemon::start(&hasty);
    await_ready(&mut daemon);
    let ledger = hold_ledger(&config);
    broker.produce(&topic, items(0..100).iter().map(record));
    // The first commit waits, perhaps before all of them have come
    wait_until(LIMIT, "items are taken", || daemon.metric("nuggetd_items_total", &[]).is_some());
    daemon.signal("TERM");
    let asked = Instant::now();
    let (ended, error) = error_of(&mut daemon);
    assert_eq!(ended, Ended::Code(75), "{error}");
    assert!(error.contains("grace period"), "{error}");
    assert!(asked.elapsed() < Duration::from_secs(6), "{:?}", asked.elapsed());
    drop(ledger);
    let mut daemon = Daemon::start(&config);
    await_committed(&mut daemon, &broker, &topic);
    assert_eq!(daemon.stop(), Ended::Code(0));
    assert_holds(&config, "A", &REQUESTS, &items(0..100));
}

#[test]
fn a_ledger_that_another_program_keeps_for_itself_is_named_and_costs_nothing() {
    let Some(broker) = Broker::shared() else { return };
    let folder = Folder::new();
    let topic = broker.new_topic("items", 1);
    let config = configured(&broker, &folder, &topic);
    let mut daemon = Daemon::start(&config);
    await_ready(&mut daemon);
    let ledger = hold_ledger(&config);
    broker.produce(&topic, items(0..100).iter().map(record));
    let (ended, error) = error_of(&mut daemon);
    assert_eq!(ended, Ended::Code(75), "{error}");
    assert!(error.contains("ledger.sqlite") && error.contains("another program has it open"), "{error}");
    drop(ledger);
    let mut daemon = Daemon::start(&config);
    await_committed(&mut daemon, &broker, &topic);
    assert_eq!(daemon.stop(), Ended::Code(0));
    assert_holds(&config, "A", &REQUESTS, &items(0..100));
}

#[test]
fn two_daemons_do_not_share_a_folder() {
    let Some(broker) = Broker::shared() else { return };
    let folder = Folder::new();
    let topic = broker.new_topic("items", 1);
    let config = configured(&broker, &folder, &topic);
    let mut first = Daemon::start(&config);
    await_ready(&mut first);
    let mut second = Daemon::start(&config);
    let (ended, error) = error_of(&mut second);
    assert_eq!(ended, Ended::Code(75), "{error}");
    assert!(error.contains(&*config.data_dir.to_string_lossy()), "{error}");
    assert!(first.is_ready());
    assert_eq!(first.stop(), Ended::Code(0));
}

#[test]
fn a_port_in_use_passes_and_is_not_what_two_daemons_in_a_folder_are_told() {
    let folder = Folder::new();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let listen = format!("http.listen={}", taken.local_addr().unwrap());
    let config = configured(&Client::new("127.0.0.1:1"), &folder, "items").set(&[&listen]);
    let (ended, error) = error_of(&mut Daemon::start(&config));
    assert_eq!(ended, Ended::Code(75), "{error}");
    assert!(error.contains("Address already in use") && error.contains("http.listen"), "{error}");
    let lock = fs::File::create(config.data_dir.join("lock")).unwrap();
    lock.lock().unwrap();
    let (ended, error) = error_of(&mut Daemon::start(&config));
    assert_eq!(ended, Ended::Code(75), "{error}");
    assert!(error.contains("another nuggetd works in"), "{error}");
}

/// A small disk, which processes see that are started through it.
struct Disk {
    holder: Child,
    /// Where it lies for them.
    mounted: PathBuf,
    enter: Vec<String>,
}

impl Disk {
    /// Nothing where the system lets nobody mount anything, which is said.
    fn new(mounted: &Path, size: &str) -> Option<Self> {
        fs::create_dir_all(mounted).unwrap();
        let script = format!(
            "mount -t tmpfs -o size={size} tmpfs '{}' && echo mounted && exec sleep 3600",
            mounted.display()
        );
        // As root, or with a user namespace where the system has such
        let ways = [("-m", &["-m"][..]), ("-rm", &["-U", "--preserve-credentials", "-m"][..])];
        for (unshare, enter) in ways {
            let mut command = Command::new("unshare");
            command.args([unshare, "sh", "-c", &script]).stdin(Stdio::null()).stdout(Stdio::piped());
            let Ok(mut holder) = command.stderr(Stdio::null()).spawn() else { continue };
            let mut line = String::new();
            BufReader::new(holder.stdout.take().unwrap()).read_line(&mut line).unwrap();
            if line.trim() == "mounted" {
                let enter = enter.iter().map(|&flag| flag.to_owned()).collect();
                return Some(Self { holder, mounted: mounted.to_owned(), enter });
            }
            holder.wait().unwrap();
        }
        eprintln!("left out: no small disk can be mounted here");
        None
    }

    /// Starts a daemon that sees the disk.
    fn daemon(&self, config: &DaemonConfig, log: &str) -> Daemon {
        let command = config.command();
        let mut inside = Command::new("nsenter");
        inside.arg("-t").arg(self.holder.id().to_string()).args(&self.enter).arg("--");
        inside.arg(command.get_program()).args(command.get_args());
        Daemon::spawn(inside, config.data_dir.with_extension(log))
    }

    /// A path on it, as this process sees it.
    fn seen(&self, name: &str) -> PathBuf {
        let path = format!("/proc/{}/root{}", self.holder.id(), self.mounted.join(name).display());
        PathBuf::from(path)
    }

    fn free(&self) -> u64 {
        let disk = rustix::fs::statvfs(self.seen("")).unwrap();
        disk.f_bavail * disk.f_frsize
    }

    /// Fills it up to so many free bytes.
    fn fill(&self, free: u64) {
        let size = usize::try_from(self.free().saturating_sub(free)).unwrap();
        fs::write(self.seen("filler"), vec![0; size]).unwrap();
    }

    fn make_room(&self) {
        fs::remove_file(self.seen("filler")).unwrap();
    }

    /// Brings what lies on it to where everybody sees it.
    fn copy_to(&self, folder: &Path) {
        let copied = Command::new("cp").arg("-a").arg(self.seen("shards")).arg(folder).status().unwrap();
        assert!(copied.success());
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        self.holder.kill().unwrap_or_default();
        self.holder.wait().map(drop).unwrap_or_default();
    }
}

/// What lies on the disk is exactly these items.
fn assert_disk_holds(disk: &Disk, config: &DaemonConfig, folder: &Folder, items: &[Value]) {
    let copy = folder.path("copy");
    fs::create_dir_all(&copy).unwrap();
    disk.copy_to(&copy);
    assert_holds(&config.instance(&copy), "A", &REQUESTS, items);
}

#[test]
fn a_disk_with_too_little_room_pauses_the_stream_until_there_is_some() {
    let Some(broker) = Broker::shared() else { return };
    let folder = Folder::new();
    let Some(disk) = Disk::new(&folder.path("disk"), "64m") else { return };
    let topic = broker.new_topic("items", 1);
    let mut config = configured(&broker, &folder, &topic).set(&["index.least_free=24MiB"]);
    config.data_dir = folder.path("disk");
    broker.produce(&topic, items(0..500).iter().map(record));
    let mut daemon = disk.daemon(&config, "log");
    await_committed(&mut daemon, &broker, &topic);
    assert!(daemon.is_ready());

    disk.fill(20 << 20);
    wait_until(LIMIT, "the daemon says that it waits for room", || {
        daemon.state()["paused"]["disk"].as_str().is_some_and(|reason| reason.contains("index.least_free"))
    });
    let (status, body) = daemon.get("/ready");
    assert_eq!((status, body.contains("intake")), (503, true), "{body}");
    assert_eq!(daemon.get("/live").0, 200);
    broker.produce(&topic, items(500..1_000).iter().map(record));
    let partition = |daemon: &mut Daemon| daemon.state()["assignment"][&topic]["0"].clone();
    wait_until(LIMIT, "the end is known", || partition(&mut daemon)["highWatermark"] == 1_000);
    assert_eq!(partition(&mut daemon)["nextOffset"], 500);
    assert_eq!(partition(&mut daemon)["lag"], 500);

    disk.make_room();
    await_committed(&mut daemon, &broker, &topic);
    assert!(daemon.is_ready());
    assert_eq!(daemon.stop(), Ended::Code(0));
    assert_disk_holds(&disk, &config, &folder, &items(0..1_000));
}

#[test]
fn a_full_disk_stops_the_daemon_and_loses_nothing() {
    let Some(broker) = Broker::shared() else { return };
    let folder = Folder::new();
    let Some(disk) = Disk::new(&folder.path("disk"), "64m") else { return };
    let topic = broker.new_topic("items", 1);
    let mut config = configured(&broker, &folder, &topic).set(&["index.least_free=0"]);
    config.data_dir = folder.path("disk");
    let all = items(0..20_000);
    let (before, after) = all.split_at(500);
    broker.produce(&topic, before.iter().map(record));
    let mut daemon = disk.daemon(&config, "0.log");
    await_committed(&mut daemon, &broker, &topic);
    disk.fill(300 << 10);
    broker.produce(&topic, after.iter().map(record));
    let (ended, error) = error_of(&mut daemon);
    assert_eq!(ended, Ended::Code(75), "{error}");
    assert!(error.contains("the disk of") && error.contains("is full"), "{error}");
    // While there is no room it says so again, and loses nothing
    let mut daemon = disk.daemon(&config, "1.log");
    let (ended, error) = error_of(&mut daemon);
    assert_eq!((ended, error.contains("is full")), (Ended::Code(75), true), "{error}");
    disk.make_room();
    let mut daemon = disk.daemon(&config, "2.log");
    await_committed(&mut daemon, &broker, &topic);
    assert_eq!(daemon.stop(), Ended::Code(0));
    assert_disk_holds(&disk, &config, &folder, &all);
}

/// What somebody does to a file.
type Damage = fn(&Path);

fn cut(path: &Path) {
    let length = fs::metadata(path).unwrap().len();
    fs::OpenOptions::new().write(true).open(path).unwrap().set_len(length / 2).unwrap();
}

fn overwrite(path: &Path) {
    let length = usize::try_from(fs::metadata(path).unwrap().len()).unwrap();
    fs::write(path, vec![0x5a; length]).unwrap();
}

fn remove(path: &Path) {
    fs::remove_file(path).unwrap();
}

#[test]
fn damaged_state_is_named_with_the_command_that_mends_it() {
    let Some(broker) = Broker::shared() else { return };
    let folder = Folder::new();
    let topic = broker.new_topic("items", 1);
    let config = configured(&broker, &folder, &topic).set(&["schedule.refresh=1s"]);
    broker.produce(&topic, items(0..500).iter().map(record));
    let mut daemon = Daemon::start(&config);
    await_committed(&mut daemon, &broker, &topic);
    wait_until(LIMIT, "the open request is run", || {
        daemon.metric("nuggetd_request_runs_total", &["outcome=\"interim\""]) >= Some(1.0)
    });
    assert_eq!(daemon.stop(), Ended::Code(0));
    // What comes next is of the same shard
    broker.produce(&topic, items(500..600).iter().map(record));
    let shard = Path::new("shards/A/A-r0");
    let in_shard = |ending: &str| {
        let files = fs::read_dir(config.data_dir.join(shard)).unwrap();
        let mut names: Vec<PathBuf> = files.map(|file| file.unwrap().file_name().into()).collect();
        names.sort();
        let found = names.into_iter().find(|name| name.to_string_lossy().ends_with(ending)).unwrap();
        shard.join(found)
    };
    let cases: [(PathBuf, Damage, &str); 7] = [
        (shard.join("meta.json"), cut, "A-r0"),
        (shard.join("meta.json"), overwrite, "A-r0"),
        (in_shard(".store"), cut, "A-r0"),
        (in_shard(".fast"), overwrite, "A-r0"),
        (in_shard(".store"), remove, "A-r0"),
        ("ledger.sqlite".into(), overwrite, "ledger.sqlite"),
        ("ledger.sqlite".into(), cut, "ledger.sqlite"),
    ];
    for (number, (file, damage, names)) in cases.into_iter().enumerate() {
        let copy = folder.path(&format!("copy{number}"));
        let copied = Command::new("cp").arg("-a").arg(&config.data_dir).arg(&copy).status().unwrap();
        assert!(copied.success());
        damage(&copy.join(&file));
        let mut daemon = Daemon::start(&config.instance(&copy));
        let (ended, error) = error_of(&mut daemon);
        assert!(matches!(ended, Ended::Code(70 | 75)), "{number} {file:?}: {ended:?} {error}");
        assert!(error.contains(names) && error.contains("nuggetd index"), "{number} {file:?}: {error}");
    }
    // Undamaged, all goes on
    let mut daemon = Daemon::start(&config);
    await_committed(&mut daemon, &broker, &topic);
    assert_eq!(daemon.stop(), Ended::Code(0));
    assert_holds(&config, "A", &REQUESTS, &items(0..600));
}

/// Overwrites what stands in a file of tantivy's and keeps its footer, with the right checksum where `is_ours`: as though
/// a fault of ours had written it so. The file is its body, the footer as JSON, the footer's length, and a number that is always the same.
fn spoil(path: &Path, is_ours: bool) {
    let bytes = fs::read(path).unwrap();
    let (rest, magic) = bytes.split_at(bytes.len() - 4);
    let (rest, length) = rest.split_at(rest.len() - 4);
    let length = u32::from_le_bytes(length.try_into().unwrap()) as usize;
    let (body, footer) = rest.split_at(rest.len() - length);
    let mut footer: Value = serde_json::from_slice(footer).unwrap();
    // At the end of the body stands where its parts begin: whatever opens a shard reads it
    let (parts, length) = body.split_at(body.len() - 4);
    let places = parts.len() - u32::from_le_bytes(length.try_into().unwrap()) as usize;
    let body = [&vec![0x5a; places], body.split_at(places).1].concat();
    let crc = body.iter().fold(u32::MAX, |crc, &byte| {
        (0..8).fold(crc ^ u32::from(byte), |crc, _| (crc >> 1) ^ (0xedb8_8320 * (crc & 1)))
    });
    footer["crc"] = if is_ours { !crc } else { crc }.into();
    let footer = footer.to_string();
    let length = u32::try_from(footer.len()).unwrap().to_le_bytes();
    fs::write(path, [&body[..], footer.as_bytes(), &length, magic].concat()).unwrap();
}

#[test]
fn a_run_that_panics_names_the_damaged_shard_or_stays_in_sight() {
    let Some(broker) = Broker::shared() else { return };
    let folder = Folder::new();
    let topic = broker.new_topic("items", 1);
    let config = configured(&broker, &folder, &topic);
    broker.produce(&topic, items(0..500).iter().map(record));
    let mut daemon = Daemon::start(&config);
    await_committed(&mut daemon, &broker, &topic);
    assert_eq!(daemon.stop(), Ended::Code(0));
    let shard = config.data_dir.join("shards/A/A-r0");
    let files = fs::read_dir(&shard).unwrap().map(|file| file.unwrap().path());
    let postings: Vec<PathBuf> =
        files.filter(|path| path.extension().is_some_and(|ending| ending == "idx")).collect();
    let config = config.set(&["schedule.idle=1s"]);

    for file in &postings {
        spoil(file, true);
    }
    let mut daemon = Daemon::start(&config);
    await_logged(&mut daemon, "a run failed by a fault of nuggetd");
    wait_until(LIMIT, "the failed run is told of", || {
        let (status, body) = daemon.get("/ready");
        status == 503 && body.contains("to be run again at the next start: A/A-r0")
    });
    let open = daemon.state()["openRequests"].clone();
    assert_eq!((&open[0]["requestID"], &open[0]["items"]), (&"A-r0".into(), &500.into()), "{open}");
    daemon.signal("TERM");
    assert_eq!(daemon.wait_for_any_end(LIMIT), Ended::Code(0), "{}", daemon.log());
    assert_eq!(daemon.log().lines().count(), daemon.log_lines().len(), "a line is no JSON: {}", daemon.log());
    assert!(daemon.has_logged("a thread panicked"), "{}", daemon.log());

    for file in &postings {
        spoil(file, false);
    }
    let mut daemon = Daemon::start(&config);
    assert_eq!(daemon.wait_for_any_end(LIMIT), Ended::Code(70), "{}", daemon.log());
    let log = daemon.log();
    let error = log.lines().last().unwrap();
    assert!(error.contains("checksum") && error.contains("rebuild --event A --request A-r0"), "{error}");
}

/// Whether every line of the metrics is Prometheus' text format; gives the samples' names.
fn parse_metrics(text: &str) -> BTreeSet<String> {
    let is_name = |name: &str| {
        !name.is_empty()
            && !name.starts_with(|first: char| first.is_ascii_digit())
            && name.chars().all(|char| char.is_ascii_alphanumeric() || char == '_' || char == ':')
    };
    let (mut typed, mut names) = (BTreeSet::new(), BTreeSet::new());
    assert!(text.ends_with('\n'));
    for line in text.lines() {
        if let Some(help) = line.strip_prefix("# HELP ") {
            let (name, words) = help.split_once(' ').unwrap_or_else(|| panic!("no help: {line}"));
            assert!(is_name(name) && !words.is_empty(), "{line}");
            continue;
        }
        if let Some(kind) = line.strip_prefix("# TYPE ") {
            let (name, kind) = kind.split_once(' ').unwrap();
            assert!(["counter", "gauge", "histogram"].contains(&kind), "{line}");
            assert!(typed.insert(name.to_owned()), "{name} has two types");
            continue;
        }
        let (series, value) = line.rsplit_once(' ').unwrap_or_else(|| panic!("no sample: {line}"));
        assert!(value.parse::<f64>().is_ok(), "{line}");
        let (name, labels) = series.split_once('{').unwrap_or((series, "}"));
        let base = ["_bucket", "_sum", "_count"].iter().find_map(|end| name.strip_suffix(end));
        assert!(typed.contains(name) || base.is_some_and(|base| typed.contains(base)), "no type: {line}");
        assert!(is_name(name) && labels.ends_with('}'), "{line}");
        let labels = labels.trim_end_matches('}');
        for label in labels.split(',').filter(|label| !label.is_empty()) {
            let (label, value) = label.split_once('=').unwrap_or_else(|| panic!("no label: {line}"));
            assert!(
                is_name(label) && value.len() >= 2 && value.starts_with('"') && value.ends_with('"'),
                "{line}"
            );
        }
        assert!(names.insert(series.to_owned()), "twice: {line}");
    }
    names
}

#[test]
fn endpoints_tell_of_what_is_ours_and_of_nothing_else() {
    let Some(broker) = Broker::shared() else { return };
    let folder = Folder::new();
    let topic = broker.new_topic("items", 4);
    let config = configured(&broker, &folder, &topic);
    for (partition, item) in (0..4).zip(items(0..4)) {
        broker.produce(&topic, [record(&item).in_partition(partition)]);
    }
    let mut first = Daemon::start(&config);
    await_committed(&mut first, &broker, &topic);
    let lag_series = |daemon: &mut Daemon| -> BTreeSet<String> {
        let names = parse_metrics(&daemon.metrics());
        let of_lag = names.into_iter().filter(|name| name.starts_with("nuggetd_consumer_lag_records{"));
        of_lag
            .filter_map(|name| Some(name.split("partition=\"").nth(1)?.split('"').next()?.to_owned()))
            .collect()
    };
    let partitions = |daemon: &mut Daemon| -> BTreeSet<String> {
        let state = daemon.state();
        state["assignment"][&topic].as_object().into_iter().flatten().map(|(key, _)| key.clone()).collect()
    };
    wait_until(LIMIT, "the lag of all partitions is told", || lag_series(&mut first).len() == 4);
    let (status, body) = first.get("/ready");
    assert_eq!(status, 200, "{body}");
    let ready: Value = serde_json::from_str(&body).unwrap();
    let checks: Vec<&str> =
        ready["checks"].as_array().unwrap().iter().map(|check| check["name"].as_str().unwrap()).collect();
    for check in ["broker", "assignment", "events", "index", "intake", "publisher", "tables"] {
        assert!(checks.contains(&check), "{check} is not among {checks:?}");
    }
    let (status, body) = first.get("/live");
    assert_eq!((status, body.contains("poll"), body.contains("intake")), (200, true, true), "{body}");
    assert_eq!(first.get("/nothing").0, 404);

    let mut second = Daemon::start(&config.instance(&folder.path("second")));
    await_ready(&mut second);
    wait_until(LIMIT, "the partitions are shared", || {
        partitions(&mut first).len() == 2 && partitions(&mut second).len() == 2
    });
    wait_until(LIMIT, "each tells the lag of its own partitions alone", || {
        let (of_first, of_second) = (partitions(&mut first), partitions(&mut second));
        of_first.is_disjoint(&of_second)
            && lag_series(&mut first) == of_first
            && lag_series(&mut second) == of_second
    });
    assert_eq!(first.stop(), Ended::Code(0));
    wait_until(LIMIT, "the second has all", || lag_series(&mut second).len() == 4);
    assert_eq!(second.stop(), Ended::Code(0));
}
