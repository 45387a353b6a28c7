//! One run of one request: search, rank, extract, and what comes out as nuggets.
//!
//! Pure but for reading the snapshot: the same snapshot, event, configuration and earlier nuggets give the same result.

mod pipeline;

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

pub use pipeline::{Events, Pipeline, Ran, RunError};

use crate::{
    facts::{self, Document, FactsConfig, Gazetteer, History, Novelty},
    index::{Analyzer, IndexError, Snapshot},
    model::{Event, Nugget, QueryId, Request, RequestRecord, Update},
    rank,
    search::{Search, SearchConfig},
};

/// A query that an item answers less well than this, by its best answer's measure, is not among the item's needs.
const ANSWERS_FROM: f64 = 0.5;

/// What is run.
pub struct Job<'a> {
    /// The event.
    pub event: &'a Event,
    /// Its request.
    pub request: &'a Request,
    /// How often it ran before.
    pub revision: u32,
    /// The request's items.
    pub snapshot: &'a Snapshot,
    /// The nuggets of the event's earlier requests, in the order of the requests.
    pub earlier: &'a [Nugget],
}

/// What a run came to.
pub struct Outcome {
    /// Its counts.
    pub record: RequestRecord,
    /// Its nuggets, best first.
    pub nuggets: Vec<Nugget>,
    /// How long retrieval took, all queries together.
    pub searched: Duration,
}

/// Runs a request.
pub fn run(
    job: &Job<'_>,
    analyzer: &mut Analyzer,
    search: &SearchConfig,
    config: &FactsConfig,
) -> Result<Outcome, IndexError> {
    let began = Instant::now();
    let key = (job.event.id.clone(), job.request.id.clone());
    let mut record = RequestRecord {
        items: job.snapshot.items().into(),
        searchable: job.snapshot.documents().into(),
        ..RequestRecord::nothing(&key, job.revision, config.method)
    };
    let retrieved = retrieve(job, analyzer, search, config, &mut record)?;
    let searched = began.elapsed();
    let documents = documents(job, retrieved)?;
    let (documents, updates) = new_documents(job, documents, &mut record);
    record.documents = documents.len() as u64;

    let earlier: Vec<String> = job.earlier.iter().map(|nugget| nugget.fact_text.clone()).collect();
    // Some of what is chosen says the same as what was chosen before it
    let with_spare = FactsConfig { nuggets: config.nuggets * 2, ..config.clone() };
    let selection = facts::select(&documents, &earlier, &Gazetteer::new(job.event), &with_spare);
    record.concepts = selection.concepts as u64;
    record.optimal = selection.optimal;
    record.selected = selection.selected as u64;

    let mut said = History::of_one_request();
    let mut nuggets: Vec<Nugget> = Vec::new();
    for chosen in &selection.chosen {
        if nuggets.len() == config.nuggets {
            break;
        }
        let Some(document) = documents.get(chosen.document) else { continue };
        let fact_text = facts::fact_text(&document.clean);
        if let Novelty::Repeats(_) = said.judge(&fact_text) {
            record.repeated += 1;
            continue;
        }
        said.push(&fact_text);
        let sources = vec![document.stream_id.clone()];
        let rank = u32::try_from(nuggets.len() + 1).unwrap_or(u32::MAX);
        nuggets.push(Nugget {
            id: facts::nugget_id(&job.request.id, &fact_text, &sources),
            request: job.request.id.clone(),
            fact_text,
            unix_timestamp: document.time,
            importance: chosen.importance,
            sources,
            stream_id: Some(document.stream_id.clone()),
            information_needs: document.queries.iter().map(|(query, _)| query.clone()).collect(),
            event: job.event.id.clone(),
            rank,
            revision: job.revision,
            method: config.method,
            language: document.language,
            independent_sources: document.independent_sources,
            reports: document.reports,
            last_seen: document.last_seen,
            updates: updates.get(&document.arrival).cloned(),
        });
    }
    record.updates = nuggets.iter().filter(|nugget| nugget.updates.is_some()).count() as u64;
    record.nuggets = nuggets.len() as u64;
    Ok(Outcome { record, nuggets, searched })
}

#[derive(Default)]
struct Retrieved {
    /// What its places in the queries' candidates add up to.
    standing: f64,
    /// The queries whose best candidates it is among, with its relevance for them.
    queries: Vec<(QueryId, f64)>,
}

/// The items that go to the extractor, by arrival, each with its relevance over all queries in `0..=1`.
fn retrieve(
    job: &Job<'_>,
    analyzer: &mut Analyzer,
    config: &SearchConfig,
    facts: &FactsConfig,
    record: &mut RequestRecord,
) -> Result<BTreeMap<u32, Retrieved>, IndexError> {
    let mut retrieved: BTreeMap<u32, Retrieved> = BTreeMap::new();
    let mut search = Search::new(job.snapshot, analyzer, config);
    for query in &job.event.queries {
        let hits = search.rank(&query.search_text(), job.event.default_language())?;
        record.candidates += hits.len() as u64;
        for (place, candidate) in rank::by_bm25(&hits).into_iter().enumerate() {
            let entry = retrieved.entry(candidate.arrival).or_default();
            entry.standing += rank::fusion_share(place);
            if place < facts.candidates {
                entry.queries.push((query.id.clone(), candidate.relevance));
            }
        }
    }
    retrieved.retain(|_, entry| !entry.queries.is_empty());
    let largest = retrieved.values().map(|entry| entry.standing).fold(f64::MIN_POSITIVE, f64::max);
    for entry in retrieved.values_mut() {
        entry.standing = (entry.standing / largest).clamp(0.0, 1.0);
    }
    Ok(retrieved)
}

/// Reads the retrieved items from the shard, most relevant first.
fn documents(job: &Job<'_>, retrieved: BTreeMap<u32, Retrieved>) -> Result<Vec<Document>, IndexError> {
    let groups = job.snapshot.groups();
    let mut documents = Vec::with_capacity(retrieved.len());
    for (arrival, entry) in retrieved {
        let item = job.snapshot.item(arrival)?;
        let time = job.snapshot.time(arrival)?;
        let group = groups.get(&arrival);
        documents.push(Document {
            arrival,
            stream_id: item.stream_id,
            time,
            text: item.text,
            clean: item.clean,
            language: job.snapshot.language(arrival),
            relevance: entry.standing,
            queries: answered(entry.queries),
            independent_sources: group.map_or(1, |group| group.independent_sources),
            reports: group.map_or(1, |group| group.reports),
            last_seen: group.map_or(time, |group| group.last_seen),
        });
    }
    documents.sort_by(|a, b| b.relevance.total_cmp(&a.relevance).then(a.arrival.cmp(&b.arrival)));
    Ok(documents)
}

/// The queries that an item answers well enough, best first, ties by name; never none.
fn answered(mut queries: Vec<(QueryId, f64)>) -> Vec<(QueryId, f64)> {
    queries.sort_by(|a, b| b.1.total_cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    let best = queries.first().map_or(0.0, |&(_, relevance)| relevance);
    queries.retain(|&(_, relevance)| relevance >= best * ANSWERS_FROM);
    queries
}

/// Leaves out what an earlier request has said, and finds out what brings an earlier nugget up to date.
fn new_documents(
    job: &Job<'_>,
    documents: Vec<Document>,
    record: &mut RequestRecord,
) -> (Vec<Document>, BTreeMap<u32, Update>) {
    let mut history = History::new();
    for nugget in job.earlier {
        history.push(&nugget.fact_text);
    }
    let mut updates = BTreeMap::new();
    let mut new = Vec::with_capacity(documents.len());
    for document in documents {
        match history.judge(&facts::fact_text(&document.clean)) {
            Novelty::Repeats(_) => {
                record.repeated += 1;
                continue;
            }
            Novelty::Updates(place) => {
                if let Some(old) = job.earlier.get(place) {
                    let update = Update {
                        request: old.request.clone(),
                        nugget: old.id.clone(),
                        fact_text: old.fact_text.clone(),
                    };
                    updates.insert(document.arrival, update);
                }
            }
            Novelty::New => {}
        }
        new.push(document);
    }
    (new, updates)
}
