//! The real texts that archives are made of.

use std::{fs::File, io::Read as _, path::Path};

use anyhow::{Context as _, ensure};
use flate2::read::MultiGzDecoder;
use serde::Deserialize;

#[derive(Deserialize)]
struct Line {
    text: String,
}

/// The texts of the archives under `data`, without empty ones, in the order of the files' names.
pub(crate) fn read(data: &Path) -> anyhow::Result<Vec<String>> {
    let mut texts = Vec::new();
    for folder in ["crisislex26", "crisisfacts-pooled"] {
        let pattern = data.join("archives").join(folder).join("*.jsonl.gz");
        for path in glob::glob(&pattern.to_string_lossy())? {
            let path = path?;
            if path.to_string_lossy().contains(".labels.") {
                continue;
            }
            let mut lines = String::new();
            let file = File::open(&path).with_context(|| path.display().to_string())?;
            MultiGzDecoder::new(file).read_to_string(&mut lines)?;
            for line in lines.lines() {
                let line: Line = serde_json::from_str(line).with_context(|| path.display().to_string())?;
                if !line.text.trim().is_empty() {
                    texts.push(line.text);
                }
            }
        }
    }
    ensure!(!texts.is_empty(), "no texts under {}", data.display());
    Ok(texts)
}
