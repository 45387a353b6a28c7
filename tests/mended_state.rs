//! After a repair the stream is read again, and the shards hold exactly its items.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod support;

use nuggetd::{
    model::{Item, RequestState, RequestStatus, Seconds},
    schedule::ScheduleConfig,
    upkeep::{Partitions, Rebuild, Reset, put_ledger_aside},
};
use support::{
    DAY, START,
    site::{Running, Site, TOPIC, item, key},
};

/// One that closes nothing.
fn site() -> Site {
    Site::new(ScheduleConfig { lateness: Seconds(30 * DAY), ..ScheduleConfig::default() })
}

/// A topic of two partitions: in each, items of both days take turns.
fn topic(per_partition: u64) -> Vec<(i32, u64, Item)> {
    let mut records = Vec::new();
    for offset in 0..per_partition {
        for partition in [0, 1] {
            let day = i64::try_from(offset % 2).unwrap();
            let number = offset * 2 + u64::try_from(partition).unwrap();
            records.push((partition, offset, item(number, START + day * DAY)));
        }
    }
    records
}

/// Both shards hold the topic's items, each once.
fn assert_exact(site: &Site, records: &[(i32, u64, Item)]) {
    for (request, day) in [("E-1-r0", 0), ("E-1-r1", 1)] {
        let of_day = records.iter().filter(|(_, offset, _)| offset % 2 == day);
        let mut expected: Vec<u64> =
            of_day.map(|(partition, offset, _)| offset * 2 + u64::try_from(*partition).unwrap()).collect();
        expected.sort_unstable();
        assert_eq!(site.held(request), expected, "{request}");
    }
}

/// Reads the partitions from where the intake wants them, the second one first: its shards commit while the other
/// partition stands before what they have. Gives how many items were read again.
fn read(running: &mut Running, records: &[(i32, u64, Item)]) -> u64 {
    let starts = [0, 1].map(|partition| {
        let first = running.intake.lowest_first(TOPIC, partition, false);
        (partition, running.intake.next_offset(TOPIC, partition).or(first).unwrap_or(0))
    });
    running.assign(&starts);
    for (partition, start) in starts.into_iter().rev() {
        for (_, offset, item) in records.iter().filter(|(of, at, _)| *of == partition && *at >= start) {
            running.take(partition, *offset, item.clone());
        }
        running.commit();
    }
    running.intake.take_tally().again
}

#[test]
fn a_rebuilt_shard_has_its_items_and_the_others_keep_theirs() {
    let (site, records) = (site(), topic(30));
    assert_eq!(read(&mut site.start(), &records), 0);
    assert_exact(&site, &records);
    let (event, request) = key("E-1-r1");
    let rebuild = Rebuild::apply(&site.state(), &event, Some(&request)).unwrap();
    assert!(rebuild.unplaced.is_empty());
    let back: Vec<_> =
        rebuild.partitions.iter().map(|again| (again.partition, again.from, again.to)).collect();
    assert_eq!(back, [(0, 30, 1), (1, 30, 1)]);
    // More has come meanwhile; the daemon is killed when it has read one partition
    let records = topic(40);
    let of_second: Vec<_> = records.iter().filter(|record| record.0 == 1).cloned().collect();
    assert!(read(&mut site.start(), &of_second) > 0);
    assert!(read(&mut site.start(), &records) > 0);
    assert_exact(&site, &records);
}

#[test]
fn without_its_ledger_a_daemon_takes_nothing_twice() {
    let (site, records) = (site(), topic(30));
    let mut first = site.start();
    read(&mut first, &records);
    let published = first.published();
    drop(first);
    assert_eq!(published.len(), 4, "two requests, told of again as the other partition had its first item");
    put_ledger_aside(&site.state()).unwrap();
    let records = topic(40);
    let mut second = site.start();
    second.learn(&published);
    assert_eq!(second.intake.lowest_first(TOPIC, 0, false), Some(0));
    assert_eq!(read(&mut second, &records), 60);
    assert_exact(&site, &records);
}

#[test]
fn without_ledger_and_topics_a_daemon_takes_nothing_twice() {
    let (site, records) = (site(), topic(30));
    read(&mut site.start(), &records);
    put_ledger_aside(&site.state()).unwrap();
    assert_eq!(read(&mut site.start(), &records), 60);
    assert_exact(&site, &records);
}

#[test]
fn after_a_reset_the_new_topic_is_read_from_its_beginning() {
    let (site, old) = (site(), topic(30));
    let mut first = site.start();
    read(&mut first, &old);
    // What is published says where the first items stood in the old topic
    let mut published = first.published();
    for status in &mut published {
        (status.state, status.revision) = (RequestState::Interim, Some(0));
    }
    let last_of_each: Vec<RequestStatus> = published.split_off(published.len() - 2);
    first.learn(&last_of_each);
    assert_eq!(first.intake.lowest_first(TOPIC, 1, false), Some(0));
    drop(first);
    let of = Partitions { topic: Some(TOPIC.to_owned()), partition: None };
    let reset = Reset::apply(&site.state(), &of).unwrap();
    assert_eq!((reset.shards.len(), reset.ledger.positions.len(), reset.ledger.requests.len()), (2, 2, 2));
    let mut second = site.start();
    second.learn(&last_of_each);
    for partition in [0, 1] {
        assert_eq!(second.intake.next_offset(TOPIC, partition), None);
        assert_eq!(second.intake.lowest_first(TOPIC, partition, false), None);
    }
    // The new topic is shorter and holds other items
    let new: Vec<_> = (0..10).map(|offset| (0, offset, item(1000 + offset, START))).collect();
    assert_eq!(read(&mut second, &new), 0);
    assert_eq!(site.held("E-1-r0").len(), 30 + 10);
    assert_eq!(site.held("E-1-r1").len(), 30);
    // What is told from now on is believed
    let told = second.published();
    assert_eq!(told.last().unwrap().first.iter().collect::<Vec<_>>(), [(TOPIC, 0, 0)]);
}
