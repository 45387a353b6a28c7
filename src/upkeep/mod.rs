//! What a person does to the state of a daemon or a replay: look at it, check it, mend it.
//!
//! Keeps true: looking changes nothing and works beside a running daemon. What changes the state holds the folder's
//! lock, and does it in an order in which a kill leaves nothing half done that a second call, or the daemon, would
//! take for whole.

mod rebuild;
mod reset;
mod stats;
mod verify;

use std::{
    fs::{File, TryLockError},
    io,
    path::{Path, PathBuf},
};

pub use rebuild::{Rebuild, ledger_aside, put_ledger_aside};
pub use reset::{Partitions, Reset};
pub use stats::{PartitionLine, ShardLine, ShardState, Stats, Totals};
pub use verify::{Fault, Repair, Report};

use crate::{
    index::{IndexError, ShardKey},
    ledger::{Ledger, LedgerError},
};

/// Why the state cannot be looked at or changed.
#[derive(Debug, thiserror::Error)]
pub enum UpkeepError {
    /// There is nothing to look at.
    #[error("{0} holds no state of nuggetd (neither ledger.sqlite nor shards); --data names another folder")]
    NoState(PathBuf),
    /// Another process has the folder.
    #[error("another nuggetd works in {0}")]
    Busy(PathBuf),
    /// A replay's state can only be made from its archive.
    #[error(
        "{0} is a replay's state: its items come from an archive, not from Kafka; replay it into an empty folder"
    )]
    Replay(PathBuf),
    /// There is no such event or request.
    #[error("{folder} knows no {what}; `nuggetd index stats` lists what there is")]
    Unknown {
        /// The data folder.
        folder: PathBuf,
        /// What was asked for.
        what: String,
    },
    /// The request's items are not kept here.
    #[error("request {} of event {} was finished by another instance, its items are not kept here", .0.1, .0.0)]
    Elsewhere(ShardKey),
    /// A shard.
    #[error(transparent)]
    Index(#[from] IndexError),
    /// The ledger.
    #[error(transparent)]
    Ledger(#[from] LedgerError),
    /// A file or folder.
    #[error("{path}: {source}")]
    Io {
        /// Which one.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
}

/// A data folder.
#[derive(Debug, Clone)]
pub struct State {
    folder: PathBuf,
}

impl State {
    /// The state in a folder, which must hold some.
    pub fn of(folder: &Path) -> Result<Self, UpkeepError> {
        let state = Self { folder: folder.into() };
        if state.ledger_path().exists() || folder.join("shards").is_dir() {
            Ok(state)
        } else {
            Err(UpkeepError::NoState(folder.into()))
        }
    }

    /// The data folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    fn ledger_path(&self) -> PathBuf {
        self.folder.join("ledger.sqlite")
    }

    /// The ledger, to read it; nothing where there is none yet.
    fn ledger(&self) -> Result<Option<Ledger>, LedgerError> {
        let path = self.ledger_path();
        if path.exists() { Ledger::read_only(&path).map(Some) } else { Ok(None) }
    }

    /// The same for what only makes sense where a daemon works.
    fn daemons_ledger(&self) -> Result<Option<Ledger>, UpkeepError> {
        let ledger = self.ledger()?;
        if ledger.as_ref().map(is_of_replay).transpose()?.unwrap_or(false) {
            return Err(UpkeepError::Replay(self.folder.clone()));
        }
        Ok(ledger)
    }

    /// Keeps every other nuggetd out of the folder for as long as the file lives.
    fn lock(&self) -> Result<File, UpkeepError> {
        let path = self.folder.join("lock");
        let fail = |source| UpkeepError::Io { path: path.clone(), source };
        let file = File::create(&path).map_err(fail)?;
        match file.try_lock() {
            Ok(()) => Ok(file),
            Err(TryLockError::WouldBlock) => Err(UpkeepError::Busy(self.folder.clone())),
            Err(TryLockError::Error(error)) => Err(fail(error)),
        }
    }
}

/// A replay notes what it was begun with.
fn is_of_replay(ledger: &Ledger) -> Result<bool, LedgerError> {
    Ok(ledger.meta::<serde_json::Value>("inputs")?.is_some())
}
