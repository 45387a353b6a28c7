//! Words and numbers of a text, as concepts, TF-IDF and novelty see them.
//!
//! A word is a run of letters and digits; apostrophes inside it, the points of `U.S.` and the separators of a number
//! belong to it. A number is compared by value: `3,300` is `3300`, and `27.5` is not `275`.

use unicode_normalization::{UnicodeNormalization, char::is_combining_mark};

use crate::{
    clean::fold::{fold, fold_char},
    model::Language,
};

/// One word with what stands before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Word<'a> {
    /// The word as written.
    pub(super) text: &'a str,
    /// What stands between the word before it (or the start of the text) and this one.
    pub(super) gap: &'a str,
    /// What follows it up to the next word or the end of the text.
    pub(super) after: &'a str,
}

/// The words of a text, in order.
pub(super) fn words(text: &str) -> Vec<Word<'_>> {
    let characters: Vec<(usize, char)> = text.char_indices().collect();
    let byte = |at: usize| characters.get(at).map_or(text.len(), |&(byte, _)| byte);
    let mut spans = Vec::new();
    let mut at = 0;
    while at < characters.len() {
        if !belongs(characters[at].1) {
            at += 1;
            continue;
        }
        let start = at;
        while at < characters.len() && (belongs(characters[at].1) || joins(&characters, start, at)) {
            at += 1;
        }
        spans.push((byte(start), byte(at)));
    }

    let mut found = Vec::with_capacity(spans.len());
    let mut before = 0;
    for (index, &(start, end)) in spans.iter().enumerate() {
        let next = spans.get(index + 1).map_or(text.len(), |&(start, _)| start);
        if let (Some(word), Some(gap), Some(after)) =
            (text.get(start..end), text.get(before..start), text.get(end..next))
        {
            found.push(Word { text: word, gap, after });
        }
        before = end;
    }
    found
}

fn belongs(character: char) -> bool {
    character.is_alphanumeric() || is_combining_mark(character)
}

/// Whether the character at `at` holds the word that began at `start` together with what follows.
fn joins(characters: &[(usize, char)], start: usize, at: usize) -> bool {
    let (Some(&(_, before)), Some(&(_, after))) =
        (at.checked_sub(1).and_then(|at| characters.get(at)), characters.get(at + 1))
    else {
        return false;
    };
    match characters[at].1 {
        '\'' | '’' => before.is_alphabetic() && after.is_alphabetic(),
        ',' => before.is_ascii_digit() && after.is_ascii_digit(),
        '.' => {
            let decimal = before.is_ascii_digit() && after.is_ascii_digit();
            // U.S., but not the end of "Vitamin C. Then"
            let initial = at == start + 1 || characters[at - 2].1 == '.';
            decimal || (initial && before.is_uppercase() && after.is_uppercase())
        }
        _ => false,
    }
}

/// Which separator a language writes before the decimals.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Decimals {
    /// `27.5`, and `3,300` is three thousand three hundred.
    Point,
    /// `27,5`, and `3.300` is three thousand three hundred.
    Comma,
}

impl Decimals {
    /// The custom of a language; a language that is not known counts as English.
    pub(super) fn of(language: Language) -> Self {
        match language {
            Language::Danish
            | Language::Dutch
            | Language::Finnish
            | Language::French
            | Language::German
            | Language::Greek
            | Language::Hungarian
            | Language::Italian
            | Language::Norwegian
            | Language::Portuguese
            | Language::Romanian
            | Language::Russian
            | Language::Spanish
            | Language::Swedish
            | Language::Turkish => Self::Comma,
            Language::Arabic | Language::English | Language::Tamil | Language::Other => Self::Point,
        }
    }
}

/// Splits a word that starts with a digit into its number, by value and without separators, and what follows it
/// directly: `27.50km` is `27.5` and `km`. Times, dates and ordinals (`4th`) are no numbers of this kind.
pub(super) fn number(word: &str, decimals: Decimals) -> Option<(String, &str)> {
    if !word.starts_with(|c: char| c.is_ascii_digit()) {
        return None;
    }
    let end = word.find(|c: char| !(c.is_ascii_digit() || matches!(c, '.' | ','))).unwrap_or(word.len());
    let (digits, suffix) = word.split_at_checked(end)?;
    if matches!(suffix.to_ascii_lowercase().as_str(), "st" | "nd" | "rd" | "th") {
        return None;
    }
    Some((value(digits, decimals), suffix))
}

/// The value of digits with separators, in one spelling: no thousands separators, a point before decimals, no zeros
/// that say nothing.
fn value(digits: &str, decimals: Decimals) -> String {
    let groups: Vec<&str> = digits.split(['.', ',']).collect();
    let separators: Vec<char> = digits.chars().filter(|c| matches!(c, '.' | ',')).collect();
    let decimal = match separators.as_slice() {
        [] => None,
        [one] => (!separates_thousands(*one, &groups, decimals)).then_some(1),
        // 1.234,5 and 1,234.5: only a last separator that differs from those before it can stand before decimals
        [first, .., last] => (first != last).then_some(groups.len() - 1),
    };
    let whole: String = groups.iter().take(decimal.unwrap_or(groups.len())).copied().collect();
    let fraction = decimal.and_then(|at| groups.get(at)).map_or("", |group| group.trim_end_matches('0'));
    let whole = whole.trim_start_matches('0');
    let whole = if whole.is_empty() { "0" } else { whole };
    if fraction.is_empty() { whole.to_owned() } else { format!("{whole}.{fraction}") }
}

/// Whether the one separator of a number stands between thousands and hundreds.
fn separates_thousands(separator: char, groups: &[&str], decimals: Decimals) -> bool {
    let [whole, rest] = groups else { return false };
    let shaped = rest.len() == 3 && whole.len() <= 3 && !whole.starts_with('0');
    shaped && (decimals == Decimals::Comma) == (separator == '.')
}

/// A word in the form in which it is compared: case folded, without a possessive `'s`.
pub(super) fn folded(word: &str) -> String {
    fold(without_possessive(word)).replace('’', "'")
}

/// A name in the form in which it is compared: letters and digits alone, lower case, without accents, so that
/// `Lilac Fire`, `#LilacFire` and `lilac fire's` are one.
pub(super) fn name_key(name: &str) -> String {
    if name.is_ascii() {
        let name = without_possessive(name);
        return name.chars().filter(char::is_ascii_alphanumeric).map(|c| c.to_ascii_lowercase()).collect();
    }
    without_possessive(name)
        .nfkd()
        .filter(|&c| c.is_alphanumeric() && !is_combining_mark(c))
        .flat_map(fold_char)
        .collect()
}

fn without_possessive(word: &str) -> &str {
    ["'s", "’s", "'S", "’S"].iter().find_map(|ending| word.strip_suffix(ending)).unwrap_or(word)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn texts(text: &str) -> Vec<&str> {
        words(text).iter().map(|word| word.text).collect()
    }

    #[test]
    fn separators_of_numbers_and_initials_stay_inside_the_word() {
        let expected = ["3,300", "crews", "27.5km", "Don't", "go", "U.S", "ends"];
        assert_eq!(texts("3,300 crews, 27.5km. Don't go, U.S. ends."), expected);
        assert_eq!(texts("#\u{feff}… 🔥 "), Vec::<&str>::new());
    }

    #[test]
    fn numbers_are_compared_by_value() {
        let read = |word: &str, decimals| number(word, decimals).map(|(value, _)| value);
        for (word, point, comma) in [
            ("3,300", "3300", "3.3"),
            ("3.300", "3.3", "3300"),
            ("3300", "3300", "3300"),
            ("27.5", "27.5", "27.5"),
            ("27,5", "27.5", "27.5"),
            ("275", "275", "275"),
            ("1,234,567", "1234567", "1234567"),
            ("1.234.567", "1234567", "1234567"),
            ("1,234.50", "1234.5", "1234.5"),
            ("1.234,50", "1234.5", "1234.5"),
            ("0.125", "0.125", "0.125"),
            ("007", "7", "7"),
            ("0", "0", "0"),
        ] {
            assert_eq!(read(word, Decimals::Point).as_deref(), Some(point), "{word}");
            assert_eq!(read(word, Decimals::Comma).as_deref(), Some(comma), "{word}");
        }
        assert_eq!(number("27.5km", Decimals::Point), Some(("27.5".to_owned(), "km")));
        assert_eq!(number("4th", Decimals::Point), None);
        assert_eq!(number("four", Decimals::Point), None);
    }

    #[test]
    fn spellings_of_one_name_have_one_key() {
        for spelling in ["Lilac Fire", "#LilacFire", "LILAC FIRE", "lilac fire's", "Lilac-Fire’s"] {
            assert_eq!(name_key(spelling), "lilacfire", "{spelling}");
        }
        assert_eq!(name_key("Lac-Mégantic"), name_key("lac megantic"));
        assert_eq!(name_key("Οδός"), name_key("ΟΔΟΣ"));
        assert_eq!(name_key("Hauptstraße"), name_key("HAUPTSTRASSE"));
    }

    proptest! {
        #[test]
        fn words_and_gaps_together_are_the_text(text in "\\PC{0,60}") {
            let found = words(&text);
            let mut rebuilt: String = found.iter().flat_map(|word| [word.gap, word.text]).collect();
            match found.last() {
                Some(last) => rebuilt.push_str(last.after),
                None => rebuilt.push_str(&text),
            }
            prop_assert_eq!(rebuilt, text);
        }
    }
}
