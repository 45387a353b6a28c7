//! What several files say of one event, put together. A field that two files give differently is a fault.

use std::{collections::BTreeMap, fmt::Debug};

use super::{Described, Fields, Queries, RequestFields, Requests, Stated};
use crate::model::{Event, EventId, Language, Request};

/// An event with the file of each of its fields.
#[derive(Debug)]
pub(super) struct Merged {
    pub(super) id: EventId,
    /// Every file that describes it, for faults of what is in none.
    pub(super) files: Vec<String>,
    is_topic_alone: bool,
    title: Option<Stated<String>>,
    dataset: Option<Stated<String>>,
    kind: Option<Stated<String>>,
    description: Option<Stated<String>>,
    url: Option<Stated<String>>,
    language: Option<Stated<Language>>,
    keywords: Option<Stated<Vec<String>>>,
    pub(super) queries: Option<Queries>,
    pub(super) requests: Option<Requests>,
}

/// The events by id. The track's topics describe more events than its queries and requests: those that only a list of
/// topics knows are left out, as long as there are others.
pub(super) fn by_event(described: Vec<Described>, problems: &mut Vec<String>) -> Vec<Merged> {
    let mut events: BTreeMap<EventId, Merged> = BTreeMap::new();
    for one in described {
        let event = events.entry(one.fields.id.clone()).or_insert_with(|| Merged::new(&one.fields.id));
        event.take(one, problems);
    }
    let mut events: Vec<Merged> = events.into_values().collect();
    if events.iter().any(|event| !event.is_topic_alone) {
        for left_out in events.extract_if(.., |event| event.is_topic_alone) {
            tracing::warn!(event = %left_out.id, "neither queries nor requests given, left out");
        }
    }
    events
}

impl Merged {
    fn new(id: &EventId) -> Self {
        Self {
            id: id.clone(),
            files: Vec::new(),
            is_topic_alone: true,
            title: None,
            dataset: None,
            kind: None,
            description: None,
            url: None,
            language: None,
            keywords: None,
            queries: None,
            requests: None,
        }
    }

    fn take(&mut self, described: Described, problems: &mut Vec<String>) {
        let Described { file, is_topic, fields } = described;
        let Fields {
            id,
            title,
            event,
            dataset,
            kind,
            description,
            url,
            language,
            keywords,
            queries,
            requests,
        } = fields;
        let keywords = keywords.map(super::Keywords::list).filter(|words| !words.is_empty());
        let queries = queries.filter(|queries| !queries.is_empty());
        let requests = requests.filter(|requests| !requests.is_empty());
        self.is_topic_alone &= is_topic;
        let mut merging = Merging { id: &id, file: &file, problems };
        merging.put("title", &mut self.title, title.or(event));
        merging.put("dataset", &mut self.dataset, dataset);
        merging.put("type", &mut self.kind, kind);
        merging.put("description", &mut self.description, description);
        merging.put("url", &mut self.url, url);
        merging.put("language", &mut self.language, language);
        merging.put("keywords", &mut self.keywords, keywords);
        merging.put("queries", &mut self.queries, queries);
        merging.put("summaryRequests", &mut self.requests, requests);
        if !self.files.contains(&file) {
            self.files.push(file);
        }
    }

    /// The event, its requests sorted by start. Without a title it is called by its id.
    pub(super) fn event(self) -> Event {
        let requests = self.requests.map(|stated| stated.value).unwrap_or_default();
        let mut requests: Vec<Request> = requests
            .into_iter()
            .map(|RequestFields { id, start, end, date, .. }| Request { id, start, end, date })
            .collect();
        requests.sort_by(|a, b| (a.start, &a.id).cmp(&(b.start, &b.id)));
        Event {
            title: self.title.map_or_else(|| self.id.to_string(), |stated| stated.value),
            id: self.id,
            dataset: self.dataset.map(|stated| stated.value),
            kind: self.kind.map(|stated| stated.value),
            description: self.description.map(|stated| stated.value),
            url: self.url.map(|stated| stated.value),
            language: self.language.map(|stated| stated.value),
            keywords: self.keywords.map(|stated| stated.value).unwrap_or_default(),
            queries: self.queries.map(|stated| stated.value).unwrap_or_default(),
            requests,
        }
    }
}

/// One file being taken into one event.
struct Merging<'a> {
    id: &'a EventId,
    file: &'a str,
    problems: &'a mut Vec<String>,
}

impl Merging<'_> {
    fn put<T: PartialEq>(&mut self, field: &str, place: &mut Option<Stated<T>>, value: Option<T>) {
        let Some(value) = value else {
            return;
        };
        match place {
            None => *place = Some(Stated { file: self.file.to_owned(), value }),
            Some(before) if before.value == value => {}
            Some(before) => self.problems.push(format!(
                "{}: \"{field}\" of event {} is given differently in {}",
                self.file, self.id, before.file
            )),
        }
    }
}
