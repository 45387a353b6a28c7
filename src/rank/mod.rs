//! From a query's hits to candidates with a relevance in `0..=1`: by a model where one is configured, else by BM25.
//!
//! A model is a MonoT5 (Nogueira et al. 2020) or a cross-encoder with one logit, in ONNX Runtime. It is owned by one
//! thread; whoever has pairs to score sends them there and waits. Scores come in the order of the texts, and no pair's
//! score depends on the pairs that it shares a batch with, nor on how often it was asked for.

mod batches;
mod candidate;
mod config;
pub mod filter;
mod folder;
mod graph;
mod library;
mod prompt;
mod reranker;

use std::path::{Path, PathBuf};

pub use candidate::{Candidate, by_bm25, by_model, fusion_share};
pub use config::{Device, RerankConfig};
pub use library::{PROBE, probe};
pub use reranker::Reranker;

/// A text that may answer a query.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pair<'a> {
    /// The question.
    pub query: &'a str,
    /// The clean text.
    pub text: &'a str,
}

/// Scores pairs.
pub trait Scorer: Send + Sync {
    /// For each pair, in their order, the natural logarithm of the probability that the text answers the query.
    fn score(&self, pairs: &[Pair<'_>]) -> Result<Vec<f64>, RerankError>;

    /// The model's name.
    fn name(&self) -> &str;

    /// Of the hits of a query, how many are scored.
    fn top(&self) -> usize;
}

/// Why there are no scores.
#[derive(Debug, Clone, thiserror::Error)]
pub enum RerankError {
    /// ONNX Runtime's library.
    #[error("ONNX Runtime: {0}")]
    Library(String),
    /// A file of the model's folder, or the folder.
    #[error("reranker {}: {reason}", path.display())]
    Model {
        /// Which one.
        path: PathBuf,
        /// What is wrong, and what to do.
        reason: String,
    },
    /// The model was run, twice, and gave no scores.
    #[error("the reranker failed: {0}")]
    Failed(String),
    /// Told to stop before all were scored.
    #[error("reranking was stopped")]
    Cancelled,
}

impl RerankError {
    /// Whether what is configured cannot be used, rather than what was asked of it.
    pub fn is_of_configuration(&self) -> bool {
        matches!(self, Self::Library(_) | Self::Model { .. })
    }

    fn model(path: &Path, reason: impl Into<String>) -> Self {
        Self::Model { path: path.to_owned(), reason: reason.into() }
    }
}
