//! An archive as one stream in the order of time.
//!
//! Worker threads read, decode, route and prepare; the files are then merged by time, each file in its own order, ties
//! by the order of the files. So the stream is the same whatever the number of threads, and an archive whose platforms
//! lie in files of their own streams as it happened. A file that is out of order within itself stays so.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
        mpsc::{Receiver, Sender, channel},
    },
    thread::{self, JoinHandle},
};

use crate::{
    decoding::{Decoding, Readout},
    feed::{ArchiveFile, Record, Records, dead_letter, dead_letter_of_part},
    index::{Prepared, Preparer},
    model::{DeadLetter, UnixSeconds},
};

/// Records in one piece of work.
const BATCH_RECORDS: usize = 128;
/// Bytes after which a piece of work holds no more records.
const BATCH_BYTES: usize = 512 << 10;

/// A record on its way to the intake.
pub(crate) struct Streamed {
    /// Which file, by its place in the archive.
    pub(crate) file: usize,
    /// The record's number in the file.
    pub(crate) number: u64,
    /// The record as it stands in the file; empty where nobody asked for it.
    pub(crate) bytes: Vec<u8>,
    /// What became of it.
    pub(crate) outcome: Outcome,
}

/// What became of a record: accepted, refused, or, where it holds several items, some of each.
pub(crate) struct Outcome {
    /// Accepted.
    pub(crate) items: Vec<Prepared>,
    /// Refused.
    pub(crate) refused: Vec<DeadLetter>,
}

impl Outcome {
    fn of(source: &str, record: &Record, readout: Readout) -> Self {
        match readout {
            Readout::Items(items, parts) => {
                let refused = parts.into_iter().map(|part| dead_letter_of_part(source, record, part));
                Self { items, refused: refused.collect() }
            }
            Readout::Refused(refusal) => {
                Self { items: Vec::new(), refused: vec![dead_letter(source, record, &refusal)] }
            }
        }
    }
}

impl Streamed {
    /// The time to merge by; a record without one goes before everything.
    pub(crate) fn time(&self) -> Option<UnixSeconds> {
        self.outcome.items.first().map(|prepared| prepared.item.unix_timestamp)
    }
}

struct Batch {
    file: usize,
    number: u64,
    records: Vec<Streamed>,
    /// The file is at its end: after this batch, and why, where it is not the true end.
    ended: Option<Result<(), String>>,
}

struct FileReader {
    records: Option<Records>,
    batches: u64,
    skip: u64,
}

struct Shared {
    files: Vec<ArchiveFile>,
    readers: Vec<Mutex<FileReader>>,
    decoding: Decoding,
    work: Mutex<Receiver<usize>>,
    packed_read: Vec<AtomicU64>,
    stopped: AtomicBool,
}

/// One file's batches on their way.
#[derive(Default)]
struct Lane {
    /// In order; none of them empty.
    ready: VecDeque<VecDeque<Streamed>>,
    /// Came before their turn.
    early: BTreeMap<u64, Batch>,
    /// The number of the batch whose turn it is.
    next: u64,
    asked: u64,
    consumed: u64,
    ended: bool,
}

impl Lane {
    fn head(&self) -> Option<&Streamed> {
        self.ready.front()?.front()
    }

    /// Takes the next record; true with it where it was the last of its batch.
    fn pop(&mut self) -> Option<(Streamed, bool)> {
        let batch = self.ready.front_mut()?;
        let streamed = batch.pop_front()?;
        let last = batch.is_empty();
        if last {
            self.ready.pop_front();
            self.consumed += 1;
        }
        Some((streamed, last))
    }

    fn accept(&mut self, batch: Batch) -> Option<Result<(), String>> {
        if batch.records.is_empty() {
            self.consumed += 1;
        } else {
            self.ready.push_back(batch.records.into());
        }
        batch.ended
    }
}

/// The merged stream. Dropping it ends the workers.
pub(crate) struct Stream {
    shared: Arc<Shared>,
    lanes: Vec<Lane>,
    asking: Option<Sender<usize>>,
    answers: Receiver<Batch>,
    workers: Vec<JoinHandle<()>>,
    /// Batches of one file that may be read ahead, while few are.
    depth: u64,
    /// While so many batches of all files are ahead, a file is asked for its next one only: memory stays bounded,
    /// however many files overlap.
    most_ahead: u64,
    faults: Vec<String>,
}

impl Stream {
    /// Streams the files with this many workers, leaving out the first `skip` records of each.
    pub(crate) fn new(files: Vec<ArchiveFile>, skip: &[u64], decoding: Decoding, threads: usize) -> Self {
        let readers = (0..files.len()).map(|file| {
            let skip = skip.get(file).copied().unwrap_or(0);
            Mutex::new(FileReader { records: None, batches: 0, skip })
        });
        let (asking, work) = channel();
        let (answering, answers) = channel();
        let shared = Arc::new(Shared {
            readers: readers.collect(),
            packed_read: files.iter().map(|_| AtomicU64::new(0)).collect(),
            files,
            decoding,
            work: Mutex::new(work),
            stopped: AtomicBool::new(false),
        });
        let workers = (0..threads.max(1))
            .map(|_| {
                let (shared, answering) = (Arc::clone(&shared), answering.clone());
                thread::spawn(move || shared.serve(&answering))
            })
            .collect();
        let lanes = shared.files.iter().map(|_| Lane::default()).collect();
        let depth = 2 * threads.max(1) as u64 + 2;
        let mut stream = Self {
            shared,
            lanes,
            asking: Some(asking),
            answers,
            workers,
            depth,
            most_ahead: 4 * depth,
            faults: Vec::new(),
        };
        // One batch of each file shows where it begins; a file that is being consumed is read further ahead.
        for file in 0..stream.lanes.len() {
            stream.ask(file, 1);
        }
        stream
    }

    /// Packed bytes read so far, all files together.
    pub(crate) fn packed_read(&self) -> u64 {
        self.shared.packed_read.iter().map(|read| read.load(Ordering::Relaxed)).sum()
    }

    /// Files that could not be read to their end, each in words.
    pub(crate) fn faults(&self) -> &[String] {
        &self.faults
    }

    /// Has batches of a file read until `depth` of them are ahead.
    fn ask(&mut self, file: usize, depth: u64) {
        let mut ahead: u64 = self.lanes.iter().map(|lane| lane.asked - lane.consumed).sum();
        let (Some(lane), Some(asking)) = (self.lanes.get_mut(file), &self.asking) else { return };
        while !lane.ended && lane.asked < lane.consumed + depth {
            if ahead >= self.most_ahead && lane.asked > lane.consumed {
                return;
            }
            lane.asked += 1;
            ahead += 1;
            // Workers end only after `asking` is dropped
            asking.send(file).unwrap_or_default();
        }
    }

    /// Waits until every lane has a record or is at its end.
    fn fill(&mut self) {
        for file in 0..self.lanes.len() {
            while self.lanes.get(file).is_some_and(|lane| lane.ready.is_empty() && !lane.ended) {
                self.ask(file, self.depth);
                let Ok(batch) = self.answers.recv() else {
                    self.faults.push("a reading thread ended early".to_owned());
                    self.lanes.iter_mut().for_each(|lane| lane.ended = true);
                    return;
                };
                self.accept(batch);
            }
        }
    }

    fn accept(&mut self, batch: Batch) {
        let Some(lane) = self.lanes.get_mut(batch.file) else { return };
        lane.early.insert(batch.number, batch);
        while let Some(batch) = lane.early.remove(&lane.next) {
            lane.next += 1;
            if lane.ended {
                continue;
            }
            if let Some(end) = lane.accept(batch) {
                lane.ended = true;
                self.faults.extend(end.err());
            }
        }
    }
}

impl Iterator for Stream {
    type Item = Streamed;

    fn next(&mut self) -> Option<Streamed> {
        self.fill();
        let heads = self.lanes.iter().enumerate();
        let heads = heads.filter_map(|(file, lane)| lane.head().map(|head| (head.time(), file)));
        let (_, file) = heads.min()?;
        let (streamed, last_of_batch) = self.lanes.get_mut(file)?.pop()?;
        if last_of_batch {
            self.ask(file, self.depth);
        }
        Some(streamed)
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.shared.stopped.store(true, Ordering::Relaxed);
        self.asking = None;
        for worker in self.workers.drain(..) {
            // A worker that panicked has said so on stderr, and `fill` has seen its channel close
            worker.join().unwrap_or_default();
        }
    }
}

impl Shared {
    fn serve(&self, answering: &Sender<Batch>) {
        let mut preparer = self.decoding.preparer();
        loop {
            let asked = self.work.lock().unwrap_or_else(PoisonError::into_inner).recv();
            let Ok(file) = asked else { return };
            if self.stopped.load(Ordering::Relaxed) {
                continue;
            }
            if answering.send(self.batch(file, &mut preparer)).is_err() {
                return;
            }
        }
    }

    fn batch(&self, file: usize, preparer: &mut Preparer) -> Batch {
        let Some(archive) = self.files.get(file) else {
            return Batch { file, number: 0, records: Vec::new(), ended: Some(Ok(())) };
        };
        let (number, records, ended) = self.read(file, archive);
        let mut decoded = Vec::with_capacity(records.len());
        for record in records {
            let readout = self.decoding.read(&record.bytes, preparer);
            let outcome = Outcome::of(archive.path(), &record, readout);
            let bytes = if self.decoding.keeps_bytes { record.bytes } else { Vec::new() };
            decoded.push(Streamed { file, number: record.number, bytes, outcome });
        }
        Batch { file, number, records: decoded, ended }
    }

    /// The next records of a file; one thread at a time.
    fn read(&self, file: usize, archive: &ArchiveFile) -> (u64, Vec<Record>, Option<Result<(), String>>) {
        let mut records = Vec::with_capacity(BATCH_RECORDS);
        let Some(reader) = self.readers.get(file) else {
            return (0, records, Some(Ok(())));
        };
        let mut reader = reader.lock().unwrap_or_else(PoisonError::into_inner);
        let number = reader.batches;
        reader.batches += 1;
        let skip = reader.skip;
        if reader.records.is_none() {
            match archive.records() {
                Ok(opened) => reader.records = Some(opened),
                Err(error) => return (number, records, Some(Err(error.to_string()))),
            }
        }
        let mut bytes = 0;
        while records.len() < BATCH_RECORDS && bytes < BATCH_BYTES {
            match reader.records.as_mut().and_then(Iterator::next) {
                Some(Ok(record)) if record.number < skip => {}
                Some(Ok(record)) => {
                    bytes += record.bytes.len();
                    records.push(record);
                }
                Some(Err(error)) => return (number, records, Some(Err(error.to_string()))),
                None => return (number, records, Some(Ok(()))),
            }
        }
        if let (Some(last), Some(read)) = (records.last(), self.packed_read.get(file)) {
            read.store(last.packed_position, Ordering::Relaxed);
        }
        (number, records, None)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::{
        config::FeedConfig,
        feed::Router,
        model::{Event, RefusalCode},
    };

    fn outcome(record: &serde_json::Value) -> Outcome {
        let event: Event =
            serde_json::from_value(json!({"eventID": "A", "title": "A", "keywords": ["homes"]})).unwrap();
        let events = [Arc::new(event.clone())];
        let router = Router::new(&[event]).unwrap();
        let decoding = Decoding::configured(&FeedConfig::default(), router, None, &events).unwrap();
        let bytes = record.to_string().into_bytes();
        let record = Records::new(std::io::Cursor::new(bytes), "a.jsonl").next().unwrap().unwrap();
        let readout = decoding.read(&record.bytes, &mut decoding.preparer());
        Outcome::of("a.jsonl", &record, readout)
    }

    #[test]
    fn of_an_answer_with_bad_tweets_the_good_ones_are_taken_and_each_bad_one_is_a_dead_letter() {
        let time = "2017-12-07T20:10:34.000Z";
        let outcome = outcome(&json!({"data": [
            {"id": "13", "text": "homes", "created_at": time},
            {"id": "14", "text": "homes no time"},
            {"id": "15", "text": "of nothing we know", "created_at": time},
            {"id": "16", "text": "more homes", "created_at": time},
        ]}));
        let ids: Vec<&str> = outcome.items.iter().map(|item| item.item.stream_id.as_str()).collect();
        assert_eq!(ids, ["A-Twitter-13-0", "A-Twitter-16-0"]);
        let codes: Vec<RefusalCode> = outcome.refused.iter().map(|letter| letter.code).collect();
        assert_eq!(codes, [RefusalCode::MissingTime, RefusalCode::UnknownEvent]);
        for (letter, id) in outcome.refused.iter().zip(["14", "15"]) {
            assert!(
                letter.message.starts_with("line 1: ") && letter.message.contains(id),
                "{}",
                letter.message
            );
            // Only the refused tweet, in a form that can be read again once it is mended.
            let text: serde_json::Value = serde_json::from_str(letter.record_text.as_ref().unwrap()).unwrap();
            assert_eq!(text["id"], id);
        }
    }

    #[test]
    fn an_article_of_no_event_is_refused_once() {
        let article = json!({"id": 7, "title": "Rain", "text": "It rains. It pours.", "date": "2017-12-07"});
        let outcome = outcome(&article);
        assert!(outcome.items.is_empty());
        assert_eq!(outcome.refused.len(), 1);
        assert_eq!(outcome.refused[0].record_text, Some(article.to_string()));
        assert_eq!(outcome.refused[0].code, RefusalCode::UnknownEvent);
    }
}
