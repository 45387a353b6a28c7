//! The metrics: every name stands in this one file, and with its meaning in `docs/OPERATIONS.md`.
//!
//! Counters and histograms are told as things happen. Gauges say what *is*: each scrape makes them anew from
//! [`Status`], so series of a partition or an event that has gone disappear by themselves. Labels are closed sets, or
//! topics, partitions and events, of which there are as many as the configuration names.

use std::{
    sync::{Mutex, PoisonError},
    time::Duration,
};

use prometheus::{
    Error, Gauge, GaugeVec, Histogram, HistogramOpts, HistogramVec, IntCounter, IntCounterVec, Opts,
    Registry, TextEncoder, core::Collector, process_collector::ProcessCollector,
};

use super::{
    labels::{
        CommitOutcome, Copy, Heart, MessageOutcome, Pause, PublishFailure, Rebalance, RunOutcome, Scored,
        Stage, Token,
    },
    state::StateView,
    status::Status,
};
use crate::model::{EventId, RefusalCode};

/// Seconds; the bucket bounds of what takes from milliseconds to minutes.
const DURATIONS: [f64; 12] = [0.01, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0];
/// Seconds; the default commit interval of 10 lies amid close bounds, and what may be at most, a second more, is one.
const UNTIL_SEARCHABLE: [f64; 17] =
    [0.1, 0.25, 0.5, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0, 11.0, 12.0, 20.0, 60.0, 300.0, 600.0];

/// What happened, counted. Made once for a process; without global state, so a test has its own.
pub struct Metrics {
    registry: Registry,
    messages: IntCounterVec,
    items: IntCounterVec,
    dead_letters: IntCounterVec,
    duplicates: IntCounterVec,
    rebalances: IntCounterVec,
    gap_records: IntCounterVec,
    commits: IntCounterVec,
    commit_duration: Histogram,
    searchable: Histogram,
    runs: IntCounterVec,
    run_duration: HistogramVec,
    nuggets: IntCounter,
    tombstones: IntCounter,
    events_refused: IntCounter,
    rerank_pairs: IntCounterVec,
    rerank_tokens: IntCounterVec,
    rerank_batch: Histogram,
    rerank_failures: IntCounter,
    publish_failures: IntCounterVec,
    /// Locked while a scrape refreshes and reads them.
    gauges: Mutex<Gauges>,
}

/// What is, as of the last scrape.
struct Gauges {
    lag: GaugeVec,
    watermark_lag: GaugeVec,
    paused: GaugeVec,
    checks: GaugeVec,
    poll_age: Gauge,
    intake_age: Gauge,
    queue_records: Gauge,
    queue_bytes: Gauge,
    open_requests: Gauge,
    runs_in_progress: Gauge,
    runs_waiting: Gauge,
    index_shards: Gauge,
    index_documents: Gauge,
    index_segments: Gauge,
    index_bytes: Gauge,
    last_commit: Gauge,
    outbox_batches: Gauge,
    outbox_records: Gauge,
    last_publish: Gauge,
    free_bytes: Gauge,
}

impl Metrics {
    /// All metrics in a registry of their own, closed sets of labels from 0 on. Fails only where two have one name.
    pub fn new() -> Result<Self, Error> {
        let registry = Registry::new();
        registry.register(Box::new(ProcessCollector::for_self()))?;
        let make = Maker(&registry);
        let build =
            make.gauges("nuggetd_build_info", "Always 1; the label says which version runs.", &["version"])?;
        build.with_label_values(&[env!("CARGO_PKG_VERSION")]).set(1.0);
        let metrics = Self {
            messages: make.counters(
                "nuggetd_messages_total",
                "Messages of the item topics, by what became of them.",
                &["topic", "outcome"],
            )?,
            items: make.counters(
                "nuggetd_items_total",
                "Items put into shards, duplicates too.",
                &["event"],
            )?,
            dead_letters: make.counters(
                "nuggetd_dead_letters_total",
                "Refused records and items, by the reason.",
                &["code"],
            )?,
            duplicates: make.counters(
                "nuggetd_duplicates_total",
                "Items put into shards without searchable text, by what they repeat.",
                &["kind"],
            )?,
            rebalances: make.counters(
                "nuggetd_rebalances_total",
                "What the consumer group told this instance.",
                &["kind"],
            )?,
            gap_records: make.counters(
                "nuggetd_gap_records_total",
                "Records that the topic's retention removed before they were read.",
                &["topic"],
            )?,
            commits: make.counters("nuggetd_index_commits_total", "Commits of all shards.", &["outcome"])?,
            commit_duration: make.histogram(
                "nuggetd_index_commit_duration_seconds",
                "How long a commit of all shards takes.",
                &DURATIONS,
            )?,
            searchable: make.histogram(
                "nuggetd_event_to_searchable_seconds",
                "From a record's time at the broker to the end of the commit that holds it.",
                &UNTIL_SEARCHABLE,
            )?,
            runs: make.counters("nuggetd_request_runs_total", "Runs of requests.", &["outcome"])?,
            run_duration: make.histograms(
                "nuggetd_request_run_duration_seconds",
                "How long a run of a request takes, and its parts.",
                &["stage"],
            )?,
            nuggets: make
                .counter("nuggetd_nuggets_published_total", "Nuggets that the broker has confirmed.")?,
            tombstones: make.counter(
                "nuggetd_tombstones_published_total",
                "Withdrawals of nuggets that the broker has confirmed.",
            )?,
            events_refused: make
                .counter("nuggetd_events_refused_total", "Records of the event topic that cannot be used.")?,
            rerank_pairs: make.counters(
                "nuggetd_rerank_pairs_total",
                "Pairs of query and text that were scored, by whether their score was computed or remembered.",
                &["how"],
            )?,
            rerank_tokens: make.counters(
                "nuggetd_rerank_tokens_total",
                "Tokens that the reranker's batches held, and their padding.",
                &["kind"],
            )?,
            rerank_batch: make.histogram(
                "nuggetd_rerank_batch_duration_seconds",
                "How long a batch of the reranker takes.",
                &DURATIONS,
            )?,
            rerank_failures: make.counter(
                "nuggetd_rerank_failures_total",
                "Questions that the reranker could not answer, so that the request went on by BM25.",
            )?,
            publish_failures: make.counters(
                "nuggetd_publish_failures_total",
                "Attempts to publish that failed.",
                &["kind"],
            )?,
            gauges: Mutex::new(Gauges::new(&make)?),
            registry,
        };
        metrics.start_at_zero();
        Ok(metrics)
    }

    /// A message of an item topic was dealt with.
    pub fn message(&self, topic: &str, outcome: MessageOutcome) {
        self.messages.with_label_values(&[topic, outcome.as_str()]).inc();
    }

    /// An item went into its shard.
    pub fn item(&self, event: &EventId) {
        self.items.with_label_values(&[event.as_str()]).inc();
    }

    /// A record was refused.
    pub fn dead_letter(&self, code: RefusalCode) {
        self.dead_letters.with_label_values(&[code.as_str()]).inc();
    }

    /// An item went into its shard without searchable text.
    pub fn duplicate(&self, kind: Copy) {
        self.duplicates.with_label_values(&[kind.as_str()]).inc();
    }

    /// The group gave or took partitions.
    pub fn rebalance(&self, kind: Rebalance) {
        self.rebalances.with_label_values(&[kind.as_str()]).inc();
    }

    /// Retention removed records before they were read.
    pub fn gap(&self, topic: &str, records: u64) {
        self.gap_records.with_label_values(&[topic]).inc_by(records);
    }

    /// A commit of all shards ended.
    pub fn commit(&self, outcome: CommitOutcome, took: Duration) {
        self.commits.with_label_values(&[outcome.as_str()]).inc();
        self.commit_duration.observe(took.as_secs_f64());
    }

    /// A record became searchable so long after the broker had it.
    pub fn searchable(&self, after: Duration) {
        self.searchable.observe(after.as_secs_f64());
    }

    /// A run of a request ended.
    pub fn run(&self, outcome: RunOutcome) {
        self.runs.with_label_values(&[outcome.as_str()]).inc();
    }

    /// A part of a run took so long.
    pub fn stage(&self, stage: Stage, took: Duration) {
        self.run_duration.with_label_values(&[stage.as_str()]).observe(took.as_secs_f64());
    }

    /// The broker confirmed nuggets, and withdrawals of nuggets.
    pub fn published(&self, nuggets: u64, tombstones: u64) {
        self.nuggets.inc_by(nuggets);
        self.tombstones.inc_by(tombstones);
    }

    /// An attempt to publish failed.
    pub fn publish_failure(&self, kind: PublishFailure) {
        self.publish_failures.with_label_values(&[kind.as_str()]).inc();
    }

    /// A record of the event topic cannot be used.
    pub fn event_refused(&self) {
        self.events_refused.inc();
    }

    /// A batch of the reranker came to its end.
    pub fn rerank_batch(&self, pairs: u64, tokens: u64, padding: u64, took: Duration) {
        self.rerank_pairs.with_label_values(&[Scored::Computed.as_str()]).inc_by(pairs);
        self.rerank_tokens.with_label_values(&[Token::Text.as_str()]).inc_by(tokens);
        self.rerank_tokens.with_label_values(&[Token::Padding.as_str()]).inc_by(padding);
        self.rerank_batch.observe(took.as_secs_f64());
    }

    /// Pairs whose scores were remembered.
    pub fn rerank_remembered(&self, pairs: u64) {
        self.rerank_pairs.with_label_values(&[Scored::Remembered.as_str()]).inc_by(pairs);
    }

    /// The reranker gave no scores.
    pub fn rerank_failed(&self) {
        self.rerank_failures.inc();
    }

    /// The event ended: its series disappears.
    pub fn forget_event(&self, event: &EventId) {
        // It fails where the event never had an item
        self.items.remove_label_values(&[event.as_str()]).unwrap_or_default();
    }

    /// Everything in Prometheus' text format.
    pub fn render(&self, status: &Status) -> Result<String, Error> {
        let gauges = self.gauges.lock().unwrap_or_else(PoisonError::into_inner);
        gauges.refresh(&status.view());
        TextEncoder::new().encode_to_string(&self.registry.gather())
    }

    /// A series that appears only with its first event hides that event from `rate()`.
    fn start_at_zero(&self) {
        for code in RefusalCode::ALL {
            self.dead_letters.with_label_values(&[code.as_str()]);
        }
        for kind in Copy::ALL {
            self.duplicates.with_label_values(&[kind.as_str()]);
        }
        for kind in Rebalance::ALL {
            self.rebalances.with_label_values(&[kind.as_str()]);
        }
        for outcome in CommitOutcome::ALL {
            self.commits.with_label_values(&[outcome.as_str()]);
        }
        for outcome in RunOutcome::ALL {
            self.runs.with_label_values(&[outcome.as_str()]);
        }
        for stage in Stage::ALL {
            self.run_duration.with_label_values(&[stage.as_str()]);
        }
        for how in Scored::ALL {
            self.rerank_pairs.with_label_values(&[how.as_str()]);
        }
        for kind in Token::ALL {
            self.rerank_tokens.with_label_values(&[kind.as_str()]);
        }
        for kind in PublishFailure::ALL {
            self.publish_failures.with_label_values(&[kind.as_str()]);
        }
    }
}

impl Gauges {
    fn new(make: &Maker<'_>) -> Result<Self, Error> {
        Ok(Self {
            lag: make.gauges(
                "nuggetd_consumer_lag_records",
                "Records between what was taken and the partition's end.",
                &["topic", "partition"],
            )?,
            watermark_lag: make.gauges(
                "nuggetd_watermark_lag_seconds",
                "How far an event's watermark is behind the clock.",
                &["event"],
            )?,
            paused: make.gauges(
                "nuggetd_paused",
                "1 while items are not taken for this reason.",
                &["reason"],
            )?,
            checks: make.gauges("nuggetd_check_ok", "1 while this check of /ready holds.", &["check"])?,
            poll_age: make
                .gauge("nuggetd_poll_age_seconds", "Since the poll thread last gave a sign of life.")?,
            intake_age: make
                .gauge("nuggetd_intake_age_seconds", "Since the intake thread last gave a sign of life.")?,
            queue_records: make.gauge("nuggetd_queue_records", "Records between poll and intake.")?,
            queue_bytes: make
                .gauge("nuggetd_queue_bytes", "Bytes of the records between poll and intake.")?,
            open_requests: make
                .gauge("nuggetd_open_requests", "Requests that wait for items or for their run.")?,
            runs_in_progress: make
                .gauge("nuggetd_request_runs_in_progress", "Runs of requests in progress.")?,
            runs_waiting: make
                .gauge("nuggetd_request_runs_waiting", "Runs of requests that wait for a worker.")?,
            index_shards: make.gauge("nuggetd_index_shards", "Shards on disk.")?,
            index_documents: make.gauge("nuggetd_index_documents", "Documents in all shards.")?,
            index_segments: make.gauge("nuggetd_index_segments", "Segments in all shards.")?,
            index_bytes: make.gauge("nuggetd_index_bytes", "Bytes of all shards on disk.")?,
            last_commit: make.gauge(
                "nuggetd_index_last_commit_timestamp_seconds",
                "When the last commit ended well; 0 before the first.",
            )?,
            outbox_batches: make.gauge("nuggetd_outbox_batches", "Results that wait to be published.")?,
            outbox_records: make.gauge("nuggetd_outbox_records", "Records in the results that wait.")?,
            last_publish: make.gauge(
                "nuggetd_last_publish_timestamp_seconds",
                "When the broker last confirmed a result; 0 before the first.",
            )?,
            free_bytes: make.gauge(
                "nuggetd_data_dir_free_bytes",
                "Free bytes on the disk of data_dir; 0 before it was looked at.",
            )?,
        })
    }

    fn refresh(&self, state: &StateView) {
        self.lag.reset();
        for (topic, partitions) in &state.assignment {
            for (partition, view) in partitions {
                let Some(lag) = view.lag else { continue };
                self.lag.with_label_values(&[topic.as_str(), &partition.to_string()]).set(lag as f64);
            }
        }
        self.watermark_lag.reset();
        for (event, view) in &state.watermarks {
            self.watermark_lag.with_label_values(&[event.as_str()]).set(view.lag_seconds as f64);
        }
        for reason in Pause::ALL {
            let paused = state.paused.contains_key(reason.as_str());
            self.paused.with_label_values(&[reason.as_str()]).set(f64::from(u8::from(paused)));
        }
        for check in &state.checks {
            self.checks.with_label_values(&[check.name]).set(f64::from(u8::from(check.ok)));
        }
        let age = |heart: Heart| state.heartbeats.get(heart.as_str()).map_or(0.0, |view| view.age_seconds);
        self.poll_age.set(age(Heart::Poll));
        self.intake_age.set(age(Heart::Intake));
        self.queue_records.set(state.queue.records as f64);
        self.queue_bytes.set(state.queue.bytes as f64);
        self.open_requests.set(state.open_requests.len() as f64);
        self.runs_in_progress.set(state.runs.running as f64);
        self.runs_waiting.set(state.runs.waiting as f64);
        self.index_shards.set(state.index.shards as f64);
        self.index_documents.set(state.index.documents as f64);
        self.index_segments.set(state.index.segments as f64);
        self.index_bytes.set(state.index.bytes as f64);
        self.last_commit.set(state.last_commit.unwrap_or(0) as f64);
        self.outbox_batches.set(state.outbox.batches as f64);
        self.outbox_records.set(state.outbox.records as f64);
        self.last_publish.set(state.last_publish.unwrap_or(0) as f64);
        self.free_bytes.set(state.free_bytes.unwrap_or(0) as f64);
    }
}

/// Makes metrics and registers them.
struct Maker<'a>(&'a Registry);

impl Maker<'_> {
    fn counter(&self, name: &str, help: &str) -> Result<IntCounter, Error> {
        self.registered(IntCounter::new(name, help)?)
    }

    fn counters(&self, name: &str, help: &str, labels: &[&str]) -> Result<IntCounterVec, Error> {
        self.registered(IntCounterVec::new(Opts::new(name, help), labels)?)
    }

    fn gauge(&self, name: &str, help: &str) -> Result<Gauge, Error> {
        self.registered(Gauge::new(name, help)?)
    }

    fn gauges(&self, name: &str, help: &str, labels: &[&str]) -> Result<GaugeVec, Error> {
        self.registered(GaugeVec::new(Opts::new(name, help), labels)?)
    }

    fn histogram(&self, name: &str, help: &str, buckets: &[f64]) -> Result<Histogram, Error> {
        let options = HistogramOpts::new(name, help).buckets(buckets.to_vec());
        self.registered(Histogram::with_opts(options)?)
    }

    fn histograms(&self, name: &str, help: &str, labels: &[&str]) -> Result<HistogramVec, Error> {
        let options = HistogramOpts::new(name, help).buckets(DURATIONS.to_vec());
        self.registered(HistogramVec::new(options, labels)?)
    }

    fn registered<C: Collector + Clone + 'static>(&self, metric: C) -> Result<C, Error> {
        self.0.register(Box::new(metric.clone()))?;
        Ok(metric)
    }
}

#[cfg(test)]
mod tests;
