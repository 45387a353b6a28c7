//! What the process is doing right now, told by every room and read by the endpoints.
//!
//! Kept true: what is told of a partition that has gone changes nothing, so a late word from the intake cannot bring it
//! back; ready means that every check holds and the process is running; a lock that a dying thread left behind is taken
//! over, since a probe must get its answer above all then.

use std::{
    collections::BTreeMap,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use super::{
    labels::{Check, Heart, Pause, Phase},
    state::{
        CheckView, HeartView, IndexSize, OpenRequest, Outbox, PartitionView, Queue, Runs, StateView,
        WatermarkView,
    },
};
use crate::model::EventId;

/// A heart that has ended as it should.
const AT_REST: u64 = u64::MAX;

/// How long a thread may be silent before the process counts as dead.
#[derive(Debug, Clone, Copy)]
pub struct HeartLimits {
    /// The poll thread.
    pub poll: Duration,
    /// The intake thread; longer than the longest commit.
    pub intake: Duration,
}

/// What is, shared between all threads.
pub struct Status {
    instance: String,
    started: i64,
    born: Instant,
    limits: HeartLimits,
    /// Milliseconds from `born` to the last beat.
    poll: AtomicU64,
    intake: AtomicU64,
    told: Mutex<Told>,
}

struct Told {
    phase: Phase,
    checks: BTreeMap<Check, (bool, String)>,
    assignment: BTreeMap<String, BTreeMap<i32, PartitionView>>,
    watermarks: BTreeMap<EventId, i64>,
    open_requests: Vec<OpenRequest>,
    runs: Runs,
    outbox: Outbox,
    queue: Queue,
    paused: BTreeMap<Pause, String>,
    index: IndexSize,
    last_commit: Option<i64>,
    last_publish: Option<i64>,
    free_bytes: Option<u64>,
}

impl Status {
    /// Of a process that starts now; no check holds yet.
    pub fn new(instance: impl Into<String>, limits: HeartLimits) -> Self {
        let unknown = |&check: &Check| (check, (false, "nothing known yet".to_owned()));
        Self {
            instance: instance.into(),
            started: unix_now(),
            born: Instant::now(),
            limits,
            poll: AtomicU64::new(0),
            intake: AtomicU64::new(0),
            told: Mutex::new(Told {
                phase: Phase::Starting,
                checks: Check::ALL.iter().map(unknown).collect(),
                assignment: BTreeMap::new(),
                watermarks: BTreeMap::new(),
                open_requests: Vec::new(),
                runs: Runs::default(),
                outbox: Outbox::default(),
                queue: Queue::default(),
                paused: BTreeMap::new(),
                index: IndexSize::default(),
                last_commit: None,
                last_publish: None,
                free_bytes: None,
            }),
        }
    }

    /// Enters a phase of the process's life.
    pub fn set_phase(&self, phase: Phase) {
        self.told().phase = phase;
    }

    /// The thread is alive. Costs one atomic store.
    pub fn beat(&self, heart: Heart) {
        let since_birth = u64::try_from(self.born.elapsed().as_millis()).unwrap_or(AT_REST - 1);
        self.heart(heart).store(since_birth, Ordering::Relaxed);
    }

    /// The thread ends as it should: it is not missed from now on.
    pub fn rest(&self, heart: Heart) {
        self.heart(heart).store(AT_REST, Ordering::Relaxed);
    }

    /// Whether a check holds, and why. Gives whether that is news.
    pub fn set_check(&self, check: Check, ok: bool, detail: impl Into<String>) -> bool {
        let before = self.told().checks.insert(check, (ok, detail.into()));
        before.is_none_or(|(held, _)| held != ok)
    }

    /// A partition came to this instance.
    pub fn assign_partition(&self, topic: &str, partition: i32) {
        self.told().assignment.entry(topic.to_owned()).or_default().entry(partition).or_default();
    }

    /// A partition left this instance; its series disappear.
    pub fn forget_partition(&self, topic: &str, partition: i32) {
        let mut told = self.told();
        let Some(partitions) = told.assignment.get_mut(topic) else { return };
        partitions.remove(&partition);
        if partitions.is_empty() {
            told.assignment.remove(topic);
        }
    }

    /// The next record that the intake takes of a partition.
    pub fn set_next_offset(&self, topic: &str, partition: i32, next_offset: i64) {
        self.change(topic, partition, |view| view.next_offset = Some(next_offset));
    }

    /// Where a partition ends at the broker.
    pub fn set_high_watermark(&self, topic: &str, partition: i32, high_watermark: i64) {
        self.change(topic, partition, |view| view.high_watermark = Some(high_watermark));
    }

    /// Up to where a partition is in the shards and in the ledger.
    pub fn set_committed(&self, topic: &str, partition: i32, next_offset: i64) {
        self.change(topic, partition, |view| view.committed_offset = Some(next_offset));
    }

    /// How far an event's time has come, in Unix seconds.
    pub fn set_watermark(&self, event: &EventId, watermark: i64) {
        self.told().watermarks.insert(event.clone(), watermark);
    }

    /// An event ended or went to another instance: nothing is said of it any longer.
    pub fn forget_event(&self, event: &EventId) {
        let mut told = self.told();
        told.watermarks.remove(event);
        told.open_requests.retain(|open| open.event != *event);
    }

    /// All open requests, in place of those told before.
    pub fn set_open_requests(&self, open: Vec<OpenRequest>) {
        self.told().open_requests = open;
    }

    /// Runs in progress and waiting.
    pub fn set_runs(&self, runs: Runs) {
        self.told().runs = runs;
    }

    /// What waits to be published.
    pub fn set_outbox(&self, outbox: Outbox) {
        self.told().outbox = outbox;
    }

    /// What waits between poll and intake.
    pub fn set_queue(&self, queue: Queue) {
        self.told().queue = queue;
    }

    /// Items are not taken for this reason, until [`Self::resume`].
    pub fn pause(&self, reason: Pause, explanation: impl Into<String>) {
        self.told().paused.insert(reason, explanation.into());
    }

    /// The reason holds no longer.
    pub fn resume(&self, reason: Pause) {
        self.told().paused.remove(&reason);
    }

    /// A commit ended well just now, and left the shards at this size.
    pub fn committed(&self, size: IndexSize) {
        let mut told = self.told();
        told.index = size;
        told.last_commit = Some(unix_now());
    }

    /// The broker confirmed a batch just now.
    pub fn published(&self) {
        self.told().last_publish = Some(unix_now());
    }

    /// Free bytes on the disk of `data_dir`.
    pub fn set_free_bytes(&self, free: u64) {
        self.told().free_bytes = Some(free);
    }

    /// Every check, the process's phase last.
    pub fn checks(&self) -> Vec<CheckView> {
        self.told().checks()
    }

    /// The threads that `/live` watches.
    pub fn heartbeats(&self) -> BTreeMap<&'static str, HeartView> {
        self.heartbeats_at(Instant::now())
    }

    /// Everything, as of now.
    pub fn view(&self) -> StateView {
        let heartbeats = self.heartbeats();
        let now = unix_now();
        let told = self.told();
        let checks = told.checks();
        StateView {
            version: env!("CARGO_PKG_VERSION"),
            instance: self.instance.clone(),
            started: self.started,
            phase: told.phase,
            ready: checks.iter().all(|check| check.ok),
            checks,
            heartbeats,
            assignment: told.assignment.clone(),
            watermarks: told
                .watermarks
                .iter()
                .map(|(event, &watermark)| {
                    (event.clone(), WatermarkView { watermark, lag_seconds: now - watermark })
                })
                .collect(),
            open_requests: told.open_requests.clone(),
            runs: told.runs,
            outbox: told.outbox,
            queue: told.queue,
            paused: told.paused.iter().map(|(reason, text)| (reason.as_str(), text.clone())).collect(),
            index: told.index,
            last_commit: told.last_commit,
            last_publish: told.last_publish,
            free_bytes: told.free_bytes,
        }
    }

    fn heartbeats_at(&self, now: Instant) -> BTreeMap<&'static str, HeartView> {
        let view = |&heart: &Heart| {
            let limit = match heart {
                Heart::Poll => self.limits.poll,
                Heart::Intake => self.limits.intake,
            };
            let age = match self.heart(heart).load(Ordering::Relaxed) {
                AT_REST => Duration::ZERO,
                beat => now.saturating_duration_since(self.born).saturating_sub(Duration::from_millis(beat)),
            };
            let view = HeartView {
                age_seconds: age.as_secs_f64(),
                limit_seconds: limit.as_secs_f64(),
                late: age > limit,
            };
            (heart.as_str(), view)
        };
        Heart::ALL.iter().map(view).collect()
    }

    fn heart(&self, heart: Heart) -> &AtomicU64 {
        match heart {
            Heart::Poll => &self.poll,
            Heart::Intake => &self.intake,
        }
    }

    fn change(&self, topic: &str, partition: i32, change: impl FnOnce(&mut PartitionView)) {
        let mut told = self.told();
        let Some(view) = told.assignment.get_mut(topic).and_then(|of_topic| of_topic.get_mut(&partition))
        else {
            return;
        };
        change(view);
        // The end is asked for now and then, so the intake can be ahead of what is known of it
        view.lag = view.high_watermark.zip(view.next_offset).map(|(end, next)| (end - next).max(0));
    }

    fn told(&self) -> MutexGuard<'_, Told> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Told {
    fn checks(&self) -> Vec<CheckView> {
        let mut checks: Vec<CheckView> = self
            .checks
            .iter()
            .map(|(&check, (ok, detail))| match self.stop().filter(|_| check == Check::Intake) {
                Some((reason, text)) => CheckView::new(check, false, format!("{}: {text}", reason.as_str())),
                None => CheckView::new(check, *ok, detail.clone()),
            })
            .collect();
        checks.push(CheckView {
            name: "phase",
            ok: self.phase == Phase::Running,
            detail: self.phase.as_str().to_owned(),
        });
        checks
    }

    /// The pause that needs an operator, where there is one; a full queue passes by itself.
    fn stop(&self) -> Option<(Pause, &String)> {
        [Pause::Flood, Pause::Disk].into_iter().find_map(|reason| Some((reason, self.paused.get(&reason)?)))
    }
}

/// Seconds since 1970; 0 where the clock stands before that.
pub(super) fn unix_now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_secs()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests;
