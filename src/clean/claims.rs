//! What a text claims that its set of words does not show: its numbers and its negations, in the order in which they
//! stand. "3 dead, 5 missing" and "5 dead, 3 missing" have the same words, and so nearly have "closed" and "not closed".
//!
//! A number is taken by its value where that is certain: `3,300` is 3300 and `27,5` is 27.5, but `3.300` may be either
//! and stays as it is written. The sign before it and the magnitude after it belong to it: `-5`, `.5`, `$3bn`,
//! `3 million`, `two hundred`. Small counts in words are numbers too, as a changed count often is one (*three dead*).

use super::signature::is_word;

/// One number or negation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Claim {
    /// By value, in one spelling.
    Number(String),
    /// "not", "no", "without" and their like, all taken for one.
    Not,
}

/// Gives each claim of `text`, which must be folded, to `found`.
pub(crate) fn claims(text: &str, mut found: impl FnMut(Claim)) {
    let mut at = 0;
    while let Some(rest) = text.get(at..)
        && let Some(offset) = rest.find(is_word)
    {
        let rest = rest.get(offset..).unwrap_or_default();
        let word = rest.get(..rest.find(|c| !is_word(c)).unwrap_or(rest.len())).unwrap_or_default();
        at += offset;
        if let Some(first) = word.find(|c| digit(c).is_some()) {
            at += first;
            let (value, length) =
                number(text.get(..at).unwrap_or_default(), text.get(at..).unwrap_or_default());
            at += length;
            found(Claim::Number(value));
            continue;
        }
        at += word.len();
        let word = word.trim_matches(APOSTROPHES);
        if is_negation(word) {
            found(Claim::Not);
        } else if let Some(mut value) = counted_in_words(word) {
            at += scale(&mut value, text.get(at..).unwrap_or_default(), false);
            found(Claim::Number(value));
        }
    }
}

const APOSTROPHES: [char; 2] = ['\'', '’'];

/// The number at the start of `rest`, and its length with the magnitude that belongs to it.
fn number(before: &str, rest: &str) -> (String, usize) {
    let (mut written, mut length) = (String::new(), 0);
    let mut chars = rest.chars().peekable();
    while let Some(c) = chars.next() {
        let goes_on = chars.peek().is_some_and(|&next| digit(next).is_some());
        written.push(match c {
            '.' | ',' if goes_on => c,
            '٫' if goes_on => '.',
            '٬' if goes_on => ',',
            c => match digit(c) {
                Some(digit) => digit,
                None => break,
            },
        });
        length += c.len_utf8();
    }

    let (before, point) = stripped(before, &['.']);
    let (before, currency) = stripped(before, &['$', '€', '£', '¥']);
    let (before, minus) = stripped(before, &['-', '−', '–']);
    let signed = before.chars().next_back().is_none_or(|c| c.is_whitespace() || c == '(');
    if point && signed {
        written.insert_str(0, "0.");
    }
    let mut value = value_of(&written);
    length += scale(&mut value, rest.get(length..).unwrap_or_default(), currency);
    if minus && signed {
        value.insert(0, '-');
    }
    (value, length)
}

fn stripped<'a>(text: &'a str, endings: &[char]) -> (&'a str, bool) {
    text.strip_suffix(endings).map_or((text, false), |text| (text, true))
}

/// Multiplies `value` by the magnitudes at the start of `after`; their length.
fn scale(value: &mut String, after: &str, currency: bool) -> usize {
    let mut length = 0;
    loop {
        let rest = after.get(length..).unwrap_or_default();
        let gap = match rest.chars().next() {
            Some(c @ (' ' | '-' | '\u{a0}')) => c.len_utf8(),
            Some(c) if length == 0 && c.is_alphabetic() => 0,
            _ => return length,
        };
        let rest = rest.get(gap..).unwrap_or_default();
        let word = rest.get(..rest.find(|c| !is_word(c)).unwrap_or(rest.len())).unwrap_or_default();
        let zeros = magnitude(word).or_else(|| short_magnitude(word)).or(match word {
            "m" if currency => Some(6),
            "b" if currency => Some(9),
            _ => None,
        });
        match (zeros, word) {
            (Some(zeros), _) => *value = times_ten_to(value, zeros),
            // Metres or millions: neither the bare number nor any other.
            (None, "m" | "b") if length == 0 => value.push_str(word),
            (None, "st" | "nd" | "rd" | "th") if length == 0 && gap == 0 => value.push_str("th"),
            _ => return length,
        }
        length += gap + word.len();
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

/// What a word counts by itself: a numeral, "a hundred", or "hundreds", which is no certain number.
fn counted_in_words(word: &str) -> Option<String> {
    if let Some(value) = numeral(word) {
        return Some(value.to_owned());
    }
    let zeros = magnitude(word).filter(|_| word != "mila")?;
    let several = word.ends_with(['s', 'i']) || word.ends_with("onen") || word.ends_with("rden");
    let value = times_ten_to("1", zeros);
    Some(if several { value + "+" } else { value })
}

/// Whether a folded word is one of a number without digits.
pub(crate) fn is_number_word(word: &str) -> bool {
    numeral(word).is_some() || magnitude(word).is_some() || short_magnitude(word).is_some()
}

/// The zeros of an abbreviation that means nothing else behind a number.
fn short_magnitude(word: &str) -> Option<usize> {
    Some(match word {
        "k" => 3,
        "mn" | "mln" | "mio" => 6,
        "bn" | "mrd" | "mld" => 9,
        _ => return None,
    })
}

/// The zeros that a word such as "million" adds to the number before it.
pub(crate) fn magnitude(word: &str) -> Option<usize> {
    Some(match word {
        "hundred" | "hundreds" | "hundert" | "hunderte" | "cien" | "cem" | "cento" => 2,
        "thousand" | "thousands" | "mil" | "mila" | "mille" | "tausend" | "tausende" => 3,
        "lakh" | "lakhs" => 5,
        "million" | "millions" | "millón" | "millones" | "milione" | "milioni" | "milhão" | "milhões"
        | "millionen" => 6,
        "crore" | "crores" => 7,
        "billion" | "billions" | "milliarde" | "milliarden" | "miliardo" | "miliardi" | "milliard"
        | "milliards" | "bilhão" | "bilhões" => 9,
        "trillion" | "trillions" => 12,
        _ => return None,
    })
}

/// Numerals that mean a number in every language that has them; "one", "sei" and "once" do not.
fn numeral(word: &str) -> Option<&'static str> {
    Some(match word {
        "zero" | "cero" | "zéro" => "0",
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

/// Moves the decimal point of a value in its one spelling.
pub(crate) fn times_ten_to(value: &str, zeros: usize) -> String {
    let (whole, fraction) = value.split_once('.').unwrap_or((value, ""));
    let mut digits = fraction.chars();
    let mut shifted = whole.to_owned();
    for _ in 0..zeros {
        shifted.push(digits.next().unwrap_or('0'));
    }
    let whole = shifted.trim_start_matches('0');
    let whole = if whole.is_empty() { "0" } else { whole };
    let rest = digits.as_str();
    if rest.is_empty() { whole.to_owned() } else { format!("{whole}.{rest}") }
}

/// Words that turn a statement round. Left out is what means another thing elsewhere: Italian and French "ne".
fn is_negation(word: &str) -> bool {
    word.ends_with("n't")
        || word.ends_with("n’t")
        || matches!(
            word,
            "not"
                | "no"
                | "never"
                | "none"
                | "nor"
                | "neither"
                | "cannot"
                | "without"
                | "nobody"
                | "nothing"
                | "dont"
                | "doesnt"
                | "didnt"
                | "isnt"
                | "arent"
                | "wasnt"
                | "werent"
                | "cant"
                | "wont"
                | "ni"
                | "sin"
                | "nunca"
                | "jamás"
                | "ningún"
                | "ninguna"
                | "ninguno"
                | "nadie"
                | "tampoco"
                | "não"
                | "nem"
                | "sem"
                | "nenhum"
                | "nenhuma"
                | "ninguém"
                | "non"
                | "né"
                | "senza"
                | "mai"
                | "nessun"
                | "nessuno"
                | "nessuna"
                | "pas"
                | "jamais"
                | "sans"
                | "aucun"
                | "aucune"
                | "rien"
                | "nicht"
                | "kein"
                | "keine"
                | "keinen"
                | "keinem"
                | "keiner"
                | "keines"
                | "ohne"
                | "nie"
                | "niemand"
        )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> String {
        let mut read = Vec::new();
        claims(&super::super::fold::fold(text), |claim| {
            read.push(match claim {
                Claim::Number(value) => value,
                Claim::Not => "not".to_owned(),
            });
        });
        read.join(" ")
    }

    #[track_caller]
    fn check(pairs: &[(&str, &str)]) {
        for (text, expected) in pairs {
            assert_eq!(read(text), *expected, "{text}");
        }
    }

    #[test]
    fn numbers_are_read_by_value_where_that_is_certain() {
        check(&[
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
            ("M7.6 at 10:30, 5pm. 12.", "7.6 10 30 5 12"),
            ("N95b2", "95 2"),
        ]);
    }

    #[test]
    fn numbers_are_read_in_their_order() {
        check(&[("3 dead, 5 hurt", "3 5"), ("5 dead, three hurt", "5 3"), ("1/2", "1 2"), ("5 of 5", "5 5")]);
    }

    #[test]
    fn a_sign_before_a_number_belongs_to_it() {
        check(&[
            ("-5 degrees", "-5"),
            ("at −5", "-5"),
            ("(-.5)", "-0.5"),
            ("loss of -$5m", "-5000000"),
            (".5 inches", "0.5"),
            ("$.50", "0.5"),
            ("10-15", "10 15"),
            ("Covid-19", "19"),
            ("Road closed - 5 hurt", "5"),
            ("closed...5 hurt", "5"),
        ]);
    }

    #[test]
    fn a_magnitude_belongs_to_its_number() {
        check(&[
            ("$3m", "3000000"),
            ("$3 M", "3000000"),
            ("$3bn", "3000000000"),
            ("€3b", "3000000000"),
            ("3k homes", "3000"),
            ("3 million", "3000000"),
            ("3 millones", "3000000"),
            ("3 mil millones", "3000000000"),
            ("3.5-billion", "3500000000"),
            ("two hundred thousand", "200000"),
            ("3m of water", "3m"),
            ("3 m of water", "3m"),
            ("27.5km, 30 miles", "27.5 30"),
            ("2nd and 3rd", "2th 3th"),
            ("4 th", "4"),
            ("3 more million", "3 1000000"),
        ]);
    }

    #[test]
    fn small_counts_in_words_are_numbers() {
        check(&[
            ("Five people, ZWÖLF Menschen, trois morts, três, dieci, ocho", "5 12 3 3 10 8"),
            ("zero hurt, a hundred hurt, one million", "0 100 1000000"),
            ("hundreds hurt, thousands hurt", "100+ 1000+"),
            ("one fire, un mort, una casa, ein Haus, uma casa, someone, once", ""),
        ]);
    }

    #[test]
    fn negations_are_read_in_six_languages() {
        check(&[
            ("not closed", "not"),
            ("isn't closed and can’t be", "not not"),
            ("No injuries, never, without water", "not not not"),
            ("sin agua ni luz", "not not"),
            ("non è chiusa", "not"),
            ("não há água", "not"),
            ("pas d'eau", "not"),
            ("nicht gesperrt, keine Verletzten", "not not"),
            ("nothing's knotted, Nora noted", ""),
        ]);
    }
}
