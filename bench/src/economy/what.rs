//! What a block of a context is, to see where the cost goes.

use std::collections::HashMap;

use rethread_core::Role;
use rethread_core::message::{Block, BlockKind, Message};
use rethread_core::shown::ToolKind;

/// What a block of a context is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum What {
    /// The instructions and the descriptions of tools.
    Instructions,
    Question,
    Reply,
    Call,
    File,
    Range,
    Shell,
    Search,
    Edit,
    Agent,
    Other,
}

impl What {
    pub(super) const ALL: [What; 11] = [
        What::Instructions,
        What::Question,
        What::Reply,
        What::Call,
        What::File,
        What::Range,
        What::Shell,
        What::Search,
        What::Edit,
        What::Agent,
        What::Other,
    ];

    /// What a block is. `kinds` has the calls so far, by their ids.
    pub(super) fn of<'a>(
        message: &'a Message,
        block: &'a Block,
        kinds: &mut HashMap<&'a str, ToolKind>,
    ) -> What {
        match &block.kind {
            BlockKind::ToolUse(call) => {
                kinds.insert(&call.id, ToolKind::of(call));
                What::Call
            }
            BlockKind::ToolResult(result) => match kinds.get(result.tool_use_id.as_str()) {
                Some(ToolKind::Read) => What::File,
                Some(ToolKind::Range) => What::Range,
                Some(ToolKind::Shell) => What::Shell,
                Some(ToolKind::Search) => What::Search,
                Some(ToolKind::Edit) => What::Edit,
                Some(ToolKind::Agent) => What::Agent,
                Some(ToolKind::Recall | ToolKind::Other) | None => What::Other,
            },
            _ => match message.role {
                Role::System => What::Instructions,
                Role::Assistant => What::Reply,
                _ => What::Question,
            },
        }
    }

    /// What it is called in a table.
    pub(super) fn as_str(self) -> &'static str {
        match self {
            What::Instructions => "instructions and tools",
            What::Question => "questions",
            What::Reply => "text of replies",
            What::Call => "calls of tools",
            What::File => "results: whole files",
            What::Range => "results: parts of files",
            What::Shell => "results: commands",
            What::Search => "results: searches and lists",
            What::Edit => "results: edits",
            What::Agent => "results: agents",
            What::Other => "results: other tools",
        }
    }
}
