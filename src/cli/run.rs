//! `nuggetd run`.

use clap::Args;

use super::{ConfigFlags, Exit, Failure, Outcome, in_words, interrupt, start};
use crate::{
    daemon::{self, DaemonError},
    feed::kafka::FeedError,
    intake::IntakeError,
    kafka::ClusterError,
    ledger::LedgerError,
    request::RunError,
    telemetry,
};

/// Run the daemon beside a broker.
#[derive(Debug, Args)]
pub(super) struct RunCommand {
    #[command(flatten)]
    config: ConfigFlags,
}

impl RunCommand {
    pub(super) fn run(self) -> Outcome {
        let config = start(&self.config)?;
        let stop = interrupt::requested()?;
        let ended = daemon::run(&config, &stop).map_err(failure);
        if let Err(failure) = &ended
            && !telemetry::is_pretty(&config.log)
        {
            // Whoever gathers JSON lines does not see the plain one
            tracing::error!(exit = failure.exit as u8, "{}", in_words(&failure.error));
        }
        ended.map(|()| Exit::Done)
    }
}

fn failure(error: DaemonError) -> Failure {
    let exit = match &error {
        DaemonError::Http(error) if error.is_in_use() => Exit::TryAgain,
        DaemonError::Rerank(error) if error.is_of_configuration() => Exit::BadConfiguration,
        DaemonError::NoSource
        | DaemonError::NoEvents
        | DaemonError::Client(_)
        | DaemonError::Http(_)
        | DaemonError::Forgetful { .. } => Exit::BadConfiguration,
        DaemonError::Events(_) | DaemonError::Book(_) => Exit::InputFaults,
        DaemonError::Cluster(ClusterError::Client(_)) | DaemonError::Feed(FeedError::Client(_)) => {
            Exit::BadConfiguration
        }
        DaemonError::Cluster(_)
        | DaemonError::NoTopic(_)
        | DaemonError::OtherCluster { .. }
        | DaemonError::Busy(_)
        | DaemonError::Feed(_)
        | DaemonError::Publish(_)
        | DaemonError::Stopped(_)
        | DaemonError::DiskFull { .. }
        | DaemonError::Unsent { .. }
        | DaemonError::Grace(_)
        | DaemonError::Intake(IntakeError::Rejected(_)) => Exit::TryAgain,
        other if of_ledger(other).is_some_and(LedgerError::is_in_use) => Exit::TryAgain,
        DaemonError::Vanished { .. }
        | DaemonError::Intake(_)
        | DaemonError::Index(_)
        | DaemonError::Ledger(_)
        | DaemonError::Run(_)
        | DaemonError::Rerank(_)
        | DaemonError::Metrics(_)
        | DaemonError::Io(_) => Exit::Internal,
    };
    Failure::new(exit, error)
}

/// What the ledger said, where it was the ledger, whoever asked it.
fn of_ledger(error: &DaemonError) -> Option<&LedgerError> {
    match error {
        DaemonError::Ledger(error)
        | DaemonError::Intake(IntakeError::Ledger(error))
        | DaemonError::Run(RunError::Ledger(error)) => Some(error),
        _ => None,
    }
}
