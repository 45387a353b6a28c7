//! `nuggetd replay`: an archive in, a run out; or, with `--to-kafka`, an archive into a topic.
//!
//! The stream passes the intake; requests close by event time and run on a thread beside it; results go to the ledger,
//! and from there to the files. The state lies in `DIR/state`: after a kill, `--resume` goes on from the last
//! checkpoint and the run comes out the same to the byte.

mod progress;
mod runner;
mod summary;
mod to_kafka;

use std::{
    fs::{self, File, TryLockError},
    io,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError, RwLock},
    time::{Duration, Instant},
};

use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_64;

pub use progress::Progress;
use runner::Runner;
pub use summary::{RequestSummary, Summary};
pub use to_kafka::{Clock, Halt, Sent, Speed, ToKafka, ToKafkaError, WallClock};

use crate::{
    clean::Cleaner,
    config::Config,
    decoding::{Decoding, UnknownEvent, threads},
    feed::{
        ArchiveError, ArchiveFile, EventsError, Router, RouterError, event_files, open_archive, read_events,
    },
    index::{IndexError, ShardOptions, Shards},
    intake::{DeadLetters, Due, Intake, IntakeError, Place},
    ledger::{KnownRequest, Ledger, LedgerError},
    model::{Event, Nugget},
    publish::{RejectedFile, RunFiles},
    rank::{RerankError, Reranker},
    request::{Pipeline, RunError},
    stream::{Outcome, Stream},
    telemetry::Metrics,
};

/// How often the files are written while requests are being run.
const WRITE_EVERY: Duration = Duration::from_secs(2);

/// What is replayed, and where to.
#[derive(Debug, Clone)]
pub struct Replay {
    /// Files, folders, patterns, `-`.
    pub archive: Vec<String>,
    /// Event files or folders.
    pub events: Vec<PathBuf>,
    /// The folder of the run.
    pub out: PathBuf,
    /// Whether to go on with what the folder holds.
    pub resume: bool,
    /// The configuration.
    pub config: Config,
}

/// Why a replay stopped.
#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    /// The event files.
    #[error(transparent)]
    Events(#[from] EventsError),
    /// The archive.
    #[error(transparent)]
    Archive(#[from] ArchiveError),
    /// The events' keywords.
    #[error(transparent)]
    Router(#[from] RouterError),
    /// The configured event.
    #[error(transparent)]
    UnknownEvent(#[from] UnknownEvent),
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
    /// The model that reranks.
    #[error(transparent)]
    Rerank(#[from] RerankError),
    /// Metrics that cannot be made.
    #[error(transparent)]
    Metrics(#[from] prometheus::Error),
    /// The folder is not empty.
    #[error("{0} holds {1} already: choose another --out, or go on with it by --resume")]
    Used(PathBuf, String),
    /// `--resume` with another input.
    #[error("{0} was begun with another {1}; a resumed run must be given the same")]
    Different(PathBuf, &'static str),
    /// Another process has the folder.
    #[error("another nuggetd works in {0}; wait for it, or choose another --out")]
    Busy(PathBuf),
    /// What the ledger knows is no longer there.
    #[error("{0}; begin the run anew with another --out")]
    Damaged(String),
    /// Reading or writing in the folder of the run.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// What a run was begun with; a resumed one must be the same.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Inputs {
    version: String,
    archive: Vec<String>,
    events: u64,
    configuration: u64,
    /// Of the model that reranks, wherever it lies.
    #[serde(default)]
    reranker: Option<u64>,
}

impl Inputs {
    fn new(
        archive: &[String],
        events: &[Arc<Event>],
        config: &Config,
        reranker: Option<&Reranker>,
    ) -> Result<Self, ReplayError> {
        let events: Vec<&Event> = events.iter().map(Arc::as_ref).collect();
        // How often to commit, how many threads and what to log change no result.
        let of_result = (
            &config.feed.format,
            &config.feed.event,
            &config.clean,
            (&config.schedule.lateness, &config.schedule.out_of_orderness, config.schedule.revise_late),
            &config.search,
            (&config.rerank.pieces, config.rerank.top),
            &config.facts,
        );
        let digest = |bytes: Result<Vec<u8>, serde_json::Error>| bytes.map(|bytes| xxh3_64(&bytes));
        Ok(Self {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            archive: archive.to_vec(),
            events: digest(serde_json::to_vec(&events)).map_err(io::Error::from)?,
            configuration: digest(serde_json::to_vec(&of_result)).map_err(io::Error::from)?,
            reranker: reranker.map(Reranker::fingerprint),
        })
    }

    /// Names what a run was begun with that is not so now.
    fn refuse_others(&self, begun: &Self, out: &Path) -> Result<(), ReplayError> {
        let what = if begun.version != self.version {
            "version of nuggetd"
        } else if begun.archive != self.archive {
            "archive"
        } else if begun.events != self.events {
            "set of events"
        } else if begun.configuration != self.configuration {
            "configuration"
        } else if begun.reranker != self.reranker {
            "reranker"
        } else {
            return Ok(());
        };
        Err(ReplayError::Different(out.into(), what))
    }
}

impl Replay {
    /// Replays the archive to its end.
    pub fn run(&self, progress: &Progress) -> Result<Summary, ReplayError> {
        let reranker = Reranker::configured(&self.config.rerank, &Arc::new(Metrics::new()?))?;
        let events: Vec<Arc<Event>> = read_events(&self.events)?.into_iter().map(Arc::new).collect();
        let files = open_archive(&self.archive, &event_files(&self.events))?;
        let topics: Vec<String> = files.iter().map(|file| file.identity.clone()).collect();
        let mut run = Run::open(self, events, &topics, reranker)?;
        progress.archive(files.iter().map(ArchiveFile::bytes).sum());

        let skip: Vec<u64> = topics.iter().map(|topic| run.intake.positions().next(topic, 0)).collect();
        let mut runner = run.start_runner(progress);
        run.queue_unfinished(&mut runner)?;
        let mut stream = Stream::new(files, &skip, run.decoding(&self.config)?, threads(&self.config.feed));
        let mut last_written = Instant::now();
        while let Some(streamed) = stream.next() {
            let Some(topic) = topics.get(streamed.file) else { continue };
            let place = Place { topic, partition: 0, offset: streamed.number };
            let closed = run.take(place, streamed.outcome)?;
            progress.records(run.intake.counts().records, stream.packed_read());
            for due in closed {
                runner.run(due)?;
            }
            if run.intake.wants_commit() {
                run.commit()?;
            }
            if last_written.elapsed() >= WRITE_EVERY {
                run.write_nuggets()?;
                last_written = Instant::now();
            }
        }
        let faults = stream.faults().to_vec();
        drop(stream);
        run.commit()?;
        for due in run.intake.close_all()? {
            runner.run(due)?;
        }
        runner.finish()?;
        if self.config.schedule.revise_late {
            run.revise(progress)?;
        }
        progress.finish();
        let summary = run.summary(faults)?;
        run.write_nuggets()?;
        run.files.write_summary(&summary)?;
        Ok(summary)
    }
}

/// The state of a replay.
struct Run {
    /// Held as long as the run; released by the system, however the process ends.
    _lock: File,
    config: Config,
    events: Vec<Arc<Event>>,
    files: RunFiles,
    rejected: RejectedFile,
    ledger: Arc<Mutex<Ledger>>,
    intake: Intake,
    reranker: Option<Arc<Reranker>>,
}

impl Run {
    fn open(
        replay: &Replay,
        events: Vec<Arc<Event>>,
        topics: &[String],
        reranker: Option<Arc<Reranker>>,
    ) -> Result<Self, ReplayError> {
        let config = replay.config.clone();
        let state = replay.out.join("state");
        if !replay.resume {
            refuse_used(&replay.out)?;
        }
        fs::create_dir_all(&state).map_err(|error| in_path(&state, &error))?;
        let lock = lock(&replay.out, &state)?;
        let mut ledger = Ledger::open(&state.join("ledger.sqlite"))?;
        let inputs = Inputs::new(topics, &events, &config, reranker.as_deref())?;
        match ledger.meta::<Inputs>("inputs")? {
            Some(begun) => inputs.refuse_others(&begun, &replay.out)?,
            None => ledger.set_meta("inputs", &inputs)?,
        }
        let rejected = RejectedFile::open(&replay.out, ledger.checkpoint()?.rejected_bytes)
            .map_err(|error| ReplayError::Damaged(error.to_string()))?;
        let ledger = Arc::new(Mutex::new(ledger));
        let options = ShardOptions {
            writer_memory: config.index.writer_memory.as_usize(),
            near_threshold: Some(config.clean.near_threshold),
        };
        let shards = Shards::new(&state, options, config.index.open_shards);
        let intake =
            Intake::new(&events, shards, &config.schedule, config.index.clone(), Arc::clone(&ledger), None)?;
        let run = Self {
            _lock: lock,
            config,
            events,
            files: RunFiles::new(&replay.out),
            rejected,
            ledger,
            intake,
            reranker,
        };
        run.refuse_vanished_shards()?;
        Ok(run)
    }

    /// A shard holds at least what a closed request saw; nothing would bring back what somebody removed, because the
    /// checkpoint lies behind it.
    fn refuse_vanished_shards(&self) -> Result<(), ReplayError> {
        let requests = self.ledger.lock().unwrap_or_else(PoisonError::into_inner).requests()?;
        for request in requests {
            let Some(run) = request.run else { continue };
            let held = self.intake.shards().payload(&request.key)?.map_or(0, |payload| payload.items);
            if held < run.cutoff {
                return Err(ReplayError::Damaged(format!(
                    "shard {} holds {held} items, the ledger knows {}",
                    self.intake.shards().path(&request.key).display(),
                    run.cutoff
                )));
            }
        }
        Ok(())
    }

    fn decoding(&self, config: &Config) -> Result<Decoding, ReplayError> {
        let router = Router::new(&self.events.iter().map(|event| (**event).clone()).collect::<Vec<_>>())?;
        let cleaner = Some(Arc::new(Cleaner::new()));
        Ok(Decoding::configured(&config.feed, router, cleaner, &self.events)?)
    }

    fn start_runner(&self, progress: &Progress) -> Runner {
        let pipeline = Pipeline {
            events: Arc::new(RwLock::new(
                self.events.iter().map(|event| (event.id.clone(), Arc::clone(event))).collect(),
            )),
            search: self.config.search.clone(),
            reranker: self.reranker.clone(),
            facts: self.config.facts.clone(),
            ledger: Arc::clone(&self.ledger),
            announcer: None,
        };
        let progress = progress.clone();
        Runner::start(pipeline, move |record| progress.request(record))
    }

    /// Requests that had closed but not run when the run was killed.
    fn queue_unfinished(&mut self, runner: &mut Runner) -> Result<(), ReplayError> {
        for due in self.intake.unfinished(|_| false)? {
            runner.run(due)?;
        }
        Ok(())
    }

    fn take(&mut self, place: Place<'_>, outcome: Outcome) -> Result<Vec<Due>, ReplayError> {
        for letter in &outcome.refused {
            tracing::info!(source = letter.position.source, code = %letter.code, "record refused: {}", letter.message);
            self.rejected.keep(letter)?;
        }
        Ok(self.intake.take(place, outcome.items, outcome.refused.iter().map(|letter| letter.code))?)
    }

    fn commit(&mut self) -> Result<(), ReplayError> {
        Ok(self.intake.commit(&mut self.rejected)?)
    }

    /// Runs every request again that items came for after it had closed.
    fn revise(&mut self, progress: &Progress) -> Result<(), ReplayError> {
        let mut runner = self.start_runner(progress);
        for due in self.intake.revise_late()? {
            runner.run(due)?;
        }
        Ok(runner.finish()?)
    }

    /// All nuggets by event, then day, best first.
    fn nuggets(&self) -> Result<Vec<Nugget>, ReplayError> {
        let ledger = self.ledger.lock().unwrap_or_else(PoisonError::into_inner);
        let mut nuggets = Vec::new();
        for event in &self.events {
            for request in &event.requests {
                nuggets.extend(ledger.nuggets(&(event.id.clone(), request.id.clone()))?);
            }
        }
        Ok(nuggets)
    }

    fn write_nuggets(&self) -> Result<(), ReplayError> {
        Ok(self.files.write_nuggets(&self.nuggets()?)?)
    }

    fn summary(&mut self, faults: Vec<String>) -> Result<Summary, ReplayError> {
        self.rejected.sync()?;
        let mut requests = self.ledger.lock().unwrap_or_else(PoisonError::into_inner).requests()?;
        requests.retain(KnownRequest::is_closed);
        Ok(Summary::new(&self.config, &self.events, &requests, &self.intake, faults)?)
    }
}

/// One process at a time.
fn lock(out: &Path, state: &Path) -> Result<File, ReplayError> {
    let path = state.join("lock");
    let file = File::create(&path).map_err(|error| in_path(&path, &error))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(ReplayError::Busy(out.into())),
        Err(TryLockError::Error(error)) => Err(in_path(&path, &error).into()),
    }
}

fn refuse_used(out: &Path) -> Result<(), ReplayError> {
    for name in RunFiles::NAMES.iter().chain(&["state"]) {
        if out.join(name).exists() {
            return Err(ReplayError::Used(out.into(), (*name).to_owned()));
        }
    }
    Ok(())
}

fn in_path(path: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// A replay of answers of two good tweets and a bad one each; the folder of each run has its name.
    fn replay(folder: &Path, out: &str, resume: bool) -> Replay {
        let start = 1_512_604_800;
        let event = json!({"eventID": "A", "title": "A", "keywords": ["homes"],
            "queries": [{"queryID": "q", "query": "Which homes burn?", "indicativeTerms": "homes"}],
            "summaryRequests": [{"requestID": "A-r1", "startUnixTimestamp": start, "endUnixTimestamp": start + 86_399}]});
        fs::write(folder.join("A.event.json"), event.to_string()).unwrap();
        let answers: Vec<String> = (0..20)
            .map(|number| {
                let tweet = |part: i64| {
                    json!({"id": format!("{number}{part}"), "created_at": start + number * 60 + part,
                           "text": format!("{number} homes burn in street number {part}{number}")})
                };
                let bad = json!({"id": format!("{number}9"), "text": "homes"});
                json!({"data": [tweet(1), bad, tweet(2)]}).to_string()
            })
            .collect();
        fs::write(folder.join("answers.jsonl"), answers.join("\n")).unwrap();
        Replay {
            archive: vec![folder.join("answers.jsonl").display().to_string()],
            events: vec![folder.join("A.event.json")],
            out: folder.join(out),
            resume,
            config: Config::default(),
        }
    }

    #[test]
    fn a_record_with_good_and_bad_items_is_counted_once_across_a_kill() {
        let folder = tempfile::tempdir().unwrap();
        let whole = replay(folder.path(), "whole", false).run(&Progress::hidden()).unwrap();
        assert_eq!((whole.records, whole.items), (20, 40));
        assert_eq!(whole.refused, [("missing_time".to_owned(), 20)].into());

        let killed = replay(folder.path(), "killed", false);
        let events: Vec<Arc<Event>> =
            read_events(&killed.events).unwrap().into_iter().map(Arc::new).collect();
        let files = open_archive(&killed.archive, &killed.events).unwrap();
        let topics = [files[0].identity.clone()];
        let mut run = Run::open(&killed, events, &topics, None).unwrap();
        let stream = Stream::new(files, &[0], run.decoding(&killed.config).unwrap(), 1);
        for streamed in stream.take(14) {
            let place = Place { topic: &topics[0], partition: 0, offset: streamed.number };
            run.take(place, streamed.outcome).unwrap();
            if streamed.number == 7 {
                run.commit().unwrap();
            }
        }
        // Some of what was taken after the commit has reached the file, and a shard may be ahead of the checkpoint.
        run.rejected.sync().unwrap();
        let positions = run.intake.positions().clone();
        assert_eq!(positions.next(&topics[0], 0), 14);
        drop(run);

        let resumed = replay(folder.path(), "killed", true).run(&Progress::hidden()).unwrap();
        assert_eq!(resumed, whole);
        for file in ["run.jsonl", "nuggets.jsonl", "summary.json", "rejected.jsonl"] {
            let read = |out: &str| fs::read_to_string(folder.path().join(out).join(file)).unwrap();
            assert_eq!(read("killed"), read("whole"), "{file}");
        }
    }
}
