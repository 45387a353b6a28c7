//! Logging, to stderr: data alone goes to stdout.

use std::io::{self, IsTerminal};

use tracing_subscriber::{EnvFilter, fmt, layer::SubscriberExt, util::SubscriberInitExt};

use crate::config::{LogConfig, LogFormat};

/// Starts logging. A second call has no effect.
pub fn start(config: &LogConfig) {
    // The level was checked when the configuration was read
    let filter = EnvFilter::try_new(&config.level).unwrap_or_else(|_| EnvFilter::new("warn"));
    let terminal = io::stderr().is_terminal();
    let pretty = match config.format {
        LogFormat::Auto => terminal,
        LogFormat::Pretty => true,
        LogFormat::Json => false,
    };
    let registry = tracing_subscriber::registry().with(filter);
    let lines = fmt::layer().with_writer(io::stderr);
    let started = if pretty {
        registry.with(lines.with_ansi(terminal)).try_init()
    } else {
        registry.with(lines.json().flatten_event(true)).try_init()
    };
    if started.is_ok() {
        let format = if pretty { "pretty" } else { "json" };
        tracing::info!(format, level = config.level, "logging has started");
    }
}
