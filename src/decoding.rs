//! From a record's bytes to items ready for their shards: decode, route, clean. Knows nothing of files and topics; all
//! that needs no knowledge of other items happens here, on as many threads as there are.

use std::{collections::BTreeMap, sync::Arc, thread};

use crate::{
    clean::Cleaner,
    config::FeedConfig,
    feed::{Decoded, Format, RawItem, RefusedPart, Router, decode},
    index::{Prepared, Preparer},
    model::{Event, EventId, Language, Refusal},
};

/// How many worker threads the configuration asks for.
pub(crate) fn threads(config: &FeedConfig) -> usize {
    match config.threads {
        0 => thread::available_parallelism().map_or(1, usize::from),
        threads => threads,
    }
}

/// The configured event of a source is not among the events.
#[derive(Debug, thiserror::Error)]
#[error("feed.event {0} is described by no event file")]
pub struct UnknownEvent(String);

/// How items are made of records; shared by all workers.
pub(crate) struct Decoding {
    format: Format,
    /// The event of records that name none.
    event: Option<EventId>,
    router: Arc<Router>,
    /// Nothing = texts and words are taken as they are.
    cleaner: Option<Arc<Cleaner>>,
    /// The default language of each event.
    languages: BTreeMap<EventId, Language>,
    /// Whether records of an archive keep their bytes.
    pub(crate) keeps_bytes: bool,
}

impl Decoding {
    /// Decoding as the configuration says; without a cleaner texts are taken as they are.
    pub(crate) fn configured(
        config: &FeedConfig,
        router: impl Into<Arc<Router>>,
        cleaner: Option<Arc<Cleaner>>,
        events: &[Arc<Event>],
    ) -> Result<Self, UnknownEvent> {
        let event = match config.event.as_str() {
            "" => None,
            name => {
                let known = events.iter().find(|event| event.id.as_str() == name);
                Some(known.ok_or_else(|| UnknownEvent(name.to_owned()))?.id.clone())
            }
        };
        let languages = events.iter().map(|event| (event.id.clone(), event.default_language())).collect();
        Ok(Self {
            format: config.format,
            event,
            router: router.into(),
            cleaner,
            languages,
            keeps_bytes: false,
        })
    }

    /// The same, and every record comes with its bytes.
    pub(crate) fn keeping_bytes(self) -> Self {
        Self { keeps_bytes: true, ..self }
    }

    /// What a worker thread prepares items with.
    pub(crate) fn preparer(&self) -> Preparer {
        self.cleaner.as_ref().map_or_else(Preparer::raw, |cleaner| Preparer::new(Arc::clone(cleaner)))
    }

    /// What becomes of a record.
    pub(crate) fn read(&self, record: &[u8], preparer: &mut Preparer) -> Readout {
        let Decoded { items: raws, refused: mut parts } = match decode(record, self.format) {
            Ok(decoded) => decoded,
            Err(refusal) => return Readout::Refused(refusal),
        };
        let is_whole = raws.len() == 1 && parts.is_empty();
        let mut items = Vec::new();
        for raw in raws {
            let part = (!is_whole).then(|| Part::of(&raw));
            match (self.router.route(raw, self.event.as_ref()), part) {
                (Ok(routed), _) => items.extend(routed.into_iter().map(|item| {
                    let language = self.languages.get(&item.event).copied().unwrap_or(Language::English);
                    preparer.prepare(item, language)
                })),
                // An article goes as a whole: what is wrong with it is said once, not for each sentence.
                (Err(refusal), None | Some(Part::Sentence)) => return Readout::Refused(refusal),
                (Err(refusal), Some(Part::Own { name, text })) => {
                    let refusal = Refusal::new(refusal.code, format!("{name}: {}", refusal.message));
                    parts.push(RefusedPart { refusal, text });
                }
            }
        }
        Readout::Items(items, parts)
    }
}

/// What becomes of a record.
pub(crate) enum Readout {
    /// Its items, and the parts of it that are refused.
    Items(Vec<Prepared>, Vec<RefusedPart>),
    /// It is refused as a whole.
    Refused(Refusal),
}

/// What an item is of its record.
enum Part {
    /// A sentence of the article that the record is.
    Sentence,
    /// A record inside the record, with its name and its text.
    Own { name: String, text: String },
}

impl Part {
    fn of(raw: &RawItem) -> Self {
        if raw.routed_by.is_some() {
            return Self::Sentence;
        }
        let name = raw.stream_id.as_ref().or(raw.local_id.as_ref()).cloned().unwrap_or_default();
        Self::Own {
            name,
            text: raw.source.as_ref().map_or_else(String::new, |source| source.get().to_owned()),
        }
    }
}
