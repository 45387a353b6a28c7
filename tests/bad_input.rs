//! Invariant 5: bad input never stops the stream. Every bad record costs one dead letter with its code, its place and
//! its bytes; what cannot be read at all ends with one clear line and the exit code that says whose fault it is.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod support;

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use base64::{Engine, prelude::BASE64_STANDARD};
use serde_json::{Value, json};
use support::{
    DAY, Folder, Ran, Results, START, event, gzip, json_lines, nuggetd, replay, replay_command,
    run_with_input, tweet,
};

fn one_day() -> Value {
    event("E-1", &[("E-1-r1", START, START + DAY - 1)])
}

/// A good record.
fn good(number: usize) -> Value {
    let time = START + i64::try_from(number).unwrap();
    tweet(
        "E-1",
        number,
        time,
        "ann",
        &format!("{number} homes destroyed in sector{} of Bonsall", number * 31),
    )
}

/// What must become of a record that is refused.
struct Refused {
    code: &'static str,
    line: u64,
    byte: u64,
    record: u64,
    bytes: Vec<u8>,
}

/// A file being written with what is to come of it.
#[derive(Default)]
struct Expected {
    file: Vec<u8>,
    line: u64,
    records: u64,
    accepted: Vec<String>,
    refused: Vec<Refused>,
}

impl Expected {
    fn blank(&mut self, bytes: &[u8]) {
        self.file.extend_from_slice(bytes);
        self.line += bytes.split(|byte| *byte == b'\n').count() as u64 - 1;
    }

    fn line(&mut self, record: &[u8], ending: &[u8]) {
        self.file.extend_from_slice(record);
        self.records += 1;
        self.blank(ending);
    }

    fn accept(&mut self, id: &str, record: &[u8], ending: &[u8]) {
        self.accepted.push(id.to_owned());
        self.line(record, ending);
    }

    fn refuse(&mut self, code: &'static str, record: &[u8]) {
        let place = (self.line + 1, self.file.len() as u64, self.records);
        self.refused.push(Refused {
            code,
            line: place.0,
            byte: place.1,
            record: place.2,
            bytes: record.to_vec(),
        });
        self.line(record, b"\n");
        // A good record after each, so that nobody can stop early.
        let number = self.accepted.len();
        let item = good(number);
        self.accept(item["streamID"].as_str().unwrap(), item.to_string().as_bytes(), b"\n");
    }
}

/// A record with some fields replaced, `null` meaning absent.
fn with(fields: &[(&str, Value)]) -> Vec<u8> {
    let mut record = good(9_999);
    for (name, value) in fields {
        if value.is_null() {
            record.as_object_mut().unwrap().remove(*name);
        } else {
            record[*name] = value.clone();
        }
    }
    record.to_string().into_bytes()
}

fn every_kind_of_bad_record() -> Expected {
    let mut file = Expected::default();
    file.file.extend_from_slice("\u{feff}".as_bytes());
    file.accept("E-1-Twitter-9001-0", good(9_001).to_string().as_bytes(), b"\r\n");
    file.blank(b"\n \t\r\n\n");
    // Good, however odd.
    let surrogate = good(9_002).to_string().replace("of Bonsall", "of Bonsall \\ud83d");
    file.accept("E-1-Twitter-9002-0", surrogate.as_bytes(), b"\n");
    let not_a_number = good(9_003)
        .to_string()
        .replace("\"source\":{", "\"source\":{\"score\":NaN,\"big\":123456789012345678901234567890,");
    file.accept("E-1-Twitter-9003-0", not_a_number.as_bytes(), b"\r\n");
    let empty = good(9_004).to_string().replace("9004 homes destroyed in sector279124 of Bonsall", "");
    assert!(empty.contains("\"text\":\"\""));
    file.accept("E-1-Twitter-9004-0", empty.as_bytes(), b"\n");

    let whole = good(9_999).to_string();
    file.refuse("bad_json", b"{this is no JSON}");
    file.refuse("bad_json", &whole.as_bytes()[..whole.len() / 2]);
    file.refuse("bad_json", b"[1, 2]");
    file.refuse("bad_json", b"7");
    file.refuse("bad_json", &[b"\xff\xfe{", whole.as_bytes()].concat());
    file.refuse("bad_json", whole.replace("homes", "\u{1}").as_bytes());
    let nested = format!("{{\"source\":{}{}}}", "[".repeat(5_000), "]".repeat(5_000));
    file.refuse("bad_json", nested.as_bytes());
    file.refuse("missing_text", &with(&[("text", Value::Null)]));
    file.refuse("bad_shape", &with(&[("text", json!(["a", "b"]))]));
    file.refuse("missing_time", &with(&[("unixTimestamp", Value::Null)]));
    file.refuse("missing_time", whole.replace(&(START + 9_999).to_string(), "NaN").as_bytes());
    file.refuse("bad_time", &with(&[("unixTimestamp", json!("last Tuesday"))]));
    file.refuse("bad_time", &with(&[("unixTimestamp", json!({ "seconds": 1 }))]));
    file.refuse("time_out_of_range", &with(&[("unixTimestamp", json!(0))]));
    file.refuse("time_out_of_range", &with(&[("unixTimestamp", json!(-1_512_604_800_i64))]));
    file.refuse("time_out_of_range", &with(&[("unixTimestamp", json!("1970-01-01T00:00:00Z"))]));
    file.refuse("bad_id", &with(&[("streamID", json!(" "))]));
    file.refuse("bad_id", &with(&[("streamID", json!("x".repeat(201)))]));
    file.refuse("unknown_event", &with(&[("event", json!("E-9"))]));
    file.refuse("unknown_event", &with(&[("event", Value::Null)]));
    file.refuse("too_large", &with(&[("text", json!("x".repeat(1_258_291)))]));
    file
}

fn original(letter: &Value) -> Vec<u8> {
    match (letter["recordText"].as_str(), letter["recordBase64"].as_str()) {
        (Some(text), None) => text.as_bytes().to_vec(),
        (None, Some(packed)) => BASE64_STANDARD.decode(packed).unwrap(),
        _ => panic!("neither text nor base64 in {letter}"),
    }
}

#[test]
fn every_bad_record_is_kept_with_its_reason_and_every_good_one_arrives() {
    let folder = Folder::new();
    let expected = every_kind_of_bad_record();
    let archive = folder.write("items.jsonl", &expected.file);
    let out = folder.path("run");
    let ran = replay(&archive, &folder.write_event("e.json", &one_day()), &out, &[]).done();
    let results = Results::in_folder(&out);

    assert_eq!(results.shard("E-1", "E-1-r1"), expected.accepted);
    assert_eq!(results.count("records"), expected.records);
    assert_eq!(results.count("empty"), 1);
    assert_eq!(results.rejected.len(), expected.refused.len());
    let mut codes: BTreeMap<&str, u64> = BTreeMap::new();
    for (letter, refused) in results.rejected.iter().zip(&expected.refused) {
        let shown = String::from_utf8_lossy(&refused.bytes).chars().take(80).collect::<String>();
        assert_eq!(letter["code"], refused.code, "{shown}");
        assert_eq!(letter["line"], refused.line, "{shown}");
        assert_eq!(letter["byte"], refused.byte, "{shown}");
        assert_eq!(letter["record"], refused.record, "{shown}");
        assert_eq!(letter["source"], archive.to_str().unwrap());
        assert!(
            letter["message"].as_str().unwrap().starts_with(&format!("line {}: ", refused.line)),
            "{letter}"
        );
        assert!(original(letter) == refused.bytes, "other bytes are kept of {shown}");
        let at = usize::try_from(refused.byte).unwrap();
        assert!(expected.file[at..].starts_with(&refused.bytes), "the place is another");
        *codes.entry(refused.code).or_default() += 1;
    }
    assert_eq!(results.summary["refused"], json!(codes));
    assert!(ran.stderr.contains(&format!("{} records refused", expected.refused.len())), "{}", ran.stderr);
    assert!(ran.stderr.contains(out.join("rejected.jsonl").to_str().unwrap()), "{}", ran.stderr);
}

#[test]
fn every_code_that_records_can_have_is_tried() {
    let tried: Vec<&str> = every_kind_of_bad_record().refused.iter().map(|refused| refused.code).collect();
    for code in nuggetd::model::RefusalCode::ALL {
        assert!(tried.contains(&code.as_str()), "{code}");
    }
}

#[test]
fn a_bad_record_at_the_very_end_is_kept_too() {
    let folder = Folder::new();
    let archive = folder.write("items.jsonl", format!("{}\n{{\"cut", good(1)));
    let out = folder.path("run");
    replay(&archive, &folder.write_event("e.json", &one_day()), &out, &[]).done();
    let results = Results::in_folder(&out);
    assert_eq!((results.count("items"), results.rejected.len()), (1, 1));
    assert_eq!(results.rejected[0]["recordText"], "{\"cut");
}

#[test]
fn an_archive_of_nothing_but_bad_records_gives_an_empty_run() {
    let folder = Folder::new();
    let archive = folder.write("items.jsonl", "no\n".repeat(2_000));
    let out = folder.path("run");
    replay(&archive, &folder.write_event("e.json", &one_day()), &out, &[]).done();
    let results = Results::in_folder(&out);
    assert_eq!((results.count("records"), results.count("items"), results.nuggets.len()), (2_000, 0, 0));
    assert_eq!(results.rejected.len(), 2_000);
}

#[test]
fn a_packed_archive_that_is_cut_off_gives_its_good_records_and_names_the_file() {
    let folder = Folder::new();
    let items = json_lines(&(0..3_000).map(good).collect::<Vec<_>>());
    let packed = gzip(items.as_bytes());
    let archive = folder.write("cut.jsonl.gz", &packed[..packed.len() * 2 / 3]);
    let out = folder.path("run");
    let ran = replay(&archive, &folder.write_event("e.json", &one_day()), &out, &[]);
    assert_eq!(ran.code, 1);
    let line = ran.stderr.lines().find(|line| line.starts_with("error: ")).unwrap();
    assert!(line.contains(archive.to_str().unwrap()), "{line}");
    let results = Results::in_folder(&out);
    let items = usize::try_from(results.count("items")).unwrap();
    assert!((1_000..2_999).contains(&items), "{items}");
    let expected: Vec<String> = (0..items).map(|number| format!("E-1-Twitter-{number}-0")).collect();
    assert_eq!(results.shard("E-1", "E-1-r1"), expected);
    assert!(!results.nuggets.is_empty());
    assert_eq!(results.summary["faults"].as_array().unwrap().len(), 1);
}

/// The files of a run, but for the archive's name in them.
fn outcome(out: &Path) -> (Vec<u8>, Vec<u8>, Vec<u8>) {
    let read = |name: &str| fs::read(out.join(name)).unwrap();
    (read("run.jsonl"), read("nuggets.jsonl"), read("summary.json"))
}

#[test]
fn every_shape_of_an_archive_gives_the_same_run() {
    let folder = Folder::new();
    let events = folder.write_event("e.json", &one_day());
    let items: Vec<Value> = (0..200).map(good).collect();
    let lines = json_lines(&items);
    let plain = folder.write("plain/items.jsonl", &lines);
    let expected = {
        let out = folder.path("of plain");
        replay(&plain, &events, &out, &[]).done();
        outcome(&out)
    };
    assert!(!expected.0.is_empty());

    let renamed: Vec<Value> = items
        .iter()
        .map(|item| {
            json!({
                "doc_id": item["streamID"], "event": item["event"], "text": item["text"], "source_type": item["sourceType"],
                "source": item["source"].to_string(), "unix_timestamp": item["unixTimestamp"],
            })
        })
        .collect();
    folder.write("folder/deep/items.ndjson", &lines);
    folder.write("folder/E-1.event.json", one_day().to_string());
    folder.write("folder/items.labels.jsonl", "{\"label\":1}\n");
    folder.write("folder/notes.txt", "no items\n");
    let shapes: Vec<PathBuf> = vec![
        folder.write("shapes/items.jsonl.gz", gzip(lines.as_bytes())),
        folder.write("shapes/items.jsonl.zst", zstd::encode_all(lines.as_bytes(), 3).unwrap()),
        folder.write("shapes/array.json", serde_json::to_vec(&items).unwrap()),
        folder.write("shapes/pretty.json", serde_json::to_vec_pretty(&items).unwrap()),
        folder.write_items("shapes/renamed.jsonl", &renamed),
        folder.write("shapes/crlf.jsonl", format!("\u{feff}{}", lines.replace('\n', "\r\n\r\n"))),
        folder.path("folder"),
        folder.path("pla*/it?ms.[jx]sonl"),
    ];
    for shape in &shapes {
        let out = folder.path(&format!("of {}", shape.file_name().unwrap().to_str().unwrap()));
        replay(shape, &events, &out, &[]).done();
        assert!(outcome(&out) == expected, "{}", shape.display());
    }
    let out = folder.path("of standard input");
    let arguments = ["replay", "-", "--events", events.to_str().unwrap(), "--out", out.to_str().unwrap()];
    run_with_input(&arguments, lines.as_bytes()).done();
    assert!(outcome(&out) == expected, "standard input");
}

#[test]
fn an_array_that_is_cut_off_is_refused_at_the_cut() {
    let folder = Folder::new();
    let whole = serde_json::to_vec(&[good(1), good(2)]).unwrap();
    let archive = folder.write("items.json", &whole[..whole.len() - 20]);
    let out = folder.path("run");
    replay(&archive, &folder.write_event("e.json", &one_day()), &out, &[]).done();
    let results = Results::in_folder(&out);
    assert_eq!((results.count("items"), results.rejected.len()), (1, 1));
    assert_eq!(
        (results.rejected[0]["code"].as_str(), results.rejected[0]["record"].as_u64()),
        (Some("bad_json"), Some(1))
    );
}

/// The one line that a command ends with.
fn only_line(ran: &Ran) -> &str {
    let lines: Vec<&str> = ran.stderr.lines().collect();
    assert_eq!(lines.len(), 1, "{}", ran.stderr);
    assert!(lines[0].starts_with("error: "), "{}", lines[0]);
    lines[0]
}

#[test]
fn what_is_not_there_is_named_in_one_line() {
    let folder = Folder::new();
    let events = folder.write_event("e.json", &one_day());
    let archive = folder.write_items("items.jsonl", &[good(1)]);
    let missing = folder.path("missing.json");
    fs::create_dir(folder.path("nothing")).unwrap();
    for (archive, events, named) in [
        (&missing, &events, &missing),
        (&archive, &missing, &missing),
        (&folder.path("nothing"), &events, &folder.path("nothing")),
        (&archive, &folder.path("nothing"), &folder.path("nothing")),
        (&folder.path("*.nothing"), &events, &folder.path("*.nothing")),
    ] {
        let out = folder.path("run");
        let ran = replay(archive, events, &out, &[]);
        assert_eq!(ran.code, 1, "{}", ran.stderr);
        assert!(only_line(&ran).contains(named.to_str().unwrap()), "{}", ran.stderr);
        assert!(!out.exists(), "nothing is begun");
    }
}

#[test]
fn an_events_file_that_is_wrong_is_named_with_what_is_wrong() {
    let folder = Folder::new();
    let archive = folder.write_items("items.jsonl", &[good(1)]);
    let without = |field: &str| {
        let mut event = one_day();
        event.as_object_mut().unwrap().remove(field);
        event.to_string()
    };
    let mut backwards = one_day();
    backwards["summaryRequests"][0]["endUnixTimestamp"] = json!(START - 1);
    for (contents, said) in [
        ("no JSON".to_owned(), "expected"),
        (String::new(), "describes no event"),
        ("{\"eventID\":\"E-1\"".to_owned(), "EOF"),
        (without("eventID"), "eventID"),
        (without("queries"), "no queries"),
        (without("summaryRequests"), "no requests"),
        (backwards.to_string(), "after its end"),
    ] {
        let events = folder.write("e.json", contents);
        let ran = replay(&archive, &events, &folder.path("run"), &[]);
        assert_eq!(ran.code, 1, "{}", ran.stderr);
        let line = only_line(&ran);
        assert!(line.contains(events.to_str().unwrap()) && line.contains(said), "{line}");
    }
}

#[test]
fn every_fault_of_the_event_files_is_told_at_once() {
    let folder = Folder::new();
    folder.write("events/a.json", "{\"eventID\":\"E-1\",");
    folder.write("events/b.json", "{\"eventID\":\"../E\"}");
    let archive = folder.write_items("items.jsonl", &[good(1)]);
    let ran = replay(&archive, &folder.path("events"), &folder.path("run"), &[]);
    assert_eq!(ran.code, 1);
    assert!(ran.stderr.contains("a.json") && ran.stderr.contains("b.json"), "{}", ran.stderr);
}

#[test]
fn usage_and_configuration_have_their_own_exit_codes() {
    let folder = Folder::new();
    let events = folder.write_event("e.json", &one_day());
    let archive = folder.write_items("items.jsonl", &[good(1)]);
    let out = folder.path("run");
    let usage: [&[&str]; 3] = [&["--no-such-flag"], &["--config"], &["--out", "elsewhere"]];
    for further in usage {
        let ran = replay(&archive, &events, &out, further);
        assert_eq!(ran.code, 2, "{further:?}: {}", ran.stderr);
    }
    let file = folder.write("bad.toml", "[search]\ntop = 250\nbottom = 3\n[index]\ncommit_items = 0\n");
    let bad: [(&[&str], &[&str]); 5] = [
        (&["--config", file.to_str().unwrap()], &["bad.toml:3", "bottom", "commit_items"]),
        (&["--config", "/no/such/file.toml"], &["/no/such/file.toml"]),
        (&["--set", "search.bottom=3"], &["search.bottom"]),
        (&["--set", "search.top=many"], &["search.top"]),
        (&["--set", "clean.near_threshold=7", "--set", "log.level=a=b=c"], &["near_threshold", "log.level"]),
    ];
    for (further, named) in bad {
        let ran = replay(&archive, &events, &out, further);
        assert_eq!(ran.code, 64, "{further:?}: {}", ran.stderr);
        for name in named {
            assert!(ran.stderr.contains(name), "{name}: {}", ran.stderr);
        }
        assert!(!out.exists(), "nothing is begun");
    }
    let mut command = replay_command(&[&archive], &[&events], &out, &[]);
    let ran = Ran::of(command.env("NUGGETD__SEARCH__TOP", "0").output().unwrap());
    assert_eq!(ran.code, 64, "{}", ran.stderr);
    assert!(
        ran.stderr.contains("NUGGETD__SEARCH__TOP") || ran.stderr.contains("search.top"),
        "{}",
        ran.stderr
    );
    assert_eq!(Ran::of(nuggetd().output().unwrap()).code, 2, "no command");
}

#[test]
fn a_folder_that_cannot_be_made_is_named() {
    let folder = Folder::new();
    let in_the_way = folder.write("file", "");
    let ran = replay(
        &folder.write_items("items.jsonl", &[good(1)]),
        &folder.write_event("e.json", &one_day()),
        &in_the_way.join("run"),
        &[],
    );
    assert_eq!(ran.code, 70);
    assert!(only_line(&ran).contains(in_the_way.to_str().unwrap()), "{}", ran.stderr);
}
