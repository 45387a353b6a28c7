//! Shards: one tantivy index for each (event, request), committed little by little.
//!
//! Keeps true: **only [`Shard::commit`] commits, and it always writes the full payload** ([`Payload`]: positions,
//! counts), because a bare tantivy commit erases it. An item is numbered by its arrival in the shard, from 0 without
//! gaps; segments and merges reorder documents, so everything that needs an order goes by that number. A duplicate is
//! a document too, without searchable text: how often and by how many sources a thing was reported is read from the
//! index and survives every crash with it.

mod analysis;
mod folder;
mod payload;
mod prepare;
mod schema;
mod shard;
mod shards;
mod size;
mod snapshot;

use std::path::PathBuf;

pub use analysis::{Analysis, Analyzer};
pub use payload::{Payload, Positions};
pub use prepare::{Prepared, Preparer};
pub use shard::{Shard, ShardOptions, Verdict};
pub use shards::{ShardKey, Shards, TakenShard};
pub use size::Size;
pub use snapshot::{Group, Posting, Snapshot, StoredItem};

/// What can go wrong with a shard. Each names the folder.
#[derive(Debug, thiserror::Error)]
pub enum IndexError {
    /// tantivy refused; a full disk or a damaged file. Its writer's thread does not say which.
    #[error("shard {path} cannot be read or written (is the disk full, or a file damaged?): {source}")]
    Tantivy {
        /// The shard's folder.
        path: PathBuf,
        /// tantivy's reason.
        source: tantivy::TantivyError,
    },
    /// The folder cannot be made or read.
    #[error("shard {path}: {source}")]
    Io {
        /// The shard's folder.
        path: PathBuf,
        /// The system's reason.
        source: std::io::Error,
    },
    /// The shard was written by another version of nuggetd, or something else wrote to it.
    #[error("shard {path}: {reason}")]
    Foreign {
        /// The shard's folder.
        path: PathBuf,
        /// What does not fit.
        reason: String,
    },
}
