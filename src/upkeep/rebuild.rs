//! Making shards anew from Kafka, or putting a ledger aside that cannot be read.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use super::{State, UpkeepError, is_of_replay};
use crate::{
    index::{ShardKey, shard_folder, shards_in},
    ledger::{Ledger, ReadAgain},
    model::{EventId, RequestId},
};

/// SQLite keeps what it has not yet written back in files beside the ledger.
const LEDGER_FILES: [&str; 3] = ["", "-wal", "-shm"];

/// What a rebuild comes to, or came to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Rebuild {
    /// The shards, whether or not they have a folder.
    pub shards: Vec<ShardKey>,
    /// The partitions that are read again.
    pub partitions: Vec<ReadAgain>,
    /// Of the shards, those whose items nobody knows the place of any more: they do not come again by themselves.
    pub unplaced: Vec<ShardKey>,
}

impl Rebuild {
    /// What a rebuild of one request, or of all of an event's, would come to.
    pub fn planned(state: &State, event: &EventId, request: Option<&RequestId>) -> Result<Self, UpkeepError> {
        let is_meant = |key: &ShardKey| key.0 == *event && request.is_none_or(|only| key.1 == *only);
        let mut shards: Vec<ShardKey> = shards_in(state.folder())?.into_iter().filter(is_meant).collect();
        let mut rebuild = Self::default();
        if let Some(ledger) = state.daemons_ledger()? {
            for known in ledger.requests()?.into_iter().filter(|known| is_meant(&known.key)) {
                if !known.here {
                    // A folder may be left from before another instance finished it
                    if request.is_some() && !shards.contains(&known.key) {
                        return Err(UpkeepError::Elsewhere(known.key));
                    }
                    continue;
                }
                if known.first.is_empty() && known.closed_with != Some(0) {
                    rebuild.unplaced.push(known.key.clone());
                }
                if !shards.contains(&known.key) {
                    shards.push(known.key);
                }
            }
            shards.sort();
            rebuild.partitions = ledger.to_read_again(&shards)?;
        }
        if shards.is_empty() {
            let what = match request {
                Some(request) => format!("request {request} of event {event}"),
                None => format!("event {event}"),
            };
            return Err(UpkeepError::Unknown { folder: state.folder().into(), what });
        }
        rebuild.shards = shards;
        Ok(rebuild)
    }

    /// Rebuilds. The ledger comes first: were a folder removed before, a daemon started after a kill would begin an
    /// empty shard behind the items that belong into it.
    pub fn apply(state: &State, event: &EventId, request: Option<&RequestId>) -> Result<Self, UpkeepError> {
        let _lock = state.lock()?;
        let planned = Self::planned(state, event, request)?;
        let path = state.ledger_path();
        if path.exists() {
            Ledger::open(&path)?.read_again(&planned.shards)?;
        }
        for key in &planned.shards {
            remove_shard(&shard_folder(state.folder(), key))?;
        }
        Ok(planned)
    }
}

/// Removes a shard's folder. Its name goes first, so that a kill leaves no half of it under that name.
fn remove_shard(folder: &Path) -> Result<(), UpkeepError> {
    let fail = |source| UpkeepError::Io { path: folder.into(), source };
    let (Some(parent), Some(name)) = (folder.parent(), folder.file_name()) else { return Ok(()) };
    // No request has a name that begins with a dot
    let leaving = parent.join(format!(".removed-{}", name.display()));
    absent_is_fine(fs::remove_dir_all(&leaving)).map_err(fail)?;
    absent_is_fine(fs::rename(folder, &leaving)).map_err(fail)?;
    absent_is_fine(fs::remove_dir_all(&leaving)).map_err(fail)
}

fn absent_is_fine(done: io::Result<()>) -> io::Result<()> {
    match done {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Moves the ledger aside, for somebody to look at; gives its new place. The daemon begins another one.
pub fn put_ledger_aside(state: &State) -> Result<PathBuf, UpkeepError> {
    let _lock = state.lock()?;
    let aside = ledger_aside(state)?;
    let path = state.ledger_path();
    // What is not written back goes first: beside another ledger SQLite would not take it for this one's
    for ending in LEDGER_FILES.iter().rev() {
        let (from, to) = (with_ending(&path, ending), with_ending(&aside, ending));
        absent_is_fine(fs::rename(&from, &to)).map_err(|source| UpkeepError::Io { path: from, source })?;
    }
    Ok(aside)
}

/// Where [`put_ledger_aside`] would move it: the first name that is free.
pub fn ledger_aside(state: &State) -> Result<PathBuf, UpkeepError> {
    if !state.ledger_path().exists() {
        return Err(UpkeepError::Unknown { folder: state.folder().into(), what: "ledger".to_owned() });
    }
    // One that cannot be read is one for which this is meant
    if let Ok(Some(ledger)) = state.ledger()
        && is_of_replay(&ledger).unwrap_or(false)
    {
        return Err(UpkeepError::Replay(state.folder().into()));
    }
    let mut number = 1_u32;
    loop {
        let aside = state.folder().join(format!("ledger.sqlite.damaged-{number}"));
        if LEDGER_FILES.iter().all(|ending| !with_ending(&aside, ending).exists()) {
            return Ok(aside);
        }
        number += 1;
    }
}

fn with_ending(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(ending);
    name.into()
}
