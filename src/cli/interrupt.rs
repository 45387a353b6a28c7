//! Ctrl-C, SIGTERM and SIGHUP, for a command that has something to finish.

use std::{
    io, process,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
};

use tokio::signal::unix::{SignalKind, signal};

use super::Exit;

/// SIGXFSZ, on every system that this runs on.
const FILE_SIZE: i32 = 25;

/// Set once the process is asked to stop. Asked a second time, it leaves at once.
pub(super) fn requested() -> io::Result<Arc<AtomicBool>> {
    let stop = Arc::new(AtomicBool::new(false));
    let asked = Arc::clone(&stop);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
    let (mut interrupt, mut terminate, mut hangup) = {
        let _inside = runtime.enter();
        // A file that may grow no more is an error where it is written, not the end of the process
        drop(signal(SignalKind::from_raw(FILE_SIZE))?);
        (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?, signal(SignalKind::hangup())?)
    };
    thread::spawn(move || {
        runtime.block_on(async {
            tokio::select! { _ = interrupt.recv() => {} _ = terminate.recv() => {} _ = hangup.recv() => {} }
            asked.store(true, Ordering::Relaxed);
            tokio::select! { _ = interrupt.recv() => {} _ = terminate.recv() => {} _ = hangup.recv() => {} }
        });
        process::exit(Exit::TryAgain as i32);
    });
    Ok(stop)
}
