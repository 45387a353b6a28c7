use std::path::PathBuf;

use super::*;

fn load(text: &str, environment: &[(&str, &str)], settings: &[&str]) -> Result<Config, String> {
    let folder = tempfile::tempdir().unwrap();
    let path: PathBuf = folder.path().join("nuggetd.toml");
    fs::write(&path, text).unwrap();
    let environment = environment.iter().map(|&(key, value)| (key.to_owned(), value.to_owned()));
    let settings: Vec<String> = settings.iter().map(|&setting| setting.to_owned()).collect();
    Config::load_with(Some(&path), environment, &settings).map_err(|error| error.to_string())
}

#[test]
fn flags_win_over_the_environment_and_the_environment_over_the_file() {
    let text = "[search]\ntop = 10\nfeedback_items = 11\nfeedback_terms = 12\n";
    let environment = [
        ("NUGGETD__SEARCH__FEEDBACK_ITEMS", "21"),
        ("NUGGETD__SEARCH__FEEDBACK_TERMS", "22"),
        ("OTHER", "x"),
    ];
    let config = load(text, &environment, &["search.feedback_terms=32"]).unwrap();
    assert_eq!((config.search.top, config.search.feedback_items, config.search.feedback_terms), (10, 21, 32));
    assert_eq!(config.index, IndexConfig::default());
}

#[test]
fn all_problems_are_reported_at_once_each_with_its_place() {
    let text = "[index]\ncommit_interval = \"soon\"\ncomit_items = 5\nopen_shards = 0\n\n[serach]\ntop = 3\n";
    let message = load(text, &[("NUGGETD__LOG__FORMAT", "loud")], &["facts", "log=3"]).unwrap_err();
    for expected in [
        "7 problem(s)",
        "nuggetd.toml:2: index.commit_interval: expected a duration",
        "nuggetd.toml:3: unknown key index.comit_items; known here: commit_interval, commit_items",
        "nuggetd.toml:4: index.open_shards must lie within 1 and 1000",
        "nuggetd.toml:7: unknown key serach.top",
        "environment variable NUGGETD__LOG__FORMAT: log.format",
        "--set facts: expected section.key=value",
        "--set log=3: log is a section",
    ] {
        assert!(message.contains(expected), "{expected:?} is not in\n{message}");
    }
}

#[test]
fn a_file_that_is_no_toml_is_named_with_the_line() {
    let message = load("[index]\n\ncommit_items 5\n", &[], &[]).unwrap_err();
    assert!(message.contains("nuggetd.toml:3:"), "{message}");
    let error = Config::load_with(Some(Path::new("/no/such/file.toml")), [], &[]).unwrap_err();
    assert!(error.to_string().contains("/no/such/file.toml"), "{error}");
}

#[test]
fn the_documented_default_reads_back_as_the_default_and_explains_every_key() {
    let text = documented_default();
    assert_eq!(load(&text, &[], &[]).unwrap(), Config::default());
    let mut explained = false;
    for line in text.lines().filter(|line| !line.is_empty()) {
        if line.contains(" = ") && !line.starts_with('#') || line.starts_with('[') {
            assert!(explained, "{line} has no comment before it");
        }
        explained = line.starts_with('#');
    }
}
