//! The metrics of the server, in the text format of Prometheus.
//!
//! Only counters and gauges, and no label whose values grow with usage: no owner, session or path.

use std::fmt::Write;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use rethread_agent::provider::Price;
use rethread_agent::{End, TurnAnswer};
use rethread_core::sessions::Charged;

/// Upper bounds of the append histogram, in microseconds: from a memory store to a failing disk.
const APPEND_BOUNDS: [u64; 10] =
    [100, 250, 500, 1_000, 2_500, 5_000, 10_000, 50_000, 250_000, 1_000_000];

#[derive(Default)]
pub(crate) struct Metrics {
    answered: AtomicU64,
    round_limit: AtomicU64,
    repeated: AtomicU64,
    stopped: AtomicU64,
    client_calls: AtomicU64,
    failed: AtomicU64,
    rounds: AtomicU64,
    tokens_read: AtomicU64,
    tokens_cached: AtomicU64,
    tokens_written: AtomicU64,
    contexts: Sums,
    everything: Sums,
    cold_starts: AtomicU64,
    rewrites: AtomicU64,
    thinned_cold: AtomicU64,
    thinned_warm: AtomicU64,
    recalls: AtomicU64,
    requests: [AtomicU64; 5],
    appends: [AtomicU64; APPEND_BOUNDS.len() + 1],
    append_micros: AtomicU64,
    log_dropped: AtomicU64,
    pub(crate) streams: Gauge,
    pub(crate) connections: Gauge,
}

/// Totals of what was sent to models, or would have been.
#[derive(Default)]
struct Sums {
    read: AtomicU64,
    written: AtomicU64,
    /// Millionths of a dollar, if the price is known.
    micro_dollars: AtomicU64,
}

impl Sums {
    fn add(&self, charged: &Charged, price: Option<&Price>) {
        add(&self.read, charged.read);
        add(&self.written, charged.written);
        let dollars = price.map_or(0.0, |price| price.of(&charged.usage()));
        add(&self.micro_dollars, (dollars * 1e6).round() as u64);
    }
}

/// Values that are counted elsewhere.
#[derive(Default)]
pub(crate) struct Now {
    /// Turns that are running or queued.
    pub(crate) turns: usize,
    /// Bytes of request and response bodies in memory.
    pub(crate) bytes: usize,
    /// How many entries are not indexed yet, if the store reports it.
    pub(crate) behind: Option<u64>,
}

/// A gauge.
#[derive(Default)]
pub(crate) struct Gauge(AtomicI64);

impl Gauge {
    pub(crate) fn add(&self, by: i64) {
        self.0.fetch_add(by, Ordering::Relaxed);
    }
}

fn add(counter: &AtomicU64, by: u64) {
    counter.fetch_add(by, Ordering::Relaxed);
}

impl Metrics {
    /// Counts an acknowledged append.
    pub(crate) fn appended(&self, took: Duration) {
        let micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        let bucket = APPEND_BOUNDS.iter().position(|bound| micros <= *bound);
        add(&self.appends[bucket.unwrap_or(APPEND_BOUNDS.len())], 1);
        add(&self.append_micros, micros);
    }

    /// Counts a turn; without an answer it failed.
    pub(crate) fn turn(&self, answer: Option<&TurnAnswer>, price: Option<&Price>) {
        let Some(answer) = answer else { return add(&self.failed, 1) };
        match answer.end {
            End::Answered => add(&self.answered, 1),
            End::RoundLimit => add(&self.round_limit, 1),
            End::Repeated => add(&self.repeated, 1),
            End::Stopped => add(&self.stopped, 1),
            End::ClientCalls => add(&self.client_calls, 1),
        }
        add(&self.rounds, answer.rounds.into());
        add(&self.tokens_read, answer.usage.input.saturating_add(answer.usage.cache_write));
        add(&self.tokens_cached, answer.usage.cache_read);
        add(&self.tokens_written, answer.usage.output);
        let economy = &answer.economy;
        self.contexts.add(&economy.sent.contexts, price);
        self.everything.add(&economy.sent.everything, price);
        add(&self.cold_starts, economy.cold_starts);
        add(&self.rewrites, economy.rewrites);
        add(&self.thinned_cold, economy.thinned.cold);
        add(&self.thinned_warm, economy.thinned.warm);
        add(&self.recalls, economy.recalls);
    }

    /// Counts a line of the request log that was dropped.
    pub(crate) fn log_dropped(&self) {
        add(&self.log_dropped, 1);
    }

    /// Counts a response with this status.
    pub(crate) fn request(&self, status: u16) {
        let class = usize::from(status / 100).clamp(1, 5) - 1;
        add(&self.requests[class], 1);
    }

    /// All metrics as text.
    pub(crate) fn text(&self, now: &Now) -> String {
        let mut page = Page(String::new());
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        page.head("rethread_turns_total", "counter", "Turns by how they ended.");
        for (end, counter) in [
            ("answered", &self.answered),
            ("round_limit", &self.round_limit),
            ("repeated", &self.repeated),
            ("stopped", &self.stopped),
            ("client_calls", &self.client_calls),
            ("failed", &self.failed),
        ] {
            page.line("rethread_turns_total", &format!("end=\"{end}\""), get(counter));
        }
        page.head("rethread_rounds_total", "counter", "Model replies.");
        page.line("rethread_rounds_total", "", get(&self.rounds));
        page.head("rethread_tokens_total", "counter", "Tokens providers charged for.");
        for (kind, counter) in [
            ("input", &self.tokens_read),
            ("cache_read", &self.tokens_cached),
            ("output", &self.tokens_written),
        ] {
            page.line("rethread_tokens_total", &format!("kind=\"{kind}\""), get(counter));
        }
        self.economy(&mut page);
        let what = "Lines of the request log that were dropped.";
        page.head("rethread_log_lines_dropped_total", "counter", what);
        page.line("rethread_log_lines_dropped_total", "", get(&self.log_dropped));
        page.head("rethread_requests_total", "counter", "Requests by class of status.");
        for (index, counter) in self.requests.iter().enumerate() {
            let class = format!("class=\"{}xx\"", index + 1);
            page.line("rethread_requests_total", &class, get(counter));
        }
        let name = "rethread_append_seconds";
        page.head(name, "histogram", "Time until an append was on disk.");
        let mut count = 0;
        for (index, bucket) in self.appends.iter().enumerate() {
            count += get(bucket);
            let bound = APPEND_BOUNDS.get(index).map(|micros| *micros as f64 / 1e6);
            let bound = bound.map_or("+Inf".to_owned(), |seconds| seconds.to_string());
            page.line(&format!("{name}_bucket"), &format!("le=\"{bound}\""), count);
        }
        page.line(&format!("{name}_sum"), "", get(&self.append_micros) as f64 / 1e6);
        page.line(&format!("{name}_count"), "", count);
        for (name, help, gauge) in [
            ("rethread_open_streams", "Open event streams.", &self.streams),
            ("rethread_connections", "Open connections.", &self.connections),
        ] {
            page.head(name, "gauge", help);
            page.line(name, "", gauge.0.load(Ordering::Relaxed));
        }
        page.head("rethread_turns_now", "gauge", "Turns that are running or queued.");
        page.line("rethread_turns_now", "", now.turns);
        let name = "rethread_bytes_in_flight";
        page.head(name, "gauge", "Bytes of request and response bodies in memory.");
        page.line(name, "", now.bytes);
        if let Some(behind) = now.behind {
            let name = "rethread_search_lag_entries";
            page.head(name, "gauge", "Entries not yet in the search index (a lower bound).");
            page.line(name, "", behind);
        }
        page.0
    }

    /// What contexts cost, compared with sending everything.
    fn economy(&self, page: &mut Page) {
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let sums = [("contexts", &self.contexts), ("everything", &self.everything)];
        let name = "rethread_sent_tokens_total";
        let help = "Tokens of the contexts that were sent, and of sending everything instead; \
                    read from a cache costs a tenth of the price, written a quarter more.";
        page.head(name, "counter", help);
        for (what, sums) in sums {
            for (cache, counter) in [("read", &sums.read), ("written", &sums.written)] {
                page.line(name, &format!("what=\"{what}\",cache=\"{cache}\""), get(counter));
            }
        }
        let name = "rethread_sent_dollars_total";
        let help = "The same in dollars, where the price is known; the difference is saved.";
        page.head(name, "counter", help);
        for (what, sums) in sums {
            let dollars = get(&sums.micro_dollars) as f64 / 1e6;
            page.line(name, &format!("what=\"{what}\""), dollars);
        }
        let name = "rethread_thinned_total";
        page.head(name, "counter", "Times that results of finished turns were thinned.");
        page.line(name, "cache=\"cold\"", get(&self.thinned_cold));
        page.line(name, "cache=\"warm\"", get(&self.thinned_warm));
        for (name, help, counter) in [
            (
                "rethread_cold_starts_total",
                "Turns whose provider cache had expired.",
                &self.cold_starts,
            ),
            (
                "rethread_cache_rewrites_total",
                "Turns for which a warm cache was rewritten.",
                &self.rewrites,
            ),
            (
                "rethread_recalls_total",
                "Calls of recall; rethread_rounds_total has the replies.",
                &self.recalls,
            ),
        ] {
            page.head(name, "counter", help);
            page.line(name, "", get(counter));
        }
    }
}

struct Page(String);

impl Page {
    fn head(&mut self, name: &str, kind: &str, help: &str) {
        self.write(format_args!("# HELP {name} {help}\n# TYPE {name} {kind}\n"));
    }

    fn line(&mut self, name: &str, labels: &str, value: impl std::fmt::Display) {
        match labels.is_empty() {
            true => self.write(format_args!("{name} {value}\n")),
            false => self.write(format_args!("{name}{{{labels}}} {value}\n")),
        }
    }

    fn write(&mut self, text: std::fmt::Arguments<'_>) {
        self.0.write_fmt(text).expect("a string takes everything");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_buckets_of_a_histogram_add_up() {
        let metrics = Metrics::default();
        for micros in [1, 100, 101, 2_000_000] {
            metrics.appended(Duration::from_micros(micros));
        }
        let text = metrics.text(&Now::default());
        for line in [
            "rethread_append_seconds_bucket{le=\"0.0001\"} 2",
            "rethread_append_seconds_bucket{le=\"0.00025\"} 3",
            "rethread_append_seconds_bucket{le=\"1\"} 3",
            "rethread_append_seconds_bucket{le=\"+Inf\"} 4",
            "rethread_append_seconds_count 4",
        ] {
            assert!(text.lines().any(|found| found == line), "{line} in\n{text}");
        }
    }
}
