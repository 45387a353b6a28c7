//! Which items of a shard say the same as an earlier one.
//!
//! *Exact*: the same case-folded clean text. *Near*: the same numbers and negations in the same order, a Jaccard
//! similarity of the word sets of at least the threshold, and not in each a name that the other lacks. Candidates come from MinHash bands (Broder 1997) and are then compared exactly, so a near
//! duplicate is never claimed wrongly; a few are missed. The verdicts depend on nothing but the order of insertion: a
//! finder that is filled again with the same texts decides alike.

use std::{
    collections::HashMap,
    hash::{BuildHasherDefault, Hasher},
};

use super::signature::{Signature, bare, compare};

/// Jaccard similarity from which on two texts with the same numbers say the same.
///
/// Judged by eye on the 18 crises of CrisisLexT26 (19,193 tweets: 2,371 exact duplicates, 616 near ones at this value).
/// Of 40 pairs at 0.75–0.80 none told another fact: cut tails, an added source or "BREAKING". At 0.70–0.75 2 of 14 did
/// ("may have found" and "have found"), at 0.65–0.70 3 of 14, at 0.50–0.55 about half. A wrong near duplicate hides a fact,
/// a missed one costs a comparison later, hence the careful value. Another 166 tweets are kept apart: 111 by a number, 6
/// by a negation, 49 by a name (most of those say the same, with a word cut at the end or "Update" for "BREAKING"). The bands find 98 % of the tweets that comparing with every first finds.
pub const DEFAULT_NEAR_THRESHOLD: f64 = 0.75;

/// Texts with fewer distinct words are duplicates only where they are equal.
const FEWEST_WORDS: u32 = 3;
/// Bands, each of [`ROWS`] minima.
const BANDS: usize = 6;
const ROWS: usize = 3;
/// Candidates looked at in one band, the newest first. Only texts that share a frame and fill it with other words come
/// near it; it keeps a flood of them from slowing the shard down.
const LONGEST_CHAIN: usize = 48;
/// Ends a chain.
const NONE: u32 = u32::MAX;

/// What an item is to those before it. `first` is the arrival of its group's first item, never of a duplicate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Nothing alike came before.
    First,
    /// The same text came before.
    Exact {
        /// The group's first item.
        first: u32,
    },
    /// Almost the same text came before.
    Near {
        /// The group's first item.
        first: u32,
    },
    /// A text without words: nobody's duplicate.
    Empty,
}

/// Finds duplicates within one shard.
pub struct DuplicateFinder {
    threshold: f64,
    /// Content hash → arrival of the group's first item.
    exact: HashMap<u64, u32, BuildHasherDefault<AlreadyHashed>>,
    /// Firsts that near duplicates can have, in order of arrival.
    firsts: Vec<First>,
    /// Words and claims of all firsts, one after the other.
    features: Vec<u32>,
    /// For each band the newest first of each bucket; their number is a power of two.
    heads: [Vec<u32>; BANDS],
    /// For each first the next older one in its bucket, band by band.
    older: Vec<[u32; BANDS]>,
}

struct First {
    arrival: u32,
    /// Where its features begin; they end where the next one's begin.
    start: u32,
    words: u32,
}

impl DuplicateFinder {
    /// An empty finder.
    pub fn new(threshold: f64) -> Self {
        Self {
            threshold,
            exact: HashMap::default(),
            firsts: Vec::new(),
            features: Vec::new(),
            heads: std::array::from_fn(|_| vec![NONE; 64]),
            older: Vec::new(),
        }
    }

    /// Takes the next item; `arrival` grows by one an item.
    #[allow(clippy::needless_pass_by_value, reason = "a signature is used up here")]
    pub fn insert(&mut self, arrival: u32, signature: Signature) -> Verdict {
        if signature.is_empty() {
            return Verdict::Empty;
        }
        if let Some(&first) = self.exact.get(&signature.hash()) {
            return Verdict::Exact { first };
        }
        if signature.words().len() < FEWEST_WORDS as usize {
            self.exact.insert(signature.hash(), arrival);
            return Verdict::First;
        }
        let keys = band_keys(signature.words(), signature.claims());
        if let Some(first) = self.most_similar(&signature, &keys) {
            self.exact.insert(signature.hash(), first);
            return Verdict::Near { first };
        }
        self.exact.insert(signature.hash(), arrival);
        self.remember(arrival, &signature, &keys);
        Verdict::First
    }

    /// Takes the content hash of an item that was a duplicate before a restart, and its group's first item: copies of it
    /// belong to the same group again.
    pub fn remember_duplicate(&mut self, hash: u64, first: u32) {
        self.exact.entry(hash).or_insert(first);
    }

    /// The arrival of the most similar first above the threshold, the earliest of several.
    fn most_similar(&self, signature: &Signature, keys: &[u32; BANDS]) -> Option<u32> {
        let mut best: Option<(f64, u32)> = None;
        for (band, &key) in keys.iter().enumerate() {
            let heads = &self.heads[band];
            let mut at = heads[key as usize & (heads.len() - 1)];
            let mut looked_at = 0;
            while at != NONE && looked_at < LONGEST_CHAIN {
                looked_at += 1;
                if let Some(likeness) = self.likeness(signature, at)
                    && best
                        .is_none_or(|(most, earliest)| likeness > most || (likeness >= most && at < earliest))
                {
                    best = Some((likeness, at));
                }
                at = self.older[at as usize][band];
            }
        }
        best.map(|(_, at)| self.firsts[at as usize].arrival)
    }

    /// Similarity to the first at `at`, where it reaches the threshold and no claim or name tells them apart.
    fn likeness(&self, signature: &Signature, at: u32) -> Option<f64> {
        let first = &self.firsts[at as usize];
        let words = signature.words();
        let (fewer, more) = (words.len().min(first.words as usize), words.len().max(first.words as usize));
        // What one text has more than the other cannot be shared.
        if (fewer as f64) < self.threshold * more as f64 {
            return None;
        }
        let end = self.firsts.get(at as usize + 1).map_or(self.features.len(), |next| next.start as usize);
        let features = self.features.get(first.start as usize..end)?;
        let (its_words, its_claims) = features.split_at_checked(first.words as usize)?;
        if its_claims != signature.claims() {
            return None;
        }
        let (likeness, different_names) = compare(words, its_words);
        (likeness >= self.threshold && !different_names).then_some(likeness)
    }

    #[allow(clippy::cast_possible_truncation, reason = "a shard has fewer than 2^32 items and words")]
    fn remember(&mut self, arrival: u32, signature: &Signature, keys: &[u32; BANDS]) {
        let words = signature.words().len() as u32;
        self.firsts.push(First { arrival, start: self.features.len() as u32, words });
        self.features.extend_from_slice(signature.words());
        self.features.extend_from_slice(signature.claims());
        self.older.push([NONE; BANDS]);
        if self.firsts.len() > self.heads[0].len() {
            self.grow();
        } else {
            self.link(self.firsts.len() - 1, keys);
        }
    }

    #[allow(clippy::cast_possible_truncation, reason = "a shard has fewer than 2^32 items")]
    fn link(&mut self, at: usize, keys: &[u32; BANDS]) {
        for (band, &key) in keys.iter().enumerate() {
            let heads = &mut self.heads[band];
            let bucket = key as usize & (heads.len() - 1);
            self.older[at][band] = heads[bucket];
            heads[bucket] = at as u32;
        }
    }

    /// Twice the buckets, filled again from the oldest on.
    fn grow(&mut self) {
        let buckets = 2 * self.heads[0].len();
        for heads in &mut self.heads {
            *heads = vec![NONE; buckets];
        }
        for at in 0..self.firsts.len() {
            let first = &self.firsts[at];
            let end = self.firsts.get(at + 1).map_or(self.features.len(), |next| next.start as usize);
            let features = &self.features[first.start as usize..end];
            let (words, claims) = features.split_at(first.words as usize);
            let keys = band_keys(words, claims);
            self.link(at, &keys);
        }
    }
}

/// One key a band: its minima and the claims, so that texts with other claims never meet.
fn band_keys(words: &[u32], claims: &[u32]) -> [u32; BANDS] {
    let claims = claims.iter().fold(0x9e37_79b9, |key, &claim| mix(key, claim));
    std::array::from_fn(|band| {
        (0..ROWS).fold(claims, |key, row| {
            let [flip, factor] = FUNCTIONS[band * ROWS + row];
            mix(key, words.iter().map(|&word| (bare(word) ^ flip).wrapping_mul(factor)).min().unwrap_or(0))
        })
    })
}

fn mix(key: u32, value: u32) -> u32 {
    let mixed = (key ^ value).wrapping_mul(0x85eb_ca6b);
    mixed ^ (mixed >> 15)
}

/// What orders the words, differently in each row: bits to flip and an odd factor, from splitmix64.
const FUNCTIONS: [[u32; 2]; BANDS * ROWS] = {
    let mut functions = [[0; 2]; BANDS * ROWS];
    let mut state = 0_u64;
    let mut at = 0;
    while at < functions.len() {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^= z >> 31;
        functions[at] = [(z >> 32) as u32, (z & 0xffff_ffff) as u32 | 1];
        at += 1;
    }
    functions
};

/// Content hashes need no second hashing.
#[derive(Default)]
struct AlreadyHashed(u64);

impl Hasher for AlreadyHashed {
    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(byte);
        }
    }

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{
        super::signature::{name_different_things, same_claims, similarity},
        *,
    };

    fn verdicts(texts: &[&str]) -> Vec<Verdict> {
        let mut finder = DuplicateFinder::new(DEFAULT_NEAR_THRESHOLD);
        (0..).zip(texts).map(|(arrival, text)| finder.insert(arrival, Signature::of(text))).collect()
    }

    #[test]
    fn trap_items_that_clean_to_nothing_are_not_duplicates_of_each_other() {
        assert_eq!(verdicts(&["", "", "…", "!!!"]), [Verdict::Empty; 4]);
    }

    #[test]
    fn a_group_is_named_by_its_first_item() {
        let text = "the bridge over the creek at mill road is closed to all traffic";
        let longer = "breaking the bridge over the creek at mill road is closed to all traffic";
        assert_eq!(
            verdicts(&[
                text,
                "another text of no account",
                longer,
                longer,
                "The Bridge over the creek at MILL road is closed to all traffic"
            ]),
            [
                Verdict::First,
                Verdict::First,
                Verdict::Near { first: 0 },
                Verdict::Exact { first: 0 },
                Verdict::Exact { first: 0 }
            ]
        );
    }

    #[test]
    fn a_changed_count_is_news() {
        assert_eq!(
            verdicts(&[
                "officials say 64 homes destroyed in the fire north of the city",
                "officials say 157 homes destroyed in the fire north of the city",
                "officials say four homes destroyed in the fire north of the city",
                "officials say five homes destroyed in the fire north of the city",
            ]),
            [Verdict::First; 4]
        );
    }

    #[test]
    fn numbers_that_change_places_or_magnitude_are_news() {
        assert_eq!(
            verdicts(&[
                "3 people dead and 5 injured in the fire at the old mill",
                "5 people dead and 3 injured in the fire at the old mill",
                "5 people dead and 5 injured in the fire at the old mill",
                "five people dead and 5 injured in the fire at the old mill",
                "the fire at the old mill did damage of $3m today they say",
                "the fire at the old mill did damage of $3bn today they say",
            ]),
            [
                Verdict::First,
                Verdict::First,
                Verdict::First,
                Verdict::Near { first: 2 },
                Verdict::First,
                Verdict::First
            ]
        );
    }

    #[test]
    fn a_negation_is_news() {
        assert_eq!(
            verdicts(&[
                "The bridge over the creek at mill road is closed to all traffic tonight",
                "The bridge over the creek at mill road is not closed to all traffic tonight",
            ]),
            [Verdict::First; 2]
        );
    }

    #[test]
    fn another_name_is_news_and_an_added_one_is_not() {
        assert_eq!(
            verdicts(&[
                "the road in Bonsall is closed by the police because of the fire",
                "the road in Vista is closed by the police because of the fire",
                "the road in Vista is closed by the police because of the fire, says Smith",
            ]),
            [Verdict::First, Verdict::First, Verdict::Near { first: 1 }]
        );
        assert_eq!(
            verdicts(&[
                "Norrvik road closed by the police because of fire",
                "Mornvik road closed by the police because of fire",
            ]),
            [Verdict::First; 2]
        );
    }

    #[test]
    fn trap_capitals_of_sharp_s_and_final_sigma_are_the_same_text() {
        assert_eq!(
            verdicts(&["STRASSE closed by fire", "straße closed by fire", "ΔΡΟΜΟΣ fire", "δρομος fire"]),
            [Verdict::First, Verdict::Exact { first: 0 }, Verdict::First, Verdict::Exact { first: 2 }]
        );
    }

    #[test]
    fn short_texts_are_duplicates_only_where_they_are_equal() {
        assert_eq!(
            verdicts(&["stay safe", "safe stay", "Stay safe", "stay safe stay"]),
            [Verdict::First, Verdict::First, Verdict::Exact { first: 0 }, Verdict::First]
        );
    }

    #[test]
    fn of_several_the_most_similar_counts() {
        let base = "one red fox and two black dogs sat near the old mill by our river today in rain";
        let close = format!("{base} again");
        let verdicts = verdicts(&[
            "one red fox and two black dogs sat near the old mill by our river",
            "one red fox and two black dogs sat near some new mill on your river today in rain yesterday evening",
            &close,
            base,
        ]);
        assert_eq!(verdicts[1], Verdict::First);
        assert_eq!(
            verdicts[3],
            if verdicts[2] == Verdict::First { Verdict::Near { first: 2 } } else { verdicts[2] }
        );
    }

    proptest! {
        /// Against comparing with every first: nothing is claimed that is none, and what is close is found.
        #[test]
        fn verdicts_are_right(texts in prop::collection::vec("(([a-f]|[A-C]|not) ){3,9}[12]?", 1..60)) {
            let mut finder = DuplicateFinder::new(DEFAULT_NEAR_THRESHOLD);
            let mut firsts: Vec<(u32, Signature)> = Vec::new();
            for (arrival, text) in (0..).zip(&texts) {
                let signature = Signature::of(text);
                let verdict = finder.insert(arrival, signature.clone());
                let most = firsts
                    .iter()
                    .filter(|(_, first)| same_claims(first, &signature) && !name_different_things(first, &signature))
                    .map(|(first, other)| (similarity(other, &signature), *first))
                    .fold((0.0, 0), |a, b| if b.0 > a.0 { b } else { a });
                match verdict {
                    Verdict::First => {
                        prop_assert!(most.0 < 1.0 || signature.words().len() < 3, "{text}");
                        firsts.push((arrival, signature));
                    }
                    Verdict::Near { first } => {
                        let named = firsts.iter().find(|(at, _)| *at == first).map(|(_, other)| other);
                        let right = named.is_some_and(|other| {
                            similarity(other, &signature) >= DEFAULT_NEAR_THRESHOLD
                                && same_claims(other, &signature)
                                && !name_different_things(other, &signature)
                        });
                        prop_assert!(right);
                        if most.0 >= 1.0 {
                            prop_assert_eq!(first, most.1);
                        }
                    }
                    Verdict::Exact { first } => prop_assert!(first < arrival),
                    Verdict::Empty => prop_assert!(false, "{text} has words"),
                }
            }
        }
    }
}
