//! What a person sees while an archive is replayed: on a terminal only, on stderr.

use indicatif::{HumanCount, ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::model::{RequestRecord, UnixSeconds};

/// A progress bar over the packed bytes of the archive; nothing where stderr is no terminal.
#[derive(Clone)]
pub struct Progress {
    bar: ProgressBar,
}

impl Progress {
    /// A bar on stderr, where that is a terminal.
    pub fn on_terminal() -> Self {
        Self { bar: ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr_with_hz(8)) }
    }

    /// No bar.
    pub fn hidden() -> Self {
        Self { bar: ProgressBar::hidden() }
    }

    /// The archive's size, where it is known.
    pub fn archive(&self, bytes: Option<u64>) {
        let template = match bytes {
            Some(bytes) => {
                self.bar.set_length(bytes);
                "{elapsed_precise} {bar:30} {bytes}/{total_bytes} {msg} (left: {eta})"
            }
            None => "{elapsed_precise} {spinner} {msg}",
        };
        // The template is a constant; the plain style stands in if it could not be read
        let style = ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
        self.bar.set_style(style);
    }

    /// How far the stream is.
    pub fn records(&self, records: u64, packed_bytes: u64) {
        if records.is_multiple_of(256) {
            self.at(records, packed_bytes, None);
        }
    }

    /// How far a stream is, and the time of its last item.
    pub fn at(&self, records: u64, packed_bytes: u64, time: Option<UnixSeconds>) {
        if self.bar.is_hidden() {
            return;
        }
        let seconds = self.bar.elapsed().as_secs_f64().max(1e-3);
        #[allow(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a rate shown to a person"
        )]
        let rate = (records as f64 / seconds) as u64;
        self.bar.set_position(packed_bytes);
        let at = time.map_or_else(String::new, |time| format!(", at {time}"));
        self.bar.set_message(format!("{} records, {}/s{at}", HumanCount(records), HumanCount(rate)));
    }

    /// A request has run.
    pub fn request(&self, record: &RequestRecord) {
        tracing::info!(
            event = %record.event, request = %record.request, revision = record.revision, items = record.items,
            candidates = record.candidates, nuggets = record.nuggets, "request has run"
        );
        if !record.optimal {
            tracing::warn!(request = %record.request, "the choice of items is not proven best: a limit was reached");
        }
        let line = if record.items == 0 {
            format!("{}: no items", record.request)
        } else {
            format!(
                "{}: {} items → {} searchable → {} candidates → {} new items → {} selected → {} nuggets",
                record.request,
                record.items,
                record.searchable,
                record.candidates,
                record.documents,
                record.selected,
                record.nuggets
            )
        };
        self.bar.println(line);
    }

    /// The stream has ended.
    pub fn finish(&self) {
        self.bar.finish_and_clear();
    }
}
