//! Scores are those that PyTorch gives for each pair alone, whatever shares a batch with it, in the order of the pairs.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod support;

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use serde_json::Value;
use support::{
    models::{library, model, reference, rerank},
    skipped,
};

/// Of 32-bit floats; 8-bit integers have their own reference, made with the same graph.
const LARGEST_DIFFERENCE: f64 = 1e-4;

fn scores(folder: &Path, pairs: &[Value], settings: &[&str]) -> Vec<Value> {
    let output = rerank(folder, pairs, settings);
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{errors}");
    let text = String::from_utf8(output.stdout).unwrap();
    let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len(), pairs.len(), "{errors}");
    for (line, pair) in lines.iter().zip(pairs) {
        assert_eq!(line["document"], pair["document"], "in the order of the pairs");
    }
    lines
}

fn assert_equal(name: &str, lines: &[Value], reference: &[Value], within: f64) {
    for (number, (line, expected)) in lines.iter().zip(reference).enumerate() {
        let (score, expected) = (line["score"].as_f64().unwrap(), expected["score"].as_f64().unwrap());
        assert!((score - expected).abs() <= within, "{name}, pair {number}: {score}, expected {expected}");
        let probability = line["probability"].as_f64().unwrap();
        assert!(
            (probability - score.exp()).abs() < 1e-12 && (0.0..=1.0).contains(&probability),
            "{name} {number}"
        );
    }
}

fn check(name: &str, settings: &[&str]) {
    if library().is_none() {
        return;
    }
    let folder = model(name);
    let pairs = reference(&folder);
    assert!(pairs.len() >= 60, "{name}");
    for budget in ["16", "512", "2048", "1000000"] {
        let budget = format!("rerank.batch_tokens={budget}");
        let settings: Vec<&str> = settings.iter().copied().chain([budget.as_str()]).collect();
        assert_equal(name, &scores(&folder, &pairs, &settings), &pairs, LARGEST_DIFFERENCE);
    }
}

#[test]
fn monot5_in_one_graph() {
    check("t5-fused", &[]);
}

#[test]
fn monot5_in_two_graphs() {
    check("t5-two-files", &[]);
}

#[test]
fn monot5_with_a_merged_decoder() {
    check("t5-merged", &[]);
}

#[test]
fn mt5_with_pieces_of_its_own() {
    check("mt5-fused", &[]);
}

#[test]
fn a_cross_encoder_with_one_logit() {
    check("cross-encoder", &[]);
}

#[test]
fn in_8_bit_integers_a_score_depends_on_its_own_pair_alone() {
    if library().is_none() {
        return;
    }
    let folder = model("t5-fused-int8");
    let pairs = reference(&folder);
    let alone = scores(&folder, &pairs, &["rerank.batch_tokens=16"]);
    let together = scores(&folder, &pairs, &["rerank.batch_tokens=1000000"]);
    assert_equal("t5-fused-int8", &together, &alone, 1e-3);
    let mut reversed = pairs.clone();
    reversed.reverse();
    let mut backwards = scores(&folder, &reversed, &["rerank.batch_tokens=2048"]);
    backwards.reverse();
    assert_equal("t5-fused-int8", &backwards, &alone, 1e-3);
    // Near the model with 32-bit floats
    assert_equal("t5-fused-int8", &alone, &pairs, 0.5);
}

/// Folders named by this variable hold a model each, exported from the model of which the reference scores lie there.
#[test]
fn the_reference_model_exported_here() {
    if library().is_none() {
        return;
    }
    let exported = std::env::var_os("NUGGETD_TEST_EXPORTED").map(PathBuf::from).filter(|path| path.is_dir());
    let Some(exported) = exported else {
        skipped("no exported reference model (scripts/reference/export_reference_model)");
        return;
    };
    let pairs = reference(&exported);
    assert!(pairs.len() >= 200);
    let mut seen = BTreeMap::new();
    for name in ["fused", "two-files"] {
        for budget in ["16", "448", "2048", "1000000"] {
            let lines = scores(&exported.join(name), &pairs, &[&format!("rerank.batch_tokens={budget}")]);
            let far: Vec<usize> = (0..pairs.len())
                .filter(|&at| {
                    let difference =
                        lines[at]["score"].as_f64().unwrap() - pairs[at]["score"].as_f64().unwrap();
                    difference.abs() > LARGEST_DIFFERENCE
                })
                .collect();
            seen.insert((name, budget), far);
        }
    }
    // Of one pair ("…ALREADY!!!!…") the tokens are a tie down to the last bit, which the reference broke the other way
    for (of, far) in seen {
        assert!(far.len() <= 1 && far.iter().all(|&at| at == 174), "{of:?}: {far:?}");
    }
}
