//! How far each request is, and the nuggets of its latest run.

use rusqlite::{OptionalExtension, params};

use super::{Batch, Ledger, LedgerError, Opened, opened::Printed, outbox};
use crate::{
    index::ShardKey,
    model::{Nugget, Offsets, RequestRecord},
};

/// A run that was asked for.
#[derive(Debug, Clone, PartialEq)]
pub struct Asked {
    /// Its number among the request's runs, from 0.
    pub revision: u32,
    /// Items that it sees.
    pub cutoff: u32,
    /// Its counts; nothing while it has not run.
    pub record: Option<RequestRecord>,
}

/// A request that has items, has closed, or both.
#[derive(Debug, Clone, PartialEq)]
pub struct KnownRequest {
    /// Which one.
    pub key: ShardKey,
    /// Where its first item stands, in each partition.
    pub first: Offsets,
    /// Whether this ledger's shards hold its items; else it was finished elsewhere.
    pub here: bool,
    /// Items in the shard when it closed; nothing while it is open.
    pub closed_with: Option<u32>,
    /// The latest run that was asked for.
    pub run: Option<Asked>,
}

impl KnownRequest {
    /// Whether it waits for items no more.
    pub fn is_closed(&self) -> bool {
        self.closed_with.is_some()
    }

    /// The number of the next run.
    pub fn next_revision(&self) -> u32 {
        self.run.as_ref().map_or(0, |run| run.revision + 1)
    }

    /// The run that was asked for and has not come to its end.
    pub fn waiting(&self) -> Option<&Asked> {
        self.run.as_ref().filter(|run| run.record.is_none())
    }
}

const COLUMNS: &str = "event, request, first, here, closed, first_cutoff, revision, cutoff, record";

impl Ledger {
    /// Notes that a request has closed, with this many items in its shard, and asks for its run; gives the revision.
    /// `opened`: what no checkpoint has told of the request yet. Its run may be published before the next one does.
    pub fn close_request(
        &mut self,
        key: &ShardKey,
        cutoff: u32,
        opened: &Opened,
    ) -> Result<u32, LedgerError> {
        let revision = self.request(key)?.map_or(0, |known| known.next_revision());
        let opened = Printed::new(self, opened)?;
        self.transaction(|transaction| {
            opened.write(transaction)?;
            transaction.execute(
                "INSERT INTO requests (event, request, closed, first_cutoff, revision, cutoff)
                 VALUES (?1, ?2, 1, ?3, ?4, ?3)
                 ON CONFLICT (event, request)
                 DO UPDATE SET closed = 1, first_cutoff = ?3, revision = ?4, cutoff = ?3, record = NULL",
                params![key.0.as_str(), key.1.as_str(), cutoff, revision],
            )?;
            Ok(())
        })?;
        Ok(revision)
    }

    /// Asks for one more run of a request, over this many items; gives its revision. Its nuggets stay until it has run.
    pub fn revise_request(&mut self, key: &ShardKey, cutoff: u32) -> Result<u32, LedgerError> {
        let revision = self.request(key)?.map_or(0, |known| known.next_revision());
        self.change(
            "UPDATE requests SET revision = ?3, cutoff = ?4, record = NULL WHERE event = ?1 AND request = ?2",
            params![key.0.as_str(), key.1.as_str(), revision, cutoff],
        )?;
        Ok(revision)
    }

    /// What is known of a request.
    pub fn request(&self, (event, request): &ShardKey) -> Result<Option<KnownRequest>, LedgerError> {
        let query = format!("SELECT {COLUMNS} FROM requests WHERE event = ?1 AND request = ?2");
        let mut statement = self.connection.prepare_cached(&query).map_err(|source| self.failed(source))?;
        let row = statement
            .query_row([event.as_str(), request.as_str()], Row::read)
            .optional()
            .map_err(|source| self.failed(source))?;
        row.map(|row| self.known(row)).transpose()
    }

    /// Whether a request has closed.
    pub fn is_closed(&self, key: &ShardKey) -> Result<bool, LedgerError> {
        Ok(self.request(key)?.is_some_and(|known| known.is_closed()))
    }

    /// Every request that is known, in the order in which they came.
    pub fn requests(&self) -> Result<Vec<KnownRequest>, LedgerError> {
        let query = format!("SELECT {COLUMNS} FROM requests ORDER BY rowid");
        let mut statement = self.connection.prepare(&query).map_err(|source| self.failed(source))?;
        let rows = statement.query_map([], Row::read).map_err(|source| self.failed(source))?;
        let mut known = Vec::new();
        for row in rows {
            known.push(self.known(row.map_err(|source| self.failed(source))?)?);
        }
        Ok(known)
    }

    /// Notes a run's result: its counts, its nuggets, which replace those of the run before, and what is to be
    /// published of it. Gives false, and notes nothing, where another run was asked for in the meantime: one under
    /// another revision, or over other items than `cutoff`, as after a partition was lost and came back.
    pub fn finish_request(
        &mut self,
        record: &RequestRecord,
        cutoff: u32,
        nuggets: &[Nugget],
        batch: Option<&Batch>,
    ) -> Result<bool, LedgerError> {
        let text = self.print("a request's record", record)?;
        let lines = nuggets.iter().map(|nugget| self.print("a nugget", nugget));
        let lines = lines.collect::<Result<Vec<String>, LedgerError>>()?;
        let entries = batch.map(|batch| self.print("a batch", &batch.entries)).transpose()?;
        let (event, request) = (record.event.as_str(), record.request.as_str());
        let mut stands = false;
        self.transaction(|transaction| {
            let changed = transaction.execute(
                "UPDATE requests SET record = ?3
                 WHERE event = ?1 AND request = ?2 AND revision = ?4 AND cutoff = ?5 AND record IS NULL",
                params![event, request, text, record.revision, cutoff],
            )?;
            if changed == 0 {
                return Ok(());
            }
            stands = true;
            replace_nuggets(transaction, event, request, &lines)?;
            if let (Some(batch), Some(entries)) = (batch, &entries) {
                outbox::insert(transaction, batch, entries)?;
            }
            Ok(())
        })?;
        Ok(stands)
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

    fn known(&self, row: Row) -> Result<KnownRequest, LedgerError> {
        let what = format!("the record of {}", row.request);
        let run = match (row.revision, row.cutoff) {
            (Some(revision), Some(cutoff)) => {
                let record = row.record.map(|text| self.parse(&what, &text)).transpose()?;
                Some(Asked { revision, cutoff, record })
            }
            _ => None,
        };
        Ok(KnownRequest {
            key: self.key(&row.event, &row.request)?,
            first: self.parse(&what, &row.first)?,
            here: row.here,
            closed_with: row.closed.then(|| row.first_cutoff.unwrap_or_default()),
            run,
        })
    }
}

struct Row {
    event: String,
    request: String,
    first: String,
    here: bool,
    closed: bool,
    first_cutoff: Option<u32>,
    revision: Option<u32>,
    cutoff: Option<u32>,
    record: Option<String>,
}

impl Row {
    fn read(row: &rusqlite::Row<'_>) -> rusqlite::Result<Self> {
        Ok(Self {
            event: row.get(0)?,
            request: row.get(1)?,
            first: row.get(2)?,
            here: row.get(3)?,
            closed: row.get(4)?,
            first_cutoff: row.get(5)?,
            revision: row.get(6)?,
            cutoff: row.get(7)?,
            record: row.get(8)?,
        })
    }
}

pub(super) fn replace_nuggets(
    transaction: &rusqlite::Transaction<'_>,
    event: &str,
    request: &str,
    nuggets: &[String],
) -> rusqlite::Result<()> {
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
    use crate::model::{EventId, Method, RequestId};

    fn key() -> ShardKey {
        (EventId::new("E-1").unwrap(), RequestId::new("E-1-r0").unwrap())
    }

    fn record(revision: u32) -> RequestRecord {
        RequestRecord { items: 10, ..RequestRecord::nothing(&key(), revision, Method::Greedy) }
    }

    #[test]
    fn a_request_closes_runs_and_is_revised() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("ledger.sqlite");
        let mut ledger = Ledger::open(&path).unwrap();
        assert_eq!(ledger.close_request(&key(), 10, &Opened::default()).unwrap(), 0);
        let known = ledger.request(&key()).unwrap().unwrap();
        assert_eq!(known.waiting(), Some(&Asked { revision: 0, cutoff: 10, record: None }));
        assert!(ledger.finish_request(&record(0), 10, &[], None).unwrap());
        let mut ledger = Ledger::open(&path).unwrap();
        assert_eq!(ledger.requests().unwrap()[0].run.clone().unwrap().record, Some(record(0)));
        assert_eq!(ledger.revise_request(&key(), 12).unwrap(), 1);
        let known = ledger.request(&key()).unwrap().unwrap();
        assert_eq!((known.closed_with, known.waiting().unwrap().cutoff), (Some(10), 12));
    }

    #[test]
    fn the_result_of_a_run_that_was_overtaken_is_not_kept() {
        let folder = tempfile::tempdir().unwrap();
        let mut ledger = Ledger::open(&folder.path().join("ledger.sqlite")).unwrap();
        ledger.close_request(&key(), 10, &Opened::default()).unwrap();
        ledger.revise_request(&key(), 12).unwrap();
        assert!(!ledger.finish_request(&record(0), 10, &[], None).unwrap());
        // Nor that of the same revision asked for over fewer items, before the partition was lost and came back
        assert!(!ledger.finish_request(&record(1), 10, &[], None).unwrap());
        assert!(ledger.request(&key()).unwrap().unwrap().waiting().is_some());
        assert!(ledger.finish_request(&record(1), 12, &[], None).unwrap());
    }
}
