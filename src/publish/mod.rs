//! Where results go: files of a run, or topics. What stands in the ledger is written; nothing is computed here.

mod files;
pub mod kafka;
mod report;

pub use files::{RejectedFile, RunFiles};
pub use report::situation_report;
