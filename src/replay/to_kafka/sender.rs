//! Sends records to one topic and waits for their confirmation.
//!
//! Keeps true: records of one partition arrive once and in the order in which they were sent (an idempotent producer);
//! memory is bounded by the producer's queue, and while that is full one waits.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use rdkafka::{
    error::{KafkaError, RDKafkaErrorCode},
    producer::{BaseProducer, BaseRecord, Producer},
};

use super::deliveries::{Deliveries, Place, State};
use crate::{
    config::KafkaConfig,
    kafka::{ClientError, producer_config},
};

/// How long one waits before looking again whether there is room, or an answer.
const MOMENT: Duration = Duration::from_millis(10);
/// Most records from the first one without an answer on. A partition that does not answer must not let the others run
/// ahead without end.
const MOST_OPEN: usize = 1 << 18;

/// Time, passed in so that tests need not wait.
pub trait Clock {
    /// The time.
    fn now(&self) -> Instant;
    /// Lets so much time pass, in which `serve` is called, which takes as long as it is told.
    fn pass(&mut self, time: Duration, serve: &mut dyn FnMut(Duration));
}

/// The clock on the wall.
#[derive(Debug, Clone, Copy, Default)]
pub struct WallClock;

impl Clock for WallClock {
    fn now(&self) -> Instant {
        Instant::now()
    }

    fn pass(&mut self, time: Duration, serve: &mut dyn FnMut(Duration)) {
        serve(time);
    }
}

/// Why sending stopped before the end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Halt {
    /// Somebody asked for it.
    Interrupted,
    /// Nothing was confirmed for as long as one was ready to wait; with what the client said last.
    Away(String),
    /// The broker takes no more, for a reason that waiting does not mend.
    Refused(String),
}

/// What sending depends on besides the brokers.
pub(super) struct Circumstances<'a> {
    pub(super) clock: &'a mut dyn Clock,
    /// Set by whoever wants sending to stop.
    pub(super) stop: &'a AtomicBool,
    /// The longest wait for a confirmation.
    pub(super) patience: Duration,
}

pub(super) struct Sender<'a> {
    producer: BaseProducer<Deliveries>,
    topic: Arc<str>,
    around: Circumstances<'a>,
    /// How many records had an answer when one last looked, and when that changed.
    answered: (u64, Instant),
}

impl<'a> Sender<'a> {
    /// Records are numbered from `first` on.
    pub(super) fn new(
        kafka: &KafkaConfig,
        topic: &str,
        first: u64,
        around: Circumstances<'a>,
    ) -> Result<Self, ClientError> {
        let config = producer_config(kafka, "nuggetd-replay")?;
        let producer = config.create_with_context(Deliveries::numbered_from(first))?;
        let answered = (0, around.clock.now());
        Ok(Self { producer, topic: topic.into(), around, answered })
    }

    /// The time.
    pub(super) fn now(&self) -> Instant {
        self.around.clock.now()
    }

    /// Waits until a record is due.
    pub(super) fn wait_until(&mut self, due: Instant) -> Result<(), Halt> {
        loop {
            let left = due.saturating_duration_since(self.now());
            if left.is_zero() {
                return Ok(());
            }
            // Short enough to be stopped, and for the brokers to be served
            self.wait(left.min(10 * MOMENT))?;
        }
    }

    /// Gives a record to the producer, as soon as there is room.
    pub(super) fn send(&mut self, key: Option<&str>, value: &[u8], place: Place) -> Result<(), Halt> {
        while self.state(|state| state.open()) >= MOST_OPEN {
            self.wait(MOMENT)?;
        }
        let number = self.state(|state| state.add(place));
        let Ok(opaque) = usize::try_from(number) else {
            return Err(Halt::Refused(format!("record {number} has too large a number")));
        };
        let topic = Arc::clone(&self.topic);
        let mut record = BaseRecord::with_opaque_to(&topic, opaque).payload(value);
        if let Some(key) = key {
            record = record.key(key);
        }
        loop {
            match self.producer.send(record) {
                Ok(()) => break,
                Err((KafkaError::MessageProduction(RDKafkaErrorCode::QueueFull), same)) => {
                    record = same;
                    if let Err(halt) = self.wait(MOMENT) {
                        self.state(State::take_back);
                        return Err(halt);
                    }
                }
                Err((error, _)) => {
                    let code = error.rdkafka_error_code().unwrap_or(RDKafkaErrorCode::Fail);
                    self.state(|state| state.answer(number, Err(code)));
                    break;
                }
            }
        }
        self.producer.poll(Duration::ZERO);
        self.look()
    }

    /// Waits until every record has its answer.
    pub(super) fn finish(&mut self) -> Result<(), Halt> {
        while !self.state(|state| state.is_done()) {
            self.wait(MOMENT)?;
        }
        Ok(())
    }

    /// Waits for the answers to what is under way, for a while, though one was asked to stop.
    pub(super) fn settle(&mut self, most: Duration) {
        let begun = self.now();
        let clock = &mut self.around.clock;
        let producer = &self.producer;
        while !producer.context().state().is_done() && clock.now() < begun + most {
            clock.pass(MOMENT, &mut |time| producer.poll(time));
            if producer.context().state().failed.is_some() {
                break;
            }
        }
    }

    /// What became of the records so far.
    pub(super) fn into_state(self) -> State {
        std::mem::take(&mut *self.producer.context().state())
    }

    fn state<T>(&self, ask: impl FnOnce(&mut State) -> T) -> T {
        ask(&mut self.producer.context().state())
    }

    fn wait(&mut self, time: Duration) -> Result<(), Halt> {
        let producer = &self.producer;
        self.around.clock.pass(time, &mut |time| producer.poll(time));
        self.look()
    }

    /// Whether to go on.
    fn look(&mut self) -> Result<(), Halt> {
        let (answered, waiting, failed) = {
            let state = self.producer.context().state();
            (state.confirmed + state.too_large.len() as u64, !state.is_done(), state.failed)
        };
        match failed {
            Some(RDKafkaErrorCode::MessageTimedOut) => return Err(Halt::Away(self.reason())),
            Some(error) => return Err(Halt::Refused(error.to_string())),
            None => {}
        }
        if let Some((_, reason)) = self.producer.client().fatal_error() {
            return Err(Halt::Refused(reason));
        }
        if self.around.stop.load(Ordering::Relaxed) {
            return Err(Halt::Interrupted);
        }
        let now = self.now();
        if !waiting || answered != self.answered.0 {
            self.answered = (answered, now);
        } else if now.saturating_duration_since(self.answered.1) > self.around.patience {
            return Err(Halt::Away(self.reason()));
        }
        Ok(())
    }

    fn reason(&self) -> String {
        self.state(|state| state.reason.clone()).unwrap_or_else(|| "no confirmation came".to_owned())
    }
}
