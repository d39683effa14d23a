//! Progress reports for slow work.

use std::sync::Arc;
use std::time::{Duration, Instant};

/// Receives lines about work of a store that takes longer than a second.
pub type ProgressSink = Arc<dyn Fn(&str) + Send + Sync>;

/// Shorter work is not reported.
const PATIENCE: Duration = Duration::from_secs(1);

/// Slow work in progress.
pub(crate) struct Progress<'a> {
    what: String,
    sink: Option<&'a ProgressSink>,
    began: Instant,
    reported: Option<Instant>,
}

impl<'a> Progress<'a> {
    pub(crate) fn new(what: String, sink: Option<&'a ProgressSink>) -> Progress<'a> {
        Progress { what, sink, began: Instant::now(), reported: None }
    }

    /// Reports how much is done.
    pub(crate) fn step(&mut self, done: u64, all: u64, of: &str) {
        if self.reported.unwrap_or(self.began).elapsed() >= PATIENCE {
            self.reported = Some(Instant::now());
            self.say(&format!("{}: {done} of {all} {of}", self.what));
        }
    }

    /// Starts a part whose progress cannot be counted.
    pub(crate) fn part(&mut self, what: &str) {
        if self.reported.unwrap_or(self.began).elapsed() >= PATIENCE {
            self.reported = Some(Instant::now());
            self.say(&format!("{}: {what}", self.what));
        }
    }

    /// Reports that everything is done.
    pub(crate) fn finish(self) {
        if self.reported.is_some() || self.began.elapsed() >= PATIENCE {
            self.say(&format!("{}: done in {} s", self.what, self.began.elapsed().as_secs()));
        }
    }

    fn say(&self, line: &str) {
        if let Some(sink) = self.sink {
            sink(line);
        }
    }
}
