//! Where results go: files of a run. What stands in the ledger is written; nothing is computed here.

mod files;
mod report;

pub use files::{RejectedFile, RunFiles};
pub use report::situation_report;
