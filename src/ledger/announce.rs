//! How state changes are told in the topics.

use super::{Batch, Entry, KnownRequest, Ledger, LedgerError, Outbox, nugget_key, request_key};
use crate::{
    index::ShardKey,
    model::{Nugget, Offsets, RequestRecord, RequestState, RequestStatus},
};

/// Writes the records of the requests and nuggets topics.
#[derive(Debug, Clone)]
pub struct Announcer {
    /// Digest of what in the configuration decides results.
    pub configuration: String,
}

impl Announcer {
    /// Says where a request's first items stand; what else was said of it stays.
    pub fn opened(&self, ledger: &Ledger, key: &ShardKey, first: &Offsets) -> Result<Batch, LedgerError> {
        let status = match ledger.latest_status(key)? {
            Some(latest) => RequestStatus { first: first.clone(), ..latest },
            None => self.status(key, RequestState::Open, first.clone()),
        };
        Ok(Batch { key: key.clone(), revision: None, entries: vec![entry(key, &status)] })
    }

    /// Says what a run came to: its nuggets, which of the run before are withdrawn, and the request's status last.
    pub fn result(
        &self,
        ledger: &Ledger,
        request: &KnownRequest,
        record: &RequestRecord,
        nuggets: &[Nugget],
    ) -> Result<Batch, LedgerError> {
        let key = &request.key;
        let mut entries = Vec::with_capacity(nuggets.len() + 1);
        for nugget in nuggets {
            let value = Some(ledger.print("a nugget", nugget)?);
            entries.push(Entry { topic: Outbox::Nuggets, key: nugget_key(key, &nugget.id), value });
        }
        for old in ledger.nuggets(key)? {
            if nuggets.iter().all(|nugget| nugget.id != old.id) {
                entries.push(Entry { topic: Outbox::Nuggets, key: nugget_key(key, &old.id), value: None });
            }
        }
        let state = if request.is_closed() { RequestState::Final } else { RequestState::Interim };
        let status = RequestStatus {
            revision: Some(record.revision),
            closed_with: request.closed_with.map(u64::from),
            run: Some(record.clone()),
            ..self.status(key, state, request.first.clone())
        };
        entries.push(entry(key, &status));
        Ok(Batch { key: key.clone(), revision: Some(record.revision), entries })
    }

    fn status(&self, (event, request): &ShardKey, state: RequestState, first: Offsets) -> RequestStatus {
        RequestStatus {
            event: event.clone(),
            request: request.clone(),
            state,
            revision: None,
            first,
            closed_with: None,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            configuration: self.configuration.clone(),
            run: None,
        }
    }
}

fn entry(key: &ShardKey, status: &RequestStatus) -> Entry {
    // A status is made of texts and numbers, which always print
    let value = serde_json::to_string(status).ok();
    Entry { topic: Outbox::Requests, key: request_key(key), value }
}
