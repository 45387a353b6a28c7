//! Runs closed requests on a thread of their own, in the order in which they closed, while the stream goes on.

use std::{
    sync::mpsc::{Receiver, SyncSender, sync_channel},
    thread::{self, JoinHandle},
};

use crate::{
    index::{Analysis, Analyzer},
    intake::Due,
    model::RequestRecord,
    request::{Pipeline, RunError},
};

/// Closed requests that may wait; a stream that closes more waits with them.
const WAITING: usize = 2;

/// The thread.
pub(crate) struct Runner {
    waiting: Option<SyncSender<Due>>,
    thread: Option<JoinHandle<Result<(), RunError>>>,
}

impl Runner {
    /// Starts the thread; `done` is called on it after each run.
    pub(crate) fn start(pipeline: Pipeline, done: impl FnMut(&RequestRecord) + Send + 'static) -> Self {
        let (sender, receiver) = sync_channel(WAITING);
        let thread = thread::spawn(move || serve(&pipeline, &receiver, done));
        Self { waiting: Some(sender), thread: Some(thread) }
    }

    /// Queues a request; waits while enough are waiting.
    pub(crate) fn run(&mut self, due: Due) -> Result<(), RunError> {
        let sent = self.waiting.as_ref().is_some_and(|waiting| waiting.send(due).is_ok());
        if sent { Ok(()) } else { Err(self.join().err().unwrap_or(RunError::Ended)) }
    }

    /// Waits until all are run.
    pub(crate) fn finish(mut self) -> Result<(), RunError> {
        self.join()
    }

    fn join(&mut self) -> Result<(), RunError> {
        self.waiting = None;
        match self.thread.take() {
            Some(thread) => thread.join().map_err(|_| RunError::Ended)?,
            None => Ok(()),
        }
    }
}

fn serve(
    pipeline: &Pipeline,
    waiting: &Receiver<Due>,
    mut done: impl FnMut(&RequestRecord),
) -> Result<(), RunError> {
    let mut analyzer = Analyzer::new(Analysis::Stemmed);
    while let Ok(due) = waiting.recv() {
        done(&pipeline.run(due, &mut analyzer)?.record);
    }
    Ok(())
}
