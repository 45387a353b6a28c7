//! Numbers with what they count: `64 homes`, `27.5 km`, `95%`, `$2 million`, `magnitude 7.6`.
//!
//! A number without such a word is no concept (a year, a house number), nor are times, dates, telephone numbers and
//! ranges, nor numbers written in words. The unit is the next word, without a plural `s`: `64 mobile homes` counts
//! under `mobile`, the same in every text that writes it so.

use super::words::{Decimals, Word, folded, number};
use crate::clean::claims::{magnitude, times_ten_to};

/// Words after a number that do not say what it counts.
const NO_UNITS: &[&str] = &[
    "a", "after", "al", "am", "and", "are", "as", "at", "but", "by", "das", "de", "del", "der", "di", "die",
    "e", "el", "en", "et", "for", "from", "have", "i", "if", "il", "in", "is", "it", "la", "le", "los",
    "near", "no", "o", "of", "on", "or", "per", "pm", "por", "que", "so", "that", "the", "this", "to", "u",
    "un", "und", "via", "was", "were", "when", "will", "with", "y",
];

/// Words that stand before their number.
const MEASURES: &[&str] = &[
    "magnitude",
    "magnitud",
    "magnitudo",
    "magnitudine",
    "category",
    "categoria",
    "categoría",
    "kategorie",
    "catégorie",
];

/// A number with its unit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Quantity {
    /// Value and unit, the same for every spelling: `64 home`.
    pub(super) key: String,
    /// Which word of the text the number is.
    pub(super) at: usize,
}

/// The quantities of a text.
pub(super) fn quantities(words: &[Word<'_>], decimals: Decimals) -> Vec<Quantity> {
    (0..words.len()).filter_map(|at| Some(Quantity { key: quantity(words, at, decimals)?, at })).collect()
}

fn quantity(words: &[Word<'_>], at: usize, decimals: Decimals) -> Option<String> {
    let word = words.get(at)?;
    let (mut value, suffix) = number(word.text, decimals)?;
    let before = at.checked_sub(1).and_then(|at| words.get(at));
    let after = words.get(at + 1);
    if part_of_a_longer_figure(before, word)
        || after.is_some_and(|after| part_of_a_longer_figure(Some(word), after))
    {
        return None;
    }

    if let Some(measure) = before.filter(|_| word.gap == " ").map(|before| folded(before.text))
        && MEASURES.contains(&measure.as_str())
    {
        return Some(format!("{value} {measure}"));
    }

    let mut next = at + 1;
    let mut unit = folded(suffix);
    if unit == "k" {
        value = times_ten_to(&value, 3);
        unit.clear();
    }
    let counted = |next: usize, number: &Word<'_>| -> Option<String> {
        let word = words.get(next).filter(|word| matches!(word.gap, " " | "-" | "\u{a0}"))?;
        (number.after.len() == word.gap.len() && word.text.starts_with(char::is_alphabetic))
            .then(|| folded(word.text))
    };
    if unit.is_empty()
        && let Some(zeros) = counted(next, word).and_then(|word| magnitude(&word))
    {
        value = times_ten_to(&value, zeros);
        next += 1;
    }
    if let Some(currency) = currency_before(word) {
        return Some(format!("{value} {currency}"));
    }
    if unit.is_empty() && next == at + 1 {
        unit.push_str(symbol_after(word));
    }
    if unit.is_empty() {
        unit = counted(next, words.get(next - 1)?).unwrap_or_default();
    }
    if unit == "per" && words.get(next + 1).is_some_and(|word| folded(word.text) == "cent") {
        "%".clone_into(&mut unit);
    }
    (!unit.is_empty() && !NO_UNITS.contains(&unit.as_str())).then(|| format!("{value} {}", one_unit(&unit)))
}

/// `8:30`, `12/07`, `555-0134`, `10–15`.
fn part_of_a_longer_figure(left: Option<&Word<'_>>, right: &Word<'_>) -> bool {
    let digit = |c: char| c.is_ascii_digit();
    left.is_some_and(|left| left.text.ends_with(digit))
        && right.text.starts_with(digit)
        && matches!(right.gap, ":" | "/" | "-" | "–" | "−" | " / ")
}

fn currency_before(word: &Word<'_>) -> Option<&'static str> {
    match word.gap.trim_end().chars().last()? {
        '$' => Some("$"),
        '€' => Some("€"),
        '£' => Some("£"),
        _ => None,
    }
}

fn symbol_after(word: &Word<'_>) -> &'static str {
    match word.after.trim_start().chars().next() {
        Some('%') => "%",
        Some('$') => "$",
        Some('€') => "€",
        Some('£') => "£",
        _ => "",
    }
}

/// One word for the spellings of a unit.
fn one_unit(unit: &str) -> String {
    let same = match unit {
        "percent" | "pct" | "prozent" => "%",
        "dollar" | "dollars" | "usd" => "$",
        "euro" | "euros" => "€",
        "kms" | "kilometer" | "kilometers" | "kilometre" | "kilometres" => "km",
        "mi" | "miles" => "mile",
        "feet" | "foot" => "ft",
        "acres" | "ac" => "acre",
        "hectares" | "hectare" | "hectáreas" => "ha",
        "people" | "persons" => "person",
        _ => unit,
    };
    if same == unit && unit.is_ascii() && unit.len() > 3 && unit.ends_with('s') && !unit.ends_with("ss") {
        return match unit.strip_suffix("ies") {
            Some(stem) if stem.len() > 1 => format!("{stem}y"),
            _ => unit.trim_end_matches('s').to_owned(),
        };
    }
    same.to_owned()
}

#[cfg(test)]
mod tests {
    use super::{super::words::words, *};

    fn keys(text: &str) -> Vec<String> {
        quantities(&words(text), Decimals::Point).into_iter().map(|quantity| quantity.key).collect()
    }

    #[test]
    fn a_number_stands_with_what_it_counts() {
        assert_eq!(keys("64 homes lost, 3,300 firefighters on site"), ["64 home", "3300 firefighter"]);
        assert_eq!(keys("a 7.6 quake of magnitude 7.6 hit"), ["7.6 quake", "7.6 magnitude"]);
        assert_eq!(keys("two 5-year plans"), ["5 year"]);
    }

    #[test]
    fn spellings_of_one_quantity_have_one_key() {
        for text in ["$2 million lost", "$2,000,000 in damage", "2 million dollars", "2,000,000 USD"] {
            assert_eq!(keys(text), ["2000000 $"], "{text}");
        }
        for text in ["95% contained", "95 percent contained", "95 per cent contained", "95 % contained"] {
            assert_eq!(keys(text), ["95 %"], "{text}");
        }
        for text in ["27.5 km away", "27.50km away", "27.5 kilometres away"] {
            assert_eq!(keys(text), ["27.5 km"], "{text}");
        }
        assert_eq!(keys("1.5k homes"), ["1500 home"]);
        assert_ne!(keys("275 km"), keys("27.5 km"));
    }

    #[test]
    fn years_times_dates_and_telephone_numbers_count_nothing() {
        for text in [
            "in 2017.",
            "at 8:30 tonight",
            "on 12/07 homes",
            "call 555-0134 now",
            "the 4th home",
            "10 pm",
            "5, homes",
        ] {
            assert_eq!(keys(text), Vec::<String>::new(), "{text}");
        }
    }

    #[test]
    fn an_italian_thousand_is_a_thousand() {
        let found = quantities(&words("3.300 vigili"), Decimals::Comma);
        assert_eq!(found[0].key, "3300 vigili");
    }
}
