use serde_json::{Value, json};
use tempfile::TempDir;

use super::*;

struct Folder(TempDir);

impl Folder {
    fn with(files: &[(&str, Value)]) -> Self {
        let folder = Self(TempDir::new().unwrap());
        for (name, value) in files {
            folder.write(name, &value.to_string());
        }
        folder
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.0.path().join(name), text).unwrap();
    }

    fn read(&self) -> Result<Vec<Event>, EventsError> {
        read_events(&[self.0.path().to_owned()])
    }

    fn problems(&self) -> Vec<String> {
        self.read().unwrap_err().problems
    }
}

fn query(id: &str) -> Value {
    json!({"queryID": id, "query": "Which roads are shut", "indicativeTerms": "road", "trecisCategoryMapping": "None"})
}

fn request(event: &str, id: &str, start: i64) -> Value {
    json!({"eventID": event, "requestID": id, "dateString": "a day", "startUnixTimestamp": start, "endUnixTimestamp": start + 86_399})
}

fn whole(event: &str) -> Value {
    json!({
        "eventID": event, "title": "Lake Fire", "type": "Wildfire", "trecisID": 7, "dataset": "lake",
        "keywords": " lake fire, , ridge ",
        "queries": [query("q1"), query("q2")],
        "requests": [request(event, &format!("{event}-r2"), 1_512_691_200), request(event, &format!("{event}-r1"), 1_512_604_800)],
    })
}

#[test]
fn one_file_describes_an_event_whole() {
    let folder = Folder::with(&[("a.event.json", whole("E-1"))]);
    folder.write("items.json", "[{\"event\": \"E-1\"}]");
    let events = folder.read().unwrap();
    assert_eq!(events.len(), 1);
    let event = &events[0];
    assert_eq!(
        (event.id.as_str(), event.title.as_str(), event.dataset.as_deref()),
        ("E-1", "Lake Fire", Some("lake"))
    );
    assert_eq!(event.keywords, ["lake fire", "ridge"]);
    assert_eq!(event.queries[0].search_text(), "Which roads are shut road");
    let requests: Vec<&str> = event.requests.iter().map(|request| request.id.as_str()).collect();
    assert_eq!(requests, ["E-1-r1", "E-1-r2"]);
}

#[test]
fn arrays_lines_and_pretty_files_are_read_alike() {
    let folder = Folder::with(&[("a.json", json!([whole("E-1"), whole("E-2")]))]);
    let array = folder.read().unwrap();
    folder.write("a.json", &format!("\u{feff}{}\n{}\n", whole("E-1"), whole("E-2")));
    assert_eq!(folder.read().unwrap(), array);
    folder.write("a.json", &serde_json::to_string_pretty(&whole("E-2")).unwrap());
    folder.write("b.json", &whole("E-1").to_string());
    assert_eq!(folder.read().unwrap(), array);
    assert_eq!(read_events(&[folder.0.path().join("*.json")]).unwrap(), array);
}

#[test]
fn separate_files_are_merged_by_event() {
    let folder = Folder::with(&[
        (
            "topics.json",
            json!([{"eventID": "E-1", "title": "Lake Fire"}, {"eventID": "E-2", "title": "Mill Flood"}]),
        ),
        ("queries.json", json!([{"eventID": "E-1", "queries": [query("q1")]}])),
        (
            "facts.json",
            json!([{"event": "Lake Fire", "eventID": "E-1", "allFacts": [], "summaryRequests": [request("E-1", "E-1-r1", 1_512_604_800)]}]),
        ),
    ]);
    let events = folder.read().unwrap();
    // E-2 stands in the list of topics alone.
    assert_eq!(events.len(), 1);
    assert_eq!((events[0].queries.len(), events[0].requests.len()), (1, 1));
    let topics = read_events(&[folder.0.path().join("topics.json")]).unwrap_err();
    assert_eq!(topics.problems.len(), 4);
}

#[test]
fn what_two_files_say_differently_names_both() {
    let mut other = whole("E-1");
    let folder = Folder::with(&[("a.json", whole("E-1")), ("b.json", other.clone())]);
    assert_eq!(folder.read().unwrap().len(), 1);
    other["title"] = json!("Lake Blaze");
    folder.write("b.json", &other.to_string());
    let problems = folder.problems();
    assert_eq!(problems.len(), 1);
    assert!(
        problems[0].contains("a.json") && problems[0].contains("b.json") && problems[0].contains("title")
    );
}

#[test]
fn all_faults_are_reported_at_once() {
    let mut broken = whole("E-1");
    broken["queries"] = json!([query("q1"), query("q1"), {"queryID": "q3", "query": " "}]);
    let mut upside_down = request("E-1", "E-1-r3", 1_512_604_800);
    upside_down["endUnixTimestamp"] = json!(1_512_604_799);
    broken["requests"] = json!([
        request("E-1", "E-1-r1", 1_512_604_800),
        request("E-9", "E-1-r2", 1_512_604_800),
        request("E-1", "E-1-r1", 1_512_691_200),
        upside_down
    ]);
    let bare = json!({"eventID": "E-2", "title": "Mill Flood", "queries": [], "requests": []});
    let mut same_request = whole("E-3");
    same_request["requests"] = json!([request("E-3", "E-1-r1", 1_512_604_800)]);
    let folder = Folder::with(&[("a.json", broken), ("b.json", bare), ("c.json", same_request)]);
    folder.write("d.json", "{\"eventID\": \"E 4\"}");
    folder.write("e.json", "{\"eventID\": \"E-5\",");
    let problems = folder.problems();
    for (file, part) in [
        ("a.json", "query q1 twice"),
        ("a.json", "q3 of event E-1 is blank"),
        ("a.json", "request E-1-r1 twice"),
        ("a.json", "names event E-9"),
        ("a.json", "after its end"),
        ("b.json", "has no queries"),
        ("b.json", "has no requests"),
        ("c.json", "also a request of another event"),
        ("d.json", "has the character ' '"),
        ("e.json", "EOF"),
    ] {
        let found = problems.iter().any(|problem| problem.contains(file) && problem.contains(part));
        assert!(found, "{file}: {part} not in {problems:#?}");
    }
    assert_eq!(problems.len(), 10, "{problems:#?}");
}

#[test]
fn what_is_not_there_or_no_event_is_named() {
    let folder = Folder::with(&[("map.json", json!({"E-1-r1": "Lake Fire, 2017-12-07"}))]);
    assert!(folder.problems()[0].contains("no event described"));
    let missing = read_events(&[folder.0.path().join("none.json")]).unwrap_err();
    assert!(missing.to_string().contains("none.json"));
    let map = read_events(&[folder.0.path().join("map.json")]).unwrap_err();
    assert!(map.to_string().contains("map.json") && map.to_string().contains("eventID"), "{map}");
}
