//! What the outside learns about the process: log lines on stderr, metrics, and the HTTP endpoints that probes read.
//!
//! [`Status`] holds what *is* (assignment, lags, pauses, checks), [`Metrics`] counts what *happened*. The other rooms
//! tell both; nothing here decides anything, and no call waits for more than a lock that is held for microseconds.

mod http;
mod labels;
mod logging;
mod metrics;
mod state;
mod status;

pub use http::{HttpError, HttpServer, serve};
pub use labels::{
    Check, CommitOutcome, Copy, Heart, MessageOutcome, Pause, Phase, PublishFailure, Rebalance, RunOutcome,
    Scored, Stage, Token,
};
pub use logging::{is_pretty, start};
pub use metrics::Metrics;
pub use state::{
    CheckView, HeartView, IndexSize, OpenRequest, Outbox, PartitionView, Queue, RecordPosition, Runs,
    StateView, WatermarkView,
};
pub use status::{HeartLimits, Status};
