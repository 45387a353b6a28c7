//! `nuggetd replay --to-kafka`.

use std::{path::PathBuf, time::Duration};

use anyhow::anyhow;
use clap::Args;

use super::{Exit, Failure, Outcome, count, interrupt, say};
use crate::{
    config::Config,
    kafka::ClusterError,
    model::Seconds,
    replay::{Halt, Progress, Sent, Speed, ToKafka, ToKafkaError, WallClock},
};

/// How many records that did not fit are named.
const NAMED: usize = 10;

/// What concerns a replay into a topic only. (Each conflicts with `--out`: clap lets pass that a flag lacks another one
/// which could not be given.)
#[derive(Debug, Args)]
pub(super) struct ToKafkaFlags {
    /// Send the records to a topic instead, as they are, keyed by their event
    #[arg(long, conflicts_with_all = ["out", "resume"])]
    to_kafka: bool,
    /// N times as fast as it happened (1 = real time), or max; default: max
    #[arg(long, value_name = "N|max", conflicts_with = "out")]
    speed: Option<Speed>,
    /// The topic; default: that of the configuration's first source
    #[arg(long, value_name = "TOPIC", conflicts_with = "out")]
    topic: Option<String>,
    /// Make the topic, with so many partitions, where it is missing
    #[arg(long, value_name = "PARTITIONS", conflicts_with = "out", value_parser = clap::value_parser!(i32).range(1..=10_000))]
    create: Option<i32>,
    /// Send the events to topics.events first
    #[arg(long, conflicts_with = "out")]
    publish_events: bool,
    /// Leave out the first records of the stream, which an interrupted replay has sent
    #[arg(long, value_name = "RECORDS", conflicts_with = "out")]
    skip: Option<u64>,
    /// Give up after so long without an answer from the brokers; default: 1m
    #[arg(long, value_name = "DURATION", conflicts_with = "out", value_parser = super::duration)]
    timeout: Option<Seconds>,
}

impl ToKafkaFlags {
    pub(super) fn run(self, archive: Vec<String>, events: Vec<PathBuf>, config: Config) -> Outcome {
        let replay = ToKafka {
            archive,
            events,
            topic: self.topic,
            create: self.create,
            publish_events: self.publish_events,
            speed: self.speed.unwrap_or(Speed::Max),
            skip: self.skip.unwrap_or(0),
            patience: super::patience(self.timeout, Duration::from_secs(60)),
            config,
        };
        let stop = interrupt::requested()?;
        let sent = replay.run(&mut WallClock, &stop, &Progress::on_terminal()).map_err(failure)?;
        say_sent(&sent, &replay);
        match &sent.halt {
            Some(Halt::Interrupted) => Err(Failure::new(Exit::TryAgain, anyhow!("interrupted"))),
            Some(Halt::Away(reason)) => {
                let waited = replay.patience.as_secs();
                let brokers = &replay.config.kafka.brokers;
                let error = anyhow!("Kafka at {brokers} confirmed nothing for {waited}s: {reason}");
                Err(Failure::new(Exit::TryAgain, error))
            }
            Some(Halt::Refused(reason)) => {
                let error = anyhow!("Kafka takes no more records for topic {}: {reason}", sent.topic);
                Err(Failure::new(Exit::Internal, error))
            }
            None if sent.faults.is_empty() && sent.too_large.is_empty() => Ok(Exit::Done),
            None => Ok(Exit::InputFaults),
        }
    }
}

fn say_sent(sent: &Sent, replay: &ToKafka) {
    for fault in &sent.faults {
        say(&format!("error: {fault}"));
    }
    for record in sent.too_large.iter().take(NAMED) {
        say(&format!("error: {record} is larger than topic {} takes", sent.topic));
    }
    if sent.too_large.len() > NAMED {
        say(&format!("error: so are {} more", sent.too_large.len() - NAMED));
    }
    if replay.publish_events {
        say(&format!("{} → topic {}", count(sent.events, "event"), replay.config.topics.events));
    }
    let partitions: Vec<String> =
        sent.partitions.iter().map(|(partition, records)| format!("{partition}: {records}")).collect();
    let partitions =
        if partitions.is_empty() { String::new() } else { format!(" (partition {})", partitions.join(", ")) };
    say(&format!("{} → topic {}{partitions}, confirmed", count(sent.records, "record"), sent.topic));
    if sent.halt.is_some() {
        say(&format!("the archive is not at its end: go on with --skip {}", sent.next));
    }
}

fn failure(error: ToKafkaError) -> Failure {
    let exit = match &error {
        ToKafkaError::Events(_) | ToKafkaError::Archive(_) | ToKafkaError::Router(_) => Exit::InputFaults,
        ToKafkaError::UnknownEvent(_)
        | ToKafkaError::Client(_)
        | ToKafkaError::NoTopic
        | ToKafkaError::NotForItems(..)
        | ToKafkaError::NoEventTopic
        | ToKafkaError::Framed(_)
        | ToKafkaError::NoSuchTopic(..) => Exit::BadConfiguration,
        ToKafkaError::Cluster(error) => of_cluster(error),
        ToKafkaError::Event(..) => Exit::Internal,
    };
    Failure::new(exit, error)
}

/// What a question to the brokers that came to nothing means to the shell.
pub(super) fn of_cluster(error: &ClusterError) -> Exit {
    match error {
        ClusterError::Away { .. } => Exit::TryAgain,
        ClusterError::Client(_) | ClusterError::Refused { .. } => Exit::BadConfiguration,
        ClusterError::Io(_) => Exit::Internal,
    }
}
