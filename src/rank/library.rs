//! ONNX Runtime's shared library: where it is, and whether it can be used, before anything is asked of it.

use std::{
    env,
    fs::{self, File},
    io::Read,
    path::{Path, PathBuf, absolute},
    process::{Command, Stdio},
    sync::{Arc, Mutex, PoisonError},
    thread,
    time::{Duration, Instant},
};

use ort::environment::Environment;

use super::{RerankConfig, RerankError};

/// How long loading it may take: its initialisers can wait for what never comes.
const DEADLINE: Duration = Duration::from_secs(9);
/// How often the process that tries it is looked at.
const LOOK: Duration = Duration::from_millis(10);
const VARIABLE: &str = "ORT_DYLIB_PATH";
/// The oldest 1.x that serves.
const OLDEST: u32 = ort::MINOR_VERSION;
/// The hidden command that tries a library.
pub const PROBE: &str = "probe-onnxruntime";

/// Loads the library once for the process. Whoever comes later, with whatever path, uses that one.
pub(super) fn environment(config: &RerankConfig) -> Result<Arc<Environment>, RerankError> {
    static LOADED: Mutex<Option<Arc<Environment>>> = Mutex::new(None);
    let path = find(&config.onnxruntime)?;
    // The system's loader searches for a bare name elsewhere
    let path = absolute(&path).unwrap_or(path);
    refuse_other_files(&path)?;
    let mut loaded = LOADED.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(environment) = loaded.as_ref() {
        return Ok(Arc::clone(environment));
    }
    let environment = Arc::new(load(&path)?);
    *loaded = Some(Arc::clone(&environment));
    Ok(environment)
}

/// The configured one, else that of the environment variable, else the one beside the program.
fn find(configured: &Path) -> Result<PathBuf, RerankError> {
    if !configured.as_os_str().is_empty() {
        return Ok(configured.to_owned());
    }
    if let Some(named) = env::var_os(VARIABLE).filter(|named| !named.is_empty()) {
        return Ok(PathBuf::from(named));
    }
    let program = env::current_exe().ok().and_then(|program| Some(program.parent()?.to_owned()));
    let entries = program.and_then(|folder| fs::read_dir(folder).ok()).into_iter().flatten().flatten();
    let mut beside: Vec<PathBuf> =
        entries.map(|entry| entry.path()).filter(|path| is_named_so(path)).collect();
    beside.sort();
    beside.pop().ok_or_else(|| {
        RerankError::Library(format!(
            "no library is configured: `scripts/onnxruntime` gets it and prints its path for rerank.onnxruntime or {VARIABLE}"
        ))
    })
}

fn is_named_so(path: &Path) -> bool {
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let ending = if cfg!(target_os = "macos") { ".dylib" } else { ".so" };
    name.starts_with("libonnxruntime.") && name.contains(ending)
}

/// What is no shared library is told apart before the system's loader sees it.
fn refuse_other_files(path: &Path) -> Result<(), RerankError> {
    let fail = |reason: String| Err(RerankError::Library(format!("{}: {reason}", path.display())));
    if path.exists() && !path.is_file() {
        return fail("is no file".to_owned());
    }
    let mut begin = Vec::new();
    let length = match File::open(path).and_then(|file| {
        let length = file.metadata()?.len();
        file.take(64).read_to_end(&mut begin).map(|_| length)
    }) {
        Ok(length) => length,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            return fail("there is no such library; `scripts/onnxruntime` gets it".to_owned());
        }
        Err(error) => return fail(format!("cannot be read: {error}")),
    };
    let is_library = match begin.as_slice() {
        [0x7f, b'E', b'L', b'F', ..] => cfg!(not(target_os = "macos")),
        [0xcf, 0xfa, 0xed, 0xfe, ..] | [0xca, 0xfe, 0xba, 0xbe, ..] => cfg!(target_os = "macos"),
        _ => false,
    };
    if !is_library {
        return fail("is no shared library".to_owned());
    }
    // The loader maps the file, and a process that touches what is not there is killed
    if elf_length(&begin).is_some_and(|whole| length < whole) {
        return fail(format!("is cut short, at {length} bytes; `scripts/onnxruntime` gets it again"));
    }
    Ok(())
}

/// How long an ELF file (64 bits, little endian) is at least: its table of sections stands at its end.
fn elf_length(header: &[u8]) -> Option<u64> {
    let is_such = header.starts_with(&[0x7f, b'E', b'L', b'F', 2, 1]);
    let number = |at: usize, bytes: usize| {
        let bytes = header.get(at..at + bytes)?;
        Some(bytes.iter().rev().fold(0, |number, &byte| number << 8 | u64::from(byte)))
    };
    let (at, size, count) = (number(0x28, 8)?, number(0x3a, 2)?, number(0x3c, 2)?);
    is_such.then(|| at.saturating_add(size * count))
}

fn load(path: &Path) -> Result<Environment, RerankError> {
    let fail = |reason: String| RerankError::Library(format!("{}: {reason}", path.display()));
    try_elsewhere(path).map_err(fail)?;
    let unusable = |reason: String| fail(format!("cannot be used (1.{OLDEST} or newer is needed): {reason}"));
    let builder = ort::init_from(path).map_err(|error| unusable(error.to_string()))?;
    let builder = builder.with_name("nuggetd").with_telemetry(false);
    builder.build().map_err(|error| unusable(error.to_string()))
}

/// Loads the library in a process of its own first: its initialisers may wait for what never comes, and then this process
/// could not even end, or they may take it down.
fn try_elsewhere(path: &Path) -> Result<(), String> {
    // A program that uses nuggetd as a library cannot be asked
    let program =
        env::current_exe().ok().filter(|program| program.file_stem().is_some_and(|name| name == "nuggetd"));
    let Some(program) = program else { return Ok(()) };
    let mut child = Command::new(program)
        .arg(PROBE)
        .arg(path)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| format!("no process to try it in: {error}"))?;
    let began = Instant::now();
    let ended = loop {
        match child.try_wait() {
            Ok(Some(ended)) => break ended,
            Ok(None) if began.elapsed() < DEADLINE => thread::sleep(LOOK),
            Ok(None) => {
                child.kill().and_then(|()| child.wait()).map_err(|error| error.to_string())?;
                return Err(format!("was not loaded within {} s", DEADLINE.as_secs()));
            }
            Err(error) => return Err(format!("whether it can be loaded is not known: {error}")),
        }
    };
    if ended.success() {
        return Ok(());
    }
    let mut said = String::new();
    if let Some(mut stderr) = child.stderr.take() {
        stderr.read_to_string(&mut said).map_err(|error| error.to_string())?;
    }
    let reason = said
        .lines()
        .rfind(|line| !line.is_empty())
        .map_or_else(|| format!("loading it failed, {ended}"), str::to_owned);
    Err(format!("cannot be used (1.{OLDEST} or newer is needed): {reason}"))
}

/// Loads a library: what the hidden command [`PROBE`] does, in a process of its own.
pub fn probe(path: &Path) -> Result<(), String> {
    ort::init_from(path).map(drop).map_err(|error| error.to_string())
}
