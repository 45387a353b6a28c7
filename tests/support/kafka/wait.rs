//! Waiting for a condition, with an end.

use std::{
    thread,
    time::{Duration, Instant},
};

/// Asks again and again until `condition` holds; after `limit` the test fails with `what`.
pub(crate) fn wait_until(limit: Duration, what: &str, mut condition: impl FnMut() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < limit, "after {} s still not: {what}", limit.as_secs());
        thread::sleep(Duration::from_millis(20));
    }
}
