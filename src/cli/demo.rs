//! `nuggetd demo`.

use std::{fs, io::Write, path::PathBuf};

use anyhow::anyhow;
use clap::Args;

use super::{ConfigFlags, Exit, Failure, Outcome, replay, say, start, stdout};
use crate::{
    feed::read_events,
    model::Nugget,
    publish::situation_report,
    replay::{Progress, Replay, Summary},
};

const EVENT: &str = include_str!("../../demo/event.json");
const ITEMS: &str = include_str!("../../demo/items.jsonl");

/// Run the whole pipeline on a small bundled archive.
#[derive(Debug, Args)]
pub(super) struct Demo {
    /// Keep the archive and the run in this folder, instead of a temporary one
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Nuggets to print for each day
    #[arg(long, default_value_t = 10, value_name = "N")]
    top: usize,
    #[command(flatten)]
    config: ConfigFlags,
}

impl Demo {
    pub(super) fn run(self) -> Outcome {
        let config = start(&self.config)?;
        let temporary = tempfile::tempdir()?;
        let folder = self.out.clone().unwrap_or_else(|| temporary.path().join("demo"));
        let archive = folder.join("archive");
        if archive.exists() {
            let error = anyhow!("{} holds a demo already: choose another --out", folder.display());
            return Err(Failure::new(Exit::Usage, error));
        }
        fs::create_dir_all(&archive)?;
        let (event, items) = (archive.join("event.json"), archive.join("items.jsonl"));
        fs::write(&event, EVENT)?;
        fs::write(&items, ITEMS)?;
        let run = Replay {
            archive: vec![items.to_string_lossy().into_owned()],
            events: vec![event.clone()],
            out: folder.join("run"),
            resume: false,
            config,
        };
        let summary = run.run(&Progress::hidden()).map_err(replay::failure)?;
        self.print(&run, &summary)?;
        say(&replay::models(&run.config, &summary));
        if let Some(out) = &self.out {
            say(&format!("the archive and the run are in {}", out.display()));
        }
        Ok(Exit::Done)
    }

    fn print(&self, run: &Replay, summary: &Summary) -> Result<(), Failure> {
        let mut out = stdout();
        let lines = fs::read_to_string(run.out.join("nuggets.jsonl"))?;
        let nuggets: Result<Vec<Nugget>, _> = lines.lines().map(serde_json::from_str).collect();
        let nuggets = nuggets.map_err(|error| Failure::new(Exit::Internal, error))?;
        let events = read_events(&run.events).map_err(|error| Failure::new(Exit::Internal, error))?;
        for event in &events {
            for request in &event.requests {
                let of_request = nuggets.iter().filter(|nugget| nugget.request == request.id);
                let of_request: Vec<Nugget> = of_request.cloned().collect();
                let items = summary.requests.iter().find(|summary| summary.run.request == request.id);
                let items = items.map_or(0, |summary| summary.run.items);
                writeln!(out, "{}", situation_report(event, request, &of_request, items, self.top))?;
            }
        }
        out.flush()?;
        Ok(())
    }
}
