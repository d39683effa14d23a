//! The text that an edit replaces, which the model must have seen.

use rethread_core::message::Call;
use serde_json::Value;

/// The names under which tools take the text to replace.
const FIELDS: [&str; 7] =
    ["old_string", "oldString", "old_str", "oldText", "old_text", "old", "search"];

/// What the call replaces, if it is an edit: one text for each place.
pub(super) fn replaced(call: &Call) -> Vec<String> {
    let input: Value = serde_json::from_str(call.input.get()).unwrap_or_default();
    let mut texts = Vec::new();
    collect(&input, &mut texts);
    texts.retain(|text| !text.trim().is_empty());
    texts
}

fn collect(value: &Value, texts: &mut Vec<String>) {
    match value {
        Value::Object(fields) => {
            let old = FIELDS.iter().find_map(|name| fields.get(*name).and_then(Value::as_str));
            match old {
                Some(old) => texts.push(old.to_owned()),
                None => fields.values().for_each(|value| collect(value, texts)),
            }
        }
        Value::Array(values) => values.iter().for_each(|value| collect(value, texts)),
        Value::String(text) if text.contains("*** Begin Patch") => texts.extend(of_patch(text)),
        _ => {}
    }
}

/// The lines a patch removes or expects around them, hunk by hunk.
fn of_patch(patch: &str) -> Vec<String> {
    let mut hunks = vec![String::new()];
    for line in patch.lines() {
        if line.starts_with("@@") || line.starts_with("***") {
            hunks.push(String::new());
        } else if let Some(kept) = line.strip_prefix([' ', '-']) {
            let hunk = hunks.last_mut().expect("there is always one");
            hunk.push_str(kept);
            hunk.push('\n');
        }
    }
    hunks
}
