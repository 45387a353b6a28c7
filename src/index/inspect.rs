//! Looking at a shard from outside, also while a daemon writes to it: nothing here makes, changes or locks anything
//! that a writer needs.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use super::{
    IndexError, Payload, Snapshot,
    folder::{at, open_index, read_payload},
};

/// Looks before a shard that changes meanwhile is called damaged.
const LOOKS: usize = 5;

/// What a shard holds, and in how many files' worth.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShardStats {
    /// What its last commit says.
    pub payload: Payload,
    /// tantivy segments.
    pub segments: usize,
    /// Bytes on disk, files of merges under way included.
    pub bytes: u64,
}

/// What a shard holds; nothing where it has never had a commit.
pub fn shard_stats(path: &Path) -> Result<Option<ShardStats>, IndexError> {
    steadily(path, || {
        let index = open_index(path)?;
        let payload = read_payload(path, &index)?;
        let segments = index.searchable_segment_ids().map_err(at(path))?.len();
        let bytes = folder_bytes(path).map_err(|source| IndexError::Io { path: path.into(), source })?;
        Ok(ShardStats { payload, segments, bytes })
    })
}

/// Reads all of a shard: the checksum of each file, the payload against the documents, the arrival numbers, the counts.
/// Gives its payload; nothing where it has never had a commit.
pub fn verify_shard(path: &Path) -> Result<Option<Payload>, IndexError> {
    steadily(path, || {
        let index = open_index(path)?;
        let damaged = index.validate_checksum().map_err(at(path))?;
        if !damaged.is_empty() {
            let mut names: Vec<String> = damaged.iter().map(|file| file.display().to_string()).collect();
            names.sort_unstable();
            return Err(foreign(path, format!("the checksum of {} is wrong", names.join(", "))));
        }
        let payload = read_payload(path, &index)?;
        let snapshot = Snapshot::of(path, &index, None)?;
        if snapshot.documents() != payload.searchable() {
            let (counted, said) = (snapshot.documents(), payload.searchable());
            return Err(foreign(
                path,
                format!("{counted} of its items are searchable, its payload says {said}"),
            ));
        }
        if let Some(arrival) = snapshot.searchable().last() {
            snapshot.item(arrival)?;
        }
        Ok(payload)
    })
}

/// Looks again where the shard has changed meanwhile: a merge takes files away from under a reader.
fn steadily<T>(path: &Path, look: impl Fn() -> Result<T, IndexError>) -> Result<Option<T>, IndexError> {
    let meta = path.join("meta.json");
    let mut looks = 1;
    loop {
        let before = match fs::read(&meta) {
            Ok(before) => before,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(source) => return Err(IndexError::Io { path: path.into(), source }),
        };
        match look() {
            Ok(seen) => return Ok(Some(seen)),
            Err(error) if looks == LOOKS || fs::read(&meta).is_ok_and(|after| after == before) => {
                return Err(error);
            }
            Err(_) => looks += 1,
        }
    }
}

/// The bytes of all files in a folder; what vanishes meanwhile counts nothing.
fn folder_bytes(path: &Path) -> io::Result<u64> {
    let mut bytes = 0;
    for entry in fs::read_dir(path)? {
        match entry?.metadata() {
            Ok(metadata) => bytes += metadata.len(),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    Ok(bytes)
}

fn foreign(path: &Path, reason: String) -> IndexError {
    IndexError::Foreign { path: PathBuf::from(path), reason }
}
