//! From a request that is due to its result in the ledger.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError, RwLock},
    time::{Duration, Instant},
};

use super::{How, Job, Outcome, run};
use crate::{
    facts::FactsConfig,
    index::{Analyzer, IndexError},
    intake::Due,
    ledger::{Announcer, Ledger, LedgerError},
    model::{Event, EventId, Nugget, Request, RequestRecord},
    rank::{Reranker, Scorer},
    search::SearchConfig,
};

/// The events by name, as they are now.
pub type Events = RwLock<BTreeMap<EventId, Arc<Event>>>;

/// What can go wrong with a run.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// A shard.
    #[error(transparent)]
    Index(#[from] IndexError),
    /// The ledger.
    #[error(transparent)]
    Ledger(#[from] LedgerError),
    /// The events no longer have what the ledger knows.
    #[error("request {1} of event {0} is in the ledger, but not among the events")]
    Unknown(EventId, crate::model::RequestId),
    /// Told to stop; the ledger knows that it was asked for.
    #[error("the run was stopped")]
    Cancelled,
    /// The thread ended without a word.
    #[error("the thread that runs requests ended early")]
    Ended,
}

/// What runs need.
pub struct Pipeline {
    /// The events.
    pub events: Arc<Events>,
    /// How items are retrieved.
    pub search: SearchConfig,
    /// The model that puts what is retrieved in order; nothing where BM25 does.
    pub reranker: Option<Arc<Reranker>>,
    /// How nuggets are made.
    pub facts: FactsConfig,
    /// Where results go.
    pub ledger: Arc<Mutex<Ledger>>,
    /// Writes what is published of a result; nothing where nothing is published.
    pub announcer: Option<Arc<Announcer>>,
}

/// A run that came to its end.
pub struct Ran {
    /// Its counts.
    pub record: RequestRecord,
    /// How long it took, without what was done to its shard.
    pub took: Duration,
    /// How long retrieval took of it.
    pub searched: Duration,
    /// How long reranking took of it.
    pub reranked: Duration,
    /// Items in the shard when the request closed; nothing while it is open.
    pub closed_with: Option<u32>,
    /// False where another run of the request was asked for in the meantime, so that nothing of this one is kept.
    pub stands: bool,
}

impl Pipeline {
    /// Runs a request, keeps its result, and closes its shard where it was handed over.
    pub fn run(&self, due: Due, analyzer: &mut Analyzer) -> Result<Ran, RunError> {
        let began = Instant::now();
        let Outcome { record, nuggets, searched, reranked } = self.result(&due, analyzer)?;
        let (stands, closed_with) = self.keep(&due, &record, &nuggets)?;
        let took = began.elapsed();
        if let Some(shard) = due.shard {
            shard.finish()?;
        }
        Ok(Ran { record, took, searched, reranked, closed_with, stands })
    }

    fn result(&self, due: &Due, analyzer: &mut Analyzer) -> Result<Outcome, RunError> {
        let unknown = || RunError::Unknown(due.key.0.clone(), due.key.1.clone());
        let event = {
            let events = self.events.read().unwrap_or_else(PoisonError::into_inner);
            events.get(&due.key.0).cloned().ok_or_else(unknown)?
        };
        let request = event.requests.iter().find(|request| request.id == due.key.1).ok_or_else(unknown)?;
        let Some(snapshot) = &due.snapshot else {
            let record = RequestRecord::nothing(&due.key, due.revision, self.facts.method);
            let (searched, reranked) = (Duration::ZERO, Duration::ZERO);
            return Ok(Outcome { record, nuggets: Vec::new(), searched, reranked });
        };
        let earlier = self.earlier(&event, request)?;
        let job = Job { event: &event, request, revision: due.revision, snapshot, earlier: &earlier };
        let scorer = self.reranker.as_deref().map(|reranker| reranker as &dyn Scorer);
        run(&job, analyzer, &How { search: &self.search, scorer, facts: &self.facts })
    }

    /// Gives whether the result stands, and with how many items the request has closed.
    fn keep(
        &self,
        due: &Due,
        record: &RequestRecord,
        nuggets: &[Nugget],
    ) -> Result<(bool, Option<u32>), RunError> {
        let mut ledger = self.ledger.lock().unwrap_or_else(PoisonError::into_inner);
        let request = ledger.request(&due.key)?;
        let batch = match (&self.announcer, &request) {
            (Some(announcer), Some(request)) => Some(announcer.result(&ledger, request, record, nuggets)?),
            _ => None,
        };
        let stands = ledger.finish_request(record, due.cutoff, nuggets, batch.as_ref())?;
        Ok((stands, request.and_then(|request| request.closed_with)))
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
