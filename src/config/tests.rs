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

#[test]
fn properties_of_librdkafka_may_be_dotted_quoted_or_variables() {
    let text = "[kafka.librdkafka]\nsasl.mechanism = \"PLAIN\"\n\"socket.timeout.ms\" = 5000\n[kafka.consumer]\nfetch.min.bytes = 7\n";
    let environment = [("NUGGETD__KAFKA__LIBRDKAFKA__SASL_PASSWORD", "42")];
    let config = load(text, &environment, &["kafka.producer.linger.ms=3"]).unwrap();
    let read = |properties: &Properties| -> Vec<(String, String)> {
        properties.iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
    };
    let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    assert_eq!(
        read(&config.kafka.librdkafka),
        [pair("sasl.mechanism", "PLAIN"), pair("sasl.password", "42"), pair("socket.timeout.ms", "5000")]
    );
    assert_eq!(read(&config.kafka.consumer), [pair("fetch.min.bytes", "7")]);
    assert_eq!(read(&config.kafka.producer), [pair("linger.ms", "3")]);
}

#[test]
fn secrets_are_never_printed() {
    let environment = [("NUGGETD__KAFKA__LIBRDKAFKA__SASL_PASSWORD", "hunter2")];
    let settings = ["kafka.librdkafka.ssl.key.password=hunter2", "kafka.consumer.ssl.key.pem=file:/run/key"];
    let config = load("", &environment, &settings).unwrap();
    let printed = format!("{config:?}{}", toml::to_string(&config).unwrap());
    assert!(!printed.contains("hunter2"), "{printed}");
    assert!(printed.contains("(hidden)") && printed.contains("file:/run/key"), "{printed}");
    let message = load("", &[], &["kafka.librdkafka=hunter2"]).unwrap_err();
    assert!(message.contains("is a section"), "{message}");
}

#[test]
fn sources_are_checked_one_by_one() {
    let text = "[[source]]\ntopic = \"a\"\nformat = \"reddit\"\n[[source]]\ntopic = \"a\"\n[[source]]\ntopic = \"b c\"\n";
    let message = load(text, &[], &[]).unwrap_err();
    assert!(message.contains("\"a\" is named twice") && message.contains("\"b c\" is no topic"), "{message}");
    let message = load("[[source]]\ntopik = \"a\"\n", &[], &[]).unwrap_err();
    assert!(message.contains("nuggetd.toml:1: source") && message.contains("topik"), "{message}");
    let config = load("data_dir = \"/var/lib/nuggetd\"\n[[source]]\ntopic = \"a\"\n", &[], &[]).unwrap();
    assert_eq!(config.source[0].frame, Frame::None);
    assert_eq!(config.data_dir, Path::new("/var/lib/nuggetd"));
}

#[test]
fn each_topic_is_used_for_one_thing() {
    let text =
        "[[source]]\ntopic = \"items\"\n[topics]\nnuggets = \"items\"\nevents = \"nuggetd.requests\"\n";
    let message = load(text, &[], &["topics.dead_letters=nuggetd.requests"]).unwrap_err();
    for expected in [
        "3 problem(s)",
        "nuggetd.toml:4: topics.nuggets is \"items\", which is also the topic of a [[source]]",
        "topics.requests is \"nuggetd.requests\", which is also topics.events",
        "topics.dead_letters is \"nuggetd.requests\", which is also topics.events",
    ] {
        assert!(message.contains(expected), "{expected:?} is not in\n{message}");
    }
}

#[test]
fn an_event_is_not_quiet_at_once() {
    let message = load("[schedule]\nidle = 0\n", &[], &[]).unwrap_err();
    assert!(message.contains("nuggetd.toml:2: schedule.idle must be at least 1s"), "{message}");
}
