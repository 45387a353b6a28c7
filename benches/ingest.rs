//! From feed to index: nuggetd, bare tantivy on the text that nuggetd has cleaned, and the Python pipeline.
//!
//! nuggetd is measured as a process, `nuggetd replay` on a warm file: start, feed, cleaning, duplicates, index, commits,
//! ledger, merge to one segment. The event asks one question and the extractor is `greedy`, so that search and
//! extraction take no part worth mentioning. Bare tantivy gets every text ready in memory, duplicates too, and does
//! nothing but analyse, index, store and commit as often, once with a field like nuggetd's, once with tantivy's usual one.
//! All take turns, so that a busy moment of the machine
//! hits all alike.

#[allow(dead_code, reason = "each benchmark uses a part of it")]
mod support;

use std::{
    fs::{self, File},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Instant,
};

use anyhow::{Context as _, ensure};
use nuggetd::config::IndexConfig;
use serde::Deserialize;
use serde_json::Value;
use support::{
    NUGGETD,
    archive::{self, Archive},
    child::{self, Measured},
    peer::Peer,
    report,
};
use tantivy::{
    Index, TantivyDocument,
    schema::{IndexRecordOption, STORED, Schema, TextFieldIndexing, TextOptions},
    tokenizer::{Language, LowerCaser, SimpleTokenizer, Stemmer, StopWordFilter, TextAnalyzer},
};

fn main() -> anyhow::Result<()> {
    let Some(data) = support::data() else { return Ok(()) };
    let workspace = support::workspace();
    let archive = archive::one_request(&data, &workspace, support::items()?)?;
    let event = ask_one_question(&archive)?;
    let texts = clean_texts(&archive, &workspace)?;
    let peer = Peer::find();

    let (mut ours, mut bare, mut usual, mut python) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let mut peak = None;
    let run_at = workspace.join("ingest-run");
    for repetition in 1..=support::repetitions()? {
        let measured = replay(&archive, &event, &run_at)?;
        peak = peak.max(measured.peak_resident);
        ours.push(archive.items as f64 / measured.wall.as_secs_f64());
        let bare_at = workspace.join("ingest-bare");
        bare.push(archive.items as f64 / index_bare(&texts, &bare_at, &our_field()?)?);
        usual.push(archive.items as f64 / index_bare(&texts, &bare_at, &usual_field())?);
        if let Some(peer) = &peer {
            let run = peer.run(&event_file(&archive), &items_file(&archive))?;
            python.push(archive.items as f64 / (run.clean + run.index));
        }
        eprintln!("ingest: repetition {repetition} done");
    }

    let row = |name: &str, rates: &[f64]| {
        let ratio = report::median(&ours) / report::median(rates);
        vec![name.to_owned(), report::spread(rates, 0), format!("{ratio:.2}")]
    };
    let mut rows = vec![
        row("nuggetd: feed, clean, dedupe, index, commit, merge", &ours),
        row("bare tantivy on clean text, one indexing thread: the field as nuggetd has it", &bare),
        row("the same: tantivy's usual text field (`en_stem`, positions, length norms)", &usual),
    ];
    if !python.is_empty() {
        rows.push(row("Python: tweet-preprocessor, wordsegment, exact dedupe, PyTerrier index", &python));
    }
    let title = format!(
        "Ingest of {} tweets of one request, repeated {} times; {}; peak resident memory of nuggetd {}",
        report::number(archive.items as f64, 0),
        ours.len(),
        duplicates(&run_at)?,
        report::mebibytes(peak),
    );
    report::table(&title, &["what", "tweets/s, median (range)", "nuggetd ÷ this"], &rows)?;
    Ok(())
}

fn event_file(archive: &Archive) -> PathBuf {
    archive.events_at.join("CrisisFACTS-001.json")
}

fn items_file(archive: &Archive) -> PathBuf {
    archive.items_at.join("CrisisFACTS-001-r3.jsonl")
}

/// Writes the archive's event with its first question alone.
fn ask_one_question(archive: &Archive) -> anyhow::Result<PathBuf> {
    let mut event: Value = serde_json::from_slice(&fs::read(event_file(archive))?)?;
    let queries =
        event.get_mut("queries").and_then(Value::as_array_mut).context("the event has no queries")?;
    queries.truncate(1);
    let path = archive.events_at.with_file_name("one-question.json");
    fs::write(&path, serde_json::to_vec(&event)?)?;
    Ok(path)
}

fn replay(archive: &Archive, event: &Path, out: &Path) -> anyhow::Result<Measured> {
    if out.exists() {
        fs::remove_dir_all(out)?;
    }
    // Read once, so that the disk takes no part
    ensure!(!fs::read(items_file(archive))?.is_empty(), "the archive is empty");
    let mut command = Command::new(NUGGETD);
    command.arg("replay").arg(items_file(archive)).arg("--events").arg(event).arg("--out").arg(out);
    command.args(["--set", "facts.method=greedy", "--set", "search.expand=none"]);
    child::run(&mut command)
}

/// What `nuggetd clean` makes of the archive's texts.
fn clean_texts(archive: &Archive, workspace: &Path) -> anyhow::Result<Vec<String>> {
    #[derive(Deserialize)]
    struct Cleaned {
        #[serde(rename = "cleanText")]
        text: String,
    }
    let path = workspace.join("ingest-clean.jsonl");
    let status = Command::new(NUGGETD)
        .arg("clean")
        .arg(items_file(archive))
        .stdout(File::create(&path)?)
        .stderr(Stdio::inherit())
        .status()?;
    ensure!(status.success(), "nuggetd clean: {status}");
    let lines = fs::read_to_string(&path)?;
    let texts: Result<Vec<String>, serde_json::Error> =
        lines.lines().map(|line| serde_json::from_str::<Cleaned>(line).map(|cleaned| cleaned.text)).collect();
    Ok(texts?)
}

/// How bare tantivy indexes the text.
struct TextField {
    indexing: TextFieldIndexing,
    analyzer: Option<(&'static str, TextAnalyzer)>,
}

/// Words in lower case, the stop words and the stemmer of nuggetd's English field, no positions, no length norms.
fn our_field() -> anyhow::Result<TextField> {
    let indexing = TextFieldIndexing::default()
        .set_tokenizer("english")
        .set_index_option(IndexRecordOption::WithFreqs)
        .set_fieldnorms(false);
    let stop_words = stop_words::lookup("en").context("no English stop words")?;
    let analyzer = TextAnalyzer::builder(SimpleTokenizer::default())
        .filter(LowerCaser)
        .filter(StopWordFilter::remove(stop_words.iter().map(|&word| word.to_owned())))
        .filter(Stemmer::new(Language::English))
        .build();
    Ok(TextField { indexing, analyzer: Some(("english", analyzer)) })
}

/// What tantivy's documentation suggests for English text.
fn usual_field() -> TextField {
    let indexing = TextFieldIndexing::default()
        .set_tokenizer("en_stem")
        .set_index_option(IndexRecordOption::WithFreqsAndPositions);
    TextField { indexing, analyzer: None }
}

/// Seconds that bare tantivy takes to index and store the texts.
fn index_bare(texts: &[String], folder: &Path, text_field: &TextField) -> anyhow::Result<f64> {
    if folder.exists() {
        fs::remove_dir_all(folder)?;
    }
    fs::create_dir_all(folder)?;
    let config = IndexConfig::default();
    let begun = Instant::now();
    let mut schema = Schema::builder();
    let field = schema.add_text_field(
        "text",
        TextOptions::default().set_indexing_options(text_field.indexing.clone()) | STORED,
    );
    let index = Index::create_in_dir(folder, schema.build())?;
    if let Some((name, analyzer)) = &text_field.analyzer {
        index.tokenizers().register(name, analyzer.clone());
    }
    let mut writer = index.writer_with_num_threads(1, config.writer_memory.as_usize())?;
    for chunk in texts.chunks(config.commit_items as usize) {
        for text in chunk {
            let mut document = TantivyDocument::new();
            document.add_text(field, text);
            writer.add_document(document)?;
        }
        writer.commit()?;
    }
    writer.wait_merging_threads()?;
    Ok(begun.elapsed().as_secs_f64())
}

/// How many items the run found to repeat others, in words.
fn duplicates(run: &Path) -> anyhow::Result<String> {
    let summary: Value = serde_json::from_slice(&fs::read(run.join("summary.json"))?)?;
    let count = |name: &str| summary.get(name).and_then(Value::as_u64).unwrap_or(0) as f64;
    let percent = |name: &str| 100.0 * count(name) / count("items").max(1.0);
    Ok(format!(
        "{:.1} % exact and {:.1} % near duplicates",
        percent("exactDuplicates"),
        percent("nearDuplicates")
    ))
}
