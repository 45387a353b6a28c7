//! Beside a broker: `nuggetd run` from an empty folder until a backlog is committed, librdkafka alone consuming the same
//! topic to nowhere, and `nuggetd replay` of the same items from files, in turns; memory over the backlog; and how soon an
//! item is searchable while a steady stream comes.

#[allow(dead_code, reason = "each benchmark uses a part of it")]
mod support;

use std::{
    collections::BTreeMap,
    fs,
    io::{BufRead as _, BufReader},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, bail, ensure};
use nuggetd::{
    config::KafkaConfig,
    kafka::{LogContext, consumer_config, producer_config},
};
use rdkafka::{
    consumer::{BaseConsumer, Consumer as _},
    error::KafkaError,
    producer::{BaseProducer, BaseRecord, Producer as _},
};
use support::{
    NUGGETD,
    archive::{self, Archive},
    child,
    daemon::{self, Course, Daemon, Run},
    report,
};

const PARTITIONS: usize = 12;
const LIMIT: Duration = Duration::from_secs(900);
/// Items a second of the stream, and for how many seconds.
const STREAM: (usize, usize) = (2_000, 60);
/// What the daemon commits after, unless it is told otherwise, and what an item may wait longer at most.
const COMMIT_INTERVAL: f64 = 10.0;
const GRACE: f64 = 1.0;

fn main() -> anyhow::Result<()> {
    let Some(data) = support::data() else { return Ok(()) };
    let workspace = support::workspace();
    let archive =
        archive::collection(&data, &workspace, support::setting("NUGGETD_BENCH_KAFKA_SCALE", 1.125)?)?;
    let broker = daemon::broker()?;
    make_topic(&archive, &broker, "backlog", &archive.items_at.to_string_lossy())?;
    // Nobody finds the topic cold
    consume(&broker, archive.items, "warm-up")?;

    let (mut bare, mut files, mut courses) = (Vec::new(), Vec::new(), Vec::new());
    for repetition in 1..=support::setting("NUGGETD_BENCH_REPS", 3_usize)?.max(1) {
        bare.push(archive.items as f64 / consume(&broker, archive.items, &format!("bare-{repetition}"))?);
        let run = Run {
            broker: &broker,
            archive: &archive,
            data_dir: &workspace.join("kafka-run"),
            topic: "backlog",
            group: &format!("backlog-{repetition}"),
        };
        courses.push(Daemon::start(&run)?.until_committed(archive.items)?);
        files.push(replay(&archive, &workspace.join("kafka-replay"))?);
        eprintln!("kafka: repetition {repetition} done");
    }
    backlog(&archive, &bare, &files, &courses)?;
    memory(&archive, &courses)?;
    stream(&broker, &archive, &workspace)
}

/// Makes a topic and has the archive sent to it.
fn make_topic(archive: &Archive, broker: &str, topic: &str, items: &str) -> anyhow::Result<()> {
    let status = Command::new(NUGGETD)
        .args(["replay", items, "--events"])
        .arg(&archive.events_at)
        .args(["--to-kafka", "--topic", topic, "--create", &PARTITIONS.to_string()])
        .args(["--set", &format!("kafka.brokers={broker}")])
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .status()?;
    ensure!(status.success(), "topic {topic} cannot be filled");
    Ok(())
}

/// Seconds in which librdkafka, configured as in the daemon, hands all records to somebody who looks at none; from the
/// first record on, without joining the group.
fn consume(broker: &str, items: usize, group: &str) -> anyhow::Result<f64> {
    let config =
        KafkaConfig { brokers: broker.to_owned(), group: group.to_owned(), ..KafkaConfig::default() };
    let mut config = consumer_config(&config, "bench")?;
    // The daemon says where to begin; here the broker does
    config.set("auto.offset.reset", "earliest");
    let consumer: BaseConsumer<LogContext> = config.create_with_context(LogContext)?;
    consumer.subscribe(&["backlog"])?;
    let (asked, mut begun, mut seen) = (Instant::now(), None, 0);
    while seen < items {
        ensure!(asked.elapsed() < LIMIT, "consumed {seen} of {items}");
        match consumer.poll(Duration::from_millis(100)) {
            Some(Ok(_)) => {
                begun.get_or_insert_with(Instant::now);
                seen += 1;
            }
            Some(Err(KafkaError::PartitionEOF(_))) | None => {}
            Some(Err(error)) => bail!("{error}"),
        }
    }
    Ok(begun.unwrap_or(asked).elapsed().as_secs_f64())
}

/// The same items from files: items/s, and processor time of an item in µs.
fn replay(archive: &Archive, out: &Path) -> anyhow::Result<(f64, f64)> {
    if out.exists() {
        fs::remove_dir_all(out)?;
    }
    let mut command = Command::new(NUGGETD);
    command.arg("replay").arg(&archive.items_at).arg("--events").arg(&archive.events_at);
    command.arg("--out").arg(out).args(["--set", "facts.method=greedy"]);
    let measured = child::run(&mut command)?;
    let items = archive.items as f64;
    Ok((items / measured.wall.as_secs_f64(), measured.cpu.as_secs_f64() / items * 1e6))
}

fn backlog(archive: &Archive, bare: &[f64], files: &[(f64, f64)], courses: &[Course]) -> anyhow::Result<()> {
    let items = archive.items as f64;
    let whole: Vec<f64> = courses.iter().map(|course| items / course.seconds).collect();
    let steady: Vec<f64> = courses.iter().filter_map(Course::steady_rate).collect();
    let processor: Vec<f64> =
        courses.iter().map(|course| course.processor.as_secs_f64() / items * 1e6).collect();
    let (of_files, processor_of_files): (Vec<f64>, Vec<f64>) = files.iter().copied().unzip();
    let over = |rates: &[f64]| format!("{:.2}", report::median(&steady) / report::median(rates));
    let row = |what: &str, value: String, over: String| vec![what.to_owned(), value, over];
    let rows = [
        row(
            "nuggetd, records/s between the first and the last commit",
            report::spread(&steady, 0),
            over(&steady),
        ),
        row("nuggetd, records/s from its start to all committed", report::spread(&whole, 0), over(&whole)),
        row("librdkafka to nowhere, records/s", report::spread(bare, 0), over(bare)),
        row("nuggetd from files (`replay`), items/s", report::spread(&of_files, 0), over(&of_files)),
        row("nuggetd, processor time of a record, µs", report::spread(&processor, 1), String::new()),
        row("nuggetd from files, the same, µs", report::spread(&processor_of_files, 1), String::new()),
    ];
    let title =
        format!("A backlog: {} records of 18 events in {PARTITIONS} partitions", report::number(items, 0));
    Ok(report::table(&title, &["what", "median (range)", "first row ÷ this"], &rows)?)
}

fn memory(archive: &Archive, courses: &[Course]) -> anyhow::Result<()> {
    let mut rows = Vec::new();
    for (nth, course) in (1..).zip(courses) {
        // What happens before a tenth is committed is growing up
        let grown: Vec<_> = course.samples.iter().filter(|s| s.committed >= archive.items / 10).collect();
        for (kind, of) in [
            ("resident", grown.iter().map(|s| (s.at, s.resident as f64)).collect::<Vec<_>>()),
            ("anonymous", grown.iter().map(|s| (s.at, s.anonymous as f64)).collect()),
        ] {
            let values: Vec<f64> = of.iter().map(|&(_, bytes)| bytes / 1_048_576.0).collect();
            let slope = trend(&of) * 60.0 / 1_048_576.0;
            let peak = if kind == "resident" { report::mebibytes(course.peak) } else { String::new() };
            let what = format!("{kind}, repetition {nth}");
            rows.push(vec![what, report::spread(&values, 0), format!("{slope:+.0}"), peak]);
        }
    }
    let head = ["memory after the first tenth", "MiB, median (range)", "trend, MiB a minute", "peak"];
    Ok(report::table("Memory over that backlog, every half a second", &head, &rows)?)
}

/// The slope of the straight line that lies closest to the points.
fn trend(points: &[(f64, f64)]) -> f64 {
    let count = points.len() as f64;
    let mean = |of: fn(&(f64, f64)) -> f64| points.iter().map(of).sum::<f64>() / count;
    let (x, y) = (mean(|p| p.0), mean(|p| p.1));
    let together: f64 = points.iter().map(|p| (p.0 - x) * (p.1 - y)).sum();
    let alone: f64 = points.iter().map(|p| (p.0 - x).powi(2)).sum();
    if alone > 0.0 { together / alone } else { 0.0 }
}

/// From the time of a record to the commit that holds it, while a steady stream comes.
fn stream(broker: &str, archive: &Archive, workspace: &Path) -> anyhow::Result<()> {
    make_topic(archive, broker, "stream", "-")?;
    let run =
        Run { broker, archive, data_dir: &workspace.join("kafka-run"), topic: "stream", group: "stream" };
    let mut daemon = Daemon::start(&run)?;
    daemon.until_assigned(PARTITIONS)?;
    let (each_second, seconds) = STREAM;
    let sent = send(broker, archive, each_second, each_second * seconds)?;
    daemon.until_committed(sent)?;
    let waits = Waits::read(&daemon.get("/metrics")?)?;
    let number = |seconds: f64| report::number(seconds, 1);
    let row = |what: &str, value: String| vec![what.to_owned(), value];
    let rows = [
        row("median, seconds", number(waits.quantile(0.5))),
        row("95th percentile, seconds", number(waits.quantile(0.95))),
        row("99th percentile, seconds", number(waits.quantile(0.99))),
        row(
            "within the commit interval and one second",
            format!("{:.2} %", 100.0 * waits.within(COMMIT_INTERVAL + GRACE)?),
        ),
    ];
    let title = format!(
        "From a record's time until it is searchable: {} records/s for {seconds} s, commit interval {COMMIT_INTERVAL} s",
        report::number(each_second as f64, 0)
    );
    Ok(report::table(&title, &["what", "value"], &rows)?)
}

/// Sends items at a steady rate, the events in turn, each in the order of its time; says how many.
fn send(broker: &str, archive: &Archive, each_second: usize, wanted: usize) -> anyhow::Result<usize> {
    let mut days: Vec<PathBuf> =
        fs::read_dir(&archive.items_at)?.map(|entry| Ok(entry?.path())).collect::<anyhow::Result<_>>()?;
    days.sort();
    let mut events: BTreeMap<String, Vec<PathBuf>> = BTreeMap::new();
    for day in days {
        let name = day.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let (event, _) = name.rsplit_once("-r").with_context(|| format!("{name} is no day of an event"))?;
        events.entry(event.to_owned()).or_default().push(day);
    }
    let mut streams = Vec::new();
    for (event, days) in events {
        let days = days.iter().map(fs::File::open).collect::<Result<Vec<_>, _>>()?;
        streams.push((event, days.into_iter().flat_map(|day| BufReader::new(day).lines())));
    }
    let config = KafkaConfig { brokers: broker.to_owned(), ..KafkaConfig::default() };
    let producer: BaseProducer<LogContext> =
        producer_config(&config, "bench")?.create_with_context(LogContext)?;
    let (begun, mut sent) = (Instant::now(), 0);
    while sent < wanted {
        let before = sent;
        for (event, stream) in &mut streams {
            let Some(line) = stream.next().transpose()? else { continue };
            let due = begun + Duration::from_secs_f64(sent as f64 / each_second as f64);
            thread::sleep(due.saturating_duration_since(Instant::now()));
            producer.send(BaseRecord::to("stream").key(event.as_str()).payload(&line)).map_err(|(e, _)| e)?;
            producer.poll(Duration::ZERO);
            sent += 1;
        }
        ensure!(sent > before, "the archive has only {sent} items, the stream needs {wanted}");
    }
    producer.flush(Duration::from_secs(10))?;
    Ok(sent)
}

/// The histogram: for each bound how many waited at most so long.
struct Waits(Vec<(f64, f64)>);

impl Waits {
    fn read(metrics: &str) -> anyhow::Result<Self> {
        let mut bounds = Vec::new();
        for line in metrics.lines() {
            let Some(rest) = line.strip_prefix("nuggetd_event_to_searchable_seconds_bucket{le=\"") else {
                continue;
            };
            let (bound, count) = rest.split_once("\"} ").context("a bound without a count")?;
            bounds.push((bound.parse().unwrap_or(f64::INFINITY), count.parse()?));
        }
        ensure!(bounds.last().is_some_and(|&(_, all)| all > 0.0), "nothing has become searchable");
        Ok(Self(bounds))
    }

    fn all(&self) -> f64 {
        self.0.last().map_or(0.0, |&(_, all)| all)
    }

    /// The share that waited at most so long, which must be one of the bounds.
    fn within(&self, seconds: f64) -> anyhow::Result<f64> {
        let found = self.0.iter().find(|&&(bound, _)| (bound - seconds).abs() < 1e-9);
        found.map(|&(_, count)| count / self.all()).with_context(|| format!("{seconds} is no bound"))
    }

    /// Between two bounds in proportion, as Prometheus does it; the largest bound for what lies above it.
    fn quantile(&self, of: f64) -> f64 {
        let (mut lower, mut below) = (0.0, 0.0);
        for &(bound, count) in &self.0 {
            if count >= self.all() * of && bound.is_finite() {
                return lower + (bound - lower) * (self.all() * of - below) / (count - below);
            }
            if bound.is_finite() {
                (lower, below) = (bound, count);
            }
        }
        lower
    }
}
