//! The command line: names and flags, and what an outcome means to the shell.
//!
//! Data goes to stdout, logs and progress to stderr. Exit codes: 0 done, 1 the input has faults, 2 usage, 64 bad
//! configuration, 70 internal, 75 try again.

mod clean;
mod config;
mod demo;
mod index;
mod interrupt;
mod preflight;
mod replay;
mod rerank;
mod run;
mod schema;
mod search;
mod to_kafka;

use std::{
    io::{self, BufWriter, Write},
    path::PathBuf,
    process::ExitCode,
    time::Duration,
};

use clap::{Args, Parser, Subcommand};

use crate::{config::Config, model::Seconds, rank, replay::ReplayError, telemetry};

/// Reads crisis feeds and publishes, per event, day and question, short facts that cite the items they come from.
#[derive(Debug, Parser)]
#[command(version, max_term_width = 100)]
struct CommandLine {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run the whole pipeline on a small bundled archive: no service, no model
    Demo(demo::Demo),
    /// Run the daemon: items from Kafka topics in, nuggets out to a topic
    Run(run::RunCommand),
    /// Run an archive through the pipeline: ARCHIVE... in, DIR/run.jsonl and DIR/nuggets.jsonl out; or send it to a topic
    Replay(replay::ReplayCommand),
    /// Clean texts: items in, the same items with "cleanText" and "language" out
    Clean(clean::Clean),
    /// Rank the items of an archive for each request and query
    Search(search::SearchCommand),
    /// Rerank pairs by a model: {"query","document"} in, the same lines with "score" and "probability" out
    Rerank(rerank::RerankCommand),
    /// Try ONNX Runtime's library in a process of its own
    #[command(hide = true, name = rank::PROBE)]
    Probe {
        /// The library
        path: PathBuf,
    },
    /// Look at, check and mend the shards and the ledger
    Index(index::IndexCommand),
    /// Check or print the configuration
    Config(config::ConfigCommand),
    /// Print the JSON Schema of a record
    Schema(schema::SchemaCommand),
}

/// How a command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Exit {
    Done = 0,
    InputFaults = 1,
    Usage = 2,
    BadConfiguration = 64,
    Internal = 70,
    TryAgain = 75,
}

/// A failure with its exit code.
#[derive(Debug)]
struct Failure {
    exit: Exit,
    error: anyhow::Error,
}

impl Failure {
    fn new(exit: Exit, error: impl Into<anyhow::Error>) -> Self {
        Self { exit, error: error.into() }
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::new(Exit::Internal, error)
    }
}

type Outcome = Result<Exit, Failure>;

/// Configuration flags that several commands share.
#[derive(Debug, Clone, Default, Args)]
struct ConfigFlags {
    /// The configuration file (TOML); `nuggetd config default` prints one
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Set one key, over the file and the environment; may be given several times
    #[arg(long = "set", value_name = "SECTION.KEY=VALUE")]
    settings: Vec<String>,
}

impl ConfigFlags {
    fn load(&self) -> Result<Config, Failure> {
        Config::load(self.config.as_deref(), &self.settings)
            .map_err(|error| Failure::new(Exit::BadConfiguration, error))
    }
}

/// Runs the process's command line.
pub fn main() -> ExitCode {
    let command = match CommandLine::try_parse() {
        Ok(line) => line.command,
        Err(error) => {
            // Help and version come this way too, and go to stdout
            let code = u8::try_from(error.exit_code()).unwrap_or(Exit::Usage as u8);
            return match error.print() {
                Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
                    ExitCode::from(Exit::Internal as u8)
                }
                _ => ExitCode::from(code),
            };
        }
    };
    let outcome = match command {
        Command::Demo(command) => command.run(),
        Command::Run(command) => command.run(),
        Command::Replay(command) => command.run(),
        Command::Clean(command) => command.run(),
        Command::Search(command) => command.run(),
        Command::Rerank(command) => command.run(),
        Command::Probe { path } => rank::probe(&path)
            .map(|()| Exit::Done)
            .map_err(|reason| Failure::new(Exit::Internal, anyhow::anyhow!(reason))),
        Command::Index(command) => command.run(),
        Command::Config(command) => command.run(),
        Command::Schema(command) => command.run(),
    };
    match outcome {
        Ok(exit) => ExitCode::from(exit as u8),
        Err(failure) if is_broken_pipe(&failure.error) => ExitCode::SUCCESS,
        Err(failure) => {
            say(&format!("error: {}", in_words(&failure.error)));
            ExitCode::from(failure.exit as u8)
        }
    }
}

/// Whoever read our output has seen enough: `nuggetd demo | head`. The files of a run are no pipes.
fn is_broken_pipe(error: &anyhow::Error) -> bool {
    let is = |cause: &io::Error| cause.kind() == io::ErrorKind::BrokenPipe;
    // A transparent variant stands in the chain in place of what it holds
    let held = matches!(error.downcast_ref(), Some(ReplayError::Io(cause)) if is(cause));
    held || error.chain().filter_map(|cause| cause.downcast_ref::<io::Error>()).any(is)
}

/// An error with its causes, each said once.
fn in_words(error: &anyhow::Error) -> String {
    let mut words = String::new();
    for cause in error.chain() {
        let cause = cause.to_string();
        if words.is_empty() {
            words = cause;
        } else if !words.contains(&cause) {
            words.push_str(": ");
            words.push_str(&cause);
        }
    }
    words
}

/// A number of things: "1 item", "2 items".
fn count(number: u64, thing: &str) -> String {
    if number == 1 { format!("1 {thing}") } else { format!("{number} {thing}s") }
}

/// Reads a duration given as a flag: `90s`, `15m`.
fn duration(text: &str) -> Result<Seconds, String> {
    let read = |error: serde_json::Error| error.to_string();
    serde_json::from_value(serde_json::Value::from(text)).map_err(read)
}

/// How long to wait: as the flag says, at least a second.
fn patience(flag: Option<Seconds>, default: Duration) -> Duration {
    flag.map_or(default, |seconds| Duration::from_secs(seconds.0.max(1).unsigned_abs()))
}

/// A line for the person at the terminal, on stderr.
fn say(line: &str) {
    // Nothing can be done where stderr is closed
    writeln!(io::stderr().lock(), "{line}").unwrap_or_default();
}

/// Standard output, buffered: flush it when done.
fn stdout() -> BufWriter<io::StdoutLock<'static>> {
    BufWriter::new(io::stdout().lock())
}

/// Starts logging as configured and loads the configuration.
fn start(flags: &ConfigFlags) -> Result<Config, Failure> {
    let config = flags.load()?;
    telemetry::start(&config.log);
    Ok(config)
}
