//! `config`: the settings, and where each comes from.

use std::process::ExitCode;

use rethread_store::shown;
use serde_json::json;

use super::Done;
use crate::args::Global;
use crate::config::{Config, Value};
use crate::out::{clean, line, note};

pub(super) fn run(global: &Global) -> Done {
    let config = Config::load(global)?;
    let (file, there) = &config.file;
    if global.json {
        let settings: serde_json::Map<String, serde_json::Value> = config
            .settings()
            .map(|(name, setting)| {
                let value = match &setting.value {
                    Value::Text(text) => json!(shown(text)),
                    list => json!(list),
                };
                (name.to_owned(), json!({ "value": value, "origin": setting.origin }))
            })
            .collect();
        crate::out::json(&json!({ "file": file, "exists": there, "settings": settings }))?;
        return Ok(ExitCode::SUCCESS);
    }
    for (name, setting) in config.settings() {
        line(format_args!(
            "{name:<21} {}  \x1b[2m({})\x1b[0m",
            if setting.value.is_empty() {
                "-".into()
            } else {
                clean(&shown(&setting.value.to_string()))
            },
            clean(&setting.origin)
        ))?;
    }
    if !there {
        note(format_args!("No configuration file at {}", file.display()));
    }
    Ok(ExitCode::SUCCESS)
}
