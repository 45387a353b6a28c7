//! `nuggetd index`: what the state of a daemon holds, whether it is whole, and how it is mended.

mod tables;

use std::{
    io::{self, Write},
    path::PathBuf,
};

use anyhow::anyhow;
use clap::{Args, Subcommand, ValueEnum};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::{ConfigFlags, Exit, Failure, Outcome, count, say, start, stdout};
use crate::{
    index::ShardKey,
    model::{EventId, RequestId},
    upkeep::{
        Partitions, Rebuild, Repair, Report, Reset, State, Stats, UpkeepError, ledger_aside, put_ledger_aside,
    },
};

/// Look at, check and mend the shards and the ledger.
#[derive(Debug, Args)]
pub(super) struct IndexCommand {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Print what each shard holds and where each topic stands
    Stats(StatsFlags),
    /// Read all of the shards and the ledger; each fault is a line with the command that mends it
    Verify(PlaceFlags),
    /// Forget where topics stood, after they were deleted and made anew or the cluster changed
    ResetPositions(ResetFlags),
    /// Make shards anew from Kafka, or put a ledger aside that cannot be read
    Rebuild(RebuildFlags),
}

impl IndexCommand {
    pub(super) fn run(self) -> Outcome {
        match self.action {
            Action::Stats(flags) => flags.run(),
            Action::Verify(place) => verify(&place),
            Action::ResetPositions(flags) => flags.run(),
            Action::Rebuild(flags) => flags.run(),
        }
    }
}

/// Where the state lies.
#[derive(Debug, Args)]
struct PlaceFlags {
    /// The folder of the state [default: data_dir of the configuration]; of a replay: OUT/state
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    #[command(flatten)]
    config: ConfigFlags,
}

impl PlaceFlags {
    fn state(&self) -> Result<State, Failure> {
        let config = start(&self.config)?;
        let folder = self.data.clone().unwrap_or(config.data_dir);
        State::of(&folder).map_err(failure)
    }

    /// The same flags, for a command that somebody is told to run.
    fn again(&self) -> String {
        let data = self.data.iter().map(|data| format!(" --data {}", data.display()));
        let file = self.config.config.iter().map(|file| format!(" --config {}", file.display()));
        let settings = self.config.settings.iter().map(|setting| format!(" --set '{setting}'"));
        data.chain(file).chain(settings).collect()
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    Text,
    Jsonl,
}

#[derive(Debug, Args)]
struct StatsFlags {
    /// `text`: tables; `jsonl`: an object a line, `kind` says of what
    #[arg(long, default_value = "text", value_name = "FORMAT")]
    format: Format,
    #[command(flatten)]
    place: PlaceFlags,
}

impl StatsFlags {
    fn run(self) -> Outcome {
        let stats = Stats::of(&self.place.state()?).map_err(failure)?;
        let mut out = stdout();
        match self.format {
            Format::Text => tables::text(&stats, &mut out)?,
            Format::Jsonl => tables::jsonl(&stats, &mut out)?,
        }
        out.flush()?;
        for line in &stats.shards {
            if let Some(error) = &line.error {
                say(&format!("error: {error}"));
            }
        }
        Ok(if stats.shards.iter().any(|line| line.error.is_some()) { Exit::InputFaults } else { Exit::Done })
    }
}

fn verify(place: &PlaceFlags) -> Outcome {
    let state = place.state()?;
    let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr_with_hz(8));
    // The template is a constant; the plain style stands in if it could not be read
    bar.set_style(
        ProgressStyle::with_template("{elapsed_precise} {bar:30} {pos}/{len} {msg}")
            .unwrap_or_else(|_| ProgressStyle::default_bar()),
    );
    let report = Report::of(&state, |(event, request), number, total| {
        bar.set_length(total);
        bar.set_position(number - 1);
        bar.set_message(format!("{event} {request}"));
    });
    bar.finish_and_clear();
    let report = report.map_err(failure)?;
    let mut out = stdout();
    for fault in &report.faults {
        let mend = match &fault.repair {
            Repair::Shard((event, request)) => {
                format!(
                    "run `nuggetd index rebuild --event {event} --request {request} --yes{}`",
                    place.again()
                )
            }
            Repair::Ledger => format!("run `nuggetd index rebuild --ledger --yes{}`", place.again()),
            Repair::Replay => "replay the archive into an empty folder".to_owned(),
        };
        writeln!(out, "fault: {}: {}; {mend}", fault.path.display(), fault.what)?;
    }
    for (path, what) in &report.notes {
        writeln!(out, "note: {}: {what}", path.display())?;
    }
    let (shards, items) = (count(report.shards, "shard"), count(report.items, "item"));
    writeln!(out, "{shards} with {items} read, {}", count(report.faults.len() as u64, "fault"))?;
    out.flush()?;
    Ok(if report.faults.is_empty() { Exit::Done } else { Exit::InputFaults })
}

#[derive(Debug, Args)]
struct ResetFlags {
    /// Only this topic [default: all]
    #[arg(long)]
    topic: Option<String>,
    /// Only the partitions of this number
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(i32).range(0..))]
    partition: Option<i32>,
    /// Do it; without, only say what would be done
    #[arg(long)]
    yes: bool,
    #[command(flatten)]
    place: PlaceFlags,
}

impl ResetFlags {
    fn run(self) -> Outcome {
        let state = self.place.state()?;
        let of = Partitions { topic: self.topic, partition: self.partition };
        let reset = if self.yes { Reset::apply(&state, &of) } else { Reset::planned(&state, &of) };
        let reset = reset.map_err(failure)?;
        let mut out = stdout();
        if reset.is_empty() {
            writeln!(out, "nothing is known of such partitions")?;
            out.flush()?;
            return Ok(Exit::Done);
        }
        for (topic, partition, next) in &reset.ledger.positions {
            writeln!(out, "topic {topic}, partition {partition}: position {next} forgotten")?;
        }
        for (event, request) in &reset.ledger.requests {
            writeln!(out, "event {event}, request {request}: place of its first item forgotten")?;
        }
        for (event, request) in &reset.shards {
            writeln!(
                out,
                "event {event}, request {request}: positions in the shard forgotten, its items stay"
            )?;
        }
        if reset.ledger.cluster {
            writeln!(out, "the cluster's name forgotten")?;
        }
        writeln!(
            out,
            "the next start reads these partitions anew; what their topics hold twice is counted twice"
        )?;
        done(&mut out, self.yes)
    }
}

#[derive(Debug, Args)]
struct RebuildFlags {
    /// The event
    #[arg(long, value_name = "ID", required_unless_present = "ledger")]
    event: Option<String>,
    /// Only this request of the event
    #[arg(long, value_name = "ID", requires = "event")]
    request: Option<String>,
    /// Put the ledger aside instead
    #[arg(long, conflicts_with = "event")]
    ledger: bool,
    /// Do it; without, only say what would be done
    #[arg(long)]
    yes: bool,
    #[command(flatten)]
    place: PlaceFlags,
}

impl RebuildFlags {
    fn run(self) -> Outcome {
        let state = self.place.state()?;
        let mut out = stdout();
        let Some(event) = &self.event else {
            let aside = if self.yes { put_ledger_aside(&state) } else { ledger_aside(&state) };
            writeln!(out, "the ledger moved to {}", aside.map_err(failure)?.display())?;
            writeln!(
                out,
                "the next start learns from Kafka what was published; results that waited to be published are made again or lost"
            )?;
            return done(&mut out, self.yes);
        };
        let usage = |error: crate::model::IdError| Failure::new(Exit::Usage, error);
        let event = EventId::new(event).map_err(usage)?;
        let request = self.request.as_ref().map(RequestId::new).transpose().map_err(usage)?;
        let rebuild = if self.yes {
            Rebuild::apply(&state, &event, request.as_ref())
        } else {
            Rebuild::planned(&state, &event, request.as_ref())
        };
        say_rebuild(&rebuild.map_err(failure)?, &mut out)?;
        done(&mut out, self.yes)
    }
}

fn say_rebuild(rebuild: &Rebuild, out: &mut impl Write) -> io::Result<()> {
    for (event, request) in &rebuild.shards {
        writeln!(out, "event {event}, request {request}: shard removed")?;
    }
    let is_unplaced = |key: &&ShardKey| rebuild.unplaced.contains(key);
    for (event, request) in rebuild.shards.iter().filter(is_unplaced) {
        writeln!(
            out,
            "event {event}, request {request}: nothing says where its items stand, they come again only if a topic is read from before them"
        )?;
    }
    for again in &rebuild.partitions {
        let (topic, partition) = (&again.topic, again.partition);
        writeln!(
            out,
            "topic {topic}, partition {partition}: read again from {}, was at {}",
            again.to, again.from
        )?;
    }
    writeln!(
        out,
        "the next start takes the items again; other shards skip what they have, and records that the broker no longer has are reported as a gap"
    )
}

/// The last line: whether it was done.
fn done(out: &mut impl Write, yes: bool) -> Outcome {
    if !yes {
        writeln!(out, "nothing was changed: --yes does it")?;
    }
    out.flush()?;
    Ok(Exit::Done)
}

fn failure(error: UpkeepError) -> Failure {
    let exit = match &error {
        UpkeepError::NoState(_)
        | UpkeepError::Replay(_)
        | UpkeepError::Unknown { .. }
        | UpkeepError::Elsewhere(_) => Exit::Usage,
        UpkeepError::Busy(_) => Exit::TryAgain,
        UpkeepError::Index(_) | UpkeepError::Ledger(_) | UpkeepError::Io { .. } => Exit::Internal,
    };
    Failure::new(exit, anyhow!(error))
}
