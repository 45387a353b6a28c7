//! What became of the records that were sent: confirmed, refused for good, or still under way.
//!
//! Partitions confirm each for itself. So that an interrupted replay can go on, the first record without an answer is
//! known at any time: all before it are done.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::{Mutex, MutexGuard, PoisonError},
};

use rdkafka::{
    ClientContext, Message,
    config::RDKafkaLogLevel,
    error::{KafkaError, RDKafkaErrorCode},
    producer::{DeliveryResult, ProducerContext},
};

use crate::kafka::{log_error, log_line};

/// Where a record stands in the archive: the file's place among the files, and the record's number in it.
pub(super) type Place = (usize, u64);

/// The producer's context.
#[derive(Debug)]
pub(super) struct Deliveries(Mutex<State>);

/// What is known so far.
#[derive(Debug, Default)]
pub(super) struct State {
    /// The number of the first record without an answer.
    pub(super) next: u64,
    /// From that one on: the record's place, or nothing where it is done.
    window: VecDeque<Option<Place>>,
    /// Records that the broker confirmed.
    pub(super) confirmed: u64,
    /// The same, by partition.
    pub(super) partitions: BTreeMap<i32, u64>,
    /// Records that are too large for the broker.
    pub(super) too_large: Vec<Place>,
    /// What else went wrong first; nothing can be sent after it.
    pub(super) failed: Option<RDKafkaErrorCode>,
    /// What the client said last about its connections.
    pub(super) reason: Option<String>,
}

impl Deliveries {
    /// Records are numbered from `first` on.
    pub(super) fn numbered_from(first: u64) -> Self {
        Self(Mutex::new(State { next: first, ..State::default() }))
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// A record is about to be sent; gives its number.
    pub(super) fn add(&mut self, place: Place) -> u64 {
        self.window.push_back(Some(place));
        self.next + self.window.len() as u64 - 1
    }

    /// The last record was not sent after all.
    pub(super) fn take_back(&mut self) {
        self.window.pop_back();
    }

    /// The records without an answer, and those done after the first of them.
    pub(super) fn open(&self) -> usize {
        self.window.len()
    }

    pub(super) fn is_done(&self) -> bool {
        self.window.is_empty()
    }

    /// A record has its answer. One that failed stays without: it is to be sent again.
    pub(super) fn answer(&mut self, number: u64, outcome: Result<i32, RDKafkaErrorCode>) {
        let index = number.checked_sub(self.next).and_then(|index| usize::try_from(index).ok());
        let Some(slot) = index.and_then(|index| self.window.get_mut(index)) else { return };
        match outcome {
            Err(RDKafkaErrorCode::MessageSizeTooLarge) => self.too_large.extend(slot.take()),
            Err(error) => {
                self.failed.get_or_insert(error);
            }
            Ok(partition) => {
                if slot.take().is_some() {
                    self.confirmed += 1;
                    *self.partitions.entry(partition).or_default() += 1;
                }
            }
        }
        while self.window.front().is_some_and(Option::is_none) {
            self.window.pop_front();
            self.next += 1;
        }
    }
}

impl ClientContext for Deliveries {
    fn log(&self, level: RDKafkaLogLevel, facility: &str, line: &str) {
        log_line(level, facility, line);
    }

    fn error(&self, error: KafkaError, reason: &str) {
        log_error(&error, reason);
        if error.rdkafka_error_code() != Some(RDKafkaErrorCode::AllBrokersDown) {
            self.state().reason = Some(reason.to_owned());
        }
    }
}

impl ProducerContext for Deliveries {
    type DeliveryOpaque = usize;

    fn delivery(&self, result: &DeliveryResult<'_>, number: usize) {
        let outcome = match result {
            Ok(message) => Ok(message.partition()),
            Err((error, _)) => Err(error.rdkafka_error_code().unwrap_or(RDKafkaErrorCode::Fail)),
        };
        self.state().answer(number as u64, outcome);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_record_without_an_answer_is_known_whatever_the_order_of_answers() {
        let mut state = State { next: 10, ..State::default() };
        let numbers: Vec<u64> = (0..5).map(|number| state.add((0, number))).collect();
        assert_eq!(numbers, [10, 11, 12, 13, 14]);
        state.answer(12, Ok(1));
        state.answer(11, Ok(0));
        assert_eq!((state.next, state.open(), state.confirmed), (10, 5, 2));
        state.answer(10, Err(RDKafkaErrorCode::MessageSizeTooLarge));
        assert_eq!((state.next, state.open()), (13, 2));
        state.answer(14, Ok(1));
        assert_eq!(state.next, 13);
        state.answer(13, Ok(1));
        assert!(state.is_done());
        assert_eq!((state.next, state.confirmed), (15, 4));
        assert_eq!(state.partitions, [(0, 1), (1, 3)].into());
        assert_eq!(state.too_large, [(0, 0)]);
        assert_eq!(state.failed, None);
    }

    #[test]
    fn a_record_that_failed_is_to_be_sent_again() {
        let mut state = State::default();
        state.add((0, 0));
        state.add((0, 1));
        state.answer(0, Err(RDKafkaErrorCode::MessageTimedOut));
        state.answer(1, Ok(0));
        state.answer(1, Ok(0));
        assert_eq!((state.next, state.confirmed), (0, 1));
        assert_eq!(state.failed, Some(RDKafkaErrorCode::MessageTimedOut));
    }
}
