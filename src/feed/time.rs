//! Times as the platforms write them, beyond what the model reads by itself.

use jiff::{Timestamp, fmt::rfc2822};
use serde_json::{Value, value::RawValue};

use crate::model::{Refusal, RefusalCode, TimeError, UnixSeconds};

use super::json::Failure;

/// Twitter's `created_at` before version 2, for example `Thu Dec 07 20:10:34 +0000 2017`.
const TWITTER: &str = "%a %b %d %H:%M:%S %z %Y";

/// Reads the time in `value`, the field called `field`: Unix seconds or milliseconds as number or text, ISO 8601,
/// Twitter's own format or that of mail and RSS (RFC 2822).
pub(super) fn read(value: Option<&RawValue>, field: &str) -> Result<UnixSeconds, Failure> {
    let Some(value) = value else {
        return Err(Refusal::new(RefusalCode::MissingTime, format!("no \"{field}\"")).into());
    };
    let json = value.get();
    let time = if json.bytes().all(|byte| byte.is_ascii_digit()) {
        UnixSeconds::from_text(json)
    } else {
        match serde_json::from_str(json)? {
            Value::String(text) if text.trim().is_empty() => {
                return Err(Refusal::new(RefusalCode::MissingTime, format!("\"{field}\" is empty")).into());
            }
            Value::String(text) => from_text(&text),
            other => UnixSeconds::from_json(&other),
        }
    };
    time.map_err(|error| refusal(&error, field).into())
}

/// Like [`read`], where the time may have a fraction of a second, as Reddit's has.
pub(super) fn read_with_fraction(value: Option<&RawValue>, field: &str) -> Result<UnixSeconds, Failure> {
    let whole = value.and_then(|number| number.get().split_once('.')).map(|(whole, _)| whole);
    match whole.map(str::parse::<i64>) {
        Some(Ok(seconds)) => UnixSeconds::new(seconds).map_err(|error| refusal(&error, field).into()),
        _ => read(value, field),
    }
}

/// The first of the named fields that holds a readable time; else why the first that is there holds none.
pub(super) fn read_first(candidates: &[(Option<&RawValue>, &str)]) -> Result<UnixSeconds, Failure> {
    let mut reason = None;
    for &(value, field) in candidates {
        match read(value, field) {
            Err(Failure::Refused(refusal)) if refusal.code == RefusalCode::MissingTime => {}
            Err(Failure::Refused(refusal)) => reason = reason.or(Some(refusal)),
            other => return other,
        }
    }
    let fields: Vec<&str> = candidates.iter().map(|(_, field)| *field).collect();
    let missing = || Refusal::new(RefusalCode::MissingTime, format!("none of {}", fields.join(", ")));
    Err(reason.unwrap_or_else(missing).into())
}

fn from_text(text: &str) -> Result<UnixSeconds, TimeError> {
    let error = match UnixSeconds::from_text(text) {
        Err(error @ TimeError::Unreadable(_)) => error,
        other => return other,
    };
    let instant = Timestamp::strptime(TWITTER, text.trim())
        .or_else(|_| rfc2822::DateTimeParser::new().parse_timestamp(text.trim()));
    match instant {
        Ok(instant) => UnixSeconds::new(instant.as_second()),
        Err(_) => Err(error),
    }
}

fn refusal(error: &TimeError, field: &str) -> Refusal {
    let code = match error {
        TimeError::OutOfRange(_) => RefusalCode::TimeOutOfRange,
        TimeError::Unreadable(_) => RefusalCode::BadTime,
    };
    Refusal::new(code, format!("\"{field}\": {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw(json: &str) -> Box<RawValue> {
        RawValue::from_string(json.to_owned()).unwrap()
    }

    fn code(result: Result<UnixSeconds, Failure>) -> RefusalCode {
        match result {
            Err(Failure::Refused(refusal)) => refusal.code,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn every_platform_writes_the_same_second() {
        for json in [
            "1512677434",
            "1512677434000",
            "\"1512677434123\"",
            "\"Thu Dec 07 20:10:34 +0000 2017\"",
            "\"Thu Dec 07 21:10:34 +0100 2017\"",
            "\"2017-12-07T20:10:34+0000\"",
            "\"2017-12-07T20:10:34.000Z\"",
            "\"2017-12-07 20:10:34\"",
            "\"Thu, 07 Dec 2017 20:10:34 +0000\"",
            "\"Thu, 07 Dec 2017 20:10:34 GMT\"",
            "1512677434.0",
        ] {
            assert_eq!(read(Some(&raw(json)), "t").unwrap().get(), 1_512_677_434, "{json}");
        }
        assert_eq!(read_with_fraction(Some(&raw("1512677434.75")), "t").unwrap().get(), 1_512_677_434);
        assert_eq!(read_with_fraction(Some(&raw("1512677434")), "t").unwrap().get(), 1_512_677_434);
    }

    #[test]
    fn each_fault_has_its_code() {
        assert_eq!(code(read(None, "t")), RefusalCode::MissingTime);
        assert_eq!(code(read(Some(&raw("\" \"")), "t")), RefusalCode::MissingTime);
        assert_eq!(code(read(Some(&raw("\"soon\"")), "t")), RefusalCode::BadTime);
        assert_eq!(code(read(Some(&raw("{}")), "t")), RefusalCode::BadTime);
        assert_eq!(code(read(Some(&raw("17")), "t")), RefusalCode::TimeOutOfRange);
        assert_eq!(code(read_with_fraction(Some(&raw("1.5")), "t")), RefusalCode::TimeOutOfRange);
        assert_eq!(
            code(read(Some(&raw("\"Sun Dec 07 20:10:34 +0000 1817\"")), "t")),
            RefusalCode::TimeOutOfRange
        );
    }

    #[test]
    fn the_first_readable_time_counts() {
        let (bad, good) = (raw("\"soon\""), raw("\"2017-12-07\""));
        let first = [(None, "a"), (Some(&*bad), "b"), (Some(&*good), "c")];
        assert_eq!(read_first(&first).unwrap().get(), 1_512_604_800);
        assert_eq!(code(read_first(&[(None, "a"), (Some(&*bad), "b")])), RefusalCode::BadTime);
        assert_eq!(code(read_first(&[(None, "a")])), RefusalCode::MissingTime);
    }
}
