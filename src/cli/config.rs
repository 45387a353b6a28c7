//! `nuggetd config`.

use std::io::Write;

use clap::{Args, Subcommand};

use super::{ConfigFlags, Exit, Failure, Outcome, stdout};
use crate::config::documented_default;

/// Check or print the configuration.
#[derive(Debug, Args)]
pub(super) struct ConfigCommand {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Read the configuration and report every problem
    Check(ConfigFlags),
    /// Print every key with its default and what it means
    Default,
    /// Print the configuration that would be used: defaults, file, environment, --set
    Show(ConfigFlags),
}

impl ConfigCommand {
    pub(super) fn run(self) -> Outcome {
        let mut out = stdout();
        match self.action {
            Action::Check(flags) => {
                flags.load()?;
                writeln!(out, "the configuration is good")?;
            }
            Action::Default => out.write_all(documented_default().as_bytes())?,
            Action::Show(flags) => {
                let config = flags.load()?;
                let text = toml::to_string(&config).map_err(|error| Failure::new(Exit::Internal, error))?;
                out.write_all(text.as_bytes())?;
            }
        }
        out.flush()?;
        Ok(Exit::Done)
    }
}
