//! Invariant 1: no item lost, none counted twice. A replay that is killed again and again and gone on with comes out as
//! one that ran through, to the byte; its shards hold exactly the accepted items.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod support;

use std::{
    collections::BTreeMap,
    fs,
    io::Write,
    path::{Path, PathBuf},
    process::{Child, Stdio},
    thread::sleep,
    time::{Duration, Instant},
};

use serde_json::{Value, json};
use support::{
    DAY, Folder, Ran, Results, START, event, gzip, nuggetd, read_json, read_lines, replay, replay_command,
    root, run_with_input, tweet,
};

/// Items of the archive, before those outside every request.
const ITEMS: usize = 10_000;
/// How often a replay is killed, all rounds of a test together.
const KILLS: u32 = 10;
/// The files that must come out the same.
const FILES: [&str; 4] = ["run.jsonl", "nuggets.jsonl", "rejected.jsonl", "summary.json"];

/// Random numbers from a seed: a failing run can be repeated.
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % end
    }
}

/// The archive: two files, the second packed, and what is in it.
struct Archive {
    files: [PathBuf; 2],
    event: PathBuf,
    /// For each request the names of its items, sorted.
    items: BTreeMap<String, Vec<String>>,
    refused: u64,
}

/// Texts of the demo with other numbers, ids and times; some items late, some out of order, some outside every request,
/// bad records between them.
fn archive(folder: &Folder) -> Archive {
    let demo = root().join("demo");
    let event = read_json(&demo.join("event.json"));
    let texts = read_lines(&demo.join("items.jsonl"));
    let mut random = Random(7);
    let mut records: Vec<(i64, Value)> = Vec::new();
    for number in 0..ITEMS {
        let mut item = texts[number % texts.len()].clone();
        let round = number / texts.len();
        let time = item["unixTimestamp"].as_i64().unwrap() + i64::try_from(random.below(3_000)).unwrap();
        // A number that is another one in each round keeps most from being duplicates.
        let text = item["text"].as_str().unwrap().replace(" 1", &format!(" {}", round + 2));
        // Two rounds of three differ from the others by one or two words alone.
        let unit =
            if round.is_multiple_of(3) { format!(" unit{}", random.below(9_000)) } else { String::new() };
        item["text"] = json!(format!("{text} sector{}{unit}", round * 7 % 61));
        item["streamID"] = json!(format!("{}-{round}", item["streamID"].as_str().unwrap()));
        item["unixTimestamp"] = json!(time);
        // Most come a little out of order, a few hours late.
        let held_back =
            if number.is_multiple_of(97) { 20_000 } else { i64::try_from(random.below(50)).unwrap() };
        records.push((time + held_back, item));
    }
    records.sort_by_key(|(arrives, _)| *arrives);

    let mut lines: [Vec<u8>; 2] = Default::default();
    let mut refused = 0;
    for (number, (_, item)) in records.iter().enumerate() {
        let file = &mut lines[usize::from(item["sourceType"] != "Twitter")];
        file.extend_from_slice(format!("{item}\n").as_bytes());
        if number.is_multiple_of(401) {
            let bad: [&[u8]; 4] = [
                b"{\"event\":\"DEMO-001\",\"streamID\"\n",
                b"\xff\xfe\n",
                b"[]\n",
                b"{\"text\":\"no time\",\"streamID\":\"x\"}\n",
            ];
            file.extend_from_slice(bad[number / 401 % bad.len()]);
            refused += 1;
        }
    }
    let mut items: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for request in event["summaryRequests"].as_array().unwrap() {
        let bounds =
            request["startUnixTimestamp"].as_i64().unwrap()..=request["endUnixTimestamp"].as_i64().unwrap();
        let inside =
            records.iter().filter(|(_, item)| bounds.contains(&item["unixTimestamp"].as_i64().unwrap()));
        let mut ids: Vec<String> =
            inside.map(|(_, item)| item["streamID"].as_str().unwrap().to_owned()).collect();
        ids.sort();
        items.insert(request["requestID"].as_str().unwrap().to_owned(), ids);
    }
    let [tweets, others] = lines;
    Archive {
        files: [folder.write("tweets.jsonl", tweets), folder.write("others.jsonl.gz", gzip(&others))],
        event: folder.write_event("demo.event.json", &event),
        items,
        refused,
    }
}

impl Archive {
    fn command(&self, out: &Path, further: &[String]) -> std::process::Command {
        let further: Vec<&str> = further.iter().map(String::as_str).collect();
        replay_command(&[&self.files[0], &self.files[1]], &[&self.event], out, &further)
    }

    fn check(&self, results: &Results) {
        assert_eq!(results.rejected.len() as u64, self.refused);
        let count: usize = self.items.values().map(Vec::len).sum();
        assert_eq!(results.count("items"), count as u64);
        for (request, expected) in &self.items {
            let mut found = results.shard("DEMO-001", request);
            found.sort();
            assert!(
                &found == expected,
                "{request}: {} items in the shard, {} accepted",
                found.len(),
                expected.len()
            );
        }
    }
}

/// Whether the process ended by itself within this time; otherwise it is killed.
fn ends_within(child: &mut Child, time: Duration) -> bool {
    let until = Instant::now() + time;
    while Instant::now() < until {
        if let Some(status) = child.try_wait().unwrap() {
            assert!(status.success(), "{status}");
            return true;
        }
        sleep(Duration::from_millis(2));
    }
    child.kill().unwrap();
    child.wait().unwrap().success()
}

fn flags(settings: &[&str]) -> Vec<String> {
    settings.iter().flat_map(|setting| ["--set".to_owned(), (*setting).to_owned()]).collect()
}

/// Kills replays of the archive at moments spread over their length until enough were killed.
fn kill_again_and_again(revise: bool, seed: u64) {
    let folder = Folder::new();
    let archive = archive(&folder);
    let revise = format!("schedule.revise_late={revise}");
    let settings = |commit_items, threads: u64, shards: u64| {
        let (threads, shards) = (format!("feed.threads={threads}"), format!("index.open_shards={shards}"));
        flags(&[&revise, commit_items, &threads, &shards])
    };
    let whole = folder.path("whole");
    let begun = Instant::now();
    Ran::of(archive.command(&whole, &settings("index.commit_items=50", 2, 1)).output().unwrap()).done();
    let length = begun.elapsed();
    let expected = Results::in_folder(&whole);
    archive.check(&expected);
    for count in ["late", "outside", "nuggets", "nearDuplicates", "exactDuplicates"] {
        assert!(expected.count(count) > 0, "{count}");
    }

    let mut random = Random(seed);
    let mut kills = 0;
    // A step is on average a fourth of the run, so that each round sees its beginning, its middle and its end.
    let step = u64::try_from(length.as_millis()).unwrap() / 2;
    for round in 0..2 * KILLS {
        let out = folder.path(&format!("round{round}"));
        loop {
            let commit_items =
                ["index.commit_items=50", "index.commit_items=3000"][usize::from(random.below(4) == 0)];
            let mut further = settings(commit_items, 1 + random.below(3), 1 + random.below(3));
            further.push("--resume".to_owned());
            let mut command = archive.command(&out, &further);
            let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
            let time = if kills < KILLS {
                Duration::from_millis(1 + random.below(step))
            } else {
                Duration::from_secs(600)
            };
            if ends_within(&mut child, time) {
                break;
            }
            kills += 1;
        }
        let found = Results::in_folder(&out);
        archive.check(&found);
        for name in FILES {
            let same = fs::read(out.join(name)).unwrap() == fs::read(whole.join(name)).unwrap();
            assert!(same, "{name} of round {round} is another than that of a run that was not killed");
        }
        for request in archive.items.keys() {
            let same = found.shard("DEMO-001", request) == expected.shard("DEMO-001", request);
            assert!(same, "the items of {request} stand in another order");
        }
        fs::remove_dir_all(&out).unwrap();
        if kills >= KILLS {
            return;
        }
    }
    panic!("of {} rounds only {kills} were killed", 2 * KILLS);
}

#[test]
fn a_replay_killed_again_and_again_comes_out_as_one_that_ran_through() {
    kill_again_and_again(false, 11);
}

#[test]
fn a_replay_that_revises_killed_again_and_again_comes_out_as_one_that_ran_through() {
    kill_again_and_again(true, 13);
}

/// A small archive with two days, replayed into `run`.
fn finished() -> (Folder, PathBuf, PathBuf, PathBuf) {
    let folder = Folder::new();
    let event =
        event("E-1", &[("E-1-r1", START, START + DAY - 1), ("E-1-r2", START + DAY, START + 2 * DAY - 1)]);
    let items: Vec<Value> = (0..40_u32)
        .map(|number| {
            tweet(
                "E-1",
                number as usize,
                START + i64::from(number) * 4_000,
                "ann",
                &format!("{number} homes destroyed on road {}", number * 7),
            )
        })
        .collect();
    let (archive, events) =
        (folder.write_items("items.jsonl", &items), folder.write_event("event.json", &event));
    let out = folder.path("run");
    replay(&archive, &events, &out, &[]).done();
    (folder, archive, events, out)
}

fn contents(out: &Path) -> Vec<Vec<u8>> {
    FILES.iter().map(|name| fs::read(out.join(name)).unwrap()).collect()
}

#[test]
fn going_on_with_a_finished_run_changes_nothing() {
    let (_folder, archive, events, out) = finished();
    let before = contents(&out);
    let shard = Results::in_folder(&out).shard("E-1", "E-1-r1");
    replay(&archive, &events, &out, &["--resume"]).done();
    assert!(contents(&out) == before);
    assert_eq!(Results::in_folder(&out).shard("E-1", "E-1-r1"), shard);
}

#[test]
fn going_on_where_nothing_is_begins() {
    let (folder, archive, events, out) = finished();
    let other = folder.path("other");
    replay(&archive, &events, &other, &["--resume"]).done();
    assert!(contents(&other) == contents(&out));
}

#[test]
fn a_used_folder_is_refused_and_left_as_it_is() {
    let (_folder, archive, events, out) = finished();
    let before = contents(&out);
    let ran = replay(&archive, &events, &out, &[]);
    assert_eq!(ran.code, 2);
    for part in ["run.jsonl", "--resume", "--out", out.to_str().unwrap()] {
        assert!(ran.stderr.contains(part), "{}", ran.stderr);
    }
    assert!(contents(&out) == before);
}

#[test]
fn going_on_with_other_input_is_refused_and_what_differs_is_named() {
    let (folder, archive, events, out) = finished();
    let before = contents(&out);
    let other_archive = folder.write_items("other.jsonl", &[tweet("E-1", 1, START, "bob", "Roads closed")]);
    let other_event =
        folder.write_event("other.event.json", &event("E-1", &[("E-1-r1", START, START + DAY)]));
    for (archive, events, further, named) in [
        (&other_archive, &events, vec![], "another archive"),
        (&archive, &other_event, vec![], "another set of events"),
        (&archive, &events, vec!["--set", "facts.method=greedy"], "another configuration"),
        (&archive, &events, vec!["--set", "schedule.revise_late=true"], "another configuration"),
    ] {
        let further: Vec<&str> = std::iter::once("--resume").chain(further).collect();
        let ran = replay(archive, events, &out, &further);
        assert_eq!(ran.code, 2, "{}", ran.stderr);
        assert!(ran.stderr.contains(named), "{}", ran.stderr);
        assert!(contents(&out) == before, "{named}");
    }
}

#[test]
fn two_replays_never_write_to_one_folder() {
    let (folder, archive, events, out) = finished();
    let busy = folder.path("busy");
    let mut command = nuggetd();
    command.args(["replay", "-", "--events"]).arg(&events).arg("--out").arg(&busy);
    command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut first = command.spawn().unwrap();
    let mut input = first.stdin.take().unwrap();
    let bytes = fs::read(&archive).unwrap();
    let (beginning, rest) = bytes.split_at(bytes.len() / 2);
    input.write_all(beginning).unwrap();
    let until = Instant::now() + Duration::from_secs(60);
    while !busy.join("rejected.jsonl").exists() && Instant::now() < until {
        sleep(Duration::from_millis(5));
    }

    let arguments =
        ["replay", "-", "--events", events.to_str().unwrap(), "--out", busy.to_str().unwrap(), "--resume"];
    let second = run_with_input(&arguments, b"");
    assert_eq!(second.code, 75, "{}", second.stderr);
    assert!(
        second.stderr.contains(busy.to_str().unwrap()) && second.stderr.contains("another"),
        "{}",
        second.stderr
    );

    input.write_all(rest).unwrap();
    drop(input);
    assert!(first.wait().unwrap().success());
    assert!(contents(&busy) == contents(&out));
}
