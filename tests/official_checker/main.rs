//! Every run passes the track's checker, and what its nuggets cite is there: real archives through the built binary.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod rules;
#[path = "../support/mod.rs"]
mod support;

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

use rules::check;
use serde_json::{Value, json, value::RawValue};
use support::{Folder, Results, event, read_json, read_lines, read_text, real_data, replay, root};

/// Most nuggets of a request, as configured where nothing is set.
const MOST_NUGGETS: usize = 32;

fn events() -> [Value; 2] {
    [
        event("CrisisFACTS-001", &[("CrisisFACTS-001-r3", 0, 9)]),
        event("CrisisFACTS-002", &[("CrisisFACTS-002-r1", 0, 9)]),
    ]
}

fn good() -> Value {
    json!({
        "requestID": "CrisisFACTS-001-r3", "factText": "64 homes destroyed", "unixTimestamp": 1_512_604_800,
        "importance": 0.5, "sources": ["CrisisFACTS-001-Twitter-12-0", "CrisisFACTS-001-Reddit-s26-c1-0"],
        "streamID": null, "informationNeeds": ["q1", "q3"],
    })
}

#[test]
fn a_good_run_has_no_faults() {
    let mut other = good();
    other["importance"] = json!(1.0);
    other["streamID"] = json!("CrisisFACTS-001-Twitter-12-0");
    other["factText"] = json!("é".repeat(200));
    other["informationNeeds"] = json!([]);
    assert_eq!(check(&format!("{}\n{other}\n", good()), &events()), Vec::<String>::new());
}

#[test]
fn each_rule_fires_alone() {
    let cases: Vec<(&str, Value, &str)> = vec![
        ("requestID", json!("CrisisFACTS-001-r4"), "requestID is no known request"),
        ("requestID", json!(3), "requestID is no known request"),
        ("factText", json!(""), "factText is empty"),
        ("factText", json!(" "), "factText is empty"),
        ("factText", json!(null), "factText is no string"),
        ("factText", json!("é".repeat(201)), "factText is longer than 200 characters"),
        ("unixTimestamp", json!(1_512_604_800.0), "unixTimestamp is no integer"),
        ("unixTimestamp", json!("1512604800"), "unixTimestamp is no integer"),
        ("importance", json!(1), "importance is no float"),
        ("importance", json!("0.5"), "importance is no float"),
        ("importance", json!(null), "importance is no float"),
        ("importance", json!(1.5), "importance lies outside 0 and 1"),
        ("importance", json!(-0.5), "importance lies outside 0 and 1"),
        ("sources", json!("['CrisisFACTS-001-Twitter-12-0']"), "sources is no list"),
        ("sources", json!(null), "sources is no list"),
        ("sources", json!([]), "sources is empty"),
        ("sources", json!([7]), "sources has 7, no string"),
        ("sources", json!(["Twitter-12-0"]), "sources has Twitter-12-0, no name of an item"),
        (
            "sources",
            json!(["CrisisFACTS-001-Twitter"]),
            "sources has CrisisFACTS-001-Twitter, no name of an item",
        ),
        (
            "sources",
            json!(["CrisisFACTS-001-Mail-1"]),
            "sources has CrisisFACTS-001-Mail-1, no name of an item",
        ),
        (
            "sources",
            json!(["CrisisFACTS-002-News-1-1"]),
            "sources has CrisisFACTS-002-News-1-1, an item of another event",
        ),
        ("streamID", json!(12), "streamID is neither string nor null"),
        ("informationNeeds", json!(null), "informationNeeds is no list"),
        ("informationNeeds", json!("q1"), "informationNeeds is no list"),
        ("informationNeeds", json!(["q9"]), "informationNeeds has \"q9\", no query of the event"),
        ("informationNeeds", json!([1]), "informationNeeds has 1, no query of the event"),
        ("rank", json!(1), "rank is no field of a run"),
    ];
    for (field, value, fault) in cases {
        let mut line = good();
        line[field] = value;
        assert_eq!(check(&format!("{}\n{line}\n", good()), &events()), [format!("line 2: {fault}")]);
    }
}

#[test]
fn a_line_that_is_no_object_or_lacks_a_field_is_a_fault() {
    for line in
        ["", "[]", "{", "7", &format!("{}{}", good(), good()), &good().to_string().replace("0.5", "NaN")]
    {
        assert_eq!(check(&format!("{line}\n"), &events()), ["line 1: no JSON object"]);
    }
    for field in good().as_object().unwrap().keys() {
        let mut line = good();
        line.as_object_mut().unwrap().remove(field);
        let faults = check(&line.to_string(), &events());
        assert!(faults.contains(&format!("line 1: {field} is missing")), "{faults:?}");
    }
}

#[test]
fn a_real_run_that_the_track_refused_is_refused() {
    let (Some(negatives), Some(archives)) = (real_data("negatives"), real_data("archives")) else { return };
    let files = event_files(&archives.join("crisisfacts-pooled"));
    let events: Vec<Value> = files.iter().map(|path| read_json(path)).collect();
    let run = read_text(&negatives.join("jaehobahng_gpt.json.gz"));
    let faults = check(&run, &events);
    for fault in ["sources is no list", "informationNeeds is no list", "factText is no string"] {
        assert!(faults.iter().any(|found| found.ends_with(fault)), "{fault}");
    }
    // One importance is NaN, which is no JSON.
    assert_eq!(faults.iter().filter(|found| found.ends_with("no JSON object")).count(), 1);
}

#[test]
fn the_demo_archive_gives_a_run_that_is_accepted() {
    let demo = root().join("demo");
    let problems = replay_and_check(&demo.join("items.jsonl"), &demo.join("event.json"));
    assert_eq!(problems, Vec::<String>::new());
}

#[test]
fn every_archive_of_crisislex26_gives_a_run_that_is_accepted() {
    every_archive_of("crisislex26", 18);
}

#[test]
fn every_archive_of_the_pooled_events_gives_a_run_that_is_accepted() {
    every_archive_of("crisisfacts-pooled", 8);
}

#[test]
fn the_archive_of_three_platforms_gives_a_run_that_is_accepted() {
    every_archive_of("crisisfacts-lilac2000", 1);
}

fn every_archive_of(folder: &str, count: usize) {
    let Some(folder) = real_data("archives").map(|archives| archives.join(folder)) else { return };
    let files = event_files(&folder);
    assert_eq!(files.len(), count);
    for file in files {
        let archive = PathBuf::from(file.to_str().unwrap().replace(".event.json", ".jsonl.gz"));
        let problems = replay_and_check(&archive, &file);
        assert_eq!(problems, Vec::<String>::new(), "{}", archive.display());
    }
}

fn event_files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<PathBuf> =
        entries.filter(|path| path.to_str().unwrap().ends_with(".event.json")).collect();
    files.sort();
    files
}

/// Replays an archive of one event; gives what is wrong with its run.
fn replay_and_check(archive: &Path, event_file: &Path) -> Vec<String> {
    let folder = Folder::new();
    let out = folder.path("run");
    replay(archive, event_file, &out, &[]).done();
    let results = Results::in_folder(&out);
    let event = read_json(event_file);
    let run = read_text(&out.join("run.jsonl"));
    let mut problems = check(&run, std::slice::from_ref(&event));
    if results.nuggets.is_empty() {
        problems.push("no nuggets".to_owned());
    }
    if !results.rejected.is_empty() {
        problems.push(format!("{} records refused", results.rejected.len()));
    }
    compare_fields(&run, &read_text(&out.join("nuggets.jsonl")), &mut problems);
    check_schema(&results.nuggets, &mut problems);
    check_citations(&results.nuggets, &read_lines(archive), &event, &mut problems);
    check_order(&results, &event, &mut problems);
    problems
}

/// A line of the run is its nugget in the seven fields, to the letter.
fn compare_fields(run: &str, nuggets: &str, problems: &mut Vec<String>) {
    let fields = |text: &str| -> Vec<BTreeMap<String, Box<RawValue>>> {
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    };
    let (run, nuggets) = (fields(run), fields(nuggets));
    if run.len() != nuggets.len() {
        problems.push(format!("{} lines in the run, {} nuggets", run.len(), nuggets.len()));
    }
    for (number, (line, nugget)) in run.iter().zip(&nuggets).enumerate() {
        for (name, value) in line {
            if nugget.get(name).map(|same| same.get()) != Some(value.get()) {
                problems.push(format!("nugget {number} has another {name} than the run"));
            }
        }
    }
}

fn check_schema(nuggets: &[Value], problems: &mut Vec<String>) {
    let schema = read_json(&root().join("schemas/nugget.schema.json"));
    let validator = jsonschema::validator_for(&schema).unwrap();
    for nugget in nuggets {
        problems.extend(validator.iter_errors(nugget).map(|error| format!("schema: {error} in {nugget}")));
    }
}

/// Every source is an item of the archive within the request's bounds; a nugget's time is its earliest source's.
fn check_citations(nuggets: &[Value], items: &[Value], event: &Value, problems: &mut Vec<String>) {
    let times: BTreeMap<&str, i64> = items
        .iter()
        .map(|item| (item["streamID"].as_str().unwrap(), item["unixTimestamp"].as_i64().unwrap()))
        .collect();
    let requests = event["summaryRequests"].as_array().unwrap();
    for nugget in nuggets {
        let request = requests.iter().find(|request| request["requestID"] == nugget["requestID"]).unwrap();
        let bounds =
            request["startUnixTimestamp"].as_i64().unwrap()..=request["endUnixTimestamp"].as_i64().unwrap();
        let sources = nugget["sources"].as_array().unwrap();
        let found: Vec<i64> =
            sources.iter().filter_map(|source| times.get(source.as_str().unwrap())).copied().collect();
        if found.len() != sources.len() {
            problems.push(format!("{} is no item of the archive", nugget["sources"]));
        }
        if found.iter().any(|time| !bounds.contains(time)) {
            problems.push(format!("{} lie outside {}", nugget["sources"], nugget["requestID"]));
        }
        if found.iter().min().copied() != nugget["unixTimestamp"].as_i64() {
            problems.push(format!("{} has not the time of its earliest source", nugget["nuggetID"]));
        }
        if nugget["informationNeeds"].as_array().unwrap().is_empty() {
            problems.push(format!("{} answers no query", nugget["nuggetID"]));
        }
    }
}

/// Requests in the order of their days, within them ranks from 1, importance never rising, no more than may be.
fn check_order(results: &Results, event: &Value, problems: &mut Vec<String>) {
    let mut expected = Vec::new();
    for request in event["summaryRequests"].as_array().unwrap() {
        let of_request = |nugget: &&Value| nugget["requestID"] == request["requestID"];
        let nuggets: Vec<&Value> = results.nuggets.iter().filter(of_request).collect();
        if nuggets.len() > MOST_NUGGETS {
            problems.push(format!("{} has {} nuggets", request["requestID"], nuggets.len()));
        }
        if !(1..).zip(&nuggets).all(|(rank, nugget)| nugget["rank"] == rank) {
            problems.push(format!("{} has ranks out of order", request["requestID"]));
        }
        let importance = |nugget: &&Value| nugget["importance"].as_f64().unwrap();
        if !nuggets.is_sorted_by(|a, b| importance(a) >= importance(b)) {
            problems.push(format!("{} has rising importance", request["requestID"]));
        }
        let facts: BTreeSet<&str> =
            nuggets.iter().map(|nugget| nugget["factText"].as_str().unwrap()).collect();
        if facts.len() != nuggets.len() {
            problems.push(format!("{} says the same twice", request["requestID"]));
        }
        expected.extend(nuggets);
    }
    if expected.len() != results.nuggets.len()
        || expected.iter().zip(&results.nuggets).any(|(a, b)| **a != *b)
    {
        problems.push("the requests are not in the order of their days".to_owned());
    }
    if results.count("nuggets") != results.nuggets.len() as u64 {
        problems.push("the summary has another number of nuggets".to_owned());
    }
}
