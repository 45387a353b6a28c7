//! Runs closed requests on a thread of their own, in the order in which they closed, while the stream goes on.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex, PoisonError,
        mpsc::{Receiver, SyncSender, sync_channel},
    },
    thread::{self, JoinHandle},
};

use crate::{
    facts::FactsConfig,
    index::{Analysis, Analyzer, IndexError, ShardKey, Snapshot, TakenShard},
    ledger::{Ledger, LedgerError},
    model::{Event, EventId, Nugget, Request, RequestRecord},
    request::{self, Job},
    search::SearchConfig,
};

/// Closed requests that may wait; a stream that closes more waits with them.
const WAITING: usize = 2;

/// What can go wrong with a run; each stops the replay.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// A shard.
    #[error(transparent)]
    Index(#[from] IndexError),
    /// The ledger.
    #[error(transparent)]
    Ledger(#[from] LedgerError),
    /// The event files no longer have what the ledger knows.
    #[error("request {1} of event {0} is in the ledger, but not in the event files")]
    Unknown(EventId, crate::model::RequestId),
    /// The thread ended without a word.
    #[error("the thread that runs requests ended early")]
    Ended,
}

/// A request to run.
pub(crate) struct Task {
    /// Which one.
    pub(crate) key: ShardKey,
    /// How often it ran before.
    pub(crate) revision: u32,
    /// Its items; nothing where it has none.
    pub(crate) snapshot: Option<Snapshot>,
    /// Its shard, to be merged and closed.
    pub(crate) shard: Option<TakenShard>,
}

/// The thread.
pub(crate) struct Runner {
    tasks: Option<SyncSender<Task>>,
    thread: Option<JoinHandle<Result<(), RunError>>>,
}

/// What the thread works with.
pub(crate) struct Pipeline {
    pub(crate) events: BTreeMap<EventId, Arc<Event>>,
    pub(crate) search: SearchConfig,
    pub(crate) facts: FactsConfig,
    pub(crate) ledger: Arc<Mutex<Ledger>>,
}

impl Runner {
    /// Starts the thread; `done` is called on it after each run.
    pub(crate) fn start(pipeline: Pipeline, done: impl FnMut(&RequestRecord) + Send + 'static) -> Self {
        let (sender, receiver) = sync_channel(WAITING);
        let thread = thread::spawn(move || pipeline.serve(&receiver, done));
        Self { tasks: Some(sender), thread: Some(thread) }
    }

    /// Queues a request; waits while enough are waiting.
    pub(crate) fn run(&mut self, task: Task) -> Result<(), RunError> {
        let sent = self.tasks.as_ref().is_some_and(|tasks| tasks.send(task).is_ok());
        if sent { Ok(()) } else { Err(self.join().err().unwrap_or(RunError::Ended)) }
    }

    /// Waits until all are run.
    pub(crate) fn finish(mut self) -> Result<(), RunError> {
        self.join()
    }

    fn join(&mut self) -> Result<(), RunError> {
        self.tasks = None;
        match self.thread.take() {
            Some(thread) => thread.join().map_err(|_| RunError::Ended)?,
            None => Ok(()),
        }
    }
}

impl Pipeline {
    fn serve(&self, tasks: &Receiver<Task>, mut done: impl FnMut(&RequestRecord)) -> Result<(), RunError> {
        let mut analyzer = Analyzer::new(Analysis::Stemmed);
        while let Ok(task) = tasks.recv() {
            let record = self.run(&task, &mut analyzer)?;
            if let Some(shard) = task.shard {
                shard.finish()?;
            }
            done(&record);
        }
        Ok(())
    }

    fn run(&self, task: &Task, analyzer: &mut Analyzer) -> Result<RequestRecord, RunError> {
        let unknown = || RunError::Unknown(task.key.0.clone(), task.key.1.clone());
        let event = self.events.get(&task.key.0).ok_or_else(unknown)?;
        let request = event.requests.iter().find(|request| request.id == task.key.1).ok_or_else(unknown)?;
        let (record, nuggets) = match &task.snapshot {
            Some(snapshot) => {
                let earlier = self.earlier(event, request)?;
                let job = Job { event, request, revision: task.revision, snapshot, earlier: &earlier };
                request::run(&job, analyzer, &self.search, &self.facts)?
            }
            None => (RequestRecord::nothing(&task.key, task.revision, self.facts.method), Vec::new()),
        };
        self.ledger.lock().unwrap_or_else(PoisonError::into_inner).finish_request(&record, &nuggets)?;
        Ok(record)
    }

    /// The nuggets of the event's requests before this one, in the order in which requests close: by their end. So a
    /// request that runs again still sees those before it alone.
    fn earlier(&self, event: &Event, request: &Request) -> Result<Vec<Nugget>, RunError> {
        let place = |request: &Request| (request.end, request.start, request.id.clone());
        let mut before: Vec<&Request> =
            event.requests.iter().filter(|other| place(other) < place(request)).collect();
        before.sort_by_key(|other| place(other));
        let ledger = self.ledger.lock().unwrap_or_else(PoisonError::into_inner);
        let mut earlier = Vec::new();
        for other in before {
            earlier.extend(ledger.nuggets(&(event.id.clone(), other.id.clone()))?);
        }
        Ok(earlier)
    }
}
