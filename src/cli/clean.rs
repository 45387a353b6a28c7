//! `nuggetd clean`.

use std::io::Write;

use anyhow::anyhow;
use clap::Args;

use super::{Exit, Failure, Outcome, say, stdout};
use crate::{
    clean::filter::{self, FilterError, FilterOptions},
    feed::{ArchiveError, ArchiveFile},
    filter::Place,
    model::{Language, SourceType},
};

/// Clean texts.
#[derive(Debug, Args)]
pub(super) struct Clean {
    /// Files of items (JSON Lines or arrays), or of texts with --text, also packed (.gz, .zst), or `-`; standard input
    /// where none is given
    #[arg(value_name = "ITEMS")]
    files: Vec<String>,
    /// Plain texts, one a line, in and out
    #[arg(long)]
    text: bool,
    /// The platform of texts, and of items that name none
    #[arg(long, default_value = "twitter", value_name = "P")]
    platform: String,
    /// The language of every text [default: with --text en, else what the item states or what is detected]
    #[arg(long, value_name = "L", value_parser = language)]
    language: Option<Language>,
}

fn language(code: &str) -> Result<Language, String> {
    Language::from_code(code).ok_or_else(|| format!("\"{code}\" is no language code such as en, es, it"))
}

impl Clean {
    pub(super) fn run(self) -> Outcome {
        let mut options = if self.text { FilterOptions::for_text() } else { FilterOptions::for_items() };
        options.platform = SourceType::from_name(&self.platform);
        options.language = self.language.or(options.language);
        let mut out = stdout();
        let mut refused = 0;
        let standard_input = ["-".to_owned()];
        let files = if self.files.is_empty() { &standard_input } else { self.files.as_slice() };
        for argument in files {
            let file = ArchiveFile::open(argument).map_err(unreadable)?;
            refused += filter_one(&file, self.text, &options, &mut out)?;
        }
        out.flush()?;
        Ok(if refused == 0 { Exit::Done } else { Exit::InputFaults })
    }
}

/// Cleans one file; gives how many lines could not be cleaned, each of them said.
fn filter_one(
    file: &ArchiveFile,
    text: bool,
    options: &FilterOptions,
    out: &mut dyn Write,
) -> Result<u64, Failure> {
    let name = if file.path() == "-" { "standard input" } else { file.path() };
    let mut problems = |place: Place, problem: String| say(&format!("{name}:{place}: {problem}"));
    let outcome = if text {
        let mut lines = file.bytes_unpacked().map_err(unreadable)?;
        filter::run_text(&mut *lines, out, &mut problems, options)
    } else {
        filter::run_items(file.records().map_err(unreadable)?, out, &mut problems, options)
    };
    match outcome {
        Ok(outcome) => Ok(outcome.refused),
        Err(FilterError::Output(error)) => Err(error.into()),
        Err(FilterError::Records(error)) => Err(Failure::new(Exit::InputFaults, error)),
        Err(FilterError::Lines(error)) => {
            Err(Failure::new(Exit::InputFaults, anyhow!("{name} cannot be read further: {error}")))
        }
    }
}

fn unreadable(error: ArchiveError) -> Failure {
    Failure::new(Exit::InputFaults, error)
}
