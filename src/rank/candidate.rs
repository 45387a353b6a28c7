//! Candidates, and their order.
//!
//! With a model the order is that of its scores, and a candidate's relevance is the probability that they stand for.
//! Without one the order is BM25's, and a candidate's relevance is its score brought to `0..=1` by the smallest and the
//! largest score of its query (min-max).
//!
//! Over all queries of a request, items are ordered by their best probability. BM25's scores of different queries are not
//! comparable, but ranks are: without a model they are ordered by reciprocal rank fusion (Cormack, Clarke & Büttcher
//! 2009). See `docs/QUALITY.md` for what it gains.

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

/// How many steps of a score are told apart in 1: the same pair in another batch differs in the last bits of an f32.
const STEPS: f64 = 1e4;

/// Candidates in the order of their scores by a model, which are natural logarithms of probabilities; where these are
/// equal, in BM25's. `scores` belong to the first hits; hits beyond them are no candidates.
pub fn by_model(hits: &[Hit], scores: &[f64]) -> Vec<Candidate> {
    let coarse = |score: f64| (score * STEPS).round() / STEPS;
    let mut ordered: Vec<(f64, u32)> =
        hits.iter().zip(scores).map(|(hit, &score)| (coarse(score), hit.arrival)).collect();
    // Stable, so that equal ones stay as they were
    ordered.sort_by(|a, b| b.0.total_cmp(&a.0));
    ordered.into_iter().map(|(score, arrival)| Candidate { arrival, relevance: probability(score) }).collect()
}

/// The probability that a score stands for, as exact as the score is.
fn probability(score: f64) -> f64 {
    (score.exp().clamp(0.0, 1.0) * STEPS).round() / STEPS
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

    #[test]
    fn a_models_scores_decide_and_bm25_decides_between_equal_ones() {
        let hits = [0, 1, 2, 3, 4].map(|arrival| Hit { arrival, score: 9.0 - f64::from(arrival) });
        let scores = [-2.0, -0.000_01, -0.1, -0.000_02];
        let candidates = by_model(&hits, &scores);
        let order: Vec<u32> = candidates.iter().map(|candidate| candidate.arrival).collect();
        assert_eq!(order, [1, 3, 2, 0], "what was not scored is no candidate");
        let expected = [1.0, 1.0, 0.9048, 0.1353];
        for (candidate, expected) in candidates.iter().zip(expected) {
            assert!((candidate.relevance - expected).abs() < 1e-9, "{candidate:?}");
        }
    }
}
