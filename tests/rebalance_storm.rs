//! Invariants 1 and 2 while partitions move: three instances are ended, killed and started at random; afterwards whoever
//! has a partition holds exactly the accepted items of its requests, and the topic holds what a replay gives.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod support;

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use support::{
    Folder,
    kafka::{Broker, Daemon, DaemonConfig, Ended, topic},
    storm::{
        Archive, Random, Size, assigned, await_finished, check_dead_letters, check_nuggets, live_for, shard,
        size,
    },
};

const INSTANCES: usize = 3;
const PARTITIONS: i32 = 12;

#[test]
fn partitions_that_move_by_range_lose_and_repeat_nothing() {
    storm("range", 7);
}

#[test]
fn partitions_that_move_cooperatively_lose_and_repeat_nothing() {
    storm("cooperative-sticky", 11);
}

fn storm(strategy: &str, seed: u64) {
    let Some(broker) = Broker::shared() else { return };
    let size = size(Size { items: 12_000, kills: 8 }, Size { items: 200_000, kills: 60 });
    let began = Instant::now();
    let folder = Folder::new();
    let archive = Archive::new(&folder, 24, size.items);
    let expected = archive.expected(&folder, &["index.open_shards=64"]);
    let client = broker.client();
    let items = topic("items");
    client.create_topic(&items, PARTITIONS, &[]);
    let strategy_setting = format!("kafka.consumer.partition.assignment.strategy={strategy}");
    let config = DaemonConfig::new(client.address(), &folder.path("one"))
        .source(&items, "crisisfacts")
        .event_file(&archive.event_file)
        .set(&[
            &strategy_setting,
            "kafka.consumer.session.timeout.ms=6000",
            "kafka.consumer.heartbeat.interval.ms=500",
            "schedule.refresh=2s",
            "schedule.idle=4s",
            "index.commit_interval=1s",
            "index.open_shards=64",
        ]);
    client.create_topic(&config.nuggets, 1, &[("cleanup.policy", "compact")]);
    let configs: Vec<DaemonConfig> =
        (0..INSTANCES).map(|number| config.instance(&folder.path(&format!("instance-{number}")))).collect();

    let sending = archive.send(&client, &items, Duration::from_millis(3_000 * size.kills as u64));
    let mut random = Random::new(seed);
    let mut running: BTreeMap<usize, Daemon> = BTreeMap::new();
    let (mut kills, mut ends, mut starts) = (0, 0, 0);
    while kills + ends < size.kills {
        let number = usize::try_from(random.below(INSTANCES as u64)).unwrap();
        match running.remove(&number) {
            None => {
                running.insert(number, Daemon::start(&configs[number]));
                starts += 1;
            }
            Some(daemon) if random.below(2) == 0 => {
                daemon.kill();
                kills += 1;
            }
            Some(mut daemon) => {
                assert_eq!(daemon.stop(), Ended::Code(0), "{}", daemon.log());
                ends += 1;
            }
        }
        live_for(random.between(500, 5_000), running.values_mut());
    }
    let sent_after = began.elapsed();
    sending.join().unwrap();
    for (number, config) in configs.iter().enumerate() {
        running.entry(number).or_insert_with(|| {
            starts += 1;
            Daemon::start(config)
        });
    }

    await_finished(running.values_mut(), usize::try_from(PARTITIONS).unwrap(), Duration::from_secs(7));
    let owners = owners(&mut running, &client, &items, &archive);
    for daemon in running.values_mut() {
        assert_eq!(daemon.stop(), Ended::Code(0), "{}", daemon.log());
    }
    let finished_after = began.elapsed();

    let mut elsewhere = 0;
    for event in &archive.events {
        for day in 0..3 {
            let of_request = archive.of_request(event, day);
            let owner = &configs[owners[event]];
            if let Some(held) = shard(owner, event, day) {
                assert_eq!(held, of_request, "{event} {day}");
                continue;
            }
            // It was finished before the partition moved: whoever finished it has its items
            elsewhere += 1;
            let held: Vec<_> = configs.iter().filter_map(|config| shard(config, event, day)).collect();
            assert!(held.contains(&of_request), "{event} {day}");
        }
    }
    let published = check_nuggets(&client, &config, &expected);
    let letters = check_dead_letters(&client, &config, &archive);
    assert!(published.largest_revision > 0, "requests were run in between");
    eprintln!(
        "rebalance storm, {strategy}: {kills} kills, {ends} ends, {starts} starts, {} items, {} events, {elsewhere} requests finished by a former owner, {published}, {letters}, {} s under kills, {} s until all was run",
        size.items,
        archive.events.len(),
        sent_after.as_secs(),
        finished_after.as_secs()
    );
}

/// Which instance has each event's partition.
fn owners(
    running: &mut BTreeMap<usize, Daemon>,
    client: &support::kafka::Client,
    items: &str,
    archive: &Archive,
) -> BTreeMap<String, usize> {
    let mut partition_of: BTreeMap<String, i32> = BTreeMap::new();
    for record in client.read_all(items) {
        partition_of.insert(record.key().to_owned(), record.partition);
    }
    let mut owner_of: BTreeMap<i32, usize> = BTreeMap::new();
    for (&number, daemon) in running {
        for partition in assigned(daemon) {
            owner_of.insert(partition, number);
        }
    }
    archive.events.iter().map(|event| (event.clone(), owner_of[&partition_of[event]])).collect()
}
