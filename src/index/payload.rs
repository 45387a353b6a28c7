//! What every commit of a shard carries besides its documents.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// The version of schema and payload. A shard of another version is refused, never misread.
pub(super) const FORMAT: u32 = 1;

/// For each topic (or archive file) and partition, the offset of the first record not yet taken.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Positions(BTreeMap<String, BTreeMap<i32, u64>>);

impl Positions {
    /// The offset of the first record not yet taken; 0 for a source never seen.
    pub fn next(&self, topic: &str, partition: i32) -> u64 {
        self.0.get(topic).and_then(|partitions| partitions.get(&partition)).copied().unwrap_or(0)
    }

    /// All, as (topic, partition, offset of the first record not yet taken).
    pub fn iter(&self) -> impl Iterator<Item = (&str, i32, u64)> {
        self.0.iter().flat_map(|(topic, partitions)| {
            partitions.iter().map(move |(&partition, &next)| (topic.as_str(), partition, next))
        })
    }

    /// Whether the partition was ever taken from.
    pub fn knows(&self, topic: &str, partition: i32) -> bool {
        self.0.get(topic).is_some_and(|partitions| partitions.contains_key(&partition))
    }

    /// Whether nothing was taken from anywhere.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Forgets partitions: their records are looked at anew.
    pub fn forget(&mut self, is_theirs: impl Fn(&str, i32) -> bool) {
        for (topic, partitions) in &mut self.0 {
            partitions.retain(|&partition, _| !is_theirs(topic, partition));
        }
        self.0.retain(|_, partitions| !partitions.is_empty());
    }

    /// Goes back to `offset`: this record and what follows are wanted again. Does nothing where they have not been
    /// taken.
    pub fn go_back(&mut self, topic: &str, partition: i32, offset: u64) {
        if let Some(next) = self.0.get_mut(topic).and_then(|partitions| partitions.get_mut(&partition)) {
            *next = offset.min(*next);
        }
    }

    /// Takes over what others have taken beyond these.
    pub fn include(&mut self, others: &Self) {
        for (topic, partition, next) in others.iter() {
            if let Some(last) = next.checked_sub(1) {
                self.advance(topic, partition, last);
            }
        }
    }

    /// Notes that the record at `offset` and all before it are taken.
    pub fn advance(&mut self, topic: &str, partition: i32, offset: u64) {
        let next = offset + 1;
        if let Some(place) = self.0.get_mut(topic).and_then(|partitions| partitions.get_mut(&partition)) {
            *place = next.max(*place);
            return;
        }
        self.0.entry(topic.to_owned()).or_default().insert(partition, next);
    }
}

/// A commit's payload, as JSON in the shard's `meta.json` (DESIGN: format version, cluster, positions, counts).
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Payload {
    /// The version of schema and payload.
    pub format: u32,
    /// The Kafka cluster that the positions belong to; nothing for archives.
    pub cluster: Option<String>,
    /// What the shard has taken.
    pub positions: Positions,
    /// Items in the shard; the next one's arrival number.
    pub items: u32,
    /// Items that repeat another one's clean text.
    pub exact_duplicates: u32,
    /// Items that nearly repeat another one's clean text.
    pub near_duplicates: u32,
    /// Items that clean to nothing.
    pub empty: u32,
}

impl Payload {
    /// Items with searchable text.
    pub fn searchable(&self) -> u32 {
        self.items - self.exact_duplicates - self.near_duplicates - self.empty
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_only_grow() {
        let mut positions = Positions::default();
        assert_eq!(positions.next("items", 3), 0);
        positions.advance("items", 3, 7);
        positions.advance("items", 3, 2);
        assert_eq!(positions.next("items", 3), 8);
        assert_eq!(positions.next("items", 4), 0);
    }

    #[test]
    fn positions_go_back_only_where_it_is_asked_for() {
        let mut positions = Positions::default();
        positions.advance("items", 0, 9);
        positions.advance("items", 1, 9);
        positions.advance("other", 0, 9);
        positions.go_back("items", 0, 4);
        positions.go_back("items", 1, 40);
        positions.go_back("items", 2, 4);
        assert_eq!(
            positions.iter().collect::<Vec<_>>(),
            [("items", 0, 4), ("items", 1, 10), ("other", 0, 10)]
        );
        positions.forget(|topic, partition| topic == "items" && partition == 0);
        assert!(!positions.knows("items", 0) && positions.knows("items", 1));
        positions.forget(|topic, _| topic == "items");
        assert_eq!(positions.iter().collect::<Vec<_>>(), [("other", 0, 10)]);
    }
}
