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
    rank::{self, Candidate, Pair, RerankError, Scorer},
    search::{Hit, Search, SearchConfig},
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
    /// How long the model took to score what was retrieved.
    pub reranked: Duration,
}

/// How a request is run.
pub struct How<'a> {
    /// How items are retrieved.
    pub search: &'a SearchConfig,
    /// The model that puts what is retrieved in order; nothing where BM25 does.
    pub scorer: Option<&'a dyn Scorer>,
    /// How nuggets are made.
    pub facts: &'a FactsConfig,
}

/// Runs a request. Where the model fails the request goes on by BM25, and its record says so.
pub fn run(job: &Job<'_>, analyzer: &mut Analyzer, how: &How<'_>) -> Result<Outcome, RunError> {
    let config = how.facts;
    let key = (job.event.id.clone(), job.request.id.clone());
    let mut record = RequestRecord {
        items: job.snapshot.items().into(),
        searchable: job.snapshot.documents().into(),
        ..RequestRecord::nothing(&key, job.revision, config.method)
    };
    let began = Instant::now();
    let hits = search(job, analyzer, how.search)?;
    record.candidates = hits.iter().map(|hits| hits.len() as u64).sum();
    let searched = began.elapsed();
    let by_model = match how.scorer {
        Some(scorer) => rerank(job, &hits, scorer, &mut record)?,
        None => None,
    };
    let reranked = began.elapsed().saturating_sub(searched);
    let standing = if by_model.is_some() { Standing::BestAnswer } else { Standing::Fused };
    let candidates = by_model.unwrap_or_else(|| hits.iter().map(|hits| rank::by_bm25(hits)).collect());
    let documents = documents(job, retrieved(job, candidates, config, standing))?;
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
    Ok(Outcome { record, nuggets, searched, reranked })
}

/// What each of the event's queries retrieves.
fn search(
    job: &Job<'_>,
    analyzer: &mut Analyzer,
    config: &SearchConfig,
) -> Result<Vec<Vec<Hit>>, IndexError> {
    let mut search = Search::new(job.snapshot, analyzer, config);
    let queries = job.event.queries.iter();
    queries.map(|query| search.rank(&query.search_text(), job.event.default_language())).collect()
}

/// Each query's hits in the model's order; nothing where it failed.
fn rerank(
    job: &Job<'_>,
    hits: &[Vec<Hit>],
    scorer: &dyn Scorer,
    record: &mut RequestRecord,
) -> Result<Option<Vec<Vec<Candidate>>>, RunError> {
    let mut candidates = Vec::with_capacity(hits.len());
    for (query, hits) in job.event.queries.iter().zip(hits) {
        let hits = hits.get(..scorer.top()).unwrap_or(hits);
        let mut texts = Vec::with_capacity(hits.len());
        for hit in hits {
            texts.push(job.snapshot.item(hit.arrival)?.clean);
        }
        let pairs: Vec<Pair<'_>> = texts.iter().map(|text| Pair { query: &query.text, text }).collect();
        match scorer.score(&pairs) {
            Ok(by_pair) => candidates.push(rank::by_model(hits, &by_pair)),
            Err(RerankError::Cancelled) => return Err(RunError::Cancelled),
            Err(error) => {
                tracing::error!(
                    event = %job.event.id, request = %job.request.id, query = %query.id, reranker = scorer.name(), %error,
                    "the request goes on in the order of BM25"
                );
                record.rerank_failed = true;
                return Ok(None);
            }
        }
    }
    record.reranker = Some(scorer.name().to_owned());
    Ok(Some(candidates))
}

/// How the relevances of an item for several queries become one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Standing {
    /// The largest: they are probabilities.
    BestAnswer,
    /// By the places among the queries' candidates: they cannot be compared.
    Fused,
}

#[derive(Default)]
struct Retrieved {
    standing: f64,
    /// The queries whose best candidates it is among, with its relevance for them.
    queries: Vec<(QueryId, f64)>,
}

/// The items that go to the extractor, by arrival, each with its relevance over all queries in `0..=1`. `candidates`:
/// those of each of the event's queries, best first.
fn retrieved(
    job: &Job<'_>,
    candidates: Vec<Vec<Candidate>>,
    facts: &FactsConfig,
    standing: Standing,
) -> BTreeMap<u32, Retrieved> {
    let mut retrieved: BTreeMap<u32, Retrieved> = BTreeMap::new();
    for (query, candidates) in job.event.queries.iter().zip(candidates) {
        for (place, candidate) in candidates.into_iter().enumerate() {
            let entry = retrieved.entry(candidate.arrival).or_default();
            match standing {
                Standing::BestAnswer => entry.standing = entry.standing.max(candidate.relevance),
                Standing::Fused => entry.standing += rank::fusion_share(place),
            }
            if place < facts.candidates {
                entry.queries.push((query.id.clone(), candidate.relevance));
            }
        }
    }
    retrieved.retain(|_, entry| !entry.queries.is_empty());
    if standing == Standing::Fused {
        let largest = retrieved.values().map(|entry| entry.standing).fold(f64::MIN_POSITIVE, f64::max);
        for entry in retrieved.values_mut() {
            entry.standing = (entry.standing / largest).clamp(0.0, 1.0);
        }
    }
    retrieved
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
