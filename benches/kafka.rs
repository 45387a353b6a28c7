//! Beside a broker: `nuggetd run` from an empty folder until everything is committed, and librdkafka alone consuming the
//! same topic to nowhere, in turns; memory over the backlog; and how soon an item is searchable while a stream trickles in.

#[allow(dead_code, reason = "each benchmark uses a part of it")]
mod support;

use std::{
    fs,
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::{TcpListener, TcpStream},
    path::{Path, PathBuf},
    process::{self, Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, bail, ensure};
use rdkafka::{
    ClientConfig,
    consumer::{BaseConsumer, Consumer as _},
    error::KafkaError,
    producer::{BaseProducer, BaseRecord, Producer as _},
};
use serde_json::Value;
use support::{
    NUGGETD,
    archive::{self, Archive},
    report,
};

const PARTITIONS: usize = 12;
const LIMIT: Duration = Duration::from_secs(900);
/// Items a second of the trickle, and for how long.
const TRICKLE: (usize, u64) = (2_000, 30);
const COMMIT_INTERVAL: u64 = 5;

fn main() -> anyhow::Result<()> {
    let Some(data) = support::data() else { return Ok(()) };
    let workspace = support::workspace();
    let archive =
        archive::collection(&data, &workspace, support::setting("NUGGETD_BENCH_KAFKA_SCALE", 0.5)?)?;
    let broker = broker()?;
    fill(&archive, &broker)?;

    let (mut ours, mut bare, mut memory) = (Vec::new(), Vec::new(), Vec::new());
    for repetition in 1..=support::setting("NUGGETD_BENCH_REPS", 3_usize)? {
        bare.push(archive.items as f64 / consume(&broker, archive.items, repetition)?);
        let daemon =
            Daemon::start(&broker, &archive, &workspace, "backlog", &format!("backlog-{repetition}"))?;
        let (seconds, resident) = daemon.until_committed(archive.items)?;
        ours.push(archive.items as f64 / seconds);
        memory = resident;
        eprintln!("kafka: repetition {repetition} done");
    }
    let ratio = report::median(&ours) / report::median(&bare);
    let rows = [
        ("nuggetd, items/s to committed shards", report::spread(&ours, 0)),
        ("librdkafka to nowhere, records/s", report::spread(&bare, 0)),
        ("nuggetd / librdkafka", format!("{:.0} %", ratio * 100.0)),
        ("resident memory at a quarter, half, three quarters and the end", quarters(&memory)),
        ("event to searchable, p50 and p95, seconds", searchable(&broker, &archive, &workspace)?),
    ];
    let rows: Vec<Vec<String>> = rows.into_iter().map(|(name, value)| vec![name.to_owned(), value]).collect();
    let title = format!(
        "From Kafka: {} items of 18 events in {PARTITIONS} partitions; trickle of {} items/s, commit interval {COMMIT_INTERVAL} s",
        report::number(archive.items as f64, 0),
        report::number(TRICKLE.0 as f64, 0)
    );
    report::table(&title, &["what", "median (range)"], &rows)?;
    Ok(())
}

/// A broker that ends with this process.
fn broker() -> anyhow::Result<String> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("scripts/kafka");
    let mut child = Command::new(script)
        .args(["start", "--for", &process::id().to_string()])
        .stdout(Stdio::piped())
        .spawn()
        .context("scripts/kafka")?;
    let stdout = child.stdout.take().context("no output of scripts/kafka")?;
    let mut address = String::new();
    BufReader::new(stdout).read_line(&mut address)?;
    ensure!(address.contains(':'), "scripts/kafka gave no address");
    Ok(address.trim().to_owned())
}

fn fill(archive: &Archive, broker: &str) -> anyhow::Result<()> {
    let status = Command::new(NUGGETD)
        .arg("replay")
        .arg(&archive.items_at)
        .arg("--events")
        .arg(&archive.events_at)
        .args(["--to-kafka", "--topic", "backlog", "--create", &PARTITIONS.to_string()])
        .args(["--set", &format!("kafka.brokers={broker}")])
        .stderr(Stdio::null())
        .status()?;
    ensure!(status.success(), "the topic cannot be filled");
    Ok(())
}

/// Seconds that librdkafka takes to hand over all records to somebody who looks at none.
fn consume(broker: &str, items: usize, repetition: usize) -> anyhow::Result<f64> {
    let consumer: BaseConsumer = ClientConfig::new()
        .set("bootstrap.servers", broker)
        .set("group.id", format!("bare-{repetition}"))
        .set("auto.offset.reset", "earliest")
        .set("enable.auto.commit", "false")
        .set("isolation.level", "read_committed")
        .set("queued.max.messages.kbytes", "16384")
        .create()?;
    let begun = Instant::now();
    consumer.subscribe(&["backlog"])?;
    let mut seen = 0;
    while seen < items {
        ensure!(begun.elapsed() < LIMIT, "consumed {seen} of {items}");
        match consumer.poll(Duration::from_millis(100)) {
            Some(Ok(_)) => seen += 1,
            Some(Err(KafkaError::PartitionEOF(_))) | None => {}
            Some(Err(error)) => bail!("{error}"),
        }
    }
    Ok(begun.elapsed().as_secs_f64())
}

struct Daemon {
    child: Child,
    http: String,
    begun: Instant,
}

impl Daemon {
    fn start(
        broker: &str,
        archive: &Archive,
        workspace: &Path,
        topic: &str,
        group: &str,
    ) -> anyhow::Result<Self> {
        let data_dir: PathBuf = workspace.join("kafka-run");
        if data_dir.exists() {
            fs::remove_dir_all(&data_dir)?;
        }
        let http = TcpListener::bind("127.0.0.1:0")?.local_addr()?.to_string();
        let events = archive.events_at.display();
        let mut command = Command::new(NUGGETD);
        command.arg("run");
        for setting in [
            format!("data_dir={}", data_dir.display()),
            format!("kafka.brokers={broker}"),
            format!("kafka.group={group}"),
            format!("source=[{{topic=\"{topic}\"}}]"),
            format!("events.files=[\"{events}\"]"),
            format!("topics.nuggets={group}.nuggets"),
            format!("topics.requests={group}.requests"),
            format!("http.listen={http}"),
            format!("index.commit_interval={COMMIT_INTERVAL}s"),
            "facts.method=greedy".to_owned(),
        ] {
            command.args(["--set", &setting]);
        }
        let begun = Instant::now();
        Ok(Self { child: command.stderr(Stdio::null()).spawn()?, http, begun })
    }

    fn get(&self, path: &str) -> anyhow::Result<String> {
        let mut stream = TcpStream::connect(&self.http)?;
        write!(stream, "GET {path} HTTP/1.1\r\nHost: nuggetd\r\nConnection: close\r\n\r\n")?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        let (_, body) = answer.split_once("\r\n\r\n").context("no body")?;
        Ok(body.to_owned())
    }

    /// Records of which the shards and the ledger have everything.
    fn committed(&self) -> Option<usize> {
        let state: Value = serde_json::from_str(&self.get("/state").ok()?).ok()?;
        let partitions = state.get("assignment")?.as_object()?.values().filter_map(Value::as_object);
        let next = partitions
            .flat_map(|topic| topic.values())
            .filter_map(|partition| partition.get("committedOffset")?.as_u64());
        usize::try_from(next.sum::<u64>()).ok()
    }

    fn resident(&self) -> Option<u64> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id())).ok()?;
        let line = status.lines().find(|line| line.starts_with("VmRSS:"))?;
        line.split_whitespace().nth(1)?.parse::<u64>().ok().map(|kilobytes| kilobytes * 1024)
    }

    /// Seconds until all is committed, and the resident memory in between.
    fn until_committed(mut self, items: usize) -> anyhow::Result<(f64, Vec<u64>)> {
        let mut resident = Vec::new();
        loop {
            if self.committed().is_some_and(|committed| committed >= items) {
                break;
            }
            ensure!(self.begun.elapsed() < LIMIT, "committed {:?} of {items}", self.committed());
            if let Some(status) = self.child.try_wait()? {
                bail!("the daemon ended: {status}");
            }
            resident.extend(self.resident());
            thread::sleep(Duration::from_millis(200));
        }
        let seconds = self.begun.elapsed().as_secs_f64();
        Ok((seconds, resident))
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        // It may have ended by itself
        self.child.kill().unwrap_or_default();
        self.child.wait().map(|_| ()).unwrap_or_default();
    }
}

fn quarters(resident: &[u64]) -> String {
    let at = |part: usize| resident.get((resident.len() * part / 4).saturating_sub(1)).copied();
    (1..=4).map(|part| report::mebibytes(at(part))).collect::<Vec<_>>().join(", ")
}

/// From the broker's time of a record to the commit that holds it, while a stream trickles in.
fn searchable(broker: &str, archive: &Archive, workspace: &Path) -> anyhow::Result<String> {
    let created = Command::new(NUGGETD)
        .args(["replay", "-", "--events"])
        .arg(&archive.events_at)
        .args(["--to-kafka", "--topic", "trickle", "--create", "1"])
        .args(["--set", &format!("kafka.brokers={broker}")])
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .status()?;
    ensure!(created.success(), "the topic for the trickle cannot be made");
    let daemon = Daemon::start(broker, archive, workspace, "trickle", "trickle")?;
    let producer: BaseProducer = ClientConfig::new().set("bootstrap.servers", broker).create()?;
    let files: Vec<PathBuf> = if archive.items_at.is_dir() {
        fs::read_dir(&archive.items_at)?.map(|entry| Ok(entry?.path())).collect::<anyhow::Result<_>>()?
    } else {
        vec![archive.items_at.clone()]
    };
    let file = files.iter().find(|path| path.to_string_lossy().contains(".jsonl")).context("no items")?;
    let lines = BufReader::new(fs::File::open(file)?).lines();
    let (each_second, seconds) = TRICKLE;
    let begun = Instant::now();
    let mut sent = 0;
    for line in lines.take(each_second * usize::try_from(seconds)?) {
        let due = begun + Duration::from_secs_f64(sent as f64 / each_second as f64);
        thread::sleep(due.saturating_duration_since(Instant::now()));
        let line = line?;
        while producer.send(BaseRecord::<(), str>::to("trickle").payload(&line)).is_err() {
            producer.poll(Duration::from_millis(10));
        }
        producer.poll(Duration::ZERO);
        sent += 1;
    }
    producer.flush(Duration::from_secs(10))?;
    while daemon.committed().is_none_or(|committed| committed < sent) {
        ensure!(begun.elapsed() < LIMIT, "the trickle is not committed");
        thread::sleep(Duration::from_millis(100));
    }
    let metrics = daemon.get("/metrics")?;
    Ok(format!("{:.1} and {:.1}", quantile(&metrics, 0.5)?, quantile(&metrics, 0.95)?))
}

/// A quantile of the histogram, within its bucket in proportion.
fn quantile(metrics: &str, of: f64) -> anyhow::Result<f64> {
    let mut buckets: Vec<(f64, f64)> = Vec::new();
    for line in metrics.lines() {
        let Some(rest) = line.strip_prefix("nuggetd_event_to_searchable_seconds_bucket{le=\"") else {
            continue;
        };
        let (bound, count) = rest.split_once("\"} ").context("a bucket without a count")?;
        buckets.push((bound.parse().unwrap_or(f64::INFINITY), count.parse()?));
    }
    let all = buckets.last().map_or(0.0, |&(_, count)| count);
    let (mut lower, mut below) = (0.0, 0.0);
    for (bound, count) in buckets {
        if count >= all * of {
            return Ok(if bound.is_finite() {
                lower + (bound - lower) * (all * of - below) / (count - below)
            } else {
                lower
            });
        }
        (lower, below) = (bound, count);
    }
    bail!("no observations")
}
