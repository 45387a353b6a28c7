//! A run with a model names it, takes its probabilities as importance, and is the same whatever the batches.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod support;

use std::{
    fs,
    path::{Path, PathBuf},
};

use support::{
    Folder, Results,
    models::{copy, library, model},
    read_json, replay, root,
};

fn run(name: &str, folder: &Folder, settings: &[&str]) -> PathBuf {
    let out = folder.path(name);
    let flags: Vec<&str> = settings.iter().flat_map(|setting| ["--set", setting]).collect();
    replay(&root().join("demo"), &root().join("demo"), &out, &flags).done();
    out
}

fn files(out: &Path) -> [Vec<u8>; 2] {
    ["run.jsonl", "nuggets.jsonl"].map(|name| fs::read(out.join(name)).unwrap())
}

#[test]
fn a_reranked_run_is_the_same_whatever_the_batches() {
    if library().is_none() {
        return;
    }
    let folder = Folder::new();
    let setting = format!("rerank.model={}", model("t5-fused").display());
    let plain = run("plain", &folder, &[]);
    let one_by_one =
        run("one", &folder, &[&setting, "rerank.batch_tokens=16", "rerank.threads=1", "rerank.cache=0"]);
    let together = run("all", &folder, &[&setting, "rerank.batch_tokens=100000", "rerank.threads=2"]);
    assert!(files(&one_by_one) == files(&together));
    assert!(files(&plain) != files(&together), "the model decides");

    for request in read_json(&together.join("summary.json"))["requests"].as_array().unwrap() {
        assert_eq!(request["reranker"], "t5-fused (fp32)", "{request}");
        assert!(request.get("rerankFailed").is_none());
    }
    for request in read_json(&plain.join("summary.json"))["requests"].as_array().unwrap() {
        assert!(request.get("reranker").is_none(), "{request}");
    }
    assert!(Results::in_folder(&together).count("nuggets") > 0);
}

#[test]
fn a_run_goes_on_with_the_same_model_alone_wherever_it_lies() {
    if library().is_none() {
        return;
    }
    let folder = Folder::new();
    let of = |model: &Path| format!("rerank.model={}", model.display());
    let out = run("run", &folder, &[&of(&model("t5-fused"))]);
    let resumed = |setting: &str| {
        replay(&root().join("demo"), &root().join("demo"), &out, &["--resume", "--set", setting])
    };
    let elsewhere = copy(&model("t5-fused"), &folder.path("elsewhere"));
    resumed(&of(&elsewhere)).done();
    let other = resumed(&of(&model("mt5-fused")));
    assert_eq!(other.code, 2, "{}", other.stderr);
    assert!(other.stderr.contains("another reranker"), "{}", other.stderr);
}

#[test]
fn a_model_that_cannot_be_loaded_begins_nothing() {
    let folder = Folder::new();
    let out = folder.path("run");
    let setting = format!("rerank.model={}", folder.path("nowhere").display());
    let ran = replay(&root().join("demo"), &root().join("demo"), &out, &["--set", &setting]);
    assert_eq!(ran.code, 64, "{}", ran.stderr);
    assert!(ran.stderr.contains("nowhere"), "{}", ran.stderr);
    assert!(!out.exists());
}
