//! A broker for tests: the one that all tests share, one of a test's own that it may stop and kill, or librdkafka's
//! in-process mock; and `nuggetd run` beside it.
//!
//! Where there is no broker a test says so in a line that begins with `skipped:` and passes.

mod daemon;
mod records;
mod wait;

use std::{
    env,
    ops::Deref,
    process::{Command, Stdio},
    sync::OnceLock,
};

use rdkafka::{mocking::MockCluster, producer::DefaultProducerContext};
use tempfile::TempDir;

#[allow(unused_imports, reason = "each test file uses some of it")]
pub(crate) use self::{
    daemon::{Daemon, DaemonConfig, Ended, get, sum_of_series},
    records::{Client, Position, Producer, ReadRecord, Record},
    wait::wait_until,
};

/// A broker and, through [`Client`], what can be done with it from any thread.
pub(crate) struct Broker {
    client: Client,
    cluster: Cluster,
}

enum Cluster {
    Shared,
    Own(TempDir),
    Mock(MockCluster<'static, DefaultProducerContext>),
}

impl Broker {
    /// The broker that all tests share: the one at `$NUGGETD_TEST_KAFKA`, else one that starts with the first test of
    /// this binary and ends with it. Topics must be named by [`topic`], since other tests have theirs there.
    pub(crate) fn shared() -> Option<Self> {
        static ADDRESS: OnceLock<Result<String, String>> = OnceLock::new();
        let started = ADDRESS.get_or_init(|| match env::var("NUGGETD_TEST_KAFKA") {
            Ok(address) if !address.is_empty() => Ok(address),
            _ => {
                let folder = env::temp_dir().join(format!("nuggetd-kafka.{}", std::process::id()));
                script("start", &["--folder", &folder.to_string_lossy()])
            }
        });
        match started {
            Ok(address) => Some(Self { client: Client::new(address), cluster: Cluster::Shared }),
            Err(reason) => skipped(reason),
        }
    }

    /// A broker that this test alone uses, so that it may stop, kill and start it again. Takes some 4 s and 250 MB.
    pub(crate) fn own() -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        match script("start", &["--folder", &folder.path().to_string_lossy()]) {
            Ok(address) => Some(Self { client: Client::new(&address), cluster: Cluster::Own(folder) }),
            Err(reason) => skipped(&reason),
        }
    }

    /// librdkafka's mock of a broker, in this process: ready at once, good for produce, fetch, groups and offsets. It
    /// knows neither compaction nor retention nor the creation of topics by clients, and makes any topic that is asked
    /// for, with four partitions.
    pub(crate) fn mock() -> Self {
        let cluster = MockCluster::new(1).unwrap();
        Self { client: Client::new(&cluster.bootstrap_servers()), cluster: Cluster::Mock(cluster) }
    }

    /// What can be sent to another thread.
    pub(crate) fn client(&self) -> Client {
        self.client.clone()
    }

    /// Makes a topic; `config` holds topic properties such as `cleanup.policy`.
    pub(crate) fn create_topic(&self, name: &str, partitions: i32, config: &[(&str, &str)]) {
        match &self.cluster {
            Cluster::Mock(cluster) => cluster.create_topic(name, partitions, 1).unwrap(),
            Cluster::Shared | Cluster::Own(_) => self.client.create_topic(name, partitions, config),
        }
    }

    /// Makes a topic for one test and gives its name.
    pub(crate) fn new_topic(&self, purpose: &str, partitions: i32) -> String {
        let name = topic(purpose);
        self.create_topic(&name, partitions, &[]);
        name
    }

    /// The mock, to make it answer with errors.
    pub(crate) fn mock_cluster(&self) -> &MockCluster<'static, DefaultProducerContext> {
        match &self.cluster {
            Cluster::Mock(cluster) => cluster,
            Cluster::Shared | Cluster::Own(_) => panic!("not a mock"),
        }
    }

    /// Ends the broker as its operator would.
    pub(crate) fn stop(&self) {
        self.own_script("stop");
    }

    /// Ends the broker as a power cut would (what it had acknowledged the system still writes).
    pub(crate) fn kill(&self) {
        self.own_script("kill");
    }

    /// Starts the broker again, with the same records at the same address.
    pub(crate) fn start(&self) {
        assert_eq!(self.own_script("start"), self.address(), "the address after a restart");
    }

    fn own_script(&self, command: &str) -> String {
        let Cluster::Own(folder) = &self.cluster else {
            panic!("{command}: other tests use this broker, or it is a mock");
        };
        script(command, &["--folder", &folder.path().to_string_lossy()]).unwrap()
    }
}

impl Deref for Broker {
    type Target = Client;

    fn deref(&self) -> &Client {
        &self.client
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        if let Cluster::Own(folder) = &self.cluster {
            // A test that ends needs no orderly stop; and a panic here would hide the test's own
            script("kill", &["--folder", &folder.path().to_string_lossy()]).unwrap_or_default();
        }
    }
}

/// A topic's name that no other test has.
pub(crate) fn topic(purpose: &str) -> String {
    format!("{purpose}-{}", random_suffix())
}

/// Eight letters and digits.
pub(crate) fn random_suffix() -> String {
    use std::hash::{BuildHasher, RandomState};
    format!("{:08x}", RandomState::new().hash_one(std::process::id()) & 0xffff_ffff)
}

/// Runs scripts/kafka and gives what it printed, or the last line of why it could not.
fn script(command: &str, arguments: &[&str]) -> Result<String, String> {
    let mut script = Command::new(super::root().join("scripts/kafka"));
    script.arg(command).args(arguments).stdin(Stdio::null());
    if command == "start" {
        // However this process ends, its broker ends too
        script.args(["--for", &std::process::id().to_string()]);
    }
    let output = script.output().map_err(|error| format!("scripts/kafka: {error}"))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned());
    }
    let stderr = String::from_utf8_lossy(&output.stderr);
    let reason = stderr.lines().last().unwrap_or("scripts/kafka failed");
    Err(reason.trim_start_matches("error: ").to_owned())
}

fn skipped<T>(reason: &str) -> Option<T> {
    use std::io::Write;
    // In one piece and at the start of a line, whatever the test runner has written
    let line = format!("\nskipped: no Kafka: {reason}\n");
    std::io::stderr().write_all(line.as_bytes()).unwrap();
    None
}
