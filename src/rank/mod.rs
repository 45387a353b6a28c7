//! From a query's hits to candidates with a relevance in `0..=1`.
//!
//! Without a model the order is BM25's, and a candidate's relevance is its score brought to `0..=1` by the smallest
//! and the largest score of its query (min-max).
//!
//! Over all queries of a request, items are ordered by reciprocal rank fusion (Cormack, Clarke & Büttcher 2009): scores
//! of different queries are not comparable, ranks are. See `docs/QUALITY.md` for what it gains.

use crate::search::Hit;

/// An item retrieved for one (request, query).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Candidate {
    /// The item's arrival number.
    pub arrival: u32,
    /// How well it answers the query, in `0..=1`.
    pub relevance: f64,
}

/// Softens the top ranks. The authors' 60 was found on lists of a thousand; ours hold 250.
const FUSION_SOFTNESS: f64 = 10.0;

/// What the place of an item in one query's candidates, from 0, adds to its standing over all queries.
pub fn fusion_share(place: usize) -> f64 {
    1.0 / (FUSION_SOFTNESS + 1.0 + place as f64)
}

/// Candidates in BM25's order. Where all scores are equal every candidate is wholly relevant.
pub fn by_bm25(hits: &[Hit]) -> Vec<Candidate> {
    let smallest = hits.iter().map(|hit| hit.score).fold(f64::INFINITY, f64::min);
    let largest = hits.iter().map(|hit| hit.score).fold(f64::NEG_INFINITY, f64::max);
    let range = largest - smallest;
    let relevance = |score: f64| if range > 0.0 { (score - smallest) / range } else { 1.0 };
    hits.iter().map(|hit| Candidate { arrival: hit.arrival, relevance: relevance(hit.score) }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn relevance_runs_from_one_to_zero_within_a_query() {
        let hits = [4.0, 3.0, -1.0].map(|score| Hit { arrival: 0, score });
        let relevances: Vec<f64> = by_bm25(&hits).iter().map(|candidate| candidate.relevance).collect();
        assert_eq!(relevances, [1.0, 0.8, 0.0]);
    }

    #[test]
    fn equal_scores_are_wholly_relevant() {
        let hits = [Hit { arrival: 3, score: 2.5 }];
        assert_eq!(by_bm25(&hits), [Candidate { arrival: 3, relevance: 1.0 }]);
        assert!(by_bm25(&[]).is_empty());
    }
}
