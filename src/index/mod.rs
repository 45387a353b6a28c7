//! Shards: one tantivy index for each (event, request), committed little by little.
//!
//! Keeps true: **only [`Shard::commit`] commits, and it always writes the full payload** ([`Payload`]: positions,
//! counts), because a bare tantivy commit erases it. An item is numbered by its arrival in the shard, from 0 without
//! gaps; segments and merges reorder documents, so everything that needs an order goes by that number. A duplicate is
//! a document too, without searchable text: how often and by how many sources a thing was reported is read from the
//! index and survives every crash with it.

mod analysis;
mod folder;
mod inspect;
mod payload;
mod prepare;
mod schema;
mod shard;
mod shards;
mod size;
mod snapshot;

use std::path::{Path, PathBuf};

use tantivy::{TantivyError, directory::error::OpenReadError};

pub use analysis::{Analysis, Analyzer};
pub use inspect::{ShardStats, shard_stats, verify_shard};
pub use payload::{Payload, Positions};
pub use prepare::{Prepared, Preparer};
pub use shard::{Shard, ShardOptions, Verdict};
pub use shards::{ShardKey, Shards, TakenShard, shard_folder, shards_in};
pub use size::Size;
pub use snapshot::{Group, Posting, Snapshot, StoredItem};

/// What can go wrong with a shard. Each names the folder, and the command that tells more or mends it.
#[derive(Debug, thiserror::Error)]
pub enum IndexError {
    /// tantivy refused; a full disk or a damaged file. Its writer's thread does not say which.
    #[error("shard {path} {}: {source}", complaint(.path, .source))]
    Tantivy {
        /// The shard's folder.
        path: PathBuf,
        /// tantivy's reason.
        source: TantivyError,
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
    #[error("shard {path}: {reason} ({})", mending(.path))]
    Foreign {
        /// The shard's folder.
        path: PathBuf,
        /// What does not fit.
        reason: String,
    },
}

impl IndexError {
    /// What is wrong, without the folder and without what mends it.
    pub fn reason(&self) -> String {
        match self {
            Self::Tantivy { source, .. } => source.to_string(),
            Self::Io { source, .. } => source.to_string(),
            Self::Foreign { reason, .. } => reason.clone(),
        }
    }
}

/// What to say of tantivy's reason. A full disk must not have anybody delete what is whole.
fn complaint(path: &Path, source: &TantivyError) -> String {
    let damaged = matches!(
        source,
        TantivyError::DataCorruption(_)
            | TantivyError::IncompatibleIndex(_)
            | TantivyError::OpenReadError(
                OpenReadError::FileDoesNotExist(_) | OpenReadError::IncompatibleIndex(_)
            )
    );
    if damaged {
        format!("is damaged ({})", mending(path))
    } else {
        "cannot be read or written (is the disk full, or a file damaged? `nuggetd index verify` tells)"
            .to_owned()
    }
}

/// The command that makes the shard in a folder anew.
fn mending(path: &Path) -> String {
    match (path.parent().and_then(Path::file_name), path.file_name()) {
        (Some(event), Some(request)) => {
            let (event, request) = (event.display(), request.display());
            format!(
                "`nuggetd index rebuild --event {event} --request {request} --yes` takes its items from Kafka again"
            )
        }
        _ => "`nuggetd index verify` tells more".to_owned(),
    }
}
