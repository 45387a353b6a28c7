//! The names that an event's own description gives: they are concepts wherever they occur, whatever their case.

use std::collections::HashMap;

use super::{
    names::{self, Lexicon},
    words::{Word, folded, name_key, words},
};
use crate::model::Event;

/// Fewest letters of a name that is looked for by itself: `LA` in any case is also a Spanish article.
const SHORTEST: usize = 3;

/// The names of an event, from its title, description and keywords.
#[derive(Debug, Clone, Default)]
pub struct Gazetteer {
    /// The phrases, each as the keys of its words, under the key of the first.
    phrases: HashMap<String, Vec<Vec<String>>>,
}

impl Gazetteer {
    /// Takes every keyword as a phrase; of the title the whole without its year and every run of capitalised words
    /// that are not the event's kind (`Lilac` of "Lilac Wildfire 2017"); of the description the names in it.
    pub fn new(event: &Event) -> Self {
        let mut gazetteer = Self::default();
        for keyword in &event.keywords {
            gazetteer.add(&words(keyword));
        }

        let title = words(&event.title);
        let kinds: Vec<String> =
            event.kind.iter().flat_map(|kind| words(kind)).map(|word| singular(word.text)).collect();
        let undated: Vec<Word<'_>> =
            title.iter().copied().filter(|word| word.text.parse::<u32>().is_err()).collect();
        gazetteer.add(&undated);
        for run in title.split(|word| !names::capitalised(word.text) || kinds.contains(&singular(word.text)))
        {
            gazetteer.add(run);
        }

        if let Some(description) = &event.description {
            let found = words(description);
            for span in names::spans(&found, &[], &Lexicon::default()) {
                if let Some(span) = found.get(span) {
                    gazetteer.add(span);
                }
            }
        }
        gazetteer
    }

    fn add(&mut self, phrase: &[Word<'_>]) {
        let keys: Vec<String> =
            phrase.iter().map(|word| name_key(word.text)).filter(|key| !key.is_empty()).collect();
        let letters = keys.concat().chars().filter(|c| c.is_alphabetic()).count();
        let Some(first) = keys.first() else { return };
        if letters < SHORTEST {
            return;
        }
        let known = self.phrases.entry(first.clone()).or_default();
        if !known.contains(&keys) {
            known.push(keys);
        }
    }

    /// The keys of the names that occur in a text, given as the keys of its words.
    pub(super) fn matches(&self, text: &[String]) -> Vec<String> {
        let mut found = Vec::new();
        for (at, word) in text.iter().enumerate() {
            for phrase in self.phrases.get(word).into_iter().flatten() {
                if text.get(at..at + phrase.len()) == Some(phrase) {
                    found.push(phrase.concat());
                }
            }
        }
        found
    }
}

fn singular(word: &str) -> String {
    let mut word = folded(word);
    if word.len() > 3 && word.ends_with('s') {
        word.pop();
    }
    word
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn found(text: &str) -> Vec<String> {
        let event: Event = serde_json::from_value(json!({
            "eventID": "E-1",
            "title": "Lilac Wildfire 2017",
            "type": "Wildfire",
            "description": "The blaze began near Gird Road and spread to the Rancho Monserate park.",
            "keywords": ["#LilacFire", "san diego wildfire", "LA", "2017"],
        }))
        .unwrap();
        let keys: Vec<String> = words(text).iter().map(|word| name_key(word.text)).collect();
        Gazetteer::new(&event).matches(&keys)
    }

    #[test]
    fn names_of_title_description_and_keywords_are_found_in_any_case() {
        assert_eq!(found("THE LILAC BLAZE"), ["lilac"]);
        assert_eq!(found("a lilac wildfire"), ["lilacwildfire", "lilac"]);
        assert_eq!(found("the San Diego wildfire, the lilacfire"), ["sandiegowildfire", "lilacfire"]);
        assert_eq!(found("from gird road to rancho monserate"), ["girdroad", "ranchomonserate"]);
    }

    #[test]
    fn the_kind_of_event_its_year_and_short_words_are_no_names() {
        assert!(found("la wildfire 2017 and the blaze").is_empty());
    }
}
