//! The whole way from files to items, over the real archives where they are at hand.

use std::{
    env, fs,
    path::{Path, PathBuf},
};

use super::*;
use crate::model::Item;

/// The folder of real data; says so where there is none.
fn real_data(folder: &str) -> Option<PathBuf> {
    let beside = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared/data");
    let path = env::var_os("NUGGETD_DATA").map_or_else(beside, PathBuf::from).join(folder);
    if !path.is_dir() {
        eprintln!("skipped: no real data at {}", path.display());
        return None;
    }
    Some(path)
}

fn items(archive: &Path, router: &Router) -> Vec<Item> {
    let mut items = Vec::new();
    for file in open_archive(&[archive.to_str().unwrap().to_owned()], &[]).unwrap() {
        for record in file.records().unwrap() {
            let record = record.unwrap();
            let decoded = decode(&record.bytes, Format::Auto);
            let accepted = decoded.and_then(|decoded| {
                assert!(decoded.refused.is_empty(), "{:?}", decoded.refused);
                decoded.items.into_iter().map(|raw| router.route(raw, None)).collect::<Result<Vec<_>, _>>()
            });
            match accepted {
                Ok(accepted) => items.extend(accepted.into_iter().flatten()),
                Err(refusal) => panic!("{:?}", dead_letter(file.path(), &record, &refusal)),
            }
        }
    }
    items
}

#[test]
fn every_record_of_the_real_archives_is_accepted() {
    let Some(archives) = real_data("archives") else { return };
    let mut folders: Vec<PathBuf> =
        fs::read_dir(archives).unwrap().map(|entry| entry.unwrap().path()).collect();
    folders.sort();
    let mut total = 0;
    for folder in folders {
        let events = read_events(std::slice::from_ref(&folder)).unwrap();
        assert!(events.iter().all(|event| !event.queries.is_empty() && !event.requests.is_empty()));
        let items = items(&folder, &Router::new(&events).unwrap());
        let within = |item: &Item| {
            let event = events.iter().find(|event| event.id == item.event).unwrap();
            event.requests_at(item.unix_timestamp).next().is_some()
        };
        assert!(items.iter().any(within), "{}", folder.display());
        total += items.len();
    }
    assert!(total > 20_000, "{total}");
}

#[test]
fn the_tracks_separate_files_describe_its_events() {
    let Some(folder) = real_data("crisisfacts") else { return };
    let together = read_events(&[
        folder.join("CrisisFACTs-2022to2023.topics.json"),
        folder.join("CrisisFACTs-2022-v3.queries.json"),
        folder.join("CrisisFACTs-2022.facts.json"),
    ]);
    let events = together.unwrap();
    assert_eq!(events.len(), 8);
    assert!(events.iter().all(|event| event.queries.len() > 40 && !event.requests.is_empty()));
    assert_eq!(read_events(std::slice::from_ref(&folder)).unwrap(), events);
}

#[test]
fn the_tracks_own_items_are_read_with_their_sources() {
    let Some(folder) = real_data("crisisfacts") else { return };
    let file =
        open_archive(&[folder.join("sample_stream_items.jsonl").to_str().unwrap().to_owned()], &[]).unwrap();
    let mut count = 0;
    for record in file[0].records().unwrap() {
        let record = record.unwrap();
        let raw = decode(&record.bytes, Format::Auto).unwrap().items.swap_remove(0);
        assert!(raw.source.unwrap().get().starts_with('{'));
        assert!(raw.origin.unwrap().contains('.'), "news come from a host");
        count += 1;
    }
    assert_eq!(count, 20);
}
