//! The whole pipeline over a collection of the real one's shape: 18 events, 119 requests, 1,778,399 items.
//!
//! `nuggetd replay` with its defaults, then `--resume` on the finished run: what a restart costs when all is done.

#[allow(dead_code, reason = "each benchmark uses a part of it")]
mod support;

use std::{fs, path::Path, process::Command};

use support::{
    NUGGETD,
    archive::{self, Archive},
    child::{self, Measured},
    report,
};

fn main() -> anyhow::Result<()> {
    let Some(data) = support::data() else { return Ok(()) };
    let workspace = support::workspace();
    let scale: f64 = support::setting("NUGGETD_BENCH_SCALE", 1.0)?;
    let archive = archive::collection(&data, &workspace, scale)?;
    let run_at = workspace.join("whole-run");

    let (mut walls, mut processor, mut restarts) = (Vec::new(), Vec::new(), Vec::new());
    let (mut resident, mut anonymous) = (None, None);
    for repetition in 1..=support::setting("NUGGETD_BENCH_WHOLE_REPS", 1_usize)? {
        if run_at.exists() {
            fs::remove_dir_all(&run_at)?;
        }
        let whole = replay(&archive, &run_at, &[])?;
        let restart = replay(&archive, &run_at, &["--resume"])?;
        walls.push(whole.wall.as_secs_f64());
        processor.push(whole.cpu.as_secs_f64());
        restarts.push(restart.wall.as_secs_f64());
        resident = resident.max(whole.peak_resident);
        anonymous = anonymous.max(whole.peak_anonymous);
        eprintln!("whole: repetition {repetition} done");
    }

    let rates: Vec<f64> = walls.iter().map(|wall| archive.items as f64 / wall).collect();
    let rows = [
        ("replay, seconds", report::spread(&walls, 1)),
        ("processor time, user and system, seconds", report::spread(&processor, 1)),
        ("items/s", report::spread(&rates, 0)),
        ("peak resident memory, mapped index files included", report::mebibytes(resident)),
        ("peak anonymous memory", report::mebibytes(anonymous)),
        ("start on the finished run (`--resume`), seconds", report::spread(&restarts, 2)),
    ];
    let rows: Vec<Vec<String>> = rows.into_iter().map(|(name, value)| vec![name.to_owned(), value]).collect();
    let title = format!(
        "The whole pipeline over {} items of 18 events and 119 requests (scale {scale})",
        report::number(archive.items as f64, 0)
    );
    report::table(&title, &["what", "median (range)"], &rows)?;
    Ok(())
}

fn replay(archive: &Archive, out: &Path, more: &[&str]) -> anyhow::Result<Measured> {
    let mut command = Command::new(NUGGETD);
    command.arg("replay").arg(&archive.items_at).arg("--events").arg(&archive.events_at);
    command.arg("--out").arg(out).args(more);
    child::run(&mut command)
}
