//! The events: those of the files, and those of the event topic, which may come, change and end while running.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
        mpsc::Sender,
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use rdkafka::{
    Message, Offset, TopicPartitionList,
    consumer::{BaseConsumer, Consumer},
    error::KafkaError,
    message::BorrowedMessage,
};

use super::{
    Arrival,
    decoders::{Source, Sources},
};
use crate::{
    clean::Cleaner,
    config::{Config, FeedConfig},
    decoding::{Decoding, UnknownEvent},
    feed::{Router, RouterError, read_event},
    index::ShardKey,
    kafka::{ClientError, LogContext, is_absence, reader_config},
    ledger::{Ledger, LedgerError},
    model::{Event, EventId, RequestId},
    request::Events,
    telemetry::{Check, Metrics, Pause, Status},
};

/// How long a broker may take to answer a question about the topic.
const ANSWER: Duration = Duration::from_secs(10);
/// Where the ledger keeps which events have ended.
const ENDED: &str = "ended_events";

/// Why the events cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum BookError {
    /// Names or keywords.
    #[error(transparent)]
    Router(#[from] RouterError),
    /// A source's event.
    #[error("source {0}: {1}")]
    Source(String, UnknownEvent),
    /// The client's configuration.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// The broker.
    #[error("event topic {topic}: {source}")]
    Kafka {
        /// Which topic.
        topic: String,
        /// The client's reason.
        source: KafkaError,
    },
    /// A request's name is taken.
    #[error("event {event} has the request {request}, which is also a request of event {other}")]
    Taken {
        /// The event that is refused.
        event: EventId,
        /// Its request.
        request: RequestId,
        /// Whose request that is.
        other: EventId,
    },
    /// The ledger.
    #[error(transparent)]
    Ledger(#[from] LedgerError),
}

/// The events as they are now, and everything that is made of them.
pub(super) struct Book {
    config: Config,
    cleaner: Arc<Cleaner>,
    events: BTreeMap<EventId, Arc<Event>>,
    /// Events that have ended, as they were: what is open of them is still run.
    ended: BTreeMap<EventId, Arc<Event>>,
    /// The last good version of each event of the event topic, from before this start too.
    kept: BTreeMap<EventId, Arc<Event>>,
    ledger: Arc<Mutex<Ledger>>,
    for_runs: Arc<Events>,
    for_decoders: Arc<Sources>,
    /// What the decoders are to know next.
    to_show: Arc<Vec<Source>>,
}

impl Book {
    /// Begins with the events of the files.
    pub(super) fn new(
        config: &Config,
        files: Vec<Event>,
        ledger: Arc<Mutex<Ledger>>,
    ) -> Result<Self, BookError> {
        let (ended, kept): (Option<Vec<Event>>, Vec<Event>) = {
            let ledger = ledger.lock().unwrap_or_else(PoisonError::into_inner);
            (ledger.meta(ENDED)?, ledger.events()?)
        };
        let mut book = Self {
            config: config.clone(),
            cleaner: Arc::new(Cleaner::new()),
            events: by_id(files),
            ended: by_id(ended.unwrap_or_default()),
            kept: by_id(kept),
            ledger,
            for_runs: Arc::default(),
            for_decoders: Arc::default(),
            to_show: Arc::default(),
        };
        book.ended.retain(|id, _| !book.events.contains_key(id));
        book.apply()?;
        book.show_decoders();
        Ok(book)
    }

    pub(super) fn for_runs(&self) -> Arc<Events> {
        Arc::clone(&self.for_runs)
    }

    pub(super) fn for_decoders(&self) -> Arc<Sources> {
        Arc::clone(&self.for_decoders)
    }

    /// All events, ended ones without requests: what still comes of those is outside, not unknown.
    pub(super) fn all(&self) -> Vec<Arc<Event>> {
        let ended = self.ended.keys().map(|id| Arc::new(ended_event(id)));
        self.events.values().cloned().chain(ended).collect()
    }

    fn set(&mut self, event: Event) -> Result<(), BookError> {
        self.refuse_taken_names(&event)?;
        self.ended.remove(&event.id);
        let before = self.events.insert(event.id.clone(), Arc::new(event.clone()));
        if let Err(error) = self.apply() {
            match before {
                Some(before) => self.events.insert(event.id, before),
                None => self.events.remove(&event.id),
            };
            self.apply()?;
            return Err(error);
        }
        self.ledger().keep_event(&event)?;
        self.kept.insert(event.id.clone(), Arc::new(event));
        self.remember()
    }

    /// Has an event whose latest record cannot be used be as its last good one said. Gives whether there is one.
    fn set_kept(&mut self, id: &EventId) -> Result<bool, BookError> {
        let Some(kept) = self.kept.get(id).map(|kept| (**kept).clone()) else { return Ok(false) };
        self.set(kept)?;
        Ok(true)
    }

    /// Results are named by request alone. What was accepted first keeps its names, also where its event's latest record
    /// is yet to be read.
    fn refuse_taken_names(&self, event: &Event) -> Result<(), BookError> {
        let yet_to_come = self.kept.iter().filter(|(id, _)| !self.events.contains_key(*id));
        for (id, other) in self.events.iter().chain(yet_to_come).filter(|(id, _)| **id != event.id) {
            let taken = event
                .requests
                .iter()
                .find(|request| other.requests.iter().any(|of_other| of_other.id == request.id));
            if let Some(request) = taken {
                let (event, request) = (event.id.clone(), request.id.clone());
                return Err(BookError::Taken { event, request, other: id.clone() });
            }
        }
        Ok(())
    }

    /// The requests that are open here and that no event describes, as `event/request`: nobody closes them.
    fn undescribed(&self) -> Result<Vec<String>, BookError> {
        let is_described = |(event, request): &ShardKey| {
            self.ended.contains_key(event)
                || self
                    .events
                    .get(event)
                    .is_some_and(|event| event.requests.iter().any(|described| described.id == *request))
        };
        let mut requests = self.ledger().requests()?;
        requests.retain(|known| known.here && !known.is_closed() && !is_described(&known.key));
        let names: Vec<String> =
            requests.iter().map(|known| format!("{}/{}", known.key.0, known.key.1)).collect();
        if !names.is_empty() {
            tracing::warn!(
                requests = names.join(", "),
                "open requests that no event describes, nobody closes them"
            );
        }
        Ok(names)
    }

    fn ledger(&self) -> MutexGuard<'_, Ledger> {
        self.ledger.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn end(&mut self, id: &EventId) -> Result<(), BookError> {
        let was = self.events.remove(id).unwrap_or_else(|| Arc::new(ended_event(id)));
        self.ended.entry(id.clone()).or_insert(was);
        self.kept.remove(id);
        self.ledger().forget_event(id)?;
        self.apply()?;
        self.remember()
    }

    fn remember(&self) -> Result<(), BookError> {
        let mut ledger = self.ledger();
        let ended: Vec<&Event> = self.ended.values().map(Arc::as_ref).collect();
        Ok(ledger.set_meta(ENDED, &ended)?)
    }

    /// Has records decoded with the events as they are now. The intake must have been told of them: an item of an event
    /// that it does not know would be in no shard.
    fn show_decoders(&self) {
        *self.for_decoders.write().unwrap_or_else(PoisonError::into_inner) = Arc::clone(&self.to_show);
    }

    /// Makes anew what depends on the events; the decoders see it with [`Self::show_decoders`].
    fn apply(&mut self) -> Result<(), BookError> {
        let all = self.all();
        let router = Arc::new(Router::new(&all.iter().map(|event| (**event).clone()).collect::<Vec<_>>())?);
        let mut sources = Vec::with_capacity(self.config.source.len());
        for source in &self.config.source {
            let feed = FeedConfig { format: source.format, event: source.event.clone(), threads: 0 };
            // A source's event may come by the event topic later
            let known =
                source.event.is_empty() || all.iter().any(|event| *event.id.as_str() == *source.event);
            let placeholder = if known { None } else { EventId::new(&source.event).ok() };
            let named: Vec<Arc<Event>> =
                all.iter().cloned().chain(placeholder.map(|id| Arc::new(ended_event(&id)))).collect();
            let cleaner = Some(Arc::clone(&self.cleaner));
            let decoding = Decoding::configured(&feed, Arc::clone(&router), cleaner, &named)
                .map_err(|error| BookError::Source(source.topic.clone(), error))?;
            sources.push(Source { decoding, frame: source.frame, unrouted: source.unrouted });
        }
        self.to_show = Arc::new(sources);
        self.for_runs
            .write()
            .unwrap_or_else(PoisonError::into_inner)
            .extend(self.ended.iter().chain(&self.events).map(|(id, event)| (id.clone(), Arc::clone(event))));
        Ok(())
    }
}

fn by_id(events: Vec<Event>) -> BTreeMap<EventId, Arc<Event>> {
    events.into_iter().map(|event| (event.id.clone(), Arc::new(event))).collect()
}

fn ended_event(id: &EventId) -> Event {
    Event {
        id: id.clone(),
        title: String::new(),
        dataset: None,
        kind: None,
        description: None,
        url: None,
        language: None,
        keywords: Vec::new(),
        queries: Vec::new(),
        requests: Vec::new(),
    }
}

/// The thread that follows the event topic.
pub(super) struct Follower {
    stopping: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

/// What the thread tells of events.
pub(super) struct Listeners {
    pub(super) arrivals: Sender<Arrival>,
    pub(super) status: Arc<Status>,
    pub(super) metrics: Arc<Metrics>,
}

impl Follower {
    /// Reads the topic from its beginning and goes on. Until it was read to its end, the `events` check does not hold.
    pub(super) fn start(book: Book, client_id: &str, listeners: Listeners) -> Result<Self, BookError> {
        let topic = book.config.topics.events.clone();
        let stopping = Arc::new(AtomicBool::new(false));
        if topic.is_empty() {
            let detail = format!("{} events, all from files", book.all().len());
            listeners.status.set_check(Check::Events, true, with_undescribed(detail, &book.undescribed()?));
            return Ok(Self { stopping, thread: None });
        }
        listeners.status.set_check(Check::Events, false, "the event topic is being read");
        listeners.status.pause(Pause::Events, "the event topic has not been read to its end");
        let fail = |source| BookError::Kafka { topic: topic.clone(), source };
        let config = reader_config(&book.config.kafka, client_id)?;
        let consumer: BaseConsumer<LogContext> = config.create_with_context(LogContext).map_err(fail)?;
        let metadata = consumer.fetch_metadata(Some(&topic), ANSWER).map_err(fail)?;
        let mut from = TopicPartitionList::new();
        let partitions = metadata.topics().iter().flat_map(rdkafka::metadata::MetadataTopic::partitions);
        let mut open = BTreeSet::new();
        for partition in partitions {
            from.add_partition_offset(&topic, partition.id(), Offset::Beginning).map_err(fail)?;
            open.insert(partition.id());
        }
        consumer.assign(&from).map_err(fail)?;
        let thread = {
            let stopping = Arc::clone(&stopping);
            let following = Following {
                book,
                consumer,
                listeners,
                open,
                refused: 0,
                spoiled: BTreeSet::new(),
                set_here: BTreeSet::new(),
                undescribed: Vec::new(),
            };
            thread::Builder::new().name("events".to_owned()).spawn(move || following.run(&stopping))
        };
        let thread = thread.map_err(|_| fail(KafkaError::Canceled))?;
        Ok(Self { stopping, thread: Some(thread) })
    }

    /// Ends the thread.
    pub(super) fn stop(&mut self) {
        self.stopping.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // A thread that panicked has said so in the log
            thread.join().unwrap_or_default();
        }
    }
}

struct Following {
    book: Book,
    consumer: BaseConsumer<LogContext>,
    listeners: Listeners,
    /// Partitions that are not read to their end yet.
    open: BTreeSet<i32>,
    refused: u64,
    /// Events whose latest record is refused.
    spoiled: BTreeSet<EventId>,
    /// Events that the topic has set since this start.
    set_here: BTreeSet<EventId>,
    /// Open requests that no event described when the topic was read to its end.
    undescribed: Vec<String>,
}

impl Following {
    fn run(mut self, stopping: &AtomicBool) {
        while !stopping.load(Ordering::Relaxed) {
            let change = match self.consumer.poll(Duration::from_millis(200)) {
                Some(Ok(message)) => Some(read(&message)),
                Some(Err(KafkaError::PartitionEOF(partition))) => {
                    if self.open.remove(&partition) && self.open.is_empty() {
                        self.look_for_undescribed();
                        self.say();
                        self.listeners.status.resume(Pause::Events);
                        self.tell(Vec::new());
                    }
                    None
                }
                Some(Err(error)) if is_absence(&error) => None,
                Some(Err(error)) => {
                    tracing::warn!(%error, "reading the event topic failed, it is tried again");
                    None
                }
                None => None,
            };
            if let Some(change) = change {
                self.take(change);
            }
        }
    }

    fn take(&mut self, change: Change) {
        let taken = match change {
            Change::Set(event) => self.set(*event),
            Change::End(id) => {
                tracing::info!(event = %id, "event ended");
                self.spoiled.remove(&id);
                self.listeners.metrics.forget_event(&id);
                self.book.end(&id).map(|()| vec![id]).map_err(|error| error.to_string())
            }
            Change::Refused(id, reason) => {
                if let Some(id) = id {
                    self.keep_as_it_was(id);
                }
                Err(reason)
            }
        };
        match taken {
            Ok(ended) if self.open.is_empty() || !ended.is_empty() => self.tell(ended),
            Ok(_) => {}
            Err(reason) => {
                self.refused += 1;
                self.listeners.metrics.event_refused();
                tracing::error!(%reason, "an event is refused, its last good version stays");
                if self.open.is_empty() {
                    self.tell(Vec::new());
                }
            }
        }
        if self.open.is_empty() {
            self.say();
        }
    }

    fn set(&mut self, event: Event) -> Result<Vec<EventId>, String> {
        let (id, requests) = (event.id.clone(), event.requests.len());
        match self.book.set(event) {
            Ok(()) => {
                tracing::info!(event = %id, requests, "event set");
                self.spoiled.remove(&id);
                self.set_here.insert(id);
                Ok(Vec::new())
            }
            Err(error) => {
                self.keep_as_it_was(id);
                Err(error.to_string())
            }
        }
    }

    /// The latest record of an event is refused: the topic may no longer hold the one before it, but the ledger does.
    fn keep_as_it_was(&mut self, id: EventId) {
        if !self.set_here.contains(&id) {
            match self.book.set_kept(&id) {
                Ok(true) => {
                    tracing::info!(event = %id, "event set, as the ledger has it");
                    self.set_here.insert(id.clone());
                }
                Ok(false) => {}
                Err(error) => {
                    tracing::error!(event = %id, %error, "an event cannot be used as the ledger has it");
                }
            }
        }
        self.spoiled.insert(id);
    }

    fn look_for_undescribed(&mut self) {
        match self.book.undescribed() {
            Ok(undescribed) => self.undescribed = undescribed,
            Err(error) => tracing::error!(%error, "which requests are open cannot be read"),
        }
    }

    fn say(&self) {
        let (known, refused) = (self.book.events.len(), self.refused);
        let mut detail = format!("{known} events, {refused} records refused");
        if !self.spoiled.is_empty() {
            let spoiled: Vec<&str> = self.spoiled.iter().map(EventId::as_str).collect();
            detail = format!("{detail}, among them the latest of {}", spoiled.join(", "));
        }
        self.listeners.status.set_check(Check::Events, true, with_undescribed(detail, &self.undescribed));
    }

    fn tell(&self, ended: Vec<EventId>) {
        // At the end nobody listens any more
        self.listeners.arrivals.send(Arrival::Events(self.book.all(), ended)).unwrap_or_default();
        self.book.show_decoders();
    }
}

/// What the check says, with the open requests that nobody will close.
fn with_undescribed(detail: String, undescribed: &[String]) -> String {
    if undescribed.is_empty() {
        return detail;
    }
    format!("{detail}; open requests that no event describes, nobody closes them: {}", undescribed.join(", "))
}

enum Change {
    Set(Box<Event>),
    End(EventId),
    /// Of which event, where the key tells, and why.
    Refused(Option<EventId>, String),
}

fn read(message: &BorrowedMessage<'_>) -> Change {
    let name =
        format!("topic {}, partition {}, offset {}", message.topic(), message.partition(), message.offset());
    let Some(key) = message.key().and_then(|key| std::str::from_utf8(key).ok()) else {
        return Change::Refused(None, format!("{name}: no key; it must be the event's id"));
    };
    let id = match EventId::new(key) {
        Ok(id) => id,
        Err(error) => {
            return Change::Refused(None, format!("{name}: the key is no event's id: {error}"));
        }
    };
    let Some(value) = message.payload() else { return Change::End(id) };
    let Ok(text) = std::str::from_utf8(value) else {
        return Change::Refused(Some(id), format!("{name}: the value is not UTF-8"));
    };
    match read_event(&name, text) {
        Ok(event) if event.id == id => Change::Set(Box::new(event)),
        Ok(event) => {
            let reason = format!("{name}: the key is {key}, but the value describes event {}", event.id);
            Change::Refused(Some(id), reason)
        }
        Err(error) => Change::Refused(Some(id), error.to_string()),
    }
}
