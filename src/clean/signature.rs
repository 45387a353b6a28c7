//! What is compared of a clean text: its words, its claims, and a hash of the whole.

use std::cmp::Ordering;

use xxhash_rust::xxh3::xxh3_64;

use super::{
    claims::{Claim, claims},
    fold::{fold, fold_into},
};

/// A text's words as a set, the sequence of its numbers and negations, and the hash of all of it.
///
/// Words are kept as 30 bits of their hash, ascending, claims as 32: two different words of two texts are taken for one
/// about once in three million pairs of texts. The two lowest bits of a word say how it is written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Signature {
    hash: u64,
    /// The words, then the claims.
    features: Box<[u32]>,
    words: u32,
}

/// Set in a word that the text writes with a capital inside a sentence.
const NAME: u32 = 1;
/// Set in a word that the text writes with a capital where every word would have one.
const FIRST: u32 = 2;
const WRITTEN: u32 = NAME | FIRST;
/// The claim of a negation.
const NOT: u32 = 0x006e_6f74;

impl Signature {
    /// Reads a clean text.
    ///
    /// A word is a run of letters, marks and digits, whatever its case; an apostrophe inside belongs to it. What is a
    /// number and what a negation is written in `clean/claims.rs`.
    pub fn of(clean_text: &str) -> Self {
        let mut features = words_of(clean_text);
        #[allow(clippy::cast_possible_truncation, reason = "a text of 2^32 words is none")]
        let words = features.len() as u32;
        let folded = fold(clean_text);
        claims(&folded, |claim| {
            features.push(match claim {
                Claim::Number(value) => short_hash(value.as_bytes()),
                Claim::Not => NOT,
            });
        });
        Self { hash: xxh3_64(folded.as_bytes()), features: features.into_boxed_slice(), words }
    }

    /// xxh3 of the case-folded clean text: the content hash that is stored.
    pub fn hash(&self) -> u64 {
        self.hash
    }

    /// Whether the text has no word and no number at all.
    pub fn is_empty(&self) -> bool {
        self.words == 0
    }

    pub(super) fn words(&self) -> &[u32] {
        self.features.get(..self.words as usize).unwrap_or_default()
    }

    pub(super) fn claims(&self) -> &[u32] {
        self.features.get(self.words as usize..).unwrap_or_default()
    }
}

/// Jaccard similarity of the two sets of words: shared ÷ all. Two texts without words are not alike (0).
pub fn similarity(a: &Signature, b: &Signature) -> f64 {
    compare(a.words(), b.words()).0
}

/// Whether both texts have the same numbers and negations in the same order.
pub fn same_claims(a: &Signature, b: &Signature) -> bool {
    a.claims() == b.claims()
}

/// Whether each of the two texts has a name that the other lacks, or they differ in one word, with a capital in both.
pub fn name_different_things(a: &Signature, b: &Signature) -> bool {
    compare(a.words(), b.words()).1
}

/// A word's hash without what this text says of it.
pub(super) fn bare(word: u32) -> u32 {
    word & !WRITTEN
}

#[allow(clippy::many_single_char_names, reason = "two lists and their places")]
/// Jaccard similarity of two ascending lists of words without repeats, and whether each has a name that the other
/// lacks: a capital inside a sentence, or any capital where it is the only difference.
pub(super) fn compare(a: &[u32], b: &[u32]) -> (f64, bool) {
    let (mut i, mut j, mut shared) = (0, 0, 0_usize);
    let (mut of_a, mut of_b) = (0, 0);
    loop {
        match (a.get(i), b.get(j)) {
            (Some(&x), Some(&y)) => match bare(x).cmp(&bare(y)) {
                Ordering::Less => {
                    of_a |= x;
                    i += 1;
                }
                Ordering::Greater => {
                    of_b |= y;
                    j += 1;
                }
                Ordering::Equal => {
                    shared += 1;
                    i += 1;
                    j += 1;
                }
            },
            (Some(&x), None) => {
                of_a |= x;
                i += 1;
            }
            (None, Some(&y)) => {
                of_b |= y;
                j += 1;
            }
            (None, None) => break,
        }
    }
    let all = a.len() + b.len() - shared;
    let one_replaced = a.len() == shared + 1 && b.len() == shared + 1;
    let named = of_a & of_b & NAME != 0 || (one_replaced && of_a & WRITTEN != 0 && of_b & WRITTEN != 0);
    (if all == 0 { 0.0 } else { shared as f64 / all as f64 }, named)
}

/// The words of a text, ascending, each once.
fn words_of(text: &str) -> Vec<u32> {
    let mut words = Vec::with_capacity(24);
    let mut folded = String::with_capacity(16);
    let mut sentence_starts = true;
    for piece in text.split_inclusive(|c: char| !is_word(c)) {
        let end = piece.chars().next_back().filter(|&c| !is_word(c));
        let word = piece.strip_suffix(|c| !is_word(c)).unwrap_or(piece).trim_matches(['\'', '’']);
        if word.contains(char::is_alphanumeric) {
            folded.clear();
            fold_into(&mut folded, word);
            let written = match (word.starts_with(char::is_uppercase), sentence_starts) {
                (true, true) => FIRST,
                (true, false) => NAME,
                (false, _) => 0,
            };
            words.push(bare(short_hash(folded.as_bytes())) | written);
            sentence_starts = false;
        } else if end == Some('-') {
            sentence_starts = true; // a dash, as no word touches it
        }
        sentence_starts |= end.is_some_and(ends_sentence);
    }
    words.sort_unstable();
    words.dedup_by(|next, kept| {
        let same = bare(*next) == bare(*kept);
        if same {
            *kept |= *next;
        }
        same
    });
    words
}

/// Whether what follows `c` begins a sentence, a part of a headline or a quotation.
pub(crate) fn ends_sentence(c: char) -> bool {
    matches!(
        c,
        '.' | '!'
            | '?'
            | ':'
            | ';'
            | '…'
            | '"'
            | '“'
            | '”'
            | '|'
            | '•'
            | '–'
            | '—'
            | '\n'
            | '¿'
            | '¡'
            | '«'
    )
}

pub(super) fn is_word(c: char) -> bool {
    c.is_alphanumeric()
        || matches!(c, '\'' | '’')
        || (!c.is_ascii() && unicode_normalization::char::is_combining_mark(c))
}

#[allow(clippy::cast_possible_truncation, reason = "the lower half of the hash")]
fn short_hash(bytes: &[u8]) -> u32 {
    xxh3_64(bytes) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_changed_count_is_another_number() {
        let of = Signature::of;
        assert!(!same_claims(&of("64 homes destroyed"), &of("157 homes destroyed")));
        assert!(same_claims(&of("3,300 homes"), &of("homes: 3300")));
        assert!(same_claims(&of("Three dead"), &of("3 dead")));
        assert!(!same_claims(&of("Three dead"), &of("four dead")));
        assert!(!same_claims(&of("5 of 5 found"), &of("5 found")));
        assert!(!same_claims(&of("3.300"), &of("3,300")), "either could be meant");
        assert!(!same_claims(&of("$3m damage"), &of("$3bn damage")));
        assert!(!same_claims(&of("-5 degrees"), &of("5 degrees")));
    }

    #[test]
    fn numbers_that_change_places_are_other_claims() {
        let of = Signature::of;
        assert!(!same_claims(&of("3 dead, 5 hurt"), &of("5 dead, 3 hurt")));
        assert!(!same_claims(&of("1/2 contained"), &of("2/1 contained")));
        assert!(!same_claims(&of("3 dead, 5 missing"), &of("5 dead, 5 missing")));
    }

    #[test]
    fn a_negation_is_a_claim() {
        let of = Signature::of;
        assert!(!same_claims(&of("The bridge is closed"), &of("The bridge is not closed")));
        assert!(same_claims(&of("It is not closed"), &of("It isn't closed")));
    }

    #[test]
    fn names_are_capitals_inside_a_sentence_that_the_other_lacks() {
        let differ = |a, b| name_different_things(&Signature::of(a), &Signature::of(b));
        assert!(differ("fire in Bonsall tonight", "fire in Vista tonight"));
        assert!(!differ("fire in Bonsall tonight", "fire in BONSALL tonight"));
        assert!(!differ("fire in Bonsall tonight", "fire in bonsall, says Vista"));
        assert!(differ("Norrvik road closed by fire", "Mornvik road closed by fire"), "in one word");
        assert!(!differ("Police say: Stay home. Now", "Officials say - Go home! Soon"));
    }

    #[test]
    fn similarity_is_the_share_of_common_words() {
        let of = Signature::of;
        assert!((similarity(&of("The bridge is CLOSED"), &of("bridge: closed, the is")) - 1.0).abs() < 1e-12);
        assert!((similarity(&of("a b c"), &of("b c d")) - 0.5).abs() < 1e-12);
        assert!(similarity(&of(""), &of("")).abs() < 1e-12);
    }

    #[test]
    fn the_hash_is_that_of_the_case_folded_text() {
        assert_eq!(Signature::of("ÉCOLE Closed").hash(), xxh3_64("école closed".as_bytes()));
        assert_ne!(Signature::of("école").hash(), Signature::of("ecole").hash());
        assert_eq!(Signature::of("STRASSE closed").hash(), Signature::of("straße closed").hash());
        assert_eq!(Signature::of("ΔΡΟΜΟΣ").hash(), Signature::of("δρομος").hash());
        assert!(Signature::of("… !!! 🔥").is_empty() && !Signature::of("7").is_empty());
    }
}
