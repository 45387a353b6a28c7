//! An instance that is told to end while the group hands it more partitions leaves at once, in both protocols of a group.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod support;

use std::{
    thread,
    time::{Duration, Instant},
};

use support::{
    Folder,
    kafka::{Broker, Daemon, DaemonConfig, Ended, Record, wait_until},
    live::{LIMIT, days, hold_ledger, item},
    storm::assigned,
};

const PARTITIONS: i32 = 4;
const HEARTBEAT: Duration = Duration::from_millis(500);

#[test]
fn an_instance_that_is_offered_more_when_it_is_told_to_end_leaves() {
    let Some(broker) = Broker::shared() else { return };
    let folder = Folder::new();
    let event = folder.write_event("event.json", &days("A", 1));
    for strategy in ["range", "cooperative-sticky"] {
        let items = broker.new_topic("items", PARTITIONS);
        let strategy_setting = format!("kafka.consumer.partition.assignment.strategy={strategy}");
        let config = DaemonConfig::new(broker.address(), &folder.path(strategy))
            .source(&items, "crisisfacts")
            .event_file(&event)
            .set(&[
                "index.commit_items=100",
                "shutdown.grace=60s",
                "kafka.consumer.session.timeout.ms=20000",
                &format!("kafka.consumer.heartbeat.interval.ms={}", HEARTBEAT.as_millis()),
                &strategy_setting,
            ]);
        let mut daemon = Daemon::start(&config);
        let mut other = Daemon::start(&config.instance(&folder.path(&format!("{strategy}-other"))));
        wait_until(LIMIT, "they share the partitions", || {
            [&mut daemon, &mut other].into_iter().all(|daemon| assigned(daemon).len() == 2)
        });
        // It cannot come to closing its consumer before it has committed these
        let ledger = hold_ledger(&config);
        let ours = assigned(&mut daemon)[0];
        broker.produce(&items, (0..2_000).map(|n| Record::json("A", &item("A", n, 1)).in_partition(ours)));
        wait_until(LIMIT, "items are taken", || daemon.metric("nuggetd_items_total", &[]).is_some());
        daemon.signal("TERM");
        wait_until(LIMIT, "it finishes what is under way", || daemon.has_logged("told to end"));
        // The other one's partitions are offered to it, or all of them are asked back, when it no longer polls. Nobody sees
        // from outside that it has heard: that takes one heartbeat
        assert_eq!(other.stop(), Ended::Code(0));
        thread::sleep(3 * HEARTBEAT);
        drop(ledger);
        let ending = Instant::now();
        assert_eq!(daemon.wait(LIMIT), Ended::Code(0), "{strategy}: {}", daemon.log());
        assert!(ending.elapsed() < Duration::from_secs(15), "{strategy}: {:?}", ending.elapsed());
    }
}
