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
mod flood;
mod memory;
mod merging;
mod runs;
mod taking;

use std::{
    fs::{self, File, TryLockError},
    io,
    path::{Path, PathBuf},
    process,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
        mpsc::{Sender, channel},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use xxhash_rust::xxh3::xxh3_64;

pub use book::BookError;
pub use memory::MemoryError;

use book::{Book, Follower, Listeners};
use decoders::Read;
use flood::Flood;
use memory::Memory;
use merging::Merging;
use runs::Runs;
use taking::{State, Taking};

use crate::{
    config::Config,
    decoding::threads,
    feed::{
        EventsError,
        kafka::{Budget, FeedError, Hold, KafkaFeed, Notice, Wiring},
        read_events,
    },
    index::{IndexError, ShardOptions, Shards, shard_folder, shards_in},
    intake::{Intake, IntakeError},
    kafka::{ClientError, Cluster, ClusterError, forgets},
    ledger::{Announcer, Ledger, LedgerError},
    model::{Event, EventId},
    publish::kafka::{KafkaDeadLetters, Owned, PublishError, Publisher},
    rank::{RerankError, Reranker, Scorer},
    request::{Pipeline, RunError},
    telemetry::{Check, Heart, HeartLimits, HttpError, HttpServer, Metrics, Phase, Status, serve},
};

/// How long the first question to a broker may take.
const FIRST_ANSWER: Duration = Duration::from_secs(15);
/// How long leaving the group may take when something has failed.
const LEAVING: Duration = Duration::from_secs(5);
/// How often the main thread looks whether everybody is alive.
const LOOK: Duration = Duration::from_millis(100);
/// Where the ledger keeps which cluster its positions are of.
const CLUSTER: &str = "cluster";
/// Where the ledger keeps the name of this instance.
const INSTANCE: &str = "instance";

/// Why the daemon does not start, or ended.
#[derive(Debug, thiserror::Error)]
pub enum DaemonError {
    /// No `[[source]]`.
    #[error("no item topic is configured: add a [[source]] section with its topic")]
    NoSource,
    /// No event can come.
    #[error("there are no events: set events.files, topics.events or both")]
    NoEvents,
    /// The event files.
    #[error(transparent)]
    Events(#[from] EventsError),
    /// The events.
    #[error(transparent)]
    Book(#[from] BookError),
    /// Clients' configuration.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// The brokers, at the start.
    #[error(transparent)]
    Cluster(#[from] ClusterError),
    /// A topic that items come from does not exist.
    #[error("topic {0} does not exist; make it, or mend its [[source]] section")]
    NoTopic(String),
    /// A topic that must remember does not.
    #[error("topic {topic} has cleanup.policy {policy}: {fault}")]
    Forgetful {
        /// Which topic.
        topic: String,
        /// Its policy.
        policy: String,
        /// What is wrong with it.
        fault: &'static str,
    },
    /// Another cluster than before.
    #[error(
        "the positions in {path} are of cluster {before}, the brokers are of {now}; if that was meant, `nuggetd index \
         reset-positions --yes` begins the topics again"
    )]
    OtherCluster {
        /// The ledger's folder.
        path: PathBuf,
        /// What the ledger knows.
        before: String,
        /// What the brokers say.
        now: String,
    },
    /// Another process has the folder.
    #[error("another nuggetd works in {0}")]
    Busy(PathBuf),
    /// Taking items.
    #[error(transparent)]
    Intake(#[from] IntakeError),
    /// A shard.
    #[error(transparent)]
    Index(#[from] IndexError),
    /// The ledger.
    #[error(transparent)]
    Ledger(#[from] LedgerError),
    /// Running a request.
    #[error(transparent)]
    Run(#[from] RunError),
    /// Polling.
    #[error(transparent)]
    Feed(#[from] FeedError),
    /// Publishing.
    #[error(transparent)]
    Publish(#[from] PublishError),
    /// The endpoints.
    #[error(transparent)]
    Http(#[from] HttpError),
    /// The metrics.
    #[error("metrics: {0}")]
    Metrics(#[from] prometheus::Error),
    /// What the ledger knows is no longer there: a line for each shard.
    #[error("{}", .0.join("\n"))]
    Vanished(Vec<String>),
    /// Something a person must decide, or that only time mends.
    #[error("{0}")]
    Stopped(String),
    /// No room on the disk.
    #[error(
        "the disk of {path} is full, or a file may grow no more; nothing that was acknowledged is lost; free some space and start again: {reason}"
    )]
    DiskFull {
        /// The data folder.
        path: PathBuf,
        /// What could not be written.
        reason: String,
    },
    /// The model that reranks.
    #[error(transparent)]
    Rerank(#[from] RerankError),
    /// What was to be published could not be.
    #[error(
        "told to end before {batches} batch(es) of results could be published: {reason}; the next start sends them"
    )]
    Unsent {
        /// How many.
        batches: u64,
        /// Why.
        reason: String,
    },
    /// The grace period was too short.
    #[error("not everything ended within the grace period of {0:?}; it goes on after a restart")]
    Grace(Duration),
    /// A file or thread.
    #[error(transparent)]
    Io(#[from] io::Error),
}

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

        let announcer = Arc::new(Announcer { configuration: digest(config) });
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

fn read_files(config: &Config) -> Result<Vec<Event>, DaemonError> {
    if config.events.files.is_empty() {
        if config.topics.events.is_empty() {
            return Err(DaemonError::NoEvents);
        }
        return Ok(Vec::new());
    }
    let paths: Vec<PathBuf> = config.events.files.iter().map(PathBuf::from).collect();
    Ok(read_events(&paths)?)
}

fn lock(data_dir: &Path) -> Result<File, DaemonError> {
    let at =
        |error: io::Error, path: &Path| io::Error::new(error.kind(), format!("{}: {error}", path.display()));
    fs::create_dir_all(data_dir).map_err(|error| at(error, data_dir))?;
    let path = data_dir.join("lock");
    let file = File::create(&path).map_err(|error| at(error, &path))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(DaemonError::Busy(data_dir.into())),
        Err(TryLockError::Error(error)) => Err(at(error, &path).into()),
    }
}

/// This instance's name: the configured one, else one that lasts as long as the ledger.
fn instance(config: &Config, ledger: &Mutex<Ledger>) -> Result<String, DaemonError> {
    if !config.kafka.group_instance_id.is_empty() {
        return Ok(config.kafka.group_instance_id.clone());
    }
    let mut ledger = ledger.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(name) = ledger.meta::<String>(INSTANCE)? {
        return Ok(name);
    }
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    let seed = format!("{}-{}-{}", config.data_dir.display(), process::id(), since.as_nanos());
    let name = format!("{:016x}", xxh3_64(seed.as_bytes()));
    ledger.set_meta(INSTANCE, &name)?;
    Ok(name)
}

/// Looks whether the brokers are the ones that the ledger knows and have the topics; makes those that are ours.
fn prepare_cluster(
    config: &Config,
    client_id: &str,
    ledger: &Mutex<Ledger>,
    status: &Status,
) -> Result<(), DaemonError> {
    let cluster = Cluster::connect(&config.kafka, client_id, FIRST_ANSWER)?;
    status.set_check(Check::Broker, true, "answered");
    if let Some(now) = cluster.id() {
        let mut ledger = ledger.lock().unwrap_or_else(PoisonError::into_inner);
        match ledger.meta::<String>(CLUSTER)? {
            Some(before) if before != now => {
                return Err(DaemonError::OtherCluster { path: config.data_dir.clone(), before, now });
            }
            Some(_) => {}
            None => ledger.set_meta(CLUSTER, &now)?,
        }
    }
    for source in &config.source {
        if cluster.partitions(&source.topic)?.is_none() {
            return Err(DaemonError::NoTopic(source.topic.clone()));
        }
    }
    let topics = &config.topics;
    let mut tells = true;
    for (topic, compacted) in [
        (&topics.events, true),
        (&topics.nuggets, true),
        (&topics.requests, true),
        (&topics.dead_letters, false),
    ] {
        if topic.is_empty() {
            continue;
        }
        if cluster.partitions(topic)?.is_some() {
            if compacted && tells {
                tells = refuse_forgetful(&cluster, topic)?;
            }
            continue;
        }
        if !topics.create {
            return Err(DaemonError::Stopped(format!(
                "topic {topic} does not exist, and topics.create is off"
            )));
        }
        cluster.create(topic, 1, topics.replication, compacted)?;
        tracing::info!(topic, compacted, "topic made");
    }
    Ok(())
}

fn open_reranker(config: &Config, metrics: &Arc<Metrics>) -> Result<Option<Arc<Reranker>>, RerankError> {
    let reranker = Reranker::configured(&config.rerank, metrics)?;
    tracing::info!(
        reranker = reranker.as_deref().map_or("none, the order is BM25's", Scorer::name),
        "models are loaded"
    );
    Ok(reranker)
}

/// Refuses a topic that does not remember. Gives whether the brokers tell: not every one does.
fn refuse_forgetful(cluster: &Cluster, topic: &str) -> Result<bool, DaemonError> {
    let policy = match cluster.cleanup_policy(topic) {
        Ok(policy) => policy,
        Err(error) => {
            tracing::info!(topic, %error, "whether the topic is compacted is not told");
            return Ok(false);
        }
    };
    match forgets(&policy) {
        Some(fault) => Err(DaemonError::Forgetful { topic: topic.to_owned(), policy, fault }),
        None => Ok(true),
    }
}

fn open_intake(
    config: &Config,
    book: &Book,
    ledger: &Arc<Mutex<Ledger>>,
    announcer: &Arc<Announcer>,
) -> Result<Intake, DaemonError> {
    let options = ShardOptions {
        writer_memory: config.index.writer_memory.as_usize(),
        near_threshold: Some(config.clean.near_threshold),
    };
    let shards = Shards::new(&config.data_dir, options, config.index.open_shards);
    let intake = Intake::new(
        &book.all(),
        shards,
        &config.schedule,
        config.index.clone(),
        Arc::clone(ledger),
        Some(Arc::clone(announcer)),
    )?;
    refuse_vanished_shards(&intake, ledger)?;
    Ok(intake)
}

/// A shard holds at least what a run saw, unless it is being built anew; nothing else would bring back what somebody
/// removed, because the position lies behind it.
fn refuse_vanished_shards(intake: &Intake, ledger: &Mutex<Ledger>) -> Result<(), DaemonError> {
    let requests = ledger.lock().unwrap_or_else(PoisonError::into_inner).requests()?;
    let mut vanished = Vec::new();
    for request in requests.iter().filter(|request| request.here) {
        let Some(run) = &request.run else { continue };
        let held = intake.shards().payload(&request.key)?.map_or(0, |payload| payload.items);
        let is_passed = request.first.iter().all(|(topic, partition, first)| {
            intake.next_offset(topic, partition).is_some_and(|next| next > first)
        });
        if held == 0 && run.cutoff > 0 && is_passed && !request.first.is_empty() {
            let ((event, request), path) = (&request.key, intake.shards().path(&request.key));
            vanished.push(format!(
                "shard {} holds {held} items, the ledger knows {}; `nuggetd index rebuild --event {event} --request \
                 {request} --yes` has it built anew from Kafka",
                path.display(),
                run.cutoff
            ));
        }
    }
    if vanished.is_empty() { Ok(()) } else { Err(DaemonError::Vanished(vanished)) }
}

/// Digest of what in the configuration decides results.
fn digest(config: &Config) -> String {
    let of_result = (
        &config.clean,
        (&config.schedule.lateness, &config.schedule.out_of_orderness, config.schedule.revise_late),
        &config.search,
        &config.facts,
    );
    // Numbers and texts always print
    let text = serde_json::to_string(&of_result).unwrap_or_default();
    format!("{:016x}", xxh3_64(text.as_bytes()))
}

/// Bytes that may still be written on the disk of a folder; nothing where the system does not say.
fn free_bytes(folder: &Path) -> Option<u64> {
    let disk = rustix::fs::statvfs(folder).ok()?;
    Some(disk.f_bavail.saturating_mul(disk.f_frsize))
}

/// tantivy and SQLite do not always say that the disk is full, but it can be seen.
fn if_disk_is_full(data_dir: &Path, error: DaemonError) -> DaemonError {
    let is_about_state = matches!(
        error,
        DaemonError::Intake(IntakeError::Index(_) | IntakeError::Ledger(_))
            | DaemonError::Index(_)
            | DaemonError::Ledger(_)
            | DaemonError::Run(_)
            | DaemonError::Publish(PublishError::Ledger(_))
            | DaemonError::Io(_)
    );
    let reason = error.to_string();
    let says_so = ["No space left", "os error 28", "disk is full", "File too large", "os error 27"]
        .iter()
        .any(|text| reason.contains(text));
    let is_full = free_bytes(data_dir).is_some_and(|free| free < 1 << 20);
    if is_about_state && (says_so || is_full) {
        DaemonError::DiskFull { path: data_dir.into(), reason }
    } else {
        error
    }
}
