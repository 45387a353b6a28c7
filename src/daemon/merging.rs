//! Merges the shards of closed requests to one segment each, on a thread of its own: a run may take long, and a late item
//! must not wait for it.

use std::{
    sync::{
        Mutex, PoisonError,
        mpsc::{Sender, channel},
    },
    thread::{self, JoinHandle},
};

use crate::index::{IndexError, TakenShard};

/// The thread.
pub(super) struct Merging {
    shards: Option<Sender<TakenShard>>,
    thread: Mutex<Option<JoinHandle<Result<(), IndexError>>>>,
}

impl Merging {
    pub(super) fn start() -> std::io::Result<Self> {
        let (shards, taken) = channel::<TakenShard>();
        let thread = thread::Builder::new().name("merge".to_owned()).spawn(move || {
            while let Ok(shard) = taken.recv() {
                shard.finish()?;
            }
            Ok(())
        })?;
        Ok(Self { shards: Some(shards), thread: Mutex::new(Some(thread)) })
    }

    /// Queues a shard; the intake may open it again once it is merged.
    pub(super) fn merge(&self, shard: TakenShard) -> Result<(), IndexError> {
        let sent = self.shards.as_ref().is_some_and(|shards| shards.send(shard).is_ok());
        if sent { Ok(()) } else { self.join() }
    }

    /// Waits for the merges.
    pub(super) fn end(&mut self) -> Result<(), IndexError> {
        self.shards = None;
        self.join()
    }

    fn join(&self) -> Result<(), IndexError> {
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        // A thread that panicked has said so in the log; its shard is as it was committed
        thread.map_or(Ok(()), |thread| thread.join().unwrap_or(Ok(())))
    }
}
