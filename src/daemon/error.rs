//! Why the daemon does not start, or ended.

use std::{
    io,
    path::{Path, PathBuf},
    time::Duration,
};

use super::{BookError, free_bytes};
use crate::{
    feed::{EventsError, kafka::FeedError},
    index::IndexError,
    intake::IntakeError,
    kafka::{ClientError, ClusterError},
    ledger::LedgerError,
    publish::kafka::PublishError,
    rank::RerankError,
    request::RunError,
    telemetry::HttpError,
};

/// Why the daemon does not start, or ended.
#[derive(Debug, thiserror::Error)]
pub enum DaemonError {
    /// No `[[source]]`.
    #[error("no item topic is configured: add a [[source]] section with its topic")]
    NoSource,
    /// No event can come.
    #[error("there are no events: set events.files, topics.events or both")]
    NoEvents,
    /// The event files.
    #[error(transparent)]
    Events(#[from] EventsError),
    /// The events.
    #[error(transparent)]
    Book(#[from] BookError),
    /// Clients' configuration.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// The brokers, at the start.
    #[error(transparent)]
    Cluster(#[from] ClusterError),
    /// A topic that items come from does not exist.
    #[error("topic {0} does not exist; make it, or mend its [[source]] section")]
    NoTopic(String),
    /// A topic that must remember does not.
    #[error("topic {topic} has cleanup.policy {policy}: {fault}")]
    Forgetful {
        /// Which topic.
        topic: String,
        /// Its policy.
        policy: String,
        /// What is wrong with it.
        fault: &'static str,
    },
    /// Another cluster than before.
    #[error(
        "the positions in {path} are of cluster {before}, the brokers are of {now}; if that was meant, `nuggetd index \
         reset-positions --yes` begins the topics again"
    )]
    OtherCluster {
        /// The ledger's folder.
        path: PathBuf,
        /// What the ledger knows.
        before: String,
        /// What the brokers say.
        now: String,
    },
    /// Another process has the folder.
    #[error("another nuggetd works in {0}")]
    Busy(PathBuf),
    /// Taking items.
    #[error(transparent)]
    Intake(#[from] IntakeError),
    /// A shard.
    #[error(transparent)]
    Index(#[from] IndexError),
    /// The ledger.
    #[error(transparent)]
    Ledger(#[from] LedgerError),
    /// Running a request.
    #[error(transparent)]
    Run(#[from] RunError),
    /// Polling.
    #[error(transparent)]
    Feed(#[from] FeedError),
    /// Publishing.
    #[error(transparent)]
    Publish(#[from] PublishError),
    /// The endpoints.
    #[error(transparent)]
    Http(#[from] HttpError),
    /// The metrics.
    #[error("metrics: {0}")]
    Metrics(#[from] prometheus::Error),
    /// What the ledger knows is no longer there: a line for each shard.
    #[error("{}", .0.join("\n"))]
    Vanished(Vec<String>),
    /// Something a person must decide, or that only time mends.
    #[error("{0}")]
    Stopped(String),
    /// No room on the disk.
    #[error(
        "the disk of {path} is full, or a file may grow no more; nothing that was acknowledged is lost; free some space and start again: {reason}"
    )]
    DiskFull {
        /// The data folder.
        path: PathBuf,
        /// What could not be written.
        reason: String,
    },
    /// The model that reranks.
    #[error(transparent)]
    Rerank(#[from] RerankError),
    /// What was to be published could not be.
    #[error(
        "told to end before {batches} batch(es) of results could be published: {reason}; the next start sends them"
    )]
    Unsent {
        /// How many.
        batches: u64,
        /// Why.
        reason: String,
    },
    /// The grace period was too short.
    #[error("not everything ended within the grace period of {0:?}; it goes on after a restart")]
    Grace(Duration),
    /// A file or thread.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// tantivy and SQLite do not always say that the disk is full, but it can be seen.
pub(super) fn if_disk_is_full(data_dir: &Path, error: DaemonError) -> DaemonError {
    let is_about_state = matches!(
        error,
        DaemonError::Intake(IntakeError::Index(_) | IntakeError::Ledger(_))
            | DaemonError::Index(_)
            | DaemonError::Ledger(_)
            | DaemonError::Run(_)
            | DaemonError::Publish(PublishError::Ledger(_))
            | DaemonError::Io(_)
    );
    let reason = error.to_string();
    let says_so = ["No space left", "os error 28", "disk is full", "File too large", "os error 27"]
        .iter()
        .any(|text| reason.contains(text));
    let is_full = free_bytes(data_dir).is_some_and(|free| free < 1 << 20);
    if is_about_state && (says_so || is_full) {
        DaemonError::DiskFull { path: data_dir.into(), reason }
    } else {
        error
    }
}
