//! Ranking the items of one shard for one query: BM25, expanded by Bo1.
//!
//! Keeps true: on the same tokens the numbers equal those of Terrier 5.11, which the paper used (through PyTerrier).
//! Statistics are the snapshot's own, lengths are exact, ties are broken by arrival. Sources: Robertson & Walker's
//! BM25 as Terrier's `BM25.java` writes it; Bo1 by Amati & van Rijsbergen (2002) as Terrier's `Bo1` and
//! `QueryExpansion` write it.

mod bm25;
mod bo1;
mod terms;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::index::{Analyzer, IndexError, Snapshot};
use crate::model::Language;
use terms::{Vocabulary, Weighted};

/// How items are retrieved for a query. The defaults are the paper's (§3.3).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct SearchConfig {
    /// Items kept for each query.
    #[schemars(range(min = 1, max = 10_000))]
    pub top: usize,
    /// How the query is expanded: `bo1` or `none`.
    pub expand: Expansion,
    /// Items of the first ranking that the expansion learns from.
    #[schemars(range(min = 1, max = 1_000))]
    pub feedback_items: usize,
    /// Fewest terms that the expansion takes; a longer query takes as many as it has terms.
    #[schemars(range(min = 1, max = 1_000))]
    pub feedback_terms: usize,
}

impl Default for SearchConfig {
    fn default() -> Self {
        Self { top: 250, expand: Expansion::Bo1, feedback_items: 20, feedback_terms: 3 }
    }
}

/// How a query is expanded by the items it finds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Expansion {
    /// The informative terms of the best items, by Bose-Einstein statistics.
    Bo1,
    /// None.
    None,
}

/// A retrieved item with its BM25 score (log base 2; may be negative).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Hit {
    /// The item's arrival number.
    pub arrival: u32,
    /// Its score.
    pub score: f64,
}

/// Searches one snapshot; keeps scratch memory between queries.
pub struct Search<'a> {
    snapshot: &'a Snapshot,
    analyzer: &'a mut Analyzer,
    config: &'a SearchConfig,
    scorer: bm25::Scorer,
}

impl<'a> Search<'a> {
    /// A search over `snapshot`. `analyzer` must be of the kind that the shard was written with.
    pub fn new(snapshot: &'a Snapshot, analyzer: &'a mut Analyzer, config: &'a SearchConfig) -> Self {
        Self { snapshot, analyzer, config, scorer: bm25::Scorer::new(snapshot.items()) }
    }

    /// The best items for a query, best first; at most `config.top`.
    pub fn rank(&mut self, text: &str, language: Language) -> Result<Vec<Hit>, IndexError> {
        let mut vocabulary = Vocabulary::new(self.snapshot.languages(), language);
        let query = vocabulary.query(text, self.analyzer);
        let first = self.best(&vocabulary, &query)?;
        if self.config.expand == Expansion::None || first.is_empty() {
            return Ok(first);
        }
        let expanded =
            bo1::expand(self.snapshot, self.analyzer, &mut vocabulary, &query, &first, self.config)?;
        self.best(&vocabulary, &expanded)
    }

    fn best(&mut self, vocabulary: &Vocabulary, query: &[Weighted]) -> Result<Vec<Hit>, IndexError> {
        self.scorer.best(self.snapshot, vocabulary, query, self.config.top)
    }
}
