//! The configuration: defaults, then a file, then the environment, then flags.
//!
//! Every value remembers where it came from, because "why does it use that store?" is the first
//! question anyone has.

use std::path::{Path, PathBuf};

use etcetera::{AppStrategy, AppStrategyArgs, choose_app_strategy};
use rethread_core::context::Policy;

use crate::args::Global;
use crate::errors::Error;

/// The most a configuration file may hold. It has a handful of lines.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// A value and where it came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Setting {
    pub(crate) value: String,
    pub(crate) origin: String,
}

/// The configuration.
#[derive(Clone, Debug)]
pub(crate) struct Config {
    pub(crate) store: Setting,
    pub(crate) owner: Setting,
    pub(crate) policy: Setting,
    /// The file that was looked for, and whether it was there.
    pub(crate) file: (PathBuf, bool),
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
        let default = |value: String| Setting { value, origin: "default".into() };
        let database = folders.data_dir().join("rethread.db");
        let mut config = Config {
            store: default(format!("sqlite:{}", database.display())),
            owner: default("local".into()),
            policy: default("chat".into()),
            file: (folders.config_dir().join("config.toml"), false),
        };
        let named = global.config.clone().or_else(|| env("RETHREAD_CONFIG").map(PathBuf::from));
        if let Some(path) = &named {
            config.file.0.clone_from(path);
        }
        config.read_file(named.is_some())?;
        for (name, variable) in [("store", "RETHREAD_STORE"), ("owner", "RETHREAD_OWNER")] {
            if let Some(value) = env(variable) {
                *config.setting(name) = Setting { value, origin: format!("${variable}") };
            }
        }
        for (name, flag) in [("store", &global.store), ("owner", &global.owner)] {
            if let Some(value) = flag {
                *config.setting(name) =
                    Setting { value: value.clone(), origin: format!("--{name}") };
            }
        }
        if Policy::preset(&config.policy.value).is_none() {
            let Setting { value, origin } = config.policy;
            return Err(Error::BadSetting { name: "policy", value, origin });
        }
        Ok(config)
    }

    /// The settings by name, in the order they are shown.
    pub(crate) fn settings(&self) -> [(&'static str, &Setting); 3] {
        [("store", &self.store), ("owner", &self.owner), ("policy", &self.policy)]
    }

    fn setting(&mut self, name: &str) -> &mut Setting {
        match name {
            "store" => &mut self.store,
            "owner" => &mut self.owner,
            _ => &mut self.policy,
        }
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
        let table: toml::Table =
            text.parse().map_err(|error: toml::de::Error| bad(error.to_string()))?;
        for (name, value) in table {
            let known = self.settings().map(|(name, _)| name);
            if !known.contains(&name.as_str()) {
                return Err(bad(format!(
                    "`{name}` is not a setting; there are {}",
                    known.join(", ")
                )));
            }
            let toml::Value::String(value) = value else {
                return Err(bad(format!("`{name}` must be a string")));
            };
            *self.setting(&name) = Setting { value, origin: shown(&path) };
        }
        self.file.1 = true;
        Ok(())
    }
}

fn env(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

fn shown(path: &Path) -> String {
    path.display().to_string()
}
