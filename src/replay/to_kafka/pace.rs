//! How fast an archive goes into a topic: as fast as it can, or so that the times of its items pass N times as fast as
//! they did.

use std::{
    fmt,
    str::FromStr,
    time::{Duration, Instant},
};

use crate::model::UnixSeconds;

/// How fast.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Speed {
    /// As fast as it can.
    Max,
    /// So many times real time; above 0.
    Times(f64),
}

impl FromStr for Speed {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "max" {
            return Ok(Self::Max);
        }
        match text.parse::<f64>() {
            Ok(times) if (1e-6..=1e9).contains(&times) => Ok(Self::Times(times)),
            _ => Err("expected max, or a number above 0 (1 = real time)".to_owned()),
        }
    }
}

impl fmt::Display for Speed {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Max => out.write_str("max"),
            Self::Times(times) => write!(out, "{times}"),
        }
    }
}

/// When the next record is due.
#[derive(Debug)]
pub(super) struct Pace {
    speed: Speed,
    /// When the first item with a time was due, and its time.
    begun: Option<(Instant, UnixSeconds)>,
}

impl Pace {
    pub(super) fn new(speed: Speed) -> Self {
        Self { speed, begun: None }
    }

    /// When a record of this time is due. One without a time, or of a time before the first, is due at once.
    pub(super) fn due(&mut self, time: Option<UnixSeconds>, now: Instant) -> Instant {
        let (Speed::Times(times), Some(time)) = (self.speed, time) else { return now };
        let (begun, first) = *self.begun.get_or_insert((now, time));
        let passed = (time.get() - first.get()).max(0) as f64;
        // What a clock cannot hold never comes
        let after = Duration::try_from_secs_f64(passed / times).unwrap_or(Duration::MAX);
        begun.checked_add(after).unwrap_or(begun + Duration::from_secs(100 * 365 * 86_400))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> UnixSeconds {
        UnixSeconds::new(1_512_604_800 + seconds).unwrap()
    }

    #[test]
    fn speeds_are_read_as_they_are_printed() {
        for text in ["max", "1", "0.5", "3600"] {
            assert_eq!(text.parse::<Speed>().unwrap().to_string(), text);
        }
        for text in ["0", "-1", "fast", "NaN", "inf", ""] {
            assert!(text.parse::<Speed>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_record_is_due_as_its_time_says_and_at_once_without_one() {
        let begin = Instant::now();
        let mut pace = Pace::new(Speed::Times(60.0));
        assert_eq!(pace.due(None, begin), begin);
        let first = begin + Duration::from_secs(5);
        assert_eq!(pace.due(Some(at(0)), first), first);
        assert_eq!(pace.due(Some(at(120)), first), first + Duration::from_secs(2));
        assert_eq!(pace.due(None, first), first);
        // Out of order: due long ago
        assert_eq!(pace.due(Some(at(-60)), first + Duration::from_secs(9)), first);
        let mut fast = Pace::new(Speed::Max);
        assert_eq!(fast.due(Some(at(0)), begin), begin);
        assert_eq!(fast.due(Some(at(1_000_000)), begin), begin);
    }

    #[test]
    fn a_century_at_the_slowest_speed_overflows_nothing() {
        let begin = Instant::now();
        let mut pace = Pace::new(Speed::Times(1e-6));
        pace.due(Some(at(0)), begin);
        assert!(pace.due(Some(at(2_000_000_000)), begin) > begin + Duration::from_secs(365 * 86_400));
    }
}
