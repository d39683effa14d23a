//! What is known of models by their names.

use rethread_core::context::Model;

use super::env::Env;

/// Tokens Ollama is asked to hold for a model nobody described: what it takes is memory of this
/// machine.
const OLLAMA_WINDOW_TOKENS: u64 = 8_192;

/// How much models see at once, by how their names begin; the first that fits holds.
const WINDOWS: &[(&str, u64)] = &[
    ("claude-", 200_000),
    ("gpt-4o", 128_000),
    ("gpt-4.1", 1_000_000),
    ("gpt-5", 400_000),
    ("o3", 200_000),
    ("o4", 200_000),
];

/// The model `name` of `provider`, with what is known of it.
pub fn describe(provider: &str, name: &str) -> Model {
    let mut model = Model::new(provider, name);
    if provider == "ollama" {
        model.window = OLLAMA_WINDOW_TOKENS;
        // The reply shares the window; a quarter of a small one is enough for it.
        model.reply = model.reply.min(OLLAMA_WINDOW_TOKENS / 4);
        return model;
    }
    // Those who run the models of others call them `vendor/name`.
    let known_as = name.rsplit('/').next().unwrap_or(name);
    let known = WINDOWS.iter().find(|(prefix, _)| known_as.starts_with(prefix));
    model.window = known.map_or(model.window, |&(_, tokens)| tokens);
    model
}

/// The provider and model to use when nobody chose: of the provider that is set up.
pub fn default_model(env: &Env) -> Option<(&'static str, &'static str)> {
    if env.anthropic_key.is_some() {
        Some(("anthropic", "claude-sonnet-4-5"))
    } else if env.openai_key.is_some() || env.openai_base.is_some() {
        Some(("openai", "gpt-5-mini"))
    } else if env.ollama_host.is_some() {
        Some(("ollama", "llama3.2"))
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::super::http::Secret;
    use super::*;

    #[test]
    fn windows_are_known_by_how_a_name_begins() {
        let window = |provider, name| describe(provider, name).window;
        assert_eq!(window("anthropic", "claude-sonnet-4-5"), 200_000);
        assert_eq!(window("openai", "gpt-4o-mini"), 128_000);
        assert_eq!(window("openai", "gpt-4.1-nano"), 1_000_000);
        assert_eq!(window("openai", "gpt-5-mini"), 400_000);
        assert_eq!(window("openai", "o3-mini"), 200_000);
        assert_eq!(window("openai", "anthropic/claude-opus-4"), 200_000);
        assert_eq!(window("openai", "mistral-large"), Model::new("openai", "x").window);
        assert_eq!(window("ollama", "gpt-4o"), 8_192);
        assert_eq!(describe("ollama", "llama3.2").budget(), 6_144);
    }

    #[test]
    fn the_default_is_a_provider_that_is_set_up() {
        let mut env = Env::default();
        assert_eq!(default_model(&env), None);
        env.ollama_host = Some("127.0.0.1:11434".into());
        assert_eq!(default_model(&env), Some(("ollama", "llama3.2")));
        env.openai_base = Some("http://127.0.0.1:8080/v1".into());
        assert_eq!(default_model(&env), Some(("openai", "gpt-5-mini")));
        env.anthropic_key = Some(Secret::new("k"));
        assert_eq!(default_model(&env), Some(("anthropic", "claude-sonnet-4-5")));
    }
}
