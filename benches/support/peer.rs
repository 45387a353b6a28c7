//! The Python pipeline to compare with, where the machine has it.

use std::{
    env,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use anyhow::{Context as _, bail};
use serde::Deserialize;

/// The script and the Python that has its packages; `scripts/bench` sets both.
pub(crate) struct Peer {
    python: PathBuf,
    script: PathBuf,
}

/// What the script prints of one run, in seconds.
#[derive(Debug, Clone, Copy, Deserialize)]
pub(crate) struct PeerRun {
    #[serde(rename = "clean_s")]
    pub(crate) clean: f64,
    #[serde(rename = "index_s")]
    pub(crate) index: f64,
    #[serde(rename = "search_s")]
    pub(crate) search: f64,
}

impl Peer {
    /// The peer, or the line that says why it is not measured.
    pub(crate) fn find() -> Option<Self> {
        let named = |name: &str| env::var_os(name).map(PathBuf::from).filter(|path| path.is_file());
        if let (Some(python), Some(script)) = (named("NUGGETD_BENCH_PYTHON"), named("NUGGETD_BENCH_PEER")) {
            return Some(Self { python, script });
        }
        eprintln!("skipped: the Python pipeline (NUGGETD_BENCH_PYTHON and NUGGETD_BENCH_PEER name no files)");
        None
    }

    /// Cleans, indexes and searches the items; the times are the script's own, without the start of Python and Java.
    pub(crate) fn run(&self, event: &Path, items: &Path) -> anyhow::Result<PeerRun> {
        let mut command = Command::new(&self.python);
        command.arg(&self.script).arg(event).arg(items).stdin(Stdio::null()).stderr(Stdio::piped());
        let output = command.output().with_context(|| format!("{command:?}"))?;
        if !output.status.success() {
            bail!("{command:?}: {}", String::from_utf8_lossy(&output.stderr));
        }
        let printed = String::from_utf8_lossy(&output.stdout);
        let last = printed.lines().last().with_context(|| format!("{command:?} printed nothing"))?;
        serde_json::from_str(last).with_context(|| format!("{command:?} printed {last}"))
    }
}
