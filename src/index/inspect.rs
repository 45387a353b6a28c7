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

#[cfg(test)]
mod tests {
    use std::{
        sync::{
            Arc,
            atomic::{AtomicBool, Ordering},
        },
        thread,
    };

    use super::*;
    use crate::{
        clean::Cleaner,
        index::{Positions, Preparer, Shard, ShardOptions},
        model::{EventId, Item, Language, SourceType, StreamId, UnixSeconds},
    };

    fn item(number: u32) -> Item {
        Item {
            event: EventId::new("E-1").unwrap(),
            stream_id: StreamId::new(format!("E-1-Twitter-{number}-0")).unwrap(),
            unix_timestamp: UnixSeconds::new(1_512_604_800).unwrap(),
            text: format!("{number} homes destroyed"),
            source_type: SourceType::from_name("Twitter"),
            source: None,
            language: None,
            origin: None,
        }
    }

    #[test]
    fn a_shard_that_is_written_meanwhile_has_no_faults() {
        let folder = tempfile::tempdir().unwrap();
        let options = ShardOptions { writer_memory: 15_000_000, near_threshold: Some(0.8) };
        let mut shard = Shard::open(folder.path(), &options).unwrap();
        let done = Arc::new(AtomicBool::new(false));
        let looking = {
            let (path, done) = (folder.path().to_owned(), Arc::clone(&done));
            thread::spawn(move || {
                let mut looks = 0;
                while !done.load(Ordering::Relaxed) {
                    verify_shard(&path).unwrap();
                    shard_stats(&path).unwrap();
                    looks += 1;
                }
                looks
            })
        };
        let mut preparer = Preparer::new(Arc::new(Cleaner::new()));
        for number in 0..100 {
            shard.add(preparer.prepare(item(number), Language::English)).unwrap();
            shard.commit(&Positions::default()).unwrap();
        }
        shard.close().unwrap();
        done.store(true, Ordering::Relaxed);
        assert!(looking.join().unwrap() > 0);
        assert_eq!(verify_shard(folder.path()).unwrap().unwrap().items, 100);
        assert!(shard_stats(folder.path()).unwrap().unwrap().segments < 100, "merges took files away");
    }

    #[test]
    fn what_cannot_be_opened_says_what_mends_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("shards/E-1/E-1-r0");
        let options = ShardOptions { writer_memory: 15_000_000, near_threshold: Some(0.8) };
        let mut shard = Shard::open(&path, &options).unwrap();
        let mut preparer = Preparer::new(Arc::new(Cleaner::new()));
        shard.add(preparer.prepare(item(1), Language::English)).unwrap();
        shard.commit(&Positions::default()).unwrap();
        shard.close().unwrap();
        let repair = "`nuggetd index rebuild --event E-1 --request E-1-r0 --yes`";
        let store = fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path());
        let store = store.into_iter().find(|path| path.extension().is_some_and(|ending| ending == "store"));
        fs::remove_file(store.unwrap()).unwrap();
        let error = Snapshot::open(&path, None).err().unwrap().to_string();
        assert!(error.contains(repair) && error.contains("is damaged"), "{error}");
        fs::write(path.join("meta.json"), "no JSON").unwrap();
        let error = Shard::open(&path, &options).err().unwrap().to_string();
        assert!(error.contains(repair) && error.contains("is damaged"), "{error}");
    }
}
