//! `nuggetd clean`.

use std::{
    fs::File,
    io::{self, BufRead, BufReader, Write},
    path::{Path, PathBuf},
};

use clap::Args;

use super::{Exit, Failure, Outcome, say, stdout};
use crate::{
    clean::filter::{self, FilterOptions},
    model::{Language, SourceType},
};

/// Clean texts.
#[derive(Debug, Args)]
pub(super) struct Clean {
    /// Files of items (JSON Lines), or of texts with --text; standard input where none is given
    #[arg(value_name = "ITEMS")]
    files: Vec<PathBuf>,
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
        if self.files.is_empty() {
            refused += filter_one(&mut io::stdin().lock(), "standard input", self.text, &options, &mut out)?;
        }
        for path in &self.files {
            let file = File::open(path).map_err(|error| unreadable(path, error))?;
            refused += filter_one(
                &mut BufReader::new(file),
                &path.to_string_lossy(),
                self.text,
                &options,
                &mut out,
            )?;
        }
        out.flush()?;
        Ok(if refused == 0 { Exit::Done } else { Exit::InputFaults })
    }
}

/// Cleans one file; gives how many lines could not be cleaned, each of them said.
fn filter_one(
    input: &mut dyn BufRead,
    name: &str,
    text: bool,
    options: &FilterOptions,
    out: &mut dyn Write,
) -> Result<u64, Failure> {
    let mut problems = |line: u64, problem: String| say(&format!("{name}:{line}: {problem}"));
    let run = if text { filter::run_text } else { filter::run_items };
    Ok(run(input, out, &mut problems, options)?.refused)
}

fn unreadable(path: &Path, error: io::Error) -> Failure {
    Failure::new(Exit::InputFaults, anyhow::Error::from(error).context(path.display().to_string()))
}
