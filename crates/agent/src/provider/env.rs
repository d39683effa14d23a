//! The addresses and API keys of the providers.

use std::time::Duration;

use super::http::Secret;

/// The variable with Anthropic's API key.
pub(super) const ANTHROPIC_API_KEY: &str = "ANTHROPIC_API_KEY";
/// The variable with Anthropic's address.
pub(super) const ANTHROPIC_BASE_URL: &str = "ANTHROPIC_BASE_URL";
/// The variable with the API key of OpenAI or a compatible provider.
pub(super) const OPENAI_API_KEY: &str = "OPENAI_API_KEY";
/// The variable with the address of OpenAI or a compatible provider.
pub(super) const OPENAI_BASE_URL: &str = "OPENAI_BASE_URL";
/// The variable with Ollama's address.
pub(super) const OLLAMA_HOST: &str = "OLLAMA_HOST";

/// The addresses and API keys of the providers. Addresses that are not set have defaults.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Env {
    /// Anthropic's API key.
    pub anthropic_key: Option<Secret>,
    /// Anthropic's address, without `/v1`.
    pub anthropic_base: Option<String>,
    /// The API key of OpenAI or a compatible provider.
    pub openai_key: Option<Secret>,
    /// The address of OpenAI or a compatible provider, with `/v1`.
    pub openai_base: Option<String>,
    /// Ollama's address: a URL, or `host:port`.
    pub ollama_host: Option<String>,
    /// The idle timeout of a provider; each has its own default.
    pub idle: Option<Duration>,
}

impl Env {
    /// Reads `ANTHROPIC_API_KEY`, `ANTHROPIC_BASE_URL`, `OPENAI_API_KEY`, `OPENAI_BASE_URL` and
    /// `OLLAMA_HOST` with a function such as `|name| std::env::var(name).ok()`. A blank variable
    /// counts as not set.
    pub fn from_vars(var: impl Fn(&str) -> Option<String>) -> Env {
        let var = |name| {
            let value = var(name)?.trim().to_owned();
            (!value.is_empty()).then_some(value)
        };
        Env {
            anthropic_key: var(ANTHROPIC_API_KEY).map(Secret::new),
            anthropic_base: var(ANTHROPIC_BASE_URL),
            openai_key: var(OPENAI_API_KEY).map(Secret::new),
            openai_base: var(OPENAI_BASE_URL),
            ollama_host: var(OLLAMA_HOST),
            idle: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_blank_variable_is_not_set_and_no_key_is_shown() {
        let env = Env::from_vars(|name| match name {
            ANTHROPIC_API_KEY => Some("sk-ant-1\n".into()),
            OPENAI_API_KEY => Some("  ".into()),
            OLLAMA_HOST => Some("".into()),
            _ => None,
        });
        let only = Env { anthropic_key: Some(Secret::new("sk-ant-1")), ..Env::default() };
        assert_eq!(env, only);
        assert!(!format!("{env:?}").contains("sk-ant"), "{env:?}");
    }
}
