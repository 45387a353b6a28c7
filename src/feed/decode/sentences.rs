//! Article text into sentences of bounded length, by Unicode's rules (UAX #29).

use unicode_segmentation::UnicodeSegmentation;

/// Longest sentence in characters, as long as a fact may be.
const LONGEST: usize = crate::model::FACT_LIMIT;

/// The sentences of a text in order, trimmed. A line break ends a sentence, so that paragraphs and the lines of a
/// list stay apart; what holds no letter or digit is no sentence.
pub(super) fn split(text: &str) -> Vec<String> {
    let lines = text.split(['\n', '\r', '\u{2028}', '\u{2029}']);
    lines.flat_map(str::unicode_sentences).map(|sentence| sentence.trim().to_owned()).collect()
}

/// A sentence as it is, or, where it is too long, cut between words.
pub(super) fn pieces(sentence: &str) -> Vec<String> {
    let sentence = sentence.trim();
    if sentence.chars().count() <= LONGEST {
        return if sentence.is_empty() { Vec::new() } else { vec![sentence.to_owned()] };
    }
    let mut pieces = Vec::new();
    let mut piece = String::new();
    let mut length = 0;
    for word in words(sentence) {
        let word_length = word.chars().count();
        if length + word_length > LONGEST {
            end(&mut piece, &mut pieces);
            length = 0;
        }
        piece.push_str(&word);
        length += word_length;
    }
    end(&mut piece, &mut pieces);
    pieces
}

/// The words with the white space after them, as far as a piece may hold it; text without white space by Unicode's
/// words, and what is one longer word by characters.
fn words(sentence: &str) -> Vec<String> {
    let mut words = Vec::new();
    for word in sentence.split_inclusive(char::is_whitespace) {
        if word.chars().count() <= LONGEST {
            words.push(word.to_owned());
            continue;
        }
        for part in word.split_word_bounds() {
            let characters: Vec<char> = part.chars().collect();
            words.extend(characters.chunks(LONGEST).map(String::from_iter));
        }
    }
    words
}

fn end(piece: &mut String, pieces: &mut Vec<String>) {
    let trimmed = piece.trim();
    if !trimmed.is_empty() {
        pieces.push(trimmed.to_owned());
    }
    piece.clear();
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn lines_and_stops_end_sentences() {
        assert_eq!(
            split("The dam holds. Is it safe? Yes!\r\nRoads:\n- A1 closed\n\n***\n"),
            ["The dam holds.", "Is it safe?", "Yes!", "Roads:", "- A1 closed"]
        );
        assert_eq!(split("水が出ました。避難してください。"), ["水が出ました。", "避難してください。"]);
        assert_eq!(split("It rained 27.5 mm."), ["It rained 27.5 mm."]);
        assert!(split(" \n…\n").is_empty());
    }

    #[test]
    fn a_long_sentence_is_cut_between_words() {
        let sentence = "evacuate ".repeat(60);
        let pieces = pieces(sentence.trim());
        assert_eq!(pieces.len(), 3);
        assert!(pieces.iter().all(|piece| piece.chars().count() <= LONGEST && piece.ends_with("evacuate")));
    }

    proptest! {
        #[test]
        fn nothing_of_a_sentence_is_lost(sentence in "([a-zé]{1,90}|[ ]|水){0,40}") {
            let pieces = pieces(&sentence);
            prop_assert!(pieces.iter().all(|piece| (1..=LONGEST).contains(&piece.chars().count())));
            let letters = |text: &str| text.chars().filter(|c| !c.is_whitespace()).collect::<String>();
            prop_assert_eq!(letters(&pieces.concat()), letters(&sentence));
        }
    }
}
