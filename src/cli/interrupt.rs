//! Ctrl-C and SIGTERM, for a command that has something to finish.

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

/// Set once the process is asked to stop. Asked a second time, it leaves at once.
pub(super) fn requested() -> io::Result<Arc<AtomicBool>> {
    let stop = Arc::new(AtomicBool::new(false));
    let asked = Arc::clone(&stop);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
    let (mut interrupt, mut terminate) = {
        let _inside = runtime.enter();
        (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?)
    };
    thread::spawn(move || {
        runtime.block_on(async {
            tokio::select! { _ = interrupt.recv() => {} _ = terminate.recv() => {} }
            asked.store(true, Ordering::Relaxed);
            tokio::select! { _ = interrupt.recv() => {} _ = terminate.recv() => {} }
        });
        process::exit(Exit::TryAgain as i32);
    });
    Ok(stop)
}
