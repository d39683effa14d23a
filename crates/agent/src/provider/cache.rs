//! What is known of providers' prompt caches: how long they keep a context, and what is too short.
//!
//! The table is dated like that of the prices.

use std::time::Duration;

use rethread_core::context::Model;

/// What is known of a prompt cache.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CacheFacts {
    /// How long it keeps a context that nobody sends again. Where a provider names a range, its
    /// beginning: taken for ended too early, a cache costs nothing but what thinning takes away.
    pub life: Duration,
    /// Tokens a context needs to be cached at all.
    pub least: u64,
}

/// Five minutes: what Anthropic promises unless an hour is asked for, and where OpenAI's range begins.
const FIVE_MINUTES: Duration = Duration::from_secs(300);

/// What is known of the cache of a model.
pub fn cache_facts(model: &Model) -> CacheFacts {
    let least = match model.provider.as_str() {
        "anthropic" if model.name.contains("haiku") => 4_096,
        // A model on this machine keeps what it has read, however short.
        "ollama" => 0,
        _ => 1_024,
    };
    CacheFacts { life: FIVE_MINUTES, least }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_provider_has_a_cache_life() {
        for (provider, name, least) in [
            ("anthropic", "claude-sonnet-5", 1_024),
            ("anthropic", "claude-haiku-4-5", 4_096),
            ("openai", "gpt-5", 1_024),
            ("ollama", "llama4", 0),
        ] {
            let facts = cache_facts(&Model::new(provider, name));
            assert_eq!((facts.life, facts.least), (FIVE_MINUTES, least), "{provider}/{name}");
        }
    }
}
