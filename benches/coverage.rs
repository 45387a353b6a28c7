//! The optimum of concept coverage on made-up requests of 50 documents and 200 concepts.
//!
//! A document holds between 5 and 15 concepts, frequent ones more often than rare ones. Measured is the whole extractor:
//! recognition, coverage with its proof, order.

#[allow(dead_code, reason = "each benchmark uses a part of it")]
mod support;

use std::time::Instant;

use anyhow::ensure;
use nuggetd::{
    facts::{Document, FactsConfig, Gazetteer, select},
    model::{Language, Method, StreamId, UnixSeconds},
};
use support::{random::Random, report};

const DOCUMENTS: u32 = 50;
const CONCEPTS: usize = 200;
const REQUESTS: u64 = 100;
const BUDGETS: [usize; 4] = [5, 10, 20, 30];

fn main() -> anyhow::Result<()> {
    let mut rows = Vec::new();
    for budget in BUDGETS {
        let config = FactsConfig { method: Method::IlpMmr, budget, ..FactsConfig::default() };
        let (mut milliseconds, mut proven) = (Vec::new(), 0_u32);
        for seed in 0..REQUESTS {
            let documents = request(seed)?;
            let begun = Instant::now();
            let selection = select(&documents, &[], &Gazetteer::default(), &config);
            milliseconds.push(begun.elapsed().as_secs_f64() * 1_000.0);
            ensure!(selection.concepts == CONCEPTS, "{} concepts were recognised", selection.concepts);
            proven += u32::from(selection.optimal);
        }
        rows.push(vec![
            budget.to_string(),
            report::spread(&milliseconds, 1),
            format!("{proven} of {}", milliseconds.len()),
        ]);
    }
    let title = format!(
        "Concept coverage: {DOCUMENTS} documents, {CONCEPTS} concepts, {REQUESTS} made-up requests each"
    );
    report::table(&title, &["documents chosen", "ms, median (range)", "proven optimal"], &rows)?;
    Ok(())
}

/// A request in which every concept occurs; concepts are hashtags.
fn request(seed: u64) -> anyhow::Result<Vec<Document>> {
    let mut random = Random::new(seed);
    let mut held: Vec<Vec<usize>> = (0..DOCUMENTS)
        .map(|_| {
            let count = 5 + random.below(11);
            // The smaller of two even draws: low numbers are frequent
            (0..count).map(|_| random.below(CONCEPTS).min(random.below(CONCEPTS))).collect()
        })
        .collect();
    for concept in 0..CONCEPTS {
        if !held.iter().any(|concepts| concepts.contains(&concept)) {
            let place = random.below(held.len());
            held[place].push(concept);
        }
    }
    let time = UnixSeconds::new(1_512_604_800)?;
    let documents = (0..).zip(&held).map(|(arrival, concepts)| {
        let tags: Vec<String> = concepts.iter().map(|&concept| format!("#place{}", name(concept))).collect();
        Ok(Document {
            arrival,
            stream_id: StreamId::new(format!("E-1-Twitter-{arrival}-0"))?,
            time,
            text: tags.join(" "),
            clean: String::new(),
            language: Language::English,
            relevance: random.below(1_000) as f64 / 1_000.0,
            queries: Vec::new(),
            independent_sources: 1,
            reports: 1,
            last_seen: time,
        })
    });
    documents.collect()
}

/// A number in letters.
fn name(concept: usize) -> String {
    concept.to_string().bytes().map(|digit| char::from(digit - b'0' + b'a')).collect()
}
