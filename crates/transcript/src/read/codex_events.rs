//! Converts Codex's events to items, for rollouts that contain nothing else.

use serde_json::json;

use super::codex_survey::Source;
use super::fields::{Fields, list, quoted};

/// The items of an event; none if it contains no message, or if the file has the items themselves.
pub(super) fn items(event: &Fields<'_>, source: Source) -> Vec<String> {
    let kind = event.text("type").unwrap_or_default();
    match source {
        Source::Items => Vec::new(),
        Source::Events => match kind.as_ref() {
            "user_message" => said("user", event.word("message"), &pictures(event)),
            "agent_message" => said("assistant", event.word("message"), &[]),
            "agent_reasoning" => thought(event.word("text")),
            _ => called(&kind, event),
        },
        Source::TurnItems if kind == "item_completed" => {
            let item = event.object("item").unwrap_or_default();
            match item.text("type").as_deref() {
                Some("UserMessage" | "user_message") => {
                    said("user", text_of(&item), &others_of(&item))
                }
                Some("AgentMessage" | "agent_message") => {
                    said("assistant", text_of(&item), &others_of(&item))
                }
                Some("Reasoning" | "reasoning") => {
                    let lines = item.get("summary_text").and_then(list).unwrap_or_default();
                    let lines = lines.into_iter().filter_map(super::fields::string);
                    let text = lines.collect::<Vec<_>>().join("\n");
                    thought(Some(text).filter(|text| !text.is_empty()))
                }
                _ => Vec::new(),
            }
        }
        Source::TurnItems => called(&kind, event),
    }
}

/// A message: its text, and its other parts as they were written.
fn said(role: &str, text: Option<String>, others: &[String]) -> Vec<String> {
    let kind = if role == "user" { "input_text" } else { "output_text" };
    let words = text.map(|text| json!({"type": kind, "text": text}).to_string());
    let content: Vec<String> = words.into_iter().chain(others.iter().cloned()).collect();
    if content.is_empty() {
        return Vec::new();
    }
    let (role, content) = (quoted(role), content.join(","));
    vec![format!("{{\"type\":\"message\",\"role\":{role},\"content\":[{content}]}}")]
}

/// Images that were sent with it: as data URLs, or as paths.
fn pictures(event: &Fields<'_>) -> Vec<String> {
    let of = |field: &str, kind: &str, name: &str| -> Vec<String> {
        let all = event.list(field).unwrap_or_default().into_iter();
        all.map(|raw| format!("{{\"type\":{},{}:{raw}}}", quoted(kind), quoted(name))).collect()
    };
    let mut all = of("images", "input_image", "image_url");
    all.extend(of("local_images", "local_image", "path"));
    all
}

/// The parts of a turn's item that are not text.
fn others_of(item: &Fields<'_>) -> Vec<String> {
    let parts = item.get("content").and_then(list).unwrap_or_default().into_iter();
    let is_other = |part: &&str| Fields::of(part).is_some_and(|part| part.word("text").is_none());
    parts.filter(is_other).map(str::to_owned).collect()
}

fn thought(text: Option<String>) -> Vec<String> {
    let item = |text: String| json!({"type": "reasoning", "summary": [{"type": "summary_text", "text": text}]});
    text.map(|text| item(text).to_string()).into_iter().collect()
}

/// The text of a turn's item.
fn text_of(item: &Fields<'_>) -> Option<String> {
    let parts = item.get("content").and_then(list).unwrap_or_default();
    let texts = parts.into_iter().filter_map(|part| Fields::of(part)?.word("text"));
    Some(texts.collect::<Vec<_>>().join("\n")).filter(|text| !text.is_empty())
}

/// A call that ended: the call and its result.
fn called(kind: &str, event: &Fields<'_>) -> Vec<String> {
    let Some(name) = kind.strip_suffix("_end") else { return Vec::new() };
    let Some(id) = event.word("call_id") else { return Vec::new() };
    let given = ["command", "invocation", "changes", "query", "arguments"];
    let input: Vec<String> = given
        .iter()
        .filter_map(|name| event.get(name).map(|raw| format!("{}:{raw}", quoted(name))))
        .collect();
    let results = ["aggregated_output", "formatted_output", "result", "stdout", "content_items"];
    let Some(output) = results.iter().find_map(|name| event.get(name)) else { return Vec::new() };
    let output = if output.starts_with('"') { output.to_owned() } else { quoted(output) };
    let (id, input) = (quoted(&id), quoted(&format!("{{{}}}", input.join(","))));
    vec![
        format!(
            "{{\"type\":\"function_call\",\"name\":{},\"call_id\":{id},\"arguments\":{input}}}",
            quoted(name)
        ),
        format!("{{\"type\":\"function_call_output\",\"call_id\":{id},\"output\":{output}}}"),
    ]
}
