//! What is looked at and opened before the work begins: the folder, the brokers and their topics, the model, the shards.
//!
//! Keeps true: a daemon that would do harm, or that could not do what it is configured for, does not start.

use std::{
    fs::{self, File, TryLockError},
    io,
    path::{Path, PathBuf},
    process,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use xxhash_rust::xxh3::xxh3_64;

use super::{DaemonError, book::Book};
use crate::{
    config::Config,
    feed::read_events,
    index::{ShardOptions, Shards},
    intake::Intake,
    kafka::{Cluster, forgets},
    ledger::{Announcer, Ledger},
    model::Event,
    rank::{RerankError, Reranker, Scorer},
    telemetry::{Check, Metrics, Status},
};

/// Where the ledger keeps which cluster its positions are of.
const CLUSTER: &str = "cluster";
/// Where the ledger keeps the name of this instance.
const INSTANCE: &str = "instance";
/// How long the first question to a broker may take.
const FIRST_ANSWER: Duration = Duration::from_secs(15);

pub(super) fn read_files(config: &Config) -> Result<Vec<Event>, DaemonError> {
    if config.events.files.is_empty() {
        if config.topics.events.is_empty() {
            return Err(DaemonError::NoEvents);
        }
        return Ok(Vec::new());
    }
    let paths: Vec<PathBuf> = config.events.files.iter().map(PathBuf::from).collect();
    Ok(read_events(&paths)?)
}

pub(super) fn lock(data_dir: &Path) -> Result<File, DaemonError> {
    let at =
        |error: io::Error, path: &Path| io::Error::new(error.kind(), format!("{}: {error}", path.display()));
    fs::create_dir_all(data_dir).map_err(|error| at(error, data_dir))?;
    let path = data_dir.join("lock");
    let file = File::create(&path).map_err(|error| at(error, &path))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(DaemonError::Busy(data_dir.into())),
        Err(TryLockError::Error(error)) => Err(at(error, &path).into()),
    }
}

/// This instance's name: the configured one, else one that lasts as long as the ledger.
pub(super) fn instance(config: &Config, ledger: &Mutex<Ledger>) -> Result<String, DaemonError> {
    if !config.kafka.group_instance_id.is_empty() {
        return Ok(config.kafka.group_instance_id.clone());
    }
    let mut ledger = ledger.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(name) = ledger.meta::<String>(INSTANCE)? {
        return Ok(name);
    }
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    let seed = format!("{}-{}-{}", config.data_dir.display(), process::id(), since.as_nanos());
    let name = format!("{:016x}", xxh3_64(seed.as_bytes()));
    ledger.set_meta(INSTANCE, &name)?;
    Ok(name)
}

/// Looks whether the brokers are the ones that the ledger knows and have the topics; makes those that are ours.
pub(super) fn prepare_cluster(
    config: &Config,
    client_id: &str,
    ledger: &Mutex<Ledger>,
    status: &Status,
) -> Result<(), DaemonError> {
    let cluster = Cluster::connect(&config.kafka, client_id, FIRST_ANSWER)?;
    status.set_check(Check::Broker, true, "answered");
    if let Some(now) = cluster.id() {
        let mut ledger = ledger.lock().unwrap_or_else(PoisonError::into_inner);
        match ledger.meta::<String>(CLUSTER)? {
            Some(before) if before != now => {
                return Err(DaemonError::OtherCluster { path: config.data_dir.clone(), before, now });
            }
            Some(_) => {}
            None => ledger.set_meta(CLUSTER, &now)?,
        }
    }
    for source in &config.source {
        if cluster.partitions(&source.topic)?.is_none() {
            return Err(DaemonError::NoTopic(source.topic.clone()));
        }
    }
    let topics = &config.topics;
    let mut tells = true;
    for (topic, compacted) in [
        (&topics.events, true),
        (&topics.nuggets, true),
        (&topics.requests, true),
        (&topics.dead_letters, false),
    ] {
        if topic.is_empty() {
            continue;
        }
        if cluster.partitions(topic)?.is_some() {
            if compacted && tells {
                tells = refuse_forgetful(&cluster, topic)?;
            }
            continue;
        }
        if !topics.create {
            return Err(DaemonError::Stopped(format!(
                "topic {topic} does not exist, and topics.create is off"
            )));
        }
        cluster.create(topic, 1, topics.replication, compacted)?;
        tracing::info!(topic, compacted, "topic made");
    }
    Ok(())
}

pub(super) fn open_reranker(
    config: &Config,
    metrics: &Arc<Metrics>,
) -> Result<Option<Arc<Reranker>>, RerankError> {
    let reranker = Reranker::configured(&config.rerank, metrics)?;
    tracing::info!(
        reranker = reranker.as_deref().map_or("none, the order is BM25's", Scorer::name),
        "models are loaded"
    );
    Ok(reranker)
}

/// Refuses a topic that does not remember. Gives whether the brokers tell: not every one does.
fn refuse_forgetful(cluster: &Cluster, topic: &str) -> Result<bool, DaemonError> {
    let policy = match cluster.cleanup_policy(topic) {
        Ok(policy) => policy,
        Err(error) => {
            tracing::info!(topic, %error, "whether the topic is compacted is not told");
            return Ok(false);
        }
    };
    match forgets(&policy) {
        Some(fault) => Err(DaemonError::Forgetful { topic: topic.to_owned(), policy, fault }),
        None => Ok(true),
    }
}

pub(super) fn open_intake(
    config: &Config,
    book: &Book,
    ledger: &Arc<Mutex<Ledger>>,
    announcer: &Arc<Announcer>,
) -> Result<Intake, DaemonError> {
    let options = ShardOptions {
        writer_memory: config.index.writer_memory.as_usize(),
        near_threshold: Some(config.clean.near_threshold),
    };
    let shards = Shards::new(&config.data_dir, options, config.index.open_shards);
    let intake = Intake::new(
        &book.all(),
        shards,
        &config.schedule,
        config.index.clone(),
        Arc::clone(ledger),
        Some(Arc::clone(announcer)),
    )?;
    refuse_vanished_shards(&intake, ledger)?;
    Ok(intake)
}

/// A shard holds at least what a run saw, unless it is being built anew; nothing else would bring back what somebody
/// removed, because the position lies behind it.
fn refuse_vanished_shards(intake: &Intake, ledger: &Mutex<Ledger>) -> Result<(), DaemonError> {
    let requests = ledger.lock().unwrap_or_else(PoisonError::into_inner).requests()?;
    let mut vanished = Vec::new();
    for request in requests.iter().filter(|request| request.here) {
        let Some(run) = &request.run else { continue };
        let held = intake.shards().payload(&request.key)?.map_or(0, |payload| payload.items);
        let is_passed = request.first.iter().all(|(topic, partition, first)| {
            intake.next_offset(topic, partition).is_some_and(|next| next > first)
        });
        if held == 0 && run.cutoff > 0 && is_passed && !request.first.is_empty() {
            let ((event, request), path) = (&request.key, intake.shards().path(&request.key));
            vanished.push(format!(
                "shard {} holds {held} items, the ledger knows {}; `nuggetd index rebuild --event {event} --request \
                 {request} --yes` has it built anew from Kafka",
                path.display(),
                run.cutoff
            ));
        }
    }
    if vanished.is_empty() { Ok(()) } else { Err(DaemonError::Vanished(vanished)) }
}

/// Digest of what decides results: the configuration, as far as it does, and the model.
pub(super) fn digest(config: &Config, reranker: Option<&Reranker>) -> String {
    let of_result = (
        &config.clean,
        (&config.schedule.lateness, &config.schedule.out_of_orderness, config.schedule.revise_late),
        &config.search,
        reranker.map(|reranker| (reranker.fingerprint(), &config.rerank.pieces, config.rerank.top)),
        &config.facts,
    );
    // Numbers and texts always print
    let text = serde_json::to_string(&of_result).unwrap_or_default();
    format!("{:016x}", xxh3_64(text.as_bytes()))
}
