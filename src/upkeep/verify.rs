//! Whether the state is whole, and what mends it where it is not.

use std::{collections::BTreeSet, path::PathBuf};

use super::{State, UpkeepError, is_of_replay};
use crate::{
    index::{Payload, Positions, ShardKey, shard_folder, shards_in, verify_shard},
    ledger::{KnownRequest, Ledger},
};

/// What mends a fault.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Repair {
    /// The shard's items are taken from Kafka again.
    Shard(ShardKey),
    /// The ledger is put aside.
    Ledger,
    /// The archive is replayed again.
    Replay,
}

/// Something that is not as it should be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// The folder or file.
    pub path: PathBuf,
    /// What is wrong.
    pub what: String,
    /// What mends it.
    pub repair: Repair,
}

/// What a check found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Report {
    /// What must be mended.
    pub faults: Vec<Fault>,
    /// What is worth knowing and needs nothing, each with its folder.
    pub notes: Vec<(PathBuf, String)>,
    /// Shards that were read.
    pub shards: u64,
    /// Their items.
    pub items: u64,
}

impl Report {
    /// Reads all of the state. `progress` hears of each shard with its place among how many.
    pub fn of(state: &State, mut progress: impl FnMut(&ShardKey, u64, u64)) -> Result<Self, UpkeepError> {
        let mut report = Self::default();
        // What the ledger says is read before the shards: beside a running daemon shards only grow
        let ledger = report.ledger(state);
        let known = ledger.as_ref().map_or(&[][..], |known| &known.requests);
        let is_replay = ledger.as_ref().is_some_and(|known| known.is_replay);
        let mut keys: BTreeSet<ShardKey> = shards_in(state.folder())?.into_iter().collect();
        keys.extend(
            known.iter().filter(|request| must_have_items(request)).map(|request| request.key.clone()),
        );
        let total = keys.len() as u64;
        for (number, key) in (1_u64..).zip(&keys) {
            progress(key, number, total);
            let request = known.iter().find(|request| request.key == *key);
            let comes_again = request
                .zip(ledger.as_ref())
                .is_some_and(|(request, known)| comes_again(request, &known.positions));
            report.shard(state, key, request, comes_again, is_replay);
        }
        let positions = ledger.map(|known| known.positions);
        report.unknown(state, &keys, positions.as_ref())?;
        Ok(report)
    }

    fn ledger(&mut self, state: &State) -> Option<Known> {
        let read = || -> Result<Option<(Known, Vec<String>)>, crate::ledger::LedgerError> {
            let Some(ledger) = state.ledger()? else { return Ok(None) };
            let faults = ledger.faults()?;
            Ok(Some((Known::of(&ledger)?, faults)))
        };
        let path = state.ledger_path();
        match read() {
            Ok(None) => {
                self.notes.push((path, "there is no ledger: the daemon begins one".to_owned()));
                None
            }
            Ok(Some((known, faults))) => {
                let repair = if known.is_replay { Repair::Replay } else { Repair::Ledger };
                let faults =
                    faults.into_iter().map(|what| Fault { path: path.clone(), what, repair: repair.clone() });
                self.faults.extend(faults);
                Some(known)
            }
            Err(error) => {
                self.faults.push(Fault { path, what: error.reason(), repair: Repair::Ledger });
                None
            }
        }
    }

    fn shard(
        &mut self,
        state: &State,
        key: &ShardKey,
        request: Option<&KnownRequest>,
        comes_again: bool,
        is_replay: bool,
    ) {
        let path = shard_folder(state.folder(), key);
        let what = match verify_shard(&path) {
            Ok(None) if comes_again => {
                let what = "it was removed, the next start builds it anew from Kafka";
                self.notes.push((path, what.to_owned()));
                return;
            }
            Ok(held) => {
                self.shards += u64::from(held.is_some());
                self.items += held.as_ref().map_or(0, |payload| u64::from(payload.items));
                request.and_then(|request| missing_items(request, held.as_ref()))
            }
            Err(error) => Some(error.reason()),
        };
        if let Some(what) = what {
            let repair = if is_replay { Repair::Replay } else { Repair::Shard(key.clone()) };
            self.faults.push(Fault { path, what, repair });
        }
    }

    /// Shards without a request. A kill between a shard's first commit and the checkpoint leaves such a one ahead of the
    /// ledger, and the daemon takes it up again; one that lies behind the ledger belongs to another state.
    fn unknown(
        &mut self,
        state: &State,
        keys: &BTreeSet<ShardKey>,
        positions: Option<&Positions>,
    ) -> Result<(), UpkeepError> {
        let (Some(positions), Ok(Some(ledger))) = (positions, state.ledger()) else { return Ok(()) };
        let is_replay = is_of_replay(&ledger)?;
        for key in keys {
            let path = shard_folder(state.folder(), key);
            match ledger.request(key)? {
                Some(request) if !request.here && path.is_dir() => {
                    let what = "another instance finished the request, this folder is not used any more";
                    self.notes.push((path, what.to_owned()));
                }
                Some(_) => {}
                // Its folder is at fault already, or has no commit
                None => {
                    let Ok(Some(held)) = crate::index::shard_stats(&path) else { continue };
                    let is_ahead = held
                        .payload
                        .positions
                        .iter()
                        .any(|(topic, partition, next)| next > positions.next(topic, partition));
                    if is_ahead {
                        let what = "the ledger does not know it yet: it was committed before the last checkpoint could be";
                        self.notes.push((path, what.to_owned()));
                    } else {
                        let what = "the ledger does not know this shard".to_owned();
                        let repair = if is_replay { Repair::Replay } else { Repair::Shard(key.clone()) };
                        self.faults.push(Fault { path, what, repair });
                    }
                }
            }
        }
        Ok(())
    }
}

/// What the ledger says.
struct Known {
    requests: Vec<KnownRequest>,
    positions: Positions,
    is_replay: bool,
}

impl Known {
    fn of(ledger: &Ledger) -> Result<Self, crate::ledger::LedgerError> {
        Ok(Self {
            requests: ledger.requests()?,
            positions: ledger.checkpoint()?.positions,
            is_replay: is_of_replay(ledger)?,
        })
    }
}

/// Whether the request's items are yet to be read, from the first one on.
pub(super) fn comes_again(request: &KnownRequest, positions: &Positions) -> bool {
    request.first.iter().any(|(topic, partition, first)| positions.next(topic, partition) <= first)
}

pub(super) fn must_have_items(request: &KnownRequest) -> bool {
    request.here && least_items(request) > 0
}

/// A request is known since its first item, and each of its runs saw a number of them.
pub(super) fn least_items(request: &KnownRequest) -> u32 {
    let run = request.run.as_ref().map_or(0, |run| run.cutoff);
    let first = u32::from(!request.first.is_empty());
    run.max(request.closed_with.unwrap_or(0)).max(first)
}

fn missing_items(request: &KnownRequest, held: Option<&Payload>) -> Option<String> {
    let (items, least) = (held.map_or(0, |payload| payload.items), least_items(request));
    if !request.here || items >= least {
        return None;
    }
    match held {
        Some(_) => Some(format!(
            "it holds {items} items, the ledger knows {least} (while a rebuild is catching up, this is no fault)"
        )),
        None => Some(format!("it is missing, the ledger knows {least} or more items")),
    }
}
