//! Trajectories of SWE-agent and mini-swe-agent.

use std::path::Path;

use rethread_core::Profile;
use rethread_core::message::Usage;

use super::document;
use super::fields::Fields;
use super::messages::one;
use super::output::{Out, Slot, fingerprint};
use super::responses::{Items, is_item};
use super::sink::FoundSession;
use super::{ReadError, Result};

pub(super) fn read(path: &Path, out: &mut Out<'_>) -> Result<()> {
    let text = document::text(path)?;
    let (text, damage) = document::mended(&text)?;
    let doc = Fields::parse(&text).map_err(ReadError::broken)?;
    let said = ["history", "messages"].into_iter().find(|name| doc.list(name).is_some());
    let items = said.and_then(|name| doc.list(name)).unwrap_or_default();
    let info = doc.object("info").unwrap_or_default();
    let config = info.object("config").and_then(|config| config.object("model"));
    let model = config.and_then(|model| model.word("model_name"));
    // A trajectory has no name: its first question identifies it. The instructions before that
    // belong to the program, and may be rewritten.
    let stem = path.file_stem().map(|stem| stem.to_string_lossy().into_owned());
    let first = items.iter().find(|item| item.contains("\"user\"")).copied().unwrap_or_default();
    let formerly = vec![fingerprint(&[first, items.first().copied().unwrap_or_default()])];
    let session = out.session(FoundSession {
        identity: fingerprint(&[first]),
        formerly,
        name: stem,
        profile: Profile { agent: Some("swe-agent".into()), model, ..Profile::default() },
        windowed: true,
        nameless: true,
        ..FoundSession::default()
    })?;
    match items.iter().any(|item| is_item(item) || outputs(item).is_some()) {
        true => of_items(out, session, &items)?,
        false => {
            for item in &items {
                out.records(1);
                one(out, session, item)?;
            }
        }
    }
    let steps = doc.list("trajectory");
    let told = [said, steps.as_ref().map(|_| "trajectory")];
    for step in steps.unwrap_or_default() {
        out.records(1);
        let id = format!("step:{}", out.id_of(step));
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
        // If the whole run is counted, replies with their own counts are not counted twice.
        if input > 0 || output > 0 {
            out.account.tokens = Usage { input, output, ..Usage::default() };
        }
    }
    out.damaged(damage, items.len());
    Ok(())
}

/// The items of a Responses API reply, if a record is a complete one.
fn outputs(item: &str) -> Option<Vec<&str>> {
    let fields = Fields::of(item)?;
    fields.list("output").filter(|_| fields.text("object").as_deref() == Some("response"))
}

/// Messages that are items of that API, or complete replies of it.
fn of_items(out: &mut Out<'_>, session: usize, list: &[&str]) -> Result<()> {
    let mut items = Items::default();
    for item in list {
        let slot = |id: String| Slot { session, id, at: None };
        let fields = Fields::of(item).unwrap_or_default();
        let Some(outputs) = outputs(item).filter(|outputs| !outputs.is_empty()) else {
            out.records(1);
            let kind = fields.word("type").or_else(|| fields.word("role"));
            let kind = kind.unwrap_or_else(|| "other".into());
            items.take(out, slot(fingerprint(&[item])), &fields, kind, item)?;
            continue;
        };
        items.model = fields.word("model");
        for (index, part) in outputs.into_iter().enumerate() {
            out.records(1);
            let part_fields = Fields::of(part).unwrap_or_default();
            let kind = part_fields.word("type").unwrap_or_else(|| "other".into());
            let id = fingerprint(&[item, &index.to_string()]);
            items.take(out, slot(id), &part_fields, kind, part)?;
        }
        out.records(1);
        let around = fields.without(&["output"]);
        items.keep(out, slot(fingerprint(&[&around, item])), "response".into(), &around)?;
        if let Some(usage) = fields.object("usage") {
            let details = usage.object("input_tokens_details").unwrap_or_default();
            let cache_read = details.number("cached_tokens").unwrap_or(0);
            items.cost(Usage {
                input: usage.number("input_tokens").unwrap_or(0).saturating_sub(cache_read),
                output: usage.number("output_tokens").unwrap_or(0),
                cache_read,
                cache_write: 0,
            });
        }
    }
    items.end(out)
}
