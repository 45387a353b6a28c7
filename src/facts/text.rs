//! What a fact is published as: its text within the track's limit, and its name.

use unicode_segmentation::UnicodeSegmentation;
use xxhash_rust::xxh3::xxh3_64;

use crate::model::{FACT_LIMIT, RequestId, StreamId};

/// Most characters that are given up so that a fact ends with a whole word.
const LONGEST_CUT_WORD: usize = 40;

/// A fact's text: the clean text without white space around it, at most 200 characters (Unicode scalar values).
///
/// A longer text is cut at the last white space that leaves room for `…`; where none stands near the limit, as in
/// scripts without spaces, between two letters.
/// Only a text of white space alone gives an empty one.
pub fn fact_text(clean: &str) -> String {
    let clean = clean.trim();
    if clean.chars().count() <= FACT_LIMIT {
        return clean.to_owned();
    }
    let room = clean.char_indices().nth(FACT_LIMIT - 1).map_or(clean.len(), |(byte, _)| byte);
    let (head, tail) = clean.split_at_checked(room).unwrap_or((clean, ""));
    let whole_words = if tail.starts_with(char::is_whitespace) {
        head
    } else {
        let last_space = head.char_indices().rev().take(LONGEST_CUT_WORD).find(|(_, c)| c.is_whitespace());
        match last_space {
            Some((end, _)) => head.get(..end).unwrap_or(head),
            None => whole_graphemes(clean, head),
        }
    };
    let trimmed = whole_words
        .trim_end_matches(|c: char| c.is_whitespace() || matches!(c, ',' | ';' | ':' | '-' | '–' | '…'));
    format!("{}…", if trimmed.is_empty() { whole_words.trim_end() } else { trimmed })
}

/// The part of `head` that does not cut a letter from its accents or an emoji in two.
fn whole_graphemes<'a>(text: &'a str, head: &'a str) -> &'a str {
    let mut end = 0;
    for (byte, grapheme) in text.grapheme_indices(true) {
        if byte + grapheme.len() > head.len() {
            break;
        }
        end = byte + grapheme.len();
    }
    if end == 0 { head } else { head.get(..end).unwrap_or(head) }
}

/// A nugget's name: 16 hexadecimal digits of xxh3 over the request, the text in lower case with white space folded,
/// and the sorted sources. Each part is preceded by its length, so no two lists of parts look alike.
pub fn nugget_id(request: &RequestId, fact_text: &str, sources: &[StreamId]) -> String {
    let text = fact_text.to_lowercase().split_whitespace().collect::<Vec<_>>().join(" ");
    let mut sources: Vec<&str> = sources.iter().map(StreamId::as_str).collect();
    sources.sort_unstable();
    sources.dedup();
    let mut bytes = Vec::new();
    for part in [request.as_str(), &text].into_iter().chain(sources) {
        bytes.extend((part.len() as u64).to_le_bytes());
        bytes.extend(part.as_bytes());
    }
    format!("{:016x}", xxh3_64(&bytes))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_long_text_is_cut_between_words() {
        let text = "word ".repeat(60);
        let cut = fact_text(&text);
        assert_eq!(cut, format!("{}word…", "word ".repeat(39)));
        assert_eq!(cut.chars().count(), 200);
    }

    #[test]
    fn a_text_within_the_limit_is_not_touched() {
        assert_eq!(fact_text(" 64 homes destroyed. \n"), "64 homes destroyed.");
        let exact = "é".repeat(200);
        assert_eq!(fact_text(&exact), exact);
    }

    #[test]
    fn a_text_without_white_space_is_cut_between_letters() {
        assert_eq!(fact_text(&"水".repeat(300)), format!("{}…", "水".repeat(199)));
        let family = "👩‍👩‍👧".repeat(60);
        let cut = fact_text(&family);
        assert_eq!(cut, format!("{}…", "👩‍👩‍👧".repeat(39)));
    }

    #[test]
    fn trap_a_script_without_spaces_keeps_its_text_behind_an_early_space() {
        assert_eq!(fact_text(&format!("fire {}", "長".repeat(400))), format!("fire {}…", "長".repeat(194)));
        let accented = fact_text(&format!("fire {}", "e\u{323}\u{301}".repeat(150)));
        assert_eq!(accented, format!("fire {}…", "e\u{323}\u{301}".repeat(64)));
        let near = format!("{} {}", "長".repeat(170), "短".repeat(100));
        assert_eq!(fact_text(&near), format!("{}…", "長".repeat(170)));
    }

    #[test]
    fn a_name_depends_on_words_and_sources_alone() {
        let request = RequestId::new("E-1-r1").unwrap();
        let ids: Vec<StreamId> = ["a", "b", "ab"].iter().map(|id| StreamId::new(id).unwrap()).collect();
        let name = nugget_id(&request, "64 homes", &[ids[0].clone(), ids[1].clone()]);
        assert_eq!(name.len(), 16);
        assert_eq!(name, nugget_id(&request, " 64  HOMES\n", &[ids[1].clone(), ids[0].clone()]));
        assert_ne!(name, nugget_id(&request, "65 homes", &[ids[0].clone(), ids[1].clone()]));
        assert_ne!(name, nugget_id(&request, "64 homes", &[ids[2].clone()]));
        assert_ne!(name, nugget_id(&RequestId::new("E-1-r2").unwrap(), "64 homes", &ids[..2]));
    }

    proptest! {
        #[test]
        fn a_fact_is_a_beginning_of_the_text_within_the_limit(text in "[a-zé水,. ]{0,400}") {
            let fact = fact_text(&text);
            prop_assert!(fact.chars().count() <= FACT_LIMIT);
            prop_assert_eq!(fact.is_empty(), text.trim().is_empty());
            prop_assert!(text.trim().starts_with(fact.strip_suffix('…').unwrap_or(&fact)));
            prop_assert_eq!(fact_text(&fact), fact);
        }
    }
}
