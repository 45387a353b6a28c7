//! How large shards are on disk.

use std::{fs, iter::Sum, path::Path};

use super::folder::{open_index, read_payload};

/// The size of one shard, or of several together.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Size {
    /// Shards.
    pub shards: u64,
    /// Documents, duplicates too.
    pub documents: u64,
    /// Segments.
    pub segments: u64,
    /// Bytes.
    pub bytes: u64,
}

impl Size {
    /// The size of the shard in a folder; of one that cannot be read only what can be seen.
    pub(super) fn of(path: &Path) -> Self {
        let mut size = Self { shards: 1, ..Self::default() };
        for entry in fs::read_dir(path).into_iter().flatten().flatten() {
            size.bytes += entry.metadata().map_or(0, |metadata| metadata.len());
        }
        if let Ok(index) = open_index(path) {
            size.segments = index.searchable_segment_ids().map_or(0, |ids| ids.len() as u64);
            size.documents = read_payload(path, &index).map_or(0, |payload| payload.items.into());
        }
        size
    }
}

impl Sum for Size {
    fn sum<I: Iterator<Item = Self>>(sizes: I) -> Self {
        sizes.fold(Self::default(), |all, one| Self {
            shards: all.shards + one.shards,
            documents: all.documents + one.documents,
            segments: all.segments + one.segments,
            bytes: all.bytes + one.bytes,
        })
    }
}
