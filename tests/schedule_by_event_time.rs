//! Event time alone decides: which request an item belongs to, when a request closes, what is late.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod support;

use serde_json::Value;
use support::{DAY, Folder, Ran, Results, START, event, replay, tweet};

/// By default a request waits 300 s, and items may come 60 s out of order.
const PATIENCE: i64 = 360;

/// A run of these items over these requests of the event E-1.
fn results(requests: &[(&str, i64, i64)], items: &[Value], further: &[&str]) -> (Folder, Results, Ran) {
    let folder = Folder::new();
    let (archive, events) =
        (folder.write_items("items.jsonl", items), folder.write_event("e.json", &event("E-1", requests)));
    let out = folder.path("run");
    let ran = replay(&archive, &events, &out, further).done();
    let results = Results::in_folder(&out);
    (folder, results, ran)
}

fn days(count: usize) -> Vec<(&'static str, i64, i64)> {
    let names = ["E-1-r1", "E-1-r2", "E-1-r3"];
    (0..)
        .zip(names)
        .take(count)
        .map(|(day, name)| (name, START + day * DAY, START + (day + 1) * DAY - 1))
        .collect()
}

/// Two days, the second begun at `second`, then an item of the first.
fn with_a_straggler(second: i64) -> Vec<Value> {
    vec![
        tweet("E-1", 1, START + 60, "ann", "64 homes destroyed in Bonsall"),
        tweet("E-1", 2, second, "bob", "The road to Vista is closed"),
        tweet("E-1", 3, START + 120, "cid", "A shelter is open at Fallbrook High School"),
    ]
}

#[test]
fn an_item_that_comes_before_the_close_is_not_late() {
    let at_the_bound = START + DAY - 1 + PATIENCE;
    let (_folder, results, ran) = results(&days(2), &with_a_straggler(at_the_bound), &[]);
    assert_eq!((results.count("late"), results.count("items")), (0, 3));
    results.nugget("E-1-r1", "A shelter is open");
    assert!(!ran.stderr.contains("after their request had closed"), "{}", ran.stderr);
}

#[test]
fn an_item_that_comes_after_the_close_is_counted_and_in_no_nugget() {
    let past_the_bound = START + DAY + PATIENCE;
    let (_folder, results, ran) = results(&days(2), &with_a_straggler(past_the_bound), &[]);
    assert_eq!((results.count("late"), results.count("items")), (1, 3));
    assert_eq!(
        (results.request("E-1-r1")["late"].as_u64(), results.request("E-1-r2")["late"].as_u64()),
        (Some(1), Some(0))
    );
    assert_eq!(results.facts("E-1-r1"), ["64 homes destroyed in Bonsall"]);
    assert!(results.nuggets.iter().all(|nugget| nugget["revision"] == 0));
    assert_eq!(
        results.shard("E-1", "E-1-r1"),
        ["E-1-Twitter-1-0", "E-1-Twitter-3-0"],
        "it is kept all the same"
    );
    assert!(ran.stderr.contains("1 item came after their request had closed"), "{}", ran.stderr);
}

#[test]
fn a_request_runs_once_more_for_late_items_where_that_is_asked_for() {
    let items = with_a_straggler(START + DAY + PATIENCE);
    let (_folder, results, _) = results(&days(2), &items, &["--set", "schedule.revise_late=true"]);
    assert_eq!(results.count("late"), 1);
    assert_eq!(results.nugget("E-1-r1", "A shelter is open")["revision"], 1);
    assert_eq!(results.nugget("E-1-r1", "64 homes")["revision"], 1, "the whole day is told anew");
    assert_eq!(results.nugget("E-1-r2", "The road")["revision"], 0, "a day without late items is not");
    assert_eq!(
        (results.request("E-1-r1")["revision"].as_u64(), results.request("E-1-r2")["revision"].as_u64()),
        (Some(1), Some(0))
    );
}

#[test]
fn how_long_a_request_waits_is_configuration() {
    let items = with_a_straggler(START + 2 * DAY - 1);
    let wait = ["--set", "schedule.lateness=1d"];
    let (_folder, patient, _) = results(&days(2), &items, &wait);
    assert_eq!(patient.count("late"), 0);
    let hurry = ["--set", "schedule.lateness=0", "--set", "schedule.out_of_orderness=0"];
    let (_folder, hasty, _) = results(&days(2), &with_a_straggler(START + DAY), &hurry);
    assert_eq!(hasty.count("late"), 1);
}

#[test]
fn a_request_without_items_has_its_line_and_no_nuggets() {
    let items = [
        tweet("E-1", 1, START, "ann", "64 homes destroyed"),
        tweet("E-1", 2, START + 2 * DAY, "ann", "Roads are closed"),
    ];
    let (_folder, results, ran) = results(&days(3), &items, &[]);
    let requests: Vec<&str> = results.summary["requests"]
        .as_array()
        .unwrap()
        .iter()
        .map(|request| request["requestID"].as_str().unwrap())
        .collect();
    assert_eq!(requests, ["E-1-r1", "E-1-r2", "E-1-r3"]);
    let empty = results.request("E-1-r2");
    assert_eq!((empty["items"].as_u64(), empty["nuggets"].as_u64()), (Some(0), Some(0)));
    assert_eq!(results.facts("E-1-r2"), Vec::<&str>::new());
    assert!(ran.stderr.contains("E-1-r2: no items, so no nuggets"), "{}", ran.stderr);
    assert!(!ran.stderr.contains("E-1-r1: no items"), "{}", ran.stderr);
}

#[test]
fn bounds_belong_to_the_request_and_what_lies_beyond_is_outside() {
    let (start, end) = (START + 100, START + 200);
    let at = |number, time| tweet("E-1", number, time, "ann", &format!("{number} homes destroyed"));
    let items = [at(1, start - 1), at(2, start), at(3, end), at(4, end + 1)];
    let (_folder, results, ran) = results(&[("E-1-r1", start, end)], &items, &[]);
    assert_eq!((results.count("records"), results.count("items"), results.count("outside")), (4, 2, 2));
    assert_eq!(results.shard("E-1", "E-1-r1"), ["E-1-Twitter-2-0", "E-1-Twitter-3-0"]);
    assert!(ran.stderr.contains("2 outside every request"), "{}", ran.stderr);
}

#[test]
fn an_item_far_outside_closes_nothing() {
    let mut items = with_a_straggler(START + 70);
    items.insert(1, tweet("E-1", 9, START + 900 * DAY, "eve", "A clock that is wrong"));
    let (_folder, results, _) = results(&days(2), &items, &[]);
    assert_eq!((results.count("late"), results.count("outside"), results.count("items")), (0, 1, 3));
}

#[test]
fn a_day_may_begin_an_hour_before_midnight() {
    let begins = START - 3_600;
    let requests = [("E-1-r1", begins - DAY, begins - 1), ("E-1-r2", begins, begins + DAY - 1)];
    let items = [
        tweet("E-1", 1, begins - 1, "ann", "64 homes destroyed in Bonsall"),
        tweet("E-1", 2, begins, "bob", "The road to Vista is closed"),
        tweet("E-1", 3, START, "cid", "A shelter is open at Fallbrook High School"),
    ];
    let (_folder, results, _) = results(&requests, &items, &[]);
    assert_eq!(results.facts("E-1-r1"), ["64 homes destroyed in Bonsall"]);
    assert_eq!(results.shard("E-1", "E-1-r2"), ["E-1-Twitter-2-0", "E-1-Twitter-3-0"]);
    assert_eq!(results.count("outside"), 0);
}

#[test]
fn an_item_of_two_requests_that_overlap_is_in_both() {
    let requests =
        [("E-1-day", START, START + DAY - 1), ("E-1-noon", START + DAY / 2, START + DAY + DAY / 2)];
    let items = [
        tweet("E-1", 1, START, "ann", "64 homes destroyed in Bonsall"),
        tweet("E-1", 2, START + DAY / 2, "bob", "The road to Vista is closed"),
        tweet("E-1", 3, START + DAY, "cid", "A shelter is open at Fallbrook High School"),
    ];
    let (_folder, results, _) = results(&requests, &items, &[]);
    assert_eq!(results.shard("E-1", "E-1-day"), ["E-1-Twitter-1-0", "E-1-Twitter-2-0"]);
    assert_eq!(results.shard("E-1", "E-1-noon"), ["E-1-Twitter-2-0", "E-1-Twitter-3-0"]);
    assert_eq!((results.count("records"), results.count("items"), results.count("outside")), (3, 4, 0));
    results.nugget("E-1-day", "The road to Vista");
    assert_eq!(
        results.facts("E-1-noon"),
        ["A shelter is open at Fallbrook High School"],
        "the road was told before"
    );
}

#[test]
fn events_of_one_archive_keep_their_own_time() {
    let folder = Folder::new();
    let events = folder.path("events");
    let requests = |id: &str| {
        [(format!("{id}-r1"), START, START + DAY - 1), (format!("{id}-r2"), START + DAY, START + 2 * DAY - 1)]
    };
    for id in ["E-1", "E-2"] {
        let requests = requests(id);
        let requests: Vec<(&str, i64, i64)> =
            requests.iter().map(|(id, start, end)| (id.as_str(), *start, *end)).collect();
        folder.write_event(&format!("events/{id}.json"), &event(id, &requests));
    }
    // E-2 is a day ahead; that closes nothing of E-1.
    let items = [
        tweet("E-1", 1, START, "ann", "64 homes destroyed in Bonsall"),
        tweet("E-2", 1, START + 2 * DAY - 1, "bob", "The road to Vista is closed"),
        tweet("E-1", 2, START + 10, "cid", "A shelter is open at Fallbrook High School"),
        tweet("E-2", 2, START + 10, "dan", "9 homes destroyed in Ojai"),
    ];
    let out = folder.path("run");
    replay(&folder.write_items("items.jsonl", &items), &events, &out, &[]).done();
    let results = Results::in_folder(&out);
    assert_eq!(results.request("E-1-r1")["late"], 0);
    assert_eq!(results.request("E-2-r1")["late"], 1);
    assert_eq!(results.facts("E-1-r1").len(), 2);
    assert_eq!(results.facts("E-2-r2"), ["The road to Vista is closed"]);
    let events: Vec<&str> = results.nuggets.iter().map(|nugget| nugget["event"].as_str().unwrap()).collect();
    assert_eq!(events, ["E-1", "E-1", "E-2"]);
}

#[test]
fn an_event_without_items_is_named() {
    let folder = Folder::new();
    folder.write_event("events/1.json", &event("E-1", &[("E-1-r1", START, START + DAY)]));
    folder.write_event("events/2.json", &event("E-2", &[("E-2-r1", START, START + DAY)]));
    let archive = folder.write_items("items.jsonl", &[tweet("E-1", 1, START, "ann", "64 homes destroyed")]);
    let out = folder.path("run");
    let ran = replay(&archive, &folder.path("events"), &out, &[]).done();
    assert_eq!(Results::in_folder(&out).summary["eventsWithoutItems"], serde_json::json!(["E-2"]));
    assert!(ran.stderr.contains("E-2: the archive has no item of this event"), "{}", ran.stderr);
}
