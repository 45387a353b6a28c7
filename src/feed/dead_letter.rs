//! What becomes of a refused record: kept with its bytes, its place and the reason.

use base64::{Engine, prelude::BASE64_STANDARD};

use super::{Record, RefusedPart};
use crate::model::{DeadLetter, Position, Refusal};

/// The refused record with its reason and place, for whoever mends it.
pub fn dead_letter(source: &str, record: &Record, refusal: &Refusal) -> DeadLetter {
    let (record_text, record_base64) = match std::str::from_utf8(&record.bytes) {
        Ok(text) => (Some(text.to_owned()), None),
        Err(_) => (None, Some(BASE64_STANDARD.encode(&record.bytes))),
    };
    DeadLetter {
        record_base64,
        truncated_from: (record.length > record.bytes.len() as u64).then_some(record.length),
        ..letter(source, record, refusal, record_text)
    }
}

/// The refused part of a record whose other parts are accepted: the place is the record's, the text only the part's,
/// so that nothing is taken twice when it is mended and read again.
pub fn dead_letter_of_part(source: &str, record: &Record, part: RefusedPart) -> DeadLetter {
    letter(source, record, &part.refusal, Some(part.text))
}

fn letter(source: &str, record: &Record, refusal: &Refusal, record_text: Option<String>) -> DeadLetter {
    let place = match record.line {
        Some(line) => format!("line {line}"),
        None => format!("record {}", record.number),
    };
    DeadLetter {
        code: refusal.code,
        message: format!("{place}: {}", refusal.message),
        position: Position {
            source: source.to_owned(),
            record: record.number,
            line: record.line,
            byte: Some(record.byte),
        },
        record_text,
        record_base64: None,
        truncated_from: None,
    }
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use super::*;
    use crate::{feed::Records, model::RefusalCode};

    #[test]
    fn a_dead_letter_holds_the_bytes_and_the_place() {
        let file = Cursor::new(b"\n{\"a\":\n\xff".to_vec());
        let records: Vec<Record> = Records::new(file, "a.jsonl").map(Result::unwrap).collect();
        let refusal = Refusal::new(RefusalCode::BadJson, "cut");
        let text = dead_letter("a.jsonl", &records[0], &refusal);
        assert_eq!(text.record_text.as_deref(), Some("{\"a\":"));
        assert_eq!((text.message.as_str(), text.position.line), ("line 2: cut", Some(2)));
        assert_eq!((text.position.byte, text.truncated_from), (Some(1), None));
        let mut cut = records[0].clone();
        cut.length = 70_000_000;
        assert_eq!(dead_letter("a.jsonl", &cut, &refusal).truncated_from, Some(70_000_000));
        let binary = dead_letter("a.jsonl", &records[1], &refusal);
        assert_eq!((binary.record_text, binary.record_base64.as_deref()), (None, Some("/w==")));
    }
}
