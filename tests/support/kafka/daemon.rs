//! `nuggetd run` as a process of its own: its configuration, its log, its endpoints, signals, and how it ended.

use std::{
    fs::{self, File},
    io::{Read, Write},
    net::{SocketAddr, TcpStream},
    os::unix::process::ExitStatusExt,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::atomic::{AtomicUsize, Ordering},
    time::Duration,
};

use serde_json::{Map, Value, json};

use super::{random_suffix, topic, wait_until};

const LIMIT: Duration = Duration::from_secs(60);

/// What a daemon is started with. Its topics and its group are named for this test alone.
#[derive(Debug, Clone)]
pub(crate) struct DaemonConfig {
    pub(crate) brokers: String,
    pub(crate) group: String,
    /// State; the configuration and the logs lie beside it.
    pub(crate) data_dir: PathBuf,
    /// The event topic; empty = none.
    pub(crate) events: String,
    pub(crate) nuggets: String,
    pub(crate) requests: String,
    pub(crate) dead_letters: String,
    sources: Vec<Value>,
    event_files: Vec<PathBuf>,
    settings: Vec<String>,
}

impl DaemonConfig {
    pub(crate) fn new(brokers: &str, data_dir: &Path) -> Self {
        Self {
            brokers: brokers.to_owned(),
            group: format!("group-{}", random_suffix()),
            data_dir: data_dir.to_owned(),
            events: String::new(),
            nuggets: topic("nuggets"),
            requests: topic("requests"),
            dead_letters: topic("dead-letters"),
            sources: Vec::new(),
            event_files: Vec::new(),
            settings: Vec::new(),
        }
    }

    /// Another instance of the same group.
    pub(crate) fn instance(&self, data_dir: &Path) -> Self {
        Self { data_dir: data_dir.to_owned(), ..self.clone() }
    }

    /// Takes items from this topic.
    pub(crate) fn source(self, topic: &str, format: &str) -> Self {
        self.source_with(json!({ "topic": topic, "format": format }))
    }

    /// Takes items from a topic; the keys are those of `[[source]]`.
    pub(crate) fn source_with(mut self, source: Value) -> Self {
        self.sources.push(source);
        self
    }

    pub(crate) fn event_topic(mut self, name: &str) -> Self {
        name.clone_into(&mut self.events);
        self
    }

    pub(crate) fn event_file(mut self, path: &Path) -> Self {
        self.event_files.push(path.to_owned());
        self
    }

    /// Further settings, `section.key=value`.
    pub(crate) fn set(mut self, settings: &[&str]) -> Self {
        self.settings.extend(settings.iter().map(|&setting| setting.to_owned()));
        self
    }

    /// The configuration file's text.
    pub(crate) fn toml(&self) -> String {
        let mut config = Map::new();
        config.insert("data_dir".into(), json!(self.data_dir));
        config.insert("kafka".into(), json!({ "brokers": self.brokers, "group": self.group }));
        config.insert(
            "topics".into(),
            json!({
                "events": self.events,
                "nuggets": self.nuggets,
                "requests": self.requests,
                "dead_letters": self.dead_letters,
            }),
        );
        config.insert("events".into(), json!({ "files": self.event_files }));
        config.insert("source".into(), json!(self.sources));
        toml::to_string(&config).unwrap()
    }

    /// Writes the configuration beside the state and gives the command that runs with it.
    pub(crate) fn command(&self) -> Command {
        let file = self.data_dir.with_extension("toml");
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(&file, self.toml()).unwrap();
        let mut command = crate::support::nuggetd();
        command.arg("run").arg("--config").arg(&file);
        for setting in ["http.listen=127.0.0.1:0", "log.level=info", "log.format=json"] {
            command.args(["--set", setting]);
        }
        for setting in &self.settings {
            command.args(["--set", setting]);
        }
        command
    }
}

/// How a process ended: its exit code, or the signal that ended it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ended {
    Code(i32),
    Signal(i32),
}

/// A running daemon. Dropped, it is killed.
pub(crate) struct Daemon {
    child: Child,
    log: PathBuf,
    address: Option<SocketAddr>,
}

impl Daemon {
    /// Starts `nuggetd run` with this configuration. Its log is a new file beside its state.
    pub(crate) fn start(config: &DaemonConfig) -> Self {
        static STARTED: AtomicUsize = AtomicUsize::new(0);
        let number = STARTED.fetch_add(1, Ordering::Relaxed);
        Self::spawn(config.command(), config.data_dir.with_extension(format!("{number}.log")))
    }

    /// Starts a process that behaves as the daemon does: logs JSON to stderr, among it the address of its endpoints.
    pub(crate) fn spawn(mut command: Command, log: PathBuf) -> Self {
        let stderr = File::create(&log).unwrap();
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(stderr);
        Self { child: command.spawn().unwrap(), log, address: None }
    }

    /// The process's number.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// What it has logged.
    pub(crate) fn log(&self) -> String {
        String::from_utf8_lossy(&fs::read(&self.log).unwrap()).into_owned()
    }

    /// Its whole log lines; a last one that is not yet written to its end is left out.
    pub(crate) fn log_lines(&self) -> Vec<Value> {
        let log = self.log();
        let whole = log.rsplit_once('\n').map_or("", |(whole, _)| whole);
        // A line that is no JSON is not the daemon's log: a usage error, or a fault that the caller shows with log()
        whole.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
    }

    /// Whether it has logged a message that begins so.
    pub(crate) fn has_logged(&self, begins: &str) -> bool {
        let said = |line: &Value| line["message"].as_str().is_some_and(|message| message.starts_with(begins));
        self.log_lines().iter().any(said)
    }

    /// The address of its endpoints, once it has logged it.
    pub(crate) fn address(&mut self) -> SocketAddr {
        if let Some(address) = self.address {
            return address;
        }
        let mut found = None;
        wait_until(LIMIT, "the address of the endpoints is logged", || {
            found = self.logged_address();
            assert!(found.is_some() || !self.has_ended(), "the daemon ended at its start:\n{}", self.log());
            found.is_some()
        });
        self.address = found;
        found.unwrap()
    }

    fn logged_address(&self) -> Option<SocketAddr> {
        let lines = self.log_lines();
        let line = lines.iter().find(|line| line["message"] == "http endpoints are listening")?;
        Some(line["address"].as_str()?.parse().unwrap())
    }

    /// Asks an endpoint; gives status and body.
    pub(crate) fn get(&mut self, path: &str) -> (u16, String) {
        get(self.address(), path).unwrap_or_else(|error| panic!("GET {path}: {error}\n{}", self.log()))
    }

    /// `/state`.
    pub(crate) fn state(&mut self) -> Value {
        let (status, body) = self.get("/state");
        assert_eq!(status, 200, "{body}");
        serde_json::from_str(&body).unwrap()
    }

    /// Whether `/ready` says so.
    pub(crate) fn is_ready(&mut self) -> bool {
        self.get("/ready").0 == 200
    }

    /// `/metrics`.
    pub(crate) fn metrics(&mut self) -> String {
        let (status, body) = self.get("/metrics");
        assert_eq!(status, 200, "{body}");
        body
    }

    /// The sum of a metric's series that have all these labels (`outcome="accepted"`); None = there is no such series.
    pub(crate) fn metric(&mut self, name: &str, labels: &[&str]) -> Option<f64> {
        sum_of_series(&self.metrics(), name, labels)
    }

    /// Sends a signal: `TERM`, `INT`, `STOP`, `CONT`.
    pub(crate) fn signal(&self, name: &str) {
        let kill = format!("kill -{name} {}", self.id());
        assert!(Command::new("sh").args(["-c", &kill]).status().unwrap().success(), "{kill}");
    }

    /// SIGKILL, and waits for the end.
    pub(crate) fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Whether it has ended.
    pub(crate) fn has_ended(&mut self) -> bool {
        self.child.try_wait().unwrap().is_some()
    }

    /// Waits for its end. No input may make it panic, whatever the test is about.
    pub(crate) fn wait(&mut self, limit: Duration) -> Ended {
        let ended = self.wait_for_any_end(limit);
        let log = self.log();
        assert!(!log.contains("a thread panicked") && !log.contains("panicked at"), "{log}");
        ended
    }

    /// Waits for its end, also where a run has panicked over what somebody did to its files.
    pub(crate) fn wait_for_any_end(&mut self, limit: Duration) -> Ended {
        wait_until(limit, "the daemon has ended", || self.has_ended());
        let status = self.child.wait().unwrap();
        status.code().map_or_else(|| Ended::Signal(status.signal().unwrap()), Ended::Code)
    }

    /// SIGTERM, and how it ended.
    pub(crate) fn stop(&mut self) -> Ended {
        self.signal("TERM");
        self.wait(LIMIT)
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        // It may have ended already
        self.child.kill().unwrap_or_default();
        self.child.wait().map(drop).unwrap_or_default();
    }
}

/// One HTTP/1.0 request, so that the body is neither in chunks nor followed by anything.
pub(crate) fn get(address: SocketAddr, path: &str) -> std::io::Result<(u16, String)> {
    let mut stream = TcpStream::connect_timeout(&address, LIMIT)?;
    stream.set_read_timeout(Some(LIMIT))?;
    stream.write_all(format!("GET {path} HTTP/1.0\r\nHost: {address}\r\n\r\n").as_bytes())?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    let (head, body) = answer.split_once("\r\n\r\n").ok_or(std::io::ErrorKind::UnexpectedEof)?;
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
    Ok((status.ok_or(std::io::ErrorKind::InvalidData)?, body.to_owned()))
}

/// See [`Daemon::metric`].
pub(crate) fn sum_of_series(metrics: &str, name: &str, labels: &[&str]) -> Option<f64> {
    let mut sum = None;
    for line in metrics.lines().filter(|line| !line.starts_with('#')) {
        let Some((series, value)) = line.rsplit_once(' ') else { continue };
        let (found, its_labels) = series.split_once('{').unwrap_or((series, "}"));
        let its_labels: Vec<&str> = its_labels.trim_end_matches('}').split(',').collect();
        if found == name && labels.iter().all(|label| its_labels.contains(label)) {
            *sum.get_or_insert(0.0) += value.parse::<f64>().unwrap();
        }
    }
    sum
}
