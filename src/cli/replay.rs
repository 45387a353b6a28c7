//! `nuggetd replay`.

use std::path::PathBuf;

use anyhow::anyhow;
use clap::Args;

use super::{ConfigFlags, Exit, Failure, Outcome, count, say, start, to_kafka::ToKafkaFlags};
use crate::{
    config::Config,
    intake::IntakeError,
    replay::{Progress, Replay, ReplayError, Summary},
};

/// Run an archive through the pipeline, or send it to a Kafka topic.
#[derive(Debug, Args)]
pub(super) struct ReplayCommand {
    /// Archive files (.jsonl, .json, also .gz and .zst), folders, patterns, or `-` for standard input
    #[arg(required = true, value_name = "ARCHIVE")]
    archive: Vec<String>,
    /// Event file or folder of event files; may be given several times
    #[arg(long, required = true, value_name = "PATH")]
    events: Vec<PathBuf>,
    /// The folder to write run.jsonl, nuggets.jsonl, summary.json and rejected.jsonl to
    #[arg(long, value_name = "DIR", required_unless_present = "to_kafka")]
    out: Option<PathBuf>,
    /// Go on with a run that was interrupted; begin where there is none
    #[arg(long)]
    resume: bool,
    #[command(flatten)]
    kafka: ToKafkaFlags,
    #[command(flatten)]
    config: ConfigFlags,
}

impl ReplayCommand {
    pub(super) fn run(self) -> Outcome {
        let config = start(&self.config)?;
        let Some(out) = self.out else {
            return self.kafka.run(self.archive, self.events, config);
        };
        if out.exists() && !out.is_dir() {
            let error = anyhow!("{} is a file: --out names a folder", out.display());
            return Err(Failure::new(Exit::Usage, error));
        }
        let replay = Replay { archive: self.archive, events: self.events, out, resume: self.resume, config };
        let summary = replay.run(&Progress::on_terminal()).map_err(failure)?;
        say_summary(&summary, &replay);
        Ok(if summary.faults.is_empty() { Exit::Done } else { Exit::InputFaults })
    }
}

pub(super) fn failure(error: ReplayError) -> Failure {
    let exit = match &error {
        ReplayError::Events(_) | ReplayError::Archive(_) | ReplayError::Router(_) => Exit::InputFaults,
        ReplayError::Used(..) | ReplayError::Different(..) => Exit::Usage,
        ReplayError::UnknownEvent(_) => Exit::BadConfiguration,
        ReplayError::Busy(_) => Exit::TryAgain,
        ReplayError::Rerank(error) if error.is_of_configuration() => Exit::BadConfiguration,
        ReplayError::Intake(IntakeError::Index(_) | IntakeError::Ledger(_) | IntakeError::Rejected(_))
        | ReplayError::Index(_)
        | ReplayError::Ledger(_)
        | ReplayError::Run(_)
        | ReplayError::Rerank(_)
        | ReplayError::Metrics(_)
        | ReplayError::Damaged(_)
        | ReplayError::Io(_) => Exit::Internal,
    };
    Failure::new(exit, error)
}

/// The one line that says which models took part, and how to have more of them.
pub(super) fn models(config: &Config, summary: &Summary) -> String {
    let reranker = summary.requests.iter().find_map(|request| request.run.reranker.as_deref());
    format!(
        "{}, no LLM (extractor {}): see \"Models\" in the README for what they add and how they are switched on",
        reranker.map_or_else(|| "no reranker (BM25 order)".to_owned(), |name| format!("reranker {name}")),
        match config.facts.method {
            crate::model::Method::IlpMmr => "ilp-mmr",
            crate::model::Method::Greedy => "greedy",
        }
    )
}

fn say_summary(summary: &Summary, replay: &Replay) {
    for request in summary.requests.iter().filter(|request| request.run.items == 0) {
        say(&format!("{}: no items, so no nuggets", request.run.request));
    }
    for event in &summary.events_without_items {
        say(&format!("{event}: the archive has no item of this event"));
    }
    let refused: u64 = summary.refused.values().sum();
    if refused > 0 {
        let codes: Vec<String> =
            summary.refused.iter().map(|(code, count)| format!("{code} {count}")).collect();
        say(&format!(
            "{refused} records refused ({}): see {}",
            codes.join(", "),
            replay.out.join("rejected.jsonl").display()
        ));
    }
    if summary.late > 0 && !replay.config.schedule.revise_late {
        say(&format!(
            "{} came after their request had closed, in no nugget: raise schedule.lateness or schedule.out_of_orderness, or set schedule.revise_late",
            count(summary.late, "item")
        ));
    }
    for fault in &summary.faults {
        say(&format!("error: {fault}"));
    }
    say(&format!(
        "{} → {} ({} searchable, {} exact and {} near duplicates, {} empty), {} outside every request → {} in {}",
        count(summary.records, "record"),
        count(summary.items, "item"),
        summary.searchable,
        summary.exact_duplicates,
        summary.near_duplicates,
        summary.empty,
        summary.outside,
        count(summary.nuggets, "nugget"),
        replay.out.join("run.jsonl").display()
    ));
    let failed = summary.requests.iter().filter(|request| request.run.rerank_failed).count() as u64;
    if failed > 0 {
        say(&format!("{} went on by BM25, because the reranker failed", count(failed, "request")));
    }
    say(&models(&replay.config, summary));
}
