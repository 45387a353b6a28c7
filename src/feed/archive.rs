//! Archive files: which ones the arguments name, in order, and their bytes unpacked.
//!
//! Keeps true: the same arguments over the same files give the same order; no file is read twice; labels and event
//! files are never taken for items, whatever they are called.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs::{self, File},
    io::{self, BufRead, BufReader, Cursor, Read},
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use flate2::bufread::MultiGzDecoder;
use xxhash_rust::xxh3::xxh3_64;

use super::{Records, events::describe_events};

const BUFFER: usize = 64 << 10;
/// How much of a file goes into its identity: enough to tell files apart, and there from the start in one that grows.
const IDENTITY: u64 = 4 << 10;
const STANDARD_INPUT: &str = "-";
/// What a folder holds in which a run writes its results.
const RUN_LEDGER: &str = "state/ledger.sqlite";

/// Why an archive cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum ArchiveError {
    /// An argument names nothing that exists.
    #[error("no archive file or folder {0}")]
    NotFound(String),
    /// The arguments name no file of items.
    #[error("no archive file among {0}: looked for .jsonl, .ndjson and .json, also with .gz or .zst")]
    NoFiles(String),
    /// A file among the archives that describes events.
    #[error("{0} describes events; give it by --events")]
    DescribesEvents(String),
    /// A folder where a file is asked for.
    #[error("{0} is a folder; name the files in it")]
    Folder(String),
    /// A pattern that is none.
    #[error("{pattern} is no file pattern: {source}")]
    Pattern {
        /// The argument.
        pattern: String,
        /// What is wrong with it.
        source: glob::PatternError,
    },
    /// A file or folder that cannot be read.
    #[error("{path} cannot be read: {source}")]
    Read {
        /// The file or folder.
        path: String,
        /// What went wrong.
        source: io::Error,
    },
}

/// One file of an archive, not yet opened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ArchiveFile {
    /// A stable name for positions: the file's name and a hash of its start.
    pub identity: String,
    path: String,
    place: Option<PathBuf>,
    bytes: Option<u64>,
}

impl ArchiveFile {
    /// The path, for people; `-` for standard input.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// The packed size, for progress; nothing for standard input.
    pub fn bytes(&self) -> Option<u64> {
        self.bytes
    }

    /// The one file that `argument` names, `-` for standard input.
    pub fn open(argument: &str) -> Result<Self, ArchiveError> {
        if argument == STANDARD_INPUT {
            return Ok(Self::standard_input());
        }
        if Path::new(argument).is_dir() {
            return Err(ArchiveError::Folder(argument.to_owned()));
        }
        Self::at(PathBuf::from(argument))
    }

    /// The records of the file, unpacked.
    pub fn records(&self) -> Result<Records, ArchiveError> {
        let (bytes, packed) = self.unpacked()?;
        Ok(Records::counting(bytes, self.path.clone(), packed))
    }

    /// The bytes of the file, unpacked.
    pub fn bytes_unpacked(&self) -> Result<Box<dyn BufRead + Send>, ArchiveError> {
        Ok(self.unpacked()?.0)
    }

    /// Opens the file; with a count of the packed bytes read. Whether it is packed with gzip or Zstandard is told from
    /// its first bytes.
    fn unpacked(&self) -> Result<(Box<dyn BufRead + Send>, Arc<AtomicU64>), ArchiveError> {
        let error = |source| ArchiveError::Read { path: self.path.clone(), source };
        let packed = Arc::new(AtomicU64::new(0));
        let reader: Box<dyn Read + Send> = match &self.place {
            Some(place) => Box::new(File::open(place).map_err(error)?),
            None => Box::new(io::stdin()),
        };
        let counted = Counted { reader, count: Arc::clone(&packed) };
        let unpacked = unpack(BufReader::with_capacity(BUFFER, counted)).map_err(error)?;
        Ok((unpacked, packed))
    }

    /// Whether the file's first record describes an event. What cannot be read is told when the records are.
    fn describes_events(&self) -> bool {
        self.bytes_unpacked().is_ok_and(describe_events)
    }

    fn standard_input() -> Self {
        let name = STANDARD_INPUT.to_owned();
        Self { identity: name.clone(), path: name, place: None, bytes: None }
    }

    fn at(place: PathBuf) -> Result<Self, ArchiveError> {
        let path = place.to_string_lossy().into_owned();
        let name = place.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let measured = File::open(&place).and_then(|file| {
            let bytes = file.metadata()?.len();
            let mut start = Vec::new();
            file.take(IDENTITY).read_to_end(&mut start)?;
            Ok((bytes, start))
        });
        match measured {
            Ok((bytes, start)) => {
                let identity = format!("{name}@{:016x}", xxh3_64(&start));
                Ok(Self { identity, path, place: Some(place), bytes: Some(bytes) })
            }
            Err(source) => Err(ArchiveError::Read { path, source }),
        }
    }
}

/// The files that the arguments name, in their order: files, folders (with all below them, sorted), patterns such as
/// `2017/*.jsonl.gz` (sorted), and `-` for standard input. Left out are the `event_files`, and folders of earlier runs.
pub fn open_archive(arguments: &[String], event_files: &[PathBuf]) -> Result<Vec<ArchiveFile>, ArchiveError> {
    let mut files = Vec::new();
    let mut seen: BTreeSet<PathBuf> =
        event_files.iter().map(|file| fs::canonicalize(file).unwrap_or_else(|_| file.clone())).collect();
    for argument in arguments {
        if argument == STANDARD_INPUT {
            if seen.insert(PathBuf::from(STANDARD_INPUT)) {
                files.push(ArchiveFile::standard_input());
            }
            continue;
        }
        for place in places(argument)? {
            let real = fs::canonicalize(&place).unwrap_or_else(|_| place.clone());
            if seen.insert(real) {
                let file = ArchiveFile::at(place)?;
                if file.describes_events() {
                    return Err(ArchiveError::DescribesEvents(file.path));
                }
                files.push(file);
            }
        }
    }
    if files.is_empty() {
        return Err(ArchiveError::NoFiles(arguments.join(" ")));
    }
    tell_apart(&mut files);
    Ok(files)
}

/// Copies of one file in several folders have the same name and start; positions need them apart.
fn tell_apart(files: &mut [ArchiveFile]) {
    let mut copies: BTreeMap<String, u32> = BTreeMap::new();
    for file in files {
        let copy = copies.entry(file.identity.clone()).or_default();
        *copy += 1;
        if *copy > 1 {
            file.identity = format!("{}#{copy}", file.identity);
        }
    }
}

fn places(argument: &str) -> Result<Vec<PathBuf>, ArchiveError> {
    let path = Path::new(argument);
    if path.is_dir() {
        let mut found = Vec::new();
        let mut visited = BTreeSet::new();
        search_folder(path, &mut visited, &mut found)?;
        return Ok(found);
    }
    if path.exists() {
        return Ok(if holds_no_items(path) { Vec::new() } else { vec![path.to_owned()] });
    }
    let matches = matching(argument)
        .map_err(|source| ArchiveError::Pattern { pattern: argument.to_owned(), source })?
        .ok_or_else(|| ArchiveError::NotFound(argument.to_owned()))?;
    let mut found = Vec::new();
    for place in matches {
        if place.is_dir() {
            search_folder(&place, &mut BTreeSet::new(), &mut found)?;
        } else if holds_items(&place) {
            found.push(place);
        }
    }
    Ok(found)
}

/// What a pattern matches, sorted, hidden files only where it names them; nothing where the text is no pattern or
/// matches nothing.
pub(super) fn matching(pattern: &str) -> Result<Option<Vec<PathBuf>>, glob::PatternError> {
    if !pattern.contains(['*', '?', '[']) {
        return Ok(None);
    }
    let options = glob::MatchOptions { require_literal_leading_dot: true, ..glob::MatchOptions::new() };
    let mut found: Vec<PathBuf> = glob::glob_with(pattern, options)?.filter_map(Result::ok).collect();
    found.sort();
    Ok((!found.is_empty()).then_some(found))
}

fn search_folder(
    folder: &Path,
    visited: &mut BTreeSet<PathBuf>,
    found: &mut Vec<PathBuf>,
) -> Result<(), ArchiveError> {
    let error = |source| ArchiveError::Read { path: folder.to_string_lossy().into_owned(), source };
    // Links may lead back to a folder above.
    if !visited.insert(fs::canonicalize(folder).map_err(error)?) || folder.join(RUN_LEDGER).exists() {
        return Ok(());
    }
    let mut entries = Vec::new();
    for entry in fs::read_dir(folder).map_err(error)? {
        entries.push(entry.map_err(error)?.path());
    }
    entries.sort();
    for entry in entries {
        if is_hidden(&entry) {
            continue;
        }
        if entry.is_dir() {
            search_folder(&entry, visited, found)?;
        } else if holds_items(&entry) {
            found.push(entry);
        }
    }
    Ok(())
}

fn name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().to_ascii_lowercase()
}

fn is_hidden(path: &Path) -> bool {
    name(path).starts_with('.')
}

/// Event files and labels lie beside archives and are asked for by other names.
fn holds_no_items(path: &Path) -> bool {
    let name = name(path);
    name == "event.json" || name.ends_with(".event.json") || name.contains(".labels.")
}

fn holds_items(path: &Path) -> bool {
    let name = name(path);
    let unpacked = name.strip_suffix(".gz").or_else(|| name.strip_suffix(".zst")).unwrap_or(&name);
    let is_json = [".jsonl", ".ndjson", ".json"].iter().any(|ending| unpacked.ends_with(ending));
    is_json && !holds_no_items(path)
}

struct Counted<R> {
    reader: R,
    count: Arc<AtomicU64>,
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.reader.read(buffer)?;
        self.count.fetch_add(read as u64, Ordering::Relaxed);
        Ok(read)
    }
}

/// Unpacks gzip (of several members too) and Zstandard (of several frames too).
fn unpack(mut packed: impl BufRead + Send + 'static) -> io::Result<Box<dyn BufRead + Send>> {
    let mut magic = Vec::new();
    packed.by_ref().take(4).read_to_end(&mut magic)?;
    let packed = Cursor::new(magic.clone()).chain(packed);
    match magic.as_slice() {
        [0x1f, 0x8b, ..] => Ok(Box::new(BufReader::with_capacity(BUFFER, MultiGzDecoder::new(packed)))),
        // A frame, or a frame to skip, with which parallel writers begin.
        [0x28, 0xb5, 0x2f, 0xfd] | [0x50..=0x5f, 0x2a, 0x4d, 0x18] => {
            let decoder = zstd::stream::read::Decoder::with_buffer(packed)?;
            Ok(Box::new(BufReader::with_capacity(BUFFER, decoder)))
        }
        _ => Ok(Box::new(packed)),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use flate2::{Compression, write::GzEncoder};
    use tempfile::TempDir;

    use super::*;

    fn gzip(text: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(text).unwrap();
        encoder.finish().unwrap()
    }

    fn write(folder: &TempDir, name: &str, bytes: &[u8]) -> String {
        let path = folder.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, bytes).unwrap();
        path.to_str().unwrap().to_owned()
    }

    fn names(files: &[ArchiveFile]) -> Vec<&str> {
        files.iter().map(|file| file.path().rsplit('/').next().unwrap()).collect()
    }

    #[test]
    fn a_folder_gives_its_archives_sorted_and_nothing_else() {
        let folder = TempDir::new().unwrap();
        for name in [
            "b.jsonl",
            "a/2.ndjson.gz",
            "a/1.json.zst",
            "c.JSON",
            "x.event.json",
            "x.labels.jsonl.gz",
            "y.txt",
            ".hidden.jsonl",
        ] {
            write(&folder, name, b"{}");
        }
        let argument = folder.path().to_str().unwrap().to_owned();
        let files = open_archive(std::slice::from_ref(&argument), &[]).unwrap();
        assert_eq!(names(&files), ["1.json.zst", "2.ndjson.gz", "b.jsonl", "c.JSON"]);
        let again = open_archive(&[format!("{argument}/b.jsonl"), argument.clone()], &[]).unwrap();
        assert_eq!(names(&again), ["b.jsonl", "1.json.zst", "2.ndjson.gz", "c.JSON"]);
        let pattern = open_archive(&[format!("{argument}/*.[jJ]*"), "-".into()], &[]).unwrap();
        assert_eq!(names(&pattern), ["b.jsonl", "c.JSON", "-"]);
        assert_eq!(pattern[2].bytes(), None);
    }

    #[test]
    fn event_files_are_not_read_as_items_whatever_they_are_called() {
        let folder = TempDir::new().unwrap();
        let event = r#"{"title": "x", "eventID": "A", "queries": [{"queryID": "q", "query": "w"}], "summaryRequests": []}"#;
        let pretty = event.replace(", ", ",\n  ");
        let long = format!("{{\"eventID\": \"A\", \"queries\": [{}]}}", "{},".repeat(1 << 20));
        for bytes in [
            event.as_bytes().to_vec(),
            format!("\u{feff}\n{pretty}\n").into_bytes(),
            format!(" [{pretty}]").into_bytes(),
            gzip(event.as_bytes()),
            long.into_bytes(),
        ] {
            let path = write(&folder, "b.json", &bytes);
            let error = open_archive(std::slice::from_ref(&path), &[]).unwrap_err();
            assert_eq!(error.to_string(), format!("{path} describes events; give it by --events"));
            // One that is given by --events too is left out, so that a folder may hold it.
            assert!(matches!(
                open_archive(std::slice::from_ref(&path), &[PathBuf::from(&path)]),
                Err(ArchiveError::NoFiles(_))
            ));
        }
        for items in [
            "{\"text\":\"x\"}",
            "[]",
            "[[{\"eventID\":1,\"queries\":2}]]",
            "{\"eventID\":\"A\",\"text\":\"x\"}",
            "{\"a\":{\"eventID\":1,\"queries\":2}}",
            "no json",
            "",
        ] {
            let path = write(&folder, "items.jsonl", items.as_bytes());
            assert_eq!(open_archive(&[path], &[]).unwrap().len(), 1, "{items}");
        }
    }

    #[test]
    fn one_file_is_a_file_and_no_folder() {
        let folder = TempDir::new().unwrap();
        let name = folder.path().to_str().unwrap();
        assert!(ArchiveFile::open(name).unwrap_err().to_string().contains(name));
        let missing = format!("{name}/no.jsonl");
        assert!(ArchiveFile::open(&missing).unwrap_err().to_string().contains(&missing));
        let path = write(&folder, "a.gz", &gzip(b"fire"));
        let mut text = String::new();
        ArchiveFile::open(&path).unwrap().bytes_unpacked().unwrap().read_to_string(&mut text).unwrap();
        assert_eq!(text, "fire");
    }

    #[test]
    fn a_link_that_leads_up_ends() {
        let folder = TempDir::new().unwrap();
        write(&folder, "a.jsonl", b"{}");
        #[cfg(unix)]
        std::os::unix::fs::symlink(folder.path(), folder.path().join("up")).unwrap();
        assert_eq!(open_archive(&[folder.path().to_str().unwrap().into()], &[]).unwrap().len(), 1);
    }

    #[test]
    fn what_is_not_there_is_named() {
        let folder = TempDir::new().unwrap();
        let missing = folder.path().join("no.jsonl").to_str().unwrap().to_owned();
        let message = open_archive(std::slice::from_ref(&missing), &[]).unwrap_err().to_string();
        assert!(message.contains(&missing), "{message}");
        let empty = open_archive(&[folder.path().to_str().unwrap().into()], &[]).unwrap_err();
        assert!(matches!(empty, ArchiveError::NoFiles(_)), "{empty}");
        let labels = write(&folder, "x.labels.jsonl", b"{}");
        assert!(matches!(open_archive(&[labels], &[]), Err(ArchiveError::NoFiles(_))));
    }

    #[test]
    fn identity_is_name_and_content() {
        let folder = TempDir::new().unwrap();
        let paths = [
            write(&folder, "1/a.jsonl", b"{}"),
            write(&folder, "2/a.jsonl", b"{}\n{}"),
            write(&folder, "3/a.jsonl", b"{}"),
        ];
        let files = open_archive(&paths, &[]).unwrap();
        assert!(files[0].identity.starts_with("a.jsonl@"));
        assert_ne!(files[0].identity, files[1].identity);
        assert_eq!(files[2].identity, format!("{}#2", files[0].identity));
        assert_eq!(open_archive(&paths, &[]).unwrap(), files);
    }

    #[test]
    fn packed_files_of_several_parts_are_read_whole() {
        let folder = TempDir::new().unwrap();
        let gz = [gzip(b"{\"a\":1}\n{\"a\""), gzip(b":2}\n")].concat();
        let zst = [
            zstd::encode_all(&b"{\"a\":1}\n"[..], 1).unwrap(),
            zstd::encode_all(&b"{\"a\":2}"[..], 1).unwrap(),
        ];
        // The ending does not matter.
        for path in [write(&folder, "a.jsonl", &gz), write(&folder, "b.jsonl.gz", &zst.concat())] {
            let file = &open_archive(&[path], &[]).unwrap()[0];
            let records: Vec<_> = file.records().unwrap().map(Result::unwrap).collect();
            let texts: Vec<&[u8]> = records.iter().map(|record| &record.bytes[..]).collect();
            assert_eq!(texts, [b"{\"a\":1}", b"{\"a\":2}"]);
            assert_eq!(Some(records[1].packed_position), file.bytes());
        }
    }

    #[test]
    fn a_packed_file_that_is_cut_off_gives_its_good_records_and_then_an_error_with_its_name() {
        let folder = TempDir::new().unwrap();
        let mut text = Vec::new();
        for number in 0..20_000_u64 {
            writeln!(text, "{{\"a\":{}}}", number.wrapping_mul(0x9e37_79b9_7f4a_7c15)).unwrap();
        }
        for (name, mut packed) in
            [("a.jsonl.gz", gzip(&text)), ("b.zst", zstd::encode_all(&text[..], 1).unwrap())]
        {
            packed.truncate(packed.len() - packed.len() / 3);
            let file = &open_archive(&[write(&folder, name, &packed)], &[]).unwrap()[0];
            let mut results: Vec<_> = file.records().unwrap().collect();
            let error = results.pop().unwrap().unwrap_err().to_string();
            assert!(error.contains(name), "{error}");
            assert!(results.len() > 5_000);
            for result in results {
                serde_json::from_slice::<serde_json::Value>(&result.unwrap().bytes).unwrap();
            }
        }
    }
}
