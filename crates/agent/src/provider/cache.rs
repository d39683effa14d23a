//! Facts about providers' prompt caches: how long they keep a context, and the minimum size.
//!
//! The table has the same date as the prices. If a provider gives a range, the cautious end of it
//! is used.

use std::time::Duration;

use rethread_core::CacheLife;
use rethread_core::context::Model;

/// Facts about a prompt cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CacheFacts {
    /// How long it keeps a context that is not sent again. If a provider gives a range, its lower
    /// end: assuming too early that a cache has expired costs only what thinning removes.
    pub life: CacheLife,
    /// The minimum size in tokens.
    pub least: u64,
}

/// Five minutes: Anthropic's default, the lower end of OpenAI's range before GPT-5.6, and how long
/// Ollama keeps a model loaded.
const FIVE_MINUTES: Duration = Duration::from_secs(5 * 60);
/// What Anthropic can be asked for: writing then costs twice the price of input, instead of 1.25 times.
const AN_HOUR: Duration = Duration::from_secs(60 * 60);
/// What writing a token for an hour costs, in tokens of input.
pub const HOUR_FACTOR: f64 = 2.0;
/// OpenAI's guarantee since GPT-5.6.
const HALF_AN_HOUR: Duration = Duration::from_secs(30 * 60);

/// OpenAI models that keep a context for half an hour, by the beginning of their names.
const HALF_AN_HOUR_MODELS: &[&str] = &["gpt-5.6", "gpt-5.7", "gpt-5.8", "gpt-5.9", "gpt-6"];

/// The smallest context that Anthropic caches, by the beginning of a model's name; the first match
/// applies.
const ANTHROPIC_LEAST: &[(&str, u64)] = &[
    ("claude-fable-5", 512),
    ("claude-opus-5", 512),
    ("claude-opus-4-5", 4_096),
    ("claude-opus-4-6", 4_096),
    ("claude-opus-4-7", 4_096),
    ("claude-haiku-3", 2_048),
    ("claude-3-haiku", 2_048),
    ("claude-3-5-haiku", 2_048),
    ("claude-haiku", 4_096),
    ("claude-", 1_024),
];

/// The facts about the cache of a model.
pub fn cache_facts(model: &Model) -> CacheFacts {
    // Services that run models of others name them `vendor/name`.
    let name = model.name.rsplit('/').next().unwrap_or(&model.name);
    let begins = |prefix: &str| name.starts_with(prefix);
    let least = match model.provider.as_str() {
        "anthropic" => ANTHROPIC_LEAST.iter().find(|(p, _)| begins(p)).map_or(1_024, |row| row.1),
        // A local model keeps what it has read, however short.
        "ollama" => 0,
        _ => 1_024,
    };
    let half_an_hour =
        model.provider == "openai" && HALF_AN_HOUR_MODELS.iter().any(|prefix| begins(prefix));
    let usual = if half_an_hour { HALF_AN_HOUR } else { FIVE_MINUTES };
    let longer = (model.provider == "anthropic").then_some(AN_HOUR);
    CacheFacts { life: CacheLife { usual, longer }, least }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_provider_has_a_cache_life_and_a_smallest_context() {
        for (provider, name, life, least) in [
            ("anthropic", "claude-sonnet-5", 300, 1_024),
            ("anthropic", "claude-opus-5-5", 300, 512),
            ("anthropic", "claude-opus-4-5-20251101", 300, 4_096),
            ("anthropic", "claude-opus-4-8", 300, 1_024),
            ("anthropic", "claude-haiku-4-5", 300, 4_096),
            ("openai", "gpt-5", 300, 1_024),
            ("openai", "gpt-5.6-terra", 1_800, 1_024),
            ("openai", "openai/gpt-6-sol", 1_800, 1_024),
            ("ollama", "llama4", 300, 0),
        ] {
            let facts = cache_facts(&Model::new(provider, name));
            let found = (facts.life.usual.as_secs(), facts.least);
            assert_eq!(found, (life, least), "{provider}/{name}");
            assert_eq!(facts.life.longer.is_some(), provider == "anthropic");
        }
    }

    #[test]
    fn no_row_of_the_table_hides_a_later_one() {
        for (index, (prefix, _)) in ANTHROPIC_LEAST.iter().enumerate() {
            let later = &ANTHROPIC_LEAST[index + 1..];
            assert!(!later.iter().any(|(later, _)| later.starts_with(prefix)), "after {prefix}");
        }
    }
}
