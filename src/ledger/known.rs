//! What the compacted topics say of requests and nuggets, and how it becomes ours when a partition does.

use rusqlite::params;

use super::{Ledger, LedgerError, count, mend::without_stale, published, requests::replace_nuggets};
use crate::{
    index::ShardKey,
    model::{EventId, Nugget, RequestId, RequestState, RequestStatus},
};

/// A record of a compacted topic.
#[derive(Debug, Clone, PartialEq)]
pub enum Heard {
    /// What became of a request.
    Request(Box<RequestStatus>),
    /// A nugget that stands.
    Nugget(Box<Nugget>),
    /// A nugget that was withdrawn, by its name.
    Withdrawn(ShardKey, String),
}

impl Ledger {
    /// Forgets what the topics said, before they are read from their beginning.
    pub fn forget_heard(&mut self) -> Result<(), LedgerError> {
        self.transaction(|transaction| {
            transaction.execute_batch("DELETE FROM known_requests; DELETE FROM known_nuggets;")
        })
    }

    /// Notes records of the compacted topics, in their order.
    pub fn hear(&mut self, heard: &[Heard]) -> Result<(), LedgerError> {
        let mut texts = Vec::with_capacity(heard.len());
        for record in heard {
            texts.push(match record {
                Heard::Request(status) => self.print("a request's status", status)?,
                Heard::Nugget(nugget) => self.print("a nugget", nugget)?,
                Heard::Withdrawn(..) => String::new(),
            });
        }
        self.transaction(|transaction| {
            for (record, text) in heard.iter().zip(&texts) {
                match record {
                    Heard::Request(status) => transaction.execute(
                        "INSERT OR REPLACE INTO known_requests (event, request, status) VALUES (?1, ?2, ?3)",
                        params![status.event.as_str(), status.request.as_str(), text],
                    )?,
                    Heard::Nugget(nugget) => transaction.execute(
                        "INSERT OR REPLACE INTO known_nuggets (event, request, name, nugget)
                         VALUES (?1, ?2, ?3, ?4)",
                        params![nugget.event.as_str(), nugget.request.as_str(), nugget.id, text],
                    )?,
                    Heard::Withdrawn((event, request), name) => transaction.execute(
                        "DELETE FROM known_nuggets WHERE event = ?1 AND request = ?2 AND name = ?3",
                        params![event.as_str(), request.as_str(), name],
                    )?,
                };
            }
            Ok(())
        })
    }

    /// Makes what the topics say of the requests with items in this partition our own, where it is ahead of what this
    /// ledger has published: another instance had the partition in the meantime. `rebuild`: whether requests that were
    /// finished elsewhere get their items here too. Gives the requests taken over.
    pub fn take_over(
        &mut self,
        topic: &str,
        partition: i32,
        rebuild: bool,
    ) -> Result<Vec<ShardKey>, LedgerError> {
        let mut taken = Vec::new();
        for status in self.heard_of(topic, partition)? {
            let key = (status.event.clone(), status.request.clone());
            let ours = self.request(&key)?;
            if ours.is_none() || self.is_of_another(&key, &status)? {
                let here =
                    ours.is_some_and(|ours| ours.here) || rebuild || status.state != RequestState::Final;
                self.replace(&status, here)?;
                taken.push(key);
            }
        }
        Ok(taken)
    }

    /// Gives up requests whose items are not all here: they begin before the record that this partition was begun at.
    /// Somebody else has finished them, or this instance was killed before it had built them.
    pub fn leave_to_others(&mut self, topic: &str, partition: i32, begun: u64) -> Result<(), LedgerError> {
        for request in self.requests()? {
            let is_partial = request.first.get(topic, partition).is_some_and(|first| first < begun);
            if request.here && is_partial {
                self.change(
                    "UPDATE requests SET here = 0 WHERE event = ?1 AND request = ?2",
                    params![request.key.0.as_str(), request.key.1.as_str()],
                )?;
            }
        }
        Ok(())
    }

    fn heard_of(&self, topic: &str, partition: i32) -> Result<Vec<RequestStatus>, LedgerError> {
        let mut statement = self
            .connection
            .prepare_cached("SELECT status FROM known_requests ORDER BY event, request")
            .map_err(|source| self.failed(source))?;
        let rows =
            statement.query_map([], |row| row.get::<_, String>(0)).map_err(|source| self.failed(source))?;
        let mut heard = Vec::new();
        for row in rows {
            let text = row.map_err(|source| self.failed(source))?;
            let status: RequestStatus = self.parse("a request's status", &text)?;
            if status.first.get(topic, partition).is_some() {
                heard.push(status);
            }
        }
        Ok(heard)
    }

    fn replace(&mut self, status: &RequestStatus, here: bool) -> Result<(), LedgerError> {
        let key = (status.event.clone(), status.request.clone());
        let first = without_stale(&self.stale()?, &key, &status.first);
        let first_text = self.print("a request's first items", &first)?;
        let status_text = self.print("a request's status", status)?;
        let record = status.run.as_ref().map(|run| self.print("a request's record", run)).transpose()?;
        let items = status.run.as_ref().and_then(|run| u32::try_from(run.items).ok());
        let closed = status.state == RequestState::Final;
        let closed_with =
            status.closed_with.and_then(|items| u32::try_from(items).ok()).or(items.filter(|_| closed));
        let mut nuggets = self.heard_nuggets(&key)?;
        nuggets.sort_by_key(|nugget| nugget.rank);
        let lines = nuggets.iter().map(|nugget| self.print("a nugget", nugget));
        let lines = lines.collect::<Result<Vec<String>, LedgerError>>()?;
        let (event, request) = (key.0.as_str(), key.1.as_str());
        self.transaction(|transaction| {
            transaction.execute(
                "INSERT OR REPLACE INTO requests
                 (event, request, first, here, closed, first_cutoff, revision, cutoff, record)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
                params![
                    event,
                    request,
                    first_text,
                    here,
                    closed,
                    closed_with,
                    status.revision,
                    items,
                    record
                ],
            )?;
            for (topic, partition, _) in first.iter() {
                transaction.execute(
                    "INSERT OR IGNORE INTO homes (event, topic, partition) VALUES (?1, ?2, ?3)",
                    params![event, topic, partition],
                )?;
            }
            // Whatever waits was made without knowing of it
            transaction
                .execute("DELETE FROM outbox WHERE event = ?1 AND request = ?2", params![event, request])?;
            published::note(transaction, &key, &status_text)?;
            replace_nuggets(transaction, event, request, &lines)
        })
    }

    pub(super) fn heard_nuggets(&self, (event, request): &ShardKey) -> Result<Vec<Nugget>, LedgerError> {
        let mut statement = self
            .connection
            .prepare_cached(
                "SELECT nugget FROM known_nuggets WHERE event = ?1 AND request = ?2 ORDER BY name",
            )
            .map_err(|source| self.failed(source))?;
        let rows = statement
            .query_map([event.as_str(), request.as_str()], |row| row.get::<_, String>(0))
            .map_err(|source| self.failed(source))?;
        let mut nuggets = Vec::new();
        for row in rows {
            nuggets.push(self.parse("a nugget", &row.map_err(|source| self.failed(source))?)?);
        }
        Ok(nuggets)
    }

    /// How many requests and nuggets the topics are known to hold.
    pub fn heard(&self) -> Result<(u64, u64), LedgerError> {
        self.connection
            .query_row(
                "SELECT (SELECT count(*) FROM known_requests), (SELECT count(*) FROM known_nuggets)",
                [],
                |row| Ok((count(row, 0)?, count(row, 1)?)),
            )
            .map_err(|source| self.failed(source))
    }
}

/// The key of a record of the requests topic.
pub fn request_key((event, request): &ShardKey) -> String {
    format!("{event}/{request}")
}

/// The key of a record of the nuggets topic.
pub fn nugget_key((event, request): &ShardKey, name: &str) -> String {
    format!("{event}/{request}/{name}")
}

/// Reads a key of the nuggets topic.
pub fn read_nugget_key(key: &str) -> Option<(ShardKey, String)> {
    let mut parts = key.split('/');
    let (event, request, name) = (parts.next()?, parts.next()?, parts.next()?);
    if parts.next().is_some() {
        return None;
    }
    Some(((EventId::new(event).ok()?, RequestId::new(request).ok()?), name.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        ledger::{Announcer, Opened},
        model::{Method, Offsets, RequestRecord},
    };

    fn status(state: RequestState, revision: Option<u32>, first: u64) -> RequestStatus {
        let key = key();
        let mut offsets = Offsets::default();
        offsets.set("items", 3, first);
        let run = revision.map(|revision| RequestRecord {
            items: 10,
            ..RequestRecord::nothing(&key, revision, Method::Greedy)
        });
        let folder = tempfile::tempdir().unwrap();
        let announcer = Announcer { configuration: String::new() };
        let batch = announcer.opened(&ledger(&folder), &key, &offsets).unwrap();
        let opened: RequestStatus = serde_json::from_str(batch.entries[0].value.as_ref().unwrap()).unwrap();
        RequestStatus { state, revision, run, ..opened }
    }

    fn key() -> ShardKey {
        (EventId::new("E").unwrap(), RequestId::new("E-r0").unwrap())
    }

    fn ledger(folder: &tempfile::TempDir) -> Ledger {
        Ledger::open(&folder.path().join("ledger.sqlite")).unwrap()
    }

    #[test]
    fn what_others_finished_is_taken_over_and_not_built() {
        let folder = tempfile::tempdir().unwrap();
        let mut ledger = ledger(&folder);
        ledger.hear(&[Heard::Request(Box::new(status(RequestState::Final, Some(4), 70)))]).unwrap();
        assert!(ledger.take_over("items", 2, false).unwrap().is_empty(), "of another partition");
        assert_eq!(ledger.take_over("items", 3, false).unwrap(), [key()]);
        let known = ledger.request(&key()).unwrap().unwrap();
        assert!(!known.here && known.is_closed() && known.waiting().is_none());
        assert_eq!((known.next_revision(), known.first.get("items", 3)), (5, Some(70)));
    }

    #[test]
    fn of_the_same_revision_the_published_one_counts() {
        let folder = tempfile::tempdir().unwrap();
        let mut ledger = ledger(&folder);
        ledger.close_request(&key(), 12, &Opened::default()).unwrap();
        assert!(ledger.request(&key()).unwrap().unwrap().waiting().is_some());
        ledger.hear(&[Heard::Request(Box::new(status(RequestState::Interim, Some(0), 70)))]).unwrap();
        ledger.take_over("items", 3, false).unwrap();
        let known = ledger.request(&key()).unwrap().unwrap();
        assert!(known.here && !known.is_closed() && known.waiting().is_none());
        assert_eq!(known.next_revision(), 1);
        // Ours is ahead: it stays
        ledger.revise_request(&key(), 15).unwrap();
        assert!(ledger.take_over("items", 3, false).unwrap().is_empty());
        assert_eq!(ledger.request(&key()).unwrap().unwrap().waiting().unwrap().revision, 1);
    }

    #[test]
    fn a_request_whose_first_items_were_never_read_here_is_left_to_others() {
        let folder = tempfile::tempdir().unwrap();
        let mut ledger = ledger(&folder);
        ledger.hear(&[Heard::Request(Box::new(status(RequestState::Interim, Some(0), 70)))]).unwrap();
        ledger.take_over("items", 3, false).unwrap();
        ledger.leave_to_others("items", 3, 70).unwrap();
        assert!(ledger.request(&key()).unwrap().unwrap().here, "begun at its first item");
        ledger.leave_to_others("items", 3, 71).unwrap();
        assert!(!ledger.request(&key()).unwrap().unwrap().here);
    }
}
