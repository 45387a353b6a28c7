//! Concepts: what a document speaks of, so that a selection can cover as much as possible of it.
//!
//! A concept is a name (see [`super::names`]), a quantity (see [`super::quantities`]), a hashtag of the original text
//! or a name of the event ([`Gazetteer`]). Spellings of one thing are one concept: `#LilacFire` is `Lilac Fire`. Its
//! weight is the number of documents that hold it (document frequency, Seeberger & Riedhammer 2022a). A document's
//! duplicates do not multiply it: they are copies of one statement, and a repost campaign must not choose the facts.

use std::collections::HashMap;

use super::{
    Document, Gazetteer,
    names::{self, Lexicon},
    quantities::quantities,
    words::{Decimals, Word, name_key, words},
};

/// The concepts of some documents.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Concepts {
    /// Per document its concepts, ascending.
    pub(super) of: Vec<Vec<u32>>,
    /// Per concept the number of documents that hold it.
    pub(super) weights: Vec<u32>,
}

/// Recognises the concepts of all documents; together they are the witnesses for what is a name.
pub(super) fn recognise(documents: &[&Document], gazetteer: &Gazetteer) -> Concepts {
    let texts: Vec<Vec<Word<'_>>> = documents.iter().map(|document| words(&document.clean)).collect();
    let mut lexicon = Lexicon::default();
    for text in &texts {
        lexicon.learn(text);
    }

    let mut ids: HashMap<String, u32> = HashMap::new();
    let mut weights: Vec<u32> = Vec::new();
    let mut of = Vec::with_capacity(documents.len());
    for (document, text) in documents.iter().zip(&texts) {
        let mut held = Vec::new();
        for key in keys(document, text, &lexicon, gazetteer) {
            let next = u32::try_from(ids.len()).unwrap_or(u32::MAX);
            held.push(*ids.entry(key).or_insert(next));
        }
        held.sort_unstable();
        held.dedup();
        weights.resize(ids.len(), 0);
        for &concept in &held {
            weights[concept as usize] += 1;
        }
        of.push(held);
    }
    Concepts { of, weights }
}

fn keys(document: &Document, text: &[Word<'_>], lexicon: &Lexicon, gazetteer: &Gazetteer) -> Vec<String> {
    let counted = quantities(text, Decimals::of(document.language));
    let taken: Vec<usize> = counted.iter().map(|quantity| quantity.at).collect();
    let mut keys: Vec<String> = counted.into_iter().map(|quantity| quantity.key).collect();
    for span in names::spans(text, &taken, lexicon) {
        keys.push(names::key_of(text, span));
    }
    keys.extend(hashtags(&document.text));
    let folded: Vec<String> = text.iter().map(|word| name_key(word.text)).collect();
    keys.extend(gazetteer.matches(&folded));
    keys.retain(|key| key.chars().count() > 1);
    keys
}

/// The hashtags of a text: `#` not inside a word, then letters, digits and `_`, a letter among them.
fn hashtags(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut inside_word = false;
    let mut rest = text;
    while let Some(character) = rest.chars().next() {
        rest = rest.strip_prefix(character).unwrap_or_default();
        if matches!(character, '#' | '＃') && !inside_word {
            let end = rest.find(|c: char| !(c.is_alphanumeric() || c == '_')).unwrap_or(rest.len());
            let tag = rest.get(..end).unwrap_or_default();
            if tag.contains(char::is_alphabetic) {
                found.push(name_key(tag));
            }
        }
        inside_word = character.is_alphanumeric() || matches!(character, '_' | '&');
    }
    found
}

#[cfg(test)]
mod tests {
    use super::{super::tests::document, *};

    fn concepts(texts: &[&str]) -> Concepts {
        let documents: Vec<Document> = texts.iter().map(|text| document(text, 0.5)).collect();
        recognise(&documents.iter().collect::<Vec<_>>(), &Gazetteer::default())
    }

    #[test]
    fn the_same_thing_in_several_spellings_is_one_concept_weighed_by_its_documents() {
        let found = concepts(&[
            "smoke from the Lilac Fire, 3,300 firefighters",
            "#LilacFire today: 3300 firefighters, #LilacFire",
            "we see the Lilac Fire's smoke",
        ]);
        assert_eq!(found.of, [vec![0, 1], vec![0, 1], vec![1]]);
        assert_eq!(found.weights, [2, 3]);
    }

    #[test]
    fn duplicates_of_a_document_do_not_multiply_its_concepts() {
        let mut reposted = document("a fire near Bonsall", 0.5);
        reposted.reports = 1000;
        assert_eq!(recognise(&[&reposted], &Gazetteer::default()).weights, [1]);
    }

    #[test]
    fn hashtags_need_a_letter_and_stand_by_themselves() {
        assert_eq!(hashtags("#1 a#b &#39; #fire_now! (#Rim) ＃水"), ["firenow", "rim", "水"]);
    }

    #[test]
    fn small_talk_holds_no_concept() {
        assert!(concepts(&["stay safe everyone", "So sad"]).weights.is_empty());
    }
}
