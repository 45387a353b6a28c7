//! Reading one shard as it stood after some number of arrivals.
//!
//! Everything is addressed by arrival number, never by tantivy's document number. A cut-off hides what arrived later,
//! from statistics too, so a run that is repeated after late items came sees what the first one saw.

use std::{
    collections::{BTreeMap, HashMap},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
};

use tantivy::{
    DocAddress, DocSet, Index, ReloadPolicy, Searcher, TERMINATED, TantivyDocument, Term,
    postings::Postings,
    schema::{Field, IndexRecordOption, Value},
};

use super::{
    IndexError,
    folder::{at, open_index},
    schema::{Fields, schema},
};
use crate::model::{Language, SourceType, StreamId, UnixSeconds};

/// What an item is in its group of duplicates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Kind {
    First = 0,
    Exact = 1,
    Near = 2,
    Empty = 3,
}

/// One document of a term: its arrival number and how often it holds the term.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Posting {
    /// The document.
    pub arrival: u32,
    /// Occurrences, at least 1.
    pub count: u32,
}

/// An item and all its duplicates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Group {
    /// Items in the group.
    pub reports: u32,
    /// Distinct authors or sites among them.
    pub independent_sources: u32,
    /// When the last one was written.
    pub last_seen: UnixSeconds,
}

/// What the shard stores of an item.
#[derive(Debug, Clone)]
pub struct StoredItem {
    /// The item's name.
    pub stream_id: StreamId,
    /// The text as it came.
    pub text: String,
    /// The normalised text.
    pub clean: String,
    /// The platform.
    pub source_type: SourceType,
}

type PostingsByTerm = HashMap<(Language, String), Arc<[Posting]>>;

struct Row {
    address: DocAddress,
    time: i64,
    hash: u64,
    origin: u64,
    group: u32,
    length: u32,
    language: u8,
    kind: u8,
}

/// The items of a shard up to a cut-off.
pub struct Snapshot {
    path: PathBuf,
    searcher: Searcher,
    fields: Fields,
    /// Arrival number of each document, by segment.
    arrivals: Vec<Vec<u32>>,
    /// The items by arrival number.
    rows: Vec<Row>,
    searchable: u32,
    total_length: u64,
    languages: Vec<Language>,
    postings: Mutex<PostingsByTerm>,
}

impl Snapshot {
    /// Opens the shard in `path` for reading only; the first `cutoff` arrivals, or all.
    pub fn open(path: &Path, cutoff: Option<u32>) -> Result<Self, IndexError> {
        Self::of(path, &open_index(path)?, cutoff)
    }

    pub(super) fn of(path: &Path, index: &Index, cutoff: Option<u32>) -> Result<Self, IndexError> {
        let reader = index.reader_builder().reload_policy(ReloadPolicy::Manual).try_into();
        let reader: tantivy::IndexReader = reader.map_err(at(path))?;
        let searcher = reader.searcher();
        let (_, fields) = schema();
        let (arrivals, rows) = read_columns(path, &searcher, cutoff)?;
        let mut snapshot = Self {
            path: path.into(),
            searcher,
            fields,
            arrivals,
            rows,
            searchable: 0,
            total_length: 0,
            languages: Vec::new(),
            postings: Mutex::default(),
        };
        snapshot.count();
        Ok(snapshot)
    }

    fn count(&mut self) {
        let mut present = vec![false; Language::ALL.len()];
        for row in self.rows.iter().filter(|row| row.kind == Kind::First as u8) {
            self.searchable += 1;
            self.total_length += u64::from(row.length);
            if let Some(language) = present.get_mut(usize::from(row.language)) {
                *language = true;
            }
        }
        let languages = Language::ALL.iter().zip(present);
        self.languages = languages.filter_map(|(&language, present)| present.then_some(language)).collect();
    }

    /// All items, duplicates and empty ones too.
    pub fn items(&self) -> u32 {
        u32::try_from(self.rows.len()).unwrap_or(u32::MAX)
    }

    /// Items with searchable text: BM25's number of documents.
    pub fn documents(&self) -> u32 {
        self.searchable
    }

    /// Terms of all searchable items together.
    pub fn total_length(&self) -> u64 {
        self.total_length
    }

    /// The languages of the searchable items, in the order of [`Language::ALL`].
    pub fn languages(&self) -> &[Language] {
        &self.languages
    }

    /// Arrival numbers of the searchable items, in order.
    pub fn searchable(&self) -> impl Iterator<Item = u32> + '_ {
        let arrivals = (0_u32..).zip(&self.rows);
        arrivals.filter(|(_, row)| row.kind == Kind::First as u8).map(|(arrival, _)| arrival)
    }

    /// Content hash and first item of each item that is a duplicate, in order of arrival.
    pub fn duplicates(&self) -> impl Iterator<Item = (u64, u32)> + '_ {
        let duplicates =
            self.rows.iter().filter(|row| row.kind == Kind::Exact as u8 || row.kind == Kind::Near as u8);
        duplicates.map(|row| (row.hash, row.group))
    }

    /// Number of terms of an item.
    pub fn length(&self, arrival: u32) -> u32 {
        self.row(arrival).map_or(0, |row| row.length)
    }

    /// The language that an item was analysed in.
    pub fn language(&self, arrival: u32) -> Language {
        let language = self.row(arrival).and_then(|row| Language::ALL.get(usize::from(row.language)));
        language.copied().unwrap_or(Language::Other)
    }

    /// When an item was written.
    pub fn time(&self, arrival: u32) -> Result<UnixSeconds, IndexError> {
        let row = self.row(arrival).ok_or_else(|| self.missing(arrival))?;
        UnixSeconds::new(row.time).map_err(|error| self.foreign(error.to_string()))
    }

    /// What the shard stores of an item.
    pub fn item(&self, arrival: u32) -> Result<StoredItem, IndexError> {
        let row = self.row(arrival).ok_or_else(|| self.missing(arrival))?;
        let document: TantivyDocument = self.searcher.doc(row.address).map_err(at(&self.path))?;
        let text = |field: Field| {
            document.get_first(field).and_then(|value| value.as_str()).unwrap_or_default().to_owned()
        };
        Ok(StoredItem {
            stream_id: StreamId::new(text(self.fields.stream_id))
                .map_err(|error| self.foreign(error.to_string()))?,
            text: text(self.fields.text),
            clean: text(self.fields.clean),
            source_type: SourceType::from_name(&text(self.fields.source_type)),
        })
    }

    /// The documents that hold a term, in the order of segments. Read once, then kept.
    pub fn postings(&self, language: Language, term: &str) -> Result<Arc<[Posting]>, IndexError> {
        let key = (language, term.to_owned());
        if let Some(known) = self.postings.lock().unwrap_or_else(PoisonError::into_inner).get(&key) {
            return Ok(Arc::clone(known));
        }
        let read: Arc<[Posting]> = self.read_postings(language, term)?.into();
        self.postings.lock().unwrap_or_else(PoisonError::into_inner).insert(key, Arc::clone(&read));
        Ok(read)
    }

    fn read_postings(&self, language: Language, term: &str) -> Result<Vec<Posting>, IndexError> {
        let mut found = Vec::new();
        let Some(&field) = self.fields.terms.get(language as usize) else {
            return Ok(found);
        };
        let term = Term::from_field_text(field, term);
        for (segment, arrivals) in self.searcher.segment_readers().iter().zip(&self.arrivals) {
            let index = segment.inverted_index(field).map_err(at(&self.path))?;
            let postings = index.read_postings(&term, IndexRecordOption::WithFreqs);
            let Some(mut postings) = postings.map_err(|error| at(&self.path)(error.into()))? else {
                continue;
            };
            let mut document = postings.doc();
            while document != TERMINATED {
                if let Some(&arrival) = arrivals.get(document as usize)
                    && (arrival as usize) < self.rows.len()
                {
                    found.push(Posting { arrival, count: postings.term_freq() });
                }
                document = postings.advance();
            }
        }
        Ok(found)
    }

    /// Every group of duplicates by the arrival number of its first item.
    pub fn groups(&self) -> BTreeMap<u32, Group> {
        let mut groups: BTreeMap<u32, Group> = BTreeMap::new();
        let mut origins: Vec<(u32, u64)> = Vec::with_capacity(self.rows.len());
        for row in self.rows.iter().filter(|row| row.kind != Kind::Empty as u8) {
            let Ok(time) = UnixSeconds::new(row.time) else { continue };
            let group = groups.entry(row.group).or_insert(Group {
                reports: 0,
                independent_sources: 0,
                last_seen: time,
            });
            group.reports += 1;
            group.last_seen = group.last_seen.max(time);
            origins.push((row.group, row.origin));
        }
        origins.sort_unstable();
        origins.dedup();
        for (first, _) in origins {
            if let Some(group) = groups.get_mut(&first) {
                group.independent_sources += 1;
            }
        }
        groups
    }

    fn row(&self, arrival: u32) -> Option<&Row> {
        self.rows.get(arrival as usize)
    }

    fn missing(&self, arrival: u32) -> IndexError {
        self.foreign(format!("it has no item {arrival}"))
    }

    fn foreign(&self, reason: String) -> IndexError {
        IndexError::Foreign { path: self.path.clone(), reason }
    }
}

/// Reads the columns of all segments into rows by arrival number.
#[allow(
    clippy::cast_possible_truncation,
    reason = "arrival, group and length were u32, language and kind u8"
)]
fn read_columns(
    path: &Path,
    searcher: &Searcher,
    cutoff: Option<u32>,
) -> Result<(Vec<Vec<u32>>, Vec<Row>), IndexError> {
    let total = searcher.num_docs() as usize;
    let kept = cutoff.map_or(total, |cutoff| total.min(cutoff as usize));
    let mut rows: Vec<Option<Row>> = Vec::new();
    rows.resize_with(kept, || None);
    let mut arrivals = Vec::new();
    for (ordinal, segment) in (0_u32..).zip(searcher.segment_readers()) {
        let columns = segment.fast_fields();
        let column =
            |name: &str| columns.u64(name).map(|column| column.first_or_default_col(0)).map_err(at(path));
        let time = columns.i64("time").map(|column| column.first_or_default_col(0)).map_err(at(path))?;
        let arrival = column("arrival")?;
        let (hash, origin, group, length) =
            (column("hash")?, column("origin")?, column("group")?, column("length")?);
        let (language, kind) = (column("language")?, column("kind")?);
        let mut of_segment = Vec::with_capacity(segment.max_doc() as usize);
        for document in 0..segment.max_doc() {
            let number = arrival.get_val(document) as u32;
            of_segment.push(number);
            if let Some(place) = rows.get_mut(number as usize) {
                *place = Some(Row {
                    address: DocAddress::new(ordinal, document),
                    time: time.get_val(document),
                    hash: hash.get_val(document),
                    origin: origin.get_val(document),
                    group: group.get_val(document) as u32,
                    length: length.get_val(document) as u32,
                    language: language.get_val(document) as u8,
                    kind: kind.get_val(document) as u8,
                });
            }
        }
        arrivals.push(of_segment);
    }
    let rows: Option<Vec<Row>> = rows.into_iter().collect();
    let rows = rows.ok_or_else(|| IndexError::Foreign {
        path: path.into(),
        reason: "its arrival numbers have gaps".to_owned(),
    })?;
    Ok((arrivals, rows))
}
