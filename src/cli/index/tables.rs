//! How `nuggetd index stats` prints.

use std::io::{self, Write};

use serde::Serialize;

use crate::upkeep::{ShardLine, ShardState, Stats};

const HEAD: [&str; 11] = [
    "EVENT",
    "REQUEST",
    "STATE",
    "ITEMS",
    "SEARCHABLE",
    "EXACT",
    "NEAR",
    "EMPTY",
    "SEGMENTS",
    "BYTES",
    "POSITIONS",
];
/// Columns of names and words; the others are numbers.
const WORDS: [usize; 4] = [0, 1, 2, 10];

pub(super) fn text(stats: &Stats, out: &mut impl Write) -> io::Result<()> {
    let rows: Vec<Vec<String>> = stats.shards.iter().map(cells).collect();
    table(&HEAD, &WORDS, &rows, out)?;
    writeln!(out)?;
    let rows: Vec<Vec<String>> = stats
        .partitions
        .iter()
        .map(|line| {
            let begun = line.begun.map_or_else(|| "-".to_owned(), |begun| begun.to_string());
            vec![line.topic.clone(), line.partition.to_string(), begun, line.next.to_string()]
        })
        .collect();
    table(&["TOPIC", "PARTITION", "BEGUN", "NEXT"], &[0], &rows, out)?;
    let totals = &stats.totals;
    writeln!(out)?;
    writeln!(
        out,
        "shards    {}, {} items, {} searchable, {} bytes",
        totals.shards, totals.items, totals.searchable, totals.bytes
    )?;
    writeln!(out, "outbox    {} batches wait", totals.outbox)?;
    writeln!(
        out,
        "topics    tell of {} requests and {} nuggets",
        totals.known_requests, totals.known_nuggets
    )?;
    if let Some(cluster) = &totals.cluster {
        writeln!(
            out,
            "cluster   {}",
            cluster.as_str().map_or_else(|| cluster.to_string(), ToOwned::to_owned)
        )?;
    }
    Ok(())
}

fn cells(line: &ShardLine) -> Vec<String> {
    let positions: Vec<String> =
        line.positions.iter().map(|(topic, partition, next)| format!("{topic}/{partition}:{next}")).collect();
    vec![
        line.event.to_string(),
        line.request.to_string(),
        state(line),
        line.items.to_string(),
        line.searchable.to_string(),
        line.exact_duplicates.to_string(),
        line.near_duplicates.to_string(),
        line.empty.to_string(),
        line.segments.to_string(),
        line.bytes.to_string(),
        positions.join(" "),
    ]
}

fn state(line: &ShardLine) -> String {
    if line.error.is_some() && line.state != ShardState::Missing {
        return "unreadable".to_owned();
    }
    let state = match line.state {
        ShardState::Open => "open",
        ShardState::Closed => "closed",
        ShardState::Elsewhere => "elsewhere",
        ShardState::Unknown => "unknown",
        ShardState::Missing => "missing",
    };
    match line.revision {
        Some(revision) if line.run_waits => format!("{state}, revision {revision} waits"),
        Some(revision) => format!("{state}, revision {revision}"),
        None => state.to_owned(),
    }
}

fn table(head: &[&str], words: &[usize], rows: &[Vec<String>], out: &mut impl Write) -> io::Result<()> {
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count());
        cells.chain(head.get(column).map(|name| name.len())).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..head.len()).map(width).collect();
    let head: Vec<String> = head.iter().map(|&name| name.to_owned()).collect();
    for row in std::iter::once(&head).chain(rows) {
        let mut line = String::new();
        for (column, (cell, &width)) in row.iter().zip(&widths).enumerate() {
            let cell =
                if words.contains(&column) { format!("{cell:<width$}") } else { format!("{cell:>width$}") };
            line.push_str(&cell);
            line.push_str("  ");
        }
        writeln!(out, "{}", line.trim_end())?;
    }
    Ok(())
}

/// A line with what it is of.
#[derive(Serialize)]
struct Line<'a, T> {
    kind: &'static str,
    #[serde(flatten)]
    of: &'a T,
}

pub(super) fn jsonl(stats: &Stats, out: &mut impl Write) -> io::Result<()> {
    for shard in &stats.shards {
        line(out, "shard", shard)?;
    }
    for partition in &stats.partitions {
        line(out, "partition", partition)?;
    }
    line(out, "totals", &stats.totals)
}

fn line<T: Serialize>(out: &mut impl Write, kind: &'static str, of: &T) -> io::Result<()> {
    serde_json::to_writer(&mut *out, &Line { kind, of })?;
    writeln!(out)
}
