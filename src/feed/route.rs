//! Sends items to events: by the event that the record names, else by the source's, else by the events' keywords.

use std::collections::{BTreeSet, HashMap};

use aho_corasick::{AhoCorasick, MatchKind};
use unicode_normalization::UnicodeNormalization;

use super::RawItem;
use crate::model::{Event, EventId, Item, Refusal, RefusalCode, StreamId};

/// Why a router cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum RouterError {
    /// Two events of one id.
    #[error("two events are called {0}")]
    SameEvent(EventId),
    /// Keywords that cannot be searched for.
    #[error("the events' keywords cannot be searched for: {0}")]
    Keywords(#[from] aho_corasick::BuildError),
}

/// Knows the events by name and by keyword.
#[derive(Debug)]
pub struct Router {
    events: Vec<EventId>,
    /// By id, title and data set. A title may be that of several events.
    by_name: HashMap<String, Vec<usize>>,
    keywords: AhoCorasick,
    /// The events of each keyword, in the order of the automaton's patterns.
    by_keyword: Vec<Vec<usize>>,
}

impl Router {
    /// A router for these events.
    pub fn new(events: &[Event]) -> Result<Self, RouterError> {
        let mut by_name: HashMap<String, Vec<usize>> = HashMap::new();
        for (place, event) in events.iter().enumerate() {
            if by_name.insert(event.id.as_str().to_owned(), vec![place]).is_some() {
                return Err(RouterError::SameEvent(event.id.clone()));
            }
        }
        let ids: BTreeSet<String> = by_name.keys().cloned().collect();
        for (place, event) in events.iter().enumerate() {
            for name in [Some(&event.title), event.dataset.as_ref()].into_iter().flatten() {
                let name = name.trim();
                if ids.contains(name) || name.is_empty() {
                    continue;
                }
                let named = by_name.entry(name.to_owned()).or_default();
                if !named.contains(&place) {
                    named.push(place);
                }
            }
        }
        let mut places: HashMap<String, usize> = HashMap::new();
        let mut patterns: Vec<String> = Vec::new();
        let mut by_keyword: Vec<Vec<usize>> = Vec::new();
        for (place, event) in events.iter().enumerate() {
            for keyword in &event.keywords {
                let keyword = folded(keyword);
                if keyword.is_empty() {
                    continue;
                }
                let pattern = *places.entry(keyword.clone()).or_insert_with(|| {
                    patterns.push(keyword);
                    by_keyword.push(Vec::new());
                    patterns.len() - 1
                });
                if let Some(named) = by_keyword.get_mut(pattern)
                    && !named.contains(&place)
                {
                    named.push(place);
                }
            }
        }
        let keywords = AhoCorasick::builder().match_kind(MatchKind::Standard).build(&patterns)?;
        let events = events.iter().map(|event| event.id.clone()).collect();
        Ok(Self { events, by_name, keywords, by_keyword })
    }

    /// The item once for each event it belongs to, in the order of the events; mostly one.
    pub fn route(&self, raw: RawItem, source_event: Option<&EventId>) -> Result<Vec<Item>, Refusal> {
        let name = raw.event.as_deref().map(str::trim).filter(|name| !name.is_empty());
        let places = match name.or(source_event.map(EventId::as_str)) {
            Some(name) => self.named(name)?.to_vec(),
            None => self.by_words(raw.routed_by.as_deref().unwrap_or(&raw.text))?,
        };
        let events: Vec<&EventId> = places.iter().filter_map(|&place| self.events.get(place)).collect();
        if let [event] = events.as_slice() {
            let stream_id = stream_id(&raw, event)?;
            return Ok(vec![item(raw, event, stream_id)]);
        }
        let mut items = Vec::with_capacity(events.len());
        for event in events {
            let stream_id = stream_id(&raw, event)?;
            items.push(item(raw.clone(), event, stream_id));
        }
        Ok(items)
    }

    fn named(&self, name: &str) -> Result<&[usize], Refusal> {
        self.by_name.get(name).map(Vec::as_slice).ok_or_else(|| {
            Refusal::new(RefusalCode::UnknownEvent, format!("no event file describes the event \"{name}\""))
        })
    }

    /// Every event of which a keyword stands in the text as whole words, whatever the other events' keywords are.
    fn by_words(&self, text: &str) -> Result<Vec<usize>, Refusal> {
        let text = folded(text);
        let mut places = BTreeSet::new();
        for hit in self.keywords.find_overlapping_iter(&text) {
            if is_whole(&text, hit.start(), hit.end()) {
                places.extend(self.by_keyword.get(hit.pattern().as_usize()).into_iter().flatten().copied());
            }
        }
        if places.is_empty() {
            let message =
                "neither record nor source names an event, and no event's keyword occurs in the text";
            return Err(Refusal::new(RefusalCode::UnknownEvent, message));
        }
        Ok(places.into_iter().collect())
    }
}

fn stream_id(raw: &RawItem, event: &EventId) -> Result<StreamId, Refusal> {
    let id = match (&raw.stream_id, &raw.local_id) {
        (Some(id), _) => StreamId::new(id),
        (None, Some(local)) => StreamId::new(format!("{event}-{local}")),
        (None, None) => return Err(Refusal::new(RefusalCode::BadId, "no stream id")),
    };
    id.map_err(|error| Refusal::new(RefusalCode::BadId, error.to_string()))
}

fn item(raw: RawItem, event: &EventId, stream_id: StreamId) -> Item {
    Item {
        event: event.clone(),
        stream_id,
        unix_timestamp: raw.time,
        text: raw.text,
        source_type: raw.source_type,
        source: raw.source,
        language: raw.language,
        origin: raw.origin.map(String::into_boxed_str),
    }
}

/// Text in the form in which keywords are compared: composed (NFC), lower case, one space between words.
fn folded(text: &str) -> String {
    let lower = if text.is_ascii() {
        text.to_ascii_lowercase()
    } else {
        text.nfc().collect::<String>().to_lowercase()
    };
    let words: Vec<&str> = lower.split_whitespace().collect();
    words.join(" ")
}

/// Whether what stands from `start` to `end` is no part of a longer word.
fn is_whole(text: &str, start: usize, end: usize) -> bool {
    let (Some(before), Some(hit), Some(after)) = (text.get(..start), text.get(start..end), text.get(end..))
    else {
        return false;
    };
    !continues(before.chars().next_back(), hit.chars().next())
        && !continues(hit.chars().next_back(), after.chars().next())
}

/// Whether one word runs on from `left` to `right`.
fn continues(left: Option<char>, right: Option<char>) -> bool {
    let (Some(left), Some(right)) = (left, right) else {
        return false;
    };
    is_of_a_word(left)
        && is_of_a_word(right)
        && !is_written_without_spaces(left)
        && !is_written_without_spaces(right)
}

fn is_of_a_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// Thai, Lao, Burmese, Khmer, Japanese and Chinese: there a word's end shows nowhere.
fn is_written_without_spaces(c: char) -> bool {
    matches!(c, '\u{0e00}'..='\u{0eff}' | '\u{1000}'..='\u{109f}' | '\u{1780}'..='\u{17ff}' | '\u{3040}'..='\u{30ff}'
        | '\u{3400}'..='\u{9fff}' | '\u{f900}'..='\u{faff}' | '\u{20000}'..='\u{3ffff}')
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::json;

    use super::*;
    use crate::model::{SourceType, UnixSeconds};

    fn event(id: &str, title: &str, keywords: &[&str]) -> Event {
        serde_json::from_value(json!({
            "eventID": id, "title": title, "dataset": format!("set_{id}"), "keywords": keywords
        }))
        .unwrap()
    }

    fn raw(event: Option<&str>, text: &str) -> RawItem {
        RawItem {
            event: event.map(str::to_owned),
            stream_id: None,
            local_id: Some("Twitter-7-0".to_owned()),
            time: UnixSeconds::new(1_512_604_800).unwrap(),
            text: text.to_owned(),
            source_type: SourceType::Twitter,
            source: None,
            language: None,
            origin: Some("ann".to_owned()),
            routed_by: None,
        }
    }

    fn router() -> Router {
        Router::new(&[
            event("A", "Flood", &["flood", "Río Negro", "#High_Water", "洪水"]),
            event("B", "Fire", &["flood zone fire", "fire", "Rio"]),
            event("C", "Flood", &["FLOOD "]),
            event("D", "A", &[]),
        ])
        .unwrap()
    }

    fn events(outcome: Result<Vec<Item>, Refusal>) -> Vec<String> {
        outcome.unwrap().iter().map(|item| item.event.to_string()).collect()
    }

    fn words(text: &str) -> Vec<String> {
        router().route(raw(None, text), None).map_or_else(
            |refusal| {
                assert_eq!(refusal.code, RefusalCode::UnknownEvent);
                Vec::new()
            },
            |items| items.iter().map(|item| item.event.to_string()).collect(),
        )
    }

    #[test]
    fn the_records_event_goes_before_the_sources_and_that_before_keywords() {
        let router = router();
        let source = EventId::new("C").unwrap();
        assert_eq!(events(router.route(raw(Some("B"), "flood"), Some(&source))), ["B"]);
        assert_eq!(events(router.route(raw(None, "fire"), Some(&source))), ["C"]);
        assert_eq!(events(router.route(raw(Some(" "), "fire"), None)), ["B"]);
    }

    #[test]
    fn an_event_goes_by_id_before_title_and_data_set() {
        let router = router();
        let to = |name: &str| events(router.route(raw(Some(name), ""), None));
        assert_eq!(to("A"), ["A"]);
        assert_eq!(to("Fire"), ["B"]);
        assert_eq!(to("set_D"), ["D"]);
        assert_eq!(to("Flood"), ["A", "C"]);
        for unknown in ["a", "E", "flood"] {
            let refusal = router.route(raw(Some(unknown), "fire"), None).unwrap_err();
            assert_eq!(refusal.code, RefusalCode::UnknownEvent);
            assert!(refusal.message.contains(&format!("\"{unknown}\"")), "{refusal}");
        }
        let unknown = EventId::new("Z").unwrap();
        assert!(router.route(raw(None, "fire"), Some(&unknown)).unwrap_err().message.contains("\"Z\""));
    }

    #[test]
    fn keywords_are_whole_words_in_any_case() {
        assert_eq!(words("a FLOOD, now"), ["A", "C"]);
        assert_eq!(words("#flood"), ["A", "C"]);
        assert_eq!(words("floods"), Vec::<String>::new());
        assert_eq!(words("the flood_map"), Vec::<String>::new());
        assert_eq!(words("r\u{ed}o\n NEGRO"), ["A"]);
        assert_eq!(words("ri\u{301}o negro"), ["A"]);
        assert_eq!(words("see #high_water!"), ["A"]);
        assert_eq!(words("大洪水です"), ["A"]);
        assert_eq!(words(""), Vec::<String>::new());
    }

    #[test]
    fn an_events_items_do_not_depend_on_the_keywords_of_other_events() {
        assert_eq!(words("flood zone fire"), ["A", "B", "C"]);
        assert_eq!(words("flood zone fires"), ["A", "C"]);
        assert_eq!(words("on the r\u{ed}o negro"), ["A"]);
        let sets: [(&str, &[&str]); 3] = [
            ("A", &["fire", "york", "abc def"]),
            ("B", &["harbour fire", "New York", "def ghi"]),
            ("C", &["fire"]),
        ];
        let together = Router::new(&sets.map(|(id, keywords)| event(id, id, keywords))).unwrap();
        for (text, expected) in [
            ("harbour fire homes", vec!["A", "B", "C"]),
            ("New York homes", vec!["A", "B"]),
            ("abc def ghi homes", vec!["A", "B"]),
            ("def ghi", vec!["B"]),
        ] {
            assert_eq!(events(together.route(raw(None, text), None)), expected, "{text}");
            for (id, keywords) in sets {
                let alone = Router::new(&[event(id, id, keywords)]).unwrap();
                assert_eq!(alone.route(raw(None, text), None).is_ok(), expected.contains(&id), "{text} {id}");
            }
        }
    }

    #[test]
    fn a_sentence_goes_where_its_article_goes() {
        let mut sentence = raw(None, "All roads are shut.");
        sentence.routed_by = Some(Arc::from("Fire in the hills\nAll roads are shut."));
        assert_eq!(events(router().route(sentence, None)), ["B"]);
    }

    #[test]
    fn the_stream_id_is_the_records_or_made_of_the_event() {
        let router = router();
        let made = router.route(raw(Some("Flood"), ""), None).unwrap();
        assert_eq!(made[1].stream_id.as_str(), "C-Twitter-7-0");
        assert_eq!(made[1].origin.as_deref(), Some("ann"));
        let mut own = raw(Some("A"), "");
        own.stream_id = Some("X-1".to_owned());
        assert_eq!(router.route(own.clone(), None).unwrap()[0].stream_id.as_str(), "X-1");
        own.stream_id = Some("X 1".to_owned());
        assert_eq!(router.route(own, None).unwrap_err().code, RefusalCode::BadId);
    }

    #[test]
    fn two_events_of_one_id_are_an_error() {
        let twice = [event("A", "x", &[]), event("A", "y", &[])];
        assert!(Router::new(&twice).unwrap_err().to_string().contains('A'));
    }
}
