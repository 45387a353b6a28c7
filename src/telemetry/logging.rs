//! Logging, to stderr: data alone goes to stdout.

use std::{
    backtrace::{Backtrace, BacktraceStatus},
    io::{self, IsTerminal},
    panic::{self, PanicHookInfo},
    thread,
};

use tracing_subscriber::{EnvFilter, fmt, layer::SubscriberExt, util::SubscriberInitExt};

use crate::config::{LogConfig, LogFormat};

/// Starts logging. A second call has no effect.
pub fn start(config: &LogConfig) {
    // The level was checked when the configuration was read
    let filter = EnvFilter::try_new(&config.level).unwrap_or_else(|_| EnvFilter::new("warn"));
    let (terminal, pretty) = (io::stderr().is_terminal(), is_pretty(config));
    let registry = tracing_subscriber::registry().with(filter);
    let lines = fmt::layer().with_writer(io::stderr);
    let started = if pretty {
        registry.with(lines.with_ansi(terminal)).try_init()
    } else {
        registry.with(lines.json().flatten_event(true)).try_init()
    };
    if started.is_ok() {
        let usual = panic::take_hook();
        panic::set_hook(Box::new(move |panic| {
            if tracing::enabled!(tracing::Level::ERROR) { log_panic(panic) } else { usual(panic) }
        }));
        let format = if pretty { "pretty" } else { "json" };
        tracing::debug!(format, level = config.level, "logging has started");
    }
}

/// Whether lines are for people; else each is a JSON object.
pub fn is_pretty(config: &LogConfig) -> bool {
    match config.format {
        LogFormat::Auto => io::stderr().is_terminal(),
        LogFormat::Pretty => true,
        LogFormat::Json => false,
    }
}

/// A panic is an event as others are: those who read JSON lines read nothing else.
fn log_panic(panic: &PanicHookInfo<'_>) {
    let location = panic.location().map(ToString::to_string);
    let payload = panic.payload();
    let text = payload.downcast_ref::<&str>().copied();
    let reason = text.or_else(|| payload.downcast_ref::<String>().map(String::as_str));
    let current = thread::current();
    let backtrace = Backtrace::capture();
    let backtrace = (backtrace.status() == BacktraceStatus::Captured).then(|| backtrace.to_string());
    tracing::error!(thread = current.name(), location, reason, backtrace, "a thread panicked");
}
