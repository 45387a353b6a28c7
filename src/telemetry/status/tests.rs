use super::*;

const LIMITS: HeartLimits = HeartLimits { poll: Duration::from_secs(5), intake: Duration::from_secs(60) };

fn late(status: &Status, seconds: u64) -> Vec<&'static str> {
    let hearts = status.heartbeats_at(status.born + Duration::from_secs(seconds));
    hearts.into_iter().filter(|(_, view)| view.late).map(|(name, _)| name).collect()
}

#[test]
fn a_heart_is_late_from_its_limit_on_and_never_once_at_rest() {
    let status = Status::new("a", LIMITS);
    assert_eq!(late(&status, 5), [""; 0]);
    assert_eq!(late(&status, 6), ["poll"]);
    assert_eq!(late(&status, 61), ["intake", "poll"]);
    status.poll.store(58_000, Ordering::Relaxed);
    assert_eq!(late(&status, 61), ["intake"]);
    status.rest(Heart::Intake);
    assert_eq!(late(&status, 61), [""; 0]);
}

#[test]
fn ready_needs_every_check_and_the_running_phase() {
    let status = Status::new("a", LIMITS);
    status.set_phase(Phase::Running);
    for &check in Check::ALL {
        assert!(!status.view().ready, "before {check:?}");
        status.set_check(check, true, "fine");
    }
    assert!(status.view().ready, "{:?}", status.checks());
    for &check in Check::ALL {
        status.set_check(check, false, "broken");
        let bad: Vec<&str> =
            status.checks().iter().filter(|check| !check.ok).map(|check| check.name).collect();
        assert_eq!(bad, [check.as_str()]);
        status.set_check(check, true, "fine");
    }
    status.set_phase(Phase::Draining);
    assert!(!status.view().ready);
}

#[test]
fn a_flood_and_a_full_disk_fail_the_intake_check_and_a_full_queue_does_not() {
    let status = Status::new("a", LIMITS);
    status.set_check(Check::Intake, true, "fine");
    let intake = || status.checks().into_iter().find(|check| check.name == "intake").unwrap();
    status.pause(Pause::Queue, "1000 records wait");
    status.pause(Pause::Events, "the event topic is read");
    assert!(intake().ok);
    for (reason, text) in [(Pause::Disk, "3 bytes left"), (Pause::Flood, "9 of 10 refused")] {
        status.pause(reason, text);
        assert_eq!(intake(), CheckView::new(Check::Intake, false, format!("{}: {text}", reason.as_str())));
        status.resume(reason);
        assert!(intake().ok);
    }
}

#[test]
fn a_late_word_does_not_bring_a_partition_back() {
    let status = Status::new("a", LIMITS);
    status.assign_partition("items", 3);
    status.set_next_offset("items", 3, 10);
    status.set_high_watermark("items", 3, 25);
    status.set_committed("items", 3, 7);
    let view = PartitionView {
        next_offset: Some(10),
        high_watermark: Some(25),
        lag: Some(15),
        committed_offset: Some(7),
    };
    assert_eq!(status.view().assignment["items"][&3], view);
    // Assigned again, as a rebalance that changes nothing does: what is known of it stays
    status.assign_partition("items", 3);
    assert_eq!(status.view().assignment["items"][&3], view);
    status.forget_partition("items", 3);
    status.set_next_offset("items", 3, 11);
    status.set_high_watermark("items", 4, 11);
    assert!(status.view().assignment.is_empty());
}

#[test]
fn an_intake_ahead_of_the_known_end_has_no_negative_lag() {
    let status = Status::new("a", LIMITS);
    status.assign_partition("items", 0);
    status.set_high_watermark("items", 0, 5);
    status.set_next_offset("items", 0, 8);
    assert_eq!(status.view().assignment["items"][&0].lag, Some(0));
}

#[test]
fn a_thread_that_died_with_the_lock_leaves_the_status_readable() {
    let status = Status::new("a", LIMITS);
    std::thread::scope(|scope| {
        let died = scope.spawn(|| {
            let _held = status.told();
            panic!("as a thread may");
        });
        assert!(died.join().is_err());
    });
    assert!(status.told.is_poisoned());
    status.set_free_bytes(7);
    assert_eq!(status.view().free_bytes, Some(7));
}
