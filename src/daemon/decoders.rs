//! Threads that turn records into items. They finish out of order; the numbers of the batches put it right.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc, Mutex, PoisonError, RwLock,
        mpsc::{Receiver, Sender},
    },
    thread::{self, JoinHandle},
    time::SystemTime,
};

use xxhash_rust::xxh3::Xxh3;

use super::Arrival;
use crate::{
    config::{Frame, Unrouted},
    decoding::{Decoding, Readout},
    feed::kafka::{Batch, KafkaRecord},
    index::{Prepared, Preparer},
    model::{Refusal, RefusalCode},
    publish::kafka::Letter,
};

/// Confluent's frame: a zero byte and the schema's number in four.
const FRAME: usize = 5;

/// How the records of one configured source are read.
pub(super) struct Source {
    pub(super) decoding: Decoding,
    pub(super) frame: Frame,
    pub(super) unrouted: Unrouted,
}

/// The sources as they are now: they change with the events.
pub(super) type Sources = RwLock<Arc<Vec<Source>>>;

/// A record on its way to the intake.
pub(super) struct Read {
    pub(super) source: usize,
    pub(super) partition: i32,
    pub(super) offset: u64,
    pub(super) timestamp: Option<SystemTime>,
    /// A digest of the record, to tell whether the topic is still the same one.
    pub(super) digest: u64,
    /// The bytes that the record held.
    pub(super) bytes: usize,
    pub(super) outcome: Outcome,
}

/// What became of a record.
pub(super) enum Outcome {
    /// It has no value.
    Tombstone,
    /// It belongs to no known event, and its source says that such records are left out.
    Skipped,
    /// Its items, and what of it was refused.
    Read(Vec<Prepared>, Vec<Letter>),
}

/// Starts the threads; they end when no more batches can come.
pub(super) fn start(
    threads: usize,
    batches: Receiver<Batch>,
    arrivals: &Sender<Arrival>,
    sources: &Arc<Sources>,
) -> std::io::Result<Vec<JoinHandle<()>>> {
    let batches = Arc::new(Mutex::new(batches));
    (0..threads.max(1))
        .map(|number| {
            let (batches, arrivals, sources) = (Arc::clone(&batches), arrivals.clone(), Arc::clone(sources));
            thread::Builder::new()
                .name(format!("decode-{number}"))
                .spawn(move || serve(&batches, &arrivals, &sources))
        })
        .collect()
}

fn serve(batches: &Mutex<Receiver<Batch>>, arrivals: &Sender<Arrival>, sources: &Sources) {
    let mut known: Option<(Arc<Vec<Source>>, Vec<Preparer>)> = None;
    loop {
        let batch = batches.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok(batch) = batch else { return };
        let current = Arc::clone(&sources.read().unwrap_or_else(PoisonError::into_inner));
        if known.as_ref().is_none_or(|(known, _)| !Arc::ptr_eq(known, &current)) {
            let preparers = current.iter().map(|source| source.decoding.preparer()).collect();
            known = Some((current, preparers));
        }
        let Some((sources, preparers)) = &mut known else { return };
        let mut read = Vec::with_capacity(batch.records.len());
        for record in batch.records {
            if let (Some(source), Some(preparer)) =
                (sources.get(record.source), preparers.get_mut(record.source))
            {
                read.push(source.read(&record, preparer));
            }
        }
        if arrivals.send(Arrival::Read(batch.number, read)).is_err() {
            return;
        }
    }
}

impl Source {
    fn read(&self, record: &KafkaRecord, preparer: &mut Preparer) -> Read {
        // A fault of ours must not hold up the stream: it costs this record a dead letter
        let outcome = catch_unwind(AssertUnwindSafe(|| self.outcome(record, preparer)));
        let outcome = outcome.unwrap_or_else(|_| {
            *preparer = self.decoding.preparer();
            let refusal =
                Refusal::new(RefusalCode::BadShape, "nuggetd failed over this record; please report it");
            let payload = record.payload.clone().unwrap_or_default();
            Outcome::Read(Vec::new(), vec![letter_of(record, refusal, payload)])
        });
        Read {
            source: record.source,
            partition: record.partition,
            offset: record.offset,
            timestamp: record.timestamp,
            digest: digest(record),
            bytes: record.bytes(),
            outcome,
        }
    }

    fn outcome(&self, record: &KafkaRecord, preparer: &mut Preparer) -> Outcome {
        let Some(payload) = &record.payload else { return Outcome::Tombstone };
        let inner = match self.frame {
            Frame::None => Ok(payload.as_slice()),
            Frame::Confluent => unframed(payload),
        };
        let readout = match inner {
            Ok(inner) => self.decoding.read(inner, preparer),
            Err(refusal) => Readout::Refused(refusal),
        };
        let letter = |refusal, payload| letter_of(record, refusal, payload);
        match readout {
            Readout::Refused(refusal) if self.skips(&refusal) => Outcome::Skipped,
            Readout::Refused(refusal) => Outcome::Read(Vec::new(), vec![letter(refusal, payload.clone())]),
            Readout::Items(items, parts) => {
                let letters: Vec<Letter> = parts
                    .into_iter()
                    .filter(|part| !self.skips(&part.refusal))
                    .map(|part| letter(part.refusal, part.text.into_bytes()))
                    .collect();
                if items.is_empty() && letters.is_empty() {
                    return Outcome::Skipped;
                }
                Outcome::Read(items, letters)
            }
        }
    }

    fn skips(&self, refusal: &Refusal) -> bool {
        self.unrouted == Unrouted::Skip && refusal.code == RefusalCode::UnknownEvent
    }
}

fn letter_of(record: &KafkaRecord, refusal: Refusal, payload: Vec<u8>) -> Letter {
    Letter { refusal, key: record.key.clone(), payload, headers: record.headers.clone() }
}

/// What stands in Confluent's frame.
fn unframed(payload: &[u8]) -> Result<&[u8], Refusal> {
    match payload.split_at_checked(FRAME) {
        Some(([0, ..], inner)) => Ok(inner),
        _ => Err(Refusal::new(
            RefusalCode::BadShape,
            "no Confluent frame: a record begins with a zero byte and a schema number of four bytes",
        )),
    }
}

fn digest(record: &KafkaRecord) -> u64 {
    let mut hash = Xxh3::new();
    hash.update(record.key.as_deref().unwrap_or_default());
    hash.update(&[u8::from(record.payload.is_some())]);
    hash.update(record.payload.as_deref().unwrap_or_default());
    let since = record.timestamp.and_then(|time| time.duration_since(std::time::UNIX_EPOCH).ok());
    hash.update(&since.map_or(0, |since| since.as_millis()).to_le_bytes());
    // SQLite and JSON readers know signed numbers
    hash.digest() >> 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_confluent_frame_is_taken_off_and_missed() {
        assert_eq!(unframed(b"\0\0\0\0\x07{}").unwrap(), b"{}");
        assert_eq!(unframed(b"\0\0\0\0\x07").unwrap(), b"");
        for bad in [&b"{\"a\":1}"[..], b"", b"\0\0"] {
            assert_eq!(unframed(bad).unwrap_err().code, RefusalCode::BadShape);
        }
    }

    #[test]
    fn a_digest_tells_records_apart() {
        let record = |payload: Option<&[u8]>, key: &[u8]| KafkaRecord {
            source: 0,
            partition: 0,
            offset: 7,
            timestamp: None,
            key: Some(key.to_vec()),
            payload: payload.map(<[u8]>::to_vec),
            headers: Vec::new(),
        };
        let digests = [
            digest(&record(Some(b"a"), b"k")),
            digest(&record(Some(b"b"), b"k")),
            digest(&record(Some(b"a"), b"l")),
            digest(&record(Some(b""), b"k")),
            digest(&record(None, b"k")),
        ];
        let distinct: std::collections::BTreeSet<u64> = digests.into();
        assert_eq!(distinct.len(), digests.len());
        assert_eq!(digest(&record(Some(b"a"), b"k")), digests[0]);
    }
}
