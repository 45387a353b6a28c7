//! All questions of an event over one request: BM25, Bo1 expansion, BM25 again, the best 250.
//!
//! nuggetd searches in process over the shard that `nuggetd replay` has written; a fresh snapshot for each repetition, so
//! nothing is kept from the one before. PyTerrier does the same over the index that the Python pipeline makes of the
//! same items; its times are the script's own for this stage.

#[allow(dead_code, reason = "each benchmark uses a part of it")]
mod support;

use std::{fs, path::Path, process::Command, time::Instant};

use anyhow::{Context as _, ensure};
use nuggetd::{
    feed::read_events,
    index::{Analysis, Analyzer, Snapshot},
    model::Event,
    search::{Search, SearchConfig},
};
use support::{NUGGETD, archive, child, peer::Peer, report};

fn main() -> anyhow::Result<()> {
    let Some(data) = support::data() else { return Ok(()) };
    let workspace = support::workspace();
    let archive = archive::one_request(&data, &workspace, support::items()?)?;
    let event_at = archive.events_at.join("CrisisFACTS-001.json");
    let events = read_events(std::slice::from_ref(&event_at))?;
    let event = events.first().context("no event")?;
    let request = event.requests.first().context("no request")?;

    let run_at = workspace.join("search-run");
    if run_at.exists() {
        fs::remove_dir_all(&run_at)?;
    }
    let mut replay = Command::new(NUGGETD);
    replay.arg("replay").arg(&archive.items_at).arg("--events").arg(&event_at).arg("--out").arg(&run_at);
    child::run(&mut replay)?;
    let shard_at = run_at.join("state/shards").join(event.id.as_str()).join(request.id.as_str());

    let peer = Peer::find();
    let repetitions = support::repetitions()?;
    let (mut opening, mut ranking, mut python) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..repetitions {
        let (opened, ranked) = search(&shard_at, event)?;
        opening.push(opened);
        ranking.push(ranked);
    }
    // A run of the peer cleans and indexes all items first, so it is repeated less often
    if let Some(peer) = &peer {
        let items = archive.items_at.join(format!("{}.jsonl", request.id));
        for repetition in 1..=support::setting("NUGGETD_BENCH_PEER_REPS", repetitions.min(3))? {
            python.push(peer.run(&event_at, &items)?.search);
            let (opened, ranked) = search(&shard_at, event)?;
            opening.push(opened);
            ranking.push(ranked);
            eprintln!("search: repetition {repetition} of the Python pipeline done");
        }
    }

    let both: Vec<f64> = opening.iter().zip(&ranking).map(|(opening, ranking)| opening + ranking).collect();
    let row = |name: &str, seconds: &[f64]| {
        let ratio = report::median(seconds) / report::median(&both);
        vec![name.to_owned(), report::spread(seconds, 3), format!("{ratio:.2}")]
    };
    let mut rows = vec![
        row("nuggetd: open the shard", &opening),
        row("nuggetd: rank", &ranking),
        row("nuggetd: both", &both),
    ];
    if !python.is_empty() {
        rows.push(row("PyTerrier: rank", &python));
    }
    let title = format!(
        "{} questions over one request of {} tweets, BM25 + Bo1, top 250",
        event.queries.len(),
        report::number(archive.items as f64, 0)
    );
    report::table(&title, &["what", "seconds, median (range)", "÷ nuggetd, both"], &rows)?;
    Ok(())
}

/// Seconds to open the shard, and to rank for every question.
fn search(shard: &Path, event: &Event) -> anyhow::Result<(f64, f64)> {
    let begun = Instant::now();
    let snapshot = Snapshot::open(shard, None)?;
    let mut analyzer = Analyzer::new(Analysis::Stemmed);
    let config = SearchConfig::default();
    let mut search = Search::new(&snapshot, &mut analyzer, &config);
    let opened = begun.elapsed();
    let begun = Instant::now();
    let mut found = 0;
    for query in &event.queries {
        found += search.rank(&query.search_text(), event.default_language())?.len();
    }
    let ranked = begun.elapsed();
    ensure!(found > 0, "no question found anything");
    Ok((opened.as_secs_f64(), ranked.as_secs_f64()))
}
