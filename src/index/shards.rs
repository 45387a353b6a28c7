//! All shards of a data folder. Few are open at once: each writer holds memory and a thread.

use std::{
    collections::BTreeMap,
    ffi::OsStr,
    fs, io,
    path::{Path, PathBuf},
    sync::mpsc::{Receiver, SyncSender, TryRecvError, sync_channel},
};

use super::{
    IndexError, Payload, Positions, Shard, ShardOptions, Size, Snapshot,
    folder::{open_index, read_payload},
};
use crate::model::{EventId, RequestId};

/// Which shard: the event and its request.
pub type ShardKey = (EventId, RequestId);

/// Where shards lie in a data folder.
const ROOT: &str = "shards";

fn in_root(root: &Path, (event, request): &ShardKey) -> PathBuf {
    root.join(event.as_str()).join(request.as_str())
}

/// The folder of a shard in a data folder.
pub fn shard_folder(data_dir: &Path, key: &ShardKey) -> PathBuf {
    in_root(&data_dir.join(ROOT), key)
}

/// The shards that have a folder in a data folder, by name. Folders whose names name no event or request are not
/// shards.
pub fn shards_in(data_dir: &Path) -> Result<Vec<ShardKey>, IndexError> {
    let mut keys = Vec::new();
    for event in folders_in(&data_dir.join(ROOT))? {
        let Some(id) = named(&event).and_then(|name| EventId::new(name).ok()) else { continue };
        for request in folders_in(&event)? {
            let Some(request) = named(&request).and_then(|name| RequestId::new(name).ok()) else { continue };
            keys.push((id.clone(), request));
        }
    }
    keys.sort();
    Ok(keys)
}

fn named(folder: &Path) -> Option<&str> {
    folder.file_name().and_then(OsStr::to_str)
}

fn folders_in(path: &Path) -> Result<Vec<PathBuf>, IndexError> {
    let fail = |source| IndexError::Io { path: path.into(), source };
    let entries = match fs::read_dir(path) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(fail(error)),
    };
    let mut folders = Vec::new();
    for entry in entries {
        let entry = entry.map_err(fail)?;
        if entry.file_type().map_err(fail)?.is_dir() {
            folders.push(entry.path());
        }
    }
    Ok(folders)
}

struct Open {
    shard: Shard,
    last_used: u64,
}

/// A shard taken out of the set, to be merged and closed on another thread.
pub struct TakenShard {
    shard: Shard,
    /// Dropped with this value: tells [`Shards`] that the folder is free again.
    _away: SyncSender<()>,
}

impl TakenShard {
    /// Makes durable what was added; see [`Shard::commit`].
    pub fn commit(&mut self, positions: &Positions) -> Result<(), IndexError> {
        if self.shard.is_dirty() { self.shard.commit(positions) } else { Ok(()) }
    }

    /// The committed items.
    pub fn snapshot(&self) -> Result<Snapshot, IndexError> {
        self.shard.snapshot(None)
    }

    /// Merges the committed items to one segment and closes the shard.
    pub fn finish(self) -> Result<(), IndexError> {
        self.shard.finish()
    }
}

/// The shards under `data_dir/shards/<event>/<requestID>/`.
pub struct Shards {
    root: PathBuf,
    options: ShardOptions,
    most_open: usize,
    open: BTreeMap<ShardKey, Open>,
    /// Shards that were taken out; their folders are locked until the other side hangs up.
    away: BTreeMap<ShardKey, Receiver<()>>,
    clock: u64,
    /// Shards closed to make room for others.
    displaced: u64,
    /// Sizes of shards that nobody is writing.
    sizes: BTreeMap<PathBuf, Size>,
}

impl Shards {
    /// The shards under `data_dir`, of which at most `most_open` (at least one) are open for writing at once.
    pub fn new(data_dir: &Path, options: ShardOptions, most_open: usize) -> Self {
        Self {
            root: data_dir.join(ROOT),
            options,
            most_open: most_open.max(1),
            open: BTreeMap::new(),
            away: BTreeMap::new(),
            clock: 0,
            displaced: 0,
            sizes: BTreeMap::new(),
        }
    }

    /// The folder of a shard.
    pub fn path(&self, key: &ShardKey) -> PathBuf {
        in_root(&self.root, key)
    }

    /// The shard, opened where it is not. Call [`Self::shrink`] between records.
    pub fn writer(&mut self, key: &ShardKey) -> Result<&mut Shard, IndexError> {
        if !self.open.contains_key(key) {
            if let Some(away) = self.away.remove(key) {
                // Nothing is ever sent: this ends when the other side is dropped
                away.recv().unwrap_or_default();
            }
            let shard = Shard::open(&self.path(key), &self.options)?;
            self.open.insert(key.clone(), Open { shard, last_used: 0 });
        }
        self.clock += 1;
        match self.open.get_mut(key) {
            Some(open) => {
                open.last_used = self.clock;
                Ok(&mut open.shard)
            }
            None => {
                Err(IndexError::Foreign { path: self.root.clone(), reason: "a shard vanished".to_owned() })
            }
        }
    }

    /// Commits and closes what was not used for longest until no more shards are open than may be. Not to be called
    /// while a record is half taken: a record's items may go to several shards, and a commit says that all of them
    /// have theirs.
    pub fn shrink(&mut self, positions: &Positions) -> Result<(), IndexError> {
        while self.open.len() > self.most_open {
            let oldest = self.open.iter().min_by_key(|(_, open)| open.last_used).map(|(key, _)| key.clone());
            let Some(mut oldest) = oldest.and_then(|key| self.open.remove(&key)) else {
                break;
            };
            if oldest.shard.is_dirty() {
                oldest.shard.commit(positions)?;
            }
            oldest.shard.close()?;
            self.displaced += 1;
        }
        Ok(())
    }

    /// How many shards were closed to make room for others.
    pub fn displaced(&self) -> u64 {
        self.displaced
    }

    /// Commits every shard that has something new.
    pub fn commit(&mut self, positions: &Positions) -> Result<(), IndexError> {
        for open in self.open.values_mut().filter(|open| open.shard.is_dirty()) {
            open.shard.commit(positions)?;
        }
        Ok(())
    }

    /// Commits and closes the open shards of these events: somebody else takes them over.
    pub fn release(
        &mut self,
        positions: &Positions,
        of: impl Fn(&EventId) -> bool,
    ) -> Result<(), IndexError> {
        let leaving: Vec<ShardKey> = self.open.keys().filter(|(event, _)| of(event)).cloned().collect();
        for key in leaving {
            let Some(mut open) = self.open.remove(&key) else { continue };
            if open.shard.is_dirty() {
                open.shard.commit(positions)?;
            }
            open.shard.close()?;
        }
        Ok(())
    }

    /// Items of a shard, added ones included; 0 where it has never had one.
    pub fn items(&self, key: &ShardKey) -> Result<u32, IndexError> {
        match self.open.get(key) {
            Some(open) => Ok(open.shard.payload().items),
            None => Ok(self.payload(key)?.map_or(0, |payload| payload.items)),
        }
    }

    /// How large all shards in the folder are together. What nobody writes is looked at once.
    pub fn size(&mut self) -> Size {
        self.away.retain(|_, back| matches!(back.try_recv(), Err(TryRecvError::Empty)));
        let written: Vec<PathBuf> =
            self.open.keys().chain(self.away.keys()).map(|key| self.path(key)).collect();
        for path in &written {
            self.sizes.remove(path);
        }
        let folders =
            |path: &Path| fs::read_dir(path).into_iter().flatten().flatten().map(|entry| entry.path());
        let mut all = Size::default();
        for path in folders(&self.root).flat_map(|event| folders(&event).collect::<Vec<_>>()) {
            let size = match self.sizes.get(&path) {
                Some(&size) => size,
                None => Size::of(&path),
            };
            if !written.contains(&path) {
                self.sizes.insert(path, size);
            }
            all = [all, size].into_iter().sum();
        }
        all
    }

    /// A shard's committed items, up to `cutoff`; nothing where it has never had one.
    pub fn snapshot(&self, key: &ShardKey, cutoff: Option<u32>) -> Result<Option<Snapshot>, IndexError> {
        if let Some(open) = self.open.get(key) {
            return open.shard.snapshot(cutoff).map(Some);
        }
        let path = self.path(key);
        if path.join("meta.json").exists() { Snapshot::open(&path, cutoff).map(Some) } else { Ok(None) }
    }

    /// What the last commit of a shard says; nothing where it has never had one.
    pub fn payload(&self, key: &ShardKey) -> Result<Option<Payload>, IndexError> {
        let path = self.path(key);
        if path.join("meta.json").exists() {
            read_payload(&path, &open_index(&path)?).map(Some)
        } else {
            Ok(None)
        }
    }

    /// Takes a shard out, to be merged and closed elsewhere; nothing where it is not open.
    pub fn take(&mut self, key: &ShardKey) -> Option<TakenShard> {
        let shard = self.open.remove(key)?.shard;
        let (sender, receiver) = sync_channel(0);
        self.away.insert(key.clone(), receiver);
        Some(TakenShard { shard, _away: sender })
    }

    /// Closes all; what was not committed is lost.
    pub fn close(self) -> Result<(), IndexError> {
        for open in self.open.into_values() {
            open.shard.close()?;
        }
        Ok(())
    }
}
