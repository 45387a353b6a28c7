//! The SQLite file that says how far we are: positions, request states, what was published and what waits for it.
//!
//! Every state change is one transaction. The file is in WAL mode with full synchronisation: what a transaction said
//! survives a power cut.

mod announce;
mod events;
mod known;
mod mend;
mod opened;
mod outbox;
mod published;
mod requests;

use std::path::{Path, PathBuf};

use rusqlite::{Connection, ErrorCode, OptionalExtension, params};
use serde::{Deserialize, Serialize, de::DeserializeOwned};

pub use announce::Announcer;
pub use known::{Heard, nugget_key, read_nugget_key, request_key};
pub use mend::{Forgotten, ReadAgain};
pub use opened::Opened;
pub use outbox::{Batch, Entry, Outbox, Waiting};
pub use requests::{Asked, KnownRequest};

use opened::Printed;

use crate::{
    index::{Positions, ShardKey},
    model::{EventId, Offsets, RequestId},
    schedule::Watermarks,
};

/// Raised with each change of the tables.
const FORMAT: i64 = 4;

const TABLES: &str = "
    CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT;
    CREATE TABLE requests (
        event TEXT NOT NULL, request TEXT NOT NULL,
        first TEXT NOT NULL DEFAULT '{}',   -- where its first item stands, in each partition
        here INTEGER NOT NULL DEFAULT 1,    -- whether this ledger's shards hold its items
        closed INTEGER NOT NULL DEFAULT 0,  -- whether it waits for items no more
        first_cutoff INTEGER,               -- items in the shard when it closed
        revision INTEGER,                   -- of the latest run asked for; NULL where none was
        cutoff INTEGER,                     -- items that this revision sees
        record TEXT,                        -- the run's counts; NULL while it has not run
        PRIMARY KEY (event, request)
    ) STRICT;
    CREATE TABLE nuggets (
        event TEXT NOT NULL, request TEXT NOT NULL, rank INTEGER NOT NULL, nugget TEXT NOT NULL,
        PRIMARY KEY (event, request, rank)
    ) STRICT;
    CREATE TABLE homes (                    -- the partitions that an event's items came from
        event TEXT NOT NULL, topic TEXT NOT NULL, partition INTEGER NOT NULL,
        PRIMARY KEY (event, topic, partition)
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE events (                   -- the last good version of each event of the event topic
        event TEXT NOT NULL PRIMARY KEY, described TEXT NOT NULL
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE outbox (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        event TEXT NOT NULL, request TEXT NOT NULL,
        revision INTEGER,                   -- NULL: only says that the request is open
        entries TEXT NOT NULL
    ) STRICT;
    CREATE TABLE published (                -- what was last said of a request: by us, or by whom it was taken over from
        event TEXT NOT NULL, request TEXT NOT NULL, status TEXT NOT NULL,
        PRIMARY KEY (event, request)
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE known_requests (           -- what the requests topic says
        event TEXT NOT NULL, request TEXT NOT NULL, status TEXT NOT NULL,
        PRIMARY KEY (event, request)
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE known_nuggets (            -- what the nuggets topic says
        event TEXT NOT NULL, request TEXT NOT NULL, name TEXT NOT NULL, nugget TEXT NOT NULL,
        PRIMARY KEY (event, request, name)
    ) STRICT, WITHOUT ROWID;";

/// What to run where the file is of no use any more.
const MOVE_ASIDE: &str = "`nuggetd index rebuild --ledger --yes` moves it aside and begins another";

/// What can go wrong with the ledger. Each names the file, and the command that mends it where one does.
#[derive(Debug, thiserror::Error)]
pub enum LedgerError {
    /// SQLite refused; a full disk, a damaged file, a file that another process holds.
    #[error("ledger {path}: {source}{}", mending(.source))]
    Sqlite {
        /// The file.
        path: PathBuf,
        /// SQLite's reason.
        source: rusqlite::Error,
    },
    /// What stands in the ledger cannot be read.
    #[error("ledger {path}: {what} cannot be read: {reason} ({MOVE_ASIDE})")]
    Content {
        /// The file.
        path: PathBuf,
        /// Which entry.
        what: String,
        /// Why.
        reason: String,
    },
}

impl LedgerError {
    /// Another program kept the file for itself until nobody would wait longer.
    pub fn is_in_use(&self) -> bool {
        let Self::Sqlite { source, .. } = self else { return false };
        matches!(source.sqlite_error_code(), Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked))
    }

    /// What is wrong, without the file and without what mends it.
    pub fn reason(&self) -> String {
        match self {
            Self::Sqlite { source, .. } => source.to_string(),
            Self::Content { what, reason, .. } => format!("{what} cannot be read: {reason}"),
        }
    }

    fn of_another_version(path: &Path, format: i64) -> Self {
        Self::Content {
            path: path.into(),
            what: "the format".to_owned(),
            reason: format!("it is {format}, this version of nuggetd writes {FORMAT}"),
        }
    }
}

/// What to say besides SQLite's reason. A full disk or a file in use must not have anybody throw the ledger away.
fn mending(source: &rusqlite::Error) -> String {
    match source.sqlite_error_code() {
        Some(ErrorCode::NotADatabase | ErrorCode::DatabaseCorrupt) => format!(" ({MOVE_ASIDE})"),
        Some(ErrorCode::DiskFull) => " (make room and start again)".to_owned(),
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
            " (another program has it open)".to_owned()
        }
        _ => " (`nuggetd index verify` tells if it is damaged)".to_owned(),
    }
}

/// How far a stream was taken: everything before `positions` is in the shards or counted here.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Checkpoint {
    /// For each source, the first record not yet taken.
    pub positions: Positions,
    /// For each event, the largest item time seen.
    pub watermarks: Watermarks,
    /// Counts of what is in no shard.
    pub counts: StreamCounts,
    /// Bytes of the file of refused records.
    pub rejected_bytes: u64,
    /// Where each partition was begun: what lies before was never looked at.
    #[serde(default)]
    pub begun: Offsets,
    /// For each partition, a digest of the last record taken, to tell whether the topic is still the same one.
    #[serde(default)]
    pub last_records: Offsets,
}

/// What became of records that left no trace in a shard.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StreamCounts {
    /// Records read.
    pub records: u64,
    /// Items that lie outside every request of their event.
    pub outside: u64,
    /// Refused records by code.
    pub refused: std::collections::BTreeMap<String, u64>,
}

/// The open ledger.
pub struct Ledger {
    path: PathBuf,
    connection: Connection,
}

impl Ledger {
    /// Opens the file, or makes it.
    pub fn open(path: &Path) -> Result<Self, LedgerError> {
        let fail = |source| LedgerError::Sqlite { path: path.into(), source };
        let mut connection = Connection::open(path).map_err(fail)?;
        prepare(&mut connection).map_err(fail)?;
        let format: i64 = connection.query_row("PRAGMA user_version", [], |row| row.get(0)).map_err(fail)?;
        if format != FORMAT {
            return Err(LedgerError::of_another_version(path, format));
        }
        Ok(Self { path: path.into(), connection })
    }

    /// A value kept under a name.
    pub fn meta<T: DeserializeOwned>(&self, key: &str) -> Result<Option<T>, LedgerError> {
        let text: Option<String> = self
            .connection
            .query_row("SELECT value FROM meta WHERE key = ?1", [key], |row| row.get(0))
            .optional()
            .map_err(|source| self.failed(source))?;
        text.map(|text| self.parse(key, &text)).transpose()
    }

    /// Keeps a value under a name.
    pub fn set_meta(&mut self, key: &str, value: &impl Serialize) -> Result<(), LedgerError> {
        let text = self.print(key, value)?;
        self.connection
            .execute("INSERT OR REPLACE INTO meta (key, value) VALUES (?1, ?2)", params![key, text])
            .map_err(|source| self.failed(source))?;
        Ok(())
    }

    /// How far the stream was taken; the beginning where nothing was.
    pub fn checkpoint(&self) -> Result<Checkpoint, LedgerError> {
        Ok(self.meta("checkpoint")?.unwrap_or_default())
    }

    /// Notes how far the stream was taken. Call after the shards have committed.
    pub fn set_checkpoint(&mut self, checkpoint: &Checkpoint, opened: &Opened) -> Result<(), LedgerError> {
        let text = self.print("the checkpoint", checkpoint)?;
        let opened = Printed::new(self, opened)?;
        self.transaction(|transaction| {
            transaction
                .execute("INSERT OR REPLACE INTO meta (key, value) VALUES ('checkpoint', ?1)", [&text])?;
            opened.write(transaction)
        })
    }

    /// The partitions that events' items came from, as (event, topic, partition).
    pub fn homes(&self) -> Result<Vec<(EventId, String, i32)>, LedgerError> {
        let mut statement = self
            .connection
            .prepare_cached("SELECT event, topic, partition FROM homes ORDER BY event, topic, partition")
            .map_err(|source| self.failed(source))?;
        let rows = statement
            .query_map([], |row| Ok((row.get::<_, String>(0)?, row.get(1)?, row.get(2)?)))
            .map_err(|source| self.failed(source))?;
        let mut homes = Vec::new();
        for row in rows {
            let (event, topic, partition) = row.map_err(|source| self.failed(source))?;
            homes.push((self.event(&event)?, topic, partition));
        }
        Ok(homes)
    }

    fn transaction(
        &mut self,
        change: impl FnOnce(&rusqlite::Transaction<'_>) -> rusqlite::Result<()>,
    ) -> Result<(), LedgerError> {
        let path = &self.path;
        let fail = |source| LedgerError::Sqlite { path: path.clone(), source };
        let transaction = self.connection.transaction().map_err(fail)?;
        change(&transaction).map_err(fail)?;
        transaction.commit().map_err(fail)
    }

    fn change(&self, statement: &str, values: &[&dyn rusqlite::ToSql]) -> Result<usize, LedgerError> {
        self.connection.execute(statement, values).map_err(|source| self.failed(source))
    }

    fn key(&self, event: &str, request: &str) -> Result<ShardKey, LedgerError> {
        let request = RequestId::new(request).map_err(|error| self.bad_name(&error))?;
        Ok((self.event(event)?, request))
    }

    fn event(&self, event: &str) -> Result<EventId, LedgerError> {
        EventId::new(event).map_err(|error| self.bad_name(&error))
    }

    fn bad_name(&self, error: &crate::model::IdError) -> LedgerError {
        LedgerError::Content { path: self.path.clone(), what: "a name".to_owned(), reason: error.to_string() }
    }

    fn parse<T: DeserializeOwned>(&self, what: &str, text: &str) -> Result<T, LedgerError> {
        serde_json::from_str(text).map_err(|error| self.unreadable(what, &error))
    }

    fn print(&self, what: &str, value: &impl Serialize) -> Result<String, LedgerError> {
        serde_json::to_string(value).map_err(|error| self.unreadable(what, &error))
    }

    fn unreadable(&self, what: &str, error: &serde_json::Error) -> LedgerError {
        LedgerError::Content { path: self.path.clone(), what: what.to_owned(), reason: error.to_string() }
    }

    fn failed(&self, source: rusqlite::Error) -> LedgerError {
        LedgerError::Sqlite { path: self.path.clone(), source }
    }
}

/// A count in a column; SQLite's are signed.
fn count(row: &rusqlite::Row<'_>, column: usize) -> rusqlite::Result<u64> {
    Ok(u64::try_from(row.get::<_, i64>(column)?).unwrap_or_default())
}

fn prepare(connection: &mut Connection) -> rusqlite::Result<()> {
    connection.busy_timeout(std::time::Duration::from_secs(10))?;
    connection.pragma_update(None, "journal_mode", "WAL")?;
    connection.pragma_update(None, "synchronous", "FULL")?;
    let transaction = connection.transaction()?;
    let format: i64 = transaction.query_row("PRAGMA user_version", [], |row| row.get(0))?;
    if format == 0 {
        transaction.execute_batch(TABLES)?;
        transaction.pragma_update(None, "user_version", FORMAT)?;
    }
    transaction.commit()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_noted_is_there_after_opening_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("ledger.sqlite");
        let mut checkpoint = Checkpoint { rejected_bytes: 12, ..Checkpoint::default() };
        checkpoint.positions.advance("a.jsonl", 0, 41);
        let event = EventId::new("E-1").unwrap();
        let key = (event.clone(), RequestId::new("E-1-r0").unwrap());
        let mut first = Offsets::default();
        first.set("items", 3, 40);
        let home = (event, "items".to_owned(), 3);
        {
            let mut ledger = Ledger::open(&path).unwrap();
            let requests = vec![(key.clone(), first.clone())];
            let opened = Opened { requests, homes: vec![home.clone(), home.clone()], batches: Vec::new() };
            ledger.set_checkpoint(&checkpoint, &opened).unwrap();
        }
        let ledger = Ledger::open(&path).unwrap();
        assert_eq!(ledger.checkpoint().unwrap(), checkpoint);
        assert_eq!(ledger.homes().unwrap(), [home]);
        assert_eq!(ledger.request(&key).unwrap().unwrap().first, first);
    }

    #[test]
    fn a_file_of_another_format_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("ledger.sqlite");
        Connection::open(&path).unwrap().pragma_update(None, "user_version", 99).unwrap();
        let error = Ledger::open(&path).err().unwrap().to_string();
        assert!(error.contains("99") && error.contains("ledger.sqlite"), "{error}");
    }

    #[test]
    fn a_file_that_is_no_database_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("ledger.sqlite");
        std::fs::write(&path, "not a database, but long enough to be read as one".repeat(40)).unwrap();
        let error = Ledger::open(&path).err().unwrap().to_string();
        assert!(error.contains("ledger.sqlite"), "{error}");
        assert!(error.contains("nuggetd index rebuild --ledger --yes"), "{error}");
    }
}
