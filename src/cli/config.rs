//! `nuggetd config`.

use std::{io::Write, time::Duration};

use clap::{Args, Subcommand};

use super::{ConfigFlags, Exit, Failure, Outcome, preflight, stdout};
use crate::{config::documented_default, kafka, model::Seconds, telemetry};

/// How long `--connect` waits for each answer where nothing is said.
const PATIENCE: Duration = Duration::from_secs(10);

/// Check or print the configuration.
#[derive(Debug, Args)]
pub(super) struct ConfigCommand {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Read the configuration and report every problem
    Check(CheckFlags),
    /// Print every key with its default and what it means
    Default,
    /// Print the configuration that would be used: defaults, file, environment, --set
    Show(ConfigFlags),
}

#[derive(Debug, Args)]
struct CheckFlags {
    #[command(flatten)]
    config: ConfigFlags,
    /// Also ask the brokers for the topics, read the event files, look at data_dir and load the model
    #[arg(long)]
    connect: bool,
    /// How long to wait for each of the brokers' answers; default: 10s
    #[arg(long, value_name = "DURATION", requires = "connect", value_parser = super::duration)]
    timeout: Option<Seconds>,
}

impl CheckFlags {
    fn run(&self, out: &mut impl Write) -> Outcome {
        let config = self.config.load()?;
        telemetry::start(&config.log);
        kafka::check(&config.kafka).map_err(|error| Failure::new(Exit::BadConfiguration, error))?;
        writeln!(out, "the configuration is good")?;
        if !self.connect {
            return Ok(Exit::Done);
        }
        preflight::run(&config, super::patience(self.timeout, PATIENCE), out)
    }
}

impl ConfigCommand {
    pub(super) fn run(self) -> Outcome {
        let mut out = stdout();
        let mut exit = Exit::Done;
        match self.action {
            Action::Check(flags) => exit = flags.run(&mut out)?,
            Action::Default => out.write_all(documented_default().as_bytes())?,
            Action::Show(flags) => {
                let config = flags.load()?;
                let text = toml::to_string(&config).map_err(|error| Failure::new(Exit::Internal, error))?;
                out.write_all(text.as_bytes())?;
            }
        }
        out.flush()?;
        Ok(exit)
    }
}
