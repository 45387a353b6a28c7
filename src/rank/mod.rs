//! From a query's hits to candidates with a relevance in `0..=1`.
//!
//! Without a model the order is BM25's, and a candidate's relevance is its score brought to `0..=1` by the smallest
//! and the largest score of its query (min-max).

use crate::search::Hit;

/// An item retrieved for one (request, query).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Candidate {
    /// The item's arrival number.
    pub arrival: u32,
    /// How well it answers the query, in `0..=1`.
    pub relevance: f64,
    /// The score that the relevance comes from, comparable between the queries of one request.
    pub score: f64,
}

/// Candidates in BM25's order. Where all scores are equal every candidate is wholly relevant.
pub fn by_bm25(hits: &[Hit]) -> Vec<Candidate> {
    let smallest = hits.iter().map(|hit| hit.score).fold(f64::INFINITY, f64::min);
    let largest = hits.iter().map(|hit| hit.score).fold(f64::NEG_INFINITY, f64::max);
    let range = largest - smallest;
    let relevance = |score: f64| if range > 0.0 { (score - smallest) / range } else { 1.0 };
    hits.iter()
        .map(|hit| Candidate { arrival: hit.arrival, relevance: relevance(hit.score), score: hit.score })
        .collect()
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
        assert_eq!(by_bm25(&hits), [Candidate { arrival: 3, relevance: 1.0, score: 2.5 }]);
        assert!(by_bm25(&[]).is_empty());
    }
}
