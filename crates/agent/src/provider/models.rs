//! Facts about models: their context windows and prices.
//!
//! The table is dated, because prices change. The configuration overrides any row of it, so nobody
//! has to wait for a new version of this program.

use rethread_core::context::{Model, ModelInputs};
use rethread_core::message::Usage;

use super::env::Env;

/// When the table was last compared with what the providers publish.
pub const PRICES_AS_OF: &str = "2026-11";

/// The context window, in tokens, of an unknown Ollama model: it uses memory of this machine.
const OLLAMA_WINDOW_TOKENS: u64 = 8_192;

/// The prices of a model, in dollars per million tokens.
#[derive(Clone, Copy, Debug, PartialEq)]
#[allow(missing_docs, reason = "the fields say what they are")]
pub struct Price {
    pub input: f64,
    pub cache_read: f64,
    /// Cache writes, for the shortest lifetime.
    pub cache_write: f64,
    pub output: f64,
}

impl Price {
    /// What this usage costs, in dollars.
    pub fn of(&self, usage: &Usage) -> f64 {
        let million = |tokens: u64, price: f64| tokens as f64 * price / 1e6;
        million(usage.input, self.input)
            + million(usage.cache_read, self.cache_read)
            + million(usage.cache_write, self.cache_write)
            + million(usage.output, self.output)
    }
}

/// Facts about a model.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ModelFacts {
    /// Its context window in tokens, reply included.
    pub window: Option<u64>,
    /// What it charges.
    pub price: Option<Price>,
    /// Whether it can read pictures.
    pub images: Option<bool>,
}

/// Anthropic's prices: writing to the cache costs a quarter more than reading.
const fn claude(window: u64, input: f64, cache_read: f64, output: f64) -> ModelFacts {
    let price = Price { input, cache_read, cache_write: input * 1.25, output };
    ModelFacts { window: Some(window), price: Some(price), images: None }
}

/// OpenAI's prices since GPT-5.6: writing to the cache costs a quarter more than reading.
const fn gpt_6(window: u64, input: f64, cache_read: f64, output: f64) -> ModelFacts {
    let price = Price { input, cache_read, cache_write: input * 1.25, output };
    ModelFacts { window: Some(window), price: Some(price), images: None }
}

/// OpenAI's prices before GPT-5.6: writing to the cache costs nothing extra.
const fn gpt(window: u64, input: f64, cache_read: f64, output: f64) -> ModelFacts {
    let price = Price { input, cache_read, cache_write: input, output };
    ModelFacts { window: Some(window), price: Some(price), images: None }
}

const fn unpriced(window: u64) -> ModelFacts {
    ModelFacts { window: Some(window), price: None, images: None }
}

/// Models by the beginning of their names; the first match applies, so longer ones come first.
const TABLE: &[(&str, ModelFacts)] = &[
    ("claude-fable-5-1", claude(1_000_000, 10.0, 0.25, 50.0)),
    ("claude-fable-5", claude(1_000_000, 10.0, 1.0, 50.0)),
    ("claude-opus-5-5", claude(1_000_000, 4.0, 0.2, 20.0)),
    ("claude-opus-5", claude(1_000_000, 5.0, 0.5, 25.0)),
    ("claude-opus-4-1", claude(200_000, 15.0, 1.5, 75.0)),
    ("claude-opus-4-2", claude(200_000, 15.0, 1.5, 75.0)),
    ("claude-opus-4-0", claude(200_000, 15.0, 1.5, 75.0)),
    ("claude-opus-4-", claude(200_000, 5.0, 0.5, 25.0)),
    ("claude-sonnet-5", claude(1_000_000, 2.0, 0.2, 10.0)),
    ("claude-sonnet-4", claude(200_000, 3.0, 0.3, 15.0)),
    // Its price depends on the length of the prompt.
    ("claude-haiku-5-5", unpriced(1_000_000)),
    ("claude-haiku-4-5", claude(200_000, 1.0, 0.1, 5.0)),
    ("claude-", unpriced(200_000)),
    ("gpt-4o-mini", gpt(128_000, 0.15, 0.075, 0.6)),
    ("gpt-4o", gpt(128_000, 2.5, 1.25, 10.0)),
    ("gpt-4.1-mini", gpt(1_000_000, 0.4, 0.1, 1.6)),
    ("gpt-4.1-nano", gpt(1_000_000, 0.1, 0.025, 0.4)),
    ("gpt-4.1", gpt(1_000_000, 2.0, 0.5, 8.0)),
    ("gpt-5-mini", gpt(400_000, 0.25, 0.025, 2.0)),
    ("gpt-5-nano", gpt(400_000, 0.05, 0.005, 0.4)),
    ("gpt-5-pro", unpriced(400_000)),
    ("gpt-5.1", gpt(400_000, 1.25, 0.125, 10.0)),
    // Each of these has a price of its own.
    ("gpt-5.", unpriced(400_000)),
    ("gpt-5", gpt(400_000, 1.25, 0.125, 10.0)),
    ("gpt-6-sol", gpt_6(872_000, 2.0, 0.2, 10.0)),
    ("gpt-6-luna", unpriced(1_000_000)),
    ("o3", unpriced(200_000)),
    ("o4", unpriced(200_000)),
];

/// Models that people choose, as their providers name them. The table has beginnings of names,
/// which are not always names.
const CURRENT: &[(&str, &str)] = &[
    ("anthropic", "claude-fable-5-1"),
    ("anthropic", "claude-opus-5-5"),
    ("anthropic", "claude-sonnet-5"),
    ("anthropic", "claude-haiku-5-5"),
    ("anthropic", "claude-sonnet-4-5"),
    ("anthropic", "claude-haiku-4-5"),
    ("openai", "gpt-6-sol"),
    ("openai", "gpt-6-luna"),
    ("openai", "gpt-5"),
    ("openai", "gpt-5-mini"),
    ("openai", "gpt-4.1"),
    ("offline", "offline"),
];

/// The known models: the table, and those in the configuration.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Models {
    /// What the configuration says, by `provider/name`.
    overrides: Vec<(String, ModelFacts)>,
}

impl Models {
    /// The table with these rows added, each for one `provider/name`.
    pub fn new(overrides: Vec<(String, ModelFacts)>) -> Models {
        Models { overrides }
    }

    /// The model `name` of `provider`, with its facts.
    pub fn describe(&self, provider: &str, name: &str) -> Model {
        let mut model = Model::new(provider, name);
        let said = self.said(&model.id());
        model.sees = sees(provider, name);
        model.sees.images = said.images.unwrap_or(model.sees.images);
        if provider == "ollama" {
            model.window = said.window.unwrap_or(OLLAMA_WINDOW_TOKENS);
            // The reply shares the window; a quarter of a small one is enough for it.
            model.reply = model.reply.min(model.window / 4);
            return model;
        }
        model.window = said.window.or(listed(name).window).unwrap_or(model.window);
        model
    }

    /// The models known by name, of the providers accepted by `is_there`: those in the
    /// configuration first.
    pub fn known(&self, is_there: impl Fn(&str) -> bool) -> Vec<Model> {
        let said = self.overrides.iter().filter_map(|(id, _)| id.split_once('/'));
        let mut known: Vec<Model> = Vec::new();
        for (provider, name) in said.chain(CURRENT.iter().copied()) {
            let model = self.describe(provider, name);
            if is_there(provider) && !known.iter().any(|other| other.id() == model.id()) {
                known.push(model);
            }
        }
        known
    }

    /// The model called `provider/name`.
    ///
    /// # Errors
    ///
    /// [`BadModel`] if it has another form.
    pub fn named(&self, name: &str) -> Result<Model, BadModel> {
        match name.split_once('/') {
            Some((provider, model)) if !provider.is_empty() && !model.is_empty() => {
                Ok(self.describe(provider, model))
            }
            _ => Err(BadModel { name: name.into() }),
        }
    }

    /// The prices of the model called `provider/name`, if they are known.
    pub fn price(&self, id: &str) -> Option<Price> {
        let (provider, name) = id.split_once('/')?;
        let theirs = matches!(provider, "anthropic" | "openai").then(|| listed(name).price);
        self.said(id).price.or(theirs.flatten())
    }

    fn said(&self, id: &str) -> ModelFacts {
        let said = self.overrides.iter().find(|(name, _)| name == id);
        said.map(|(_, facts)| *facts).unwrap_or_default()
    }
}

/// The facts in the table for a name.
fn listed(name: &str) -> ModelFacts {
    // Services that run models of others name them `vendor/name`.
    let known_as = name.rsplit('/').next().unwrap_or(name);
    let row = TABLE.iter().find(|(prefix, _)| known_as.starts_with(prefix));
    row.map(|(_, facts)| *facts).unwrap_or_default()
}

/// Models of OpenAI-compatible providers that read pictures, by the beginning of their names.
const SEEING: &[&str] = &[
    "claude-",
    "gpt-4o",
    "gpt-4.1",
    "gpt-4-turbo",
    "gpt-5",
    "gpt-6",
    "o1",
    "o3",
    "o4",
    "gemini-",
    "pixtral",
    "llama-4",
];

/// The exceptions among these.
const BLIND: &[&str] =
    &["o1-mini", "o1-preview", "o3-mini", "gpt-4o-audio", "claude-2", "claude-instant"];

/// Models of OpenAI that read PDFs.
const READING: &[&str] = &["gpt-4o", "gpt-4.1", "gpt-5", "gpt-6", "o1", "o3", "o4"];

/// Ollama models that read pictures, by a part of their names.
const SEEING_LOCALLY: &[&str] =
    &["llava", "vision", "vl", "gemma3", "moondream", "minicpm-v", "llama4", "mistral-small3"];

/// What a model can read besides text, by its name. An unknown model reads nothing else, unless the
/// configuration says so.
fn sees(provider: &str, name: &str) -> ModelInputs {
    let name = name.rsplit('/').next().unwrap_or(name);
    let begins = |names: &[&str]| names.iter().any(|known| name.starts_with(known));
    match provider {
        "anthropic" => ModelInputs { images: !begins(BLIND), documents: !begins(BLIND) },
        "openai" => {
            let images = begins(SEEING) && !begins(BLIND);
            ModelInputs { images, documents: images && begins(READING) }
        }
        "ollama" => {
            let images = SEEING_LOCALLY.iter().any(|part| name.contains(part));
            ModelInputs { images, documents: false }
        }
        _ => ModelInputs::default(),
    }
}

/// The model `name` of `provider`, as the table describes it.
pub fn describe(provider: &str, name: &str) -> Model {
    Models::default().describe(provider, name)
}

/// An invalid model name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{name}` is not of the form PROVIDER/MODEL")]
pub struct BadModel {
    /// What was given.
    pub name: String,
}

/// The default provider and model: of the provider that is set up.
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
        assert_eq!(window("anthropic", "claude-opus-5-5"), 1_000_000);
        assert_eq!(window("openai", "gpt-4o-mini"), 128_000);
        assert_eq!(window("openai", "gpt-4.1-nano"), 1_000_000);
        assert_eq!(window("openai", "gpt-5-mini"), 400_000);
        assert_eq!(window("openai", "o3-mini"), 200_000);
        assert_eq!(window("openai", "anthropic/claude-opus-4-5"), 200_000);
        assert_eq!(window("openai", "mistral-large"), Model::new("openai", "x").window);
        assert_eq!(window("ollama", "gpt-4o"), 8_192);
        assert_eq!(describe("ollama", "llama3.2").budget(), 6_144);
    }

    #[test]
    fn what_a_model_can_read_is_known_by_its_name() {
        let sees = |provider, name| {
            let sees = describe(provider, name).sees;
            (sees.images, sees.documents)
        };
        assert_eq!(sees("anthropic", "claude-sonnet-4-5"), (true, true));
        assert_eq!(sees("openai", "gpt-5-mini"), (true, true));
        assert_eq!(sees("openai", "o3-mini"), (false, false));
        assert_eq!(sees("openai", "anthropic/claude-opus-4-5"), (true, false));
        assert_eq!(sees("openai", "some-new-model"), (false, false), "nobody knows");
        assert_eq!(sees("ollama", "llama3.2-vision"), (true, false));
        assert_eq!(sees("ollama", "llama3.2"), (false, false));
        assert_eq!(sees("offline", "offline"), (false, false));
    }

    #[test]
    fn no_row_of_the_table_hides_a_later_one() {
        for (index, (prefix, _)) in TABLE.iter().enumerate() {
            let hidden = TABLE[index + 1..].iter().find(|(later, _)| later.starts_with(prefix));
            assert_eq!(hidden.map(|(later, _)| later), None, "after {prefix}");
        }
    }

    #[test]
    fn a_usage_costs_what_its_kinds_of_tokens_cost() {
        let models = Models::default();
        let price = models.price("anthropic/claude-sonnet-4-5-20250929").expect("known");
        let million = 1_000_000;
        let usage =
            Usage { input: million, output: million, cache_read: million, cache_write: million };
        assert!((price.of(&usage) - (3.0 + 15.0 + 0.3 + 3.75)).abs() < 1e-9);
        assert_eq!(models.price("anthropic/claude-3-haiku"), None, "a guess is not a price");
        assert_eq!(models.price("openai/gpt-5.6-terra"), None, "nor is that of another model");
        let since = models.price("openai/gpt-6-sol").expect("known");
        assert_eq!((since.input, since.cache_write), (2.0, 2.5), "writing to the cache is charged");
        assert_eq!(models.price("ollama/gpt-4o"), None, "it runs here, and charges nothing");
    }

    #[test]
    fn the_configuration_goes_before_the_table() {
        let price = Price { input: 1.0, cache_read: 0.1, cache_write: 1.0, output: 2.0 };
        let facts = ModelFacts { window: Some(32_000), price: Some(price), images: Some(false) };
        let models = Models::new(vec![
            ("openai/gpt-5".into(), facts),
            (
                "ollama/qwen".into(),
                ModelFacts { window: Some(65_536), price: None, images: Some(true) },
            ),
        ]);
        assert!(!models.describe("openai", "gpt-5").sees.images);
        assert!(models.describe("ollama", "qwen").sees.images);
        assert_eq!(models.describe("openai", "gpt-5").window, 32_000);
        assert_eq!(models.price("openai/gpt-5"), Some(price));
        assert_eq!(models.describe("openai", "gpt-5-mini").window, 400_000, "another model");
        assert_eq!(models.describe("ollama", "qwen").window, 65_536);
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
