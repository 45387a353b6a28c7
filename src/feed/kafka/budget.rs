//! How much may be read and not yet taken.

use std::sync::atomic::{AtomicU64, Ordering};

/// Counts records and bytes between the poll thread and the intake.
#[derive(Debug)]
pub struct Budget {
    most_records: u64,
    most_bytes: u64,
    records: AtomicU64,
    bytes: AtomicU64,
}

impl Budget {
    /// A budget with nothing in use.
    pub fn new(most_records: u64, most_bytes: u64) -> Self {
        Self { most_records, most_bytes, records: AtomicU64::new(0), bytes: AtomicU64::new(0) }
    }

    /// Notes that records were read.
    pub fn read(&self, records: u64, bytes: u64) {
        self.records.fetch_add(records, Ordering::Relaxed);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Notes that records were taken.
    pub fn taken(&self, records: u64, bytes: u64) {
        self.records.fetch_sub(records, Ordering::Relaxed);
        self.bytes.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// Records and bytes in use.
    pub fn in_use(&self) -> (u64, u64) {
        (self.records.load(Ordering::Relaxed), self.bytes.load(Ordering::Relaxed))
    }

    /// Whether no more should be read.
    pub fn is_full(&self) -> bool {
        let (records, bytes) = self.in_use();
        records >= self.most_records || bytes >= self.most_bytes
    }

    /// Whether reading is worth while again: half of it is free. Pausing throws away what librdkafka has fetched ahead,
    /// so it should not alternate record by record.
    pub fn has_room(&self) -> bool {
        let (records, bytes) = self.in_use();
        records <= self.most_records / 2 && bytes <= self.most_bytes / 2
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_full_by_records_or_bytes_and_has_room_at_half() {
        let budget = Budget::new(10, 1_000);
        budget.read(9, 100);
        assert!(!budget.is_full() && !budget.has_room());
        budget.read(1, 0);
        assert!(budget.is_full());
        budget.taken(5, 50);
        assert!(budget.has_room());
        budget.read(1, 2_000);
        assert!(budget.is_full());
        budget.taken(6, 2_050);
        assert_eq!(budget.in_use(), (0, 0));
    }
}
