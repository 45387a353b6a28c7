//! Which partitions, and so which events, are ours to publish for.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Mutex, MutexGuard, PoisonError},
};

use crate::{
    intake::Partition,
    model::{EventId, Offsets},
};

/// The assignment as the publisher needs it.
#[derive(Debug, Default)]
pub struct Owned(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    partitions: BTreeSet<Partition>,
    homes: BTreeMap<EventId, BTreeSet<Partition>>,
}

impl Owned {
    /// Partitions have become ours.
    pub fn add(&self, partitions: impl IntoIterator<Item = Partition>) {
        self.state().partitions.extend(partitions);
    }

    /// Partitions are no longer ours.
    pub fn remove(&self, partitions: &[Partition]) {
        let mut state = self.state();
        for partition in partitions {
            state.partitions.remove(partition);
        }
    }

    /// Where the events' items come from.
    pub fn set_homes(&self, homes: &BTreeMap<EventId, BTreeSet<Partition>>) {
        let mut state = self.state();
        if state.homes != *homes {
            state.homes.clone_from(homes);
        }
    }

    /// Whether the event's items come from a partition of ours.
    pub fn has(&self, event: &EventId) -> bool {
        let state = self.state();
        state.homes.get(event).is_some_and(|homes| homes.iter().any(|home| state.partitions.contains(home)))
    }

    /// Of these offsets those of our partitions.
    pub fn offsets(&self, all: &Offsets) -> Offsets {
        let state = self.state();
        let mut ours = Offsets::default();
        for (topic, partition, offset) in all.iter() {
            if state.partitions.contains(&(topic.to_owned(), partition)) {
                ours.set(topic, partition, offset);
            }
        }
        ours
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_ours_while_one_of_its_partitions_is() {
        let event = EventId::new("E").unwrap();
        let partition = |number| ("items".to_owned(), number);
        let owned = Owned::default();
        owned.set_homes(&[(event.clone(), [partition(1), partition(2)].into())].into());
        assert!(!owned.has(&event));
        owned.add([partition(2), partition(3)]);
        assert!(owned.has(&event));
        let mut offsets = Offsets::default();
        offsets.set("items", 1, 10);
        offsets.set("items", 2, 20);
        assert_eq!(owned.offsets(&offsets).iter().collect::<Vec<_>>(), [("items", 2, 20)]);
        owned.remove(&[partition(2)]);
        assert!(!owned.has(&event) && owned.offsets(&offsets).is_empty());
    }
}
