//! When a request closes: event time alone decides, so a replay and a live run decide alike.
//!
//! An event's watermark is the largest time of its items that lie in one of its requests, minus `out_of_orderness`. A
//! request closes when the watermark passes its end plus `lateness`. Items outside every request do not move it: one
//! wrong clock would close everything.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::model::{Event, EventId, RequestId, Seconds, UnixSeconds};

/// When requests run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ScheduleConfig {
    /// How long after its end a request still waits for items, in event time.
    pub lateness: Seconds,
    /// How far the items of an event may come out of order, in event time.
    pub out_of_orderness: Seconds,
    /// Whether a request runs once more for items that came after it closed.
    pub revise_late: bool,
    /// The daemon closes the requests of an event whose end lies before now once nothing came for so long and its
    /// partitions are read to their end; at least 1s. As good as never is `"3650d"`.
    pub idle: Seconds,
    /// How often the daemon runs an open request that has new items; 0 = only when it closes.
    pub refresh: Seconds,
    /// How many requests of different events the daemon runs at once.
    #[schemars(range(min = 1, max = 64))]
    pub workers: usize,
}

impl Default for ScheduleConfig {
    fn default() -> Self {
        Self {
            lateness: Seconds(300),
            out_of_orderness: Seconds(60),
            revise_late: false,
            idle: Seconds(900),
            refresh: Seconds(0),
            workers: 2,
        }
    }
}

/// For each event, the largest item time seen.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Watermarks(BTreeMap<EventId, UnixSeconds>);

struct Pending {
    request: RequestId,
    start: UnixSeconds,
    end: UnixSeconds,
}

/// Which requests are open, by event.
pub struct Schedule {
    config: ScheduleConfig,
    latest: Watermarks,
    /// The open requests, the first to close last.
    open: BTreeMap<EventId, Vec<Pending>>,
}

impl Schedule {
    /// All requests of the events are open, but for those that `latest` has closed already.
    pub fn new<'a>(
        events: impl IntoIterator<Item = &'a Event>,
        config: ScheduleConfig,
        latest: Watermarks,
    ) -> Self {
        let mut schedule = Self { config, latest, open: BTreeMap::new() };
        for event in events {
            schedule.set_event(event);
            schedule.due(&event.id);
        }
        schedule
    }

    /// All requests of the event are open, whatever was said of it before; what its watermark closes is due at once.
    pub fn set_event(&mut self, event: &Event) {
        let mut pending: Vec<Pending> = event
            .requests
            .iter()
            .map(|request| Pending { request: request.id.clone(), start: request.start, end: request.end })
            .collect();
        pending.sort_by(|a, b| (b.end, b.start, &b.request).cmp(&(a.end, a.start, &a.request)));
        self.open.insert(event.id.clone(), pending);
    }

    /// Forgets which requests of the event are open; its watermark stays.
    pub fn forget(&mut self, event: &EventId) {
        self.open.remove(event);
    }

    /// Notes an item that lies in one of the event's requests.
    pub fn observe(&mut self, event: &EventId, time: UnixSeconds) {
        match self.latest.0.get_mut(event) {
            Some(latest) => *latest = time.max(*latest),
            None => {
                self.latest.0.insert(event.clone(), time);
            }
        }
    }

    /// The requests of the event that the watermark closes now, in the order of their ends. Each is given once.
    pub fn due(&mut self, event: &EventId) -> Vec<RequestId> {
        let mut due = Vec::new();
        let (Some(latest), Some(open)) = (self.latest.0.get(event), self.open.get_mut(event)) else {
            return due;
        };
        let watermark = latest.get() - self.config.out_of_orderness.0;
        while let Some(next) = open.last() {
            if watermark <= next.end.get() + self.config.lateness.0 {
                break;
            }
            due.extend(open.pop().map(|pending| pending.request));
        }
        due
    }

    /// The requests of the event whose end lies before `now`. Each is given once.
    pub fn past(&mut self, event: &EventId, now: UnixSeconds) -> Vec<RequestId> {
        let mut past = Vec::new();
        let Some(open) = self.open.get_mut(event) else { return past };
        while open.last().is_some_and(|next| next.end < now) {
            past.extend(open.pop().map(|pending| pending.request));
        }
        past
    }

    /// Closes every request of the event that is left: the event has ended.
    pub fn close_event(&mut self, event: &EventId) -> Vec<RequestId> {
        let open = self.open.get_mut(event).map(std::mem::take).unwrap_or_default();
        open.into_iter().rev().map(|pending| pending.request).collect()
    }

    /// The event's requests that wait for items.
    pub fn open(&self, event: &EventId) -> Vec<RequestId> {
        let open = self.open.get(event).into_iter().flatten();
        open.rev().map(|pending| pending.request.clone()).collect()
    }

    /// Up to when everything of the event is believed to have been seen; nothing before its first item.
    pub fn watermark(&self, event: &EventId) -> Option<i64> {
        self.latest.0.get(event).map(|latest| latest.get() - self.config.out_of_orderness.0)
    }

    /// Closes every request that is left: the stream has ended.
    pub fn close_all(&mut self) -> Vec<(EventId, RequestId)> {
        let mut due = Vec::new();
        for (event, open) in &mut self.open {
            due.extend(open.drain(..).rev().map(|pending| (event.clone(), pending.request)));
        }
        due
    }

    /// Whether the request waits for items no more.
    pub fn is_closed(&self, event: &EventId, request: &RequestId) -> bool {
        let open = self.open.get(event);
        !open.is_some_and(|open| open.iter().any(|pending| pending.request == *request))
    }

    /// What a restart begins with.
    pub fn watermarks(&self) -> &Watermarks {
        &self.latest
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Request;

    const DAY: i64 = 86_400;
    const START: i64 = 1_512_604_800;

    fn event(days: i64) -> Event {
        let at = |seconds| UnixSeconds::new(seconds).unwrap();
        Event {
            id: EventId::new("E-1").unwrap(),
            title: String::new(),
            dataset: None,
            kind: None,
            description: None,
            url: None,
            language: None,
            keywords: Vec::new(),
            queries: Vec::new(),
            requests: (0..days)
                .map(|day| Request {
                    id: RequestId::new(format!("E-1-r{day}")).unwrap(),
                    start: at(START + day * DAY),
                    end: at(START + (day + 1) * DAY - 1),
                    date: None,
                })
                .collect(),
        }
    }

    fn schedule(lateness: i64, out_of_orderness: i64) -> (Schedule, EventId) {
        let config = ScheduleConfig {
            lateness: Seconds(lateness),
            out_of_orderness: Seconds(out_of_orderness),
            ..ScheduleConfig::default()
        };
        (Schedule::new([&event(3)], config, Watermarks::default()), EventId::new("E-1").unwrap())
    }

    #[test]
    fn a_request_closes_when_the_watermark_passes_its_end_and_lateness() {
        let (mut schedule, id) = schedule(100, 10);
        let end = START + DAY - 1;
        schedule.observe(&id, UnixSeconds::new(end + 110).unwrap());
        assert!(schedule.due(&id).is_empty(), "the watermark is at the bound, not past it");
        schedule.observe(&id, UnixSeconds::new(end + 111).unwrap());
        assert_eq!(schedule.due(&id), [RequestId::new("E-1-r0").unwrap()]);
        assert!(schedule.due(&id).is_empty(), "given once");
        assert!(schedule.is_closed(&id, &RequestId::new("E-1-r0").unwrap()));
        assert!(!schedule.is_closed(&id, &RequestId::new("E-1-r1").unwrap()));
    }

    #[test]
    fn an_earlier_item_does_not_turn_the_watermark_back() {
        let (mut schedule, id) = schedule(0, 0);
        schedule.observe(&id, UnixSeconds::new(START + 2 * DAY).unwrap());
        schedule.observe(&id, UnixSeconds::new(START).unwrap());
        assert_eq!(schedule.due(&id).len(), 2);
    }

    #[test]
    fn the_end_of_the_stream_closes_the_rest_in_order() {
        let (mut schedule, id) = schedule(0, 0);
        schedule.observe(&id, UnixSeconds::new(START + DAY).unwrap());
        assert_eq!(schedule.due(&id).len(), 1);
        let rest: Vec<String> = schedule.close_all().iter().map(|(_, request)| request.to_string()).collect();
        assert_eq!(rest, ["E-1-r1", "E-1-r2"]);
        assert!(schedule.close_all().is_empty());
    }

    #[test]
    fn a_quiet_event_closes_what_lies_before_now_and_an_ended_one_the_rest() {
        let (mut schedule, id) = schedule(100, 10);
        schedule.observe(&id, UnixSeconds::new(START + 5).unwrap());
        assert!(
            schedule.past(&id, UnixSeconds::new(START + DAY - 1).unwrap()).is_empty(),
            "now is its last second"
        );
        assert_eq!(
            schedule.past(&id, UnixSeconds::new(START + DAY).unwrap()),
            [RequestId::new("E-1-r0").unwrap()]
        );
        assert!(schedule.past(&id, UnixSeconds::new(START + DAY).unwrap()).is_empty(), "given once");
        let rest: Vec<String> = schedule.close_event(&id).iter().map(ToString::to_string).collect();
        assert_eq!(rest, ["E-1-r1", "E-1-r2"]);
        assert!(schedule.open(&id).is_empty());
    }

    #[test]
    fn what_is_set_anew_is_open_and_due_by_its_watermark() {
        let (mut schedule, id) = schedule(0, 0);
        schedule.observe(&id, UnixSeconds::new(START + DAY).unwrap());
        assert_eq!(schedule.due(&id).len(), 1);
        schedule.forget(&id);
        assert!(schedule.due(&id).is_empty() && schedule.open(&id).is_empty());
        schedule.set_event(&event(3));
        assert_eq!(schedule.due(&id), [RequestId::new("E-1-r0").unwrap()]);
        assert_eq!(schedule.watermark(&id), Some(START + DAY));
    }

    #[test]
    fn a_restart_knows_what_is_closed() {
        let (mut first, id) = schedule(0, 0);
        first.observe(&id, UnixSeconds::new(START + DAY).unwrap());
        first.due(&id);
        let mut second = Schedule::new([&event(3)], first.config.clone(), first.watermarks().clone());
        assert!(second.is_closed(&id, &RequestId::new("E-1-r0").unwrap()));
        assert!(second.due(&id).is_empty());
        assert_eq!(second.close_all().len(), 2);
    }
}
