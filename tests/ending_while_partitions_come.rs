//! An instance that is told to end while the group hands it partitions leaves at once, in both protocols of a group.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod support;

use std::time::{Duration, Instant};

use support::{
    Folder,
    kafka::{Broker, Daemon, DaemonConfig, Ended},
    live::{await_logged, days},
};

/// Asking the broker about each takes long enough for the signal to come before the answer.
const PARTITIONS: i32 = 200;

#[test]
fn an_instance_that_is_offered_partitions_when_it_is_told_to_end_leaves() {
    let Some(broker) = Broker::shared() else { return };
    let folder = Folder::new();
    let items = broker.new_topic("items", PARTITIONS);
    let event = folder.write_event("event.json", &days("A", 1));
    for strategy in ["range", "cooperative-sticky"] {
        let strategy_setting = format!("kafka.consumer.partition.assignment.strategy={strategy}");
        let config = DaemonConfig::new(broker.address(), &folder.path(strategy))
            .source(&items, "crisisfacts")
            .event_file(&event)
            .set(&["log.level=info,nuggetd::feed=debug", "shutdown.grace=60s", &strategy_setting]);
        let mut daemon = Daemon::start(&config);
        await_logged(&mut daemon, "partitions are offered");
        let told = Instant::now();
        assert_eq!(daemon.stop(), Ended::Code(0), "{strategy}: {}", daemon.log());
        assert!(
            !daemon.has_logged("partitions assigned"),
            "{strategy}: the signal came too late to show anything"
        );
        assert!(told.elapsed() < Duration::from_secs(30), "{strategy}: {:?}", told.elapsed());
    }
}
