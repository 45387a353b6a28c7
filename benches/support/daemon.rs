//! A broker, and `nuggetd run` beside it, measured from outside.

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
use serde_json::Value;

use super::{
    NUGGETD,
    archive::Archive,
    child::{cpu_time, kilobytes},
};

const SAMPLE_EVERY: Duration = Duration::from_millis(500);
const LIMIT: Duration = Duration::from_secs(900);

/// A broker that ends with this process; its address.
pub(crate) fn broker() -> anyhow::Result<String> {
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

/// What the process was at a moment.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sample {
    /// Seconds since its start.
    pub(crate) at: f64,
    /// Records that shards and ledger hold.
    pub(crate) committed: usize,
    /// Resident memory in bytes: all of it, and without mapped files.
    pub(crate) resident: u64,
    pub(crate) anonymous: u64,
}

/// How it went from an empty folder until all was committed.
pub(crate) struct Course {
    pub(crate) samples: Vec<Sample>,
    pub(crate) seconds: f64,
    /// Processor time, user and system.
    pub(crate) processor: Duration,
    /// Most resident memory.
    pub(crate) peak: Option<u64>,
}

impl Course {
    /// Records a second from the first commit to the last one that the number of items caused: without joining the
    /// group, and without waiting for the commit interval at the end.
    pub(crate) fn steady_rate(&self) -> Option<f64> {
        let mut commits: Vec<Sample> = self.samples.iter().copied().filter(|s| s.committed > 0).collect();
        commits.dedup_by_key(|sample| sample.committed);
        commits.pop();
        let (first, last) = (commits.first()?, commits.last()?);
        (last.at > first.at).then(|| (last.committed - first.committed) as f64 / (last.at - first.at))
    }
}

/// What one daemon is started with.
pub(crate) struct Run<'a> {
    pub(crate) broker: &'a str,
    pub(crate) archive: &'a Archive,
    pub(crate) data_dir: &'a Path,
    pub(crate) topic: &'a str,
    pub(crate) group: &'a str,
}

/// `nuggetd run`; killed when dropped.
pub(crate) struct Daemon {
    child: Child,
    http: String,
    begun: Instant,
}

impl Daemon {
    /// Starts with an empty folder.
    pub(crate) fn start(run: &Run<'_>) -> anyhow::Result<Self> {
        let Run { broker, archive, data_dir, topic, group } = run;
        if data_dir.exists() {
            fs::remove_dir_all(data_dir)?;
        }
        let http = TcpListener::bind("127.0.0.1:0")?.local_addr()?.to_string();
        let mut command = Command::new(NUGGETD);
        command.arg("run");
        for setting in [
            format!("data_dir={}", data_dir.display()),
            format!("kafka.brokers={broker}"),
            format!("kafka.group={group}"),
            format!("source=[{{topic=\"{topic}\"}}]"),
            format!("events.files=[\"{}\"]", archive.events_at.display()),
            format!("topics.nuggets={group}.nuggets"),
            format!("topics.requests={group}.requests"),
            format!("http.listen={http}"),
            "facts.method=greedy".to_owned(),
        ] {
            command.args(["--set", &setting]);
        }
        let log = fs::File::create(Self::log_beside(data_dir))?;
        let begun = Instant::now();
        Ok(Self { child: command.stderr(log).spawn()?, http, begun })
    }

    fn log_beside(data_dir: &Path) -> PathBuf {
        data_dir.with_extension("log")
    }

    /// The body of an answer of its endpoints, whatever the status.
    pub(crate) fn get(&self, path: &str) -> anyhow::Result<String> {
        let mut stream = TcpStream::connect(&self.http)?;
        write!(stream, "GET {path} HTTP/1.1\r\nHost: nuggetd\r\nConnection: close\r\n\r\n")?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        let (_, body) = answer.split_once("\r\n\r\n").context("no body")?;
        Ok(body.to_owned())
    }

    /// Waits until it reads so many partitions.
    pub(crate) fn until_assigned(&mut self, partitions: usize) -> anyhow::Result<()> {
        while self.partitions().len() < partitions {
            self.still_runs()?;
            thread::sleep(Duration::from_millis(50));
        }
        Ok(())
    }

    /// Waits until so many records are committed.
    pub(crate) fn until_committed(&mut self, records: usize) -> anyhow::Result<Course> {
        let mut samples = Vec::new();
        loop {
            self.still_runs()?;
            let status = fs::read_to_string(format!("/proc/{}/status", self.child.id()))?;
            let sample = Sample {
                at: self.begun.elapsed().as_secs_f64(),
                committed: self.partitions().iter().sum(),
                resident: kilobytes(&status, "VmRSS:").unwrap_or_default(),
                anonymous: kilobytes(&status, "RssAnon:").unwrap_or_default(),
            };
            samples.push(sample);
            if sample.committed >= records {
                let stat = fs::read_to_string(format!("/proc/{}/stat", self.child.id()))?;
                let processor = cpu_time(&stat).context("no processor time")?;
                let peak = kilobytes(&status, "VmHWM:");
                return Ok(Course { samples, seconds: sample.at, processor, peak });
            }
            thread::sleep(SAMPLE_EVERY);
        }
    }

    fn still_runs(&mut self) -> anyhow::Result<()> {
        if let Some(status) = self.child.try_wait()? {
            bail!("the daemon ended: {status}; its log lies beside its folder");
        }
        ensure!(self.begun.elapsed() < LIMIT, "not ready after {LIMIT:?}");
        Ok(())
    }

    /// The committed offset of each partition that it reads; none while it does not answer yet.
    fn partitions(&self) -> Vec<usize> {
        let state = self.get("/state").ok().and_then(|body| serde_json::from_str::<Value>(&body).ok());
        let assignment = state.as_ref().and_then(|state| state.get("assignment")?.as_object());
        let topics = assignment.into_iter().flat_map(|all| all.values()).filter_map(Value::as_object);
        let partitions = topics.flat_map(|topic| topic.values());
        let offsets = partitions.map(|partition| partition.get("committedOffset").and_then(Value::as_u64));
        offsets.map(|offset| usize::try_from(offset.unwrap_or(0)).unwrap_or(0)).collect()
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        // It may have ended by itself
        self.child.kill().unwrap_or_default();
        self.child.wait().map(|_| ()).unwrap_or_default();
    }
}
