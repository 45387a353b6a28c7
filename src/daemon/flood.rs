//! Tells a flood of refused records from the few that every stream has.

use std::collections::VecDeque;

use crate::config::DeadLettersConfig;

/// Counts refused records.
#[derive(Debug)]
pub(super) struct Flood {
    config: DeadLettersConfig,
    consecutive: u32,
    window: VecDeque<bool>,
    refused: u32,
}

impl Flood {
    pub(super) fn new(config: &DeadLettersConfig) -> Self {
        Self { config: config.clone(), consecutive: 0, window: VecDeque::new(), refused: 0 }
    }

    /// Notes a record; gives the reason where the intake must stop.
    pub(super) fn note(&mut self, is_refused: bool) -> Option<String> {
        self.consecutive = if is_refused { self.consecutive + 1 } else { 0 };
        self.window.push_back(is_refused);
        self.refused += u32::from(is_refused);
        if self.window.len() > self.config.window as usize && self.window.pop_front() == Some(true) {
            self.refused -= 1;
        }
        let most = self.config.most_consecutive;
        if most > 0 && self.consecutive > most {
            return Some(format!(
                "more than {most} records one after the other were refused (dead_letters.most_consecutive)"
            ));
        }
        let share = f64::from(self.refused) / f64::from(self.config.window);
        if self.window.len() >= self.config.window as usize && share > self.config.most_share {
            return Some(format!(
                "{} of the last {} records were refused (dead_letters.most_share is {})",
                self.refused, self.config.window, self.config.most_share
            ));
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flood(most_consecutive: u32, most_share: f64, window: u32) -> Flood {
        Flood::new(&DeadLettersConfig { most_consecutive, most_share, window })
    }

    #[test]
    fn too_many_in_a_row_are_a_flood() {
        let mut flood = flood(3, 1.0, 10);
        for _ in 0..100 {
            assert!(flood.note(true).is_none() && flood.note(true).is_none() && flood.note(true).is_none());
            assert_eq!(flood.note(false), None);
        }
        let reasons: Vec<bool> = (0..4).map(|_| flood.note(true).is_some()).collect();
        assert_eq!(reasons, [false, false, false, true]);
    }

    #[test]
    fn too_large_a_share_is_one_once_the_window_is_full() {
        let mut flood = flood(0, 0.5, 10);
        for number in 0..9 {
            assert_eq!(flood.note(number % 2 == 0), None, "the window is not full");
        }
        assert_eq!(flood.note(false), None, "half of them is not more than half");
        assert_eq!(flood.note(true), None, "one went, one came");
        assert_eq!(flood.note(true).map(|reason| reason.contains("6 of the last 10")), Some(true));
    }
}
