//! Splits hashtags into English words exactly as the WordSegment toolkit 1.3.1 does (paper §3.2).
//!
//! The most probable division is found by dynamic programming over a unigram and bigram model with *stupid backoff*.
//! Equality covers what is easily lost: the order in which logarithms are added, ties (the greater list of words
//! wins), chunks of 250 characters that carry their last five words over, and words of at most 24 letters.

use std::{
    io::{self, Read},
    sync::OnceLock,
};

use flate2::bufread::GzDecoder;
use xxhash_rust::xxh3::xxh3_64;

const UNIGRAMS: &[u8] = include_bytes!("../../data/wordsegment/unigrams.txt.gz");
const BIGRAMS: &[u8] = include_bytes!("../../data/wordsegment/bigrams.txt.gz");

/// Words in the corpus that the counts come from; not the sum of the counts.
const TOTAL: f64 = 1_024_908_267_229.0;
/// Longest word in characters.
const LONGEST_WORD: usize = 24;
/// Characters that are divided at once.
const CHUNK: usize = 250;
/// Words at the end of a chunk that are divided again together with the next one.
const CARRIED_WORDS: usize = 5;
/// `10^n`, each rounded once (repeated multiplication would round more often).
const POWERS: [f64; LONGEST_WORD + 1] = [
    1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18,
    1e19, 1e20, 1e21, 1e22, 1e23, 1e24,
];

/// The word model; one for the whole process.
pub struct Segmenter {
    unigrams: Counts,
    bigrams: Counts,
}

impl Segmenter {
    /// The model, unpacked at the first call.
    pub fn load() -> &'static Self {
        static MODEL: OnceLock<Segmenter> = OnceLock::new();
        MODEL.get_or_init(|| {
            // The two files unpack side by side: what waits for a model waits half as long.
            std::thread::scope(|scope| {
                let unigrams = scope.spawn(|| Counts::unpack(UNIGRAMS));
                let bigrams = Counts::unpack(BIGRAMS);
                let unigrams = unigrams.join().unwrap_or_else(|_| Counts::unpack(UNIGRAMS));
                Self { unigrams, bigrams }
            })
        })
    }

    /// The words of `tag`, lower-cased; characters other than ASCII letters and digits do not count.
    pub fn segment(&self, tag: &str) -> Vec<String> {
        let letters: Vec<u8> = tag
            .chars()
            .flat_map(char::to_lowercase)
            .filter(char::is_ascii_alphanumeric)
            .map(|letter| letter as u8)
            .collect();

        let mut words: Vec<String> = Vec::new();
        let mut carried: Vec<u8> = Vec::new();
        for chunk in letters.chunks(CHUNK) {
            carried.extend_from_slice(chunk);
            let mut found = self.divide(&carried);
            let keep = found.split_off(found.len().saturating_sub(CARRIED_WORDS));
            words.append(&mut found);
            carried = keep.concat().into_bytes();
        }
        words.append(&mut self.divide(&carried));
        words
    }

    /// The best division of one chunk.
    ///
    /// `best[at][n]` is the score of what follows position `at` when the word before it has `n` letters; `n` = 0 is
    /// the start, whose bigrams WordSegment never uses because its `<s>` is no unigram.
    fn divide(&self, text: &[u8]) -> Vec<String> {
        const WIDTH: usize = LONGEST_WORD + 1;
        let words = self.words_of(text);
        let mut best = vec![0.0_f64; (text.len() + 1) * WIDTH];
        let mut choice = vec![0_u8; (text.len() + 1) * WIDTH];
        let mut pair = Vec::with_capacity(2 * LONGEST_WORD + 1);

        for at in (0..text.len()).rev() {
            let longest_before = at.min(LONGEST_WORD);
            let shortest_before = usize::from(at > 0);
            for before in shortest_before..=longest_before {
                let previous =
                    if before == 0 { None } else { words[(at - before) * WIDTH + before].probability };
                let mut top = f64::NEG_INFINITY;
                let mut chosen = 0_u8;
                for length in 1..=LONGEST_WORD.min(text.len() - at) {
                    let word = &words[at * WIDTH + length];
                    let mut score = word.log;
                    if let Some(previous) = previous {
                        pair.clear();
                        pair.extend_from_slice(&text[at - before..at]);
                        pair.push(b' ');
                        pair.extend_from_slice(&text[at..at + length]);
                        if let Some(count) = self.bigrams.get(&pair) {
                            score = (count / TOTAL / previous).log10();
                        }
                    }
                    score += best[(at + length) * WIDTH + length];
                    // At equal scores the greater list wins, and of two divisions of one text the greater list is
                    // the one whose first differing word is longer.
                    if score >= top {
                        top = score;
                        #[allow(clippy::cast_possible_truncation, reason = "at most 24")]
                        {
                            chosen = length as u8;
                        }
                    }
                }
                best[at * WIDTH + before] = top;
                choice[at * WIDTH + before] = chosen;
            }
        }

        let mut found = Vec::new();
        let (mut at, mut before) = (0, 0);
        while at < text.len() {
            let length = usize::from(choice[at * WIDTH + before]);
            found.push(String::from_utf8_lossy(&text[at..at + length]).into_owned());
            at += length;
            before = length;
        }
        found
    }

    /// Every word that stands in `text`, by its first position and length.
    fn words_of(&self, text: &[u8]) -> Vec<Word> {
        const WIDTH: usize = LONGEST_WORD + 1;
        let mut words = vec![Word { probability: None, log: 0.0 }; text.len() * WIDTH];
        for at in 0..text.len() {
            for length in 1..=LONGEST_WORD.min(text.len() - at) {
                let probability = self.unigrams.get(&text[at..at + length]).map(|count| count / TOTAL);
                // Unknown words are the less probable the longer they are.
                let log = probability.unwrap_or(10.0 / (TOTAL * POWERS[length])).log10();
                words[at * WIDTH + length] = Word { probability, log };
            }
        }
        words
    }
}

/// One word: its probability if the corpus has it, and the logarithm that its unigram score adds.
#[derive(Clone, Copy)]
struct Word {
    probability: Option<f64>,
    log: f64,
}

/// Counts by key: the unpacked file and a hash table of the places where its lines begin. Keys are compared, so
/// nothing is found by accident.
struct Counts {
    text: Vec<u8>,
    /// Upper half: the upper half of the key's hash; lower half: the line's first byte plus one. 0 is empty.
    slots: Vec<u64>,
}

/// A power of two about one and a half times the number of lines of either file.
const SLOTS: usize = 1 << 19;
const LOWER_HALF: u64 = 0xffff_ffff;

impl Counts {
    fn unpack(packed: &[u8]) -> Self {
        let mut text = Vec::with_capacity(6 << 20);
        // The bytes are part of this program, and a test reads them to the end.
        let complete: io::Result<usize> = GzDecoder::new(packed).read_to_end(&mut text);
        debug_assert!(complete.is_ok(), "{complete:?}");

        let mut counts = Self { text: Vec::new(), slots: vec![0; SLOTS] };
        let mut start = 0;
        for line in text.split_inclusive(|&byte| byte == b'\n') {
            let key = line.split(|&byte| byte == b'\t').next().unwrap_or(line);
            counts.put(&text, key, start);
            start += line.len();
        }
        counts.text = text;
        counts
    }

    /// Of equal keys the last wins, as in a Python dictionary.
    fn put(&mut self, text: &[u8], key: &[u8], start: usize) {
        let hash = xxh3_64(key);
        let entry = (hash & !LOWER_HALF) | (start as u64 + 1);
        let mut slot = slot_of(hash);
        while self.slots[slot] != 0 {
            if (self.slots[slot] ^ hash) & !LOWER_HALF == 0 && line_of(text, self.slots[slot], key).is_some()
            {
                break;
            }
            slot = (slot + 1) % SLOTS;
        }
        self.slots[slot] = entry;
    }

    fn get(&self, key: &[u8]) -> Option<f64> {
        let hash = xxh3_64(key);
        let mut slot = slot_of(hash);
        while self.slots[slot] != 0 {
            if (self.slots[slot] ^ hash) & !LOWER_HALF == 0
                && let Some(count) = line_of(&self.text, self.slots[slot], key)
            {
                return Some(digits(count));
            }
            slot = (slot + 1) % SLOTS;
        }
        None
    }
}

#[allow(clippy::cast_possible_truncation, reason = "reduced below 2^19")]
fn slot_of(hash: u64) -> usize {
    (hash % SLOTS as u64) as usize
}

/// What follows `key` and its tab where the slot's line begins so.
#[allow(clippy::cast_possible_truncation, reason = "the lower half is a position in the text")]
fn line_of<'a>(text: &'a [u8], slot: u64, key: &[u8]) -> Option<&'a [u8]> {
    text.get((slot & LOWER_HALF) as usize - 1..)?.strip_prefix(key)?.strip_prefix(b"\t")
}

/// The number at the start of `text`; counts stay far below 2^53.
fn digits(text: &[u8]) -> f64 {
    let mut value = 0_u64;
    for &byte in text {
        if !byte.is_ascii_digit() {
            break;
        }
        value = value * 10 + u64::from(byte - b'0');
    }
    value as f64
}

#[cfg(test)]
mod tests {
    use std::fs;

    use serde::Deserialize;

    use super::*;

    #[derive(Deserialize)]
    struct Vector {
        input: String,
        segments: Vec<String>,
    }

    fn differing(vectors: &str) -> Vec<String> {
        vectors
            .lines()
            .map(|line| serde_json::from_str::<Vector>(line).unwrap())
            .filter(|vector| Segmenter::load().segment(&vector.input) != vector.segments)
            .map(|vector| vector.input)
            .collect()
    }

    #[test]
    fn made_up_tags_split_as_wordsegment_splits_them() {
        let vectors = include_str!("../../tests/vectors/wordsegment.jsonl");
        assert!(vectors.lines().count() >= 200);
        assert_eq!(differing(vectors), Vec::<String>::new());
    }

    #[test]
    fn real_tags_split_as_wordsegment_splits_them() {
        let path = crate::clean::tests::data_folder().join("vectors/wordsegment_expected.jsonl");
        let Ok(vectors) = fs::read_to_string(&path) else {
            eprintln!("skipped: {} is absent", path.display());
            return;
        };
        assert_eq!(vectors.lines().count(), 1506);
        assert_eq!(differing(&vectors), Vec::<String>::new());
    }

    #[test]
    fn both_files_unpack_to_their_end() {
        let model = Segmenter::load();
        for (counts, lines) in [(&model.unigrams, 333_213), (&model.bigrams, 286_358)] {
            assert_eq!(counts.text.split(|&byte| byte == b'\n').count(), lines + 1);
        }
        assert_eq!(model.unigrams.get(b"the"), Some(23_135_851_162.0));
        assert_eq!(model.unigrams.get(b"th e"), None);
    }

    #[test]
    fn nothing_gives_no_words() {
        assert!(Segmenter::load().segment("").is_empty());
        assert!(Segmenter::load().segment("___").is_empty());
    }
}
