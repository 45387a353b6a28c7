//! The fields of a shard.

use tantivy::{
    Index,
    schema::{FAST, Field, IndexRecordOption, STORED, Schema, TextFieldIndexing, TextOptions},
    tokenizer::WhitespaceTokenizer,
};

use crate::model::Language;

/// The name under which the searchable fields find their tokenizer. The terms come analysed, joined by spaces.
const ANALYSED: &str = "analysed";

/// Handles of every field.
#[derive(Debug, Clone)]
pub(super) struct Fields {
    /// The item's name (stored).
    pub(super) stream_id: Field,
    /// The original text (stored).
    pub(super) text: Field,
    /// The clean text (stored).
    pub(super) clean: Field,
    /// The platform (stored).
    pub(super) source_type: Field,
    /// The platform's record as JSON (stored).
    pub(super) source: Field,
    /// Place in the order of arrival, from 0 (column).
    pub(super) arrival: Field,
    /// Unix seconds (column).
    pub(super) time: Field,
    /// Hash of the case-folded clean text (column).
    pub(super) hash: Field,
    /// Number of terms, exact (column); 0 for documents without searchable text.
    pub(super) length: Field,
    /// Arrival number of the first item of the group of duplicates (column).
    pub(super) group: Field,
    /// What the item is in its group, see `Kind` (column).
    pub(super) kind: Field,
    /// Hash of the author or site (column).
    pub(super) origin: Field,
    /// Place of the language in `Language::ALL` (column).
    pub(super) language: Field,
    /// The analysed terms, a field for each language (indexed with frequencies).
    pub(super) terms: Vec<Field>,
}

/// The schema and the handles of its fields.
pub(super) fn schema() -> (Schema, Fields) {
    let mut builder = Schema::builder();
    let terms_only = TextOptions::default().set_indexing_options(
        TextFieldIndexing::default()
            .set_tokenizer(ANALYSED)
            .set_index_option(IndexRecordOption::WithFreqs)
            .set_fieldnorms(false),
    );
    let fields = Fields {
        stream_id: builder.add_text_field("stream_id", STORED),
        text: builder.add_text_field("text", STORED),
        clean: builder.add_text_field("clean", STORED),
        source_type: builder.add_text_field("source_type", STORED),
        source: builder.add_text_field("source", STORED),
        arrival: builder.add_u64_field("arrival", FAST),
        time: builder.add_i64_field("time", FAST),
        hash: builder.add_u64_field("hash", FAST),
        length: builder.add_u64_field("length", FAST),
        group: builder.add_u64_field("group", FAST),
        kind: builder.add_u64_field("kind", FAST),
        origin: builder.add_u64_field("origin", FAST),
        language: builder.add_u64_field("language", FAST),
        terms: Language::ALL
            .iter()
            .map(|language| builder.add_text_field(&format!("text_{}", language.code()), terms_only.clone()))
            .collect(),
    };
    (builder.build(), fields)
}

/// Makes the tokenizer of the searchable fields known to an opened index.
pub(super) fn register(index: &Index) {
    index.tokenizers().register(ANALYSED, WhitespaceTokenizer::default());
}
