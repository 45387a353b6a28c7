//! What the behaviour tests share: the built binary, archives and events made on the spot, the real data.

#![allow(dead_code, reason = "each test file uses some of it")]

pub(crate) mod kafka;
pub(crate) mod live;
pub(crate) mod models;
pub(crate) mod site;
pub(crate) mod storm;

use std::{
    env,
    fs::{self, File},
    io::{Read, Write},
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
    thread,
};

use flate2::{Compression, read::MultiGzDecoder, write::GzEncoder};
use serde_json::{Value, json};

/// 2017-12-07T00:00:00Z.
pub(crate) const START: i64 = 1_512_604_800;
/// Seconds in a day.
pub(crate) const DAY: i64 = 86_400;

/// The repository's root.
pub(crate) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// A folder of the real data; says so where there is none.
pub(crate) fn real_data(folder: &str) -> Option<PathBuf> {
    let data = env::var_os("NUGGETD_DATA").map_or_else(|| root().join("../shared/data"), PathBuf::from);
    let path = data.join(folder);
    if path.is_dir() {
        return Some(path);
    }
    skipped(&format!("no real data at {}", path.display()));
    None
}

/// Says that a test is skipped: in one piece and at the start of a line, whatever the test runner has written.
pub(crate) fn skipped(why: &str) {
    std::io::stderr().write_all(format!("\nskipped: {why}\n").as_bytes()).unwrap();
}

/// How a run of the binary ended.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Ran {
    /// Reads what a process left. No input may make it panic, whatever the test is about.
    pub(crate) fn of(output: Output) -> Self {
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert!(!stderr.contains("panicked"), "{stderr}");
        let code = output.status.code().unwrap_or_else(|| panic!("ended by a signal: {stderr}"));
        Self { code, stdout: String::from_utf8(output.stdout).unwrap(), stderr }
    }

    /// The same, where it must have gone well.
    pub(crate) fn done(self) -> Self {
        assert_eq!(self.code, 0, "{}", self.stderr);
        self
    }

    /// The lines of stdout as JSON.
    pub(crate) fn json_lines(&self) -> Vec<Value> {
        lines(&self.stdout)
    }
}

/// The binary, untouched by the configuration of whoever runs the tests.
pub(crate) fn nuggetd() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_nuggetd"));
    for (name, _) in env::vars_os() {
        if name.to_string_lossy().starts_with("NUGGETD__") {
            command.env_remove(name);
        }
    }
    command.stdin(Stdio::null());
    command
}

/// Runs the binary with these arguments.
pub(crate) fn run(arguments: &[&str]) -> Ran {
    Ran::of(nuggetd().args(arguments).output().unwrap())
}

/// Runs the binary with these arguments and bytes on its standard input.
pub(crate) fn run_with_input(arguments: &[&str], input: &[u8]) -> Ran {
    let mut command = nuggetd();
    command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let input = input.to_vec();
    let writing = std::thread::spawn(move || stdin.write_all(&input));
    let ran = Ran::of(child.wait_with_output().unwrap());
    writing.join().unwrap().unwrap();
    ran
}

/// The command that replays an archive.
pub(crate) fn replay_command(archive: &[&Path], events: &[&Path], out: &Path, further: &[&str]) -> Command {
    let mut command = nuggetd();
    command.arg("replay").args(archive);
    for path in events {
        command.arg("--events").arg(path);
    }
    command.arg("--out").arg(out).args(further);
    command
}

/// Replays one archive.
pub(crate) fn replay(archive: &Path, events: &Path, out: &Path, further: &[&str]) -> Ran {
    Ran::of(replay_command(&[archive], &[events], out, further).output().unwrap())
}

/// The lines of a text as JSON.
pub(crate) fn lines(text: &str) -> Vec<Value> {
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}")))
        .collect()
}

/// The lines of a file as JSON, unpacked where it is gzip.
pub(crate) fn read_lines(path: &Path) -> Vec<Value> {
    lines(&read_text(path))
}

/// The text of a file, unpacked where it is gzip.
pub(crate) fn read_text(path: &Path) -> String {
    let mut text = String::new();
    let mut file = File::open(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    if path.extension().is_some_and(|ending| ending == "gz") {
        MultiGzDecoder::new(file).read_to_string(&mut text).unwrap();
    } else {
        file.read_to_string(&mut text).unwrap();
    }
    text
}

/// A JSON file.
pub(crate) fn read_json(path: &Path) -> Value {
    serde_json::from_str(&read_text(path)).unwrap()
}

/// Values as JSON Lines.
pub(crate) fn json_lines<'a>(values: impl IntoIterator<Item = &'a Value>) -> String {
    let mut text = String::new();
    for value in values {
        text.push_str(&value.to_string());
        text.push('\n');
    }
    text
}

/// Packs bytes with gzip.
pub(crate) fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

/// A folder for one test. With `NUGGETD_TEST_KEEP` set, that of a test that fails stays, with the daemons' logs.
pub(crate) struct Folder(tempfile::TempDir);

impl Drop for Folder {
    fn drop(&mut self) {
        if thread::panicking() && env::var_os("NUGGETD_TEST_KEEP").is_some() {
            self.0.disable_cleanup(true);
            eprintln!("kept: {}", self.0.path().display());
        }
    }
}

impl Folder {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    /// A path in it.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Writes a file in it.
    pub(crate) fn write(&self, name: &str, bytes: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, bytes).unwrap();
        path
    }

    /// Writes items, one a line.
    pub(crate) fn write_items(&self, name: &str, items: &[Value]) -> PathBuf {
        self.write(name, json_lines(items))
    }

    /// Writes an event file.
    pub(crate) fn write_event(&self, name: &str, event: &Value) -> PathBuf {
        self.write(name, event.to_string())
    }
}

/// An event that asks what floods and fires are asked, with these requests (first and last second).
pub(crate) fn event(id: &str, requests: &[(&str, i64, i64)]) -> Value {
    let requests: Vec<Value> = requests
        .iter()
        .map(|(id, start, end)| json!({ "requestID": id, "startUnixTimestamp": start, "endUnixTimestamp": end }))
        .collect();
    json!({
        "eventID": id,
        "title": format!("Event {id}"),
        "queries": [
            { "queryID": "q1", "query": "How many homes were destroyed", "indicativeTerms": "homes destroyed damaged" },
            { "queryID": "q2", "query": "Which roads are closed", "indicativeTerms": "road bridge closed" },
            { "queryID": "q3", "query": "Which shelters are open", "indicativeTerms": "shelter open school" },
        ],
        "summaryRequests": requests,
    })
}

/// A tweet of this author.
pub(crate) fn tweet(event: &str, number: usize, time: i64, author: &str, text: &str) -> Value {
    json!({
        "event": event,
        "streamID": format!("{event}-Twitter-{number}-0"),
        "unixTimestamp": time,
        "text": text,
        "sourceType": "Twitter",
        "source": { "user": { "screen_name": author } },
    })
}

/// The result of a replay, as it stands in its folder.
#[derive(Debug)]
pub(crate) struct Results {
    pub(crate) folder: PathBuf,
    pub(crate) nuggets: Vec<Value>,
    pub(crate) rejected: Vec<Value>,
    pub(crate) summary: Value,
}

impl Results {
    pub(crate) fn in_folder(folder: &Path) -> Self {
        Self {
            folder: folder.into(),
            nuggets: read_lines(&folder.join("nuggets.jsonl")),
            rejected: read_lines(&folder.join("rejected.jsonl")),
            summary: read_json(&folder.join("summary.json")),
        }
    }

    /// A count of the summary.
    pub(crate) fn count(&self, name: &str) -> u64 {
        self.summary[name].as_u64().unwrap_or_else(|| panic!("no count {name} in {:#}", self.summary))
    }

    /// A request's line in the summary.
    pub(crate) fn request(&self, id: &str) -> &Value {
        let mut requests = self.summary["requests"].as_array().unwrap().iter();
        requests.find(|request| request["requestID"] == id).unwrap_or_else(|| panic!("no request {id}"))
    }

    /// The facts of a request, best first.
    pub(crate) fn facts(&self, request: &str) -> Vec<&str> {
        let nuggets = self.nuggets.iter().filter(|nugget| nugget["requestID"] == request);
        nuggets.map(|nugget| nugget["factText"].as_str().unwrap()).collect()
    }

    /// The nugget of a request whose fact begins so.
    pub(crate) fn nugget(&self, request: &str, begins: &str) -> &Value {
        let of_request = |nugget: &&Value| nugget["requestID"] == request;
        let begins_so = |nugget: &&Value| nugget["factText"].as_str().unwrap().starts_with(begins);
        let found = self.nuggets.iter().filter(of_request).find(begins_so);
        found.unwrap_or_else(|| panic!("no nugget \"{begins}\" among {:#?}", self.facts(request)))
    }

    /// The items of a request's shard in the order of arrival.
    pub(crate) fn shard(&self, event: &str, request: &str) -> Vec<String> {
        let path = self.folder.join("state/shards").join(event).join(request);
        let snapshot = nuggetd::index::Snapshot::open(&path, None).unwrap();
        (0..snapshot.items()).map(|arrival| snapshot.item(arrival).unwrap().stream_id.to_string()).collect()
    }
}
