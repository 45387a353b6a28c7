//! Retrieval gives Terrier's numbers: BM25 and Bo1 over real texts, against rankings of Terrier 5.11 on the same tokens.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod support;

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
};

use serde_json::{Value, json};
use support::{DAY, Folder, START, nuggetd, read_lines, real_data};

/// Largest difference of two scores that counts as none.
const SAME: f64 = 1e-12;
/// Items that the expansion learns from, and fewest terms that it takes.
const FEEDBACK_ITEMS: usize = 20;
const FEEDBACK_TERMS: usize = 3;

type Ranking = Vec<(String, f64)>;

/// What Terrier made of one collection.
struct Reference {
    documents: Vec<(String, Vec<String>)>,
    queries: Vec<ReferenceQuery>,
}

struct ReferenceQuery {
    id: String,
    tokens: Vec<String>,
    bm25: Ranking,
    bo1: Ranking,
}

fn strings(value: &Value) -> Vec<String> {
    value.as_array().unwrap().iter().map(|token| token.as_str().unwrap().to_owned()).collect()
}

fn ranking(value: &Value) -> Ranking {
    let entry = |entry: &Value| (entry[0].as_str().unwrap().to_owned(), entry[1].as_f64().unwrap());
    value.as_array().unwrap().iter().map(entry).collect()
}

impl Reference {
    fn read(vectors: &Path, name: &str) -> Self {
        let documents = read_lines(&vectors.join(format!("terrier_{name}.docs.jsonl.gz")));
        let queries = read_lines(&vectors.join(format!("terrier_{name}.rankings.jsonl.gz")));
        Self {
            documents: documents
                .iter()
                .map(|document| {
                    (document["docno"].as_str().unwrap().to_owned(), strings(&document["tokens"]))
                })
                .collect(),
            queries: queries
                .iter()
                .map(|query| ReferenceQuery {
                    id: query["queryID"].as_str().unwrap().to_owned(),
                    tokens: strings(&query["tokens"]),
                    bm25: ranking(&query["bm25"]),
                    bo1: ranking(&query["bo1"]),
                })
                .collect(),
        }
    }

    /// Our rankings by query.
    fn ours(&self, expand: &str) -> BTreeMap<String, Ranking> {
        let folder = Folder::new();
        let items: Vec<Value> = self
            .documents
            .iter()
            .map(|(id, tokens)| json!({ "event": "E-1", "streamID": id, "unixTimestamp": START, "text": tokens.join(" ") }))
            .collect();
        let queries: Vec<Value> = self
            .queries
            .iter()
            .map(|query| json!({ "queryID": query.id, "query": query.tokens.join(" ") }))
            .collect();
        let event = json!({
            "eventID": "E-1", "title": "E", "queries": queries,
            "summaryRequests": [{ "requestID": "E-1-r1", "startUnixTimestamp": START, "endUnixTimestamp": START + DAY - 1 }],
        });
        let (archive, events) =
            (folder.write_items("a.jsonl", &items), folder.write_event("e.event.json", &event));
        let mut command = nuggetd();
        command.arg("search").arg(archive).arg("--events").arg(events);
        command.args(["--raw", "--format", "trec", "--expand", expand]);
        let ran = support::Ran::of(command.output().unwrap()).done();
        let mut rankings: BTreeMap<String, Ranking> = BTreeMap::new();
        for line in ran.stdout.lines() {
            let [topic, _, item, rank, score, _] = line.split(' ').collect::<Vec<_>>()[..] else {
                panic!("{line}")
            };
            let ranking = rankings.entry(topic.strip_prefix("E-1-r1.").unwrap().to_owned()).or_default();
            ranking.push((item.to_owned(), score.parse().unwrap()));
            assert_eq!(rank, ranking.len().to_string(), "{line}");
        }
        rankings
    }

    /// Whether the last term that the expansion takes and the first that it leaves are equally informative, so that
    /// which of them is taken is a matter of names. Computed here from Terrier's own first ranking.
    fn ties_at_the_cut(&self, query: &ReferenceQuery) -> bool {
        let texts: BTreeMap<&str, &[String]> =
            self.documents.iter().map(|(id, tokens)| (id.as_str(), tokens.as_slice())).collect();
        let mut bag: BTreeMap<&str, (f64, u32)> = BTreeMap::new();
        for (id, _) in query.bm25.iter().take(FEEDBACK_ITEMS) {
            let tokens = texts[id.as_str()];
            for token in tokens {
                bag.entry(token).or_default().0 += 1.0;
            }
            for token in tokens.iter().collect::<BTreeSet<_>>() {
                bag.entry(token).or_default().1 += 1;
            }
        }
        let occurrences = |term: &str| {
            self.documents.iter().flat_map(|(_, tokens)| tokens).filter(|token| *token == term).count()
        };
        let mut weights: Vec<f64> = bag
            .iter()
            .filter(|(term, (_, items))| *items >= 2 || query.tokens.iter().any(|own| own == *term))
            .map(|(term, (count, _))| {
                let chance = occurrences(term) as f64 / self.documents.len() as f64;
                count * ((1.0 + chance) / chance).log2() + (1.0 + chance).log2()
            })
            .collect();
        weights.sort_by(|a, b| b.total_cmp(a));
        let taken = FEEDBACK_TERMS.max(query.tokens.iter().collect::<BTreeSet<_>>().len());
        matches!(weights.get(taken - 1..=taken), Some([last, next]) if (last - next).abs() < SAME)
    }
}

/// The first difference of two rankings, in words.
fn difference(ours: &[(String, f64)], theirs: &[(String, f64)]) -> Option<String> {
    if ours.len() != theirs.len() {
        return Some(format!("{} items, Terrier has {}", ours.len(), theirs.len()));
    }
    let mut ranks = (1..).zip(ours.iter().zip(theirs));
    ranks.find_map(|(rank, (ours, theirs))| {
        let same = ours.0 == theirs.0 && (ours.1 - theirs.1).abs() <= SAME;
        (!same).then(|| format!("rank {rank}: {ours:?}, Terrier has {theirs:?}"))
    })
}

/// Compares a collection; `tied` are the queries whose expansion is tied at the cut.
fn compare(name: &str, tied: &[&str]) {
    let Some(vectors) = real_data("vectors") else { return };
    let reference = Reference::read(&vectors, name);
    let (bm25, bo1) = (reference.ours("none"), reference.ours("bo1"));
    let none = Ranking::new();
    let mut differences = Vec::new();
    let mut found_tied = Vec::new();
    for query in &reference.queries {
        let ours = bm25.get(&query.id).unwrap_or(&none);
        differences.extend(difference(ours, &query.bm25).map(|text| format!("{} bm25: {text}", query.id)));
        let difference = difference(bo1.get(&query.id).unwrap_or(&none), &query.bo1);
        if reference.ties_at_the_cut(query) && difference.is_some() {
            found_tied.push(query.id.as_str());
        } else {
            differences.extend(difference.map(|text| format!("{} bo1: {text}", query.id)));
        }
    }
    assert_eq!(differences, Vec::<String>::new(), "{name}");
    assert_eq!(found_tied, tied, "{name}: tied at the cut");
}

#[test]
fn rankings_of_the_costa_rica_earthquake_are_terriers() {
    compare("2012_Costa_Rica_earthquake", &[]);
}

#[test]
fn rankings_of_the_boston_bombings_are_terriers() {
    compare("2013_Boston_bombings", &[]);
}

#[test]
fn rankings_of_the_lilac_wildfire_are_terriers() {
    compare("lilac", &["CrisisFACTS-General-q035"]);
}
