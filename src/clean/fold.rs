//! Case folding: what differs in capitals alone is one spelling.
//!
//! Unicode's full folding for what people write: `STRASSE` and `straße`, `ΔΡΟΜΟΣ` and `δρομος`. Other letters go by
//! their lower case.

/// The letters that stand for `c` whatever its case.
pub(crate) fn fold_char(c: char) -> impl Iterator<Item = char> {
    let (first, second) = match c {
        'ß' | 'ẞ' => ('s', Some('s')),
        'ς' => ('σ', None),
        'ſ' => ('s', None),
        'µ' => ('μ', None), // the sign of micro, and the letter
        'ﬁ' => ('f', Some('i')),
        'ﬂ' => ('f', Some('l')),
        c => (c, None),
    };
    first.to_lowercase().chain(second)
}

/// `text` with every letter folded.
pub(crate) fn fold(text: &str) -> String {
    let mut folded = String::with_capacity(text.len());
    fold_into(&mut folded, text);
    folded
}

/// Appends the folded `text`.
pub(super) fn fold_into(folded: &mut String, text: &str) {
    if text.is_ascii() {
        let start = folded.len();
        folded.push_str(text);
        if let Some(added) = folded.get_mut(start..) {
            added.make_ascii_lowercase();
        }
    } else {
        folded.extend(text.chars().flat_map(fold_char));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spellings_that_differ_in_capitals_alone_are_one() {
        for (a, b) in [
            ("STRASSE", "straße"),
            ("STRAẞE", "Strasse"),
            ("ΔΡΟΜΟΣ ΚΛΕΙΣΤΟΣ", "δρομος κλειστος"),
            ("Miſſion", "MISSION"),
            ("ÉCOLE", "école"),
            ("ПОЖАР", "пожар"),
            ("ﬁre ﬂood", "FIRE FLOOD"),
        ] {
            assert_eq!(fold(a), fold(b), "{a}");
            assert_eq!(fold(&fold(a)), fold(a), "{a}");
        }
        assert_eq!(fold("İzmir"), "i\u{307}zmir");
        assert_ne!(fold("école"), fold("ecole"));
    }
}
