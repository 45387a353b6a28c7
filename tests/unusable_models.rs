//! A model or a library that cannot be used is one line that names the file, soon, and never a run without it.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod support;

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    time::{Duration, Instant},
};

use serde_json::{Value, json};
use support::{
    Folder,
    models::{command, copy, library, model, output},
};

const PAIR: &str = "{\"query\":\"q\",\"document\":\"d\"}\n";

/// Runs the command; it must refuse with one line that has these parts.
fn refused(command: &mut Command, parts: &[&str]) {
    let began = Instant::now();
    let output = output(command, PAIR);
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(64), "{errors}");
    assert!(began.elapsed() < Duration::from_secs(10), "{errors}");
    assert!(output.stdout.is_empty(), "{errors}");
    let lines: Vec<&str> = errors.lines().collect();
    let [line] = lines.as_slice() else { panic!("not one line: {errors}") };
    assert!(line.starts_with("error: "), "{line}");
    for part in parts {
        assert!(line.contains(part), "{line:?} has no {part:?}");
    }
}

fn rewrite(path: &Path, change: impl FnOnce(&mut Value)) {
    let mut value: Value = serde_json::from_slice(&fs::read(path).unwrap()).unwrap();
    change(&mut value);
    fs::write(path, value.to_string()).unwrap();
}

/// The fused model without checksums, so that a damage is found by what reads it.
fn unchecked(folder: &Folder, name: &str) -> PathBuf {
    let copy = copy(&model("t5-fused"), &folder.path(name));
    rewrite(&copy.join("nuggetd-model.json"), |manifest| manifest["sha256"] = json!({}));
    copy
}

#[test]
fn a_folder_that_is_none() {
    let folder = Folder::new();
    refused(&mut command(&folder.path("nowhere")), &["nowhere", "no such folder"]);
    fs::write(folder.path("file"), "x").unwrap();
    refused(&mut command(&folder.path("file")), &["file", "a model is a folder"]);
    fs::create_dir(folder.path("empty")).unwrap();
    refused(&mut command(&folder.path("empty")), &["tokenizer.json", "is missing"]);
}

#[test]
fn files_that_are_missing_empty_or_cut() {
    if library().is_none() {
        return;
    }
    let folder = Folder::new();
    let whole = fs::read(model("t5-fused").join("model.onnx")).unwrap();
    for (name, bytes, part) in [
        ("missing", None, "is missing"),
        ("empty", Some(&whole[..0]), "is empty"),
        ("cut", Some(&whole[..whole.len() / 2]), "checksum"),
    ] {
        let copy = copy(&model("t5-fused"), &folder.path(name));
        fs::remove_file(copy.join("model.onnx")).unwrap();
        if let Some(bytes) = bytes {
            fs::write(copy.join("model.onnx"), bytes).unwrap();
        }
        refused(&mut command(&copy), &["model.onnx", part]);
    }
    let cut = unchecked(&folder, "cut without checksum");
    fs::write(cut.join("model.onnx"), &whole[..whole.len() / 2]).unwrap();
    refused(&mut command(&cut), &["model.onnx", "cannot be run"]);
    let noise = unchecked(&folder, "noise");
    fs::write(noise.join("model.onnx"), "no model").unwrap();
    refused(&mut command(&noise), &["model.onnx", "cannot be run"]);
}

#[test]
fn a_model_of_another_kind() {
    if library().is_none() {
        return;
    }
    let folder = Folder::new();
    let of_pairs = unchecked(&folder, "pairs for t5");
    fs::copy(model("cross-encoder").join("model.onnx"), of_pairs.join("model.onnx")).unwrap();
    refused(&mut command(&of_pairs), &["model.onnx", "a model of its kind"]);
    let encoder = unchecked(&folder, "encoder alone");
    fs::copy(model("t5-two-files").join("encoder_model.onnx"), encoder.join("model.onnx")).unwrap();
    refused(&mut command(&encoder), &["model.onnx", "a model of its kind gives"]);
    let swapped = copy(&model("t5-two-files"), &folder.path("swapped"));
    fs::copy(swapped.join("encoder_model.onnx"), swapped.join("decoder_model.onnx")).unwrap();
    refused(&mut command(&swapped), &["decoder_model.onnx", "a model of its kind"]);
    let start = copy(&model("t5-two-files"), &folder.path("start"));
    rewrite(&start.join("config.json"), |config| config["decoder_start_token_id"] = json!(-1));
    refused(&mut command(&start), &["config.json", "decoder_start_token_id"]);
    let short = copy(&model("cross-encoder"), &folder.path("short"));
    rewrite(&short.join("config.json"), |config| config["max_position_embeddings"] = json!(4));
    refused(&mut command(&short), &["tokenizer.json", "no room"]);
    let checkpoint = folder.path("checkpoint");
    fs::create_dir(&checkpoint).unwrap();
    fs::copy(model("t5-fused").join("tokenizer.json"), checkpoint.join("tokenizer.json")).unwrap();
    fs::write(
        checkpoint.join("config.json"),
        json!({"model_type": "t5", "architectures": ["T5ForConditionalGeneration"]}).to_string(),
    )
    .unwrap();
    refused(&mut command(&checkpoint), &["checkpoint", "t5", "export_monot5"]);
    let many = copy(&model("cross-encoder"), &folder.path("many labels"));
    rewrite(&many.join("config.json"), |config| {
        config["id2label"] = json!({"0": "A", "1": "B", "2": "C"});
        config["num_labels"] = json!(3);
    });
    refused(&mut command(&many), &["config.json", "3 labels"]);
}

#[test]
fn a_description_that_cannot_be_understood() {
    let folder = Folder::new();
    let newer = copy(&model("t5-fused"), &folder.path("newer"));
    rewrite(&newer.join("nuggetd-model.json"), |manifest| manifest["format"] = json!(2));
    refused(&mut command(&newer), &["nuggetd-model.json", "format 2"]);
    let kind = copy(&model("t5-fused"), &folder.path("kind"));
    rewrite(&kind.join("nuggetd-model.json"), |manifest| manifest["kind"] = json!("oracle"));
    refused(&mut command(&kind), &["nuggetd-model.json", "oracle"]);
    let template = copy(&model("t5-fused"), &folder.path("template"));
    rewrite(&template.join("nuggetd-model.json"), |manifest| {
        manifest["template"] = json!("{document} {query}");
    });
    refused(&mut command(&template), &["nuggetd-model.json", "{query}"]);
    let outside = copy(&model("t5-fused"), &folder.path("outside"));
    rewrite(&outside.join("nuggetd-model.json"), |manifest| manifest["model"] = json!("../model.onnx"));
    refused(&mut command(&outside), &["nuggetd-model.json", "../model.onnx"]);
    let broken = copy(&model("t5-fused"), &folder.path("broken"));
    fs::write(broken.join("nuggetd-model.json"), "{").unwrap();
    refused(&mut command(&broken), &["nuggetd-model.json", "cannot be understood"]);
}

#[test]
fn a_tokenizer_that_is_none_or_lacks_the_pieces() {
    let folder = Folder::new();
    let broken = unchecked(&folder, "broken");
    fs::write(broken.join("tokenizer.json"), "{}").unwrap();
    refused(&mut command(&broken), &["tokenizer.json", "is no tokenizer"]);
    let pieces = "rerank.pieces=[\"▁sim\", \"▁não\"]";
    let asked = ["--set", pieces];
    refused(command(&model("t5-two-files")).args(asked), &["tokenizer.json", "▁sim", "rerank.pieces"]);
    refused(command(&model("t5-fused")).args(asked), &["t5-fused", "▁true", "▁sim", "--pieces"]);
    refused(command(&model("cross-encoder")).args(asked), &["cross-encoder", "no pieces"]);
    for bound in ["threads=257", "top=0", "cache=10000001", "batch_tokens=15"] {
        let (key, _) = bound.split_once('=').unwrap();
        let refused = output(command(&model("t5-fused")).args(["--set", &format!("rerank.{bound}")]), PAIR);
        let errors = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert_eq!(refused.status.code(), Some(64), "{errors}");
        assert!(errors.contains(&format!("rerank.{key} must")), "{errors}");
    }
}

#[test]
fn a_tokenizer_of_another_model() {
    if library().is_none() {
        return;
    }
    let folder = Folder::new();
    let other = unchecked(&folder, "ids that the model does not have");
    rewrite(&other.join("tokenizer.json"), |tokenizer| {
        let pieces = tokenizer["model"]["vocab"].as_array_mut().unwrap();
        let known = pieces.len();
        for number in 0..known {
            pieces.insert(3, json!([format!("none{number}"), -20.0]));
        }
    });
    refused(&mut command(&other), &["model.onnx", "cannot be run"]);
}

#[test]
fn a_library_that_is_none() {
    let folder = Folder::new();
    let with = |path: &Path| {
        let mut command = command(&model("t5-fused"));
        command.env("ORT_DYLIB_PATH", path);
        command
    };
    refused(&mut with(&folder.path("nowhere.so")), &["nowhere.so", "scripts/onnxruntime"]);
    fs::write(folder.path("text.so"), "no library").unwrap();
    refused(&mut with(&folder.path("text.so")), &["text.so", "no shared library"]);
    refused(&mut with(&folder.path(".")), &["is no file"]);
    fs::write(folder.path("empty.so"), "").unwrap();
    refused(&mut with(&folder.path("empty.so")), &["empty.so", "no shared library"]);
    refused(
        command(&model("t5-fused")).env_remove("ORT_DYLIB_PATH"),
        &["no library is configured", "scripts/onnxruntime"],
    );
    let setting = format!("rerank.onnxruntime={}", folder.path("other.so").display());
    refused(command(&model("t5-fused")).args(["--set", &setting]), &["other.so"]);
}

#[test]
fn a_library_that_is_cut_old_another_one_or_does_not_come_back() {
    let folder = Folder::new();
    let with = |path: &Path| {
        let mut command = command(&model("t5-fused"));
        command.env("ORT_DYLIB_PATH", path);
        command
    };
    if let Some(library) = library() {
        let whole = fs::read(library).unwrap();
        for length in [40, 4_096, whole.len() / 2, whole.len() - 1] {
            fs::write(folder.path("cut.so"), &whole[..length]).unwrap();
            refused(&mut with(&folder.path("cut.so")), &["cut.so"]);
        }
    }
    let old = "struct base { void *(*api)(unsigned); const char *(*version)(void); };
        static void *api(unsigned wanted) { return 0; }
        static const char *version(void) { return \"1.16.3\"; }
        const struct base *OrtGetApiBase(void) { static const struct base base = { api, version }; return &base; }";
    refused(&mut with(&compiled(&folder, "old", old)), &["old.so", "1.24", "1.16.3"]);
    refused(&mut with(&compiled(&folder, "other", "int x;")), &["other.so", "OrtGetApiBase"]);
    let waits =
        "unsigned sleep(unsigned); __attribute__((constructor)) static void wait(void) { sleep(60); }";
    refused(&mut with(&compiled(&folder, "waits", waits)), &["waits.so", "was not loaded within"]);
}

/// A shared library of this C source.
fn compiled(folder: &Folder, name: &str, source: &str) -> PathBuf {
    let (from, to) = (folder.path(&format!("{name}.c")), folder.path(&format!("{name}.so")));
    fs::write(&from, source).unwrap();
    let compiled = Command::new("cc").args(["-shared", "-fPIC", "-o"]).args([&to, &from]).status().unwrap();
    assert!(compiled.success());
    to
}

#[test]
fn a_card_that_is_not_there_is_said() {
    let Some(library) = library() else { return };
    if library.to_string_lossy().contains("cuda") {
        return;
    }
    refused(command(&model("t5-fused")).args(["--set", "rerank.device=cuda"]), &["model.onnx", "CUDA"]);
}
