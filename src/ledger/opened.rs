//! What becomes known of requests and events while items come. It is written together with the state that rests on it:
//! with a checkpoint, or with the closing of a request that no checkpoint has told of yet.

use rusqlite::params;

use super::{Batch, Ledger, LedgerError, outbox};
use crate::{
    index::ShardKey,
    model::{EventId, Offsets},
};

/// What the ledger does not know yet.
#[derive(Debug, Default)]
pub struct Opened {
    /// Requests with the places of their first items, new or changed.
    pub requests: Vec<(ShardKey, Offsets)>,
    /// Partitions that an event's items were seen in for the first time.
    pub homes: Vec<(EventId, String, i32)>,
    /// What is to be published of them.
    pub batches: Vec<Batch>,
}

/// The same, ready to be written.
pub(super) struct Printed<'a> {
    opened: &'a Opened,
    firsts: Vec<String>,
    entries: Vec<String>,
}

impl<'a> Printed<'a> {
    pub(super) fn new(ledger: &Ledger, opened: &'a Opened) -> Result<Self, LedgerError> {
        let firsts = opened.requests.iter().map(|(_, first)| ledger.print("a request's first items", first));
        let firsts = firsts.collect::<Result<Vec<String>, LedgerError>>()?;
        let entries = opened.batches.iter().map(|batch| ledger.print("a batch", &batch.entries));
        let entries = entries.collect::<Result<Vec<String>, LedgerError>>()?;
        Ok(Self { opened, firsts, entries })
    }

    pub(super) fn write(&self, transaction: &rusqlite::Transaction<'_>) -> rusqlite::Result<()> {
        for (((event, request), _), first) in self.opened.requests.iter().zip(&self.firsts) {
            transaction.execute(
                "INSERT INTO requests (event, request, first) VALUES (?1, ?2, ?3)
                 ON CONFLICT (event, request) DO UPDATE SET first = ?3",
                params![event.as_str(), request.as_str(), first],
            )?;
        }
        for (event, topic, partition) in &self.opened.homes {
            transaction.execute(
                "INSERT OR IGNORE INTO homes (event, topic, partition) VALUES (?1, ?2, ?3)",
                params![event.as_str(), topic, partition],
            )?;
        }
        for (batch, entries) in self.opened.batches.iter().zip(&self.entries) {
            outbox::insert(transaction, batch, entries)?;
        }
        Ok(())
    }
}
