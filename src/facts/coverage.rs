//! Concept coverage as an integer programme: choose documents so that the concepts they hold weigh most.
//!
//! Maximise `Σ wᵢ·cᵢ` subject to `Σ sⱼ ≤ L`, `cᵢ ≤ Σ_{j∋i} sⱼ`, `s, c ∈ {0, 1}` (Gillick & Favre 2009, "A Scalable
//! Global Model for Summarization"; Seeberger & Riedhammer 2022a). Solved exactly: reductions that keep an optimum
//! ([`reduce`]), then branch and bound ([`super::branch`]).
//!
//! The answer depends on the input alone: the search is bounded by counted work, not by the clock. The clock is a
//! backstop, and a search that either of them ends is reported as not optimal. Documents come best first; among
//! equal answers the one with better documents is taken, as far as single exchanges reach.

use std::{collections::HashMap, time::Duration};

use super::branch::{self, Core};

/// Documents with their concepts, and how many of them may be chosen.
#[derive(Debug, Clone)]
pub(super) struct Problem<'a> {
    /// Per document its concepts, ascending; the best document first.
    pub(super) documents: &'a [Vec<u32>],
    /// Per concept its weight.
    pub(super) weights: &'a [u32],
    /// Most documents chosen.
    pub(super) budget: usize,
}

/// What ends a search before its proof.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limits {
    /// Most visits of a concept of a document.
    pub(super) work: u64,
    /// The backstop.
    pub(super) time: Duration,
}

/// A selection of documents.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Cover {
    /// The chosen documents, ascending; none of them could be left out without loss.
    pub(super) chosen: Vec<usize>,
    /// The weight of the concepts they hold.
    pub(super) covered: u64,
    /// No selection covers more than this.
    pub(super) bound: u64,
    /// Visits of a concept of a document that the search took.
    pub(super) work: u64,
}

/// Chooses documents.
pub(super) fn cover(problem: &Problem<'_>, limits: Limits) -> Cover {
    let reduced = reduce(problem.documents, problem.weights);
    let (picked, bound, work) = if reduced.core.documents() <= problem.budget {
        ((0..reduced.core.documents()).collect(), None, 0)
    } else {
        let found = branch::search(&reduced.core, problem.budget, limits);
        (found.chosen, Some(found.bound), found.work)
    };
    let mut chosen: Vec<usize> = picked.into_iter().map(|at| reduced.names[at]).collect();
    let covered = prefer_better_documents(problem, &mut chosen);
    Cover { chosen, covered, bound: bound.unwrap_or(covered).max(covered), work }
}

/// A smaller problem with the same best weight.
struct Reduced {
    core: Core,
    /// The core's documents in the problem.
    names: Vec<usize>,
}

/// Leaves out what no optimum needs: documents without concepts, and documents whose concepts another one holds too.
/// Concepts of exactly the same documents become one, and a concept of one document alone becomes that document's own
/// weight.
fn reduce(documents: &[Vec<u32>], weights: &[u32]) -> Reduced {
    let holders = holders(documents, weights.len());
    let names: Vec<usize> = (0..documents.len())
        .filter(|&at| !documents[at].is_empty() && !is_dominated(at, documents, &holders))
        .collect();

    let mut places: Vec<Vec<u32>> = vec![Vec::new(); weights.len()];
    for (place, &name) in (0_u32..).zip(&names) {
        for &concept in &documents[name] {
            places[concept as usize].push(place);
        }
    }
    let mut own = vec![0_u64; names.len()];
    let mut merged: HashMap<&[u32], usize> = HashMap::new();
    let mut core_weights: Vec<u64> = Vec::new();
    let mut core_documents: Vec<Vec<u32>> = vec![Vec::new(); names.len()];
    for (places, &weight) in places.iter().zip(weights) {
        match places.as_slice() {
            [] => {}
            [only] => own[*only as usize] += u64::from(weight),
            several => {
                let next = u32::try_from(core_weights.len()).unwrap_or(u32::MAX);
                let at = *merged.entry(several).or_insert_with(|| {
                    core_weights.push(0);
                    for &place in several {
                        core_documents[place as usize].push(next);
                    }
                    next as usize
                });
                core_weights[at] += u64::from(weight);
            }
        }
    }
    Reduced { core: Core::new(&core_documents, own, core_weights), names }
}

/// Per concept the documents that hold it, ascending.
fn holders(documents: &[Vec<u32>], concepts: usize) -> Vec<Vec<u32>> {
    let mut holders: Vec<Vec<u32>> = vec![Vec::new(); concepts];
    for (document, held) in (0_u32..).zip(documents) {
        for &concept in held {
            holders[concept as usize].push(document);
        }
    }
    holders
}

/// Whether another document holds all of this one's concepts, and more of them or the same while being better.
fn is_dominated(at: usize, documents: &[Vec<u32>], holders: &[Vec<u32>]) -> bool {
    let mine = &documents[at];
    let rarest = mine.iter().map(|&concept| &holders[concept as usize]).min_by_key(|holders| holders.len());
    rarest.into_iter().flatten().map(|&other| other as usize).any(|other| {
        let theirs = &documents[other];
        let wider = theirs.len() > mine.len() || (theirs.len() == mine.len() && other < at);
        wider && holds_all(theirs, mine)
    })
}

/// Whether the ascending list `all` holds every element of the ascending list `some`.
fn holds_all(all: &[u32], some: &[u32]) -> bool {
    let mut rest = all.iter();
    some.iter().all(|wanted| rest.by_ref().find(|&have| have >= wanted) == Some(wanted))
}

/// Replaces documents by better ones and leaves out what adds nothing, never losing weight; gives the weight covered.
fn prefer_better_documents(problem: &Problem<'_>, chosen: &mut Vec<usize>) -> u64 {
    let weight = |concept: u32| u64::from(problem.weights[concept as usize]);
    let mut times = vec![0_u32; problem.weights.len()];
    let mut inside = vec![false; problem.documents.len()];
    for &document in chosen.iter() {
        inside[document] = true;
        for &concept in &problem.documents[document] {
            times[concept as usize] += 1;
        }
    }

    let mut changed = true;
    while changed {
        changed = false;
        chosen.sort_unstable();
        // The worst first: it has most to gain, and what is left out should be the worst
        for at in (0..chosen.len()).rev() {
            let document = chosen[at];
            inside[document] = false;
            for &concept in &problem.documents[document] {
                times[concept as usize] -= 1;
            }
            let gain = |held: &[u32]| -> u64 {
                held.iter()
                    .filter(|&&concept| times[concept as usize] == 0)
                    .map(|&concept| weight(concept))
                    .sum()
            };
            let loss = gain(&problem.documents[document]);
            let replacement = if loss == 0 {
                None
            } else {
                let better =
                    (0..document).find(|&other| !inside[other] && gain(&problem.documents[other]) >= loss);
                Some(better.unwrap_or(document))
            };
            changed |= replacement != Some(document);
            match replacement {
                Some(document) => {
                    chosen[at] = document;
                    inside[document] = true;
                    for &concept in &problem.documents[document] {
                        times[concept as usize] += 1;
                    }
                }
                None => {
                    chosen.remove(at);
                }
            }
        }
    }
    (0..).zip(&times).filter(|&(_, &times)| times > 0).map(|(concept, _)| weight(concept)).sum()
}

#[cfg(test)]
mod tests {
    use good_lp::{Expression, Solution as _, SolverModel as _, constraint, microlp, variable, variables};
    use proptest::prelude::*;

    use super::*;

    const NO_LIMITS: Limits = Limits { work: u64::MAX, time: Duration::MAX };

    fn weight(problem: &Problem<'_>, chosen: &[usize]) -> u64 {
        let mut held: Vec<u32> = chosen.iter().flat_map(|&at| &problem.documents[at]).copied().collect();
        held.sort_unstable();
        held.dedup();
        held.iter().map(|&concept| u64::from(problem.weights[concept as usize])).sum()
    }

    /// Tries every selection.
    fn best_by_trying(problem: &Problem<'_>) -> u64 {
        (0_u32..1 << problem.documents.len())
            .filter(|set| set.count_ones() as usize <= problem.budget)
            .map(|set| {
                let chosen: Vec<usize> =
                    (0..problem.documents.len()).filter(|&at| set >> at & 1 == 1).collect();
                weight(problem, &chosen)
            })
            .max()
            .unwrap_or(0)
    }

    /// The programme as written, by a solver that knows nothing of coverage.
    fn best_by_solver(problem: &Problem<'_>) -> f64 {
        let mut variables = variables!();
        let documents: Vec<_> =
            problem.documents.iter().map(|_| variables.add(variable().binary())).collect();
        let concepts: Vec<_> =
            problem.weights.iter().map(|_| variables.add(variable().min(0).max(1))).collect();
        let pairs = concepts.iter().zip(problem.weights);
        let objective: Expression = pairs.map(|(&concept, &weight)| f64::from(weight) * concept).sum();
        let mut model = variables.maximise(objective.clone()).using(microlp);
        model.add_constraint(constraint!(documents.iter().sum::<Expression>() <= problem.budget as f64));
        for (number, &concept) in (0_u32..).zip(&concepts) {
            let pairs = documents.iter().zip(problem.documents);
            let holders: Expression =
                pairs.filter(|(_, held)| held.contains(&number)).map(|(&at, _)| at).sum();
            model.add_constraint(constraint!(concept - holders <= 0));
        }
        model.solve().unwrap().eval(objective)
    }

    /// Documents of up to `most` concepts, common ones more often than rare ones.
    fn made(documents: usize, concepts: u64, most: u64, mut seed: u64) -> (Vec<Vec<u32>>, Vec<u32>) {
        let mut next = |below: u64| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (seed >> 33) % below
        };
        let mut weights = vec![0; usize::try_from(concepts).unwrap()];
        let held: Vec<Vec<u32>> = (0..documents)
            .map(|_| {
                let mut held: Vec<u32> = (0..next(most + 1))
                    .map(|_| u32::try_from(next(concepts).min(next(concepts))).unwrap())
                    .collect();
                held.sort_unstable();
                held.dedup();
                for &concept in &held {
                    weights[concept as usize] += 1;
                }
                held
            })
            .collect();
        (held, weights)
    }

    #[test]
    fn equal_documents_give_way_to_the_better_one() {
        let documents = [vec![], vec![0, 1], vec![0, 1], vec![2], vec![0]];
        let problem = Problem { documents: &documents, weights: &[3, 2, 1], budget: 4 };
        let found = cover(&problem, NO_LIMITS);
        assert_eq!((found.chosen, found.covered, found.bound), (vec![1, 3], 6, 6));
    }

    #[test]
    fn the_best_is_not_what_greed_finds() {
        // The first document holds most, but the two others hold everything together
        let documents = [vec![0, 1, 2, 3], vec![0, 1, 4], vec![2, 3, 5]];
        let problem = Problem { documents: &documents, weights: &[2; 6], budget: 2 };
        assert_eq!(cover(&problem, NO_LIMITS).chosen, [1, 2]);
    }

    #[test]
    fn an_independent_solver_finds_no_better_cover_of_a_real_size() {
        for (seed, budget) in [(1, 4), (2, 8), (3, 12), (4, 16)] {
            let (documents, weights) = made(30, 80, 8, seed);
            let problem = Problem { documents: &documents, weights: &weights, budget };
            let found = cover(&problem, NO_LIMITS);
            assert!((best_by_solver(&problem) - found.covered as f64).abs() < 1e-6, "seed {seed}");
        }
    }

    #[test]
    fn fifty_documents_of_two_hundred_concepts_are_solved_within_the_default_work() {
        let work = crate::facts::FactsConfig::default().work_limit;
        for most in [8, 20, 50] {
            let (documents, weights) = made(50, 200, most, most);
            for budget in 1..=50 {
                let problem = Problem { documents: &documents, weights: &weights, budget };
                let found = cover(&problem, Limits { work, ..NO_LIMITS });
                assert_eq!(found.covered, found.bound, "{most} concepts, budget {budget}");
            }
        }
    }

    #[test]
    fn a_limit_that_ends_the_search_is_told_and_the_answer_still_good() {
        let (documents, weights) = made(50, 200, 50, 50);
        let problem = Problem { documents: &documents, weights: &weights, budget: 8 };
        let best = cover(&problem, NO_LIMITS);
        for limits in [Limits { work: 20_000, ..NO_LIMITS }, Limits { time: Duration::ZERO, ..NO_LIMITS }] {
            let found = cover(&problem, limits);
            assert!(found.covered < found.bound && found.bound >= best.covered);
            assert!(found.covered as f64 >= 0.632 * best.covered as f64);
            assert_eq!(found, cover(&problem, limits));
        }
    }

    proptest! {
        #[test]
        fn the_cover_is_as_good_as_the_best_of_all_selections(
            documents in prop::collection::vec(prop::collection::btree_set(0..12_u32, 0..6), 0..11),
            weights in prop::collection::vec(1..9_u32, 12),
            budget in 0..8_usize,
        ) {
            let documents: Vec<Vec<u32>> = documents.into_iter().map(|held| held.into_iter().collect()).collect();
            let problem = Problem { documents: &documents, weights: &weights, budget };
            let found = cover(&problem, NO_LIMITS);
            prop_assert_eq!(found.covered, best_by_trying(&problem));
            prop_assert_eq!(found.bound, found.covered);
            prop_assert_eq!(weight(&problem, &found.chosen), found.covered);
            prop_assert!(found.chosen.len() <= budget);
            for left_out in 0..found.chosen.len() {
                let mut fewer = found.chosen.clone();
                fewer.remove(left_out);
                prop_assert!(weight(&problem, &fewer) < found.covered);
            }
        }
    }
}
