//! What a daemon knows of requests outlives restarts, and partitions that come while others stay.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod support;

use std::time::Instant;

use nuggetd::{
    intake::Due,
    model::{Method, RequestRecord, RequestState, RequestStatus, Seconds, UnixSeconds},
    schedule::ScheduleConfig,
};
use support::{
    DAY, START,
    site::{NoLetters, Running, Site, TOPIC, item, key},
};

/// Days close as soon as the next one begins, and are run again for late items at the next tick.
fn site() -> Site {
    Site::new(ScheduleConfig {
        lateness: Seconds(0),
        out_of_orderness: Seconds(0),
        idle: Seconds(0),
        revise_late: true,
        ..ScheduleConfig::default()
    })
}

/// Runs a request that is due, with no nuggets.
fn run(running: &Running, due: &Due) {
    let items = due.snapshot.as_ref().map_or(0, |snapshot| snapshot.items().into());
    let record = RequestRecord { items, ..RequestRecord::nothing(&due.key, due.revision, Method::Greedy) };
    assert!(running.ledger.lock().unwrap().finish_request(&record, due.cutoff, &[], None).unwrap());
}

/// What the clock makes due, as (request, revision, items), before any day is over by the clock.
fn tick(running: &mut Running) -> Vec<(String, u32, u32)> {
    let wall = UnixSeconds::new(START).unwrap();
    let due = running.intake.tick(Instant::now(), wall, &mut NoLetters).unwrap();
    due.into_iter().map(|due| (due.key.1.to_string(), due.revision, due.cutoff)).collect()
}

/// Two items of the first day and one of the second, which closes the first; that one is run.
fn first_day(running: &mut Running) {
    running.assign(&[(0, 0)]);
    running.take(0, 0, item(0, START));
    running.take(0, 1, item(1, START));
    let due = running.take(0, 2, item(2, START + DAY));
    assert_eq!(due.len(), 1);
    run(running, &due[0]);
}

#[test]
fn late_items_from_before_a_restart_are_run() {
    let site = site();
    let mut first = site.start();
    first_day(&mut first);
    first.take(0, 3, item(3, START));
    first.commit();
    drop(first);
    let mut second = site.start();
    second.assign(&[(0, 4)]);
    assert_eq!(tick(&mut second), [("E-1-r0".to_owned(), 1, 3)]);
    assert_eq!(tick(&mut second), [], "once");
}

#[test]
fn late_items_are_run_although_another_partition_comes() {
    let site = site();
    let mut running = site.start();
    first_day(&mut running);
    running.take(0, 3, item(3, START));
    running.learn(&[]);
    running.assign(&[(1, 0)]);
    assert_eq!(tick(&mut running), [("E-1-r0".to_owned(), 1, 3)]);
}

#[test]
fn where_a_request_begins_is_not_forgotten_when_another_partition_comes() {
    let site = site();
    let mut running = site.start();
    running.assign(&[(0, 0), (1, 0)]);
    running.take(0, 0, item(0, START));
    running.commit();
    running.take(1, 5, item(1, START));
    running.learn(&[]);
    running.take(1, 6, item(2, START));
    running.commit();
    let request = running.ledger.lock().unwrap().request(&key("E-1-r0")).unwrap().unwrap();
    assert_eq!(request.first.iter().collect::<Vec<_>>(), [(TOPIC, 0, 0), (TOPIC, 1, 5)]);
}

#[test]
fn a_request_that_another_instance_has_open_closes_here_although_it_had_closed() {
    let site = site();
    let mut running = site.start();
    running.assign(&[(0, 0), (1, 0)]);
    running.take(1, 0, item(9, START));
    running.take(0, 0, item(0, START));
    let due = running.take(0, 1, item(1, START + DAY));
    run(&running, &due[0]);
    running.commit();
    let told: Vec<RequestStatus> = running.published();
    let mut theirs = told.into_iter().rfind(|status| status.request == key("E-1-r0").1).unwrap();
    // While partition 1 was elsewhere, its items were run once more
    (theirs.state, theirs.revision) = (RequestState::Interim, Some(1));
    let record = RequestRecord::nothing(&key("E-1-r0"), 1, Method::Greedy);
    theirs.run = Some(RequestRecord { items: 2, ..record });
    running.learn(&[theirs]);
    running.assign(&[(1, 1)]);
    assert_eq!(tick(&mut running), [("E-1-r0".to_owned(), 2, 2)]);
}
