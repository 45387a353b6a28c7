//! Invariant 3: same archive, same configuration, no LLM = byte-identical output, whatever the number of threads, when
//! commits happen and how many shards are open.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod support;

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use serde_json::Value;
use support::{
    DAY, Folder, Ran, Results, START, event, read_lines, real_data, replay, replay_command, root, tweet,
};

const FILES: [&str; 4] = ["run.jsonl", "nuggets.jsonl", "summary.json", "rejected.jsonl"];

/// The files of a run under these settings: threads, most items between commits, most open shards.
fn outputs(
    archive: &Path,
    events: &Path,
    (threads, commit_items, open_shards): (u32, u32, u32),
) -> Vec<Vec<u8>> {
    let folder = Folder::new();
    let out = folder.path("run");
    let settings = [
        format!("feed.threads={threads}"),
        format!("index.commit_items={commit_items}"),
        format!("index.open_shards={open_shards}"),
    ];
    let flags: Vec<&str> = settings.iter().flat_map(|setting| ["--set", setting]).collect();
    replay(archive, events, &out, &flags).done();
    assert!(Results::in_folder(&out).count("nuggets") > 0);
    FILES.iter().map(|name| fs::read(out.join(name)).unwrap()).collect()
}

fn assert_all_same(archive: &Path, events: &Path, settings: &[(u32, u32, u32)]) {
    let (first, others) = settings.split_first().unwrap();
    let expected = outputs(archive, events, *first);
    for other in others {
        let found = outputs(archive, events, *other);
        for ((name, expected), found) in FILES.iter().zip(&expected).zip(&found) {
            assert!(expected == found, "{name} is another under {other:?} than under {first:?}");
        }
    }
}

#[test]
fn the_demo_is_the_same_whatever_threads_commits_and_open_shards() {
    let demo = root().join("demo");
    let mut settings = Vec::new();
    for threads in [1, 2] {
        for commit_items in [7, 100_000] {
            for open_shards in [1, 8] {
                settings.push((threads, commit_items, open_shards));
            }
        }
    }
    assert_all_same(&demo.join("items.jsonl"), &demo.join("event.json"), &settings);
}

#[test]
fn events_that_take_turns_are_the_same_where_each_turn_closes_the_others_shard() {
    let folder = Folder::new();
    let ids = ["E-1", "E-2", "E-3"];
    for id in ids {
        let request = format!("{id}-r1");
        folder.write_event(
            &format!("events/{id}.json"),
            &event(id, &[(request.as_str(), START, START + DAY - 1)]),
        );
    }
    let mut items = Vec::new();
    for turn in 0..40_usize {
        let author = ["ann", "bob", "cid"][turn % 3];
        // Every fourth text comes again, and so does what differs from it in one word.
        let homes = if turn % 4 == 3 { turn - 3 } else { turn };
        let word = if turn % 8 == 7 { "lost" } else { "destroyed" };
        let text =
            format!("{homes} homes {word} in the fire near the old school of Bonsall and Vista{homes}");
        let time = START + i64::try_from(turn).unwrap();
        items.extend(ids.map(|id| tweet(id, turn, time, author, &text)));
    }
    let archive = folder.write_items("items.jsonl", &items);
    let results = {
        let out = folder.path("run");
        replay(&archive, &folder.path("events"), &out, &[]).done();
        Results::in_folder(&out)
    };
    assert!(
        results.count("exactDuplicates") > 0 && results.count("nearDuplicates") > 0,
        "{:#}",
        results.summary
    );
    assert_all_same(&archive, &folder.path("events"), &[(1, 100_000, 8), (2, 100_000, 1), (1, 3, 2)]);
}

#[test]
fn eight_events_streamed_together_are_the_same_whatever_threads_commits_and_open_shards() {
    let Some(folder) = real_data("archives").map(|archives| archives.join("crisisfacts-pooled")) else {
        return;
    };
    let settings = [(1, 100_000, 8), (2, 7, 8), (2, 100_000, 1), (1, 97, 1), (7, 1_000, 3)];
    assert_all_same(&folder, &folder, &settings);
}

#[test]
fn an_archive_whose_platforms_lie_in_files_of_their_own_has_the_same_items() {
    let demo = root().join("demo");
    assert_same_when_split(&demo.join("items.jsonl"), &demo.join("event.json"));
}

#[test]
fn a_real_archive_whose_platforms_lie_in_files_of_their_own_has_the_same_items() {
    let Some(folder) = real_data("archives").map(|archives| archives.join("crisisfacts-lilac2000")) else {
        return;
    };
    assert_same_when_split(
        &folder.join("CrisisFACTS-001.jsonl.gz"),
        &folder.join("CrisisFACTS-001.event.json"),
    );
}

fn assert_same_when_split(archive: &Path, events: &Path) {
    let folder = Folder::new();
    let (whole, parts) = (folder.path("whole"), folder.path("parts"));
    replay(archive, events, &whole, &[]).done();

    let mut by_platform: BTreeMap<String, Vec<Value>> = BTreeMap::new();
    for item in read_lines(archive) {
        by_platform.entry(item["sourceType"].as_str().unwrap().to_owned()).or_default().push(item);
    }
    assert!(by_platform.len() > 1);
    let files: Vec<PathBuf> = by_platform
        .iter()
        .map(|(platform, items)| folder.write_items(&format!("{platform}.jsonl"), items))
        .collect();
    let files: Vec<&Path> = files.iter().map(PathBuf::as_path).collect();
    Ran::of(replay_command(&files, &[events], &parts, &[]).output().unwrap()).done();

    let (whole, parts) = (Results::in_folder(&whole), Results::in_folder(&parts));
    for count in ["records", "items", "outside", "empty"] {
        assert_eq!(whole.count(count), parts.count(count), "{count}");
    }
    for (of_whole, of_parts) in whole.summary["requests"]
        .as_array()
        .unwrap()
        .iter()
        .zip(parts.summary["requests"].as_array().unwrap())
    {
        let (event, request) = (of_whole["event"].as_str().unwrap(), of_whole["requestID"].as_str().unwrap());
        assert_eq!(of_parts["requestID"], request);
        if of_whole["items"] != 0 {
            let sorted = |results: &Results| {
                let mut items = results.shard(event, request);
                items.sort();
                items
            };
            assert_eq!(sorted(&whole), sorted(&parts), "{request}");
        }
    }
}
