//! Time as the streams carry it: whole Unix seconds between the years 2000 and 2100.

use std::fmt;

use jiff::{Timestamp, civil::DateTime, tz::TimeZone};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// 2000-01-01T00:00:00Z.
const EARLIEST: i64 = 946_684_800;
/// 2100-01-01T00:00:00Z, not included.
const LATEST: i64 = 4_102_444_800;

/// Seconds since 1970-01-01T00:00:00Z; always within 2000..2100.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, JsonSchema)]
#[serde(transparent)]
pub struct UnixSeconds(#[schemars(range(min = 946_684_800, max = 4_102_444_799_i64))] i64);

/// Why a value is no time.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TimeError {
    /// A number that is a time outside 2000..2100, read as seconds or milliseconds.
    #[error("time {0} lies outside the years 2000 to 2100")]
    OutOfRange(String),
    /// Neither an integer nor an ISO 8601 date and time.
    #[error("{0} is neither Unix seconds, Unix milliseconds nor an ISO 8601 time")]
    Unreadable(String),
}

impl UnixSeconds {
    /// Checks the range.
    pub fn new(seconds: i64) -> Result<Self, TimeError> {
        if (EARLIEST..LATEST).contains(&seconds) {
            Ok(Self(seconds))
        } else {
            Err(TimeError::OutOfRange(seconds.to_string()))
        }
    }

    /// Seconds since 1970.
    pub fn get(self) -> i64 {
        self.0
    }

    /// Reads a feed's time: integer seconds, integer milliseconds (recognised by their size), either as a string of
    /// digits, or an ISO 8601 string. A date and time without an offset is UTC; a date alone is its first second.
    pub fn from_json(value: &Value) -> Result<Self, TimeError> {
        match value {
            Value::Number(number) => match number.as_i64() {
                Some(integer) => Self::from_integer(integer),
                // Some exporters write whole seconds as 1512604800.0
                None => match number.as_f64() {
                    Some(float) if float.fract() == 0.0 && float.abs() < 1e15 =>
                    {
                        #[allow(
                            clippy::cast_possible_truncation,
                            reason = "whole and below 2^53, checked above"
                        )]
                        Self::from_integer(float as i64)
                    }
                    _ => Err(TimeError::Unreadable(number.to_string())),
                },
            },
            Value::String(text) => Self::from_text(text),
            other => Err(TimeError::Unreadable(other.to_string())),
        }
    }

    /// Reads a time written as text; see [`Self::from_json`].
    pub fn from_text(text: &str) -> Result<Self, TimeError> {
        let text = text.trim();
        if let Ok(integer) = text.parse::<i64>() {
            return Self::from_integer(integer);
        }
        let unreadable = || TimeError::Unreadable(format!("\"{text}\""));
        let seconds = if let Ok(instant) = text.parse::<Timestamp>() {
            instant.as_second()
        } else {
            let local: DateTime = text.parse().map_err(|_| unreadable())?;
            TimeZone::UTC.to_timestamp(local).map_err(|_| unreadable())?.as_second()
        };
        Self::new(seconds).map_err(|_| TimeError::OutOfRange(format!("\"{text}\"")))
    }

    fn from_integer(integer: i64) -> Result<Self, TimeError> {
        Self::new(integer)
            .or_else(|_| Self::new(integer.div_euclid(1000)))
            .map_err(|_| TimeError::OutOfRange(integer.to_string()))
    }
}

impl<'de> Deserialize<'de> for UnixSeconds {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = Value::deserialize(deserializer)?;
        Self::from_json(&value).map_err(serde::de::Error::custom)
    }
}

impl fmt::Display for UnixSeconds {
    /// ISO 8601 in UTC, to the second.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match Timestamp::from_second(self.0) {
            Ok(instant) => write!(out, "{instant}"),
            Err(_) => write!(out, "{}", self.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn seconds_milliseconds_and_iso_strings_are_one_time() {
        let expected = UnixSeconds::new(1_512_604_800).unwrap();
        for value in [
            json!(1_512_604_800),
            json!(1_512_604_800_123_i64),
            json!(1_512_604_800.0),
            json!("1512604800"),
            json!("1512604800999"),
            json!("2017-12-07T00:00:00Z"),
            json!("2017-12-07T01:00:00+01:00"),
            json!("2017-12-07 00:00:00"),
            json!("2017-12-07T00:00:00.500"),
            json!("2017-12-07"),
        ] {
            assert_eq!(UnixSeconds::from_json(&value), Ok(expected), "{value}");
        }
    }

    #[test]
    fn everything_else_is_refused() {
        for value in
            [json!(null), json!(true), json!(1.5), json!("yesterday"), json!(""), json!([1]), json!(1e300)]
        {
            assert!(matches!(UnixSeconds::from_json(&value), Err(TimeError::Unreadable(_))), "{value}");
        }
        for value in
            [json!(0), json!(-5), json!(946_684_799), json!(4_102_444_800_000_i64), json!("1999-12-31")]
        {
            assert!(matches!(UnixSeconds::from_json(&value), Err(TimeError::OutOfRange(_))), "{value}");
        }
    }

    #[test]
    fn it_prints_as_iso() {
        assert_eq!(UnixSeconds::new(1_512_604_800).unwrap().to_string(), "2017-12-07T00:00:00Z");
    }
}
