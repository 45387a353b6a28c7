//! Branch and bound for maximum coverage, with Lagrangian bounds.
//!
//! The links `cᵢ ≤ Σ_{j∋i} sⱼ` are priced with multipliers `0 ≤ λᵢ ≤ wᵢ`. What is left falls apart: every concept
//! counts `wᵢ − λᵢ`, and the `L` documents with the largest prices `Σ_{i∈j} λᵢ` are chosen. Every `λ` so gives an
//! upper bound, the best one equals that of the linear relaxation (Fisher 1981; its polytope is integral in `s`), and
//! one evaluation costs one pass over the documents: no simplex, which takes seconds on a large request. The prices
//! also decide documents for good: one whose forced choice would lower the bound to what is already had cannot be in
//! a better answer. Weights are integers, so a bound below the best answer plus one ends a branch.

use std::{rc::Rc, time::Instant};

use super::{coverage::Limits, exchange};

/// Subgradient steps at the root, and at every other node.
const ROOT_STEPS: u32 = 400;
const NODE_STEPS: u32 = 16;
/// Slack for rounding where bounds are compared with integers.
const ROUNDING: f64 = 1e-6;

/// Documents and concepts after the reductions. A concept has at least two documents.
#[derive(Debug, Clone)]
pub(super) struct Core {
    /// Where each document's concepts start in `concepts`, and the end.
    starts: Vec<usize>,
    concepts: Vec<u32>,
    /// The weight of the concepts that each document holds alone.
    pub(super) own: Vec<u64>,
    pub(super) weights: Vec<u64>,
}

impl Core {
    pub(super) fn new(documents: &[Vec<u32>], own: Vec<u64>, weights: Vec<u64>) -> Self {
        let mut starts = vec![0];
        let mut concepts = Vec::new();
        for document in documents {
            concepts.extend(document);
            starts.push(concepts.len());
        }
        Self { starts, concepts, own, weights }
    }

    pub(super) fn documents(&self) -> usize {
        self.own.len()
    }

    /// The concepts of a document.
    pub(super) fn held(&self, document: usize) -> &[u32] {
        &self.concepts[self.starts[document]..self.starts[document + 1]]
    }
}

/// The best selection found.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) chosen: Vec<usize>,
    /// No selection weighs more.
    pub(super) bound: u64,
    pub(super) work: u64,
}

/// Chooses at most `budget` documents.
pub(super) fn search(core: &Core, budget: usize, limits: Limits) -> Found {
    let mut search = Search {
        core,
        limits,
        started: Instant::now(),
        work: 0,
        best: Vec::new(),
        best_weight: 0,
        times: vec![0; core.weights.len()],
        relaxed: vec![0; core.weights.len()],
    };
    let start = exchange::start(core, budget, limits.work / 3);
    search.work += start.work;
    search.offer(start.weight, start.chosen.into_iter());
    let mut open = vec![Node {
        free: (0..core.documents()).collect(),
        chosen: Vec::new(),
        budget,
        bound: f64::INFINITY,
        prices: Rc::new(search.even_prices()),
    }];
    let mut left_open = 0.0_f64;
    let all: u64 = core.own.iter().chain(&core.weights).sum();
    while let Some(node) = open.pop() {
        if search.is_settled(node.bound) {
            continue;
        }
        if search.is_spent() {
            left_open = left_open.max(node.bound);
            continue;
        }
        search.explore(node, &mut open);
    }
    Found {
        bound: search.best_weight.max(whole(left_open.min(all as f64))),
        chosen: search.best,
        work: search.work,
    }
}

#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a sum of weights, finite and positive"
)]
fn whole(bound: f64) -> u64 {
    (bound + ROUNDING).floor() as u64
}

/// A part of the search space: some documents are chosen, some excluded, the others free.
struct Node {
    free: Vec<usize>,
    chosen: Vec<usize>,
    /// How many of the free documents may be chosen.
    budget: usize,
    /// No selection in it weighs more.
    bound: f64,
    /// The multipliers to start from.
    prices: Rc<Vec<f64>>,
}

/// A free document under the prices that gave a node's best bound.
struct Candidate {
    document: usize,
    /// The sum of its prices.
    value: f64,
    /// Whether the relaxation chooses it.
    taken: bool,
    /// In how many steps the relaxation chose it.
    often: u32,
}

/// The best bound of a node, and what gave it.
struct Priced {
    bound: f64,
    prices: Vec<f64>,
    candidates: Vec<Candidate>,
    steps: u32,
}

struct Search<'a> {
    core: &'a Core,
    limits: Limits,
    started: Instant,
    work: u64,
    best: Vec<usize>,
    best_weight: u64,
    /// Per concept: how many documents of the selection in hand hold it.
    times: Vec<u32>,
    /// Per concept: how many documents of the relaxation's choice hold it; zero between steps.
    relaxed: Vec<u32>,
}

impl Search<'_> {
    fn is_spent(&self) -> bool {
        self.work >= self.limits.work || self.started.elapsed() >= self.limits.time
    }

    /// Whether nothing better than the best answer can lie below the bound.
    fn is_settled(&self, bound: f64) -> bool {
        bound < self.best_weight as f64 + 1.0 - ROUNDING
    }

    /// The prices that share every concept's weight among its documents.
    fn even_prices(&self) -> Vec<f64> {
        let mut holders = vec![0_u32; self.core.weights.len()];
        for &concept in &self.core.concepts {
            holders[concept as usize] += 1;
        }
        self.core
            .weights
            .iter()
            .zip(holders)
            .map(|(&weight, holders)| weight as f64 / f64::from(holders))
            .collect()
    }

    fn take(&mut self, document: usize) {
        for &concept in self.core.held(document) {
            self.times[concept as usize] += 1;
        }
    }

    fn put_back(&mut self, document: usize) {
        for &concept in self.core.held(document) {
            self.times[concept as usize] -= 1;
        }
    }

    fn offer(&mut self, weight: u64, selection: impl Iterator<Item = usize>) {
        if weight > self.best_weight {
            self.best_weight = weight;
            self.best = selection.collect();
        }
    }

    /// Bounds a node, decides what its prices decide, and splits what is left in two.
    fn explore(&mut self, mut node: Node, open: &mut Vec<Node>) {
        for &document in &node.chosen {
            self.take(document);
        }
        let left = loop {
            let Some(mut priced) = self.price(&node) else { break None };
            node.bound = node.bound.min(priced.bound);
            let before = node.free.len();
            self.decide(&mut node, &mut priced);
            // Prices move a good deal only after many decisions
            if (before - node.free.len()) * 8 < before || self.is_spent() {
                break Some(priced);
            }
            node.prices = Rc::new(priced.prices);
        };
        for &document in &node.chosen {
            self.put_back(document);
        }
        if let Some(priced) = left {
            split(node, priced, open);
        }
    }

    /// Improves the prices step by step; nothing where the node is settled.
    fn price(&mut self, node: &Node) -> Option<Priced> {
        let core = self.core;
        let base = self.weight_in_hand(&node.chosen);
        if node.free.len() <= node.budget {
            let weight = self.weight_with(&node.free, base);
            self.offer(weight, node.chosen.iter().chain(&node.free).copied());
            return None;
        }
        if node.budget == 0 {
            self.offer(base, node.chosen.iter().copied());
            return None;
        }
        let active = self.active(&node.free);
        let visits =
            node.free.iter().map(|&document| core.held(document).len()).sum::<usize>() * 2 + active.len() * 3;
        let mut prices = vec![0.0; core.weights.len()];
        for &concept in &active {
            prices[concept] = node.prices[concept];
        }

        let steps = if node.bound.is_infinite() { ROOT_STEPS } else { NODE_STEPS };
        let mut values = vec![0.0; node.free.len()];
        let mut order: Vec<usize> = (0..node.free.len()).collect();
        let mut often = vec![0_u32; node.free.len()];
        let mut best = Priced { bound: f64::INFINITY, prices: Vec::new(), candidates: Vec::new(), steps };
        let mut reach = 1.0;
        let mut stale = 0;
        for _ in 0..steps {
            self.work += visits as u64;
            for (value, &document) in values.iter_mut().zip(&node.free) {
                let shared: f64 = core.held(document).iter().map(|&concept| prices[concept as usize]).sum();
                *value = core.own[document] as f64 + shared;
            }
            order.select_nth_unstable_by(node.budget, |&a, &b| {
                values[b].total_cmp(&values[a]).then(a.cmp(&b))
            });
            let taken = &mut order[..node.budget];
            // Sums of floats depend on their order, and what is selected here comes in none in particular
            taken.sort_unstable();
            let mut bound = base as f64;
            let mut weight = base;
            for &at in taken.iter() {
                bound += values[at];
                often[at] += 1;
                weight += core.own[node.free[at]];
                for &concept in core.held(node.free[at]) {
                    self.relaxed[concept as usize] += 1;
                }
            }
            let mut slope = 0.0;
            for &concept in &active {
                let room = core.weights[concept] as f64 - prices[concept];
                let step = 1.0 - f64::from(self.relaxed[concept]);
                bound += room;
                if self.relaxed[concept] > 0 {
                    weight += core.weights[concept];
                }
                if (step > 0.0 && room > 0.0) || (step < 0.0 && prices[concept] > 0.0) {
                    slope += step * step;
                }
            }
            self.offer(weight, node.chosen.iter().copied().chain(taken.iter().map(|&at| node.free[at])));

            if bound < best.bound {
                stale = 0;
                best.bound = bound;
                best.prices.clone_from(&prices);
                best.candidates.clear();
                best.candidates.extend(node.free.iter().zip(&values).map(|(&document, &value)| Candidate {
                    document,
                    value,
                    taken: false,
                    often: 0,
                }));
                for &at in taken.iter() {
                    best.candidates[at].taken = true;
                }
            } else {
                stale += 1;
                if stale >= 6 {
                    reach /= 2.0;
                    stale = 0;
                }
            }
            let length = reach * (bound - self.best_weight as f64) / slope;
            for &concept in &active {
                let step = 1.0 - f64::from(self.relaxed[concept]);
                prices[concept] = (prices[concept] + length * step).clamp(0.0, core.weights[concept] as f64);
            }
            for &at in taken.iter() {
                for &concept in core.held(node.free[at]) {
                    self.relaxed[concept as usize] = 0;
                }
            }
            // Without a slope the choice of the relaxation keeps every link: it is the node's best
            if self.is_settled(best.bound) || slope == 0.0 {
                return None;
            }
        }
        for (candidate, often) in best.candidates.iter_mut().zip(often) {
            candidate.often = often;
        }
        Some(best)
    }

    /// Chooses and excludes for good what the prices decide: documents whose forced exclusion or choice would settle
    /// the node.
    fn decide(&mut self, node: &mut Node, priced: &mut Priced) {
        let worst_taken = lowest(priced.candidates.iter().filter(|candidate| candidate.taken));
        let best_left = highest(priced.candidates.iter().filter(|candidate| !candidate.taken));
        let mut forced = Vec::new();
        priced.candidates.retain(|candidate| {
            if candidate.taken {
                let without = priced.bound - candidate.value + best_left;
                let needed = self.is_settled(without);
                if needed {
                    forced.push(candidate.document);
                }
                !needed
            } else {
                let with = priced.bound - worst_taken + candidate.value;
                !self.is_settled(with)
            }
        });
        for &document in &forced {
            self.take(document);
        }
        node.budget -= forced.len();
        node.chosen.extend(forced);
        node.free = priced.candidates.iter().map(|candidate| candidate.document).collect();
    }

    /// The concepts that the selection in hand lacks and a free document holds, ascending.
    fn active(&self, free: &[usize]) -> Vec<usize> {
        let mut reached = vec![false; self.core.weights.len()];
        for &document in free {
            for &concept in self.core.held(document) {
                reached[concept as usize] = self.times[concept as usize] == 0;
            }
        }
        reached.iter().enumerate().filter(|&(_, &reached)| reached).map(|(concept, _)| concept).collect()
    }

    /// The weight of the selection in hand.
    fn weight_in_hand(&self, chosen: &[usize]) -> u64 {
        let own: u64 = chosen.iter().map(|&document| self.core.own[document]).sum();
        let held = self.times.iter().zip(&self.core.weights).filter(|&(&times, _)| times > 0);
        own + held.map(|(_, &weight)| weight).sum::<u64>()
    }

    /// The weight of the selection in hand together with more documents.
    fn weight_with(&self, more: &[usize], base: u64) -> u64 {
        let own: u64 = more.iter().map(|&document| self.core.own[document]).sum();
        let fresh: u64 = self.active(more).into_iter().map(|concept| self.core.weights[concept]).sum();
        base + own + fresh
    }
}

/// Splits a node at the document that the relaxation is least sure of; the part that has it is explored first.
fn split(node: Node, found: Priced, open: &mut Vec<Node>) {
    let doubt = |candidate: &Candidate| (candidate.often * 2).abs_diff(found.steps);
    let Some(unsure) = found.candidates.iter().min_by_key(|&candidate| doubt(candidate)) else { return };
    let Node { mut free, chosen, budget, bound, .. } = node;
    free.retain(|&document| document != unsure.document);
    let mut with = chosen.clone();
    with.push(unsure.document);
    let prices = Rc::new(found.prices);
    open.push(Node { free: free.clone(), chosen, budget, bound, prices: Rc::clone(&prices) });
    if let Some(budget) = budget.checked_sub(1) {
        open.push(Node { free, chosen: with, budget, bound, prices });
    }
}

fn lowest<'a>(candidates: impl Iterator<Item = &'a Candidate>) -> f64 {
    candidates.map(|candidate| candidate.value).fold(f64::INFINITY, f64::min)
}

fn highest<'a>(candidates: impl Iterator<Item = &'a Candidate>) -> f64 {
    candidates.map(|candidate| candidate.value).fold(f64::NEG_INFINITY, f64::max)
}
