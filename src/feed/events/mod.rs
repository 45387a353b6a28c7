//! Event files: read, merged by event, and checked, so that what comes out can be worked with.
//!
//! An event may stand in one file, or in the track's separate ones (topics, queries, requests), given together or in
//! one folder. Keeps true: every fault of all files is reported at once, with the file's name.

mod check;
mod glance;
mod merge;

use std::{
    collections::BTreeSet,
    fs,
    io::{self, Read},
    path::{Path, PathBuf},
};

use serde::Deserialize;
use serde_json::value::RawValue;

pub(super) use glance::describe_events;

use super::archive::matching;
use crate::model::{Event, EventId, Language, Query, RequestId, UnixSeconds};

/// How far into a file of a folder one looks for whether it describes events.
const GLANCE: u64 = 64 << 10;
/// The field that every description of an event has, and no item.
const EVENT_FIELD: &str = "\"eventID\"";

/// Everything that is wrong with the event files.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}", self.problems.join("\n"))]
pub struct EventsError {
    /// One line each: the file, and what is wrong in it.
    pub problems: Vec<String>,
}

/// What one file says of one event.
#[derive(Debug)]
struct Described {
    file: String,
    /// Whether the file is a list that says what events are and never asks anything, as the track's topics do.
    is_topic: bool,
    fields: Fields,
}

#[derive(Debug, Deserialize)]
struct Fields {
    #[serde(rename = "eventID")]
    id: EventId,
    title: Option<String>,
    /// The title, as the track's files of requests call it.
    event: Option<String>,
    dataset: Option<String>,
    #[serde(rename = "type")]
    kind: Option<String>,
    description: Option<String>,
    url: Option<String>,
    language: Option<Language>,
    keywords: Option<Keywords>,
    queries: Option<Vec<Query>>,
    #[serde(rename = "summaryRequests", alias = "requests")]
    requests: Option<Vec<RequestFields>>,
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Keywords {
    List(Vec<String>),
    Text(String),
}

impl Keywords {
    fn list(self) -> Vec<String> {
        let words = match self {
            Self::List(words) => words,
            Self::Text(text) => text.split(',').map(str::to_owned).collect(),
        };
        words.iter().map(|word| word.trim().to_owned()).filter(|word| !word.is_empty()).collect()
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
struct RequestFields {
    #[serde(rename = "eventID")]
    event: Option<EventId>,
    #[serde(rename = "requestID")]
    id: RequestId,
    #[serde(rename = "startUnixTimestamp")]
    start: UnixSeconds,
    #[serde(rename = "endUnixTimestamp")]
    end: UnixSeconds,
    #[serde(rename = "dateString")]
    date: Option<String>,
}

/// Reads files, folders (every `.json` in them that describes events) and patterns; gives the events sorted by id,
/// each with its requests sorted by start.
pub fn read_events(paths: &[PathBuf]) -> Result<Vec<Event>, EventsError> {
    let mut problems = Vec::new();
    let mut described = Vec::new();
    for file in files(paths, &mut problems) {
        match read_file(&file) {
            Ok(found) => described.extend(found),
            Err(problem) => problems.push(format!("{}: {problem}", file.display())),
        }
    }
    let events = merge::by_event(described, &mut problems);
    check::all(&events, &mut problems);
    if events.is_empty() && problems.is_empty() {
        let looked: Vec<String> = paths.iter().map(|path| path.display().to_string()).collect();
        problems.push(format!("no event described in {}", looked.join(", ")));
    }
    if problems.is_empty() {
        Ok(events.into_iter().map(merge::Merged::event).collect())
    } else {
        Err(EventsError { problems })
    }
}

/// Reads one event file's text, as it comes from a topic; `name` stands for the file in messages.
pub fn read_event(name: &str, text: &str) -> Result<Event, EventsError> {
    let mut problems = Vec::new();
    let described = match read_described(name, text) {
        Ok(described) => described,
        Err(problem) => return Err(EventsError { problems: vec![format!("{name}: {problem}")] }),
    };
    let events = merge::by_event(described, &mut problems);
    check::all(&events, &mut problems);
    let mut events = events.into_iter().map(merge::Merged::event);
    match (events.next(), events.next()) {
        (Some(event), None) if problems.is_empty() => Ok(event),
        (Some(_), Some(_)) => {
            problems.push(format!("{name}: describes several events, a record holds one"));
            Err(EventsError { problems })
        }
        _ => Err(EventsError { problems }),
    }
}

/// The files that [`read_events`] reads, as far as they can be found.
pub fn event_files(paths: &[PathBuf]) -> Vec<PathBuf> {
    files(paths, &mut Vec::new())
}

fn files(paths: &[PathBuf], problems: &mut Vec<String>) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> = Vec::new();
    for path in paths {
        let found = if path.is_dir() {
            in_folder(path).map_err(|error| error.to_string())
        } else if path.exists() {
            Ok(vec![path.clone()])
        } else {
            match matching(&path.to_string_lossy()) {
                Ok(Some(found)) => Ok(found.into_iter().filter(|path| path.is_file()).collect()),
                Ok(None) => Err("no such file or folder".to_owned()),
                Err(error) => Err(error.to_string()),
            }
        };
        match found {
            Ok(found) => files.extend(found),
            Err(problem) => problems.push(format!("{}: {problem}", path.display())),
        }
    }
    let mut seen = BTreeSet::new();
    files.retain(|file| seen.insert(fs::canonicalize(file).unwrap_or_else(|_| file.clone())));
    files
}

fn in_folder(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let is_json = path.extension().is_some_and(|ending| ending.eq_ignore_ascii_case("json"));
        if !is_json || !path.is_file() {
            continue;
        }
        let mut start = Vec::new();
        fs::File::open(&path)?.take(GLANCE).read_to_end(&mut start)?;
        if String::from_utf8_lossy(&start).contains(EVENT_FIELD) {
            found.push(path);
        } else {
            tracing::debug!(file = %path.display(), "describes no event, skipped");
        }
    }
    found.sort();
    Ok(found)
}

/// One object, an array of them, or several of either one after the other.
fn read_file(path: &Path) -> Result<Vec<Described>, String> {
    let text = fs::read_to_string(path).map_err(|error| error.to_string())?;
    read_described(&path.display().to_string(), &text)
}

fn read_described(file: &str, text: &str) -> Result<Vec<Described>, String> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut entries: Vec<&RawValue> = Vec::new();
    let mut lists = 0;
    for value in serde_json::Deserializer::from_str(text).into_iter::<&RawValue>() {
        let value = value.map_err(|error| error.to_string())?;
        if value.get().starts_with('[') {
            lists += 1;
            entries.extend(
                serde_json::from_str::<Vec<&RawValue>>(value.get()).map_err(|error| error.to_string())?,
            );
        } else {
            entries.push(value);
        }
    }
    if entries.is_empty() {
        return Err("describes no event".to_owned());
    }
    let mut described = Vec::new();
    for (number, entry) in (1..).zip(&entries) {
        let fields: Fields = serde_json::from_str(entry.get()).map_err(|error| match entries.len() {
            1 => error.to_string(),
            _ => format!("event {number} of the file: {error}"),
        })?;
        described.push(Described { file: file.to_owned(), is_topic: false, fields });
    }
    let asks =
        described.iter().any(|event| event.fields.queries.is_some() || event.fields.requests.is_some());
    for event in &mut described {
        event.is_topic = lists > 0 && !asks;
    }
    Ok(described)
}

/// A value with the file that states it.
#[derive(Debug)]
struct Stated<T> {
    file: String,
    value: T,
}

type Queries = Stated<Vec<Query>>;
type Requests = Stated<Vec<RequestFields>>;

#[cfg(test)]
mod tests;
