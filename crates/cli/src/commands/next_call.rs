//! What the next call of a session costs, in words.

use jiff::Timestamp;
use rethread_agent::{CacheState, NextCall};

use crate::chat::{lasted, money};
use crate::out::count;

/// How much of the session is shown, and what sending it costs.
pub(crate) fn lines(next: &NextCall, now: Timestamp) -> Vec<String> {
    let shown = match next.said {
        0 => "shown: nothing was said since the last clear".to_owned(),
        said => format!(
            "shown: {} of {} tokens said since the last clear ({} %)",
            count(next.tokens),
            count(said),
            next.tokens.saturating_mul(100) / said
        ),
    };
    let cost = |dollars: Option<f64>| dollars.map(|it| format!(", {}", money(it)));
    let (now_costs, cold) = (cost(next.dollars), cost(next.dollars_cold));
    let call = match next.cache {
        CacheState::None => return vec![shown],
        CacheState::Unsent => format!("nothing is cached yet{}", now_costs.unwrap_or_default()),
        CacheState::TooShort { least } => format!(
            "too short to be cached, which takes {} tokens{}",
            count(least),
            now_costs.unwrap_or_default()
        ),
        CacheState::Cold { since } => {
            format!("the cache ended {} ago{}", apart(since, now), now_costs.unwrap_or_default())
        }
        CacheState::Warm { until } => format!(
            "the cache is warm for {}, until {}{}{}",
            apart(now, until),
            until.to_zoned(jiff::tz::TimeZone::system()).strftime("%H:%M:%S"),
            now_costs.unwrap_or_default(),
            cold.map(|cold| format!(" (then{})", cold.trim_start_matches(','))).unwrap_or_default()
        ),
    };
    vec![shown, format!("next call: {call}")]
}

/// How long it is from one time to another.
fn apart(from: Timestamp, to: Timestamp) -> String {
    let passed = to.duration_since(from);
    lasted(std::time::Duration::try_from(passed).unwrap_or_default())
}
