//! Forgetting where topics stood, because they are others than before.

use super::{State, UpkeepError};
use crate::{
    index::{Shard, ShardKey, ShardOptions, shard_folder, shard_stats, shards_in},
    ledger::{Forgotten, Ledger},
};

/// tantivy's least: nothing is indexed here.
const WRITER_MEMORY: usize = 15_000_000;

/// Which partitions; all where nothing is said.
#[derive(Debug, Clone, Default)]
pub struct Partitions {
    /// Those of one topic.
    pub topic: Option<String>,
    /// Those of one number.
    pub partition: Option<i32>,
}

impl Partitions {
    fn has(&self, topic: &str, partition: i32) -> bool {
        self.topic.as_deref().is_none_or(|only| only == topic)
            && self.partition.is_none_or(|only| only == partition)
    }
}

/// What a reset comes to, or came to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Reset {
    /// In the ledger.
    pub ledger: Forgotten,
    /// Shards that know positions there.
    pub shards: Vec<ShardKey>,
}

impl Reset {
    /// Whether there is nothing to forget.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// What a reset would come to.
    pub fn planned(state: &State, of: &Partitions) -> Result<Self, UpkeepError> {
        let Some(ledger) = state.daemons_ledger()? else {
            return Ok(Self { ledger: Forgotten::default(), shards: with_positions(state, of)? });
        };
        let forgotten = ledger.to_forget(|topic, partition| of.has(topic, partition))?;
        Ok(Self { ledger: forgotten, shards: with_positions(state, of)? })
    }

    /// Forgets. The shards come first: were the ledger's positions forgotten before, a daemon started after a kill would
    /// read from the beginning and have the shards skip what they think they have.
    pub fn apply(state: &State, of: &Partitions) -> Result<Self, UpkeepError> {
        let _lock = state.lock()?;
        state.daemons_ledger()?;
        let shards = with_positions(state, of)?;
        let options = ShardOptions { writer_memory: WRITER_MEMORY, near_threshold: None };
        for key in &shards {
            let mut shard = Shard::open(&shard_folder(state.folder(), key), &options)?;
            shard.forget(|topic, partition| of.has(topic, partition))?;
            shard.close()?;
        }
        let path = state.ledger_path();
        if !path.exists() {
            return Ok(Self { ledger: Forgotten::default(), shards });
        }
        let forgotten = Ledger::open(&path)?.forget_positions(|topic, partition| of.has(topic, partition))?;
        Ok(Self { ledger: forgotten, shards })
    }
}

fn with_positions(state: &State, of: &Partitions) -> Result<Vec<ShardKey>, UpkeepError> {
    let mut found = Vec::new();
    for key in shards_in(state.folder())? {
        let Some(held) = shard_stats(&shard_folder(state.folder(), &key))? else { continue };
        if held.payload.positions.iter().any(|(topic, partition, _)| of.has(topic, partition)) {
            found.push(key);
        }
    }
    Ok(found)
}
