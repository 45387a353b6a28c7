use std::collections::BTreeSet;

use prometheus::proto::MetricType;

use super::*;
use crate::telemetry::{HeartLimits, IndexSize, Phase};

const SOURCE: &str = include_str!("../metrics.rs");
const OPERATIONS: &str = include_str!("../../../docs/OPERATIONS.md");

fn status() -> Status {
    Status::new("a", HeartLimits { poll: Duration::from_secs(5), intake: Duration::from_secs(60) })
}

/// Metrics in which every family has a series.
fn all_told(status: &Status) -> Metrics {
    let metrics = Metrics::new().unwrap();
    let event = EventId::new("E-1").unwrap();
    metrics.message("items", MessageOutcome::Accepted);
    metrics.item(&event);
    metrics.gap("items", 3);
    status.assign_partition("items", 0);
    status.set_next_offset("items", 0, 4);
    status.set_high_watermark("items", 0, 10);
    status.set_watermark(&event, 1_512_604_800);
    metrics
}

/// The names that stand in the code.
fn names() -> BTreeSet<&'static str> {
    SOURCE.split('"').filter(|text| text.starts_with("nuggetd_")).collect()
}

fn lines<'a>(text: &'a str, start: &str) -> Vec<&'a str> {
    text.lines().filter(|line| line.starts_with(start)).collect()
}

#[test]
fn every_name_says_its_unit_and_every_family_has_a_help() {
    let status = status();
    let metrics = all_told(&status);
    metrics.render(&status).unwrap();
    let families = metrics.registry.gather();
    let own = families.iter().filter(|family| !family.name().starts_with("process_"));
    let mut seen = BTreeSet::new();
    for family in own {
        let name = family.name();
        seen.insert(name.to_owned());
        assert!(name.starts_with("nuggetd_"), "{name} has no prefix");
        assert!(name.chars().all(|c| c.is_ascii_lowercase() || c == '_'), "{name}");
        assert!(family.help().ends_with('.'), "{name} has no help, or half a sentence");
        let kind = family.get_field_type();
        assert_eq!(kind == MetricType::COUNTER, name.ends_with("_total"), "{name} is a {kind:?}");
        let measures_time =
            ["_age", "_lag", "_duration", "_timestamp", "_searchable"].iter().any(|word| name.contains(word));
        if measures_time || kind == MetricType::HISTOGRAM {
            assert!(
                name.ends_with("_seconds") || name.ends_with("_records"),
                "{name} does not say its unit last"
            );
        }
        for part in name.split('_') {
            let other_unit = ["ms", "milliseconds", "minutes", "hours", "kb", "mb", "kilobytes", "percent"];
            assert!(!other_unit.contains(&part), "{name} is not in a base unit");
        }
    }
    let seen: BTreeSet<&str> = seen.iter().map(String::as_str).collect();
    assert_eq!(seen, names(), "a family that has no series here was not looked at");
}

#[test]
fn every_name_stands_in_the_operations_guide_and_none_that_is_gone() {
    let documented: BTreeSet<&str> = OPERATIONS
        .lines()
        .filter_map(|line| line.strip_prefix("| `nuggetd_"))
        .filter_map(|rest| rest.split('`').next())
        .collect();
    let names: BTreeSet<&str> = names().iter().filter_map(|name| name.strip_prefix("nuggetd_")).collect();
    assert_eq!(documented, names);
}

#[test]
fn series_of_a_partition_and_of_an_event_that_have_gone_disappear() {
    let status = status();
    let metrics = all_told(&status);
    let event = EventId::new("E-1").unwrap();
    status.assign_partition("items", 1);
    status.set_next_offset("items", 1, 2);
    status.set_high_watermark("items", 1, 2);
    let before = metrics.render(&status).unwrap();
    assert_eq!(
        lines(&before, "nuggetd_consumer_lag_records{"),
        [
            "nuggetd_consumer_lag_records{partition=\"0\",topic=\"items\"} 6",
            "nuggetd_consumer_lag_records{partition=\"1\",topic=\"items\"} 0",
        ]
    );
    assert_eq!(lines(&before, "nuggetd_watermark_lag_seconds{event=\"E-1\"}").len(), 1);
    assert_eq!(lines(&before, "nuggetd_items_total{event=\"E-1\"}").len(), 1);

    status.forget_partition("items", 0);
    status.forget_event(&event);
    metrics.forget_event(&event);
    metrics.forget_event(&event);
    let after = metrics.render(&status).unwrap();
    assert_eq!(
        lines(&after, "nuggetd_consumer_lag_records{"),
        ["nuggetd_consumer_lag_records{partition=\"1\",topic=\"items\"} 0"]
    );
    assert!(!after.contains("E-1"), "{after}");
}

#[test]
fn closed_sets_start_at_zero() {
    let text = Metrics::new().unwrap().render(&status()).unwrap();
    for &code in RefusalCode::ALL {
        assert!(text.contains(&format!("nuggetd_dead_letters_total{{code=\"{code}\"}} 0\n")), "{code}");
    }
    for start in ["nuggetd_request_runs_total{", "nuggetd_index_commits_total{"] {
        assert!(
            !lines(&text, start).is_empty() && lines(&text, start).iter().all(|line| line.ends_with(" 0"))
        );
    }
}

#[test]
fn gauges_are_what_the_status_says_at_the_scrape() {
    let status = status();
    let metrics = Metrics::new().unwrap();
    status.pause(Pause::Disk, "3 bytes left");
    status.committed(IndexSize { shards: 2, documents: 30, segments: 4, bytes: 500 });
    let text = metrics.render(&status).unwrap();
    for line in [
        "nuggetd_paused{reason=\"disk\"} 1",
        "nuggetd_paused{reason=\"flood\"} 0",
        "nuggetd_index_documents 30",
        "nuggetd_index_bytes 500",
        "nuggetd_check_ok{check=\"phase\"} 0",
        "nuggetd_last_publish_timestamp_seconds 0",
    ] {
        assert_eq!(lines(&text, line), [line]);
    }
    let committed = lines(&text, "nuggetd_index_last_commit_timestamp_seconds ");
    let seconds: f64 = committed[0].split(' ').nth(1).unwrap().parse().unwrap();
    assert!(seconds > 1.7e9, "{seconds}");

    status.resume(Pause::Disk);
    status.set_phase(Phase::Running);
    let text = metrics.render(&status).unwrap();
    assert!(text.contains("nuggetd_paused{reason=\"disk\"} 0\n"));
    assert!(text.contains("nuggetd_check_ok{check=\"phase\"} 1\n"));
}

#[test]
fn what_is_told_is_counted_under_its_label() {
    let metrics = Metrics::new().unwrap();
    metrics.message("items", MessageOutcome::Accepted);
    metrics.message("items", MessageOutcome::Accepted);
    metrics.message("items", MessageOutcome::Tombstone);
    metrics.dead_letter(RefusalCode::BadJson);
    metrics.duplicate(Copy::Near);
    metrics.rebalance(Rebalance::Lost);
    metrics.gap("items", 5);
    metrics.commit(CommitOutcome::Done, Duration::from_millis(70));
    metrics.searchable(Duration::from_secs(9));
    metrics.run(RunOutcome::Final);
    metrics.stage(Stage::Search, Duration::from_secs(2));
    metrics.published(7, 1);
    metrics.publish_failure(PublishFailure::Unreachable);
    let text = metrics.render(&status()).unwrap();
    for line in [
        "nuggetd_messages_total{outcome=\"accepted\",topic=\"items\"} 2",
        "nuggetd_messages_total{outcome=\"tombstone\",topic=\"items\"} 1",
        "nuggetd_dead_letters_total{code=\"bad_json\"} 1",
        "nuggetd_duplicates_total{kind=\"near\"} 1",
        "nuggetd_rebalances_total{kind=\"lost\"} 1",
        "nuggetd_gap_records_total{topic=\"items\"} 5",
        "nuggetd_index_commits_total{outcome=\"done\"} 1",
        "nuggetd_index_commit_duration_seconds_bucket{le=\"0.1\"} 1",
        "nuggetd_index_commit_duration_seconds_bucket{le=\"0.05\"} 0",
        "nuggetd_event_to_searchable_seconds_bucket{le=\"10\"} 1",
        "nuggetd_event_to_searchable_seconds_bucket{le=\"8\"} 0",
        "nuggetd_request_runs_total{outcome=\"final\"} 1",
        "nuggetd_request_run_duration_seconds_sum{stage=\"search\"} 2",
        "nuggetd_nuggets_published_total 7",
        "nuggetd_tombstones_published_total 1",
        "nuggetd_publish_failures_total{kind=\"unreachable\"} 1",
    ] {
        assert_eq!(lines(&text, line), [line]);
    }
}
