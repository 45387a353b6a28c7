//! Maximal marginal relevance (Carbonell & Goldstein 1998): the next document is relevant and unlike what was said.
//!
//! A document's score is `λ·relevance − (1 − λ)·max similarity`, to the documents taken before it and to the earlier
//! texts. Scores only fall while documents are taken, so the score of the k-th taken never exceeds that of the one
//! before. Divided by `λ` and cut to `0..=1` it is the nugget's importance: its relevance, less what it repeats.

use super::tfidf::{Vector, cosine};

/// A document that may be taken.
#[derive(Debug, Clone, Copy)]
pub(super) struct Candidate<'a> {
    /// `0..=1`.
    pub(super) relevance: f64,
    pub(super) vector: &'a [(u32, f64)],
}

/// One document taken.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Taken {
    /// Which candidate.
    pub(super) candidate: usize,
    /// Its marginal relevance, `0..=1`.
    pub(super) importance: f64,
}

/// Takes up to `most` candidates. Equal scores go to the earlier candidate, so the better ones should come first.
pub(super) fn order(
    candidates: &[Candidate<'_>],
    earlier: &[Vector],
    lambda: f64,
    most: usize,
) -> Vec<Taken> {
    let similar_to_earlier = |candidate: &Candidate<'_>| {
        earlier.iter().map(|earlier| cosine(candidate.vector, earlier)).fold(0.0, f64::max)
    };
    // Per candidate the largest similarity so far; nothing once it is taken
    let mut open: Vec<Option<f64>> =
        candidates.iter().map(|candidate| Some(similar_to_earlier(candidate))).collect();
    let mut taken = Vec::with_capacity(most.min(candidates.len()));
    while taken.len() < most {
        let mut best: Option<(f64, usize)> = None;
        for (at, (candidate, similarity)) in candidates.iter().zip(&open).enumerate() {
            let Some(similarity) = similarity else { continue };
            let score = lambda * candidate.relevance - (1.0 - lambda) * similarity;
            if best.is_none_or(|(highest, _)| score > highest) {
                best = Some((score, at));
            }
        }
        let Some((score, next)) = best else { break };
        taken.push(Taken { candidate: next, importance: (score / lambda).clamp(0.0, 1.0) });
        open[next] = None;
        for (candidate, similarity) in candidates.iter().zip(&mut open) {
            if let Some(similarity) = similarity {
                *similarity = similarity.max(cosine(candidate.vector, candidates[next].vector));
            }
        }
    }
    taken
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Three directions in a plane: cosine(a, b) = 0.8, cosine(a, c) = 0, cosine(b, c) = 0.6.
    const A: &[(u32, f64)] = &[(0, 1.0)];
    const B: &[(u32, f64)] = &[(0, 0.8), (1, 0.6)];
    const C: &[(u32, f64)] = &[(1, 1.0)];

    fn candidates() -> [Candidate<'static>; 3] {
        [(0.9, A), (0.8, B), (0.7, C)].map(|(relevance, vector)| Candidate { relevance, vector })
    }

    #[test]
    fn the_order_is_the_one_computed_by_hand() {
        // a: 0.8·0.9 = 0.72. Then b: 0.64 − 0.2·0.8 = 0.48, c: 0.56. Then b: 0.64 − 0.2·0.8 = 0.48.
        let taken = order(&candidates(), &[], 0.8, 5);
        let expected = [(0, 0.9), (2, 0.7), (1, 0.6)];
        assert_eq!(taken.len(), 3);
        for (taken, (candidate, importance)) in taken.iter().zip(expected) {
            assert_eq!(taken.candidate, candidate);
            assert!((taken.importance - importance).abs() < 1e-12, "{taken:?}");
        }
    }

    #[test]
    fn what_an_earlier_text_said_counts_against_a_document() {
        // a: 0.72 − 0.2 = 0.52, b: 0.64 − 0.16 = 0.48, c: 0.56
        let taken = order(&candidates(), &[A.to_vec()], 0.8, 1);
        assert_eq!(taken[0].candidate, 2);
    }

    #[test]
    fn equal_scores_go_to_the_earlier_candidate() {
        let same = [Candidate { relevance: 0.5, vector: A }; 2];
        assert_eq!(order(&same, &[], 0.8, 1)[0].candidate, 0);
    }
}
