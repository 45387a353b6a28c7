//! What was last said of each request in the requests topic, as far as this ledger knows: by itself, or by whom the
//! request was taken over from. Who hears something later knows that somebody else has said it.

use std::collections::BTreeSet;

use rusqlite::{OptionalExtension, params};

use super::{Ledger, LedgerError, nugget_key};
use crate::{index::ShardKey, model::RequestStatus};

pub(super) fn note(
    transaction: &rusqlite::Transaction<'_>,
    (event, request): &ShardKey,
    status: &str,
) -> rusqlite::Result<()> {
    transaction.execute(
        "INSERT OR REPLACE INTO published (event, request, status) VALUES (?1, ?2, ?3)",
        params![event.as_str(), request.as_str(), status],
    )?;
    Ok(())
}

impl Ledger {
    /// Whether a revision that the topic tells of was published by another instance.
    pub(super) fn is_of_another(
        &mut self,
        key: &ShardKey,
        heard: &RequestStatus,
    ) -> Result<bool, LedgerError> {
        let published = self.published(key)?.and_then(|status| status.revision);
        if heard.revision <= published {
            return Ok(false);
        }
        // Ours too, if this process was killed after it was sent and before that was noted
        Ok(!self.was_sent(key, heard)?)
    }

    /// Takes what the topics tell of out of the outbox, and what was sent with or before it; false where that status
    /// with those nuggets does not wait there.
    fn was_sent(&mut self, key: &ShardKey, heard: &RequestStatus) -> Result<bool, LedgerError> {
        let standing: Vec<String> =
            self.heard_nuggets(key)?.iter().map(|nugget| nugget_key(key, &nugget.id)).collect();
        let standing: BTreeSet<&str> = standing.iter().map(String::as_str).collect();
        let waiting = self.waiting_of(key)?;
        let mut found = None;
        for (place, waiting) in waiting.iter().enumerate() {
            for status in waiting.batch.statuses() {
                let status: RequestStatus = self.parse("a request's status", status)?;
                if status == *heard && waiting.batch.standing() == standing {
                    found = Some(place);
                }
            }
        }
        let Some(last) = found else { return Ok(false) };
        self.sent(&waiting.iter().take(last + 1).collect::<Vec<_>>())?;
        Ok(true)
    }

    fn published(&self, (event, request): &ShardKey) -> Result<Option<RequestStatus>, LedgerError> {
        let text: Option<String> = self
            .connection
            .query_row(
                "SELECT status FROM published WHERE event = ?1 AND request = ?2",
                params![event.as_str(), request.as_str()],
                |row| row.get(0),
            )
            .optional()
            .map_err(|source| self.failed(source))?;
        text.map(|text| self.parse("a request's status", &text)).transpose()
    }

    /// What the topic says of a request once everything that waits is published.
    pub(super) fn latest_status(&self, key: &ShardKey) -> Result<Option<RequestStatus>, LedgerError> {
        let waiting = self.waiting_of(key)?;
        let latest = waiting.iter().flat_map(|waiting| waiting.batch.statuses()).last();
        match latest {
            Some(text) => Ok(Some(self.parse("a request's status", text)?)),
            None => self.published(key),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        ledger::{Announcer, Heard, Opened},
        model::{EventId, Method, Nugget, Offsets, RequestId, RequestRecord, RequestState},
    };

    fn key() -> ShardKey {
        (EventId::new("E").unwrap(), RequestId::new("E-r0").unwrap())
    }

    fn announcer() -> Announcer {
        Announcer { configuration: String::new() }
    }

    fn first(offsets: &[(&str, i32, u64)]) -> Offsets {
        let mut first = Offsets::default();
        for &(topic, partition, offset) in offsets {
            first.set(topic, partition, offset);
        }
        first
    }

    fn nugget(name: &str, revision: u32) -> Nugget {
        let text = serde_json::json!({
            "nuggetID": name, "requestID": "E-r0", "factText": name, "unixTimestamp": 1_512_604_800, "importance": 0.5,
            "sources": ["a"], "streamID": null, "informationNeeds": [], "event": "E", "rank": 1,
            "revision": revision, "method": "greedy", "language": "en", "independentSources": 1, "reports": 1,
            "lastSeen": 1_512_604_800,
        });
        serde_json::from_value(text).unwrap()
    }

    /// An instance whose request has its first item in partition 3 and waits for more.
    fn instance(folder: &tempfile::TempDir) -> Ledger {
        let mut ledger = Ledger::open(&folder.path().join("ledger.sqlite")).unwrap();
        let first = first(&[("items", 3, 70)]);
        let batch = announcer().opened(&ledger, &key(), &first).unwrap();
        let opened = Opened {
            requests: vec![(key(), first)],
            homes: vec![(key().0, "items".to_owned(), 3)],
            batches: vec![batch],
        };
        ledger.set_checkpoint(&crate::ledger::Checkpoint::default(), &opened).unwrap();
        ledger
    }

    /// Asks for a run over so many items, and runs it.
    fn run(ledger: &mut Ledger, items: u32, names: &[&str]) {
        let revision = ledger.revise_request(&key(), items).unwrap();
        let request = ledger.request(&key()).unwrap().unwrap();
        let record =
            RequestRecord { items: items.into(), ..RequestRecord::nothing(&key(), revision, Method::Greedy) };
        let nuggets: Vec<Nugget> = names.iter().map(|name| nugget(name, revision)).collect();
        let batch = announcer().result(ledger, &request, &record, &nuggets).unwrap();
        assert!(ledger.finish_request(&record, items, &nuggets, Some(&batch)).unwrap());
    }

    /// Publishes what waits; gives what the topics then say.
    fn publish(ledger: &mut Ledger) -> Vec<Heard> {
        let waiting = ledger.waiting(0, 100).unwrap();
        ledger.sent(&waiting.iter().collect::<Vec<_>>()).unwrap();
        said(ledger, &waiting)
    }

    fn said(ledger: &Ledger, waiting: &[crate::ledger::Waiting]) -> Vec<Heard> {
        let mut heard = Vec::new();
        for entry in waiting.iter().flat_map(|waiting| &waiting.batch.entries) {
            heard.push(match (entry.topic, &entry.value) {
                (crate::ledger::Outbox::Requests, value) => {
                    Heard::Request(Box::new(ledger.parse("", value.as_ref().unwrap()).unwrap()))
                }
                (crate::ledger::Outbox::Nuggets, Some(value)) => {
                    Heard::Nugget(Box::new(ledger.parse("", value).unwrap()))
                }
                (crate::ledger::Outbox::Nuggets, None) => {
                    let (key, name) = crate::ledger::read_nugget_key(&entry.key).unwrap();
                    Heard::Withdrawn(key, name)
                }
            });
        }
        heard
    }

    fn names(ledger: &Ledger) -> Vec<String> {
        ledger.nuggets(&key()).unwrap().into_iter().map(|nugget| nugget.id).collect()
    }

    #[test]
    fn what_another_has_published_makes_void_what_waits_here() {
        let (here, there) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let (mut ours, mut theirs) = (instance(&here), instance(&there));
        run(&mut ours, 10, &["a"]);
        let both = publish(&mut ours);
        ours.hear(&both).unwrap();
        theirs.hear(&both).unwrap();
        assert_eq!(theirs.take_over("items", 3, false).unwrap(), [key()]);
        // Here two more are made and not sent, there one is
        run(&mut ours, 20, &["a", "b"]);
        run(&mut ours, 30, &["a", "b", "c"]);
        run(&mut theirs, 25, &["d"]);
        let heard = publish(&mut theirs);
        ours.hear(&heard).unwrap();
        assert_eq!(ours.take_over("items", 3, false).unwrap(), [key()]);
        assert_eq!(ours.waiting(0, 100).unwrap(), []);
        assert_eq!(names(&ours), ["d"], "so that d is withdrawn when it no longer stands");
        assert_eq!(ours.request(&key()).unwrap().unwrap().next_revision(), 2);
        assert!(ours.take_over("items", 3, false).unwrap().is_empty(), "once");
    }

    #[test]
    fn what_was_sent_before_a_kill_is_ours_and_not_sent_again() {
        let folder = tempfile::tempdir().unwrap();
        let mut ledger = instance(&folder);
        run(&mut ledger, 10, &["a"]);
        let sent = ledger.waiting(0, 100).unwrap();
        let heard = said(&ledger, &sent);
        run(&mut ledger, 20, &["b"]);
        ledger.hear(&heard).unwrap();
        assert!(ledger.take_over("items", 3, false).unwrap().is_empty());
        let waiting = ledger.waiting(0, 100).unwrap();
        assert_eq!(waiting.iter().map(|waiting| waiting.batch.revision).collect::<Vec<_>>(), [Some(1)]);
        assert_eq!(names(&ledger), ["b"]);
    }

    #[test]
    fn the_same_counts_over_other_nuggets_are_of_another() {
        let (here, there) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let (mut ours, mut theirs) = (instance(&here), instance(&there));
        run(&mut ours, 10, &["a"]);
        run(&mut theirs, 10, &["b"]);
        let heard = publish(&mut theirs);
        ours.hear(&heard).unwrap();
        assert_eq!(ours.take_over("items", 3, false).unwrap(), [key()]);
        assert_eq!((names(&ours), ours.waiting(0, 100).unwrap()), (vec!["b".to_owned()], Vec::new()));
    }

    #[test]
    fn a_first_item_in_another_partition_unsays_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let mut ledger = instance(&folder);
        run(&mut ledger, 10, &["a"]);
        let more = first(&[("items", 3, 70), ("others", 0, 5)]);
        for _ in 0..2 {
            let batch = announcer().opened(&ledger, &key(), &more).unwrap();
            let status: RequestStatus = ledger.parse("", batch.statuses().next().unwrap()).unwrap();
            assert_eq!((status.state, status.revision), (RequestState::Interim, Some(0)));
            assert_eq!(status.first, more);
            // The second time all is published already
            publish(&mut ledger);
        }
    }

    #[test]
    fn a_request_that_closes_before_a_checkpoint_is_announced_with_its_closing() {
        let folder = tempfile::tempdir().unwrap();
        let mut ledger = Ledger::open(&folder.path().join("ledger.sqlite")).unwrap();
        let first = first(&[("items", 3, 70)]);
        let batch = announcer().opened(&ledger, &key(), &first).unwrap();
        let opened = Opened {
            requests: vec![(key(), first.clone())],
            homes: vec![(key().0, "items".to_owned(), 3)],
            batches: vec![batch],
        };
        ledger.close_request(&key(), 10, &opened).unwrap();
        let request = ledger.request(&key()).unwrap().unwrap();
        assert_eq!((request.first, request.closed_with), (first.clone(), Some(10)));
        assert_eq!(ledger.homes().unwrap(), opened.homes);
        assert_eq!(ledger.unpublished_first().unwrap(), first);
    }
}
