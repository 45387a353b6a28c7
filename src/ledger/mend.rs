//! What a person changes in a ledger, and how its file is looked at.

use std::{collections::BTreeMap, path::Path};

use rusqlite::{Connection, OpenFlags, params};

use super::{Checkpoint, FORMAT, Ledger, LedgerError};
use crate::{
    index::ShardKey,
    model::{EventId, Offsets, RequestId, RequestStatus},
};

/// Under this name stand first items in topics that are no more, as far as other records still tell of them.
const STALE: &str = "stale_first";

/// First items that no longer stand where they are said to.
pub(super) type Stale = BTreeMap<EventId, BTreeMap<RequestId, Offsets>>;

/// What forgetting positions comes to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Forgotten {
    /// Each partition with the first record not yet taken of it.
    pub positions: Vec<(String, i32, u64)>,
    /// Requests whose first item stands in one of them.
    pub requests: Vec<ShardKey>,
    /// Events whose items came from one of them.
    pub homes: Vec<(EventId, String, i32)>,
    /// Whether the cluster is forgotten too: no position is left that belongs to it.
    pub cluster: bool,
}

/// A partition that is read again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadAgain {
    /// The topic.
    pub topic: String,
    /// The partition.
    pub partition: i32,
    /// The first record not yet taken, as it was.
    pub from: u64,
    /// As it becomes.
    pub to: u64,
}

impl Ledger {
    /// Opens a ledger that exists, to read it only; another process may write to it meanwhile.
    pub fn read_only(path: &Path) -> Result<Self, LedgerError> {
        let fail = |source| LedgerError::Sqlite { path: path.into(), source };
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(path, flags).map_err(fail)?;
        connection.busy_timeout(std::time::Duration::from_secs(10)).map_err(fail)?;
        let format: i64 = connection.query_row("PRAGMA user_version", [], |row| row.get(0)).map_err(fail)?;
        if format != FORMAT {
            return Err(LedgerError::of_another_version(path, format));
        }
        Ok(Self { path: path.into(), connection })
    }

    /// Reads all of the file: SQLite's own check, then every entry. Gives what is wrong, in words.
    pub fn faults(&self) -> Result<Vec<String>, LedgerError> {
        let faults: Vec<String> = {
            let mut statement = self
                .connection
                .prepare("PRAGMA integrity_check(20)")
                .map_err(|source| self.failed(source))?;
            let rows = statement.query_map([], |row| row.get(0)).map_err(|source| self.failed(source))?;
            rows.collect::<rusqlite::Result<_>>().map_err(|source| self.failed(source))?
        };
        let faults: Vec<String> = faults.into_iter().filter(|fault| fault != "ok").collect();
        if faults.is_empty() {
            self.checkpoint()?;
            self.homes()?;
            self.heard_requests()?;
            for request in self.requests()? {
                self.nuggets(&request.key)?;
            }
            let mut after = 0;
            while let Some(waiting) = self.waiting(after, 1)?.pop() {
                after = waiting.id;
            }
        }
        Ok(faults)
    }

    /// What [`Self::forget_positions`] would come to.
    pub fn to_forget(&self, is_theirs: impl Fn(&str, i32) -> bool) -> Result<Forgotten, LedgerError> {
        let mut checkpoint = self.checkpoint()?;
        let theirs = checkpoint.positions.iter().filter(|(topic, partition, _)| is_theirs(topic, *partition));
        let positions = theirs.map(|(topic, partition, next)| (topic.to_owned(), partition, next)).collect();
        let mut requests = Vec::new();
        for request in self.requests()? {
            if request.first.iter().any(|(topic, partition, _)| is_theirs(topic, partition)) {
                requests.push(request.key);
            }
        }
        let mut homes = self.homes()?;
        homes.retain(|(_, topic, partition)| is_theirs(topic, *partition));
        checkpoint.positions.forget(&is_theirs);
        let cluster = checkpoint.positions.is_empty() && self.meta::<serde_json::Value>("cluster")?.is_some();
        Ok(Forgotten { positions, requests, homes, cluster })
    }

    /// Forgets where these partitions stood and which requests' first items stand in them, because their topics are
    /// others than before. What the requests topic still tells of those first items is not believed any more.
    pub fn forget_positions(
        &mut self,
        is_theirs: impl Fn(&str, i32) -> bool,
    ) -> Result<Forgotten, LedgerError> {
        let forgotten = self.to_forget(&is_theirs)?;
        let mut checkpoint = self.checkpoint()?;
        checkpoint.positions.forget(&is_theirs);
        checkpoint.begun.forget(&is_theirs);
        checkpoint.last_records.forget(&is_theirs);
        let mut stale = self.stale()?;
        let mut note = |(event, request): &ShardKey, first: &Offsets| {
            for (topic, partition, offset) in
                first.iter().filter(|(topic, partition, _)| is_theirs(topic, *partition))
            {
                let of_request = stale.entry(event.clone()).or_default().entry(request.clone()).or_default();
                of_request.set(topic, partition, offset);
            }
        };
        for status in self.heard_requests()? {
            note(&(status.event, status.request), &status.first);
        }
        let mut firsts = Vec::new();
        for mut request in self.requests()? {
            note(&request.key, &request.first);
            if forgotten.requests.contains(&request.key) {
                request.first.forget(&is_theirs);
                firsts.push((request.key, self.print("a request's first items", &request.first)?));
            }
        }
        let checkpoint = self.print("the checkpoint", &checkpoint)?;
        let stale = self.print("first items in topics that are no more", &stale)?;
        self.transaction(|transaction| {
            set(transaction, "checkpoint", &checkpoint)?;
            set(transaction, STALE, &stale)?;
            for ((event, request), first) in &firsts {
                transaction.execute(
                    "UPDATE requests SET first = ?3 WHERE event = ?1 AND request = ?2",
                    params![event.as_str(), request.as_str(), first],
                )?;
            }
            for (event, topic, partition) in &forgotten.homes {
                transaction.execute(
                    "DELETE FROM homes WHERE event = ?1 AND topic = ?2 AND partition = ?3",
                    params![event.as_str(), topic, partition],
                )?;
            }
            if forgotten.cluster {
                transaction.execute("DELETE FROM meta WHERE key = 'cluster'", [])?;
            }
            Ok(())
        })?;
        Ok(forgotten)
    }

    /// What [`Self::read_again`] would come to.
    pub fn to_read_again(&self, requests: &[ShardKey]) -> Result<Vec<ReadAgain>, LedgerError> {
        let positions = self.checkpoint()?.positions;
        let mut lowest = Offsets::default();
        for key in requests {
            let Some(request) = self.request(key)? else { continue };
            for (topic, partition, offset) in request.first.iter() {
                lowest.lower(topic, partition, offset);
            }
        }
        let taken = lowest.iter().filter(|(topic, partition, _)| positions.knows(topic, *partition));
        let again = taken.map(|(topic, partition, offset)| {
            let from = positions.next(topic, partition);
            ReadAgain { topic: topic.to_owned(), partition, from, to: offset.min(from) }
        });
        Ok(again.collect())
    }

    /// Sets the position of each partition that has items of these requests back to the first of them.
    pub fn read_again(&mut self, requests: &[ShardKey]) -> Result<Vec<ReadAgain>, LedgerError> {
        let again = self.to_read_again(requests)?;
        let mut checkpoint: Checkpoint = self.checkpoint()?;
        for partition in &again {
            checkpoint.positions.go_back(&partition.topic, partition.partition, partition.to);
            if checkpoint.begun.get(&partition.topic, partition.partition).is_some() {
                checkpoint.begun.lower(&partition.topic, partition.partition, partition.to);
            }
            // It is of the record before the old position
            checkpoint.last_records.remove(&partition.topic, partition.partition);
        }
        self.set_meta("checkpoint", &checkpoint)?;
        Ok(again)
    }

    pub(super) fn stale(&self) -> Result<Stale, LedgerError> {
        Ok(self.meta(STALE)?.unwrap_or_default())
    }

    fn heard_requests(&self) -> Result<Vec<RequestStatus>, LedgerError> {
        let mut statement = self
            .connection
            .prepare("SELECT status FROM known_requests ORDER BY event, request")
            .map_err(|source| self.failed(source))?;
        let rows =
            statement.query_map([], |row| row.get::<_, String>(0)).map_err(|source| self.failed(source))?;
        let mut heard = Vec::new();
        for row in rows {
            let text = row.map_err(|source| self.failed(source))?;
            heard.push(self.parse("a request's status", &text)?);
        }
        Ok(heard)
    }
}

/// Takes out of a request's first items those that stood in a topic that is no more.
pub(super) fn without_stale(stale: &Stale, (event, request): &ShardKey, first: &Offsets) -> Offsets {
    let mut left = first.clone();
    let stale = stale.get(event).and_then(|requests| requests.get(request));
    for (topic, partition, offset) in stale.into_iter().flat_map(Offsets::iter) {
        if first.get(topic, partition) == Some(offset) {
            left.remove(topic, partition);
        }
    }
    left
}

fn set(transaction: &rusqlite::Transaction<'_>, key: &str, value: &str) -> rusqlite::Result<usize> {
    transaction.execute("INSERT OR REPLACE INTO meta (key, value) VALUES (?1, ?2)", [key, value])
}
