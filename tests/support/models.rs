//! The small models of `tests/fixtures/models`, which `scripts/reference/monot5_models.py` makes, and ONNX Runtime.

use std::{
    env, fs,
    io::Write,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
};

use serde_json::Value;

/// ONNX Runtime's library; nothing, with a line that says so, where there is none.
pub(crate) fn library() -> Option<PathBuf> {
    let library = env::var_os("ORT_DYLIB_PATH").map(PathBuf::from).filter(|path| path.exists());
    if library.is_none() {
        super::skipped("no ONNX Runtime (ORT_DYLIB_PATH=$(scripts/onnxruntime))");
    }
    library
}

/// A model of the fixtures.
pub(crate) fn model(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/models").join(name)
}

/// The lines of a model's `reference_scores.jsonl`.
pub(crate) fn reference(folder: &Path) -> Vec<Value> {
    let text = fs::read_to_string(folder.join("reference_scores.jsonl")).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Runs `nuggetd rerank` over pairs.
pub(crate) fn rerank(model: &Path, pairs: &[Value], settings: &[&str]) -> Output {
    let mut command = command(model);
    for setting in settings {
        command.args(["--set", setting]);
    }
    let lines: Vec<String> = pairs.iter().map(ToString::to_string).collect();
    output(&mut command, &lines.join("\n"))
}

pub(crate) fn command(model: &Path) -> Command {
    let mut command = super::nuggetd();
    command.arg("rerank").arg("--model").arg(model);
    command
}

pub(crate) fn output(command: &mut Command, input: &str) -> Output {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let input = input.to_owned();
    let writing = std::thread::spawn(move || {
        // It may have ended with an error before it read all
        stdin.write_all(input.as_bytes()).unwrap_or_default();
    });
    let output = child.wait_with_output().unwrap();
    writing.join().unwrap();
    output
}

/// A copy of a model's folder, to be damaged.
pub(crate) fn copy(model: &Path, to: &Path) -> PathBuf {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(model).unwrap() {
        let entry = entry.unwrap();
        fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
    }
    to.to_owned()
}
