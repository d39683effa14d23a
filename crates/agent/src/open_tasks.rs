//! The open items of a to-do list, from a call to a tool that keeps one.
//!
//! Agents keep such lists under different names, in much the same shape: a list of objects, each
//! with a status and a text. The shape decides, so imported sessions are covered.

use rethread_core::message::Call;
use serde_json::Value;

/// The fields in which tools keep the list, and the text of an item.
const LISTS: [&str; 4] = ["items", "todos", "plan", "tasks"];
const TEXTS: [&str; 4] = ["text", "content", "step", "title"];

/// Statuses of a finished item.
const FINISHED: [&str; 5] = ["done", "completed", "complete", "cancelled", "canceled"];

/// The open items of a to-do list. `None` if the call does not write such a list.
pub(crate) fn open_tasks(call: &Call) -> Option<Vec<String>> {
    let input: Value = serde_json::from_str(call.input.get()).ok()?;
    let items = LISTS.iter().find_map(|field| input.get(field)?.as_array())?;
    let mut open = Vec::new();
    for item in items {
        let status = item.get("status")?.as_str()?;
        let text = TEXTS.iter().find_map(|field| item.get(field)?.as_str())?;
        if !FINISHED.contains(&status) {
            open.push(text.to_owned());
        }
    }
    (!items.is_empty()).then_some(open)
}

#[cfg(test)]
mod tests {
    use rethread_core::message::Block;
    use rethread_core::{Message, Raw, Role};
    use serde_json::json;

    use super::*;

    fn open(input: Value) -> Option<Vec<String>> {
        let call = Block::tool_use("c", "any_name", Raw::of(&input));
        let message = Message::new(Role::Assistant, vec![call]);
        message.calls().next().and_then(open_tasks)
    }

    #[test]
    fn a_list_with_texts_and_statuses_is_a_to_do_list_in_every_tool() {
        for (list, text, done) in [
            ("items", "text", "done"),
            ("todos", "content", "completed"),
            ("plan", "step", "completed"),
        ] {
            let input = json!({ list: [
                { text: "read", "status": done },
                { text: "write", "status": "in_progress" },
                { text: "test", "status": "pending" },
            ] });
            assert_eq!(open(input), Some(vec!["write".into(), "test".into()]));
        }
    }

    #[test]
    fn other_lists_are_not() {
        for input in [
            json!({ "items": [] }),
            json!({ "items": ["write"] }),
            json!({ "items": [{ "text": "write" }] }),
            json!({ "path": "plan", "status": "done" }),
            json!({ "plan": "write" }),
        ] {
            assert_eq!(open(input.clone()), None, "{input}");
        }
    }
}
