//! What was said is not said again: across days and within one, and a changed number is an update of what it changes.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod support;

use serde_json::Value;
use support::{DAY, Folder, Results, START, event, replay, tweet};

/// A run of these items over three days.
fn results(items: &[Value]) -> (Folder, Results) {
    let folder = Folder::new();
    let days: Vec<(&str, i64, i64)> = (0..)
        .zip(["E-1-r1", "E-1-r2", "E-1-r3"])
        .map(|(day, id)| (id, START + day * DAY, START + (day + 1) * DAY - 1))
        .collect();
    let (archive, events) =
        (folder.write_items("items.jsonl", items), folder.write_event("e.json", &event("E-1", &days)));
    let out = folder.path("run");
    replay(&archive, &events, &out, &[]).done();
    let results = Results::in_folder(&out);
    (folder, results)
}

#[test]
fn a_fact_of_an_earlier_day_is_not_told_again() {
    let (_folder, results) = results(&[
        tweet("E-1", 1, START, "ann", "64 homes destroyed in the Lilac fire near Bonsall"),
        tweet("E-1", 2, START + DAY, "bob", "64 homes were destroyed in the Lilac fire near Bonsall"),
        tweet("E-1", 3, START + DAY + 60, "cid", "The road to Vista is closed"),
        tweet("E-1", 4, START + 2 * DAY, "dan", "The road to Vista is closed!"),
        tweet("E-1", 5, START + 2 * DAY + 60, "dan", "64 homes destroyed in the Lilac fire near Bonsall"),
    ]);
    assert_eq!(results.facts("E-1-r1"), ["64 homes destroyed in the Lilac fire near Bonsall"]);
    assert_eq!(results.facts("E-1-r2"), ["The road to Vista is closed"]);
    assert_eq!(results.facts("E-1-r3"), Vec::<&str>::new());
    assert_eq!(
        (results.request("E-1-r2")["repeated"].as_u64(), results.request("E-1-r3")["repeated"].as_u64()),
        (Some(1), Some(2))
    );
    assert_eq!(results.count("exactDuplicates"), 0, "duplicates are looked for within one day");
}

#[test]
fn another_number_in_the_same_words_is_an_update_of_the_latest() {
    let said = |number: u32| format!("{number} homes destroyed in the Lilac fire near Bonsall");
    let (_folder, results) = results(&[
        tweet("E-1", 1, START, "ann", &said(64)),
        tweet("E-1", 2, START + DAY, "bob", &said(157)),
        tweet("E-1", 3, START + 2 * DAY, "cid", &said(182)),
        tweet("E-1", 4, START + 2 * DAY + 60, "cid", "The road to Vista is closed"),
    ]);
    let first = results.nugget("E-1-r1", "64 homes");
    let second = results.nugget("E-1-r2", "157 homes");
    let third = results.nugget("E-1-r3", "182 homes");
    assert!(first.get("updates").is_none());
    for (later, earlier, day) in [(second, first, "E-1-r1"), (third, second, "E-1-r2")] {
        assert_eq!(later["updates"]["nuggetID"], earlier["nuggetID"]);
        assert_eq!(later["updates"]["factText"], earlier["factText"]);
        assert_eq!(later["updates"]["requestID"], day);
    }
    assert!(results.nugget("E-1-r3", "The road").get("updates").is_none());
    let updates = |request| results.request(request)["updates"].as_u64();
    assert_eq!((updates("E-1-r1"), updates("E-1-r2"), updates("E-1-r3")), (Some(0), Some(1), Some(1)));
}

#[test]
fn another_place_in_the_same_words_is_another_fact() {
    let (_folder, results) = results(&[
        tweet("E-1", 1, START, "ann", "All of the road between the school and Bonsall is closed"),
        tweet("E-1", 2, START + DAY, "ann", "All of the road between the school and Vista is closed"),
    ]);
    assert_eq!(results.facts("E-1-r2").len(), 1);
    assert!(results.nuggets[1].get("updates").is_none());
}

#[test]
fn reposts_and_copies_of_a_day_are_reports_and_only_other_authors_are_independent() {
    let text = "64 homes destroyed in the Lilac fire near Bonsall";
    let (_folder, results) = results(&[
        tweet("E-1", 1, START, "CountyFire", text),
        tweet("E-1", 2, START + 60, "ann", &format!("RT @CountyFire: {text}")),
        tweet("E-1", 3, START + 120, "countyfire", &format!("{text}!")),
        tweet("E-1", 4, START + 180, "bob", text),
        tweet("E-1", 5, START + 240, "bob", &format!("{text} https://example.org/1")),
        tweet("E-1", 6, START + 90, "cid", "The road to Vista is closed"),
    ]);
    let nugget = results.nugget("E-1-r1", "64 homes");
    assert_eq!(nugget["sources"], serde_json::json!(["E-1-Twitter-1-0"]));
    assert_eq!(nugget["reports"], 5);
    assert_eq!(nugget["independentSources"], 2, "the county and bob; a repost counts for whom it repeats");
    assert_eq!(
        (nugget["unixTimestamp"].as_i64(), nugget["lastSeen"].as_i64()),
        (Some(START), Some(START + 240))
    );
    assert_eq!(results.facts("E-1-r1").len(), 2, "and all five are one fact");
    let road = results.nugget("E-1-r1", "The road");
    assert_eq!((road["reports"].as_u64(), road["independentSources"].as_u64()), (Some(1), Some(1)));
    assert_eq!((results.count("items"), results.count("searchable")), (6, 2));
    assert_eq!(results.count("exactDuplicates") + results.count("nearDuplicates"), 4);
}

#[test]
fn the_same_nugget_has_the_same_name_in_every_run() {
    let items = [
        tweet("E-1", 1, START, "ann", "64 homes destroyed"),
        tweet("E-1", 2, START, "ann", "The road to Vista is closed"),
    ];
    let (_folder, first) = results(&items);
    let (_folder, second) = results(&items.iter().rev().cloned().collect::<Vec<_>>());
    for nugget in &first.nuggets {
        let same = second.nugget("E-1-r1", nugget["factText"].as_str().unwrap());
        assert_eq!(same["nuggetID"], nugget["nuggetID"]);
    }
    assert_ne!(first.nuggets[0]["nuggetID"], first.nuggets[1]["nuggetID"]);
}

#[test]
fn what_a_cut_broke_off_is_no_number_of_a_nugget() {
    let text = "RT @ann: Shelter open at Fallbrook High School on Stagecoach Lane since this morning, \
                everyone is welcome with pets, there is room for 12";
    let (_folder, cut) = results(&[tweet("E-1", 1, START, "bob", &format!("{text}…"))]);
    let (_folder, whole) = results(&[tweet("E-1", 1, START, "bob", &format!("{text}0"))]);
    assert!(
        cut.nugget("E-1-r1", "Shelter open")["factText"].as_str().unwrap().ends_with("there is room for")
    );
    assert!(whole.nugget("E-1-r1", "Shelter open")["factText"].as_str().unwrap().ends_with("room for 120"));
}
