//! `nuggetd config check --connect`: what `nuggetd run` would find outside its configuration.
//!
//! All of it is looked at, whatever was wrong before; each problem is one line, and the exit code is that of the worst.

use std::{
    io::{self, Write},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use super::{Exit, Failure, Outcome, count, rerank, say, to_kafka::of_cluster};
use crate::{
    config::{Config, TopicsConfig},
    feed::read_events,
    kafka::{Cluster, ClusterError, forgets},
    model::Bytes,
    rank::{Reranker, Scorer},
    telemetry::Metrics,
};

/// Looks at the brokers, the event files and the data folder; every question to the brokers is given up after `patience`.
pub(super) fn run(config: &Config, patience: Duration, out: &mut impl Write) -> Outcome {
    let mut preflight = Preflight { config, out, problems: Vec::new() };
    preflight.events()?;
    preflight.data_dir()?;
    preflight.model()?;
    match Cluster::connect(&config.kafka, "nuggetd-check", patience) {
        Ok(cluster) => preflight.cluster(&cluster)?,
        Err(error) => preflight.problem(of_cluster(&error), &error.to_string()),
    }
    preflight.out.flush()?;
    for (_, problem) in &preflight.problems {
        say(&format!("error: {problem}"));
    }
    let exits: Vec<Exit> = preflight.problems.iter().map(|(exit, _)| *exit).collect();
    // What only a person can mend goes before what may pass
    let worst = [Exit::BadConfiguration, Exit::InputFaults, Exit::Internal, Exit::TryAgain];
    Ok(worst.into_iter().find(|exit| exits.contains(exit)).unwrap_or(Exit::Done))
}

struct Preflight<'a, W> {
    config: &'a Config,
    out: &'a mut W,
    problems: Vec<(Exit, String)>,
}

impl<W: Write> Preflight<'_, W> {
    fn problem(&mut self, exit: Exit, problem: &str) {
        self.problems.push((exit, problem.to_owned()));
    }

    fn events(&mut self) -> io::Result<()> {
        let files = &self.config.events.files;
        if files.is_empty() {
            if self.config.topics.events.is_empty() {
                self.problem(
                    Exit::BadConfiguration,
                    "there are no events: set events.files, topics.events or both",
                );
            }
            return Ok(());
        }
        let paths: Vec<PathBuf> = files.iter().map(PathBuf::from).collect();
        match read_events(&paths) {
            Ok(events) => {
                let requests: usize = events.iter().map(|event| event.requests.len()).sum();
                let events = count(events.len() as u64, "event");
                writeln!(self.out, "event files: {events}, {}", count(requests as u64, "request"))
            }
            Err(error) => {
                for problem in error.problems {
                    self.problem(Exit::InputFaults, &format!("event files: {problem}"));
                }
                Ok(())
            }
        }
    }

    fn model(&mut self) -> io::Result<()> {
        let metrics = Metrics::new().map_err(io::Error::other)?;
        match Reranker::configured(&self.config.rerank, &Arc::new(metrics)) {
            Ok(Some(reranker)) => writeln!(self.out, "reranker: {}", reranker.name()),
            Ok(None) => Ok(()),
            Err(error) => {
                let Failure { exit, error } = rerank::failure(error);
                self.problem(exit, &error.to_string());
                Ok(())
            }
        }
    }

    fn data_dir(&mut self) -> io::Result<()> {
        let folder = &self.config.data_dir;
        // What is not there yet will be made
        let there = folder.ancestors().map(or_here).find(|folder| folder.exists());
        let there = there.unwrap_or(Path::new("."));
        let shown = folder.display();
        if let Err(error) = tempfile::tempfile_in(there) {
            self.problem(Exit::BadConfiguration, &format!("data_dir {shown} cannot be written to: {error}"));
            return Ok(());
        }
        let free = match rustix::fs::statvfs(there) {
            Ok(disk) => Bytes(i64::try_from(disk.f_bavail.saturating_mul(disk.f_frsize)).unwrap_or(i64::MAX)),
            Err(error) => {
                self.problem(
                    Exit::Internal,
                    &format!("data_dir {shown}: its free space is not told: {error}"),
                );
                return Ok(());
            }
        };
        let mebibytes = free.0 / Bytes::MIB;
        let made = if folder.exists() { "" } else { " (will be made)" };
        writeln!(self.out, "data_dir {shown}{made}: writable, {mebibytes}MiB free")?;
        let least = self.config.index.least_free;
        if free < least {
            let problem =
                format!("data_dir {shown}: {mebibytes}MiB are free, less than index.least_free = {least}");
            self.problem(Exit::TryAgain, &problem);
        }
        Ok(())
    }

    fn cluster(&mut self, cluster: &Cluster) -> io::Result<()> {
        let id = cluster.id().unwrap_or_else(|| "without a name".to_owned());
        writeln!(self.out, "cluster {id}: {}", cluster.brokers().join(", "))?;
        self.group(cluster)?;
        if self.config.source.is_empty() {
            self.problem(Exit::BadConfiguration, "there is no [[source]]: no topic to take items from");
        }
        for source in &self.config.source {
            let topic = &source.topic;
            match cluster.partitions(topic) {
                Ok(Some(partitions)) => {
                    let partitions = count(partitions as u64, "partition");
                    writeln!(self.out, "source topic {topic}: {partitions}")?;
                }
                Ok(None) => {
                    self.problem(Exit::BadConfiguration, &format!("source topic {topic} does not exist"));
                }
                Err(error) => self.problem(of_cluster(&error), &error.to_string()),
            }
        }
        let topics = &self.config.topics;
        for (key, topic, compacted) in [
            ("events", &topics.events, true),
            ("nuggets", &topics.nuggets, true),
            ("requests", &topics.requests, true),
            ("dead_letters", &topics.dead_letters, false),
        ] {
            if !topic.is_empty() {
                self.topic(cluster, topics, &format!("topics.{key} {topic}"), topic, compacted)?;
            }
        }
        Ok(())
    }

    /// Not every broker lets everyone ask, and nothing depends on it.
    fn group(&mut self, cluster: &Cluster) -> io::Result<()> {
        let name = &self.config.kafka.group;
        match cluster.group(name) {
            Ok(Some(group)) => {
                let members = count(group.members as u64, "member");
                writeln!(self.out, "group {name}: {members}, {}", group.state.to_lowercase())
            }
            Ok(None) => writeln!(self.out, "group {name}: no members yet"),
            Err(error) => writeln!(self.out, "group {name}: not told ({error})"),
        }
    }

    fn topic(
        &mut self,
        cluster: &Cluster,
        topics: &TopicsConfig,
        called: &str,
        topic: &str,
        compacted: bool,
    ) -> io::Result<()> {
        let partitions = match cluster.partitions(topic) {
            Ok(Some(partitions)) => count(partitions as u64, "partition"),
            Ok(None) if topics.create => return writeln!(self.out, "{called}: will be made"),
            Ok(None) => {
                let problem = format!("{called} does not exist, and topics.create is false");
                self.problem(Exit::BadConfiguration, &problem);
                return Ok(());
            }
            Err(error) => {
                self.problem(of_cluster(&error), &error.to_string());
                return Ok(());
            }
        };
        if !compacted {
            return writeln!(self.out, "{called}: {partitions}");
        }
        match cluster.cleanup_policy(topic) {
            Ok(policy) => {
                writeln!(self.out, "{called}: {partitions}, cleanup.policy {policy}")?;
                if let Some(fault) = forgets(&policy) {
                    let problem = format!("{called} has cleanup.policy {policy}: {fault}");
                    self.problem(Exit::BadConfiguration, &problem);
                }
            }
            Err(error @ ClusterError::Refused { .. }) => {
                writeln!(self.out, "{called}: {partitions}, whether it is compacted is not told ({error})")?;
            }
            Err(error) => self.problem(of_cluster(&error), &error.to_string()),
        }
        Ok(())
    }
}

/// The folder that a relative path without a parent lies in.
fn or_here(folder: &Path) -> &Path {
    if folder.as_os_str().is_empty() { Path::new(".") } else { folder }
}
