//! The terms of one query and of its expansion.
//!
//! A shard has a field for each language, and a query word has another stem in each. All forms of one word count as
//! one term, with the sum of their frequencies (Pirkola's structured queries, 1998), so a name is as rare as it is in
//! the whole shard and not in one language of it. In a shard of one language this is plain retrieval.

use std::collections::HashMap;

use crate::index::{Analyzer, IndexError, Posting, Snapshot};
use crate::model::Language;

/// A term's place in the [`Vocabulary`].
pub(super) type TermId = usize;

/// A query term with its weight.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Weighted {
    pub(super) term: TermId,
    pub(super) weight: f64,
}

struct TermForms {
    key: String,
    forms: Vec<(Language, String)>,
}

/// The terms met so far, each with its forms.
pub(super) struct Vocabulary {
    language: Language,
    others: Vec<Language>,
    terms: Vec<TermForms>,
    by_form: HashMap<(Language, String), TermId>,
}

impl Vocabulary {
    /// For a query in `language` over a shard whose items are in `present` languages.
    pub(super) fn new(present: &[Language], language: Language) -> Self {
        let others = present.iter().copied().filter(|&other| other != language).collect();
        Self { language, others, terms: Vec::new(), by_form: HashMap::new() }
    }

    /// The terms of a query. A term's weight is its count by the largest count in the query, as in Terrier.
    pub(super) fn query(&mut self, text: &str, analyzer: &mut Analyzer) -> Vec<Weighted> {
        let mut counts: Vec<(TermId, u32)> = Vec::new();
        // Word by word, so that the forms of one word are known to belong together.
        for word in text.split_whitespace() {
            let own = analyzer.terms(self.language, word);
            for key in &own {
                let term = self.term(self.language, key);
                match counts.iter_mut().find(|(known, _)| *known == term) {
                    Some((_, count)) => *count += 1,
                    None => counts.push((term, 1)),
                }
            }
            if let [key] = own.as_slice() {
                let term = self.term(self.language, key);
                self.add_foreign_forms(term, word, analyzer);
            }
        }
        let largest = counts.iter().map(|&(_, count)| count).max().unwrap_or(1);
        let weight = |count: u32| f64::from(count) / f64::from(largest);
        counts.into_iter().map(|(term, count)| Weighted { term, weight: weight(count) }).collect()
    }

    fn add_foreign_forms(&mut self, term: TermId, word: &str, analyzer: &mut Analyzer) {
        for language in self.others.clone() {
            for form in analyzer.terms(language, word) {
                self.add_form(term, language, form);
            }
        }
    }

    /// The term that has this form in this language; made with the same form in every language where it is new.
    pub(super) fn term(&mut self, language: Language, form: &str) -> TermId {
        if let Some(&known) = self.by_form.get(&(language, form.to_owned())) {
            return known;
        }
        let term = self.terms.len();
        self.terms.push(TermForms { key: form.to_owned(), forms: Vec::new() });
        self.add_form(term, language, form.to_owned());
        for other in std::iter::once(self.language).chain(self.others.clone()) {
            self.add_form(term, other, form.to_owned());
        }
        term
    }

    /// A form belongs to the first term that has it.
    fn add_form(&mut self, term: TermId, language: Language, form: String) {
        if self.by_form.contains_key(&(language, form.clone())) {
            return;
        }
        self.by_form.insert((language, form.clone()), term);
        if let Some(entry) = self.terms.get_mut(term) {
            entry.forms.push((language, form));
        }
    }

    /// The term as text: its first form.
    pub(super) fn key(&self, term: TermId) -> &str {
        self.terms.get(term).map_or("", |entry| &entry.key)
    }

    /// The documents of all forms of a term. A document is in one language, so it comes up twice only where the term
    /// has two forms in that language.
    pub(super) fn postings(&self, term: TermId, snapshot: &Snapshot) -> Result<Vec<Posting>, IndexError> {
        let mut all: Vec<Posting> = Vec::new();
        let Some(entry) = self.terms.get(term) else {
            return Ok(all);
        };
        for (language, form) in &entry.forms {
            all.extend_from_slice(&snapshot.postings(*language, form)?);
        }
        let mut languages: Vec<Language> = entry.forms.iter().map(|(language, _)| *language).collect();
        languages.sort_unstable();
        if languages.windows(2).any(|two| two.first() == two.last()) {
            add_up(&mut all);
        }
        Ok(all)
    }
}

/// One posting for each document.
fn add_up(postings: &mut Vec<Posting>) {
    postings.sort_unstable_by_key(|posting| posting.arrival);
    postings.dedup_by(|later, first| {
        let same = later.arrival == first.arrival;
        if same {
            first.count += later.count;
        }
        same
    });
}
