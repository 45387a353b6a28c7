//! From clean text to index terms, the same for documents and queries.
//!
//! Words are runs of letters and digits; a character of a script that is written without spaces (Han, Kana, Thai, ...)
//! is a word of its own. Words are lower-cased, stop words of the text's language go, the rest is stemmed (Snowball).
//! Stop lists are NLTK's, which hold the words that questions are made of (tantivy's own English list does not);
//! stemmers are tantivy's.

use tantivy::tokenizer::{
    Language as Snowball, LowerCaser, RemoveLongFilter, Stemmer, StopWordFilter, TextAnalyzer, Token,
    TokenStream, Tokenizer,
};

use crate::model::Language;

/// Longer words are identifiers or noise; they are not indexed and do not count.
const LONGEST_WORD: usize = 64;

/// How texts become terms.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Analysis {
    /// Words, stop words, stems.
    #[default]
    Stemmed,
    /// What stands between white space, as it is.
    Raw,
}

/// Turns texts into terms. Holds one chain for each language; needs `&mut self`, so each thread has its own.
pub struct Analyzer {
    analysis: Analysis,
    chains: Vec<TextAnalyzer>,
}

impl Analyzer {
    /// An analyzer for every language.
    pub fn new(analysis: Analysis) -> Self {
        Self { analysis, chains: Language::ALL.iter().map(|&language| chain(language)).collect() }
    }

    /// Calls `take` with each term of `text` in order.
    pub fn for_each_term(&mut self, language: Language, text: &str, mut take: impl FnMut(&str)) {
        match self.analysis {
            Analysis::Raw => text.split_whitespace().for_each(take),
            Analysis::Stemmed => {
                // `ALL` lists the variants in order, so the discriminant is the place
                if let Some(chain) = self.chains.get_mut(language as usize) {
                    chain.token_stream(text).process(&mut |token| take(&token.text));
                }
            }
        }
    }

    /// The terms of `text` in order.
    pub fn terms(&mut self, language: Language, text: &str) -> Vec<String> {
        let mut terms = Vec::new();
        self.for_each_term(language, text, |term| terms.push(term.to_owned()));
        terms
    }
}

fn chain(language: Language) -> TextAnalyzer {
    let words = TextAnalyzer::builder(Words::default())
        .filter(RemoveLongFilter::limit(LONGEST_WORD))
        .filter(LowerCaser);
    let Some(snowball) = snowball(language) else {
        return words.build();
    };
    let stop_words = stop_words::lookup(language.code()).unwrap_or_default();
    let stop_words = StopWordFilter::remove(stop_words.iter().map(|&word| word.to_owned()));
    words.filter(stop_words).filter(Stemmer::new(snowball)).build()
}

fn snowball(language: Language) -> Option<Snowball> {
    Some(match language {
        Language::Arabic => Snowball::Arabic,
        Language::Danish => Snowball::Danish,
        Language::Dutch => Snowball::Dutch,
        Language::English => Snowball::English,
        Language::Finnish => Snowball::Finnish,
        Language::French => Snowball::French,
        Language::German => Snowball::German,
        Language::Greek => Snowball::Greek,
        Language::Hungarian => Snowball::Hungarian,
        Language::Italian => Snowball::Italian,
        Language::Norwegian => Snowball::Norwegian,
        Language::Portuguese => Snowball::Portuguese,
        Language::Romanian => Snowball::Romanian,
        Language::Russian => Snowball::Russian,
        Language::Spanish => Snowball::Spanish,
        Language::Swedish => Snowball::Swedish,
        Language::Tamil => Snowball::Tamil,
        Language::Turkish => Snowball::Turkish,
        Language::Other => return None,
    })
}

/// Splits a text into words; see the room's first lines.
#[derive(Clone, Default)]
struct Words {
    token: Token,
}

struct WordStream<'a> {
    rest: &'a str,
    offset: usize,
    token: &'a mut Token,
}

impl Tokenizer for Words {
    type TokenStream<'a> = WordStream<'a>;

    fn token_stream<'a>(&'a mut self, text: &'a str) -> WordStream<'a> {
        self.token.reset();
        WordStream { rest: text, offset: 0, token: &mut self.token }
    }
}

impl WordStream<'_> {
    fn skip(&mut self, bytes: usize) {
        self.rest = self.rest.get(bytes..).unwrap_or("");
        self.offset += bytes;
    }
}

impl TokenStream for WordStream<'_> {
    fn advance(&mut self) -> bool {
        let start = self.rest.find(char::is_alphanumeric).unwrap_or(self.rest.len());
        self.skip(start);
        let Some(first) = self.rest.chars().next() else {
            return false;
        };
        let end = if stands_alone(first) {
            first.len_utf8()
        } else {
            self.rest.find(|c: char| !c.is_alphanumeric() || stands_alone(c)).unwrap_or(self.rest.len())
        };
        self.token.text.clear();
        self.token.text.push_str(self.rest.get(..end).unwrap_or(""));
        self.token.offset_from = self.offset;
        self.token.offset_to = self.offset + end;
        self.token.position = self.token.position.wrapping_add(1);
        self.skip(end);
        true
    }

    fn token(&self) -> &Token {
        self.token
    }

    fn token_mut(&mut self) -> &mut Token {
        self.token
    }
}

/// Characters of scripts written without spaces between words: Thai to Khmer, Kana, Han.
fn stands_alone(c: char) -> bool {
    matches!(c,
        '\u{0E00}'..='\u{0EFF}' | '\u{1000}'..='\u{109F}' | '\u{1780}'..='\u{17FF}'
        | '\u{3040}'..='\u{30FF}' | '\u{31F0}'..='\u{31FF}' | '\u{3400}'..='\u{4DBF}'
        | '\u{4E00}'..='\u{9FFF}' | '\u{F900}'..='\u{FAFF}' | '\u{20000}'..='\u{3FFFF}')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn terms(language: Language, text: &str) -> Vec<String> {
        Analyzer::new(Analysis::Stemmed).terms(language, text)
    }

    #[test]
    fn words_are_lower_cased_stopped_and_stemmed_by_language() {
        assert_eq!(terms(Language::English, "The Rivers are rising!"), ["river", "rise"]);
        assert_eq!(terms(Language::Spanish, "Las inundaciones en la ciudad"), ["inund", "ciud"]);
        assert_eq!(terms(Language::Other, "Ang mga ilog"), ["ang", "mga", "ilog"]);
    }

    #[test]
    fn scripts_without_spaces_give_a_word_for_each_character() {
        assert_eq!(terms(Language::Other, "洪水M6地震"), ["洪", "水", "m6", "地", "震"]);
    }

    #[test]
    fn raw_analysis_takes_what_stands_between_white_space() {
        assert_eq!(
            Analyzer::new(Analysis::Raw).terms(Language::English, " The  Rivers,\tare "),
            ["The", "Rivers,", "are"]
        );
    }

    #[test]
    fn a_word_of_65_letters_is_left_out() {
        let long = "x".repeat(LONGEST_WORD + 1);
        assert_eq!(terms(Language::Other, &format!("a {long} b")), ["a", "b"]);
    }
}
