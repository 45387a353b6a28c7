//! The commands beside `replay`: what they print, and what they end with.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod support;

use std::{
    fs,
    io::{BufRead, BufReader},
    process::{Command, Stdio},
};

use serde_json::{Value, json};
use support::{DAY, Folder, Ran, START, event, nuggetd, read_lines, root, run, run_with_input, tweet};

#[test]
fn a_daemon_without_events_is_configured_wrongly() {
    let folder = Folder::new();
    let config = folder.write("nuggetd.toml", "[[source]]\ntopic = \"items\"\n");
    let data_dir = format!("data_dir={}", folder.path("data").display());
    let ran = run(&["run", "--config", config.to_str().unwrap(), "--set", &data_dir]);
    assert_eq!(ran.code, 64, "{}", ran.stderr);
    assert!(ran.stderr.contains("set events.files, topics.events or both"), "{}", ran.stderr);
}

#[test]
fn the_demo_tells_three_days_and_which_models_took_part() {
    let ran = run(&["demo"]).done();
    let days: Vec<&str> =
        ran.stdout.lines().filter(|line| line.contains("Torvela Valley Flood 2025 · ")).collect();
    assert_eq!(days.len(), 3);
    for (day, request) in days.iter().zip(["DEMO-001-r1", "DEMO-001-r2", "DEMO-001-r3"]) {
        assert!(day.ends_with(request), "{day}");
    }
    assert_eq!(ran.stdout.matches("importance ").count(), 30, "ten nuggets a day");
    assert!(ran.stderr.contains("no reranker (BM25 order), no LLM (extractor ilp-mmr)"), "{}", ran.stderr);
    let fewer = run(&["demo", "--top", "2", "--set", "facts.method=greedy"]).done();
    assert_eq!(fewer.stdout.matches("importance ").count(), 6);
    assert!(fewer.stderr.contains("extractor greedy"), "{}", fewer.stderr);
}

#[test]
fn the_demo_keeps_its_files_where_it_is_told() {
    let folder = Folder::new();
    let out = folder.path("kept");
    let ran = run(&["demo", "--out", out.to_str().unwrap()]).done();
    assert!(ran.stderr.contains(out.to_str().unwrap()), "{}", ran.stderr);
    for name in ["event.json", "items.jsonl"] {
        let (kept, bundled) = (out.join("archive").join(name), root().join("demo").join(name));
        assert!(fs::read(kept).unwrap() == fs::read(bundled).unwrap(), "{name}");
    }
    for name in ["run.jsonl", "nuggets.jsonl", "summary.json", "rejected.jsonl"] {
        assert!(out.join("run").join(name).exists(), "{name}");
    }
    assert!(read_lines(&out.join("run/nuggets.jsonl")).len() > 30);
    assert_eq!(run(&["demo", "--out", out.to_str().unwrap()]).code, 2, "a used folder is not written over");
}

/// Runs a command whose reader is gone before it writes.
fn without_reader(command: &mut Command) -> Ran {
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    Ran::of(child.wait_with_output().unwrap())
}

#[test]
fn a_reader_that_has_seen_enough_is_no_error() {
    let folder = Folder::new();
    let (archive, events) = small_archive(&folder);
    let commands: [&[&str]; 7] = [
        &["demo"],
        &["search", &archive, "--events", &events],
        &["clean", &archive],
        &["config", "default"],
        &["schema", "nugget"],
        &["--help"],
        &["--version"],
    ];
    for arguments in commands {
        let ran = without_reader(nuggetd().args(arguments));
        assert_eq!(ran.code, 0, "{arguments:?}: {}", ran.stderr);
        assert!(!ran.stderr.contains("error"), "{arguments:?}: {}", ran.stderr);
    }
}

#[test]
fn a_reader_of_the_first_line_gets_it() {
    let mut child = nuggetd().arg("demo").stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut first = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut first).unwrap();
    assert!(first.starts_with("Torvela Valley Flood 2025"), "{first}");
    assert_eq!(Ran::of(child.wait_with_output().unwrap()).code, 0);
}

#[test]
fn clean_keeps_order_and_fields_and_names_bad_lines() {
    let input = "{\"id\":12345678901234567890123,\"text\":\"RT @ann: Fire at #LilacFire &amp; smoke! http://t.co/x\",\"extra\":1.10}\n\
                 \n\
                 no JSON\n\
                 {\"text\":\"Las casas están destruidas por el fuego\",\"sourceType\":\"Twitter\"}\n\
                 {\"no\":\"text\"}\n";
    let ran = run_with_input(&["clean"], input.as_bytes());
    assert_eq!(ran.code, 1);
    let lines: Vec<&str> = ran.stdout.lines().collect();
    assert_eq!(lines.len(), 2);
    assert!(
        lines[0].starts_with("{\"id\":12345678901234567890123,\"text\":\"RT @ann:")
            && lines[0].contains("\"extra\":1.10"),
        "{}",
        lines[0]
    );
    let items = ran.json_lines();
    let clean = items[0]["cleanText"].as_str().unwrap();
    assert!(clean.contains("lilac fire") && clean.contains("& smoke"), "{clean}");
    assert!(!clean.contains("http") && !clean.contains("@ann"), "{clean}");
    assert_eq!((items[0]["language"].as_str(), items[1]["language"].as_str()), (Some("en"), Some("es")));
    let faults: Vec<&str> = ran.stderr.lines().collect();
    assert_eq!(faults.len(), 2, "{}", ran.stderr);
    assert!(
        faults[0].starts_with("standard input:3: ") && faults[1].starts_with("standard input:5: "),
        "{}",
        ran.stderr
    );
}

#[test]
fn clean_reads_files_one_after_the_other() {
    let folder = Folder::new();
    let first = folder.write_items("1.jsonl", &[json!({ "text": "first" }), json!({ "text": "second" })]);
    let second = folder.write("2.jsonl", "{\"text\":\"third\"}\n{");
    let ran = run(&["clean", first.to_str().unwrap(), second.to_str().unwrap()]);
    let texts: Vec<Value> = ran.json_lines().iter().map(|item| item["cleanText"].clone()).collect();
    assert_eq!(texts, ["first", "second", "third"]);
    assert_eq!(ran.code, 1);
    assert!(ran.stderr.starts_with(&format!("{}:2: ", second.display())), "{}", ran.stderr);
    let missing = run(&["clean", "/no/such/file"]);
    assert_eq!(missing.code, 1);
    assert!(missing.stderr.contains("/no/such/file"), "{}", missing.stderr);
}

#[test]
fn clean_gives_a_line_for_each_plain_line() {
    let ran = run_with_input(
        &["clean", "--text"],
        "RT @ann: Roads closed\r\n\n64 homes #LilacFire http://t.co/x".as_bytes(),
    )
    .done();
    assert_eq!(ran.stdout, "Roads closed\n\n64 homes lilac fire\n");
    assert_eq!(run(&["clean", "--language", "klingon"]).code, 2);
}

/// Three items of two days; gives the paths of archive and events.
fn small_archive(folder: &Folder) -> (String, String) {
    let event =
        event("E-1", &[("E-1-r1", START, START + DAY - 1), ("E-1-r2", START + DAY, START + 2 * DAY - 1)]);
    let items = [
        tweet("E-1", 1, START, "ann", "64 homes destroyed in Bonsall, 9 homes damaged"),
        tweet("E-1", 2, START + 9, "bob", "No homes in Vista"),
        tweet("E-1", 3, START + DAY, "cid", "The road to Vista is closed"),
    ];
    let path = |path: std::path::PathBuf| path.to_str().unwrap().to_owned();
    (path(folder.write_items("items.jsonl", &items)), path(folder.write_event("e.json", &event)))
}

#[test]
fn search_prints_a_ranking_for_each_request_and_query() {
    let folder = Folder::new();
    let (archive, events) = small_archive(&folder);
    let trec = run(&["search", &archive, "--events", &events, "--expand", "none"]).done();
    let lines: Vec<Vec<&str>> = trec.stdout.lines().map(|line| line.split(' ').collect()).collect();
    let places: Vec<(&str, &str, &str)> = lines.iter().map(|line| (line[0], line[2], line[3])).collect();
    assert_eq!(
        places,
        [
            ("E-1-r1.q1", "E-1-Twitter-1-0", "1"),
            ("E-1-r1.q1", "E-1-Twitter-2-0", "2"),
            ("E-1-r2.q2", "E-1-Twitter-3-0", "1"),
        ]
    );
    assert!(lines.iter().all(|line| line.len() == 6 && line[1] == "Q0" && line[5] == "nuggetd"));

    let jsonl =
        run(&["search", &archive, "--events", &events, "--expand", "none", "--format", "jsonl"]).done();
    for (object, line) in jsonl.json_lines().iter().zip(&lines) {
        let topic =
            format!("{}.{}", object["requestID"].as_str().unwrap(), object["queryID"].as_str().unwrap());
        assert_eq!(topic, line[0]);
        assert_eq!(object["streamID"], line[2]);
        assert_eq!(object["rank"].to_string(), line[3]);
        assert_eq!(
            object["score"].as_f64().unwrap().to_bits(),
            line[4].parse::<f64>().unwrap().to_bits(),
            "in full precision"
        );
    }
    assert_eq!(jsonl.json_lines().len(), lines.len());
}

#[test]
fn search_gives_only_what_is_asked_for() {
    let folder = Folder::new();
    let (archive, events) = small_archive(&folder);
    let search = |further: &[&str]| run(&[&["search", &archive, "--events", &events], further].concat());
    let topics = |further: &[&str]| {
        let stdout = search(further).done().stdout;
        let mut topics: Vec<String> =
            stdout.lines().map(|line| line.split(' ').next().unwrap().to_owned()).collect();
        topics.dedup();
        topics
    };
    assert_eq!(topics(&[]), ["E-1-r1.q1", "E-1-r2.q2"]);
    assert_eq!(topics(&["--request", "E-1-r2"]), ["E-1-r2.q2"]);
    assert_eq!(topics(&["--query", "q1"]), ["E-1-r1.q1"]);
    assert_eq!(topics(&["--query", "q1", "--request", "E-1-r2"]), Vec::<String>::new());
    assert_eq!(search(&["--top", "1", "--query", "q1"]).done().stdout.lines().count(), 1);
    for unknown in [["--request", "E-1-r9"], ["--query", "q9"]] {
        let ran = search(&unknown);
        assert_eq!(ran.code, 2);
        assert!(ran.stderr.contains(unknown[1]), "{}", ran.stderr);
        assert!(ran.stdout.is_empty());
    }
    assert_eq!(search(&["--expand", "magic"]).code, 2);
}

#[test]
fn the_default_configuration_is_a_good_one_and_changes_nothing() {
    let folder = Folder::new();
    let default = run(&["config", "default"]).done().stdout;
    let path = folder.write("nuggetd.toml", &default);
    let path = path.to_str().unwrap();
    assert!(run(&["config", "check", "--config", path]).done().stdout.contains("good"));
    assert_eq!(
        run(&["config", "show", "--config", path]).done().stdout,
        run(&["config", "show"]).done().stdout
    );
    // Every key is explained.
    for (before, line) in default.lines().zip(default.lines().skip(1)) {
        if line.contains(" = ") && !line.starts_with('#') {
            assert!(before.starts_with('#'), "{line}");
        }
    }
}

#[test]
fn the_last_word_on_a_key_is_the_command_lines() {
    let folder = Folder::new();
    let file = folder.write("nuggetd.toml", "[search]\ntop = 11\n[facts]\nnuggets = 12\nbudget = 13\n");
    let arguments = ["config", "show", "--config", file.to_str().unwrap(), "--set", "facts.budget=21"];
    let mut command = nuggetd();
    command.args(arguments).env("NUGGETD__FACTS__NUGGETS", "20").env("NUGGETD__FACTS__BUDGET", "20");
    let shown = Ran::of(command.output().unwrap()).done().stdout;
    let shown: toml::Table = shown.parse().unwrap();
    assert_eq!(shown["search"]["top"].as_integer(), Some(11));
    assert_eq!(shown["facts"]["nuggets"].as_integer(), Some(20));
    assert_eq!(shown["facts"]["budget"].as_integer(), Some(21));
    assert_eq!(shown["schedule"]["lateness"].as_str(), Some("5m"));
}

#[test]
fn bad_configuration_ends_with_64_and_all_its_problems() {
    let folder = Folder::new();
    let file = folder.write("nuggetd.toml", "[search]\ntip = 11\n\n[facts]\nlambda = 3.0\n");
    for action in ["check", "show"] {
        let ran = run(&["config", action, "--config", file.to_str().unwrap(), "--set", "nothing.here=1"]);
        assert_eq!(ran.code, 64);
        for part in ["nuggetd.toml:2", "tip", "lambda", "nothing"] {
            assert!(ran.stderr.contains(part), "{part}: {}", ran.stderr);
        }
        assert!(ran.stdout.is_empty());
    }
}

#[test]
fn version_and_help_go_to_stdout() {
    assert_eq!(run(&["--version"]).done().stdout, format!("nuggetd {}\n", env!("CARGO_PKG_VERSION")));
    let help = run(&["--help"]).done();
    for command in ["demo", "replay", "clean", "search", "config", "schema"] {
        assert!(help.stdout.contains(&format!("\n  {command}")), "{command}");
        assert!(run(&[command, "--help"]).done().stdout.contains("Usage: nuggetd"), "{command}");
    }
    assert!(help.stderr.is_empty());
    let unknown = run(&["rum"]);
    assert_eq!((unknown.code, unknown.stdout.as_str()), (2, ""));
}

#[test]
fn the_configuration_that_is_deployed_is_the_documented_default() {
    let printed = run(&["config", "default"]).done().stdout;
    let deployed = fs::read_to_string(root().join("deploy/nuggetd.toml")).unwrap();
    assert!(printed == deployed, "renew it: nuggetd config default > deploy/nuggetd.toml");
}

#[test]
fn a_file_is_no_folder_for_a_run() {
    let folder = Folder::new();
    let (file, demo) = (folder.write("run", ""), root().join("demo"));
    let mut command = nuggetd();
    command.arg("replay").arg(demo.join("items.jsonl")).arg("--events").arg(demo.join("event.json"));
    let ran = Ran::of(command.arg("--out").arg(&file).output().unwrap());
    assert_eq!(ran.code, 2, "{}", ran.stderr);
    assert!(ran.stderr.contains("is a file"), "{}", ran.stderr);
}
