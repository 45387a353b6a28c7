//! A model that fails costs a request its model, never its nuggets: it goes on in BM25's order and says so.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod support;

use std::sync::Mutex;

use nuggetd::{
    facts::FactsConfig,
    index::{Analysis, Analyzer, Snapshot},
    model::{Event, Method, Nugget},
    rank::{Pair, RerankError, Scorer},
    request::{How, Job, Outcome, RunError, run},
    schedule::ScheduleConfig,
    search::SearchConfig,
};
use support::{
    START,
    site::{Site, item},
};

/// Answers each question by what it was made with.
struct Scripted<F>(F, Mutex<Vec<usize>>);

impl<F: Fn(usize, &Pair<'_>) -> Result<f64, RerankError> + Send + Sync> Scorer for Scripted<F> {
    fn score(&self, pairs: &[Pair<'_>]) -> Result<Vec<f64>, RerankError> {
        let question = self.1.lock().unwrap().len();
        self.1.lock().unwrap().push(pairs.len());
        pairs.iter().map(|pair| self.0(question, pair)).collect()
    }

    fn name(&self) -> &'static str {
        "scripted"
    }

    fn top(&self) -> usize {
        8
    }
}

fn scripted<F: Fn(usize, &Pair<'_>) -> Result<f64, RerankError> + Send + Sync>(answer: F) -> Scripted<F> {
    Scripted(answer, Mutex::default())
}

/// A day of twenty items, and its snapshot.
fn day(site: &Site) -> Snapshot {
    let mut running = site.start();
    running.assign(&[(0, 0)]);
    for number in 0..20 {
        running.take(0, number, item(number, START));
    }
    running.commit();
    let due = running.intake.close_all().unwrap();
    due.into_iter().find_map(|due| due.snapshot).unwrap()
}

fn run_by(event: &Event, snapshot: &Snapshot, scorer: Option<&dyn Scorer>) -> Result<Outcome, RunError> {
    let job = Job { event, request: &event.requests[0], revision: 0, snapshot, earlier: &[] };
    let facts = FactsConfig { method: Method::Greedy, ..FactsConfig::default() };
    let how = How { search: &SearchConfig::default(), scorer, facts: &facts };
    run(&job, &mut Analyzer::new(Analysis::Stemmed), &how)
}

fn texts(nuggets: &[Nugget]) -> Vec<(&str, String)> {
    nuggets
        .iter()
        .map(|nugget| (nugget.fact_text.as_str(), serde_json::to_string(&nugget.importance).unwrap()))
        .collect()
}

#[test]
fn a_model_decides_the_order_and_its_probabilities_are_the_importance() {
    let site = Site::new(ScheduleConfig::default());
    let snapshot = day(&site);
    // The later a number comes the better
    let number = |text: &str| text.split(' ').next().unwrap().parse::<f64>().unwrap();
    let scorer = scripted(|_, pair| Ok(-1.0 / (1.0 + number(pair.text))));
    let outcome = run_by(site.event(), &snapshot, Some(&scorer)).unwrap();
    assert_eq!(outcome.record.reranker.as_deref(), Some("scripted"));
    assert!(!outcome.record.rerank_failed);
    let first = &outcome.nuggets[0];
    let numbers: Vec<f64> = outcome.nuggets.iter().map(|nugget| number(&nugget.fact_text)).collect();
    assert!(numbers.is_sorted_by(|a, b| a >= b), "{numbers:?}");
    let expected = (-1.0 / (1.0 + numbers[0])).exp();
    let importance: f64 = serde_json::to_string(&first.importance).unwrap().parse().unwrap();
    assert!((importance - expected).abs() < 1e-4, "{importance} {expected}");
    assert!(scorer.1.lock().unwrap().iter().all(|&pairs| pairs <= 8), "no more than its top are scored");
}

#[test]
fn a_request_whose_model_fails_goes_on_by_bm25() {
    let site = Site::new(ScheduleConfig::default());
    let snapshot = day(&site);
    let plain = run_by(site.event(), &snapshot, None).unwrap();
    assert!(!plain.nuggets.is_empty());
    // When some are scored already
    let scorer = scripted(|_, pair| match pair.text.split(' ').next() {
        Some("3") => Err(RerankError::Failed("out of memory".to_owned())),
        _ => Ok(-1.0),
    });
    let outcome = run_by(site.event(), &snapshot, Some(&scorer)).unwrap();
    assert!(outcome.record.rerank_failed);
    assert_eq!(outcome.record.reranker, None);
    assert_eq!(texts(&outcome.nuggets), texts(&plain.nuggets));
    assert!(!plain.record.rerank_failed);
}

#[test]
fn a_run_that_is_stopped_has_no_result() {
    let site = Site::new(ScheduleConfig::default());
    let snapshot = day(&site);
    let stopped = run_by(site.event(), &snapshot, Some(&scripted(|_, _| Err(RerankError::Cancelled))));
    assert!(matches!(stopped, Err(RunError::Cancelled)));
}
