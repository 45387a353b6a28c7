//! The files of a run: `run.jsonl`, `nuggets.jsonl`, `summary.json`, `rejected.jsonl`.
//!
//! The first three are written whole, beside the old ones, and then take their place: a reader never sees half a file.
//! `rejected.jsonl` grows; a restart cuts it to the length that the checkpoint knows.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, BufWriter, Seek, SeekFrom, Write},
    path::{Path, PathBuf},
};

use serde::Serialize;

use crate::{
    intake::DeadLetters,
    model::{DeadLetter, Nugget, RunLine},
};

/// The folder of a run.
pub struct RunFiles {
    folder: PathBuf,
}

impl RunFiles {
    /// Names of the files, in the order in which they are written.
    pub const NAMES: [&'static str; 4] = ["run.jsonl", "nuggets.jsonl", "summary.json", "rejected.jsonl"];

    /// The files in this folder.
    pub fn new(folder: &Path) -> Self {
        Self { folder: folder.into() }
    }

    /// Writes the nuggets, best first within their request: the submission and the full records.
    pub fn write_nuggets(&self, nuggets: &[Nugget]) -> io::Result<()> {
        self.replace("run.jsonl", |out| {
            nuggets.iter().try_for_each(|nugget| write_line(out, &RunLine::from(nugget)))
        })?;
        self.replace("nuggets.jsonl", |out| nuggets.iter().try_for_each(|nugget| write_line(out, nugget)))
    }

    /// Writes the counts.
    pub fn write_summary(&self, summary: &impl Serialize) -> io::Result<()> {
        self.replace("summary.json", |out| {
            serde_json::to_writer_pretty(&mut *out, summary)?;
            out.write_all(b"\n")
        })
    }

    fn replace(
        &self,
        name: &str,
        write: impl FnOnce(&mut BufWriter<File>) -> io::Result<()>,
    ) -> io::Result<()> {
        let (path, new) = (self.folder.join(name), self.folder.join(format!("{name}.new")));
        let written = File::create(&new).map(BufWriter::new).and_then(|mut out| {
            write(&mut out)?;
            out.flush()?;
            out.get_ref().sync_data()
        });
        written
            .and_then(|()| fs::rename(&new, &path))
            .map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", path.display())))
    }
}

fn write_line(out: &mut impl Write, value: &impl Serialize) -> io::Result<()> {
    serde_json::to_writer(&mut *out, value)?;
    out.write_all(b"\n")
}

/// `rejected.jsonl`: refused records, in the order of the stream.
pub struct RejectedFile {
    out: BufWriter<File>,
    bytes: u64,
}

impl RejectedFile {
    /// Opens the file and cuts it to `bytes`, which is what the checkpoint knows of it.
    pub fn open(folder: &Path, bytes: u64) -> io::Result<Self> {
        let path = folder.join("rejected.jsonl");
        let opened =
            OpenOptions::new().create(true).truncate(false).write(true).open(&path).and_then(|mut file| {
                file.set_len(bytes)?;
                file.seek(SeekFrom::Start(bytes))?;
                Ok(file)
            });
        let file =
            opened.map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", path.display())))?;
        Ok(Self { out: BufWriter::new(file), bytes })
    }

    /// Keeps a refused record.
    pub fn keep(&mut self, letter: &DeadLetter) -> io::Result<()> {
        let mut line = serde_json::to_vec(letter)?;
        line.push(b'\n');
        self.bytes += line.len() as u64;
        self.out.write_all(&line)
    }
}

impl DeadLetters for RejectedFile {
    fn sync(&mut self) -> io::Result<u64> {
        self.out.flush()?;
        self.out.get_ref().sync_data()?;
        Ok(self.bytes)
    }
}
