//! Trajectories of SWE-agent and mini-swe-agent.

use std::path::Path;

use rethread_core::message::Usage;

use super::document;
use super::fields::Fields;
use super::found::Found;
use super::messages::one;
use super::out::{Out, Slot, fingerprint};
use super::{Error, Result};

pub(super) fn read(path: &Path, out: &mut Out<'_>) -> Result<()> {
    let text = document::text(path)?;
    let (text, damage) = document::mended(&text)?;
    let doc = Fields::parse(&text).map_err(Error::broken)?;
    let said = ["history", "messages"].into_iter().find(|name| doc.list(name).is_some());
    let items = said.and_then(|name| doc.list(name)).unwrap_or_default();
    let info = doc.object("info").unwrap_or_default();
    let config = info.object("config").and_then(|config| config.object("model"));
    let model = config.and_then(|model| model.word("model_name"));
    // A trajectory has no name of its own. Its file has, and what was asked first.
    let stem = path.file_stem().map(|stem| stem.to_string_lossy().into_owned());
    let first = items.iter().find(|item| item.contains("\"user\"")).copied().unwrap_or_default();
    let session = out.session(Found {
        identity: fingerprint(&[first, items.first().copied().unwrap_or_default()]),
        name: stem,
        agent: Some("swe-agent".into()),
        model,
        windowed: true,
        ..Found::default()
    })?;
    for item in &items {
        out.records(1);
        one(out, session, item)?;
    }
    let steps = doc.list("trajectory");
    let told = [said, steps.as_ref().map(|_| "trajectory")];
    for (index, step) in steps.unwrap_or_default().into_iter().enumerate() {
        out.records(1);
        let id = format!("step:{index}:{}", fingerprint(&[step]));
        out.raw(Slot { session, id, at: None }, "step", step)?;
    }
    for (name, raw) in doc.iter().filter(|(name, _)| !told.contains(&Some(*name))) {
        out.records(1);
        let id = format!("{name}:{}", fingerprint(&[raw]));
        out.raw(Slot { session, id, at: None }, name, raw)?;
    }
    if let Some(stats) = info.object("model_stats") {
        let number = |name: &str| stats.number(name).unwrap_or(0);
        let (input, output) = (number("tokens_sent"), number("tokens_received"));
        // Where the whole run is counted, replies that count themselves are not counted twice.
        if input > 0 || output > 0 {
            out.account.tokens = Usage { input, output, ..Usage::default() };
        }
    }
    out.damaged(damage, items.len());
    Ok(())
}
