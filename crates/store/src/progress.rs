//! Telling what takes its time.

use std::sync::Arc;
use std::time::{Duration, Instant};

/// Who is told what a store does when that takes longer than a second: a line at a time.
pub type Tell = Arc<dyn Fn(&str) + Send + Sync>;

/// Nobody has to be told of anything shorter.
const PATIENCE: Duration = Duration::from_secs(1);

/// Something long that is going on.
pub(crate) struct Progress<'a> {
    what: String,
    tell: Option<&'a Tell>,
    began: Instant,
    told: Option<Instant>,
}

impl<'a> Progress<'a> {
    pub(crate) fn new(what: String, tell: Option<&'a Tell>) -> Progress<'a> {
        Progress { what, tell, began: Instant::now(), told: None }
    }

    /// So much of it is done.
    pub(crate) fn step(&mut self, done: u64, all: u64, of: &str) {
        if self.told.unwrap_or(self.began).elapsed() >= PATIENCE {
            self.told = Some(Instant::now());
            self.say(&format!("{}: {done} of {all} {of}", self.what));
        }
    }

    /// A part of it begins that cannot be counted.
    pub(crate) fn part(&mut self, what: &str) {
        if self.told.unwrap_or(self.began).elapsed() >= PATIENCE {
            self.told = Some(Instant::now());
            self.say(&format!("{}: {what}", self.what));
        }
    }

    /// All of it is done.
    pub(crate) fn finish(self) {
        if self.told.is_some() || self.began.elapsed() >= PATIENCE {
            self.say(&format!("{}: done in {} s", self.what, self.began.elapsed().as_secs()));
        }
    }

    fn say(&self, line: &str) {
        if let Some(tell) = self.tell {
            tell(line);
        }
    }
}
