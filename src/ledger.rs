//! The SQLite file that says how far we are: positions, request states, what was published.
//!
//! Every state change is one transaction. The file is in WAL mode with full synchronisation: what a transaction said
//! survives a power cut.

use std::path::{Path, PathBuf};

use rusqlite::{Connection, OptionalExtension, Transaction, params};
use serde::{Deserialize, Serialize, de::DeserializeOwned};

use crate::{
    index::{Positions, ShardKey},
    model::{EventId, Nugget, RequestId, RequestRecord},
    schedule::Watermarks,
};

/// Raised with each change of the tables.
const FORMAT: i64 = 1;

const TABLES: &str = "
    CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT;
    CREATE TABLE requests (
        event TEXT NOT NULL, request TEXT NOT NULL, revision INTEGER NOT NULL,
        first_cutoff INTEGER NOT NULL,      -- items in the shard when the request closed
        cutoff INTEGER NOT NULL,            -- items that this revision sees
        record TEXT,                        -- the run's counts; NULL while it has not run
        PRIMARY KEY (event, request)
    ) STRICT;
    CREATE TABLE nuggets (
        event TEXT NOT NULL, request TEXT NOT NULL, rank INTEGER NOT NULL, nugget TEXT NOT NULL,
        PRIMARY KEY (event, request, rank)
    ) STRICT;";

/// What can go wrong with the ledger.
#[derive(Debug, thiserror::Error)]
pub enum LedgerError {
    /// SQLite refused; a full disk, a damaged file, a file that another process holds.
    #[error("ledger {path}: {source}")]
    Sqlite {
        /// The file.
        path: PathBuf,
        /// SQLite's reason.
        source: rusqlite::Error,
    },
    /// What stands in the ledger cannot be read.
    #[error("ledger {path}: {what} cannot be read: {reason}")]
    Content {
        /// The file.
        path: PathBuf,
        /// Which entry.
        what: String,
        /// Why.
        reason: String,
    },
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

/// A request that has closed.
#[derive(Debug, Clone, PartialEq)]
pub struct ClosedRequest {
    /// Which one.
    pub key: ShardKey,
    /// How often it had run before.
    pub revision: u32,
    /// Items in the shard when it closed.
    pub first_cutoff: u32,
    /// Items that this revision sees.
    pub cutoff: u32,
    /// The run's counts; nothing while it has not run.
    pub record: Option<RequestRecord>,
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
            return Err(LedgerError::Content {
                path: path.into(),
                what: "the format".to_owned(),
                reason: format!("it is {format}, this version of nuggetd writes {FORMAT}"),
            });
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
    pub fn set_checkpoint(&mut self, checkpoint: &Checkpoint) -> Result<(), LedgerError> {
        self.set_meta("checkpoint", checkpoint)
    }

    /// Notes that a request has closed, with this many items in its shard.
    pub fn close_request(&mut self, (event, request): &ShardKey, cutoff: u32) -> Result<(), LedgerError> {
        self.change(
            "INSERT INTO requests (event, request, revision, first_cutoff, cutoff) VALUES (?1, ?2, 0, ?3, ?3)",
            params![event.as_str(), request.as_str(), cutoff],
        )
    }

    /// Notes that a closed request is to run again, over more items. Its nuggets stay until it has.
    pub fn revise_request(
        &mut self,
        (event, request): &ShardKey,
        revision: u32,
        cutoff: u32,
    ) -> Result<(), LedgerError> {
        self.change(
            "UPDATE requests SET revision = ?3, cutoff = ?4, record = NULL WHERE event = ?1 AND request = ?2",
            params![event.as_str(), request.as_str(), revision, cutoff],
        )
    }

    fn change(&self, statement: &str, values: &[&dyn rusqlite::ToSql]) -> Result<(), LedgerError> {
        let changed = self.connection.execute(statement, values);
        changed.map(|_| ()).map_err(|source| self.failed(source))
    }

    /// Whether a request has closed.
    pub fn is_closed(&self, (event, request): &ShardKey) -> Result<bool, LedgerError> {
        self.connection
            .query_row(
                "SELECT EXISTS (SELECT 1 FROM requests WHERE event = ?1 AND request = ?2)",
                [event.as_str(), request.as_str()],
                |row| row.get(0),
            )
            .map_err(|source| self.failed(source))
    }

    /// Notes a run's result: its counts and its nuggets, which replace those of an earlier revision.
    pub fn finish_request(&mut self, record: &RequestRecord, nuggets: &[Nugget]) -> Result<(), LedgerError> {
        let text = self.print("a request's record", record)?;
        let lines: Result<Vec<String>, LedgerError> =
            nuggets.iter().map(|nugget| self.print("a nugget", nugget)).collect();
        let lines = lines?;
        let path = self.path.clone();
        let fail = |source| LedgerError::Sqlite { path: path.clone(), source };
        let transaction = self.connection.transaction().map_err(fail)?;
        store_result(&transaction, record, &text, &lines).map_err(fail)?;
        transaction.commit().map_err(fail)
    }

    /// Every request that has closed, in the order in which they closed.
    pub fn closed_requests(&self) -> Result<Vec<ClosedRequest>, LedgerError> {
        let mut statement = self
            .connection
            .prepare(
                "SELECT event, request, revision, first_cutoff, cutoff, record FROM requests ORDER BY rowid",
            )
            .map_err(|source| self.failed(source))?;
        let mut rows = statement.query([]).map_err(|source| self.failed(source))?;
        let mut closed = Vec::new();
        while let Some(row) = rows.next().map_err(|source| self.failed(source))? {
            closed.push(self.closed_request(row)?);
        }
        Ok(closed)
    }

    fn closed_request(&self, row: &rusqlite::Row<'_>) -> Result<ClosedRequest, LedgerError> {
        let text = |column: usize| row.get::<_, String>(column).map_err(|source| self.failed(source));
        let number = |column: usize| row.get::<_, u32>(column).map_err(|source| self.failed(source));
        let (event, request) = (text(0)?, text(1)?);
        let record: Option<String> = row.get(5).map_err(|source| self.failed(source))?;
        Ok(ClosedRequest {
            key: self.key(&event, &request)?,
            revision: number(2)?,
            first_cutoff: number(3)?,
            cutoff: number(4)?,
            record: record.map(|text| self.parse(&format!("the record of {request}"), &text)).transpose()?,
        })
    }

    /// The nuggets of one request, best first.
    pub fn nuggets(&self, (event, request): &ShardKey) -> Result<Vec<Nugget>, LedgerError> {
        let mut statement = self
            .connection
            .prepare_cached("SELECT nugget FROM nuggets WHERE event = ?1 AND request = ?2 ORDER BY rank")
            .map_err(|source| self.failed(source))?;
        let lines = statement
            .query_map([event.as_str(), request.as_str()], |row| row.get::<_, String>(0))
            .map_err(|source| self.failed(source))?;
        let mut nuggets = Vec::new();
        for line in lines {
            let line = line.map_err(|source| self.failed(source))?;
            nuggets.push(self.parse(&format!("a nugget of {request}"), &line)?);
        }
        Ok(nuggets)
    }

    fn key(&self, event: &str, request: &str) -> Result<ShardKey, LedgerError> {
        let unreadable = |error: crate::model::IdError| LedgerError::Content {
            path: self.path.clone(),
            what: "a request's name".to_owned(),
            reason: error.to_string(),
        };
        Ok((EventId::new(event).map_err(unreadable)?, RequestId::new(request).map_err(unreadable)?))
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

fn store_result(
    transaction: &Transaction<'_>,
    record: &RequestRecord,
    text: &str,
    nuggets: &[String],
) -> rusqlite::Result<()> {
    let (event, request) = (record.event.as_str(), record.request.as_str());
    transaction.execute(
        "UPDATE requests SET record = ?3 WHERE event = ?1 AND request = ?2",
        params![event, request, text],
    )?;
    transaction.execute("DELETE FROM nuggets WHERE event = ?1 AND request = ?2", [event, request])?;
    let mut insert = transaction
        .prepare_cached("INSERT INTO nuggets (event, request, rank, nugget) VALUES (?1, ?2, ?3, ?4)")?;
    for (rank, nugget) in (1_u32..).zip(nuggets) {
        insert.execute(params![event, request, rank, nugget])?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Method;

    fn key() -> ShardKey {
        (EventId::new("E-1").unwrap(), RequestId::new("E-1-r0").unwrap())
    }

    fn record(nuggets: u64) -> RequestRecord {
        RequestRecord { items: 10, nuggets, ..RequestRecord::nothing(&key(), 0, Method::Greedy) }
    }

    #[test]
    fn what_was_noted_is_there_after_opening_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("ledger.sqlite");
        let mut checkpoint = Checkpoint { rejected_bytes: 12, ..Checkpoint::default() };
        checkpoint.positions.advance("a.jsonl", 0, 41);
        {
            let mut ledger = Ledger::open(&path).unwrap();
            ledger.set_checkpoint(&checkpoint).unwrap();
            ledger.close_request(&key(), 10).unwrap();
        }
        let mut ledger = Ledger::open(&path).unwrap();
        assert_eq!(ledger.checkpoint().unwrap(), checkpoint);
        let waiting = ledger.closed_requests().unwrap();
        assert_eq!(
            waiting,
            [ClosedRequest { key: key(), revision: 0, first_cutoff: 10, cutoff: 10, record: None }]
        );
        ledger.finish_request(&record(0), &[]).unwrap();
        assert_eq!(ledger.closed_requests().unwrap()[0].record, Some(record(0)));
        ledger.revise_request(&key(), 1, 12).unwrap();
        let again = ledger.closed_requests().unwrap();
        assert_eq!(
            again,
            [ClosedRequest { key: key(), revision: 1, first_cutoff: 10, cutoff: 12, record: None }]
        );
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
    }
}
