//! A model of MonoT5-base's size over real tweets: nuggetd in 32-bit floats and 8-bit integers beside PyTorch, in one run;
//! how far 8-bit integers keep the ranking; memory over many batches of varied shapes.
//!
//! `scripts/bench rerank` makes the models (random weights, the true dimensions) and says by NUGGETD_BENCH_MODELS where.

#[allow(dead_code, reason = "each benchmark uses a part of it")]
mod support;

use std::{
    collections::BTreeSet,
    env, fs,
    path::{Path, PathBuf},
    process::Command,
    sync::Arc,
    time::Instant,
};

use anyhow::{Context as _, ensure};
use nuggetd::{
    clean::Cleaner,
    feed::read_events,
    model::{Language, SourceType},
    rank::{Pair, RerankConfig, Reranker, Scorer},
    telemetry::Metrics,
};
use serde_json::{Value, json};
use support::{archive, child, random::Random, report};

const TWEETS: usize = 250;
const QUERIES: usize = 4;
/// What goes on to an LLM.
const TOP: usize = 30;

fn main() -> anyhow::Result<()> {
    let Some(data) = support::data() else { return Ok(()) };
    let models = PathBuf::from(env::var("NUGGETD_BENCH_MODELS").context("run it by scripts/bench rerank")?);
    let workspace = support::workspace();
    let archive = archive::one_request(&data, &workspace, 5_000)?;
    let events = read_events(&[archive.events_at.join("CrisisFACTS-001.json")])?;
    let event = events.first().context("no event")?;
    let tweets = tweets(&archive.items_at)?;
    let queries: Vec<&str> = event.queries.iter().map(|query| query.text.as_str()).take(QUERIES).collect();
    let pairs: Vec<Pair<'_>> =
        queries.iter().flat_map(|query| tweets.iter().map(|text| Pair { query, text })).collect();
    ensure!(pairs.len() == TWEETS * QUERIES, "{} pairs", pairs.len());
    let pairs_at = workspace.join("rerank-pairs.jsonl");
    let lines =
        pairs.iter().map(|pair| json!({"query": pair.query, "document": pair.text}).to_string() + "\n");
    fs::write(&pairs_at, lines.collect::<String>())?;

    let (mut pytorch, mut floats, mut integers) = (Vec::new(), Vec::new(), Vec::new());
    let mut scored = (Vec::new(), Vec::new());
    let mut padding = 0.0;
    for repetition in 1..=support::setting("NUGGETD_BENCH_REPS", 3_usize)? {
        let (rate, padded) = by_pytorch(&models.join("checkpoint"), &pairs_at)?;
        pytorch.push(rate);
        padding = padded;
        let (rate, of_floats) = by_nuggetd(&models.join("fp32"), &pairs)?;
        floats.push(rate);
        let (rate, of_integers) = by_nuggetd(&models.join("int8"), &pairs)?;
        integers.push(rate);
        scored = (of_floats, of_integers);
        eprintln!("rerank: repetition {repetition} done");
    }
    let base = report::median(&pytorch);
    let row = |name: &str, rates: &[f64]| {
        vec![name.to_owned(), report::spread(rates, 1), format!("{:.2}", report::median(rates) / base)]
    };
    let rows = [
        row("PyTorch as pyterrier_t5 runs it (batches of 4)", &pytorch),
        row("nuggetd, 32-bit floats", &floats),
        row("nuggetd, 8-bit integers", &integers),
    ];
    let title = format!(
        "{TWEETS} tweets × {QUERIES} questions, T5-base; PyTorch pads {:.0} % on top",
        padding * 100.0
    );
    report::table(&title, &["what", "documents/s, median (range)", "÷ PyTorch"], &rows)?;
    let overlaps: Vec<f64> = (0..QUERIES).map(|query| overlap(&scored.0, &scored.1, query)).collect();
    let largest = scored.0.iter().zip(&scored.1).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
    let rows = [
        vec![
            format!("of the best {TOP} with floats, in the best {TOP} with integers"),
            report::spread(&overlaps, 2),
        ],
        vec!["largest difference of a score".to_owned(), format!("{largest:.3}")],
    ];
    report::table("8-bit integers beside 32-bit floats", &["what", "median (range)"], &rows)?;
    memory(&models.join("int8"), &tweets, &queries)
}

fn tweets(items: &Path) -> anyhow::Result<Vec<String>> {
    let entry = fs::read_dir(items)?.next().context("no items")??;
    let text = fs::read_to_string(entry.path())?;
    let mut tweets = Vec::with_capacity(TWEETS);
    let cleaner = Cleaner::new();
    for line in text.lines() {
        let item: Value = serde_json::from_str(line)?;
        let tweet = item["text"].as_str().context("an item without text")?;
        tweets.push(cleaner.clean(tweet, &SourceType::Twitter, None, Language::English).text);
        if tweets.len() == TWEETS {
            break;
        }
    }
    Ok(tweets)
}

/// Documents per second, and the padding as a share of the tokens.
fn by_pytorch(checkpoint: &Path, pairs: &Path) -> anyhow::Result<(f64, f64)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let output = Command::new(root.join("scripts/export-monot5"))
        .arg("--python")
        .arg(root.join("scripts/reference/pytorch_rerank.py"))
        .args([checkpoint, pairs])
        .output()?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let told: Value = serde_json::from_slice(&output.stdout)?;
    let of = |name: &str| told[name].as_f64().with_context(|| format!("PyTorch told no {name}: {told}"));
    Ok((of("pairs")? / of("seconds")?, of("padded")? / of("tokens")? - 1.0))
}

/// Documents per second, and the scores.
fn by_nuggetd(model: &Path, pairs: &[Pair<'_>]) -> anyhow::Result<(f64, Vec<f64>)> {
    let reranker = open(model)?;
    let begun = Instant::now();
    let mut scores = Vec::with_capacity(pairs.len());
    // One question after the other, as a request is run
    for pairs in pairs.chunks(TWEETS) {
        scores.extend(reranker.score(pairs)?);
    }
    Ok((pairs.len() as f64 / begun.elapsed().as_secs_f64(), scores))
}

fn open(model: &Path) -> anyhow::Result<Reranker> {
    let config = RerankConfig { model: model.to_owned(), cache: 0, ..RerankConfig::default() };
    Ok(Reranker::open(&config, Arc::new(Metrics::new()?))?)
}

fn overlap(floats: &[f64], integers: &[f64], query: usize) -> f64 {
    let best = |scores: &[f64]| -> BTreeSet<usize> {
        let of_query = &scores[query * TWEETS..(query + 1) * TWEETS];
        let mut order: Vec<usize> = (0..of_query.len()).collect();
        order.sort_by(|&a, &b| of_query[b].total_cmp(&of_query[a]));
        order.into_iter().take(TOP).collect()
    };
    best(floats).intersection(&best(integers)).count() as f64 / TOP as f64
}

/// Resident memory after 50 and after 1,000 batches of varied sizes and lengths.
fn memory(model: &Path, tweets: &[String], queries: &[&str]) -> anyhow::Result<()> {
    let reranker = open(model)?;
    let mut random = Random::new(5);
    let mut resident = Vec::new();
    let all = support::setting("NUGGETD_BENCH_BATCHES", 1_000_usize)?;
    for batch in 1..=all {
        let count = 1 + random.below(12);
        let words = 1 + random.below(60);
        let texts: Vec<String> = (0..count)
            .map(|_| {
                let from = random.below(tweets.len());
                let text: Vec<&str> =
                    tweets.iter().cycle().skip(from).flat_map(|tweet| tweet.split(' ')).take(words).collect();
                text.join(" ")
            })
            .collect();
        let query = queries[batch % queries.len()];
        reranker.score(&texts.iter().map(|text| Pair { query, text }).collect::<Vec<_>>())?;
        if batch == 50 || batch == all {
            let status = fs::read_to_string("/proc/self/status")?;
            resident.push(child::kilobytes(&status, "VmRSS:"));
        }
    }
    let (few, many) = (resident.first().copied().flatten(), resident.last().copied().flatten());
    let ratio = many.context("no VmRSS")? as f64 / few.context("no VmRSS")? as f64;
    let rows: Vec<Vec<String>> = [50, all]
        .iter()
        .zip(&resident)
        .map(|(batches, &resident)| vec![format!("after {batches} batches"), report::mebibytes(resident)])
        .chain([vec!["ratio".to_owned(), format!("{ratio:.2}")]])
        .collect();
    report::table(
        "Resident memory of the process, 8-bit integers, batches of varied shapes",
        &["when", "resident"],
        &rows,
    )?;
    Ok(())
}
