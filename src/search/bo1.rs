//! Query expansion by Bose-Einstein statistics (Bo1): the terms that the best items hold more often than chance.

use std::collections::HashMap;

use super::{
    Hit, SearchConfig,
    terms::{TermId, Vocabulary, Weighted},
};
use crate::index::{Analyzer, IndexError, Snapshot};

/// A term that does not stand in the query must stand in this many of the feedback items.
const FEWEST_ITEMS: u32 = 2;

#[derive(Default, Clone, Copy)]
struct InFeedback {
    occurrences: u32,
    items: u32,
}

/// The query with the best expansion terms added; the largest weight is 1.
pub(super) fn expand(
    snapshot: &Snapshot,
    analyzer: &mut Analyzer,
    vocabulary: &mut Vocabulary,
    query: &[Weighted],
    first: &[Hit],
    config: &SearchConfig,
) -> Result<Vec<Weighted>, IndexError> {
    let feedback = first.get(..config.feedback_items).unwrap_or(first);
    let bag = bag_of_terms(snapshot, analyzer, vocabulary, feedback)?;

    let documents = f64::from(snapshot.documents());
    let mut informative: Vec<Weighted> = Vec::new();
    for (&term, found) in &bag {
        if found.items < FEWEST_ITEMS && !query.iter().any(|own| own.term == term) {
            continue;
        }
        let in_shard: u64 =
            vocabulary.postings(term, snapshot)?.iter().map(|posting| u64::from(posting.count)).sum();
        let weight = informativeness(f64::from(found.occurrences), in_shard as f64 / documents);
        informative.push(Weighted { term, weight });
    }
    informative.sort_by(|a, b| {
        let by_term = || vocabulary.key(a.term).cmp(vocabulary.key(b.term));
        b.weight.total_cmp(&a.weight).then_with(by_term).then(a.term.cmp(&b.term))
    });
    // Terrier's normaliser is not the largest weight but what the best term would weigh if the shard held it in the
    // feedback items alone.
    let normaliser = informative.first().and_then(|best| bag.get(&best.term)).map_or(1.0, |best| {
        let occurrences = f64::from(best.occurrences);
        informativeness(occurrences, occurrences / documents)
    });
    informative.truncate(config.feedback_terms.max(query.len()));

    let mut expanded = query.to_vec();
    for Weighted { term, weight } in informative {
        let weight = weight / normaliser;
        match expanded.iter_mut().find(|own| own.term == term) {
            Some(own) => own.weight += weight,
            None => expanded.push(Weighted { term, weight }),
        }
    }
    // PyTerrier hands the expanded query on as text, with nine decimals
    for term in &mut expanded {
        term.weight = (term.weight * 1e9).round() / 1e9;
    }
    let largest = expanded.iter().map(|term| term.weight).fold(f64::MIN_POSITIVE, f64::max);
    for term in &mut expanded {
        term.weight /= largest;
    }
    Ok(expanded)
}

/// How much more often the feedback items hold a term than chance, `expected` times an item, would have it.
fn informativeness(occurrences: f64, expected: f64) -> f64 {
    occurrences * ((1.0 + expected) / expected).log2() + (1.0 + expected).log2()
}

/// The feedback items as one bag.
fn bag_of_terms(
    snapshot: &Snapshot,
    analyzer: &mut Analyzer,
    vocabulary: &mut Vocabulary,
    feedback: &[Hit],
) -> Result<HashMap<TermId, InFeedback>, IndexError> {
    let mut bag: HashMap<TermId, InFeedback> = HashMap::new();
    for hit in feedback {
        let language = snapshot.language(hit.arrival);
        let clean = snapshot.item(hit.arrival)?.clean;
        let mut of_item: HashMap<TermId, u32> = HashMap::new();
        analyzer.for_each_term(language, &clean, |form| {
            *of_item.entry(vocabulary.term(language, form)).or_default() += 1;
        });
        for (term, occurrences) in of_item {
            let found = bag.entry(term).or_default();
            found.occurrences += occurrences;
            found.items += 1;
        }
    }
    Ok(bag)
}
