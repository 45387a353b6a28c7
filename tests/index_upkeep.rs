//! The state can be looked at, checked and mended: whatever is damaged is named with the command that mends it.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod support;

use std::{
    fs::{self, File},
    path::{Path, PathBuf},
};

use nuggetd::ledger::Ledger;
use serde_json::{Value, json};
use support::{DAY, Folder, Ran, START, event, lines, replay, run, tweet};

/// Two days of one event, replayed.
struct Replayed {
    _folder: Folder,
    state: PathBuf,
}

impl Replayed {
    fn new() -> Self {
        let folder = Folder::new();
        let requests = [("E-1-r0", START, START + DAY - 1), ("E-1-r1", START + DAY, START + 2 * DAY - 1)];
        let events = folder.write_event("event.json", &event("E-1", &requests));
        let items: Vec<Value> = (0..40)
            .map(|number: usize| {
                let time = START + i64::try_from(number).unwrap() * DAY / 20;
                let text = format!("{} homes destroyed near bridge {number}", number * 7 % 19);
                tweet("E-1", number, time, &format!("author{number}"), &text)
            })
            .collect();
        let archive = folder.write_items("items.jsonl", &items);
        let out = folder.path("out");
        replay(&archive, &events, &out, &[]).done();
        let state = out.join("state");
        Self { _folder: folder, state }
    }

    /// The same state as a daemon's: nothing says that it was made from an archive.
    fn of_a_daemon(self) -> Self {
        let ledger = rusqlite::Connection::open(self.state.join("ledger.sqlite")).unwrap();
        assert_eq!(ledger.execute("DELETE FROM meta WHERE key = 'inputs'", []).unwrap(), 1);
        self
    }

    fn index(&self, arguments: &[&str]) -> Ran {
        run(&[&["index"], arguments, &["--data", self.state.to_str().unwrap()]].concat())
    }

    fn shard(&self, request: &str) -> PathBuf {
        self.state.join("shards/E-1").join(request)
    }

    /// The only fault that `verify` finds.
    fn fault(&self) -> String {
        let ran = self.index(&["verify"]);
        assert_eq!(ran.code, 1, "{}{}", ran.stdout, ran.stderr);
        let faults: Vec<&str> = ran.stdout.lines().filter(|line| line.starts_with("fault: ")).collect();
        assert_eq!(faults.len(), 1, "{}", ran.stdout);
        faults[0].to_owned()
    }

    fn positions(&self) -> Vec<(String, i32, u64)> {
        let ledger = Ledger::open(&self.state.join("ledger.sqlite")).unwrap();
        let positions = ledger.checkpoint().unwrap().positions;
        positions.iter().map(|(topic, partition, next)| (topic.to_owned(), partition, next)).collect()
    }
}

/// The first file of a shard with this ending.
fn file_of(shard: &Path, ending: &str) -> PathBuf {
    let mut files = fs::read_dir(shard).unwrap().map(|entry| entry.unwrap().path());
    files.find(|path| path.extension().is_some_and(|found| found == ending)).unwrap()
}

#[test]
fn stats_count_what_is_there() {
    let replayed = Replayed::new();
    let found = replayed.index(&["stats", "--format", "jsonl"]).done().json_lines();
    let shards: Vec<&Value> = found.iter().filter(|line| line["kind"] == "shard").collect();
    assert_eq!(shards.len(), 2);
    for (shard, request) in shards.iter().zip(["E-1-r0", "E-1-r1"]) {
        assert_eq!((&shard["event"], &shard["request"]), (&json!("E-1"), &json!(request)));
        assert_eq!((&shard["state"], &shard["revision"]), (&json!("closed"), &json!(0)));
        assert_eq!((&shard["items"], &shard["runWaits"]), (&json!(20), &json!(false)));
        assert!(shard["bytes"].as_u64().unwrap() > 0 && shard["segments"] == 1);
    }
    let partition = found.iter().find(|line| line["kind"] == "partition").unwrap();
    assert_eq!(partition["next"], 40);
    let totals = found.last().unwrap();
    assert_eq!(
        (&totals["kind"], &totals["items"], &totals["outbox"]),
        (&json!("totals"), &json!(40), &json!(0))
    );
    let text = replayed.index(&["stats"]).done().stdout;
    let of_day = text.lines().find(|line| line.contains("E-1-r1")).unwrap();
    assert!(of_day.starts_with("E-1    E-1-r1   closed, revision 0     20"), "{text}");
    assert!(text.contains("shards    2, 40 items"), "{text}");
}

#[test]
fn what_is_whole_has_no_faults() {
    let ran = Replayed::new().index(&["verify"]).done();
    assert_eq!(ran.stdout, "2 shards with 40 items read, 0 faults\n");
}

#[test]
fn a_cut_file_is_named_with_its_repair() {
    for ending in ["store", "idx", "fast"] {
        let replayed = Replayed::new().of_a_daemon();
        let file = file_of(&replayed.shard("E-1-r0"), ending);
        let length = fs::metadata(&file).unwrap().len();
        File::options().write(true).open(&file).unwrap().set_len(length / 2).unwrap();
        let fault = replayed.fault();
        assert!(fault.contains("shards/E-1/E-1-r0: "), "{fault}");
        assert!(
            fault.contains("`nuggetd index rebuild --event E-1 --request E-1-r0 --yes --data "),
            "{fault}"
        );
    }
}

#[test]
fn a_flipped_bit_is_found() {
    for ending in ["store", "idx", "fast", "term"] {
        let replayed = Replayed::new().of_a_daemon();
        let file = file_of(&replayed.shard("E-1-r1"), ending);
        let mut bytes = fs::read(&file).unwrap();
        bytes[0] ^= 1;
        fs::write(&file, bytes).unwrap();
        let fault = replayed.fault();
        let name = file.file_name().unwrap().to_str().unwrap();
        assert!(
            fault.contains("E-1-r1") && fault.contains(&format!("checksum of {name} is wrong")),
            "{fault}"
        );
    }
}

#[test]
fn a_damaged_meta_file_is_named_with_its_repair() {
    let replayed = Replayed::new().of_a_daemon();
    fs::write(replayed.shard("E-1-r0").join("meta.json"), "no JSON").unwrap();
    let fault = replayed.fault();
    assert!(fault.contains("nuggetd index rebuild --event E-1 --request E-1-r0 --yes"), "{fault}");
    // Stats go on with the others
    let stats = replayed.index(&["stats"]);
    assert_eq!(stats.code, 1);
    assert!(
        stats.stdout.contains("unreadable") && stats.stdout.contains("shards    1, 20 items"),
        "{}",
        stats.stdout
    );
    assert!(
        stats.stderr.contains("nuggetd index rebuild --event E-1 --request E-1-r0 --yes"),
        "{}",
        stats.stderr
    );
}

#[test]
fn a_removed_shard_is_named_with_its_repair() {
    let replayed = Replayed::new().of_a_daemon();
    fs::remove_dir_all(replayed.shard("E-1-r1")).unwrap();
    let fault = replayed.fault();
    assert!(fault.contains("it is missing, the ledger knows 20 or more items"), "{fault}");
    assert!(fault.contains("nuggetd index rebuild --event E-1 --request E-1-r1 --yes"), "{fault}");
}

#[test]
fn a_shard_of_another_request_is_named() {
    let replayed = Replayed::new().of_a_daemon();
    let (from, to) = (replayed.shard("E-1-r0"), replayed.shard("E-1-r9"));
    fs::create_dir(&to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
    }
    let fault = replayed.fault();
    assert!(fault.contains("E-1-r9: the ledger does not know this shard"), "{fault}");
    replayed.index(&["rebuild", "--event", "E-1", "--request", "E-1-r9", "--yes"]).done();
    replayed.index(&["verify"]).done();
}

#[test]
fn a_damaged_ledger_is_named_and_put_aside() {
    let replayed = Replayed::new().of_a_daemon();
    let ledger = replayed.state.join("ledger.sqlite");
    let garbage = "no database, however long it is read".repeat(400);
    fs::write(&ledger, &garbage).unwrap();
    let fault = replayed.fault();
    assert!(fault.contains("nuggetd index rebuild --ledger --yes"), "{fault}");
    let stats = replayed.index(&["stats"]);
    assert_eq!(stats.code, 70);
    assert!(stats.stderr.contains("nuggetd index rebuild --ledger --yes"), "{}", stats.stderr);
    let said = replayed.index(&["rebuild", "--ledger"]).done().stdout;
    assert!(said.contains("ledger.sqlite.damaged-1") && said.contains("nothing was changed"), "{said}");
    assert!(ledger.exists());
    fs::write(replayed.state.join("ledger.sqlite.damaged-1"), "an older one").unwrap();
    replayed.index(&["rebuild", "--ledger", "--yes"]).done();
    assert!(!ledger.exists());
    assert_eq!(fs::read_to_string(replayed.state.join("ledger.sqlite.damaged-2")).unwrap(), garbage);
    let ran = replayed.index(&["verify"]).done();
    assert!(ran.stdout.starts_with("note: ") && ran.stdout.contains("there is no ledger"), "{}", ran.stdout);
}

#[test]
fn a_damaged_page_of_the_ledger_is_found() {
    let replayed = Replayed::new().of_a_daemon();
    let path = replayed.state.join("ledger.sqlite");
    let mut bytes = fs::read(&path).unwrap();
    // The first page holds the header and the tables' definitions
    for byte in bytes.iter_mut().skip(4096 + 8).take(3 * 4096) {
        *byte = 0xA5;
    }
    fs::write(&path, bytes).unwrap();
    let ran = replayed.index(&["verify"]);
    assert_eq!(ran.code, 1, "{}", ran.stdout);
    assert!(ran.stdout.contains("nuggetd index rebuild --ledger --yes"), "{}", ran.stdout);
}

#[test]
fn a_rebuild_goes_back_to_the_first_item() {
    let replayed = Replayed::new().of_a_daemon();
    let arguments = ["rebuild", "--event", "E-1", "--request", "E-1-r1"];
    let said = replayed.index(&arguments).done().stdout;
    assert!(said.contains("read again from 20, was at 40") && said.contains("nothing was changed"), "{said}");
    assert!(replayed.shard("E-1-r1").exists());
    assert_eq!(replayed.positions()[0].2, 40);
    let said = replayed.index(&[&arguments[..], &["--yes"]].concat()).done().stdout;
    assert!(said.contains("read again from 20") && !said.contains("nothing was changed"), "{said}");
    assert!(!replayed.shard("E-1-r1").exists() && replayed.shard("E-1-r0").exists());
    assert_eq!(replayed.positions()[0].2, 20);
    let verified = replayed.index(&["verify"]).done().stdout;
    assert!(verified.contains("E-1-r1: it was removed, the next start builds it anew"), "{verified}");
    replayed.index(&["stats"]).done();
    // Removed by hand, nothing has it built anew
    fs::remove_dir_all(replayed.shard("E-1-r0")).unwrap();
    let stats = replayed.index(&["stats"]);
    assert_eq!(stats.code, 1, "{}", stats.stdout);
    assert!(
        stats.stdout.contains("missing, revision 0") && stats.stderr.contains("is missing"),
        "{}",
        stats.stderr
    );
    // All of the event
    replayed.index(&["rebuild", "--event", "E-1", "--yes"]).done();
    assert!(!replayed.shard("E-1-r0").exists());
    assert_eq!(replayed.positions()[0].2, 0);
    let unknown = replayed.index(&["rebuild", "--event", "E-2", "--yes"]);
    assert_eq!((unknown.code, unknown.stdout.as_str()), (2, ""), "{}", unknown.stderr);
}

#[test]
fn a_reset_forgets_positions_and_keeps_items() {
    let replayed = Replayed::new().of_a_daemon();
    let topic = replayed.positions()[0].0.clone();
    Ledger::open(&replayed.state.join("ledger.sqlite")).unwrap().set_meta("cluster", &"old").unwrap();
    let none = replayed.index(&["reset-positions", "--topic", "another", "--yes"]).done().stdout;
    assert_eq!(none, "nothing is known of such partitions\n");
    let said = replayed.index(&["reset-positions", "--topic", &topic]).done().stdout;
    assert!(
        said.contains("partition 0: position 40 forgotten") && said.contains("nothing was changed"),
        "{said}"
    );
    assert_eq!(replayed.positions().len(), 1);
    replayed.index(&["reset-positions", "--topic", &topic, "--partition", "0", "--yes"]).done();
    assert_eq!(replayed.positions(), []);
    let ledger = Ledger::open(&replayed.state.join("ledger.sqlite")).unwrap();
    assert!(ledger.requests().unwrap().iter().all(|request| request.first.is_empty()));
    assert_eq!(ledger.meta::<String>("cluster").unwrap(), None);
    drop(ledger);
    let found = lines(&replayed.index(&["stats", "--format", "jsonl"]).done().stdout);
    for shard in found.iter().filter(|line| line["kind"] == "shard") {
        assert_eq!((&shard["items"], &shard["positions"]), (&json!(20), &json!({})));
    }
    replayed.index(&["verify"]).done();
}

#[test]
fn what_changes_the_state_waits_for_nobody_who_works_there() {
    let replayed = Replayed::new().of_a_daemon();
    let lock = File::create(replayed.state.join("lock")).unwrap();
    lock.lock().unwrap();
    for arguments in [
        &["rebuild", "--event", "E-1", "--yes"][..],
        &["rebuild", "--ledger", "--yes"],
        &["reset-positions", "--yes"],
    ] {
        let ran = replayed.index(arguments);
        assert_eq!(ran.code, 75, "{}", ran.stderr);
        assert!(
            ran.stderr.contains(&format!("another nuggetd works in {}", replayed.state.display())),
            "{}",
            ran.stderr
        );
    }
    assert_eq!(replayed.positions()[0].2, 40);
    // Looking is free
    replayed.index(&["stats"]).done();
    replayed.index(&["verify"]).done();
}

#[test]
fn a_replays_state_is_not_rebuilt_from_kafka() {
    let replayed = Replayed::new();
    for arguments in [
        &["rebuild", "--event", "E-1", "--yes"][..],
        &["rebuild", "--ledger", "--yes"],
        &["reset-positions", "--yes"],
    ] {
        let ran = replayed.index(arguments);
        assert_eq!(ran.code, 2, "{}", ran.stderr);
        assert!(ran.stderr.contains("replay it into an empty folder"), "{}", ran.stderr);
    }
    fs::remove_dir_all(replayed.shard("E-1-r1")).unwrap();
    assert!(replayed.fault().ends_with("replay the archive into an empty folder"));
}

#[test]
fn a_folder_without_state_is_refused() {
    let folder = Folder::new();
    let path = folder.path("nothing");
    for action in ["stats", "verify"] {
        let ran = run(&["index", action, "--data", path.to_str().unwrap()]);
        assert_eq!(ran.code, 2, "{}", ran.stderr);
    }
    assert!(!path.exists());
}
