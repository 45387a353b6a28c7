//! Invariants 1 and 2 under SIGKILL: while items of real texts stream in and requests are run in between, the daemon is
//! killed again and again; afterwards the shards hold exactly the accepted items, and the topic what a replay gives.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod support;

use std::time::{Duration, Instant};

use support::{
    Folder,
    kafka::{Broker, Daemon, DaemonConfig, Ended, topic},
    storm::{
        Archive, Random, Size, await_finished, check_dead_letters, check_nuggets, live_for, shard, size,
    },
};

#[test]
fn no_item_is_lost_and_nothing_said_twice_whenever_the_daemon_is_killed() {
    let Some(broker) = Broker::shared() else { return };
    let size = size(Size { items: 20_000, kills: 12 }, Size { items: 200_000, kills: 50 });
    let began = Instant::now();
    let folder = Folder::new();
    let archive = Archive::new(&folder, 6, size.items);
    let expected = archive.expected(&folder, &[]);
    let client = broker.client();
    let items = topic("items");
    client.create_topic(&items, 4, &[]);
    let config = DaemonConfig::new(client.address(), &folder.path("data"))
        .source(&items, "crisisfacts")
        .event_file(&archive.event_file)
        .set(&[
            "kafka.group_instance_id=one",
            "kafka.consumer.session.timeout.ms=10000",
            "schedule.refresh=1s",
            "schedule.idle=3s",
            "index.commit_interval=1s",
            "index.commit_items=2000",
        ]);
    client.create_topic(&config.nuggets, 1, &[("cleanup.policy", "compact")]);

    // The stream lasts about as long as the killing
    let sending = archive.send(&client, &items, Duration::from_millis(2_500 * size.kills as u64));
    let mut random = Random::new(41);
    for _ in 0..size.kills {
        let mut daemon = Daemon::start(&config);
        live_for(random.between(200, 4_500), [&mut daemon]);
        daemon.kill();
    }
    let sent_after = began.elapsed();
    sending.join().unwrap();
    let mut daemon = Daemon::start(&config);
    await_finished([&mut daemon], 4, Duration::from_secs(5));
    assert_eq!(daemon.stop(), Ended::Code(0));
    let finished_after = began.elapsed();

    for event in &archive.events {
        for day in 0..3 {
            assert_eq!(
                shard(&config, event, day).as_deref(),
                Some(&archive.of_request(event, day)[..]),
                "{event} {day}"
            );
        }
    }
    let published = check_nuggets(&client, &config, &expected);
    let letters = check_dead_letters(&client, &config, &archive);
    assert!(published.largest_revision > 0, "requests were run in between");
    eprintln!(
        "crash storm: {} kills, {} starts, {} items, {} events, {published}, {letters}, {} s under kills, {} s until all was run",
        size.kills,
        size.kills + 1,
        size.items,
        archive.events.len(),
        sent_after.as_secs(),
        finished_after.as_secs()
    );
}
