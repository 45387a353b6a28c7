//! Whether a fact was said before.
//!
//! Facts are compared by their sets of words (case folded, numbers apart), their numbers in order (by value) and their
//! negations. Two facts are alike if the Jaccard index of their words is at least [`ALIKE`] and neither names what the
//! other names differently: "evacuation order for Bonsall" and "evacuation order for Vista" are two facts however long
//! the rest is. A name is a word with a capital inside a sentence; where two facts differ in one word alone, any capital. Of two alike facts the later repeats the earlier one if its numbers stand there in the same order, and
//! as many negations: "5 dead, 3 missing" after "3 dead, 5 missing" is news, and so is "not closed" after "closed".

use std::collections::HashMap;

use super::{
    names::{capitalised, starts_sentence},
    words::{Decimals, Word, folded, number, words},
};
use crate::clean::{
    claims::{Claim, claims, is_number_word},
    fold::fold,
};

/// Least Jaccard index of the words of two facts that say the same.
pub const ALIKE: f64 = 0.75;

/// The same within one request: there a fact in other words is near its source, and saying it twice helps nobody.
const ALIKE_SAME_REQUEST: f64 = 0.6;

/// Fewest words, numbers apart, of a fact that can be recognised as an update of another.
const FEWEST_WORDS: usize = 3;

/// What a fact is to the facts before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Novelty {
    /// Nothing like it was said.
    New,
    /// The fact of this index says it already, with all its numbers and negations.
    Repeats(usize),
    /// It differs from the fact of this index, the latest such, in its numbers or negations alone.
    Updates(usize),
}

/// A fact as it is compared.
#[derive(Debug, Clone, Default)]
struct Said {
    /// Numbers of its words, ascending.
    words: Vec<u32>,
    /// Those among them that it writes with a capital inside a sentence.
    names: Vec<u32>,
    /// Those that it writes with a capital anywhere.
    capitals: Vec<u32>,
    /// Its numbers by value, as they stand.
    numbers: Vec<String>,
    /// How often it says "not".
    negations: usize,
}

/// The facts said so far, in order.
#[derive(Debug, Clone)]
pub struct History {
    least: f64,
    words: HashMap<String, u32>,
    /// Per word the facts that hold it, ascending.
    holders: Vec<Vec<usize>>,
    said: Vec<Said>,
    /// The facts without any word.
    wordless: Vec<usize>,
}

impl Default for History {
    fn default() -> Self {
        Self::new()
    }
}

impl History {
    /// Nothing said yet; for facts of earlier requests.
    pub fn new() -> Self {
        Self::with(ALIKE)
    }

    /// Nothing said yet; for the facts of one request, which are alike sooner.
    pub fn of_one_request() -> Self {
        Self::with(ALIKE_SAME_REQUEST)
    }

    fn with(least: f64) -> Self {
        Self { least, words: HashMap::new(), holders: Vec::new(), said: Vec::new(), wordless: Vec::new() }
    }

    /// How many facts were said.
    pub fn len(&self) -> usize {
        self.said.len()
    }

    /// Whether nothing was said.
    pub fn is_empty(&self) -> bool {
        self.said.is_empty()
    }

    /// Adds a fact; its index is the number of facts before it.
    pub fn push(&mut self, clean: &str) -> usize {
        let index = self.said.len();
        let Parts { words, names, capitals, numbers, negations } = Parts::of(clean);
        let mut said = Said { numbers, negations, ..Said::default() };
        for word in words {
            let next = u32::try_from(self.words.len()).unwrap_or(u32::MAX);
            let number = *self.words.entry(word.clone()).or_insert(next);
            if number == next {
                self.holders.push(Vec::new());
            }
            self.holders[number as usize].push(index);
            if names.contains(&word) {
                said.names.push(number);
            }
            if capitals.contains(&word) {
                said.capitals.push(number);
            }
            said.words.push(number);
        }
        said.words.sort_unstable();
        said.names.sort_unstable();
        if said.words.is_empty() {
            self.wordless.push(index);
        }
        self.said.push(said);
        index
    }

    /// Compares a fact with all that was said.
    pub fn judge(&self, clean: &str) -> Novelty {
        let parts = Parts::of(clean);
        let mut update = None;
        for index in self.alike(&parts) {
            let earlier = &self.said[index];
            if parts.negations == earlier.negations && in_order(&parts.numbers, &earlier.numbers) {
                // A fact without any word is its numbers
                if !parts.words.is_empty() || parts.numbers == earlier.numbers {
                    return Novelty::Repeats(index);
                }
            } else if parts.words.len() >= FEWEST_WORDS {
                update = Some(index);
            }
        }
        update.map_or(Novelty::New, Novelty::Updates)
    }

    /// The facts whose words are like these, ascending.
    fn alike(&self, parts: &Parts) -> Vec<usize> {
        if parts.words.is_empty() {
            return self.wordless.clone();
        }
        let known: Vec<u32> = parts.words.iter().filter_map(|word| self.words.get(word).copied()).collect();
        let all = parts.words.len();
        // A fact that is alike shares at least this many words
        let least = smallest_count(self.least * all as f64);
        // so it holds one of any `all − least + 1` of them: look where the fewest facts are
        let Some(spare) = known.len().checked_sub(least) else { return Vec::new() };
        let mut rarest_first = known.clone();
        rarest_first.sort_unstable_by_key(|&word| (self.holders[word as usize].len(), word));
        let mut candidates: Vec<usize> = rarest_first
            .iter()
            .take(spare + 1)
            .flat_map(|&word| &self.holders[word as usize])
            .copied()
            .collect();
        candidates.sort_unstable();
        candidates.dedup();

        let mut known = known;
        known.sort_unstable();
        let names: Vec<u32> = parts.names.iter().filter_map(|word| self.words.get(word).copied()).collect();
        let new_names = parts.names.len() - names.len();
        candidates.retain(|&index| {
            let earlier = &self.said[index];
            let shared = shared(&known, &earlier.words);
            let jaccard = shared as f64 / (all + earlier.words.len() - shared) as f64;
            let mine = new_names > 0 || names.iter().any(|name| earlier.words.binary_search(name).is_err());
            let theirs = || earlier.names.iter().any(|name| known.binary_search(name).is_err());
            let one_replaced = all == shared + 1 && earlier.words.len() == shared + 1;
            jaccard >= self.least
                && !(mine && theirs())
                && !(one_replaced && self.replaces_a_capital(parts, &known, earlier))
        });
        candidates
    }

    /// Whether the words that only one of the two has are written with a capital in both.
    fn replaces_a_capital(&self, parts: &Parts, known: &[u32], earlier: &Said) -> bool {
        let theirs = |word: &String| {
            self.words.get(word).is_some_and(|number| earlier.words.binary_search(number).is_ok())
        };
        parts.words.iter().all(|word| theirs(word) || parts.capitals.contains(word))
            && earlier
                .words
                .iter()
                .all(|word| known.binary_search(word).is_ok() || earlier.capitals.contains(word))
    }
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a share of a count of words")]
fn smallest_count(share: f64) -> usize {
    (share - 1e-9).ceil() as usize
}

/// How many elements two ascending lists share.
fn shared(a: &[u32], b: &[u32]) -> usize {
    a.iter().filter(|element| b.binary_search(element).is_ok()).count()
}

/// Whether all of `some` stand in `all`, in the same order.
fn in_order(some: &[String], all: &[String]) -> bool {
    let mut rest = all.iter();
    some.iter().all(|number| rest.any(|other| other == number))
}

/// Whether what follows the last word says that the text was cut there.
fn ends_cut(after: &str) -> bool {
    after.starts_with('…') || after.starts_with("...")
}

/// `9News` is a name.
fn is_digit_name(word: &Word<'_>) -> bool {
    let letters = word.text.trim_start_matches(|c: char| c.is_ascii_digit());
    letters.len() < word.text.len() && capitalised(letters) && letters.contains(char::is_lowercase)
}

/// The words and names of a text, each without repetition, its numbers in order, and its negations.
struct Parts {
    words: Vec<String>,
    names: Vec<String>,
    capitals: Vec<String>,
    numbers: Vec<String>,
    negations: usize,
}

impl Parts {
    fn of(text: &str) -> Self {
        let mut found = words(text);
        // What stands before the ellipsis of a cut text may be half a word or half a number
        if found.len() > 1 && found.last().is_some_and(|last| ends_cut(last.after)) {
            found.pop();
        }
        let mut parts = Self {
            words: Vec::new(),
            names: Vec::new(),
            capitals: Vec::new(),
            numbers: Vec::new(),
            negations: 0,
        };
        let mut with_numbers = String::with_capacity(text.len());
        for (at, word) in found.iter().enumerate() {
            with_numbers.push_str(word.gap);
            if let Some((_, unit)) = number(word.text, Decimals::Point).filter(|_| !is_digit_name(word)) {
                with_numbers.push_str(word.text);
                let unit = folded(unit);
                if !unit.is_empty() && !is_number_word(&unit) {
                    parts.words.push(unit);
                }
                continue;
            }
            let folded = folded(word.text);
            if !is_digit_name(word) {
                with_numbers.push_str(word.text);
            }
            if is_number_word(&folded) {
                continue;
            }
            if capitalised(word.text) {
                // `M7.6` is counted as a number
                if !folded.contains(|c: char| c.is_ascii_digit()) {
                    parts.capitals.push(folded.clone());
                }
                if !starts_sentence(&found, at) {
                    parts.names.push(folded.clone());
                }
            }
            parts.words.push(folded);
        }
        claims(&fold(&with_numbers), |claim| match claim {
            Claim::Number(value) => parts.numbers.push(value),
            Claim::Not => parts.negations += 1,
        });
        for list in [&mut parts.words, &mut parts.names, &mut parts.capitals] {
            list.sort_unstable();
            list.dedup();
        }
        parts
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn judge(earlier: &[&str], fact: &str) -> Novelty {
        let mut history = History::new();
        for earlier in earlier {
            history.push(earlier);
        }
        history.judge(fact)
    }

    #[test]
    fn another_number_in_the_same_words_is_an_update_of_the_latest() {
        let earlier =
            ["20 homes destroyed in the Lilac fire", "64 homes destroyed in the Lilac fire", "Roads closed"];
        assert_eq!(judge(&earlier, "157 homes destroyed in the Lilac fire"), Novelty::Updates(1));
        assert_eq!(judge(&earlier, "20 homes destroyed in the Lilac fire"), Novelty::Repeats(0));
    }

    #[test]
    fn numbers_are_compared_by_value() {
        let earlier = ["3,300 firefighters battle the blaze over 27.5 miles"];
        let same = "3300 firefighters battle the blaze over 27.50 miles.";
        assert_eq!(judge(&earlier, same), Novelty::Repeats(0));
        let other = "3300 firefighters battle the blaze over 275 miles";
        assert_eq!(judge(&earlier, other), Novelty::Updates(0));
    }

    #[test]
    fn a_fact_that_says_less_is_a_repetition() {
        assert_eq!(
            judge(&["64 homes destroyed by the fire"], "Homes destroyed by the fire"),
            Novelty::Repeats(0)
        );
        assert_eq!(
            judge(&["Homes destroyed by the fire"], "64 homes destroyed by the fire"),
            Novelty::Updates(0)
        );
    }

    #[test]
    fn another_name_is_another_fact() {
        let earlier = ["A mandatory evacuation order was issued for all residents of Bonsall tonight"];
        let other = "A mandatory evacuation order was issued for all residents of Vista tonight";
        assert_eq!(judge(&earlier, other), Novelty::New);
        let earlier = ["Norrvik road closed by the police because of fire"];
        assert_eq!(judge(&earlier, "Mornvik road closed by the police because of fire"), Novelty::New);
    }

    #[test]
    fn half_a_number_at_the_cut_of_a_text_is_no_number() {
        let earlier = ["Road closures: north of Camino Del Rey, west of I-15 in Bonsall"];
        assert_eq!(
            judge(&earlier, "Road closures: north of Camino Del Rey, west of I-1…"),
            Novelty::Repeats(0)
        );
        let earlier = ["State university closed by the fire"];
        assert_eq!(judge(&earlier, "State university closed by the fire - 9News"), Novelty::Repeats(0));
    }

    #[test]
    fn numbers_that_change_places_are_an_update() {
        for (earlier, later) in [
            (
                "3 dead and 5 injured people in fire at Bonsall",
                "5 dead and 3 injured people in fire at Bonsall",
            ),
            (
                "3 dead and 5 missing people in fire at Bonsall bridge",
                "5 dead and 5 missing people in fire at Bonsall bridge",
            ),
            ("fire at the old bridge 1/2 contained", "fire at the old bridge 2/1 contained"),
            ("temperature of -5 degrees at the old bridge", "temperature of 5 degrees at the old bridge"),
            (
                "M7.6 earthquake hits off the coast near the old town tonight",
                "M7.7 earthquake hits off the coast near the old town tonight",
            ),
        ] {
            assert_eq!(judge(&[earlier], later), Novelty::Updates(0), "{later}");
            assert_eq!(judge(&[later], earlier), Novelty::Updates(0), "{earlier}");
        }
        let less = "3 dead people in fire at Bonsall bridge";
        assert_eq!(
            judge(&["3 dead and 5 people in fire at Bonsall bridge"], less),
            Novelty::Repeats(0),
            "the numbers stand there in their order"
        );
    }

    #[test]
    fn numbers_in_words_are_numbers() {
        let earlier = ["Two people dead in the fire near the bridge in Bonsall"];
        assert_eq!(
            judge(&earlier, "Five people dead in the fire near the bridge in Bonsall"),
            Novelty::Updates(0)
        );
        assert_eq!(
            judge(&earlier, "2 people dead in the fire near the bridge in Bonsall"),
            Novelty::Repeats(0)
        );
        for (earlier, later) in [
            ("Dos muertos por el incendio en el puente", "Cinco muertos por el incendio en el puente"),
            ("Due o tre morti per il terremoto al ponte", "Due o sette morti per il terremoto al ponte"),
            ("Dois feridos em queda da ponte velha", "Nove feridos em queda da ponte velha"),
            ("Deux morts dans un incendie sur le pont", "Trois morts dans un incendie sur le pont"),
            ("Zwei Tote bei einem Brand auf der Brücke", "Zwölf Tote bei einem Brand auf der Brücke"),
            ("Hundreds flee from the fire near the bridge", "Thousands flee from the fire near the bridge"),
        ] {
            assert_eq!(judge(&[earlier], later), Novelty::Updates(0), "{later}");
        }
    }

    #[test]
    fn a_magnitude_is_part_of_the_value() {
        let earlier = ["fire damage of $3m to homes near the road, people say"];
        assert_eq!(
            judge(&earlier, "fire damage of $3bn to homes near the road, people say"),
            Novelty::Updates(0)
        );
        assert_eq!(
            judge(&earlier, "fire damage of $3 million to homes near the road, people say"),
            Novelty::Repeats(0)
        );
        let earlier = ["3 million people without power since the storm hit"];
        assert_eq!(
            judge(&earlier, "3 billion people without power since the storm hit"),
            Novelty::Updates(0)
        );
    }

    #[test]
    fn a_negation_is_an_update() {
        let (closed, open) = (
            "The Mill road bridge is closed to all traffic",
            "The Mill road bridge is not closed to all traffic",
        );
        assert_eq!(judge(&[closed], open), Novelty::Updates(0));
        assert_eq!(judge(&[open], closed), Novelty::Updates(0));
        assert_eq!(
            judge(
                &["3 dead and 5 missing people in fire at Bonsall bridge"],
                "3 dead and no missing people in fire at Bonsall bridge"
            ),
            Novelty::Updates(0)
        );
    }

    #[test]
    fn trap_sharp_s_and_final_sigma_fold() {
        assert_eq!(judge(&["Große Straße gesperrt"], "GROSSE STRASSE GESPERRT"), Novelty::Repeats(0));
        assert_eq!(judge(&["δρομος κλειστος"], "ΔΡΟΜΟΣ ΚΛΕΙΣΤΟΣ"), Novelty::Repeats(0));
    }

    #[test]
    fn too_few_words_make_no_update() {
        assert_eq!(judge(&["64 homes"], "65 homes"), Novelty::New);
        assert_eq!(judge(&["64 homes"], "64 Homes!"), Novelty::Repeats(0));
        assert_eq!(judge(&["64"], "65"), Novelty::New);
        assert_eq!(judge(&["64"], "64"), Novelty::Repeats(0));
    }

    /// Compares with every earlier fact in turn.
    fn judge_plainly(earlier: &[String], fact: &str) -> bool {
        let set = |text: &str| Parts::of(text).words;
        let mine = set(fact);
        earlier.iter().any(|earlier| {
            let theirs = set(earlier);
            let shared = mine.iter().filter(|word| theirs.contains(word)).count();
            shared as f64 / (mine.len() + theirs.len() - shared) as f64 >= ALIKE
        })
    }

    proptest! {
        #[test]
        fn the_index_finds_what_comparing_with_all_finds(
            earlier in prop::collection::vec("[a-e]( [a-h]){0,6}", 0..20),
            fact in "[a-e]( [a-h]){0,6}",
        ) {
            let mut history = History::new();
            for earlier in &earlier {
                history.push(earlier);
            }
            let found = history.judge(&fact) != Novelty::New;
            prop_assert_eq!(found, judge_plainly(&earlier, &fact));
        }

        #[test]
        fn what_was_said_repeats_itself(fact in "[a-zA-Z0-9 .,]{1,60}") {
            prop_assume!(fact.contains(char::is_alphanumeric));
            let mut history = History::new();
            history.push(&fact);
            prop_assert_eq!(history.judge(&fact), Novelty::Repeats(0));
        }
    }
}
