//! Writing one shard: add items, commit, merge.

use std::{
    fs,
    path::{Path, PathBuf},
};

use tantivy::{
    Index, IndexWriter, TantivyDocument,
    indexer::{NoMergePolicy, UserOperation},
};

use super::{
    IndexError, Payload, Positions, Prepared, Snapshot,
    folder::{at, open_index, read_payload},
    payload::FORMAT,
    schema::{Fields, schema},
    snapshot::Kind,
};
use crate::clean::{self, DuplicateFinder, Signature};

/// What a writer asks for that only merges: tantivy's least.
const MERGING_MEMORY: usize = 15_000_000;

/// Documents handed to tantivy's thread at a time; waking it for each costs more than indexing a tweet.
const BATCH: usize = 64;

/// How shards are written.
#[derive(Debug, Clone)]
pub struct ShardOptions {
    /// Bytes that a writer may hold before it writes a segment; tantivy needs at least 15 MB.
    pub writer_memory: usize,
    /// Jaccard similarity of the word sets from which two items are near duplicates; nothing = duplicates are not
    /// looked for.
    pub near_threshold: Option<f64>,
}

/// What became of an item.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Searchable.
    First,
    /// Repeats another item's clean text.
    Exact,
    /// Nearly repeats another item's clean text.
    Near,
    /// Cleans to nothing.
    Empty,
}

/// One shard, open for writing.
pub struct Shard {
    path: PathBuf,
    index: Index,
    fields: Fields,
    writer: IndexWriter,
    /// Added, not yet handed to the writer.
    batch: Vec<UserOperation>,
    duplicates: Option<DuplicateFinder>,
    payload: Payload,
    /// Where the last commit found before this start stood: what lies before is in the shard already.
    resumed_at: Positions,
    dirty: bool,
}

impl Shard {
    /// Opens the shard in `path`, or makes it.
    pub fn open(path: &Path, options: &ShardOptions) -> Result<Self, IndexError> {
        fs::create_dir_all(path).map_err(|source| IndexError::Io { path: path.into(), source })?;
        let (_, fields) = schema();
        let index = open_index(path)?;
        let payload = read_payload(path, &index)?;
        let writer = index.writer_with_num_threads(1, options.writer_memory).map_err(at(path))?;
        let mut shard = Self {
            path: path.into(),
            index,
            fields,
            writer,
            batch: Vec::with_capacity(BATCH),
            duplicates: options.near_threshold.map(DuplicateFinder::new),
            resumed_at: payload.positions.clone(),
            payload,
            dirty: false,
        };
        shard.remember_items()?;
        Ok(shard)
    }

    /// What the shard holds, counted up to the last item added.
    pub fn payload(&self) -> &Payload {
        &self.payload
    }

    /// Whether something was added since the last commit.
    pub fn is_dirty(&self) -> bool {
        self.dirty
    }

    /// Whether the record at this position was in the shard already when it was opened.
    pub fn has(&self, topic: &str, partition: i32, offset: u64) -> bool {
        offset < self.resumed_at.next(topic, partition)
    }

    /// Adds an item; it is searchable after the next commit.
    pub fn add(&mut self, prepared: Prepared) -> Result<Verdict, IndexError> {
        let arrival = self.payload.items;
        let hash = prepared.signature.hash();
        let verdict = match &mut self.duplicates {
            Some(finder) => finder.insert(arrival, prepared.signature),
            None if prepared.clean.is_empty() => clean::Verdict::Empty,
            None => clean::Verdict::First,
        };
        let (group, kind) = match verdict {
            clean::Verdict::First => (arrival, Kind::First),
            clean::Verdict::Exact { first } => (first, Kind::Exact),
            clean::Verdict::Near { first } => (first, Kind::Near),
            clean::Verdict::Empty => (arrival, Kind::Empty),
        };
        let fields = &self.fields;
        let item = &prepared.item;
        let mut document = TantivyDocument::new();
        document.add_text(fields.stream_id, item.stream_id.as_str());
        document.add_text(fields.text, &item.text);
        document.add_text(fields.clean, &prepared.clean);
        document.add_text(fields.source_type, item.source_type.as_str());
        if let Some(source) = &item.source {
            document.add_text(fields.source, source.get());
        }
        document.add_u64(fields.arrival, arrival.into());
        document.add_i64(fields.time, item.unix_timestamp.get());
        document.add_u64(fields.hash, hash);
        document.add_u64(fields.group, group.into());
        document.add_u64(fields.kind, kind as u64);
        document.add_u64(fields.origin, prepared.origin);
        document.add_u64(fields.language, prepared.language as u64);
        let length = if kind == Kind::First { prepared.length } else { 0 };
        document.add_u64(fields.length, length.into());
        if let (Kind::First, Some(&terms)) = (kind, fields.terms.get(prepared.language as usize)) {
            document.add_text(terms, &prepared.terms);
        }
        self.batch.push(UserOperation::Add(document));
        if self.batch.len() >= BATCH {
            self.hand_over()?;
        }
        self.dirty = true;
        self.payload.items += 1;
        Ok(match kind {
            Kind::First => Verdict::First,
            Kind::Exact => {
                self.payload.exact_duplicates += 1;
                Verdict::Exact
            }
            Kind::Near => {
                self.payload.near_duplicates += 1;
                Verdict::Near
            }
            Kind::Empty => {
                self.payload.empty += 1;
                Verdict::Empty
            }
        })
    }

    fn hand_over(&mut self) -> Result<(), IndexError> {
        let batch = std::mem::replace(&mut self.batch, Vec::with_capacity(BATCH));
        self.writer.run(batch).map_err(at(&self.path))?;
        Ok(())
    }

    /// Makes what was added durable and searchable, together with the positions up to which records were taken.
    /// The only place that commits.
    ///
    /// The stream may stand before what the shard has: after a kill between the shards' commits and the checkpoint, or
    /// while another shard is built anew. What the shard has it does not forget, or it would take it twice after the
    /// next start.
    pub fn commit(&mut self, positions: &Positions) -> Result<(), IndexError> {
        self.hand_over()?;
        self.payload.positions.include(positions);
        self.payload.format = FORMAT;
        let payload = serde_json::to_string(&self.payload).map_err(|error| IndexError::Foreign {
            path: self.path.clone(),
            reason: format!("its payload cannot be written: {error}"),
        })?;
        let mut commit = self.writer.prepare_commit().map_err(at(&self.path))?;
        commit.set_payload(&payload);
        commit.commit().map_err(at(&self.path))?;
        self.dirty = false;
        Ok(())
    }

    /// Forgets where these partitions stood, and commits: their records are new to the shard. Its items stay.
    pub fn forget(&mut self, is_theirs: impl Fn(&str, i32) -> bool) -> Result<(), IndexError> {
        self.payload.positions.forget(&is_theirs);
        self.resumed_at.forget(&is_theirs);
        self.commit(&Positions::default())
    }

    /// The committed items, up to `cutoff` of them.
    pub fn snapshot(&self, cutoff: Option<u32>) -> Result<Snapshot, IndexError> {
        Snapshot::of(&self.path, &self.index, cutoff)
    }

    /// Merges the committed items to one segment and closes the shard.
    pub fn finish(self) -> Result<(), IndexError> {
        let (index, path) = (self.index.clone(), self.path.clone());
        // A merge that is under way would take segments away from the one wanted here, so it ends first.
        self.close()?;
        let segments = index.searchable_segment_ids().map_err(at(&path))?;
        if segments.len() > 1 {
            let mut writer: IndexWriter =
                index.writer_with_num_threads(1, MERGING_MEMORY).map_err(at(&path))?;
            writer.set_merge_policy(Box::new(NoMergePolicy));
            writer.merge(&segments).wait().map_err(at(&path))?;
            writer.wait_merging_threads().map_err(at(&path))?;
        }
        Ok(())
    }

    /// Closes the shard once merges under way are done; dropping it would kill them.
    pub fn close(self) -> Result<(), IndexError> {
        self.writer.wait_merging_threads().map_err(at(&self.path))
    }

    /// Fills the finder of duplicates with what the shard holds, in the order of arrival, so that a restart finds the
    /// same duplicates as a run without one.
    fn remember_items(&mut self) -> Result<(), IndexError> {
        if self.payload.items == 0 {
            return Ok(());
        }
        let Some(finder) = &mut self.duplicates else {
            return Ok(());
        };
        let snapshot = Snapshot::of(&self.path, &self.index, None)?;
        for arrival in snapshot.searchable() {
            finder.insert(arrival, Signature::of(&snapshot.item(arrival)?.clean));
        }
        for (hash, first) in snapshot.duplicates() {
            finder.remember_duplicate(hash, first);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::{
        clean::Cleaner,
        index::Preparer,
        model::{EventId, Item, Language, SourceType, StreamId, UnixSeconds},
    };

    fn open(path: &Path) -> Shard {
        Shard::open(path, &ShardOptions { writer_memory: 15_000_000, near_threshold: Some(0.8) }).unwrap()
    }

    fn prepared(number: u64) -> Prepared {
        let item = Item {
            event: EventId::new("E-1").unwrap(),
            stream_id: StreamId::new(format!("E-1-Twitter-{number}-0")).unwrap(),
            unix_timestamp: UnixSeconds::new(1_512_604_800).unwrap(),
            text: format!("{number} homes destroyed"),
            source_type: SourceType::from_name("Twitter"),
            source: None,
            language: None,
            origin: None,
        };
        Preparer::new(Arc::new(Cleaner::new())).prepare(item, Language::English)
    }

    #[test]
    fn a_commit_at_an_earlier_position_forgets_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let mut shard = open(folder.path());
        shard.add(prepared(1)).unwrap();
        let mut positions = Positions::default();
        positions.advance("items", 0, 99);
        shard.commit(&positions).unwrap();
        shard.close().unwrap();
        // The stream stands before it, and another partition brings something
        let mut shard = open(folder.path());
        shard.add(prepared(2)).unwrap();
        let mut positions = Positions::default();
        positions.advance("items", 0, 49);
        positions.advance("items", 1, 7);
        shard.commit(&positions).unwrap();
        shard.close().unwrap();
        let shard = open(folder.path());
        assert!(shard.has("items", 0, 99) && !shard.has("items", 0, 100));
        assert!(shard.has("items", 1, 7) && !shard.has("items", 1, 8));
    }

    #[test]
    fn what_a_shard_forgets_is_new_to_it_and_its_items_stay() {
        let folder = tempfile::tempdir().unwrap();
        let mut shard = open(folder.path());
        shard.add(prepared(1)).unwrap();
        let mut positions = Positions::default();
        positions.advance("items", 0, 99);
        positions.advance("items", 1, 99);
        shard.commit(&positions).unwrap();
        shard.close().unwrap();
        let mut shard = open(folder.path());
        shard.forget(|topic, partition| topic == "items" && partition == 1).unwrap();
        assert!(shard.has("items", 0, 99) && !shard.has("items", 1, 0));
        shard.close().unwrap();
        let shard = open(folder.path());
        assert!(shard.has("items", 0, 99) && !shard.has("items", 1, 0));
        assert_eq!(shard.snapshot(None).unwrap().items(), 1);
    }
}
