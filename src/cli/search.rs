//! `nuggetd search`: retrieval alone, for people who compare engines or feed a ranking to trec_eval.

use std::{
    io::{self, Write},
    path::PathBuf,
    sync::Arc,
};

use anyhow::anyhow;
use clap::{Args, ValueEnum};
use serde_json::json;

use super::{ConfigFlags, Exit, Failure, Outcome, count, replay::failure, say, start, stdout};
use crate::{
    clean::Cleaner,
    config::Config,
    decoding::{Decoding, threads},
    feed::{Router, event_files, open_archive, read_events},
    index::{Analysis, Analyzer, IndexError, Positions, Prepared, ShardKey, ShardOptions, Shards, Snapshot},
    model::{Event, QueryId, RequestId, StreamId},
    replay::ReplayError,
    search::{Expansion, Search, SearchConfig},
    stream::Stream,
};

/// Name of the run in TREC lines.
const RUN: &str = "nuggetd";

/// Rank the items of an archive for each request and query.
#[derive(Debug, Args)]
pub(super) struct SearchCommand {
    /// Archive files, folders, patterns, or `-` for standard input
    #[arg(required = true, value_name = "ARCHIVE")]
    archive: Vec<String>,
    /// Event file or folder of event files; may be given several times
    #[arg(long, required = true, value_name = "PATH")]
    events: Vec<PathBuf>,
    /// Only this request
    #[arg(long, value_name = "ID")]
    request: Option<String>,
    /// Only this query
    #[arg(long, value_name = "ID")]
    query: Option<String>,
    /// Items for each query [default: search.top, 250]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=10_000))]
    top: Option<u16>,
    /// How the query is expanded [default: search.expand, bo1]
    #[arg(long, value_name = "HOW")]
    expand: Option<Expand>,
    /// `trec`: topic Q0 item rank score run, the topic being requestID.queryID; `jsonl`: an object a line
    #[arg(long, default_value = "trec", value_name = "FORMAT")]
    format: Format,
    /// Take texts and queries as they are: words are what stands between white space; no cleaning, stop words, stems
    /// or deduplication
    #[arg(long)]
    raw: bool,
    #[command(flatten)]
    config: ConfigFlags,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Expand {
    Bo1,
    None,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    Trec,
    Jsonl,
}

impl SearchCommand {
    pub(super) fn run(self) -> Outcome {
        let mut config = start(&self.config)?;
        if let Some(top) = self.top {
            config.search.top = usize::from(top);
        }
        match self.expand {
            Some(Expand::Bo1) => config.search.expand = Expansion::Bo1,
            Some(Expand::None) => config.search.expand = Expansion::None,
            None => {}
        }
        let all = read_events(&self.events).map_err(|error| failure(error.into()))?;
        let mut asked = all.clone();
        self.select(&mut asked)?;
        let all: Vec<Arc<Event>> = all.into_iter().map(Arc::new).collect();
        let (exit, refused) = self.rank(&config, &all, &asked).map_err(failure)?;
        if refused > 0 {
            say(&format!(
                "{} refused; `nuggetd replay` keeps them with their reasons",
                count(refused, "record")
            ));
        }
        Ok(exit)
    }

    /// Leaves only what was asked for.
    fn select(&self, events: &mut Vec<Event>) -> Result<(), Failure> {
        for event in events.iter_mut() {
            event.requests.retain(|request| is_asked_for(self.request.as_ref(), request.id.as_str()));
            event.queries.retain(|query| is_asked_for(self.query.as_ref(), query.id.as_str()));
        }
        events.retain(|event| !event.requests.is_empty() && !event.queries.is_empty());
        if events.is_empty() {
            let asked: Vec<&str> =
                [&self.request, &self.query].into_iter().flatten().map(String::as_str).collect();
            return Err(Failure::new(Exit::Usage, anyhow!("no event has {}", asked.join(" with "))));
        }
        Ok(())
    }

    fn rank(&self, config: &Config, all: &[Arc<Event>], asked: &[Event]) -> Result<(Exit, u64), ReplayError> {
        let folder = tempfile::tempdir()?;
        let options = ShardOptions {
            writer_memory: config.index.writer_memory.as_usize(),
            near_threshold: (!self.raw).then_some(config.clean.near_threshold),
        };
        let mut shards = Shards::new(folder.path(), options, config.index.open_shards);
        let (faults, refused) = self.index(config, all, asked, &mut shards)?;
        for fault in &faults {
            say(&format!("error: {fault}"));
        }
        let analysis = if self.raw { Analysis::Raw } else { Analysis::Stemmed };
        let mut analyzer = Analyzer::new(analysis);
        let mut out = stdout();
        for event in asked {
            for request in &event.requests {
                let key = (event.id.clone(), request.id.clone());
                if let Some(snapshot) = shards.snapshot(&key, None)? {
                    let of_request = OfRequest { event, request: &request.id, snapshot: &snapshot };
                    self.print(&of_request, &mut analyzer, &config.search, &mut out)?;
                }
            }
        }
        out.flush()?;
        shards.close()?;
        Ok((if faults.is_empty() { Exit::Done } else { Exit::InputFaults }, refused))
    }

    /// Reads the archive into shards; gives what could not be read, and how many records were refused.
    fn index(
        &self,
        config: &Config,
        all: &[Arc<Event>],
        asked: &[Event],
        shards: &mut Shards,
    ) -> Result<(Vec<String>, u64), ReplayError> {
        let files = open_archive(&self.archive, &event_files(&self.events))?;
        let names: Vec<Event> = all.iter().map(|event| (**event).clone()).collect();
        let cleaner = (!self.raw).then(|| Arc::new(Cleaner::new()));
        let decoding = Decoding::configured(&config.feed, Router::new(&names)?, cleaner, all)?;
        let positions = Positions::default();
        let mut stream = Stream::new(files, &[], decoding, threads(&config.feed));
        let mut refused = 0;
        for streamed in stream.by_ref() {
            for prepared in &streamed.outcome.items {
                add(shards, asked, prepared)?;
            }
            for letter in &streamed.outcome.refused {
                tracing::info!(source = letter.position.source, code = %letter.code, "record refused: {}", letter.message);
                refused += 1;
            }
            shards.shrink(&positions)?;
        }
        shards.commit(&positions)?;
        Ok((stream.faults().to_vec(), refused))
    }

    fn print(
        &self,
        of_request: &OfRequest<'_>,
        analyzer: &mut Analyzer,
        config: &SearchConfig,
        out: &mut impl Write,
    ) -> Result<(), ReplayError> {
        let mut search = Search::new(of_request.snapshot, analyzer, config);
        for query in &of_request.event.queries {
            let hits = search.rank(&query.search_text(), of_request.event.default_language())?;
            for (rank, hit) in (1_u32..).zip(&hits) {
                let stream_id = of_request.snapshot.item(hit.arrival)?.stream_id;
                self.print_hit(of_request.request, &query.id, rank, hit.score, &stream_id, out)?;
            }
        }
        Ok(())
    }

    fn print_hit(
        &self,
        request: &RequestId,
        query: &QueryId,
        rank: u32,
        score: f64,
        item: &StreamId,
        out: &mut impl Write,
    ) -> io::Result<()> {
        match self.format {
            Format::Trec => writeln!(out, "{request}.{query} Q0 {item} {rank} {score} {RUN}"),
            Format::Jsonl => {
                let line = json!({ "requestID": request, "queryID": query, "streamID": item, "rank": rank, "score": score });
                writeln!(out, "{line}")
            }
        }
    }
}

struct OfRequest<'a> {
    event: &'a Event,
    request: &'a RequestId,
    snapshot: &'a Snapshot,
}

fn is_asked_for(asked: Option<&String>, id: &str) -> bool {
    asked.is_none_or(|asked| asked == id)
}

fn add(shards: &mut Shards, asked: &[Event], prepared: &Prepared) -> Result<(), IndexError> {
    let item = &prepared.item;
    let Some(event) = asked.iter().find(|event| event.id == item.event) else { return Ok(()) };
    let keys: Vec<ShardKey> = event
        .requests_at(item.unix_timestamp)
        .map(|request| (event.id.clone(), request.id.clone()))
        .collect();
    for key in &keys {
        shards.writer(key)?.add(prepared.clone())?;
    }
    Ok(())
}
