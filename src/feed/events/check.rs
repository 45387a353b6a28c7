//! What must hold of events before anyone works with them.

use std::collections::{BTreeMap, BTreeSet};

use super::{RequestFields, merge::Merged};
use crate::model::{Query, RequestId};

/// Adds a line for every fault.
pub(super) fn all(events: &[Merged], problems: &mut Vec<String>) {
    let mut request_files: BTreeMap<&RequestId, &str> = BTreeMap::new();
    for event in events {
        match &event.queries {
            Some(queries) => check_queries(event, &queries.file, &queries.value, problems),
            None => problems.push(format!("{}: event {} has no queries", event.files.join(", "), event.id)),
        }
        let Some(requests) = &event.requests else {
            problems.push(format!("{}: event {} has no requests", event.files.join(", "), event.id));
            continue;
        };
        check_requests(event, &requests.file, &requests.value, problems);
        // Results are named by request alone, so a request's name is used once among all events.
        let ids: BTreeSet<&RequestId> = requests.value.iter().map(|request| &request.id).collect();
        for id in ids {
            if let Some(other) = request_files.insert(id, &requests.file) {
                problems.push(format!(
                    "{}: request {id} of event {} is also a request of another event in {other}",
                    requests.file, event.id
                ));
            }
        }
    }
}

fn check_queries(event: &Merged, file: &str, queries: &[Query], problems: &mut Vec<String>) {
    let mut seen = BTreeSet::new();
    for query in queries {
        if !seen.insert(&query.id) {
            problems.push(format!("{file}: event {} has the query {} twice", event.id, query.id));
        }
        if query.text.trim().is_empty() {
            problems.push(format!("{file}: the query {} of event {} is blank", query.id, event.id));
        }
    }
}

fn check_requests(event: &Merged, file: &str, requests: &[RequestFields], problems: &mut Vec<String>) {
    let mut seen = BTreeSet::new();
    for request in requests {
        if !seen.insert(&request.id) {
            problems.push(format!("{file}: event {} has the request {} twice", event.id, request.id));
        }
        if let Some(other) = request.event.as_ref().filter(|other| **other != event.id) {
            problems.push(format!(
                "{file}: the request {} stands under event {} but names event {other}",
                request.id, event.id
            ));
        }
        if request.start > request.end {
            problems.push(format!(
                "{file}: the request {} of event {} starts at {}, after its end at {}",
                request.id, event.id, request.start, request.end
            ));
        }
    }
}
