//! The stub: one line in place of a tool result.
//!
//! A stub is one line of JSON, with its fields in a fixed order and absent if empty:
//! `{"tool":"search_vault","status":"success","summary":"5 results","files":["a.md"],"ref":"42"}`.
//! It is made once, when the result is appended, and stored with it, so its bytes never change.
//! Only `ref` is added in the view, because an entry gets its position when it is stored.

use serde::Serialize;
use serde_json::Value;

use crate::limits::{STUB_FILES_MAX, STUB_PARSE_BYTES_MAX, STUB_SUMMARY_CHARS};
use crate::message::ToolResult;

/// Bytes of a text that may be a file name, and of its extension.
const FILE_BYTES_MAX: usize = 260;
const EXTENSION_BYTES_MAX: usize = 8;

/// One line in place of a tool result.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
struct Stub<'a> {
    tool: &'a str,
    status: &'static str,
    #[serde(skip_serializing_if = "String::is_empty")]
    summary: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    files: Vec<String>,
    #[serde(skip_serializing_if = "String::is_empty")]
    error: String,
}

/// Makes the stub of a result of `tool`, without its reference.
pub fn stub(tool: &str, result: &ToolResult) -> String {
    let text = result.text();
    let mut stub = Stub {
        tool,
        status: "success",
        summary: String::new(),
        files: Vec::new(),
        error: String::new(),
    };
    let parsed = (text.len() <= STUB_PARSE_BYTES_MAX)
        .then(|| serde_json::from_str::<Value>(&text).ok())
        .flatten()
        .filter(|value| value.is_object() || value.is_array());
    let mut failed = result.is_error;
    match parsed {
        Some(value) => {
            if let Some(error) = value.get("error").and_then(error_text) {
                stub.error = error;
                failed = true;
            }
            if value.get("success") == Some(&Value::Bool(false)) {
                failed = true;
            }
            if failed && stub.error.is_empty() {
                stub.error = value.get("message").and_then(error_text).unwrap_or_default();
            }
            if let Some(count) = count(&value) {
                stub.summary = match count {
                    1 => "1 result".into(),
                    n => format!("{n} results"),
                };
            }
            collect_files(&value, &mut stub.files);
        }
        None if failed => stub.error = first_chars(&text),
        None => {
            stub.summary = first_chars(&text);
            // A list of names, one per line.
            if text.lines().all(|line| line.trim().is_empty() || is_file(line)) {
                text.lines().for_each(|line| add_file(line.trim(), &mut stub.files));
            }
        }
    }
    if failed {
        stub.status = "error";
    }
    serde_json::to_string(&stub).expect("strings are always valid JSON")
}

/// The stub as a model sees it: with the reference that fetches the original.
pub fn with_reference(stub: &str, reference: &str) -> String {
    let reference = Value::String(reference.into());
    match stub.strip_suffix('}') {
        Some(open) => format!("{open},\"ref\":{reference}}}"),
        None => stub.into(),
    }
}

/// The text of an error field, if it reports an error. `null`, `false`, `""` and `[]` do not.
fn error_text(value: &Value) -> Option<String> {
    let text = match value {
        Value::Null | Value::Bool(false) => String::new(),
        Value::String(text) => first_chars(text),
        Value::Array(list) if list.is_empty() => String::new(),
        Value::Object(map) => match map.get("message") {
            Some(Value::String(text)) => first_chars(text),
            _ if map.is_empty() => String::new(),
            _ => first_chars(&value.to_string()),
        },
        other => first_chars(&other.to_string()),
    };
    (!text.is_empty()).then_some(text)
}

fn count(value: &Value) -> Option<usize> {
    match value {
        Value::Array(list) => Some(list.len()),
        Value::Object(map) => ["results", "matches", "items", "files"]
            .iter()
            .find_map(|key| map.get(*key).and_then(Value::as_array).map(Vec::len)),
        _ => None,
    }
}

/// Collects file names in order, each once.
fn collect_files(value: &Value, files: &mut Vec<String>) {
    const FIELDS: [&str; 5] = ["path", "file", "file_path", "filename", "source"];
    match value {
        Value::Array(list) => {
            for item in list {
                match item {
                    Value::String(name) if is_file(name) => add_file(name, files),
                    other => collect_files(other, files),
                }
            }
        }
        Value::Object(map) => {
            for (key, item) in map {
                match item {
                    Value::String(name) if FIELDS.contains(&key.as_str()) => add_file(name, files),
                    Value::Array(names) if key == "files" => {
                        for name in names {
                            match name {
                                Value::String(name) => add_file(name, files),
                                other => collect_files(other, files),
                            }
                        }
                    }
                    other => collect_files(other, files),
                }
            }
        }
        _ => {}
    }
}

/// Whether a text is a file name: one line that ends with an extension.
fn is_file(text: &str) -> bool {
    let name = text.trim();
    let last = name.rsplit(['/', '\\']).next().unwrap_or_default();
    let extension = last.rsplit_once('.').filter(|(stem, _)| !stem.is_empty());
    name.len() <= FILE_BYTES_MAX
        && !name.contains(char::is_control)
        && !name.contains("://")
        && extension.is_some_and(|(_, extension)| {
            (1..=EXTENSION_BYTES_MAX).contains(&extension.len())
                && extension.bytes().all(|byte| byte.is_ascii_alphanumeric())
                && extension.bytes().any(|byte| byte.is_ascii_alphabetic())
        })
}

fn add_file(name: &str, files: &mut Vec<String>) {
    if files.len() < STUB_FILES_MAX && !name.is_empty() && !files.iter().any(|file| file == name) {
        files.push(first_chars(name));
    }
}

fn first_chars(text: &str) -> String {
    text.trim().chars().take(STUB_SUMMARY_CHARS).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::Block;

    #[test]
    fn files_are_listed_where_results_are_plain_strings() {
        let stub = |text: &str| of(text, false);
        assert_eq!(
            stub(
                r#"{"results":["Notes/foo.md","My notes.md","two words","https://x.org/a.html"]}"#
            ),
            r#"{"tool":"search_vault","status":"success","summary":"4 results","files":["Notes/foo.md","My notes.md"]}"#
        );
        assert_eq!(
            stub(r#"["a/b.rs","3.14",".git"]"#),
            r#"{"tool":"search_vault","status":"success","summary":"3 results","files":["a/b.rs"]}"#
        );
        assert_eq!(
            stub("Notes/foo.md\nNotes/bar.md\n"),
            r#"{"tool":"search_vault","status":"success","summary":"Notes/foo.md\nNotes/bar.md","files":["Notes/foo.md","Notes/bar.md"]}"#
        );
        assert!(!stub("See Notes/foo.md, which says more.").contains("files"));
    }

    fn of(text: &str, is_error: bool) -> String {
        let content = vec![Block::text(text)];
        stub("search_vault", &ToolResult { tool_use_id: "c".into(), content, is_error })
    }

    #[test]
    fn a_list_of_results_becomes_its_count_and_its_files() {
        let text = r#"{"results":[{"path":"Notes/foo.md"},{"path":"Notes/bar.md"},{"path":"Notes/foo.md"}]}"#;
        assert_eq!(
            with_reference(&of(text, false), "42"),
            r#"{"tool":"search_vault","status":"success","summary":"3 results","files":["Notes/foo.md","Notes/bar.md"],"ref":"42"}"#
        );
    }

    #[test]
    fn a_top_level_list_is_counted() {
        assert_eq!(
            of("[1,2]", false),
            r#"{"tool":"search_vault","status":"success","summary":"2 results"}"#
        );
        assert!(of(r#"[{"file":"a"}]"#, false).contains(r#""summary":"1 result","files":["a"]"#));
    }

    #[test]
    fn an_error_is_detected_by_the_flag_the_field_or_success_false() {
        assert_eq!(
            of("no such file", true),
            r#"{"tool":"search_vault","status":"error","error":"no such file"}"#
        );
        assert_eq!(
            of(r#"{"error":"denied"}"#, false),
            r#"{"tool":"search_vault","status":"error","error":"denied"}"#
        );
        assert_eq!(
            of(r#"{"success":false,"message":"later"}"#, false),
            r#"{"tool":"search_vault","status":"error","error":"later"}"#
        );
        assert_eq!(
            of(r#"{"error":null,"ok":1}"#, false),
            r#"{"tool":"search_vault","status":"success"}"#
        );
    }

    #[test]
    fn plain_text_keeps_its_first_200_characters() {
        for (length, kept) in [(199, 199), (200, 200), (201, 200)] {
            let stub = of(&"é".repeat(length), false);
            assert_eq!(stub.chars().filter(|c| *c == 'é').count(), kept);
        }
    }

    #[test]
    fn at_most_twenty_files_are_listed() {
        let files = |n: usize| {
            let items: Vec<_> =
                (0..n).map(|i| serde_json::json!({"path": format!("{i}.md")})).collect();
            of(&serde_json::to_string(&items).expect("JSON"), false).matches(".md").count()
        };
        assert_eq!([files(19), files(20), files(21)], [19, 20, 20]);
    }
}
