//! The schemas of the repository are those of the types, and the records that are written hold to them.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod support;

use std::path::Path;

use jsonschema::Validator;
use serde_json::{Value, json};
use support::{
    DAY, Folder, START, event, json_lines, read_json, read_lines, read_text, replay, root, run, tweet,
};

const RECORDS: [&str; 6] = ["item", "nugget", "event", "request", "request-status", "dead-letter"];

fn validator(record: &str) -> Validator {
    jsonschema::validator_for(&read_json(&root().join(format!("schemas/{record}.schema.json")))).unwrap()
}

fn assert_valid(record: &str, values: &[Value]) {
    let validator = validator(record);
    assert!(!values.is_empty(), "no {record} to look at");
    for value in values {
        let faults: Vec<String> = validator.iter_errors(value).map(|fault| fault.to_string()).collect();
        assert!(faults.is_empty(), "{faults:?} in {value}");
    }
}

#[test]
fn the_schemas_kept_are_those_that_the_program_prints() {
    for record in RECORDS {
        let printed = run(&["schema", record]).done().stdout;
        let kept = read_text(&root().join(format!("schemas/{record}.schema.json")));
        assert_eq!(
            printed, kept,
            "the type has changed; renew by: cargo run -- schema {record} > schemas/{record}.schema.json"
        );
    }
}

#[test]
fn items_and_the_event_of_the_demo_hold_to_their_schemas() {
    assert_valid("item", &read_lines(&root().join("demo/items.jsonl")));
    assert_valid("event", &[read_json(&root().join("demo/event.json"))]);
}

#[test]
fn what_a_replay_writes_holds_to_its_schemas() {
    let folder = Folder::new();
    let event =
        event("E-1", &[("E-1-r1", START, START + DAY - 1), ("E-1-r2", START + DAY, START + 2 * DAY - 1)]);
    let items: Vec<Value> = (0..9)
        .map(|number| {
            tweet(
                "E-1",
                number,
                START + 60 * 60 * 5 * i64::try_from(number).unwrap(),
                "ann",
                &format!("{number}4 homes destroyed near Bonsall{number}"),
            )
        })
        .collect();
    let items = json_lines(&items);
    let archive = folder.write("items.jsonl", [items.as_bytes(), b"{\"no\": \xff}\n[1]\n"].concat());
    let out = folder.path("run");
    replay(&archive, &folder.write_event("event.json", &event), &out, &[]).done();
    assert_valid("nugget", &read_lines(&out.join("nuggets.jsonl")));
    assert_valid("dead-letter", &read_lines(&out.join("rejected.jsonl")));
    let summary = read_json(&out.join("summary.json"));
    assert_valid("request", summary["requests"].as_array().unwrap());
}

#[test]
fn the_schemas_refuse_what_is_no_such_record() {
    let nugget = first_nugget(&root().join("demo"));
    for (field, value) in [
        ("factText", json!("x".repeat(201))),
        ("factText", json!("")),
        ("importance", json!(1.5)),
        ("sources", json!([])),
        ("informationNeeds", json!(null)),
        ("unixTimestamp", json!(0)),
        ("method", json!("guess")),
    ] {
        let mut bad = nugget.clone();
        bad[field] = value;
        assert!(!validator("nugget").is_valid(&bad), "{bad}");
    }
    let mut item = read_lines(&root().join("demo/items.jsonl")).remove(0);
    item.as_object_mut().unwrap().remove("text");
    assert!(!validator("item").is_valid(&item));
    let mut event = read_json(&root().join("demo/event.json"));
    event["eventID"] = json!(7);
    assert!(!validator("event").is_valid(&event));
}

fn first_nugget(demo: &Path) -> Value {
    let folder = Folder::new();
    let out = folder.path("run");
    replay(&demo.join("items.jsonl"), &demo.join("event.json"), &out, &[]).done();
    read_lines(&out.join("nuggets.jsonl")).remove(0)
}
