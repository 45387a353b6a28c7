//! What the benchmarks share: large archives made of real texts, measured processes, a broker and the
//! daemon beside it, the Python pipeline, tables.

pub(crate) mod archive;
pub(crate) mod child;
pub(crate) mod daemon;
pub(crate) mod peer;
pub(crate) mod random;
pub(crate) mod report;
pub(crate) mod texts;

use std::{
    env,
    path::{Path, PathBuf},
    str::FromStr,
};

use anyhow::anyhow;

/// The binary under test, built with the benchmarks.
pub(crate) const NUGGETD: &str = env!("CARGO_BIN_EXE_nuggetd");

/// The folder of real data, where it is there; else the line that says so is printed.
pub(crate) fn data() -> Option<PathBuf> {
    let folder = env::var_os("NUGGETD_DATA")
        .map_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared/data"), PathBuf::from);
    if folder.is_dir() {
        return Some(folder);
    }
    eprintln!("skipped: no real data at {}; NUGGETD_DATA names another folder", folder.display());
    None
}

/// A folder for archives and runs; it survives, so archives are made once.
pub(crate) fn workspace() -> PathBuf {
    PathBuf::from(env!("CARGO_TARGET_TMPDIR"))
}

/// A number from the environment.
pub(crate) fn setting<T: FromStr>(name: &str, default: T) -> anyhow::Result<T> {
    match env::var(name) {
        Ok(value) => value.parse().map_err(|_| anyhow!("{name}={value}: not a number of the kind expected")),
        Err(_) => Ok(default),
    }
}

/// How often each thing is measured.
pub(crate) fn repetitions() -> anyhow::Result<usize> {
    Ok(setting("NUGGETD_BENCH_REPS", 5_usize)?.max(1))
}

/// Items of the archive of one request.
pub(crate) fn items() -> anyhow::Result<usize> {
    Ok(setting("NUGGETD_BENCH_ITEMS", 120_000_usize)?.max(1))
}
