//! Durations and sizes as people write them.

use std::{borrow::Cow, fmt, time::Duration};

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error};

/// A number with a unit: the units from the largest to the smallest, which is 1.
fn read(text: &str, units: &[(&str, i64)]) -> Option<i64> {
    let text = text.trim();
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at_checked(digits)?;
    let number: i64 = number.parse().ok()?;
    let unit = unit.trim();
    if unit.is_empty() {
        return Some(number);
    }
    let (_, size) = units.iter().find(|(name, _)| name.eq_ignore_ascii_case(unit))?;
    number.checked_mul(*size)
}

fn print(value: i64, units: &[(&str, i64)]) -> String {
    let unit = units.iter().find(|(_, size)| value != 0 && value % size == 0);
    unit.map_or_else(|| "0".to_owned(), |(name, size)| format!("{}{name}", value / size))
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Written {
    Number(i64),
    Text(String),
}

macro_rules! unit {
    ($(#[$doc:meta])* $name:ident, $units:expr, $expected:literal) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub i64);

        impl fmt::Display for $name {
            fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                out.write_str(&print(self.0, $units))
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let expected = || D::Error::custom(concat!("expected ", $expected));
                match Written::deserialize(deserializer).map_err(|_| expected())? {
                    Written::Number(number) if number >= 0 => Ok(Self(number)),
                    Written::Number(_) => Err(expected()),
                    Written::Text(text) => read(&text, $units).map(Self).ok_or_else(expected),
                }
            }
        }

        impl JsonSchema for $name {
            fn schema_name() -> Cow<'static, str> {
                stringify!($name).into()
            }

            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                json_schema!({ "type": ["string", "integer"], "description": $expected })
            }
        }
    };
}

const TIME: &[(&str, i64)] = &[("d", 86_400), ("h", 3_600), ("m", 60), ("s", 1)];
const SIZE: &[(&str, i64)] = &[
    ("TiB", Bytes::MIB * 1024 * 1024),
    ("GiB", Bytes::MIB * 1024),
    ("MiB", Bytes::MIB),
    ("KiB", 1024),
    ("TB", 1_000_000_000_000),
    ("GB", 1_000_000_000),
    ("MB", 1_000_000),
    ("KB", 1_000),
    ("B", 1),
];

unit!(
    /// A length of time in whole seconds, written `90s`, `15m`, `2h`, `1d` or as a number of seconds.
    Seconds, TIME, "a duration such as \"90s\", \"15m\", \"2h\" or \"1d\""
);
unit!(
    /// A size in bytes, written `24MiB`, `1GB` or as a number of bytes.
    Bytes, SIZE, "a size such as \"24MiB\" or \"1GB\""
);

impl Seconds {
    /// As a duration.
    pub fn duration(self) -> Duration {
        Duration::from_secs(u64::try_from(self.0).unwrap_or(0))
    }
}

impl Bytes {
    /// 2^20.
    pub const MIB: i64 = 1_048_576;

    /// As a size in memory.
    pub fn as_usize(self) -> usize {
        usize::try_from(self.0).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_and_sizes_are_read_and_print_the_same() {
        for (text, seconds) in
            [("90s", 90), ("15m", 900), ("2h", 7_200), ("1d", 86_400), ("0", 0), ("45", 45)]
        {
            let read: Seconds = serde_json::from_value(text.into()).unwrap();
            assert_eq!(read, Seconds(seconds), "{text}");
            let again: Seconds = serde_json::from_value(read.to_string().into()).unwrap();
            assert_eq!(again, read);
        }
        let size: Bytes = serde_json::from_value("24 MiB".into()).unwrap();
        assert_eq!((size.0, size.to_string().as_str()), (25_165_824, "24MiB"));
    }

    #[test]
    fn what_has_no_known_unit_is_refused() {
        for text in ["", "m", "-5s", "5 weeks", "1.5h", "99999999999999999999s"] {
            assert!(serde_json::from_value::<Seconds>(text.into()).is_err(), "{text}");
        }
        assert!(serde_json::from_value::<Seconds>((-1).into()).is_err());
    }
}
