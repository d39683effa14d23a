//! The configuration: defaults, then a file, then the environment, then flags.
//!
//! Every value remembers its origin, because "why does it use that store?" is the first question
//! anyone has.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use etcetera::{AppStrategy, AppStrategyArgs, choose_app_strategy};
use rethread_agent::Grant;
use rethread_agent::provider::{ModelFacts, Models, Price};
use rethread_core::Owner;
use rethread_core::context::Policy;
use serde::{Deserialize, Serialize};

use crate::args::Global;
use crate::errors::Error;

/// The maximum size of a configuration file. It has a handful of lines.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// The type of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Text,
    YesNo,
    Number,
    List,
}

/// A setting.
struct Known {
    name: &'static str,
    kind: Kind,
    variable: Option<&'static str>,
}

const fn known(name: &'static str, kind: Kind, variable: Option<&'static str>) -> Known {
    Known { name, kind, variable }
}

/// The settings, in the order they are shown.
const SETTINGS: [Known; 27] = [
    known("store", Kind::Text, Some("RETHREAD_STORE")),
    known("owner", Kind::Text, Some("RETHREAD_OWNER")),
    known("policy", Kind::Text, None),
    known("model", Kind::Text, Some("RETHREAD_MODEL")),
    known("window", Kind::Number, None),
    known("agent", Kind::Text, None),
    known("allow", Kind::List, None),
    known("rounds", Kind::Number, None),
    known("transcripts", Kind::Text, None),
    known("features.auto_save", Kind::YesNo, None),
    known("session.auto_save", Kind::YesNo, None),
    known("session.max_sessions", Kind::Number, None),
    known("session.summary", Kind::YesNo, None),
    known("session.titles", Kind::YesNo, None),
    known("compact.auto", Kind::YesNo, None),
    known("compact.suggest", Kind::YesNo, None),
    known("run.env", Kind::List, None),
    known("run.writable", Kind::List, None),
    known("run.network", Kind::YesNo, None),
    known("telegram.allow_users", Kind::List, None),
    known("telegram.owners", Kind::List, None),
    known("telegram.roots", Kind::List, None),
    known("telegram.token_file", Kind::Text, None),
    known("telegram.api_url", Kind::Text, Some("TELEGRAM_API_URL")),
    known("telegram.policy", Kind::Text, None),
    known("telegram.clip_texts", Kind::Number, None),
    known("telegram.clip_chars", Kind::Number, None),
];

/// A value and its origin. An empty value means that it is not set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Setting {
    pub(crate) value: Value,
    pub(crate) origin: String,
}

/// The value of a setting.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub(crate) enum Value {
    /// A text; numbers and booleans as they are written.
    Text(String),
    /// A list of texts, each of which may contain anything, commas too.
    List(Vec<String>),
}

impl Value {
    /// Whether it is not set.
    pub(crate) fn is_empty(&self) -> bool {
        match self {
            Value::Text(text) => text.is_empty(),
            Value::List(items) => items.is_empty(),
        }
    }
}

impl std::fmt::Display for Value {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let quoted = |item: &String| match item.is_empty() || item.contains([',', ' ', '"']) {
            true => format!("{item:?}"),
            false => item.clone(),
        };
        match self {
            Value::Text(text) => f.write_str(text),
            Value::List(items) => {
                f.write_str(&items.iter().map(quoted).collect::<Vec<_>>().join(", "))
            }
        }
    }
}

/// The configuration.
#[derive(Clone, Debug)]
pub(crate) struct Config {
    values: Vec<Setting>,
    /// The path of the file, and whether it exists.
    pub(crate) file: (PathBuf, bool),
    /// The folder of the user's own agents.
    pub(crate) agents: PathBuf,
    /// The folder of the user's own commands.
    pub(crate) commands: PathBuf,
    /// The models in the file.
    pub(crate) models: Models,
}

impl Config {
    /// Reads the configuration for this command line.
    pub(crate) fn load(global: &Global) -> Result<Config, Error> {
        let folders = choose_app_strategy(AppStrategyArgs {
            top_level_domain: "org".into(),
            author: "rethread".into(),
            app_name: "rethread".into(),
        })
        .map_err(|_| Error::NoHome)?;
        let data = folders.data_dir();
        let default = |known: &Known| match known.name {
            "store" => format!("sqlite:{}", data.join("rethread.db").display()),
            "owner" => "local".into(),
            "policy" => "chat".into(),
            "agent" => "build".into(),
            "telegram.api_url" => rethread_telegram::DEFAULT_URL.into(),
            "telegram.policy" => "bot".into(),
            "transcripts" => data.join("transcripts").display().to_string(),
            "run.network" => "false".into(),
            _ if known.kind == Kind::YesNo => "true".into(),
            _ => String::new(),
        };
        let values = SETTINGS.iter().map(|known| Setting {
            value: match known.kind {
                Kind::List => Value::List(Vec::new()),
                _ => Value::Text(default(known)),
            },
            origin: "default".into(),
        });
        let mut config = Config {
            values: values.collect(),
            file: (folders.config_dir().join("config.toml"), false),
            agents: folders.config_dir().join("agents"),
            commands: folders.config_dir().join("commands"),
            models: Models::default(),
        };
        let named = global.config.clone().or_else(|| env("RETHREAD_CONFIG").map(PathBuf::from));
        if let Some(path) = &named {
            config.file.0.clone_from(path);
        }
        config.read_file(named.is_some())?;
        for known in &SETTINGS {
            if let Some((variable, value)) = known.variable.and_then(|v| Some((v, env(v)?))) {
                config.set(known.name, Value::Text(value), format!("${variable}"));
            }
        }
        for (name, flag) in [("store", &global.store), ("owner", &global.owner)] {
            if let Some(value) = flag {
                config.set(name, Value::Text(value.clone()), format!("--{name}"));
            }
        }
        config.check()?;
        Ok(config)
    }

    /// The settings by name, in the order they are shown.
    pub(crate) fn settings(&self) -> impl Iterator<Item = (&'static str, &Setting)> {
        SETTINGS.iter().map(|known| known.name).zip(&self.values)
    }

    /// A setting that always has a value, and is not a list.
    pub(crate) fn text(&self, name: &str) -> &str {
        match &self.get(name).value {
            Value::Text(text) => text,
            Value::List(_) => panic!("`{name}` is a list"),
        }
    }

    /// A setting that may be unset.
    pub(crate) fn given(&self, name: &str) -> Option<&str> {
        Some(self.text(name)).filter(|value| !value.is_empty())
    }

    /// A boolean setting.
    pub(crate) fn is_on(&self, name: &str) -> bool {
        self.text(name) == "true"
    }

    /// A number, if it is set.
    pub(crate) fn number(&self, name: &str) -> Option<u64> {
        self.text(name).parse().ok()
    }

    /// A setting that is a list.
    pub(crate) fn list(&self, name: &str) -> &[String] {
        match &self.get(name).value {
            Value::List(items) => items,
            Value::Text(_) => panic!("`{name}` is not a list"),
        }
    }

    /// Applies a value from a file, a variable or a flag.
    fn set(&mut self, name: &str, value: Value, origin: String) {
        let index = SETTINGS.iter().position(|known| known.name == name);
        self.values[index.expect("settings are named in this file")] = Setting { value, origin };
    }

    fn get(&self, name: &str) -> &Setting {
        let index = SETTINGS.iter().position(|known| known.name == name);
        &self.values[index.expect("settings are named in this file")]
    }

    /// Rejects invalid values, before anything is done with them.
    fn check(&self) -> Result<(), Error> {
        for (known, setting) in SETTINGS.iter().zip(&self.values) {
            let value = match &setting.value {
                Value::Text(text) => text.as_str(),
                Value::List(_) => "",
            };
            let good = match (known.name, known.kind) {
                ("policy" | "telegram.policy", _) => Policy::preset(value).is_some(),
                ("telegram.allow_users", _) => {
                    self.list(known.name).iter().all(|id| id.parse::<u64>().is_ok())
                }
                ("telegram.owners", _) => {
                    self.list(known.name).iter().all(|pair| owner_of(pair).is_some())
                }
                ("telegram.clip_texts" | "telegram.clip_chars", _) if !value.is_empty() => {
                    value.parse().is_ok_and(|n: usize| n >= 1)
                }
                ("allow", _) => {
                    self.list("allow").iter().all(|grant| grant.parse::<Grant>().is_ok())
                }
                ("run.writable", _) => {
                    self.list(known.name).iter().all(|path| home_folder_in(path).is_absolute())
                }
                ("run.env", _) => self.list(known.name).iter().all(|name| is_variable(name)),
                // An empty path would be the current folder.
                ("telegram.roots", _) => self.list(known.name).iter().all(|root| !root.is_empty()),
                ("rounds", _) if !value.is_empty() => matches!(value.parse(), Ok(1..=1_000)),
                ("window", _) if !value.is_empty() => value.parse().is_ok_and(|n: u64| n >= 256),
                ("session.max_sessions", _) if !value.is_empty() => {
                    value.parse().is_ok_and(|n: u64| n >= 1)
                }
                _ => true,
            };
            if !good {
                let (value, origin) = (setting.value.to_string(), setting.origin.clone());
                return Err(Error::BadSetting { name: known.name, value, origin });
            }
        }
        Ok(())
    }

    fn read_file(&mut self, must_exist: bool) -> Result<(), Error> {
        let path = self.file.0.clone();
        let bad = |what: String| Error::BadConfig { path: path.clone(), what };
        match std::fs::metadata(&path) {
            Err(_) if !must_exist => return Ok(()),
            Err(error) => return Err(bad(error.to_string())),
            Ok(file) if file.len() > FILE_BYTES_MAX => return Err(bad("it is too long".into())),
            Ok(_) => {}
        }
        let text = std::fs::read_to_string(&path).map_err(|error| bad(error.to_string()))?;
        let mut table: toml::Table =
            text.parse().map_err(|error: toml::de::Error| bad(error.to_string()))?;
        if let Some(models) = table.remove("models") {
            self.models = models_of(models).map_err(bad)?;
        }
        for (name, value) in flat(table) {
            let Some(known) = SETTINGS.iter().find(|known| known.name == name) else {
                let names: Vec<&str> = SETTINGS.iter().map(|known| known.name).collect();
                let names = names.join(", ");
                return Err(bad(format!("`{name}` is not a setting; the settings are {names}")));
            };
            let value = written(known.kind, value)
                .map_err(|expected| bad(format!("`{name}` must be {expected}")))?;
            self.set(known.name, value, shown(&path));
        }
        self.file.1 = true;
        Ok(())
    }
}

/// A model in the file: prices in dollars per million tokens.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ModelTable {
    window: Option<u64>,
    images: Option<bool>,
    input: Option<f64>,
    cached: Option<f64>,
    cache_write: Option<f64>,
    output: Option<f64>,
}

/// The tables `[models."provider/name"]` of a file.
fn models_of(value: toml::Value) -> Result<Models, String> {
    let tables: BTreeMap<String, ModelTable> =
        value.try_into().map_err(|error: toml::de::Error| format!("`models`: {error}"))?;
    let mut known = Vec::new();
    for (id, table) in tables {
        let bad = |what: &str| Err(format!("`models.\"{id}\"` {what}"));
        if Models::default().named(&id).is_err() {
            return bad("is not of the form PROVIDER/MODEL");
        }
        if table.window.is_some_and(|window| window < 256) {
            return bad("has a window of fewer than 256 tokens");
        }
        let prices = [table.input, table.cached, table.cache_write, table.output];
        if prices.iter().flatten().any(|price| !price.is_finite() || *price < 0.0) {
            return bad("has an invalid price");
        }
        let price = match (table.input, table.output) {
            (Some(input), Some(output)) => Some(Price {
                input,
                cache_read: table.cached.unwrap_or(input),
                cache_write: table.cache_write.unwrap_or(input),
                output,
            }),
            (None, None) => None,
            _ => return bad("needs both `input` and `output`, or neither"),
        };
        known.push((id, ModelFacts { window: table.window, price, images: table.images }));
    }
    Ok(Models::new(known))
}

/// The values of a file by their names; tables become a prefix, as in `session.auto_save`.
fn flat(table: toml::Table) -> Vec<(String, toml::Value)> {
    let mut values = Vec::new();
    for (name, value) in table {
        match value {
            toml::Value::Table(inner) => values.extend(
                flat(inner).into_iter().map(|(below, value)| (format!("{name}.{below}"), value)),
            ),
            value => values.push((name, value)),
        }
    }
    values
}

/// The value, or an error about its type.
fn written(kind: Kind, value: toml::Value) -> Result<Value, &'static str> {
    match (kind, value) {
        (Kind::Text, toml::Value::String(text)) => Ok(Value::Text(text)),
        (Kind::Text, _) => Err("a string"),
        (Kind::YesNo, toml::Value::Boolean(on)) => Ok(Value::Text(on.to_string())),
        (Kind::YesNo, _) => Err("true or false"),
        (Kind::Number, toml::Value::Integer(number)) if number >= 0 => {
            Ok(Value::Text(number.to_string()))
        }
        (Kind::Number, _) => Err("a whole number"),
        (Kind::List, toml::Value::Array(items)) => {
            let word = |item: &toml::Value| match item {
                toml::Value::String(text) => Some(text.clone()),
                toml::Value::Integer(number) => Some(number.to_string()),
                _ => None,
            };
            let words: Option<Vec<String>> = items.iter().map(word).collect();
            words.map(Value::List).ok_or("a list of strings")
        }
        (Kind::List, _) => Err("a list of strings"),
    }
}

/// A path with `~` expanded.
pub(crate) fn home_folder_in(path: &str) -> PathBuf {
    match (path.strip_prefix('~'), env("HOME")) {
        (Some(""), Some(home)) => home.into(),
        (Some(rest), Some(home)) if rest.starts_with('/') => format!("{home}{rest}").into(),
        _ => path.into(),
    }
}

/// Whether this is a valid name of variables: with a `*` at the end, several.
fn is_variable(name: &str) -> bool {
    let name = name.strip_suffix('*').unwrap_or(name);
    !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

/// The owner for a user id, as in `12345=local`.
pub(crate) fn owner_of(pair: &str) -> Option<(u64, Owner)> {
    let (id, owner) = pair.split_once('=')?;
    let owner = Owner::new(owner.trim()).ok()?;
    // Reserved owners belong to the program.
    let reserved = owner.as_str().starts_with("rethread:");
    Some((id.trim().parse().ok()?, owner)).filter(|_| !reserved)
}

/// An environment variable; an empty one counts as not set.
pub(crate) fn env(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

fn shown(path: &Path) -> String {
    path.display().to_string()
}
