//! The two extractors.

use super::{
    Chosen, Document, FactsConfig, Gazetteer, Selection, concepts,
    coverage::{Cover, Limits, Problem, cover},
    mmr, tfidf,
};
use crate::model::{Importance, Method};

/// Least `λ`: importance is a score divided by it.
const LEAST_LAMBDA: f64 = 0.05;

/// Chooses the documents that become nuggets. `earlier` are the clean texts of the nuggets of the event's earlier
/// requests.
///
/// `greedy` takes the most relevant documents, with their relevance as importance. `ilp-mmr` chooses up to
/// `config.budget` documents by the concepts they cover, fills what is left of the budget with the most relevant of the
/// others, then takes them by marginal relevance, which is their importance (`mmr`). Ties go to the more
/// relevant document, then to the one that arrived first.
pub fn select(
    documents: &[Document],
    earlier: &[String],
    gazetteer: &Gazetteer,
    config: &FactsConfig,
) -> Selection {
    let ranked = most_relevant_first(documents, config.documents);
    match config.method {
        Method::Greedy => greedy(documents, &ranked, config),
        Method::IlpMmr => ilp_mmr(documents, &ranked, earlier, gazetteer, config),
    }
}

/// The indices of the documents looked at, the most relevant first.
fn most_relevant_first(documents: &[Document], most: usize) -> Vec<usize> {
    let mut ranked: Vec<usize> = (0..documents.len()).collect();
    ranked.sort_by(|&a, &b| {
        let (first, second) = (&documents[a], &documents[b]);
        relevance(second)
            .total_cmp(&relevance(first))
            .then(first.arrival.cmp(&second.arrival))
            .then_with(|| first.stream_id.cmp(&second.stream_id))
    });
    ranked.truncate(most);
    ranked
}

/// Relevance as the contract has it, whatever came.
fn relevance(document: &Document) -> f64 {
    if document.relevance.is_nan() { 0.0 } else { document.relevance.clamp(0.0, 1.0) }
}

fn greedy(documents: &[Document], ranked: &[usize], config: &FactsConfig) -> Selection {
    let chosen: Vec<Chosen> = ranked
        .iter()
        .take(config.nuggets)
        .map(|&document| Chosen { document, importance: Importance::new(relevance(&documents[document])) })
        .collect();
    Selection { selected: chosen.len(), chosen, concepts: 0, covered: 0, bound: 0, optimal: true }
}

fn ilp_mmr(
    documents: &[Document],
    ranked: &[usize],
    earlier: &[String],
    gazetteer: &Gazetteer,
    config: &FactsConfig,
) -> Selection {
    let looked_at: Vec<&Document> = ranked.iter().map(|&document| &documents[document]).collect();
    let concepts = concepts::recognise(&looked_at, gazetteer);
    let problem = Problem { documents: &concepts.of, weights: &concepts.weights, budget: config.budget };
    let limits = Limits { work: config.work_limit, time: config.time_limit.duration() };
    let Cover { mut chosen, covered, bound, .. } = cover(&problem, limits);
    fill_up(&mut chosen, looked_at.len(), config.budget);

    let texts = looked_at.iter().map(|document| document.clean.as_str());
    let vectors = tfidf::vectors(texts.chain(earlier.iter().map(String::as_str)));
    let (vectors, earlier) = vectors.split_at(looked_at.len());
    let candidates: Vec<mmr::Candidate<'_>> = chosen
        .iter()
        .map(|&at| mmr::Candidate { relevance: relevance(looked_at[at]), vector: &vectors[at] })
        .collect();
    let taken = mmr::order(&candidates, earlier, config.lambda.clamp(LEAST_LAMBDA, 1.0), config.nuggets);
    Selection {
        chosen: taken
            .into_iter()
            .map(|taken| Chosen {
                document: ranked[chosen[taken.candidate]],
                importance: Importance::new(taken.importance),
            })
            .collect(),
        concepts: concepts.weights.len(),
        selected: chosen.len(),
        covered,
        bound,
        optimal: covered == bound,
    }
}

/// Adds the most relevant documents that cover nothing more, while the budget lasts: they cost nothing of the optimum.
fn fill_up(chosen: &mut Vec<usize>, documents: usize, budget: usize) {
    let mut inside = vec![false; documents];
    for &document in chosen.iter() {
        inside[document] = true;
    }
    let more: Vec<usize> =
        (0..documents).filter(|&at| !inside[at]).take(budget.saturating_sub(chosen.len())).collect();
    chosen.extend(more);
    chosen.sort_unstable();
}

#[cfg(test)]
mod tests {
    use std::{
        env,
        fs::File,
        io::Read as _,
        path::{Path, PathBuf},
    };

    use flate2::read::MultiGzDecoder;
    use proptest::prelude::*;

    use super::{super::tests::document, *};

    fn numbered(texts: &[(&str, f64)]) -> Vec<Document> {
        let mut documents: Vec<Document> =
            texts.iter().map(|&(text, relevance)| document(text, relevance)).collect();
        for (arrival, document) in (0..).zip(&mut documents) {
            document.arrival = arrival;
        }
        documents
    }

    fn chosen(documents: &[Document], config: &FactsConfig) -> Vec<usize> {
        select(documents, &[], &Gazetteer::default(), config)
            .chosen
            .iter()
            .map(|chosen| chosen.document)
            .collect()
    }

    #[test]
    fn greedy_takes_the_most_relevant_in_order_of_relevance_and_arrival() {
        let documents = numbered(&[("a", 0.2), ("b", 0.9), ("c", f64::NAN), ("d", 0.9), ("e", 7.0)]);
        let config = FactsConfig { method: Method::Greedy, nuggets: 4, ..FactsConfig::default() };
        assert_eq!(chosen(&documents, &config), [4, 1, 3, 0]);
    }

    #[test]
    fn coverage_chooses_the_documents_that_speak_of_most() {
        let documents = numbered(&[
            ("smoke over Bonsall", 0.9),
            ("smoke over Vista", 0.8),
            ("roads closed in Bonsall and Vista, 64 homes lost", 0.1),
            ("64 homes lost", 0.7),
        ]);
        let config = FactsConfig { budget: 1, ..FactsConfig::default() };
        let selection = select(&documents, &[], &Gazetteer::default(), &config);
        assert_eq!(selection.chosen.iter().map(|chosen| chosen.document).collect::<Vec<_>>(), [2]);
        assert_eq!((selection.concepts, selection.covered, selection.bound), (3, 6, 6));
        assert!(selection.optimal);
    }

    #[test]
    fn a_request_of_small_talk_still_gives_nuggets() {
        let documents = numbered(&[("stay safe", 0.1), ("so sad to see", 0.3), ("smoke over Bonsall", 0.2)]);
        assert_eq!(chosen(&documents, &FactsConfig::default()), [1, 2, 0]);
        let config = FactsConfig { budget: 2, ..FactsConfig::default() };
        assert_eq!(chosen(&documents, &config), [1, 2]);
    }

    #[test]
    fn what_earlier_requests_said_comes_later() {
        let documents =
            numbered(&[("64 homes lost near Bonsall", 0.50), ("roads closed around Vista", 0.45)]);
        let earlier = ["64 homes lost near Bonsall".to_owned()];
        let selection = select(&documents, &earlier, &Gazetteer::default(), &FactsConfig::default());
        assert_eq!(selection.chosen[0].document, 1);
    }

    #[test]
    fn no_documents_give_no_facts() {
        let selection = select(&[], &[], &Gazetteer::default(), &FactsConfig::default());
        assert!(selection.chosen.is_empty() && selection.optimal);
    }

    /// The distinct texts of an archive as documents; relevance is made up.
    fn real_documents(archive: &Path) -> Vec<Document> {
        let mut lines = String::new();
        MultiGzDecoder::new(File::open(archive).unwrap()).read_to_string(&mut lines).unwrap();
        let mut texts: Vec<String> = lines
            .lines()
            .map(|line| {
                serde_json::from_str::<serde_json::Value>(line).unwrap()["text"].as_str().unwrap().to_owned()
            })
            .collect();
        texts.sort_unstable();
        texts.dedup();
        numbered(&texts.iter().map(|text| (text.as_str(), text.len() as f64 / 300.0)).collect::<Vec<_>>())
    }

    #[test]
    fn the_coverage_of_real_crises_is_proven_best() {
        let data = env::var_os("NUGGETD_DATA")
            .map_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared/data"), PathBuf::from);
        let pattern = data.join("archives/*/*.jsonl.gz");
        let archives = glob::glob(pattern.to_str().unwrap()).unwrap().map(Result::unwrap);
        let archives: Vec<PathBuf> =
            archives.filter(|path| !path.to_str().unwrap().contains("labels")).collect();
        if archives.is_empty() {
            eprintln!("skipped: no archives at {}", pattern.display());
        }
        for archive in archives {
            let documents = real_documents(&archive);
            let selection = select(&documents, &[], &Gazetteer::default(), &FactsConfig::default());
            assert!(selection.optimal, "{}", archive.display());
            assert!(selection.concepts > documents.len() / 4, "{}", archive.display());
            assert_eq!(selection.chosen.len(), 32, "{}", archive.display());
        }
    }

    fn some_documents() -> impl Strategy<Value = Vec<Document>> {
        let words = prop::sample::select(vec![
            "in Bonsall",
            "in Vista",
            "near Ojai",
            "64 homes",
            "9 dead",
            "so sad",
            "#fire",
        ]);
        let text = prop::collection::vec(words, 0..5).prop_map(|words| words.join(" "));
        prop::collection::vec((text, 0.0..=1.0_f64), 0..25).prop_map(|texts| {
            numbered(&texts.iter().map(|(text, relevance)| (text.as_str(), *relevance)).collect::<Vec<_>>())
        })
    }

    proptest! {
        #[test]
        fn limits_hold_and_importance_never_rises(
            documents in some_documents(), budget in 1..10_usize, nuggets in 1..10_usize, greedy: bool,
        ) {
            let method = if greedy { Method::Greedy } else { Method::IlpMmr };
            let config = FactsConfig { method, budget, nuggets, ..FactsConfig::default() };
            let selection = select(&documents, &[], &Gazetteer::default(), &config);
            let most = if greedy { nuggets } else { nuggets.min(budget) };
            prop_assert_eq!(selection.chosen.len(), most.min(documents.len()));
            prop_assert!(selection.chosen.is_sorted_by(|a, b| a.importance >= b.importance));
            let mut indices: Vec<usize> = selection.chosen.iter().map(|chosen| chosen.document).collect();
            indices.sort_unstable();
            indices.dedup();
            prop_assert_eq!(indices.len(), selection.chosen.len());
        }

        #[test]
        fn the_order_in_which_documents_come_changes_nothing(documents in some_documents(), budget in 1..10_usize) {
            let config = FactsConfig { budget, ..FactsConfig::default() };
            let reversed: Vec<Document> = documents.iter().rev().cloned().collect();
            let arrivals = |documents: &[Document]| -> Vec<u32> {
                chosen(documents, &config).into_iter().map(|at| documents[at].arrival).collect()
            };
            prop_assert_eq!(arrivals(&documents), arrivals(&reversed));
        }
    }
}
