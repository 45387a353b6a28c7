//! What waits to be published. It is written together with the state that it tells of, and only then sent: a restart
//! sends it again.

use std::collections::BTreeSet;

use rusqlite::{OptionalExtension, params};
use serde::{Deserialize, Serialize};

use super::{Ledger, LedgerError, count, published};
use crate::{
    index::ShardKey,
    model::{EventId, Offsets},
};

/// Which topic.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Outbox {
    /// The nuggets topic.
    Nuggets,
    /// The requests topic.
    Requests,
}

/// One record to publish.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// Where to.
    pub topic: Outbox,
    /// The record's key.
    pub key: String,
    /// The record's value; nothing = what stood under the key is withdrawn.
    pub value: Option<String>,
}

/// Records that are published together or not at all.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Batch {
    /// The request they tell of.
    pub key: ShardKey,
    /// The revision whose result they are; nothing = they say that the request is open.
    pub revision: Option<u32>,
    /// The records, in the order in which they are sent.
    pub entries: Vec<Entry>,
}

impl Batch {
    /// What it says of the request itself.
    pub(super) fn statuses(&self) -> impl Iterator<Item = &str> {
        let of_requests = self.entries.iter().filter(|entry| entry.topic == Outbox::Requests);
        of_requests.filter_map(|entry| entry.value.as_deref())
    }

    /// The keys of the nuggets that stand once it is published.
    pub(super) fn standing(&self) -> BTreeSet<&str> {
        let of_nuggets = self.entries.iter().filter(|entry| entry.topic == Outbox::Nuggets);
        of_nuggets.filter(|entry| entry.value.is_some()).map(|entry| entry.key.as_str()).collect()
    }
}

/// A batch in the outbox.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Waiting {
    /// Its number: what came first is sent first.
    pub id: i64,
    /// What is sent.
    pub batch: Batch,
}

pub(super) fn insert(
    transaction: &rusqlite::Transaction<'_>,
    batch: &Batch,
    entries: &str,
) -> rusqlite::Result<()> {
    transaction.execute(
        "INSERT INTO outbox (event, request, revision, entries) VALUES (?1, ?2, ?3, ?4)",
        params![batch.key.0.as_str(), batch.key.1.as_str(), batch.revision, entries],
    )?;
    Ok(())
}

impl Ledger {
    /// The first batches that wait, oldest first, after the one numbered `after`.
    pub fn waiting(&self, after: i64, most: u32) -> Result<Vec<Waiting>, LedgerError> {
        let mut statement = self
            .connection
            .prepare_cached(
                "SELECT id, event, request, revision, entries FROM outbox WHERE id > ?1 ORDER BY id LIMIT ?2",
            )
            .map_err(|source| self.failed(source))?;
        let rows = statement
            .query_map(params![after, most], |row| {
                Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?, row.get(4)?))
            })
            .map_err(|source| self.failed(source))?;
        let mut waiting = Vec::new();
        for row in rows {
            let (id, event, request, revision, entries): (i64, String, String, Option<u32>, String) =
                row.map_err(|source| self.failed(source))?;
            let key = self.key(&event, &request)?;
            let entries = self.parse(&format!("a batch of {request}"), &entries)?;
            waiting.push(Waiting { id, batch: Batch { key, revision, entries } });
        }
        Ok(waiting)
    }

    /// The batches that wait for one request, oldest first.
    pub(super) fn waiting_of(&self, key: &ShardKey) -> Result<Vec<Waiting>, LedgerError> {
        let mut statement = self
            .connection
            .prepare_cached(
                "SELECT id, revision, entries FROM outbox WHERE event = ?1 AND request = ?2 ORDER BY id",
            )
            .map_err(|source| self.failed(source))?;
        let rows = statement
            .query_map(params![key.0.as_str(), key.1.as_str()], |row| {
                Ok((row.get(0)?, row.get(1)?, row.get::<_, String>(2)?))
            })
            .map_err(|source| self.failed(source))?;
        let mut waiting = Vec::new();
        for row in rows {
            let (id, revision, entries) = row.map_err(|source| self.failed(source))?;
            let entries = self.parse(&format!("a batch of {}", key.1), &entries)?;
            waiting.push(Waiting { id, batch: Batch { key: key.clone(), revision, entries } });
        }
        Ok(waiting)
    }

    /// Which of these batches still wait.
    pub fn still_waiting(&self, ids: &[i64]) -> Result<BTreeSet<i64>, LedgerError> {
        let mut statement = self
            .connection
            .prepare_cached("SELECT 1 FROM outbox WHERE id = ?1")
            .map_err(|source| self.failed(source))?;
        let mut waiting = BTreeSet::new();
        for &id in ids {
            if statement.exists([id]).map_err(|source| self.failed(source))? {
                waiting.insert(id);
            }
        }
        Ok(waiting)
    }

    /// How many batches wait.
    pub fn waiting_batches(&self) -> Result<u64, LedgerError> {
        self.connection
            .query_row("SELECT count(*) FROM outbox", [], |row| count(row, 0))
            .map_err(|source| self.failed(source))
    }

    /// For each event how many batches wait.
    pub fn waiting_by_event(&self) -> Result<Vec<(EventId, u64)>, LedgerError> {
        let mut statement = self
            .connection
            .prepare_cached("SELECT event, count(*) FROM outbox GROUP BY event ORDER BY event")
            .map_err(|source| self.failed(source))?;
        let rows = statement
            .query_map([], |row| Ok((row.get::<_, String>(0)?, count(row, 1)?)))
            .map_err(|source| self.failed(source))?;
        let mut waiting = Vec::new();
        for row in rows {
            let (event, batches) = row.map_err(|source| self.failed(source))?;
            waiting.push((self.event(&event)?, batches));
        }
        Ok(waiting)
    }

    /// Takes batches out: they are published.
    pub fn sent(&mut self, batches: &[&Waiting]) -> Result<(), LedgerError> {
        self.transaction(|transaction| {
            let mut delete = transaction.prepare_cached("DELETE FROM outbox WHERE id = ?1")?;
            for Waiting { id, batch } in batches {
                delete.execute([id])?;
                for status in batch.statuses() {
                    published::note(transaction, &batch.key, status)?;
                }
            }
            Ok(())
        })
    }

    /// For each partition the lowest first item of a request whose opening waits to be published.
    pub fn unpublished_first(&self) -> Result<Offsets, LedgerError> {
        let mut statement = self
            .connection
            .prepare_cached(
                "SELECT DISTINCT requests.first FROM outbox JOIN requests USING (event, request)
                 WHERE outbox.revision IS NULL",
            )
            .map_err(|source| self.failed(source))?;
        let rows =
            statement.query_map([], |row| row.get::<_, String>(0)).map_err(|source| self.failed(source))?;
        let mut lowest = Offsets::default();
        for row in rows {
            let text = row.map_err(|source| self.failed(source))?;
            let first: Offsets = self.parse("a request's first items", &text)?;
            for (topic, partition, offset) in first.iter() {
                lowest.lower(topic, partition, offset);
            }
        }
        Ok(lowest)
    }

    /// When the oldest batch that waits came; nothing where none does.
    pub fn oldest_waiting(&self) -> Result<Option<i64>, LedgerError> {
        self.connection
            .query_row("SELECT id FROM outbox ORDER BY id LIMIT 1", [], |row| row.get(0))
            .optional()
            .map_err(|source| self.failed(source))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        ledger::{Checkpoint, Opened},
        model::{EventId, RequestId},
    };

    #[test]
    fn batches_wait_in_order_until_they_are_sent() {
        let folder = tempfile::tempdir().unwrap();
        let mut ledger = Ledger::open(&folder.path().join("ledger.sqlite")).unwrap();
        let key = |request: &str| (EventId::new("E").unwrap(), RequestId::new(request).unwrap());
        let batch = |request: &str| Batch {
            key: key(request),
            revision: None,
            entries: vec![Entry { topic: Outbox::Requests, key: format!("E/{request}"), value: None }],
        };
        let first = |offset| {
            let mut first = Offsets::default();
            first.set("items", 0, offset);
            first
        };
        let opened = Opened {
            requests: vec![(key("r1"), first(7)), (key("r2"), first(5))],
            homes: Vec::new(),
            batches: vec![batch("r1"), batch("r2")],
        };
        ledger.set_checkpoint(&Checkpoint::default(), &opened).unwrap();
        let waiting = ledger.waiting(0, 10).unwrap();
        assert_eq!(
            waiting.iter().map(|waiting| &waiting.batch).collect::<Vec<_>>(),
            [&batch("r1"), &batch("r2")]
        );
        assert_eq!(ledger.unpublished_first().unwrap(), first(5));
        ledger.sent(&[&waiting[1]]).unwrap();
        assert_eq!((ledger.waiting_batches().unwrap(), ledger.unpublished_first().unwrap()), (1, first(7)));
        assert_eq!(ledger.waiting(waiting[0].id, 10).unwrap(), []);
    }
}
