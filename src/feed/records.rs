//! The records of one archive file, cut from its bytes: JSON Lines or JSON arrays.
//!
//! Keeps true: every byte that is no white space and no punctuation between records comes out in exactly one record;
//! memory holds one record, and of it at most [`KEPT`] bytes.

use std::{
    io::{self, BufRead, Cursor, Read},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

/// How much is kept of a record; decoding refuses far shorter ones, so this much is for the dead letter.
const KEPT: usize = 64 << 20;
/// How much of a longer record is skipped at a time.
const SKIPPED: u64 = 64 << 10;
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// One record as it stands in its file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// The record's number in the file, from 0. Blank lines are no records.
    pub number: u64,
    /// The line, from 1, blank lines counted; nothing in a JSON array.
    pub line: Option<u64>,
    /// The record's first byte in the unpacked file.
    pub byte: u64,
    /// The record without white space around it; the first 64 MiB of a longer one.
    pub bytes: Vec<u8>,
    /// How many bytes the record has in the file.
    pub length: u64,
    /// How much of the packed file has been read so far, for progress.
    pub packed_position: u64,
}

/// Why a file gives no more records; those before it are good.
#[derive(Debug, thiserror::Error)]
#[error("{path} cannot be read beyond record {number} (byte {byte} unpacked): {source}")]
pub struct ReadError {
    /// The file.
    pub path: String,
    /// How many records came before.
    pub number: u64,
    /// How many unpacked bytes they took.
    pub byte: u64,
    /// What went wrong.
    pub source: io::Error,
}

/// The records of one file, read as they are asked for.
///
/// A file whose first byte is `[` holds JSON arrays of records, pretty-printed or not; any other is JSON Lines. An
/// array that the file's end cuts off gives its broken last element as a record, or, where the cut falls between
/// elements, an empty record, so that the cut is refused rather than overlooked.
pub struct Records {
    reader: Box<dyn BufRead + Send>,
    path: String,
    packed: Arc<AtomicU64>,
    layout: Layout,
    number: u64,
    line: u64,
    byte: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Layout {
    Unknown,
    Lines,
    BetweenArrays,
    InArray,
    Ended,
}

impl Records {
    /// Records from any bytes; `path` names them in errors.
    pub fn new(reader: impl BufRead + Send + 'static, path: impl Into<String>) -> Self {
        Self::counting(Box::new(reader), path.into(), Arc::default())
    }

    /// Records from unpacked bytes, where `packed` counts what has been read of the packed ones.
    pub(super) fn counting(reader: Box<dyn BufRead + Send>, path: String, packed: Arc<AtomicU64>) -> Self {
        Self { reader, path, packed, layout: Layout::Unknown, number: 0, line: 0, byte: 0 }
    }

    fn read(&mut self) -> io::Result<Option<Record>> {
        if self.layout == Layout::Unknown {
            self.skip_byte_order_mark()?;
            self.layout = match self.skip_blank()? {
                Some(b'[') => Layout::BetweenArrays,
                Some(_) => Layout::Lines,
                None => Layout::Ended,
            };
        }
        match self.layout {
            Layout::Lines => self.read_line(),
            Layout::BetweenArrays | Layout::InArray => self.read_element(),
            Layout::Unknown | Layout::Ended => Ok(None),
        }
    }

    fn skip_byte_order_mark(&mut self) -> io::Result<()> {
        let mut start = Vec::new();
        self.reader.by_ref().take(BYTE_ORDER_MARK.len() as u64).read_to_end(&mut start)?;
        if start == BYTE_ORDER_MARK {
            self.byte += BYTE_ORDER_MARK.len() as u64;
        } else {
            let rest = std::mem::replace(&mut self.reader, Box::new(io::empty()));
            self.reader = Box::new(Cursor::new(start).chain(rest));
        }
        Ok(())
    }

    /// Skips white space; gives the byte after it without taking it.
    fn skip_blank(&mut self) -> io::Result<Option<u8>> {
        loop {
            let buffer = self.reader.fill_buf()?;
            let blank = buffer.iter().take_while(|byte| is_blank(**byte)).count();
            let next = buffer.get(blank).copied();
            let lines = buffer.iter().take(blank).filter(|byte| **byte == b'\n').count();
            let at_end = buffer.is_empty();
            self.reader.consume(blank);
            self.byte += blank as u64;
            self.line += lines as u64;
            if next.is_some() || at_end {
                return Ok(next);
            }
        }
    }

    fn read_line(&mut self) -> io::Result<Option<Record>> {
        if self.skip_blank()?.is_none() {
            return Ok(None);
        }
        let start = self.byte;
        let mut bytes = Vec::new();
        let mut length = self.reader.by_ref().take(KEPT as u64).read_until(b'\n', &mut bytes)? as u64;
        let mut ended = bytes.last() == Some(&b'\n');
        self.byte += length;
        if !ended && bytes.len() == KEPT {
            let mut skipped = Vec::new();
            while !ended {
                skipped.clear();
                let count = self.reader.by_ref().take(SKIPPED).read_until(b'\n', &mut skipped)?;
                if count == 0 {
                    break;
                }
                ended = skipped.last() == Some(&b'\n');
                self.byte += count as u64;
                length += count as u64 - u64::from(ended);
            }
        } else {
            trim_end(&mut bytes);
            length = bytes.len() as u64;
        }
        // Lines are counted as they end, so the record's own is not among them yet.
        let line = self.line + 1;
        self.line += u64::from(ended);
        Ok(Some(self.record(Some(line), start, bytes, length)))
    }

    fn read_element(&mut self) -> io::Result<Option<Record>> {
        loop {
            let next = self.skip_blank()?;
            match (self.layout, next) {
                (Layout::BetweenArrays, None) => return Ok(None),
                (Layout::BetweenArrays, Some(b'[')) => {
                    self.take_one();
                    self.layout = Layout::InArray;
                }
                (Layout::InArray, Some(b']')) => {
                    self.take_one();
                    self.layout = Layout::BetweenArrays;
                }
                (Layout::InArray, Some(b',')) => self.take_one(),
                (Layout::InArray, None) => {
                    self.layout = Layout::Ended;
                    return Ok(Some(self.record(None, self.byte, Vec::new(), 0)));
                }
                _ => return self.read_value().map(Some),
            }
        }
    }

    fn take_one(&mut self) {
        self.reader.consume(1);
        self.byte += 1;
    }

    /// Reads up to the comma or bracket that ends an array's element; between arrays, where no element may stand,
    /// up to the end of the file.
    fn read_value(&mut self) -> io::Result<Record> {
        let start = self.byte;
        let mut scan = Scan { depth: 0, in_string: false, escaped: false };
        let mut bytes = Vec::new();
        let mut length = 0_u64;
        loop {
            let buffer = self.reader.fill_buf()?;
            if buffer.is_empty() {
                if scan.is_inside() || self.layout == Layout::BetweenArrays {
                    self.layout = Layout::Ended;
                }
                break;
            }
            let end = match self.layout {
                Layout::InArray => buffer.iter().position(|byte| scan.ends_at(*byte)),
                _ => None,
            };
            let taken = end.unwrap_or(buffer.len());
            let room = KEPT - bytes.len();
            bytes.extend(buffer.iter().take(taken.min(room)));
            self.reader.consume(taken);
            self.byte += taken as u64;
            length += taken as u64;
            if end.is_some() {
                break;
            }
        }
        if length == bytes.len() as u64 {
            trim_end(&mut bytes);
            length = bytes.len() as u64;
        }
        Ok(self.record(None, start, bytes, length))
    }

    fn record(&mut self, line: Option<u64>, byte: u64, bytes: Vec<u8>, length: u64) -> Record {
        let number = self.number;
        self.number += 1;
        let packed_position = self.packed.load(Ordering::Relaxed);
        Record { number, line, byte, bytes, length, packed_position }
    }
}

impl Iterator for Records {
    type Item = Result<Record, ReadError>;

    fn next(&mut self) -> Option<Self::Item> {
        let source = match self.read() {
            Ok(record) => return record.map(Ok),
            Err(source) => source,
        };
        self.layout = Layout::Ended;
        Some(Err(ReadError { path: self.path.clone(), number: self.number, byte: self.byte, source }))
    }
}

/// How far a JSON value has been read, as far as its end depends on it.
struct Scan {
    depth: usize,
    in_string: bool,
    escaped: bool,
}

impl Scan {
    /// Goes one byte on; whether that byte ends the value.
    fn ends_at(&mut self, byte: u8) -> bool {
        if self.in_string {
            match byte {
                _ if self.escaped => self.escaped = false,
                b'\\' => self.escaped = true,
                b'"' => self.in_string = false,
                _ => {}
            }
            return false;
        }
        match byte {
            b'"' => self.in_string = true,
            b'{' | b'[' => self.depth += 1,
            b',' | b']' if self.depth == 0 => return true,
            b'}' | b']' => self.depth = self.depth.saturating_sub(1),
            _ => {}
        }
        false
    }

    fn is_inside(&self) -> bool {
        self.depth > 0 || self.in_string
    }
}

/// JSON's white space.
fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\r' | b'\n')
}

fn trim_end(bytes: &mut Vec<u8>) {
    let blank = bytes.iter().rev().take_while(|byte| is_blank(**byte)).count();
    bytes.truncate(bytes.len() - blank);
}

#[cfg(test)]
mod tests {
    use std::io::BufReader;

    use proptest::prelude::*;

    use super::*;

    fn all(bytes: impl Into<Vec<u8>>) -> Vec<Record> {
        Records::new(Cursor::new(bytes.into()), "test").map(Result::unwrap).collect()
    }

    fn texts(bytes: &str) -> Vec<String> {
        all(bytes).into_iter().map(|record| String::from_utf8(record.bytes).unwrap()).collect()
    }

    #[test]
    fn lines_are_numbered_without_blank_ones_and_may_end_in_any_way() {
        let file = "\u{feff}\n{\"a\":1}\r\n \t\r\n\n  {\"a\":2} \n{\"a\":3}";
        let records = all(file);
        let seen: Vec<_> = records.iter().map(|record| (record.number, record.line, record.byte)).collect();
        assert_eq!(seen, [(0, Some(2), 4), (1, Some(5), 20), (2, Some(6), 29)]);
        assert_eq!(texts(file), ["{\"a\":1}", "{\"a\":2}", "{\"a\":3}"]);
        assert!(all("").is_empty());
        assert!(all(" \n\r\n").is_empty());
        assert!(all("\u{feff}").is_empty());
        assert_eq!(all(b"\xef\xbb".to_vec())[0].bytes, b"\xef\xbb");
    }

    #[test]
    fn arrays_give_their_elements_however_they_are_printed() {
        let file = "\u{feff} [ {\"a\": \"],[\\\"\"},\n  {\"b\": [1, {}]}\n, 7 ]\n[]\n[{\"c\":1}]\n";
        assert_eq!(texts(file), ["{\"a\": \"],[\\\"\"}", "{\"b\": [1, {}]}", "7", "{\"c\":1}"]);
        assert!(all(file).iter().all(|record| record.line.is_none()));
    }

    #[test]
    fn an_array_that_is_cut_off_shows_it() {
        assert_eq!(texts("[{\"a\":1},{\"b\":"), ["{\"a\":1}", "{\"b\":"]);
        assert_eq!(texts("[{\"a\":1},{\"b\":\"x]"), ["{\"a\":1}", "{\"b\":\"x]"]);
        assert_eq!(texts("[{\"a\":1},\n"), ["{\"a\":1}", ""]);
        assert_eq!(texts("[{\"a\":1}"), ["{\"a\":1}", ""]);
        assert_eq!(texts("["), [""]);
        assert_eq!(texts("[{\"a\":1}] {\"b\":2}\n[3]"), ["{\"a\":1}", "{\"b\":2}\n[3]"]);
    }

    /// `count` bytes, made as they are read.
    fn repeated(byte: u8, count: u64) -> impl BufRead + Send {
        BufReader::new(io::repeat(byte).take(count))
    }

    #[test]
    fn a_record_beyond_the_limit_is_cut_and_says_how_long_it_was() {
        let huge = KEPT as u64 + 100_000;
        let lines = Cursor::new(b"1\n".to_vec()).chain(repeated(b'x', huge)).chain(&b"\n2\n"[..]);
        let array = Cursor::new(b"[1,\"".to_vec()).chain(repeated(b'x', huge - 2)).chain(&b"\",2]"[..]);
        for reader in [Box::new(lines) as Box<dyn BufRead + Send>, Box::new(array)] {
            let records: Vec<Record> = Records::new(reader, "test").map(Result::unwrap).collect();
            assert_eq!(records.len(), 3);
            assert_eq!((records[1].bytes.len(), records[1].length), (KEPT, huge));
            assert_eq!(records[2].bytes, b"2");
            assert!(records[2].byte > huge);
        }
    }

    #[test]
    fn a_line_of_exactly_the_limit_is_whole() {
        let reader = repeated(b'x', KEPT as u64).chain(&b"\n2"[..]);
        let records: Vec<Record> = Records::new(reader, "test").map(Result::unwrap).collect();
        assert_eq!((records[0].length, records[1].line), (KEPT as u64, Some(2)));
    }

    struct Failing;

    impl Read for Failing {
        fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
            Err(io::Error::new(io::ErrorKind::UnexpectedEof, "cut"))
        }
    }

    #[test]
    fn an_error_comes_once_after_the_good_records() {
        let reader = Cursor::new(b"{}\n{}\n{\"a\"".to_vec()).chain(BufReader::new(Failing));
        let mut records = Records::new(reader, "some/file.gz");
        assert!(records.next().unwrap().is_ok());
        assert!(records.next().unwrap().is_ok());
        let message = records.next().unwrap().unwrap_err().to_string();
        assert!(message.contains("some/file.gz") && message.contains("record 2"), "{message}");
        assert!(records.next().is_none());
    }

    proptest! {
        #[test]
        fn lines_come_back_with_their_numbers_and_offsets(
            lines in prop::collection::vec("[ \\t]{0,2}[a-z{}\",]{0,6}[ \\t]{0,2}", 0..12),
            ending in prop::sample::select(vec!["\n", "\r\n"]),
            buffer in 1_usize..9,
        ) {
            let file = lines.join(ending);
            let reader = BufReader::with_capacity(buffer, Cursor::new(file.clone().into_bytes()));
            let records: Vec<Record> = Records::new(reader, "test").map(Result::unwrap).collect();
            let expected: Vec<(u64, &str)> = (1..)
                .zip(&lines)
                .map(|(number, line)| (number, line.trim()))
                .filter(|(_, line)| !line.is_empty())
                .collect();
            prop_assert_eq!(records.len(), expected.len());
            for ((number, record), (line, text)) in (0..).zip(&records).zip(expected) {
                prop_assert_eq!(record.number, number);
                prop_assert_eq!(record.line, Some(line));
                prop_assert_eq!(&record.bytes, text.as_bytes());
                let at = usize::try_from(record.byte).unwrap();
                prop_assert_eq!(&file.as_bytes()[at..at + record.bytes.len()], text.as_bytes());
            }
        }

        #[test]
        fn elements_of_an_array_come_back(
            values in prop::collection::vec("[a-z\\[\\]{}\",\\\\]{0,6}", 0..8),
            pretty in any::<bool>(),
            buffer in 1_usize..9,
        ) {
            let values: Vec<serde_json::Value> =
                values.iter().map(|text| serde_json::json!({ "a": text, "b": [text] })).collect();
            let file = if pretty { serde_json::to_vec_pretty(&values) } else { serde_json::to_vec(&values) };
            let reader = BufReader::with_capacity(buffer, Cursor::new(file.unwrap()));
            let read: Vec<serde_json::Value> = Records::new(reader, "test")
                .map(|record| serde_json::from_slice(&record.unwrap().bytes).unwrap())
                .collect();
            prop_assert_eq!(read, values);
        }

        #[test]
        fn no_byte_is_lost_or_given_twice(file in prop::collection::vec(any::<u8>(), 0..200)) {
            let records = all(file.clone());
            let mut end = 0;
            for record in &records {
                let at = usize::try_from(record.byte).unwrap();
                prop_assert!(at >= end);
                prop_assert!(file[end..at].iter().all(|byte| b" \t\r\n,[]\xef\xbb\xbf".contains(byte)));
                end = at + record.bytes.len();
                prop_assert_eq!(&file[at..end], &record.bytes[..]);
            }
            prop_assert!(file[end..].iter().all(|byte| b" \t\r\n,[]\xef\xbb\xbf".contains(byte)));
        }
    }
}
