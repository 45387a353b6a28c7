//! Places in topics.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// An offset for each of some partitions, as `{topic: {partition: offset}}`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct Offsets(BTreeMap<String, BTreeMap<i32, u64>>);

impl Offsets {
    /// The partition's offset.
    pub fn get(&self, topic: &str, partition: i32) -> Option<u64> {
        self.0.get(topic)?.get(&partition).copied()
    }

    /// Sets the partition's offset.
    pub fn set(&mut self, topic: &str, partition: i32, offset: u64) {
        self.0.entry(topic.to_owned()).or_default().insert(partition, offset);
    }

    /// Lowers the partition's offset to this one; sets it where there is none.
    pub fn lower(&mut self, topic: &str, partition: i32, offset: u64) {
        let lowest = self.get(topic, partition).map_or(offset, |known| known.min(offset));
        self.set(topic, partition, lowest);
    }

    /// Forgets a partition.
    pub fn remove(&mut self, topic: &str, partition: i32) {
        if let Some(partitions) = self.0.get_mut(topic) {
            partitions.remove(&partition);
        }
    }

    /// Forgets partitions.
    pub fn forget(&mut self, is_theirs: impl Fn(&str, i32) -> bool) {
        for (topic, partitions) in &mut self.0 {
            partitions.retain(|&partition, _| !is_theirs(topic, partition));
        }
        self.0.retain(|_, partitions| !partitions.is_empty());
    }

    /// Whether there is no partition.
    pub fn is_empty(&self) -> bool {
        self.0.values().all(BTreeMap::is_empty)
    }

    /// All, as (topic, partition, offset), in the order of their names.
    pub fn iter(&self) -> impl Iterator<Item = (&str, i32, u64)> {
        self.0.iter().flat_map(|(topic, partitions)| {
            partitions.iter().map(move |(&partition, &offset)| (topic.as_str(), partition, offset))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lowest_is_kept() {
        let mut offsets = Offsets::default();
        assert!(offsets.is_empty());
        offsets.lower("items", 1, 9);
        offsets.lower("items", 1, 7);
        offsets.lower("items", 1, 8);
        assert_eq!(offsets.iter().collect::<Vec<_>>(), [("items", 1, 7)]);
        offsets.remove("items", 1);
        assert!(offsets.is_empty());
    }
}
