//! Languages that have a stemmer and a stop list here, and one name for all the others.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

macro_rules! languages {
    ($($name:ident $code:literal $three:literal,)+) => {
        /// A language by its ISO 639-1 code. `Other` has neither stemmer nor stop list.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
        pub enum Language {
            $(
                #[doc = concat!("ISO 639-1 `", $code, "`, ISO 639-3 `", $three, "`.")]
                #[serde(rename = $code)]
                $name,
            )+
        }

        impl Language {
            /// Every language, in the order of its code's declaration.
            pub const ALL: &'static [Self] = &[$(Self::$name),+];

            /// The ISO 639-1 code; `xx` for `Other`.
            pub fn code(self) -> &'static str {
                match self { $(Self::$name => $code),+ }
            }

            /// Reads an ISO 639-1 or 639-3 code with or without a region (`pt-BR`, `en_GB`). Codes of languages that
            /// are not listed give `Other`; an empty or undetermined code (`und`, `zxx`) gives nothing.
            pub fn from_code(code: &str) -> Option<Self> {
                let primary = code.split(['-', '_']).next().unwrap_or(code).trim().to_ascii_lowercase();
                match primary.as_str() {
                    $($code | $three => Some(Self::$name),)+
                    "nb" | "nn" => Some(Self::Norwegian),
                    "in" => Some(Self::Other), // Twitter's old code for Indonesian
                    "" | "und" | "zxx" | "mul" | "mis" => None,
                    other if (2..=3).contains(&other.len()) && other.bytes().all(|b| b.is_ascii_lowercase()) => {
                        Some(Self::Other)
                    }
                    _ => None,
                }
            }
        }
    };
}

languages! {
    Arabic "ar" "ara",
    Danish "da" "dan",
    Dutch "nl" "nld",
    English "en" "eng",
    Finnish "fi" "fin",
    French "fr" "fra",
    German "de" "deu",
    Greek "el" "ell",
    Hungarian "hu" "hun",
    Italian "it" "ita",
    Norwegian "no" "nor",
    Portuguese "pt" "por",
    Romanian "ro" "ron",
    Russian "ru" "rus",
    Spanish "es" "spa",
    Swedish "sv" "swe",
    Tamil "ta" "tam",
    Turkish "tr" "tur",
    Other "xx" "xxx",
}

impl fmt::Display for Language {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.code())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_with_regions_and_three_letters_are_read() {
        assert_eq!(Language::from_code("pt-BR"), Some(Language::Portuguese));
        assert_eq!(Language::from_code("eng"), Some(Language::English));
        assert_eq!(Language::from_code("nb"), Some(Language::Norwegian));
        assert_eq!(Language::from_code("tl"), Some(Language::Other));
        assert_eq!(Language::from_code("und"), None);
        assert_eq!(Language::from_code("English"), None);
    }

    #[test]
    fn every_code_reads_back() {
        for &language in Language::ALL {
            assert_eq!(Language::from_code(language.code()), Some(language));
        }
    }
}
