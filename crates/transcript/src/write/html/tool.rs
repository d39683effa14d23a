//! The contents of a folded call: its arguments, an edit as a diff, and its result.

use rethread_core::message::{Call, ToolResult};
use rethread_render::{Diff, Document, html};
use serde_json::{Map, Value};

use super::{escape, gist};

/// Characters of a call that are shown next to its name while it is folded.
const GIST_CHARS: usize = 100;

/// The names that tools of several programs use for the text to replace, and for the replacement.
const EDITS: [(&str, &str); 3] =
    [("old", "new"), ("old_string", "new_string"), ("old_str", "new_str")];

/// The names that tools use for the content of a whole file.
const CONTENTS: [&str; 3] = ["content", "contents", "file_text"];

/// The names that tools use for a path.
const PATHS: [&str; 4] = ["path", "file_path", "filename", "target_file"];

/// The names that tools use for a list of steps, and for the text of a step.
const STEPS: [(&str, &str); 3] = [("todos", "content"), ("items", "text"), ("plan", "step")];

/// A call in a few words: its first text argument.
pub(super) fn gist_of(call: &Call) -> String {
    let input = input(call);
    if let Some((_, steps)) = steps(&input) {
        let done = steps.iter().filter(|(mark, _)| *mark == DONE).count();
        return format!("{done} of {} done", steps.len());
    }
    let first = PATHS.iter().find_map(|name| input.get(*name).and_then(Value::as_str));
    let first = first.or_else(|| input.values().find_map(Value::as_str));
    gist(first.unwrap_or_else(|| call.input.get()), GIST_CHARS)
}

/// The arguments of a call. An edit is shown as a diff.
pub(super) fn call(call: &Call) -> String {
    let mut rest = input(call);
    if rest.is_empty() {
        return pre(call.input.get());
    }
    let mut shown = String::new();
    let edits = match rest.get("edits") {
        Some(Value::Array(edits)) => {
            edits.iter().filter_map(Value::as_object).map(diff).collect::<Option<Vec<String>>>()
        }
        _ => diff(&rest).map(|diff| vec![diff]),
    };
    if let Some(edits) = edits.filter(|edits| !edits.is_empty()) {
        shown += &format!("<div class=\"rendered\">{}</div>", edits.concat());
        rest.retain(|name, _| {
            name != "edits" && !EDITS.iter().any(|(old, new)| name == old || name == new)
        });
    }
    if let Some((name, steps)) = steps(&rest) {
        let line = |(mark, text): &(&str, String)| format!("<li>{mark} {}</li>", escape(text));
        let list: String = steps.iter().map(line).collect();
        shown += &format!("<ul class=\"steps\">{list}</ul>");
        rest.shift_remove(name);
    }
    let path = PATHS.iter().find_map(|name| rest.get(*name).and_then(Value::as_str));
    let extension = path.and_then(|path| path.rsplit_once('.')).map_or("", |(_, after)| after);
    let (path, extension) = (path.map(str::to_owned), extension.to_owned());
    let name = CONTENTS.iter().find(|name| rest.get(**name).is_some_and(Value::is_string));
    if let (Some(_), Some(name)) = (path, name)
        && let Some(Value::String(content)) = rest.shift_remove(*name)
    {
        shown += &code(&extension, &content);
    }
    let mut arguments = String::new();
    for (name, value) in &rest {
        let value = match value {
            Value::String(text) => text.clone(),
            other => serde_json::to_string_pretty(other).unwrap_or_default(),
        };
        arguments += &format!("{name}: {value}\n");
    }
    match arguments.is_empty() {
        true => shown,
        false => pre(arguments.trim_end()) + &shown,
    }
}

/// The result of a call. JSON is indented.
pub(super) fn result(result: &ToolResult) -> String {
    let text = result.text();
    let laid_out = match text.starts_with(['{', '[']) {
        true => serde_json::from_str::<Value>(&text)
            .ok()
            .and_then(|value| serde_json::to_string_pretty(&value).ok()),
        false => None,
    };
    let inside = match laid_out {
        Some(json) => code("json", &json),
        None => pre(&text),
    };
    format!("<h3>Result</h3>{inside}")
}

/// The mark of a step that is done.
const DONE: &str = "☑";

/// The list of steps among some arguments: its name, and each step with a mark. None unless all of
/// them have a text and a status.
fn steps(input: &Map<String, Value>) -> Option<(&'static str, Vec<(&'static str, String)>)> {
    STEPS.iter().find_map(|(name, said)| {
        let steps = input.get(*name)?.as_array()?.iter().map(|step| {
            let mark = match step.get("status")?.as_str()? {
                "done" | "completed" => DONE,
                "in_progress" => "▸",
                _ => "☐",
            };
            Some((mark, step.get(*said)?.as_str()?.to_owned()))
        });
        let steps: Vec<_> = steps.collect::<Option<_>>()?;
        (!steps.is_empty()).then_some((*name, steps))
    })
}

fn diff(edit: &Map<String, Value>) -> Option<String> {
    EDITS.iter().find_map(|(old, new)| {
        let (old, new) = (edit.get(*old)?.as_str()?, edit.get(*new)?.as_str()?);
        Some(html::render_diff(&Diff::of_excerpts(old.as_bytes(), new.as_bytes())))
    })
}

/// Code, in a fence longer than any in it.
fn code(language: &str, text: &str) -> String {
    let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '#');
    let language = if language.chars().all(is_name) { language } else { "" };
    let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(longest.max(2) + 1);
    let fenced = format!("{fence}{language}\n{text}\n{fence}\n");
    format!("<div class=\"rendered\">{}</div>", html::render(&Document::parse(&fenced), "x"))
}

fn pre(text: &str) -> String {
    format!("<pre>{}</pre>", escape(text))
}

fn input(call: &Call) -> Map<String, Value> {
    serde_json::from_str(call.input.get()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use rethread_core::Raw;
    use serde_json::json;

    use super::*;

    fn shown(input: Value) -> String {
        call(&Call { id: "1".into(), name: "edit".into(), input: Raw::of(&input) })
    }

    #[test]
    fn an_edit_of_any_program_is_a_diff() {
        for (old, new) in EDITS {
            let edit = shown(json!({"file_path": "a.rs", old: "one\ntwo\n", new: "one\n2\n"}));
            assert!(edit.contains("class=\"diff\"") && edit.contains("<ins>2</ins>"), "{edit}");
            assert!(edit.contains("file_path: a.rs") && !edit.contains("two\\n"), "{edit}");
            let many =
                shown(json!({"path": "a", "edits": [{old: "a", new: "b"}, {old: "c", new: "d"}]}));
            assert_eq!(many.matches("class=\"diff\"").count(), 2, "{many}");
        }
    }

    #[test]
    fn what_is_written_to_a_file_is_code_and_cannot_leave_its_block() {
        let content = "fn main() {}\n```\n<script>alert(1)</script>\n~~~\n````";
        let file = shown(json!({"path": "src/main.rs", "content": content}));
        assert!(file.contains("language-rs") && file.contains("class=\"keyword\""), "{file}");
        assert_eq!(file.matches("<pre").count(), 2, "{file}");
        assert!(!file.contains("<script"), "{file}");
    }

    #[test]
    fn a_list_of_steps_is_a_list_whichever_program_wrote_it() {
        for (name, said) in STEPS {
            let steps = json!([{said: "<one>", "status": "completed"},
                {said: "two", "status": "in_progress"}, {said: "three", "status": "pending"}]);
            let input = Raw::of(&json!({ name: steps, "explanation": "why" }));
            let made = Call { id: "1".into(), name: "todo".into(), input };
            assert_eq!(gist_of(&made), "1 of 3 done");
            let list = "<li>☑ &lt;one&gt;</li><li>▸ two</li><li>☐ three</li>";
            let shown = call(&made);
            assert!(shown.contains(list) && shown.contains("explanation: why"), "{shown}");
            assert!(!shown.contains('{'), "{shown}");
        }
        let other = shown(json!({"items": [{"text": "one"}]}));
        assert!(other.contains("&quot;one&quot;"), "{other}");
    }

    #[test]
    fn what_is_not_an_object_is_shown_as_it_is() {
        assert_eq!(shown(json!("<b>")), "<pre>&quot;&lt;b&gt;&quot;</pre>");
    }
}
