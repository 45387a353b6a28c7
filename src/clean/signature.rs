//! What is compared of a clean text: its words, its numbers, and a hash of the whole.

use std::cmp::Ordering;

use xxhash_rust::xxh3::xxh3_64;

/// A text's words as a set, its numbers as a multiset, and the hash of all of it.
///
/// Words and numbers are kept as 32-bit hashes, sorted: two different words of two texts are taken for one about once
/// in ten million pairs of texts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Signature {
    hash: u64,
    /// The words, then the numbers.
    features: Box<[u32]>,
    words: u32,
}

impl Signature {
    /// Reads a clean text.
    ///
    /// A word is a run of letters, marks and digits, whatever its case; an apostrophe inside belongs to it. A number is
    /// a run of digits with the separators inside, whether letters touch it (`M7.6`) or not, taken by its value where
    /// that is certain: `3,300` is 3300 and `27,5` is 27.5, but `3.300` may be either and stays as it is written.
    /// Numerals up to twelve count as numbers too, as a changed count often is one (*three dead*).
    pub fn of(clean_text: &str) -> Self {
        let folded = fold(clean_text);
        let mut words = Vec::with_capacity(24);
        let mut numbers = Vec::new();
        for word in folded.split(|c: char| !is_word(c)) {
            let word = word.trim_matches(['\'', '’']);
            if word.is_empty() || !word.contains(char::is_alphanumeric) {
                continue;
            }
            words.push(short_hash(word.as_bytes()));
            if let Some(value) = numeral(word) {
                numbers.push(short_hash(value.as_bytes()));
            }
        }
        numbers_of(&folded, |value| numbers.push(short_hash(value.as_bytes())));
        words.sort_unstable();
        words.dedup();
        numbers.sort_unstable();

        let hash = xxh3_64(folded.as_bytes());
        #[allow(clippy::cast_possible_truncation, reason = "a text of 2^32 words is none")]
        let count = words.len() as u32;
        words.extend_from_slice(&numbers);
        Self { hash, features: words.into_boxed_slice(), words: count }
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

    pub(super) fn numbers(&self) -> &[u32] {
        self.features.get(self.words as usize..).unwrap_or_default()
    }
}

/// Jaccard similarity of the two sets of words: shared ÷ all. Two texts without words are not alike (0).
pub fn similarity(a: &Signature, b: &Signature) -> f64 {
    jaccard(a.words(), b.words())
}

/// Whether both texts name the same numbers, each as often.
pub fn same_numbers(a: &Signature, b: &Signature) -> bool {
    a.numbers() == b.numbers()
}

/// Jaccard similarity of two ascending lists without repeats.
pub(super) fn jaccard(a: &[u32], b: &[u32]) -> f64 {
    let (mut i, mut j, mut shared) = (0, 0, 0_usize);
    while let (Some(x), Some(y)) = (a.get(i), b.get(j)) {
        match x.cmp(y) {
            Ordering::Less => i += 1,
            Ordering::Greater => j += 1,
            Ordering::Equal => {
                shared += 1;
                i += 1;
                j += 1;
            }
        }
    }
    let all = a.len() + b.len() - shared;
    if all == 0 { 0.0 } else { shared as f64 / all as f64 }
}

fn fold(text: &str) -> String {
    if text.is_ascii() { text.to_ascii_lowercase() } else { text.to_lowercase() }
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric()
        || matches!(c, '\'' | '’')
        || (!c.is_ascii() && unicode_normalization::char::is_combining_mark(c))
}

#[allow(clippy::cast_possible_truncation, reason = "the lower half of the hash")]
fn short_hash(bytes: &[u8]) -> u32 {
    xxh3_64(bytes) as u32
}

/// Gives each number of `text` to `found`, by value where it is certain.
fn numbers_of(text: &str, mut found: impl FnMut(&str)) {
    if !text.contains(|c| digit(c).is_some()) {
        return;
    }
    let mut number = String::new();
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        if let Some(digit) = digit(c) {
            number.push(digit);
            continue;
        }
        if number.is_empty() {
            continue;
        }
        let goes_on = chars.peek().is_some_and(|&next| digit(next).is_some());
        match c {
            '.' | ',' if goes_on => number.push(c),
            '٫' if goes_on => number.push('.'),
            '٬' if goes_on => number.push(','),
            _ => {
                found(&value_of(&number));
                number.clear();
            }
        }
    }
    if !number.is_empty() {
        found(&value_of(&number));
    }
}

/// Digits of the scripts that crises are reported in, as ASCII.
fn digit(c: char) -> Option<char> {
    const ZEROS: [char; 6] = ['0', '\u{660}', '\u{6f0}', '\u{966}', '\u{9e6}', '\u{ff10}'];
    if c.is_ascii() {
        return c.is_ascii_digit().then_some(c);
    }
    let value = ZEROS.iter().find_map(|&zero| {
        let value = u32::from(c).checked_sub(u32::from(zero))?;
        (value < 10).then_some(value)
    })?;
    char::from_digit(value, 10)
}

/// A number in one spelling: no thousands separators, a decimal point, no zeros that say nothing. Where it could be
/// two values (`3.300`) and where it is none (`1.2.3`), as it is written.
fn value_of(written: &str) -> String {
    let signs: Vec<char> = written.chars().filter(|c| !c.is_ascii_digit()).collect();
    let (whole, decimals) = match signs.as_slice() {
        [] => (written.to_owned(), ""),
        [sign] => {
            let Some((whole, rest)) = written.split_once(*sign) else { return written.to_owned() };
            let like_thousands = rest.len() == 3 && (1..=3).contains(&whole.len()) && !whole.starts_with('0');
            match (like_thousands, sign) {
                (true, ',') => (format!("{whole}{rest}"), ""),
                (true, _) => return written.to_owned(),
                (false, _) => (whole.to_owned(), rest),
            }
        }
        [first, .., last] => {
            let (head, tail) = written.rsplit_once(*last).unwrap_or((written, ""));
            let (groups, decimals) = if first == last { (written, "") } else { (head, tail) };
            if !in_thousands(groups, *first) {
                return written.to_owned();
            }
            (groups.replace(*first, ""), decimals)
        }
    };
    let whole = whole.trim_start_matches('0');
    let whole = if whole.is_empty() { "0" } else { whole };
    match decimals.trim_end_matches('0') {
        "" => whole.to_owned(),
        decimals => format!("{whole}.{decimals}"),
    }
}

fn in_thousands(groups: &str, sign: char) -> bool {
    groups
        .split(sign)
        .enumerate()
        .all(|(at, group)| if at == 0 { (1..=3).contains(&group.len()) } else { group.len() == 3 })
        && groups.chars().all(|c| c.is_ascii_digit() || c == sign)
}

/// Numerals that mean a number in every language that has them; "one", "sei" and "once" do not.
fn numeral(word: &str) -> Option<&'static str> {
    Some(match word {
        "two" | "dos" | "dois" | "deux" | "zwei" => "2",
        "three" | "tres" | "três" | "tre" | "trois" | "drei" => "3",
        "four" | "cuatro" | "quatro" | "quattro" | "quatre" | "vier" => "4",
        "five" | "cinco" | "cinque" | "cinq" | "fünf" => "5",
        "six" | "seis" | "sechs" => "6",
        "seven" | "siete" | "sete" | "sette" | "sept" | "sieben" => "7",
        "eight" | "ocho" | "oito" | "otto" | "huit" | "acht" => "8",
        "nine" | "nueve" | "nove" | "neuf" | "neun" => "9",
        "ten" | "diez" | "dez" | "dieci" | "dix" | "zehn" => "10",
        "eleven" | "onze" | "undici" | "elf" => "11",
        "twelve" | "doce" | "doze" | "dodici" | "douze" | "zwölf" => "12",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers_in(text: &str) -> Vec<String> {
        let mut numbers = Vec::new();
        numbers_of(text, |value| numbers.push(value.to_owned()));
        numbers
    }

    #[test]
    fn numbers_are_read_by_value_where_that_is_certain() {
        for (written, value) in [
            ("3,300", "3300"),
            ("3300", "3300"),
            ("1,234,567.50", "1234567.5"),
            ("1.234.567", "1234567"),
            ("1.234,5", "1234.5"),
            ("27.5", "27.5"),
            ("27,5", "27.5"),
            ("27.50", "27.5"),
            ("4.0", "4"),
            ("007", "7"),
            ("3.300", "3.300"),
            ("0.300", "0.3"),
            ("1.2.3", "1.2.3"),
            ("1,23,456", "1,23,456"),
            ("0", "0"),
            ("٣٬٣٠٠", "3300"),
            ("２７", "27"),
        ] {
            assert_eq!(numbers_in(written), [value], "{written}");
        }
        assert_eq!(numbers_in("M7.6 at 10:30, 5pm. 12."), ["7.6", "10", "30", "5", "12"]);
    }

    #[test]
    fn a_changed_count_is_another_number() {
        let of = Signature::of;
        assert!(!same_numbers(&of("64 homes destroyed"), &of("157 homes destroyed")));
        assert!(same_numbers(&of("3,300 homes"), &of("homes: 3300")));
        assert!(same_numbers(&of("Three dead"), &of("3 dead")));
        assert!(!same_numbers(&of("Three dead"), &of("four dead")));
        assert!(!same_numbers(&of("5 of 5 found"), &of("5 found")));
        assert!(!same_numbers(&of("3.300"), &of("3,300")), "either could be meant");
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
        assert!(Signature::of("… !!! 🔥").is_empty() && !Signature::of("7").is_empty());
    }
}
