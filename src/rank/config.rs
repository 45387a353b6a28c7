//! What can be configured of reranking.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How candidates are reranked by a model.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct RerankConfig {
    /// The folder of a model: one that `scripts/export_monot5.py` or `optimum-cli export onnx` wrote, or a
    /// cross-encoder with one logit; empty = no model, BM25's order.
    pub model: PathBuf,
    /// ONNX Runtime's shared library, 1.24 or newer (`scripts/onnxruntime` gets it); empty = the environment variable
    /// ORT_DYLIB_PATH, else beside the program.
    pub onnxruntime: PathBuf,
    /// Where the model runs: `cpu`, or `cuda`, the first NVIDIA card, for which the library must be built.
    pub device: Device,
    /// Threads of the model; 0 = as many as the process may use.
    #[schemars(range(max = 256))]
    pub threads: usize,
    /// How many of a query's retrieved items are reranked, the best ones of BM25; the others are no candidates.
    #[schemars(range(min = 1, max = 10_000))]
    pub top: usize,
    /// Most tokens of one batch, padding included; a text that is longer is a batch of its own.
    #[schemars(range(min = 16, max = 1_000_000))]
    pub batch_tokens: usize,
    /// How many scores of pairs of query and text are remembered.
    #[schemars(range(max = 10_000_000))]
    pub cache: usize,
    /// The two pieces of the vocabulary that stand for relevant and not relevant, for a model in two graphs; empty =
    /// ▁true and ▁false. A model in one graph was exported for the two that its folder names.
    #[schemars(length(max = 2))]
    pub pieces: Vec<String>,
}

impl Default for RerankConfig {
    fn default() -> Self {
        Self {
            model: PathBuf::new(),
            onnxruntime: PathBuf::new(),
            device: Device::Cpu,
            threads: 0,
            top: 250,
            batch_tokens: 2_048,
            cache: 200_000,
            pieces: Vec::new(),
        }
    }
}

impl RerankConfig {
    /// What types alone cannot say, as (key, message).
    pub fn faults(&self) -> Vec<(&'static str, String)> {
        let pieces = match self.pieces.as_slice() {
            [] => true,
            [relevant, other] => relevant != other,
            _ => false,
        };
        let checks = [
            ((1..=10_000).contains(&self.top), "rerank.top", "must lie within 1 and 10000"),
            (self.threads <= 256, "rerank.threads", "must be at most 256"),
            (self.cache <= 10_000_000, "rerank.cache", "must be at most 10000000"),
            (
                (16..=1_000_000).contains(&self.batch_tokens),
                "rerank.batch_tokens",
                "must lie within 16 and 1000000",
            ),
            (pieces, "rerank.pieces", "must name two different pieces, or none"),
        ];
        let wrong = checks.into_iter().filter(|(holds, ..)| !holds);
        wrong.map(|(_, key, message)| (key, message.to_owned())).collect()
    }

    /// Whether a model is configured.
    pub fn has_model(&self) -> bool {
        !self.model.as_os_str().is_empty()
    }
}

/// Where a model runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Device {
    /// The processor.
    Cpu,
    /// The first NVIDIA card.
    Cuda,
}
