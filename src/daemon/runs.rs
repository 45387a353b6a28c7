//! Runs of requests on worker threads: several events at once, the requests of one event in the order in which they
//! came due, because each sees what the ones before it have said.
//!
//! A run that panics has met a damaged shard, which stops the daemon as other damage does, or a fault of nuggetd: then
//! the request is remembered as failed, so that it can be seen, and runs again at the next start.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    panic::{AssertUnwindSafe, catch_unwind},
    path::{Path, PathBuf},
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use crate::{
    index::{Analysis, Analyzer, IndexError, ShardKey, shard_folder, verify_shard},
    intake::Due,
    model::EventId,
    publish::kafka::PublisherHandle,
    request::{Pipeline, Ran, RunError},
    telemetry::{self, Metrics, RunOutcome, Stage, Status},
};

/// The queue and its workers.
pub(super) struct Runs {
    shared: Arc<Shared>,
    workers: Mutex<Vec<JoinHandle<()>>>,
}

struct Shared {
    data_dir: PathBuf,
    pipeline: Pipeline,
    publisher: PublisherHandle,
    status: Arc<Status>,
    metrics: Arc<Metrics>,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    waiting: VecDeque<Due>,
    /// Events of which a request is being run.
    running: BTreeSet<EventId>,
    ending: bool,
    failed: Option<RunError>,
    /// Requests whose last run failed by a fault of nuggetd, with the items that it was to see.
    faulty: BTreeMap<ShardKey, u32>,
}

impl Runs {
    pub(super) fn start(
        workers: usize,
        data_dir: &Path,
        pipeline: Pipeline,
        publisher: PublisherHandle,
        status: Arc<Status>,
        metrics: Arc<Metrics>,
    ) -> std::io::Result<Self> {
        let shared = Arc::new(Shared {
            data_dir: data_dir.into(),
            pipeline,
            publisher,
            status,
            metrics,
            state: Mutex::default(),
            changed: Condvar::new(),
        });
        let workers = (0..workers.max(1))
            .map(|number| {
                let shared = Arc::clone(&shared);
                thread::Builder::new().name(format!("run-{number}")).spawn(move || shared.serve())
            })
            .collect::<std::io::Result<Vec<_>>>()?;
        Ok(Self { shared, workers: Mutex::new(workers) })
    }

    /// Queues a request; never waits. What is queued and not run when the process ends is in the ledger.
    pub(super) fn submit(&self, due: Due) {
        let mut state = self.shared.state();
        state.waiting.push_back(due);
        self.shared.tell(&state);
        drop(state);
        self.shared.changed.notify_all();
    }

    /// Takes the events' requests out of the queue: their partitions are somebody else's now.
    pub(super) fn cancel(&self, events: &[EventId]) {
        let mut state = self.shared.state();
        state.waiting.retain(|due| !events.contains(&due.key.0));
        state.faulty.retain(|key, _| !events.contains(&key.0));
        self.shared.tell(&state);
    }

    /// Why a run failed for good.
    pub(super) fn failure(&self) -> Option<RunError> {
        self.shared.state().failed.take()
    }

    /// The requests whose last run failed by a fault of nuggetd, each with the items that it was to see.
    pub(super) fn faulty(&self) -> BTreeMap<ShardKey, u32> {
        self.shared.state().faulty.clone()
    }

    /// Waits for the runs under way, not for the queue; false where the time is up. A model that reranks is stopped: what
    /// it has to do may take minutes.
    pub(super) fn end(&self, limit: Duration) -> bool {
        let until = Instant::now() + limit;
        if let Some(reranker) = &self.shared.pipeline.reranker {
            reranker.cancel();
        }
        let mut state = self.shared.state();
        state.ending = true;
        state.waiting.clear();
        self.shared.changed.notify_all();
        while !state.running.is_empty() {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            let waited = self.shared.changed.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        drop(state);
        for worker in self.workers.lock().unwrap_or_else(PoisonError::into_inner).drain(..) {
            // A worker that panicked has said so in the log
            worker.join().unwrap_or_default();
        }
        true
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn tell(&self, state: &State) {
        let (running, waiting) = (state.running.len() as u64, state.waiting.len() as u64);
        self.status.set_runs(telemetry::Runs { running, waiting });
    }

    fn serve(&self) {
        let mut analyzer = Analyzer::new(Analysis::Stemmed);
        while let Some(due) = self.next() {
            let event = due.key.0.clone();
            let running = Running { shared: self, event };
            self.run(due, &mut analyzer);
            drop(running);
        }
    }

    /// The first request in the queue of an event of which none is being run; nothing at the end.
    fn next(&self) -> Option<Due> {
        let mut state = self.state();
        loop {
            if state.ending {
                return None;
            }
            let free = state.waiting.iter().position(|due| !state.running.contains(&due.key.0));
            if let Some(due) = free.and_then(|place| state.waiting.remove(place)) {
                state.running.insert(due.key.0.clone());
                self.tell(&state);
                return Some(due);
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn run(&self, due: Due, analyzer: &mut Analyzer) {
        let (key, revision, cutoff) = (due.key.clone(), due.revision, due.cutoff);
        let ran = catch_unwind(AssertUnwindSafe(|| self.pipeline.run(due, analyzer)));
        let Ok(ran) = ran else {
            *analyzer = Analyzer::new(Analysis::Stemmed);
            self.metrics.run(RunOutcome::Failed);
            self.panicked(key, revision, cutoff);
            return;
        };
        self.state().faulty.remove(&key);
        match ran {
            Ok(ran) => {
                self.count(&ran);
                tracing::info!(
                    event = %key.0, request = %key.1, revision, nuggets = ran.record.nuggets,
                    items = ran.record.items, stands = ran.stands, took_ms = ran.took.as_millis(),
                    closed = ran.closed_with.is_some(), "request run"
                );
                self.publisher.wake();
            }
            Err(RunError::Cancelled) => {
                tracing::info!(event = %key.0, request = %key.1, revision, "a run was stopped, the next start runs it");
            }
            Err(RunError::Unknown(event, request)) => {
                self.metrics.run(RunOutcome::Failed);
                tracing::warn!(%event, %request, "a request to run is no longer among the events, left out");
            }
            Err(error) => {
                self.metrics.run(RunOutcome::Failed);
                tracing::error!(event = %key.0, request = %key.1, revision, %error, "a request cannot be run");
                self.state().failed.get_or_insert(error);
            }
        }
    }

    fn panicked(&self, key: ShardKey, revision: u32, cutoff: u32) {
        let (event, request) = key.clone();
        if let Some(error) = damage(&shard_folder(&self.data_dir, &key)) {
            tracing::error!(%event, %request, revision, %error, "a request cannot be run");
            self.state().failed.get_or_insert(error.into());
            return;
        }
        tracing::error!(%event, %request, revision, "a run failed by a fault of nuggetd, it is run again at the next start");
        self.state().faulty.insert(key, cutoff);
    }

    fn count(&self, ran: &Ran) {
        self.metrics.run(match (ran.closed_with, ran.record.items) {
            (None, _) => RunOutcome::Interim,
            (Some(closed_with), items) if items > u64::from(closed_with) => RunOutcome::Revised,
            (Some(_), _) => RunOutcome::Final,
        });
        self.metrics.stage(Stage::Search, ran.searched);
        self.metrics.stage(Stage::Rerank, ran.reranked);
        self.metrics.stage(Stage::Facts, ran.took.saturating_sub(ran.searched + ran.reranked));
        self.metrics.stage(Stage::Total, ran.took);
    }
}

/// What is wrong with a shard whose items could not be read; nothing where it is whole.
pub(super) fn damage(path: &Path) -> Option<IndexError> {
    let read = catch_unwind(|| verify_shard(path)).unwrap_or_else(|_| {
        let reason = "its files cannot be read, though their checksums are right".to_owned();
        Err(IndexError::Foreign { path: path.into(), reason })
    });
    read.err()
}

/// Frees the event for its next request, however the run ended.
struct Running<'a> {
    shared: &'a Shared,
    event: EventId,
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        let mut state = self.shared.state();
        state.running.remove(&self.event);
        self.shared.tell(&state);
        drop(state);
        self.shared.changed.notify_all();
    }
}
