//! `nuggetd rerank`.

use std::{path::PathBuf, sync::Arc};

use clap::Args;

use super::{ConfigFlags, Exit, Failure, Outcome, say, start, stdout};
use crate::{
    feed::ArchiveFile,
    rank::{RerankError, Reranker, Scorer, filter},
    telemetry::Metrics,
};

/// Rerank pairs by a model.
#[derive(Debug, Args)]
pub(super) struct RerankCommand {
    /// The model's folder [default: rerank.model]
    #[arg(long, value_name = "DIR")]
    model: Option<PathBuf>,
    /// Files of pairs {"query","document"} (JSON Lines or arrays), also packed (.gz, .zst), or `-`; standard input where
    /// none is given
    #[arg(value_name = "PAIRS")]
    files: Vec<String>,
    #[command(flatten)]
    config: ConfigFlags,
}

impl RerankCommand {
    pub(super) fn run(self) -> Outcome {
        let mut config = start(&self.config)?.rerank;
        if let Some(model) = self.model {
            config.model = model;
        }
        if !config.has_model() {
            let error = anyhow::anyhow!("no model: give --model DIR, or set rerank.model");
            return Err(Failure::new(Exit::Usage, error));
        }
        let metrics = Metrics::new().map_err(|error| Failure::new(Exit::Internal, error))?;
        let reranker = Reranker::open(&config, Arc::new(metrics)).map_err(failure)?;
        say(&format!("reranker {}", reranker.name()));
        let mut out = stdout();
        let mut refused = 0;
        let standard_input = ["-".to_owned()];
        let files = if self.files.is_empty() { &standard_input } else { self.files.as_slice() };
        for argument in files {
            let unreadable = |error| Failure::new(Exit::InputFaults, error);
            let file = ArchiveFile::open(argument).map_err(unreadable)?;
            let name = if file.path() == "-" { "standard input" } else { file.path() };
            let records = file.records().map_err(unreadable)?;
            let mut problems = |place, problem: String| say(&format!("{name}:{place}: {problem}"));
            match filter::run(&reranker, records, &mut out, &mut problems) {
                Ok(outcome) => refused += outcome.refused,
                Err(filter::FilterError::Output(error)) => return Err(error.into()),
                Err(filter::FilterError::Records(error)) => {
                    return Err(Failure::new(Exit::InputFaults, error));
                }
                Err(filter::FilterError::Rerank(error)) => return Err(failure(error)),
            }
        }
        Ok(if refused == 0 { Exit::Done } else { Exit::InputFaults })
    }
}

/// A model that cannot be used is a fault of the configuration, one that fails at work is not.
pub(super) fn failure(error: RerankError) -> Failure {
    let exit = if error.is_of_configuration() { Exit::BadConfiguration } else { Exit::Internal };
    Failure::new(exit, error)
}
