//! `todo`: shows the steps of a longer job.
//!
//! The list is the complete content of the latest call. It is not stored elsewhere: a call is an
//! entry of the log, so it is as durable as the log.

use serde::Deserialize;
use serde_json::json;

use super::input::{arguments, schema};
use super::limits::{TODO_CHARS_MAX, TODO_ITEMS_MAX};
use super::{Spec, Tool, ToolContext, ToolFailure};

/// Accepts the list.
pub struct Todo;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Input {
    items: Vec<Item>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Item {
    text: String,
    status: Status,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Status {
    Pending,
    InProgress,
    Done,
}

impl Tool for Todo {
    fn spec(&self) -> Spec {
        let item = schema(
            json!({
                "text": {"type": "string", "description": "What is to be done, in a line."},
                "status": {"type": "string", "enum": ["pending", "in_progress", "done"]},
            }),
            &["text", "status"],
        );
        Spec {
            name: "todo".into(),
            description:
                "Shows the user the steps of a job that has three or more, and how far it \
                          is. Give the whole list each time; mark a step done as soon as it is."
                    .into(),
            input: schema(json!({"items": {"type": "array", "items": item}}), &["items"]),
        }
    }

    fn changes(&self) -> bool {
        false
    }

    fn run(&self, input: &str, _tool_context: &ToolContext) -> Result<String, ToolFailure> {
        let Input { items } = arguments(&self.spec().input, input)?;
        if items.len() > TODO_ITEMS_MAX {
            return Err(ToolFailure(format!("a list may have at most {TODO_ITEMS_MAX} steps")));
        }
        let bad =
            |item: &Item| item.text.trim().is_empty() || item.text.chars().count() > TODO_CHARS_MAX;
        if let Some(at) = items.iter().position(bad) {
            return Err(ToolFailure(format!(
                "the text of step {} must have 1 to {TODO_CHARS_MAX} characters",
                at + 1
            )));
        }
        let done = items.iter().filter(|item| item.status == Status::Done).count();
        let next = items.iter().find(|item| item.status != Status::Done);
        Ok(match next {
            Some(next) => format!("{done} of {} done; next: {}", items.len(), next.text.trim()),
            None => format!("{done} of {} done", items.len()),
        })
    }
}
