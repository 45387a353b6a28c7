//! Everything about an item that can be computed without knowing the others: clean text, language, terms, signature.
//!
//! Pure, so it runs on as many threads as there are; what needs the order of items is left to the shard.

use std::sync::Arc;

use xxhash_rust::xxh3::xxh3_64;

use super::{Analysis, Analyzer};
use crate::{
    clean::{Cleaned, Cleaner, Signature},
    model::{Item, Language},
};

/// An item ready for its shard.
#[derive(Clone)]
pub struct Prepared {
    /// The item as it came.
    pub item: Item,
    /// The normalised text.
    pub clean: String,
    /// The language it is analysed in.
    pub language: Language,
    /// The terms, joined by spaces.
    pub(super) terms: String,
    /// How many terms there are.
    pub(super) length: u32,
    /// What duplicates are found by.
    pub(super) signature: Signature,
    /// Hash of the author or site.
    pub(super) origin: u64,
}

/// Prepares items. Each thread has its own.
pub struct Preparer {
    cleaner: Option<Arc<Cleaner>>,
    analyzer: Analyzer,
}

impl Preparer {
    /// A preparer that cleans with `cleaner` and stems.
    pub fn new(cleaner: Arc<Cleaner>) -> Self {
        Self { cleaner: Some(cleaner), analyzer: Analyzer::new(Analysis::Stemmed) }
    }

    /// A preparer that leaves the texts as they are: no cleaning, no stop words, no stems.
    pub fn raw() -> Self {
        Self { cleaner: None, analyzer: Analyzer::new(Analysis::Raw) }
    }

    /// Prepares one item of an event with this default language.
    pub fn prepare(&mut self, item: Item, default: Language) -> Prepared {
        let Cleaned { text: clean, language } = match &self.cleaner {
            Some(cleaner) => cleaner.clean(&item.text, &item.source_type, item.language, default),
            None => Cleaned { text: item.text.clone(), language: Language::Other },
        };
        let mut terms = String::with_capacity(clean.len());
        let mut length = 0;
        self.analyzer.for_each_term(language, &clean, |term| {
            if length > 0 {
                terms.push(' ');
            }
            terms.push_str(term);
            length += 1;
        });
        let signature = Signature::of(&clean);
        let origin = match &item.origin {
            Some(origin) => xxh3_64(origin.to_lowercase().as_bytes()),
            None => xxh3_64(item.stream_id.as_str().as_bytes()),
        };
        Prepared { item, clean, language, terms, length, signature, origin }
    }
}
