//! How one talks to Kafka: what every client is configured with, and where what it says about itself is logged.
//!
//! Keeps true: a client is made of the configuration alone, and what would break the daemon's promises cannot be
//! configured; all that is wrong with the properties is reported at once; no secret is printed or logged.

mod client;
mod cluster;
mod log;
mod properties;

pub use client::{ClientError, Fault, admin_config, check, consumer_config, producer_config, reader_config};
pub use cluster::{Cluster, ClusterError, Group, forgets};
pub use log::{LogContext, is_absence, log_error, log_line, refusal};
