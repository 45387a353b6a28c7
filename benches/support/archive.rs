//! Large archives, made of real texts by a seed.
//!
//! No archive of this size may stand beside the code, so one is made: an item is a real text with a run of its words
//! replaced by the words of another real text, and other digits in some numbers. `DUPLICATES` of 100 items repeat one
//! of the last few thousand instead, as it is or slightly changed. So the lengths, hashtags, links, mentions, emoji and
//! languages are those of real tweets, while few items are equal by accident. What is not real: the vocabulary stops
//! growing at that of the real texts, and each item comes from a tweet.

use std::{
    fs::{self, File},
    io::{BufWriter, Write as _},
    path::{Path, PathBuf},
};

use anyhow::{Context as _, anyhow};
use jiff::{
    civil::{Date, Time},
    tz::TimeZone,
};
use serde_json::{Value, json};

use super::{random::Random, texts};

/// Of 100 items, how many repeat an earlier one of the request. Real events of CrisisLexT26 have 5 to 22.
const DUPLICATES: usize = 15;
/// How far back a repeated item may lie.
const MEMORY: usize = 4_096;
/// Archives with another number are made anew.
const VERSION: u32 = 1;
const SEED: u64 = 20_171_207;
const DAY: i64 = 86_400;

/// An archive on disk.
pub(crate) struct Archive {
    /// The folder of the items' files.
    pub(crate) items_at: PathBuf,
    /// The folder of the event files.
    pub(crate) events_at: PathBuf,
    /// Items in all files.
    pub(crate) items: usize,
}

/// One event-day to be made.
struct Day {
    event: String,
    request: String,
    start: i64,
    items: usize,
}

/// `items` tweets of one request, CrisisFACTS-001-r3, whose event asks the 52 questions of the real one.
pub(crate) fn one_request(data: &Path, workspace: &Path, items: usize) -> anyhow::Result<Archive> {
    let day = Day {
        event: "CrisisFACTS-001".to_owned(),
        request: "CrisisFACTS-001-r3".to_owned(),
        start: 1_512_604_800,
        items,
    };
    make(data, &workspace.join(format!("one-request-{items}-v{VERSION}")), &[day])
}

/// The shape of the whole CrisisFACTS collection, 18 events, 119 event-days and 1,778,399 items, every day times
/// `scale`.
pub(crate) fn collection(data: &Path, workspace: &Path, scale: f64) -> anyhow::Result<Archive> {
    let sizes_at = data.join("crisisfacts/stream_sizes_by_day.extracted.csv");
    let sizes = fs::read_to_string(&sizes_at).with_context(|| sizes_at.display().to_string())?;
    let mut days: Vec<Day> = Vec::new();
    for line in sizes.lines().skip(1) {
        days.push(
            day_of(line, scale, days.len()).with_context(|| format!("{}: {line}", sizes_at.display()))?,
        );
    }
    make(data, &workspace.join(format!("collection-{scale}-v{VERSION}")), &days)
}

/// A day of a line such as `001/2017-12-07,7288,52`.
fn day_of(line: &str, scale: f64, nth: usize) -> anyhow::Result<Day> {
    let mut columns = line.split(',');
    let (event, date) = columns.next().and_then(|name| name.split_once('/')).context("no event and day")?;
    let real: f64 = columns.next().context("no size")?.parse()?;
    let midnight = date.parse::<Date>()?.to_datetime(Time::midnight());
    let start = TimeZone::UTC.to_timestamp(midnight)?.as_second();
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "sizes are below a million")]
    let items = ((real * scale).round() as usize).max(1);
    Ok(Day {
        event: format!("CrisisFACTS-{event}"),
        request: format!("CrisisFACTS-{event}-r{}", nth + 1),
        start,
        items,
    })
}

/// Makes the archive unless it is there already.
fn make(data: &Path, folder: &Path, days: &[Day]) -> anyhow::Result<Archive> {
    let archive = Archive {
        items_at: folder.join("items"),
        events_at: folder.join("events"),
        items: days.iter().map(|day| day.items).sum(),
    };
    let complete = folder.join("complete");
    if complete.exists() {
        return Ok(archive);
    }
    eprintln!("making {} items in {}", archive.items, folder.display());
    if folder.exists() {
        fs::remove_dir_all(folder)?;
    }
    fs::create_dir_all(&archive.items_at)?;
    fs::create_dir_all(&archive.events_at)?;
    write_events(data, &archive.events_at, days)?;
    let texts = texts::read(data)?;
    for (seed, day) in (SEED..).zip(days) {
        let path = archive.items_at.join(format!("{}.jsonl", day.request));
        write_day(&path, day, &texts, &mut Random::new(seed))?;
    }
    fs::write(complete, "")?;
    Ok(archive)
}

/// One file for each event: the real events 001 to 008 lend their descriptions and questions, in turn.
fn write_events(data: &Path, folder: &Path, days: &[Day]) -> anyhow::Result<()> {
    let mut names: Vec<&str> = days.iter().map(|day| day.event.as_str()).collect();
    names.dedup();
    for (nth, name) in names.into_iter().enumerate() {
        let model =
            data.join(format!("archives/crisisfacts-pooled/CrisisFACTS-00{}.event.json", nth % 8 + 1));
        let text = fs::read_to_string(&model).with_context(|| model.display().to_string())?;
        let mut event: Value = serde_json::from_str(&text)?;
        let fields = event.as_object_mut().ok_or_else(|| anyhow!("{}: no object", model.display()))?;
        fields.insert("eventID".to_owned(), json!(name));
        fields.insert("dataset".to_owned(), json!(format!("made.{name}")));
        let requests = days.iter().filter(|day| day.event == name).map(|day| {
            json!({
                "eventID": name,
                "requestID": day.request,
                "startUnixTimestamp": day.start,
                "endUnixTimestamp": day.start + DAY - 1,
            })
        });
        fields.insert("summaryRequests".to_owned(), requests.collect());
        fs::write(folder.join(format!("{name}.json")), serde_json::to_vec(&event)?)?;
    }
    Ok(())
}

fn write_day(path: &Path, day: &Day, texts: &[String], random: &mut Random) -> anyhow::Result<()> {
    let mut out = BufWriter::new(File::create(path)?);
    let mut recent: Vec<String> = Vec::with_capacity(MEMORY);
    for (nth, step) in (0..day.items).zip(0_i64..) {
        let text = if !recent.is_empty() && random.chance(DUPLICATES) {
            repeated(&recent[random.below(recent.len())], random)
        } else {
            mixed(&texts[random.below(texts.len())], &texts[random.below(texts.len())], random)
        };
        let time = day.start + step * (DAY - 1) / i64::try_from(day.items)?;
        let tweet = 938_000_000_000_000_000 + random.next() % 1_000_000_000_000_000;
        let line = json!({
            "event": day.event,
            "streamID": format!("{}-Twitter-{}-{nth}", day.event, day.request.rsplit('r').next().unwrap_or("0")),
            "unixTimestamp": time,
            "text": text,
            "sourceType": "Twitter",
            "source": { "id_str": tweet.to_string(), "lang": Value::Null, "user": { "screen_name": account(random) } },
        });
        serde_json::to_writer(&mut out, &line)?;
        out.write_all(b"\n")?;
        if recent.len() < MEMORY {
            recent.push(text);
        } else {
            recent[nth % MEMORY] = text;
        }
    }
    out.flush()?;
    Ok(())
}

/// An earlier text once more: in half of the cases as it is, else as a retweet, with a link, or with one word changed.
fn repeated(text: &str, random: &mut Random) -> String {
    match random.below(8) {
        0..4 => text.to_owned(),
        4 | 5 => format!("RT @{}: {text}", account(random)),
        6 => format!("{text} http://t.co/{}", letters(random, 10)),
        _ => {
            let changed = random.below(text.split_whitespace().count());
            let words = text.split_whitespace().enumerate();
            let words: Vec<String> = words
                .map(|(place, word)| if place == changed { letters(random, 6) } else { word.to_owned() })
                .collect();
            words.join(" ")
        }
    }
}

/// `one` with a run of its words replaced by words of `other`: two fifths to four fifths of them.
fn mixed(one: &str, other: &str, random: &mut Random) -> String {
    let words: Vec<&str> = one.split_whitespace().collect();
    let lent: Vec<&str> = other.split_whitespace().collect();
    let replaced = (words.len() * (40 + random.below(41))).div_ceil(100);
    let from = random.below(words.len() - replaced + 1);
    let lent_from = random.below(lent.len().saturating_sub(replaced) + 1);
    let head = words.iter().take(from);
    let middle = lent.iter().skip(lent_from).take(replaced);
    let tail = words.iter().skip(from + replaced);
    let mut text = String::with_capacity(one.len() + other.len());
    for word in head.chain(middle).chain(tail) {
        if !text.is_empty() {
            text.push(' ');
        }
        if word.starts_with("http") {
            text.push_str("http://t.co/");
            text.push_str(&letters(random, 10));
        } else if word.bytes().any(|byte| byte.is_ascii_digit()) && random.chance(50) {
            text.extend(word.chars().map(|c| if c.is_ascii_digit() { digit(random) } else { c }));
        } else {
            text.push_str(word);
        }
    }
    text
}

fn digit(random: &mut Random) -> char {
    char::from(b'0' + u8::try_from(random.below(10)).unwrap_or(0))
}

fn letters(random: &mut Random, count: usize) -> String {
    (0..count).map(|_| char::from(b'a' + u8::try_from(random.below(26)).unwrap_or(0))).collect()
}

/// One of 20,000 accounts.
fn account(random: &mut Random) -> String {
    format!("reporter{}", random.below(20_000))
}
