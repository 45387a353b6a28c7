//! BM25, term by term over a dense array of scores.

use super::{
    Hit,
    terms::{Vocabulary, Weighted},
};
use crate::index::{IndexError, Snapshot};

const K1: f64 = 1.2;
const B: f64 = 0.75;
const K3: f64 = 8.0;

/// Scores documents; the arrays are kept from query to query.
pub(super) struct Scorer {
    scores: Vec<f64>,
    touched: Vec<u32>,
    seen: Vec<bool>,
}

impl Scorer {
    pub(super) fn new(items: u32) -> Self {
        Self { scores: vec![0.0; items as usize], touched: Vec::new(), seen: vec![false; items as usize] }
    }

    /// The documents that hold a term of the query, best first, ties by arrival; at most `top`.
    pub(super) fn best(
        &mut self,
        snapshot: &Snapshot,
        vocabulary: &Vocabulary,
        query: &[Weighted],
        top: usize,
    ) -> Result<Vec<Hit>, IndexError> {
        let documents = f64::from(snapshot.documents());
        let average_length = snapshot.total_length() as f64 / documents;
        for &Weighted { term, weight } in query {
            let postings = vocabulary.postings(term, snapshot)?;
            let holding = postings.len() as f64;
            let idf = ((documents - holding + 0.5) / (holding + 0.5)).log2();
            let of_query = (K1 + 1.0) * (K3 + 1.0) * weight / (K3 + weight);
            for posting in &postings {
                let count = f64::from(posting.count);
                let length = f64::from(snapshot.length(posting.arrival));
                let normal = K1 * ((1.0 - B) + B * length / average_length) + count;
                self.add(posting.arrival, count * of_query / normal * idf);
            }
        }
        Ok(self.take_best(top))
    }

    fn add(&mut self, arrival: u32, score: f64) {
        let at = arrival as usize;
        if let (Some(total), Some(seen)) = (self.scores.get_mut(at), self.seen.get_mut(at)) {
            *total += score;
            if !*seen {
                *seen = true;
                self.touched.push(arrival);
            }
        }
    }

    /// Takes the best and clears the arrays.
    fn take_best(&mut self, top: usize) -> Vec<Hit> {
        let mut hits = Vec::with_capacity(self.touched.len());
        for arrival in self.touched.drain(..) {
            let at = arrival as usize;
            if let (Some(score), Some(seen)) = (self.scores.get_mut(at), self.seen.get_mut(at)) {
                hits.push(Hit { arrival, score: *score });
                *score = 0.0;
                *seen = false;
            }
        }
        let better = |a: &Hit, b: &Hit| b.score.total_cmp(&a.score).then(a.arrival.cmp(&b.arrival));
        if hits.len() > top {
            hits.select_nth_unstable_by(top, better);
            hits.truncate(top);
        }
        hits.sort_unstable_by(better);
        hits
    }
}
