//! The rules of the track's run checker, written down: what a run must be to be accepted for submission.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, value::RawValue};

/// The seven fields of a line.
const FIELDS: [&str; 7] =
    ["requestID", "factText", "unixTimestamp", "importance", "sources", "streamID", "informationNeeds"];

/// What the checker knows of the events, from their files.
struct Known {
    /// For each request its event and the event's queries.
    requests: BTreeMap<String, (String, BTreeSet<String>)>,
}

impl Known {
    fn of(events: &[Value]) -> Self {
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let mut requests = BTreeMap::new();
        for event in events {
            let queries: BTreeSet<String> =
                event["queries"].as_array().unwrap().iter().map(|query| text(&query["queryID"])).collect();
            for request in event["summaryRequests"].as_array().unwrap() {
                requests.insert(text(&request["requestID"]), (text(&event["eventID"]), queries.clone()));
            }
        }
        Self { requests }
    }
}

/// Everything that is wrong with a run, each with its line; nothing where the run is accepted.
pub(crate) fn check(run: &str, events: &[Value]) -> Vec<String> {
    let known = Known::of(events);
    let mut faults = Vec::new();
    for (number, line) in (1..).zip(run.lines()) {
        let mut found = Vec::new();
        check_line(line, &known, &mut found);
        faults.extend(found.into_iter().map(|fault| format!("line {number}: {fault}")));
    }
    faults
}

fn check_line(line: &str, known: &Known, faults: &mut Vec<String>) {
    // A line is one JSON object.
    let Ok(fields) = serde_json::from_str::<BTreeMap<String, Box<RawValue>>>(line) else {
        faults.push("no JSON object".to_owned());
        return;
    };
    // It has the seven fields and no other.
    for name in FIELDS.iter().filter(|name| !fields.contains_key(**name)) {
        faults.push(format!("{name} is missing"));
    }
    for name in fields.keys().filter(|name| !FIELDS.contains(&name.as_str())) {
        faults.push(format!("{name} is no field of a run"));
    }
    let value = |name: &str| fields.get(name).map(|raw| serde_json::from_str::<Value>(raw.get()).unwrap());

    // requestID is a string, the name of a request.
    let request = value("requestID");
    let request = request.as_ref().and_then(Value::as_str).and_then(|id| known.requests.get(id));
    if request.is_none() {
        faults.push("requestID is no known request".to_owned());
    }
    // factText is a string that is not empty and has at most 200 characters.
    match value("factText") {
        Some(Value::String(text)) => {
            if text.trim().is_empty() {
                faults.push("factText is empty".to_owned());
            }
            if text.chars().count() > 200 {
                faults.push("factText is longer than 200 characters".to_owned());
            }
        }
        _ => faults.push("factText is no string".to_owned()),
    }
    // unixTimestamp is an integer: 1512604800.0 and "1512604800" are none.
    if !value("unixTimestamp").is_some_and(|time| time.is_i64()) {
        faults.push("unixTimestamp is no integer".to_owned());
    }
    // importance is a float, so it is written with a decimal point: 1 is refused. It lies within 0 and 1.
    let importance = fields.get("importance").map(|raw| raw.get());
    match importance.map(|text| (text.contains('.'), text.parse::<f64>())) {
        Some((true, Ok(value))) if (0.0..=1.0).contains(&value) => {}
        Some((true, Ok(_))) => faults.push("importance lies outside 0 and 1".to_owned()),
        _ => faults.push("importance is no float".to_owned()),
    }
    check_sources(value("sources").as_ref(), request.map(|(event, _)| event.as_str()), faults);
    // streamID is a string or null.
    if !value("streamID").is_some_and(|id| id.is_string() || id.is_null()) {
        faults.push("streamID is neither string nor null".to_owned());
    }
    // informationNeeds is a list, never null, of names of the event's queries.
    match value("informationNeeds") {
        Some(Value::Array(needs)) => {
            let queries = request.map(|(_, queries)| queries);
            let is_known = |need: &Value| {
                need.as_str().is_some_and(|need| queries.is_none_or(|known| known.contains(need)))
            };
            for need in needs.iter().filter(|need| !is_known(need)) {
                faults.push(format!("informationNeeds has {need}, no query of the event"));
            }
        }
        _ => faults.push("informationNeeds is no list".to_owned()),
    }
}

fn check_sources(sources: Option<&Value>, event: Option<&str>, faults: &mut Vec<String>) {
    // sources is a list that is not empty.
    let Some(Value::Array(sources)) = sources else {
        faults.push("sources is no list".to_owned());
        return;
    };
    if sources.is_empty() {
        faults.push("sources is empty".to_owned());
    }
    for source in sources {
        // Each is a string.
        let Some(id) = source.as_str() else {
            faults.push(format!("sources has {source}, no string"));
            continue;
        };
        // It is the name of an item: event, platform and place, as in CrisisFACTS-001-Twitter-12-0.
        let Some((of, platform, place)) = parts(id) else {
            faults.push(format!("sources has {id}, no name of an item"));
            continue;
        };
        if !["Twitter", "Reddit", "Facebook", "News"].contains(&platform) || place.is_empty() {
            faults.push(format!("sources has {id}, no name of an item"));
        }
        // The item is one of the request's event.
        if event.is_some_and(|event| event != of) {
            faults.push(format!("sources has {id}, an item of another event"));
        }
    }
}

/// `<event>-<Platform>-<place>`, where the event is two words joined by a dash.
fn parts(id: &str) -> Option<(&str, &str, &str)> {
    let (series, rest) = id.split_once('-')?;
    let (number, rest) = rest.split_once('-')?;
    let (platform, place) = rest.split_once('-')?;
    Some((id.get(..series.len() + 1 + number.len())?, platform, place))
}
