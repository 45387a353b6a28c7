//! A good selection to start from: greedy, then single exchanges.
//!
//! Greed reaches at least 1 − 1/e of the best weight (Nemhauser, Wolsey & Fisher 1978), and exchanges never lose any.

use std::cmp::Reverse;

use super::branch::Core;

/// A selection.
pub(super) struct Start {
    pub(super) chosen: Vec<usize>,
    pub(super) weight: u64,
    /// Visits of a document or of a concept of a document.
    pub(super) work: u64,
}

/// The greedy selection of at most `budget` documents, improved by exchanges until none helps or the work is done.
pub(super) fn start(core: &Core, budget: usize, most_work: u64) -> Start {
    let mut gains = Gains::new(core);
    let mut selection: Vec<usize> = Vec::with_capacity(budget);
    let mut weight = 0;
    while let Some(next) = gains.largest().filter(|_| selection.len() < budget) {
        weight += gains.of[next];
        gains.take(next);
        selection.push(next);
    }
    let mut at = 0;
    let mut unchanged = 0;
    while unchanged < selection.len() && gains.work < most_work {
        let out = selection[at];
        gains.put_back(out);
        let next = gains.largest().filter(|&next| gains.of[next] > gains.of[out]).unwrap_or(out);
        weight = weight - gains.of[out] + gains.of[next];
        gains.take(next);
        selection[at] = next;
        unchanged = if next == out { unchanged + 1 } else { 0 };
        at = (at + 1) % selection.len();
    }
    Start { chosen: selection, weight, work: gains.work }
}

/// What each document adds to a selection, kept up to date while the selection changes.
struct Gains<'a> {
    core: &'a Core,
    /// Per concept the documents that hold it.
    holders: Vec<Vec<usize>>,
    /// Per concept how many documents of the selection hold it.
    times: Vec<u32>,
    /// Per document the weight it adds.
    of: Vec<u64>,
    outside: Vec<bool>,
    work: u64,
}

impl<'a> Gains<'a> {
    /// Nothing is selected yet.
    fn new(core: &'a Core) -> Self {
        let mut gains = Self {
            core,
            holders: vec![Vec::new(); core.weights.len()],
            times: vec![0; core.weights.len()],
            of: core.own.clone(),
            outside: vec![true; core.documents()],
            work: 0,
        };
        for document in 0..core.documents() {
            gains.work += core.held(document).len() as u64;
            for &concept in core.held(document) {
                gains.holders[concept as usize].push(document);
                gains.of[document] += core.weights[concept as usize];
            }
        }
        gains
    }

    /// The document outside the selection that adds most, the first among equals.
    fn largest(&mut self) -> Option<usize> {
        self.work += self.of.len() as u64;
        let outside = (0..self.of.len()).filter(|&document| self.outside[document]);
        outside.max_by_key(|&document| (self.of[document], Reverse(document)))
    }

    fn take(&mut self, document: usize) {
        self.outside[document] = false;
        for &concept in self.core.held(document) {
            let concept = concept as usize;
            self.times[concept] += 1;
            if self.times[concept] == 1 {
                self.work += self.holders[concept].len() as u64;
                for &holder in &self.holders[concept] {
                    self.of[holder] -= self.core.weights[concept];
                }
            }
        }
    }

    fn put_back(&mut self, document: usize) {
        self.outside[document] = true;
        for &concept in self.core.held(document) {
            let concept = concept as usize;
            self.times[concept] -= 1;
            if self.times[concept] == 0 {
                self.work += self.holders[concept].len() as u64;
                for &holder in &self.holders[concept] {
                    self.of[holder] += self.core.weights[concept];
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_exchange_mends_what_greed_chose_first() {
        // Greed takes the first document for its weight of 8; the two others together reach everything
        let core =
            Core::new(&[vec![0, 1, 2, 3], vec![0, 1, 4], vec![2, 3, 4]], vec![0, 3, 3], vec![2, 2, 2, 2, 1]);
        let greedy = start(&core, 2, 0);
        assert_eq!((greedy.chosen, greedy.weight), (vec![0, 1], 12));
        let mended = start(&core, 2, 1000);
        assert_eq!((mended.chosen, mended.weight), (vec![2, 1], 15));
    }
}
