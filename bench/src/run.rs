//! Measuring, and reporting the results.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rethread_core::{Backend, Owner, Sessions};
use rethread_store::{System, connect};

/// Where and how large.
pub(crate) struct Setting {
    pub(crate) folder: PathBuf,
    pub(crate) quick: bool,
    /// An older program to compare with.
    pub(crate) before: Option<PathBuf>,
}

impl Setting {
    /// A fresh store in the folder.
    pub(crate) fn store(&self, name: &str) -> Arc<dyn Backend> {
        let path = self.folder.join(name);
        connect(&format!("sqlite:{}", path.display()), Arc::new(System)).expect("a store")
    }

    /// The sessions of a fresh store.
    pub(crate) fn sessions(&self, name: &str) -> Sessions {
        Sessions::new(self.store(name), Owner::local(), Arc::new(System))
    }

    /// The full number, or a small one for a quick look.
    pub(crate) fn size(&self, full: usize, quick: usize) -> usize {
        if self.quick { quick } else { full }
    }
}

/// One figure.
pub(crate) struct Report {
    pub(crate) name: &'static str,
    /// What it was compared with.
    pub(crate) against: String,
    pub(crate) figure: f64,
    pub(crate) unit: &'static str,
    pub(crate) target: Target,
    pub(crate) detail: String,
}

pub(crate) enum Target {
    AtMost(f64),
    AtLeast(f64),
}

impl Report {
    pub(crate) fn met(&self) -> bool {
        match self.target {
            Target::AtMost(most) => self.figure <= most,
            Target::AtLeast(least) => self.figure >= least,
        }
    }

    pub(crate) fn json(&self) -> serde_json::Value {
        let (kind, target) = match self.target {
            Target::AtMost(most) => ("at_most", most),
            Target::AtLeast(least) => ("at_least", least),
        };
        serde_json::json!({
            "name": self.name, "figure": self.figure, "unit": self.unit, kind: target,
            "met": self.met(), "against": self.against, "detail": self.detail,
        })
    }
}

impl std::fmt::Display for Report {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let target = match self.target {
            Target::AtMost(most) => format!("≤ {most}"),
            Target::AtLeast(least) => format!("≥ {least}"),
        };
        let verdict = if self.met() { "ok" } else { "MISSED" };
        writeln!(
            f,
            "{:<44} {:>8.2} {:<3} (target {target}) {verdict}",
            self.name, self.figure, self.unit
        )?;
        write!(f, "    against {}; {}", self.against, self.detail)
    }
}

/// How long something took.
pub(crate) fn timed<T>(work: impl FnOnce() -> T) -> (Duration, T) {
    let start = Instant::now();
    let done = work();
    (start.elapsed(), done)
}

/// The median.
pub(crate) fn median(times: &mut [Duration]) -> Duration {
    quantile(times, 0.5)
}

/// The time that this share of all is below.
pub(crate) fn quantile(times: &mut [Duration], share: f64) -> Duration {
    times.sort();
    let index = ((times.len() - 1) as f64 * share) as usize;
    times[index]
}

/// A time in words.
pub(crate) fn us(time: Duration) -> String {
    format!("{:.1} µs", time.as_secs_f64() * 1e6)
}

/// A text of about this many characters, in ordinary words, different for each number.
pub(crate) fn prose(number: usize, chars: usize) -> String {
    const WORDS: [&str; 48] = [
        "the",
        "session",
        "keeps",
        "what",
        "was",
        "said",
        "and",
        "a",
        "model",
        "sees",
        "only",
        "part",
        "of",
        "it",
        "because",
        "tokens",
        "cost",
        "money",
        "when",
        "tool",
        "results",
        "grow",
        "long",
        "we",
        "decided",
        "to",
        "use",
        "bucket",
        "with",
        "redis",
        "backing",
        "for",
        "rate",
        "limiter",
        "requests",
        "per",
        "minute",
        "user",
        "please",
        "check",
        "file",
        "config.rs",
        "line",
        "then",
        "run",
        "tests",
        "again",
        "tomorrow",
    ];
    let mut state = number as u64 ^ 0x9E37_79B9;
    let mut text = String::with_capacity(chars + 12);
    while text.len() < chars {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        text.push_str(WORDS[(state >> 33) as usize % WORDS.len()]);
        let end = if (state >> 40).is_multiple_of(12) { ". " } else { " " };
        text.push_str(end);
    }
    text.truncate(chars);
    text
}
