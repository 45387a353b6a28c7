//! A light recogniser of names: capitalised words, judged by how the request's other texts write them.
//!
//! What it keeps true, and where it ends:
//! * A span is a run of capitalised words, with connectors inside (`Department of Agriculture`, `Rio de Janeiro`) and
//!   perhaps a number last (`Highway 76`). `and` and commas separate: `Bonsall and Fallbrook` are two.
//! * A single word is a name only where the request writes it with a capital in the middle of sentences more often
//!   than in lower case; so words at the start of a sentence, and words in capitals for emphasis, need such a witness.
//! * Texts in capitals throughout, and headlines with a capital on every word, say nothing by their capitals: in them
//!   only names that other texts witness are found. Texts all in lower case give none.
//! * German writes every noun with a capital, so there every noun counts as a name. Scripts without case give none.

use std::{
    collections::{HashMap, HashSet},
    ops::Range,
};

use super::words::{Word, name_key};
use crate::clean::signature::ends_sentence;

/// Words that may stand inside a name without a capital.
const CONNECTORS: &[&str] = &[
    "of", "the", "de", "del", "della", "dei", "di", "da", "do", "dos", "das", "du", "des", "la", "las",
    "los", "le", "von", "van", "der", "den",
];

/// After these a full stop ends no sentence.
const ABBREVIATIONS: &[&str] = &[
    "st", "ste", "mt", "ft", "dr", "mr", "mrs", "ms", "gov", "sen", "rep", "lt", "sgt", "gen", "col", "capt",
    "jr", "sta", "sto", "sra", "sr", "no",
];

/// Words that are no name by themselves and begin none at the start of a sentence, whatever the request's texts show.
const NO_NAMES: &[&str] = &[
    "a", "about", "after", "all", "an", "and", "another", "any", "are", "as", "at", "be", "because",
    "before", "breaking", "but", "by", "can", "do", "for", "from", "have", "he", "her", "here", "his", "how",
    "i", "id", "if", "ill", "im", "in", "is", "it", "its", "ive", "just", "many", "more", "my", "new", "no",
    "not", "now", "of", "on", "or", "our", "out", "over", "please", "rt", "she", "so", "some", "that", "the",
    "their", "there", "these", "they", "this", "those", "to", "two", "update", "was", "we", "what", "when",
    "where", "who", "why", "with", "you", "your",
];

/// Longest name in words.
const LONGEST: usize = 6;

/// How the texts of a request write their words.
#[derive(Debug, Default)]
pub(super) struct Lexicon {
    /// Per word: how often with a capital inside a sentence, and how often in lower case.
    written: HashMap<String, (u32, u32)>,
    /// Names of several words seen inside sentences.
    names: HashSet<String>,
}

impl Lexicon {
    /// Takes note of one text.
    pub(super) fn learn(&mut self, words: &[Word<'_>]) {
        if case_of(words) != Case::Telling {
            return;
        }
        for (at, word) in words.iter().enumerate() {
            let capital = capitalised(word.text);
            if capital && starts_sentence(words, at) {
                continue;
            }
            if !word.text.starts_with(char::is_alphabetic) {
                continue;
            }
            let counts = self.written.entry(name_key(word.text)).or_default();
            if capital {
                counts.0 += 1;
            } else {
                counts.1 += 1;
            }
        }
        for run in runs(words, &[]) {
            if run.len() > 1 && !starts_sentence(words, run.start) {
                self.names.insert(key_of(words, run));
            }
        }
    }

    fn is_name(&self, word: &str) -> bool {
        let key = name_key(word);
        let (capital, lower) = self.written.get(&key).copied().unwrap_or_default();
        capital > lower && !NO_NAMES.contains(&key.as_str())
    }

    /// Whether the word is one that begins sentences without being part of a name.
    fn is_plain(&self, word: &str) -> bool {
        let key = name_key(word);
        let (capital, lower) = self.written.get(&key).copied().unwrap_or_default();
        lower > capital || NO_NAMES.contains(&key.as_str())
    }
}

/// What the capitals of a text say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Case {
    /// Some words have capitals and some have none.
    Telling,
    /// Nearly every word has one, or is in capitals throughout.
    Useless,
}

fn case_of(words: &[Word<'_>]) -> Case {
    let lettered = || words.iter().filter(|word| word.text.chars().filter(|c| c.is_alphabetic()).count() > 1);
    let all = lettered().count();
    let shouted = lettered().filter(|word| !word.text.chars().any(char::is_lowercase)).count();
    if all >= 3 && shouted * 5 > all * 3 {
        return Case::Useless;
    }
    // Function words are written small in headlines too
    let telling = || {
        let inside = words.iter().enumerate().filter(|&(at, _)| !starts_sentence(words, at));
        inside
            .map(|(_, word)| word.text)
            .filter(|word| word.starts_with(char::is_alphabetic) && !is_function_word(word))
    };
    let all = telling().count();
    let small = telling().filter(|word| !capitalised(word)).count();
    if all >= 4 && small * 10 <= all { Case::Useless } else { Case::Telling }
}

fn is_function_word(word: &str) -> bool {
    let word = word.to_lowercase();
    NO_NAMES.contains(&word.as_str()) || CONNECTORS.contains(&word.as_str())
}

/// Whether a word starts with a capital letter.
pub(super) fn capitalised(word: &str) -> bool {
    word.starts_with(char::is_uppercase)
}

/// Whether the word at `at` is the first of a sentence, headline part or quotation.
pub(super) fn starts_sentence(words: &[Word<'_>], at: usize) -> bool {
    let Some(word) = words.get(at) else { return false };
    let Some(before) = at.checked_sub(1).and_then(|at| words.get(at)) else { return true };
    if abbreviates(before, word) {
        return false;
    }
    word.gap.contains(ends_sentence) || word.gap.contains(" - ")
}

fn abbreviates(before: &Word<'_>, word: &Word<'_>) -> bool {
    let initial = before.text.chars().count() == 1 || before.text.contains('.');
    matches!(word.gap, ". " | ".")
        && capitalised(before.text)
        && (initial || ABBREVIATIONS.contains(&before.text.to_lowercase().as_str()))
}

/// The names of a text, as ranges of its words. `taken` are words that belong to a quantity.
pub(super) fn spans(words: &[Word<'_>], taken: &[usize], lexicon: &Lexicon) -> Vec<Range<usize>> {
    let useless = case_of(words) == Case::Useless;
    let mut found = Vec::new();
    for run in runs(words, taken) {
        if useless {
            witnessed(words, run, lexicon, &mut found);
            continue;
        }
        let known = lexicon.names.contains(&key_of(words, run.clone()));
        let Range { mut start, end } = run;
        if !known && starts_sentence(words, start) {
            while start < end && (lexicon.is_plain(words[start].text) || !capitalised(words[start].text)) {
                start += 1;
            }
        }
        let accepted = match end - start {
            0 => false,
            1 => lexicon.is_name(words[start].text),
            length => length <= LONGEST,
        };
        if accepted {
            found.push(start..end);
        }
    }
    found
}

/// The names within a run of capitals that other texts show to be names, longest first.
fn witnessed(words: &[Word<'_>], run: Range<usize>, lexicon: &Lexicon, found: &mut Vec<Range<usize>>) {
    let mut start = run.start;
    while start < run.end {
        let longest = (start + 2..=run.end.min(start + LONGEST))
            .rev()
            .find(|&end| lexicon.names.contains(&key_of(words, start..end)));
        let end = match longest {
            Some(end) => end,
            None if lexicon.is_name(words[start].text) => start + 1,
            None => {
                start += 1;
                continue;
            }
        };
        found.push(start..end);
        start = end;
    }
}

/// Runs of capitalised words with connectors inside.
fn runs(words: &[Word<'_>], taken: &[usize]) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    let mut at = 0;
    while at < words.len() {
        if !capitalised(words[at].text) {
            at += 1;
            continue;
        }
        let start = at;
        let mut end = at + 1;
        while let Some(next) = continuation(words, end, taken) {
            end = next;
        }
        found.push(start..end);
        at = end;
    }
    found
}

/// Where a run that reaches up to `end` goes on to, if it does.
fn continuation(words: &[Word<'_>], end: usize, taken: &[usize]) -> Option<usize> {
    let mut at = end;
    // "Department of the Interior": at most two connectors, and a capital after them
    while at < end + 2 && words.get(at).is_some_and(|word| word.gap == " " && CONNECTORS.contains(&word.text))
    {
        at += 1;
    }
    let word = words.get(at)?;
    let tied = matches!(word.gap, " " | "-" | " & " | "&") || abbreviates(words.get(at - 1)?, word);
    if tied && capitalised(word.text) {
        return Some(at + 1);
    }
    let numeral = word.text.starts_with(|c: char| c.is_ascii_digit()) && !taken.contains(&at);
    // The number ends the name: what follows it is tied to nothing
    (at == end && numeral && matches!(word.gap, " " | "-") && capitalised(words.get(end - 1)?.text))
        .then_some(at + 1)
}

/// The key under which a name is one concept.
pub(super) fn key_of(words: &[Word<'_>], span: Range<usize>) -> String {
    words.get(span).into_iter().flatten().map(|word| name_key(word.text)).collect()
}

#[cfg(test)]
mod tests {
    use super::{super::words::words, *};

    /// The keys of the names in the last text, given the others.
    fn names(texts: &[&str]) -> Vec<String> {
        let mut lexicon = Lexicon::default();
        for text in texts {
            lexicon.learn(&words(text));
        }
        let last = words(texts.last().unwrap());
        spans(&last, &[], &lexicon).into_iter().map(|span| key_of(&last, span)).collect()
    }

    #[test]
    fn capitalised_runs_inside_a_sentence_are_names() {
        assert_eq!(
            names(&["crews from Cal Fire near Bonsall and Fallbrook"]),
            ["calfire", "bonsall", "fallbrook"]
        );
        assert_eq!(
            names(&["the Department of the Interior met St. Paul in Rio de Janeiro"]),
            ["departmentoftheinterior", "stpaul", "riodejaneiro"]
        );
        assert_eq!(names(&["closed at Highway 76 east of Gird Road."]), ["highway76", "girdroad"]);
    }

    #[test]
    fn the_start_of_a_sentence_needs_a_witness() {
        assert_eq!(names(&["Residents must leave. Bonsall is burning"]), Vec::<String>::new());
        assert_eq!(names(&["smoke over Bonsall", "Residents must leave. Bonsall is burning"]), ["bonsall"]);
        assert_eq!(names(&["The Lilac Fire grows"]), ["lilacfire"]);
        assert_eq!(names(&["in Los Angeles", "the los", "the los", "Los Angeles burns"]), ["losangeles"]);
    }

    #[test]
    fn emphasis_is_no_name_where_the_word_is_common() {
        assert_eq!(names(&["do not go", "do not go", "do NOT go to Vista"]), ["vista"]);
        assert_eq!(names(&["they say I saw FEMA"]), ["fema"]);
    }

    #[test]
    fn capitals_throughout_say_nothing_without_a_witness() {
        let shout = "FIRE CREWS HEAD FOR VISTA NOW";
        let headline = "Fire Crews Head For Vista Homes Tonight";
        for text in [shout, headline] {
            assert_eq!(names(&[text]), Vec::<String>::new());
            assert_eq!(names(&["smoke seen from Vista today", text]), ["vista"]);
        }
        assert_eq!(names(&["smoke seen from Vista today", "fire near vista"]), Vec::<String>::new());
    }

    #[test]
    fn german_nouns_count_as_names() {
        assert_eq!(names(&["gestern hat die Feuerwehr in Passau geholfen"]), ["feuerwehr", "passau"]);
    }
}
