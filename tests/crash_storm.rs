//! Invariants 1 and 2 under SIGKILL: while items of real texts stream in and requests are run in between, the daemon is
//! killed again and again; afterwards the shards hold exactly the accepted items, and the topic what a replay gives.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod support;

use std::{
    thread,
    time::{Duration, Instant},
};

use support::{
    Folder,
    kafka::{Broker, Daemon, DaemonConfig, topic},
    storm::{Archive, Random, Size, await_finished, check_dead_letters, check_nuggets, shard, size},
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
    client.create_topic(&config.nuggets, 1, &[]);

    // The stream lasts about as long as the killing
    let sending = {
        let records: Vec<_> = archive.records().collect();
        let (client, items) = (client.clone(), items.clone());
        let pause = Duration::from_millis(2_500 * size.kills as u64)
            / u32::try_from(records.len() / 100 + 1).unwrap();
        thread::spawn(move || {
            let mut producer = client.producer();
            for (number, record) in records.iter().enumerate() {
                producer.send(&items, record);
                if number % 100 == 99 {
                    thread::sleep(pause);
                }
            }
            producer.flush();
        })
    };
    let mut random = Random::new(41);
    let mut lived = Vec::new();
    for _ in 0..size.kills {
        let daemon = Daemon::start(&config);
        let life = random.between(200, 4_500);
        thread::sleep(life);
        daemon.kill();
        lived.push(life);
    }
    sending.join().unwrap();
    let mut daemon = Daemon::start(&config);
    await_finished([&mut daemon], 4, Duration::from_secs(5));
    daemon.stop();

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
    check_dead_letters(&client, &config, &archive);
    assert!(published.largest_revision > 0, "requests were run in between");
    eprintln!(
        "crash storm: {} kills, {} items, {} events, {published:?}, {} s",
        size.kills,
        size.items,
        archive.events.len(),
        began.elapsed().as_secs()
    );
}
