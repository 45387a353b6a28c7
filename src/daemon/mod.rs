//! `nuggetd run`: the pipeline beside a broker, for months.
//!
//! ```text
//! poll ──► decode-0..n ──► intake ──► run-0..n ──► publish
//!   └── partitions ────────►│ ▲ └► merge  │            ▲
//!                events ────┘ │           └── ledger ──┘
//!                          memory: what other instances did
//! ```
//!
//! Keeps true: nothing slow happens on the poll thread; what the daemon says is in the ledger before it is said; told to
//! end, it finishes what it holds within the grace period, and whatever it does not finish goes on after a restart.

mod book;
mod decoders;
mod error;
mod flood;
mod memory;
mod merging;
mod runs;
mod start;
mod taking;

use std::{
    fs::File,
    path::Path,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
        mpsc::{Sender, channel},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

pub use book::BookError;
pub use error::DaemonError;
pub use memory::MemoryError;

use book::{Book, Follower, Listeners};
use decoders::Read;
use error::if_disk_is_full;
use flood::Flood;
use memory::Memory;
use merging::Merging;
use runs::Runs;
use start::{digest, instance, lock, open_intake, open_reranker, prepare_cluster, read_files};
use taking::{State, Taking};

use crate::{
    config::Config,
    decoding::threads,
    feed::kafka::{Budget, Hold, KafkaFeed, Notice, Wiring},
    index::{shard_folder, shards_in},
    kafka::ClientError,
    ledger::{Announcer, Ledger},
    model::{Event, EventId},
    publish::kafka::{KafkaDeadLetters, Owned, Publisher},
    request::Pipeline,
    telemetry::{Check, Heart, HeartLimits, HttpServer, Metrics, Phase, Status, serve},
};

/// How long leaving the group may take when something has failed.
const LEAVING: Duration = Duration::from_secs(5);
/// How often the main thread looks whether everybody is alive.
const LOOK: Duration = Duration::from_millis(100);

/// What comes to the intake thread.
enum Arrival {
    /// A batch of records, read.
    Read(u64, Vec<Read>),
    /// What happens to partitions.
    Notice(Notice),
    /// The events have changed: all of them, and which have ended.
    Events(Vec<Arc<Event>>, Vec<EventId>),
    /// Nothing more comes.
    End,
}

impl Arrival {
    /// Its place in the order of what was polled.
    fn number(&self) -> Option<u64> {
        match self {
            Self::Read(number, _) => Some(*number),
            Self::Notice(notice) => Some(notice.number),
            Self::Events(..) | Self::End => None,
        }
    }
}

/// Runs until `stop` is set.
pub fn run(config: &Config, stop: &AtomicBool) -> Result<(), DaemonError> {
    let data_dir = config.data_dir.clone();
    let outcome = Daemon::start(config).and_then(|daemon| daemon.work(stop));
    outcome.map_err(|error| if_disk_is_full(&data_dir, error))
}

struct Daemon {
    config: Config,
    status: Arc<Status>,
    http: HttpServer,
    follower: Follower,
    feed: KafkaFeed,
    publisher: Publisher,
    runs: Arc<Runs>,
    ledger: Arc<Mutex<Ledger>>,
    owned: Arc<Owned>,
    budget: Arc<Budget>,
    arrivals: Sender<Arrival>,
    intake: JoinHandle<Result<(), DaemonError>>,
    draining: Arc<AtomicBool>,
    giving_up: Arc<AtomicBool>,
    /// Held as long as the process works; released by the system, however it ends.
    _lock: File,
}

impl Daemon {
    fn start(config: &Config) -> Result<Self, DaemonError> {
        if config.source.is_empty() {
            return Err(DaemonError::NoSource);
        }
        let topics: Vec<String> = config.source.iter().map(|source| source.topic.clone()).collect();
        let files = read_files(config)?;
        let lock = lock(&config.data_dir)?;
        let ledger = Arc::new(Mutex::new(Ledger::open(&config.data_dir.join("ledger.sqlite"))?));
        let instance = instance(config, &ledger)?;
        let client_id = format!("nuggetd-{}-{instance}", config.kafka.group);

        let Telemetry { status, metrics, http } = Telemetry::start(config, &instance)?;
        let reranker = open_reranker(config, &metrics)?;
        prepare_cluster(config, &client_id, &ledger, &status)?;

        let book = Book::new(config, files, Arc::clone(&ledger))?;
        let (batches, to_decode) = channel();
        let (arrivals, arrived) = channel();
        let budget = Arc::new(budget(config));
        let (hold, owned) = (Arc::new(Hold::default()), Arc::new(Owned::default()));
        let (draining, giving_up) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
        decoders::start(threads(&config.feed), to_decode, &arrivals, &book.for_decoders())?;

        let announcer = Arc::new(Announcer { configuration: digest(config, reranker.as_deref()) });
        let intake = open_intake(config, &book, &ledger, &announcer)?;
        let memory = Memory::new(&config.kafka, &client_id, &config.topics, Arc::clone(&ledger))?;
        let letters = dead_letters(config, &client_id, &giving_up, &status)?;
        hold.set(!config.topics.events.is_empty());
        let wiring = Wiring {
            batches,
            notices: notices_to(&arrivals),
            budget: Arc::clone(&budget),
            hold: Arc::clone(&hold),
            status: Arc::clone(&status),
            metrics: Arc::clone(&metrics),
        };
        let feed = KafkaFeed::start(&config.kafka, &client_id, &topics, wiring)?;
        let publisher = Publisher::start(
            &config.kafka,
            &client_id,
            &config.topics,
            Arc::clone(&ledger),
            Arc::clone(&owned),
            feed.member(),
            Arc::clone(&status),
            Arc::clone(&metrics),
        )?;
        let pipeline = Pipeline {
            events: book.for_runs(),
            search: config.search.clone(),
            reranker,
            facts: config.facts.clone(),
            ledger: Arc::clone(&ledger),
            announcer: Some(announcer),
        };
        let runs = Arc::new(Runs::start(
            config.schedule.workers,
            &config.data_dir,
            pipeline,
            publisher.handle(),
            Arc::clone(&status),
            Arc::clone(&metrics),
        )?);
        let taking = Taking {
            config: config.clone(),
            data_dir: config.data_dir.clone(),
            intake,
            ledger: Arc::clone(&ledger),
            letters,
            flood: Flood::new(&config.dead_letters),
            memory,
            runs: Arc::clone(&runs),
            merging: Merging::start()?,
            publisher: publisher.handle(),
            owned: Arc::clone(&owned),
            budget: Arc::clone(&budget),
            hold,
            status: Arc::clone(&status),
            metrics: Arc::clone(&metrics),
            draining: Arc::clone(&draining),
            state: State::new(&topics, config.topics.events.is_empty()),
        };
        let intake = thread::Builder::new().name("intake".to_owned()).spawn(move || taking.run(&arrived))?;
        let listeners = Listeners { arrivals: arrivals.clone(), status: Arc::clone(&status), metrics };
        let follower = Follower::start(book, &client_id, listeners)?;
        begin(&status);
        tracing::info!(instance, group = config.kafka.group, ?topics, "running");
        Ok(Self {
            config: config.clone(),
            status,
            http,
            follower,
            feed,
            publisher,
            runs,
            ledger,
            owned,
            budget,
            arrivals,
            intake,
            draining,
            giving_up,
            _lock: lock,
        })
    }

    /// Works until told to end, or until a thread has ended by itself.
    fn work(self, stop: &AtomicBool) -> Result<(), DaemonError> {
        while !stop.load(Ordering::Relaxed) {
            if self.intake.is_finished() || self.feed.has_ended() || self.publisher.has_ended() {
                return self.fail();
            }
            thread::sleep(LOOK);
        }
        tracing::info!("told to end, finishing what is under way");
        self.drain()
    }

    /// A thread has ended by itself: says why. State is as after a kill, which every restart can deal with.
    fn fail(mut self) -> Result<(), DaemonError> {
        self.giving_up.store(true, Ordering::Relaxed);
        let polled = if self.feed.has_ended() { self.feed.join() } else { Ok(()) };
        let published = if self.publisher.has_ended() { self.publisher.stop() } else { Ok(()) };
        let has_taken = self.intake.is_finished().then_some(self.intake);
        leave(self.feed, self.publisher);
        match has_taken.map(JoinHandle::join) {
            Some(Ok(Err(error))) => return Err(error),
            Some(Err(_)) => return Err(intake_panicked(&self.config.data_dir)),
            Some(Ok(Ok(()))) | None => {}
        }
        polled?;
        published?;
        Err(DaemonError::Stopped("a thread ended early".to_owned()))
    }

    /// Ends in order: no more records, what was read is taken, runs under way end, what is ours is published, the group
    /// is left.
    fn drain(mut self) -> Result<(), DaemonError> {
        let grace = self.config.shutdown.grace.duration();
        let until = Instant::now() + grace;
        let left = || until.saturating_duration_since(Instant::now());
        self.status.set_phase(Phase::Draining);
        self.draining.store(true, Ordering::Relaxed);
        self.follower.stop();
        self.feed.stop();
        if !wait_for(|| self.feed.has_ended(), left()) {
            return Err(DaemonError::Grace(grace));
        }
        if let Err(error) = self.feed.join() {
            tracing::info!(%error, "polling ended");
        }
        self.status.rest(Heart::Poll);
        wait_for(|| self.budget.in_use().0 == 0 || self.intake.is_finished(), left());
        let ran = self.runs.end(left() / 2);
        let published = self.publisher.handle().drain(left() / 2);
        let unsent = if published { None } else { self.unsent()? };
        self.publisher.tell_to_stop();
        if !wait_for(|| self.publisher.has_ended(), left()) {
            return Err(unsent.unwrap_or(DaemonError::Grace(grace)));
        }
        self.publisher.stop()?;
        self.giving_up.store(left().is_zero(), Ordering::Relaxed);
        // Closing the consumer has the intake commit and let go of everything
        let feed = self.feed;
        let closing = thread::spawn(move || drop(feed));
        wait_for(|| closing.is_finished() || self.intake.is_finished(), left());
        let closed = closing.is_finished();
        self.giving_up.store(!closed, Ordering::Relaxed);
        // It may have ended with an error, which it says below
        self.arrivals.send(Arrival::End).unwrap_or_default();
        if !wait_for(|| self.intake.is_finished(), left()) {
            return Err(DaemonError::Grace(grace));
        }
        match self.intake.join() {
            Ok(ended) => ended?,
            Err(_) => return Err(intake_panicked(&self.config.data_dir)),
        }
        self.status.set_phase(Phase::Stopped);
        self.http.stop();
        tracing::info!(ran, published, closed, "ended");
        unsent.map_or(Ok(()), Err)
    }

    /// What is ours and could not be published; nothing where all of it was after all.
    fn unsent(&self) -> Result<Option<DaemonError>, DaemonError> {
        // Whoever holds the ledger may hold it for long; then something else does not end either
        let mut waiting = None;
        wait_for(
            || {
                waiting = self.ledger.try_lock().ok().map(|ledger| ledger.waiting_by_event());
                waiting.is_some()
            },
            Duration::from_millis(200),
        );
        let waiting = waiting.transpose()?.unwrap_or_default();
        let ours = waiting.into_iter().filter(|(event, _)| self.owned.has(event));
        let batches: u64 = ours.map(|(_, batches)| batches).sum();
        if batches == 0 {
            return Ok(None);
        }
        let checks = self.status.checks();
        let failed = checks.into_iter().find(|check| check.name == Check::Publisher.as_str() && !check.ok);
        let reason = failed.map_or_else(|| "there was no time for it".to_owned(), |check| check.detail);
        let (nuggets, requests) = (&self.config.topics.nuggets, &self.config.topics.requests);
        tracing::warn!(
            batches,
            nuggets,
            requests,
            reason,
            "results wait to be published, the next start sends them"
        );
        Ok(Some(DaemonError::Unsent { batches, reason }))
    }
}

/// Why the intake thread may have panicked: over a damaged shard, where there is one.
fn intake_panicked(data_dir: &Path) -> DaemonError {
    // Where the folder itself cannot be read nothing more is known than that the thread failed
    let keys = shards_in(data_dir).unwrap_or_default();
    let damage = keys.iter().find_map(|key| runs::damage(&shard_folder(data_dir, key)));
    damage.map_or_else(
        || DaemonError::Stopped("the intake thread failed; see the message above".to_owned()),
        DaemonError::Index,
    )
}

/// Leaves the group, so that nobody waits for this member's session to end. The process ends anyway, so a broker that
/// does not answer is not waited for.
fn leave(mut feed: KafkaFeed, mut publisher: Publisher) {
    feed.stop();
    let leaving = thread::spawn(move || {
        // Both have said why they ended, if they did by themselves
        publisher.stop().unwrap_or_default();
        feed.join().unwrap_or_default();
    });
    wait_for(|| leaving.is_finished(), LEAVING);
}

/// Waits until something holds; false where the time is up.
fn wait_for(mut holds: impl FnMut() -> bool, limit: Duration) -> bool {
    let until = Instant::now() + limit;
    while !holds() {
        if Instant::now() >= until {
            return false;
        }
        thread::sleep(Duration::from_millis(10));
    }
    true
}

/// What the outside sees of the process.
struct Telemetry {
    status: Arc<Status>,
    metrics: Arc<Metrics>,
    http: HttpServer,
}

impl Telemetry {
    fn start(config: &Config, instance: &str) -> Result<Self, DaemonError> {
        let limits = HeartLimits { poll: Duration::from_secs(60), intake: Duration::from_secs(180) };
        let (status, metrics) = (Arc::new(Status::new(instance, limits)), Arc::new(Metrics::new()?));
        status.set_check(Check::Configuration, true, "read");
        let address = config.http.listen.parse().map_err(|error| {
            DaemonError::Stopped(format!("http.listen {:?}: {error}", config.http.listen))
        })?;
        let http = serve(address, Arc::clone(&status), Arc::clone(&metrics))?;
        Ok(Self { status, metrics, http })
    }
}

/// Everything is started: what was not looked at yet counts as good.
fn begin(status: &Status) {
    status.set_check(Check::Publisher, true, "nothing to publish yet");
    status.set_check(Check::Index, true, "no commit yet");
    status.set_check(Check::Intake, true, "items are taken");
    status.set_check(Check::Runs, true, "none has failed");
    status.set_check(Check::DeadLetters, true, "none waits long");
    status.set_phase(Phase::Running);
}

fn budget(config: &Config) -> Budget {
    let bytes = u64::try_from(config.kafka.queue_bytes.0).unwrap_or_default();
    Budget::new(config.kafka.queue_records.into(), bytes)
}

fn dead_letters(
    config: &Config,
    client_id: &str,
    giving_up: &Arc<AtomicBool>,
    status: &Arc<Status>,
) -> Result<KafkaDeadLetters, ClientError> {
    let (giving_up, status) = (Arc::clone(giving_up), Arc::clone(status));
    KafkaDeadLetters::new(&config.kafka, client_id, &config.topics.dead_letters, giving_up, status)
}

fn notices_to(arrivals: &Sender<Arrival>) -> Box<dyn Fn(Notice) -> bool + Send> {
    let arrivals = arrivals.clone();
    Box::new(move |notice| arrivals.send(Arrival::Notice(notice)).is_ok())
}

/// Bytes that may still be written on the disk of a folder; nothing where the system does not say.
fn free_bytes(folder: &Path) -> Option<u64> {
    let disk = rustix::fs::statvfs(folder).ok()?;
    Some(disk.f_bavail.saturating_mul(disk.f_frsize))
}
