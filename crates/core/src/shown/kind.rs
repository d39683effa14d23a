//! What kind of tool was called: the same for every program that has one under its own name.

use serde_json::Value;

use crate::limits::{
    SHOWN_AGENT_CHARS, SHOWN_OTHER_CHARS, SHOWN_RANGE_CHARS, SHOWN_READ_CHARS, SHOWN_RECALL_CHARS,
    SHOWN_SEARCH_CHARS, SHOWN_SHELL_CHARS,
};
use crate::message::Call;

/// What a tool does, as far as it matters for how much of its result is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Reads a file from its beginning.
    Read,
    /// Reads a part of a file that was asked for.
    Range,
    /// Runs a command.
    Shell,
    /// Finds or lists.
    Search,
    /// Changes a file and says so.
    Edit,
    /// Asks another agent.
    Agent,
    /// Brings back what was left out.
    Recall,
    /// Anything else.
    Other,
}

/// Names of tools without case, `_` and `-`, as the programs whose sessions can be imported call them.
const NAMES: [(Kind, &[&str]); 6] = [
    (
        Kind::Read,
        &[
            "read",
            "readfile",
            "view",
            "viewfile",
            "open",
            "openfile",
            "cat",
            "fsread",
            "getfile",
            "notebookread",
            "readmanyfiles",
            "readtextfile",
            "texteditorview",
        ],
    ),
    (
        Kind::Shell,
        &[
            "bash",
            "shell",
            "sh",
            "exec",
            "execcommand",
            "run",
            "runcommand",
            "runshellcommand",
            "runterminalcommand",
            "runterminalcmd",
            "localshell",
            "localshellcall",
            "writestdin",
            "terminal",
            "execute",
            "executecommand",
            "command",
            "bashoutput",
            "developershell",
            "python",
            "cmd",
        ],
    ),
    (
        Kind::Search,
        &[
            "grep",
            "glob",
            "ls",
            "list",
            "listdir",
            "listdirectory",
            "listfiles",
            "find",
            "findfiles",
            "search",
            "searchfiles",
            "searchfilecontent",
            "searchtext",
            "codebasesearch",
            "grepsearch",
            "filesearch",
            "searchdir",
            "searchfile",
            "websearch",
            "googlewebsearch",
            "searchsessions",
            "toolsearch",
            "rg",
        ],
    ),
    (
        Kind::Edit,
        &[
            "edit",
            "editfile",
            "multiedit",
            "write",
            "writefile",
            "writetofile",
            "create",
            "createfile",
            "applypatch",
            "applydiff",
            "patch",
            "strreplace",
            "strreplacebasededittool",
            "replace",
            "replaceinfile",
            "searchreplace",
            "insert",
            "insertcode",
            "notebookedit",
            "fswrite",
            "save",
            "todowrite",
            "updateplan",
        ],
    ),
    (Kind::Agent, &["task", "agent", "subagent", "dispatchagent", "spawnagent"]),
    (Kind::Recall, &["recall"]),
];

/// Fields that ask for a part of a file.
const RANGES: [&str; 11] = [
    "offset",
    "limit",
    "start_line",
    "end_line",
    "view_range",
    "range",
    "lines",
    "start",
    "end",
    "line_start",
    "line_end",
];

/// Commands that print a file from its beginning, a part of one, or what they found.
const READERS: [&str; 3] = ["cat", "nl", "bat"];
const RANGE_READERS: [&str; 4] = ["sed", "head", "tail", "awk"];
const SEARCHERS: [&str; 8] = ["rg", "grep", "ls", "find", "fd", "tree", "ag", "git-grep"];

impl Kind {
    /// What kind of tool a call is of.
    pub fn of(call: &Call) -> Kind {
        let name: String = call
            .name
            .rsplit("__")
            .next()
            .unwrap_or_default()
            .rsplit(['.', ':', '/'])
            .next()
            .unwrap_or_default()
            .chars()
            .filter(|c| !matches!(c, '_' | '-' | ' '))
            .map(|c| c.to_ascii_lowercase())
            .collect();
        if name.contains("strreplaceedit") || name == "texteditor" {
            return match field(call, "command").as_deref() {
                Some("view") => Kind::of_read(call),
                _ => Kind::Edit,
            };
        }
        let found = NAMES.iter().find(|(_, names)| names.contains(&name.as_str()));
        match found.map_or(Kind::Other, |(kind, _)| *kind) {
            Kind::Read => Kind::of_read(call),
            Kind::Shell => Kind::of_command(call),
            kind => kind,
        }
    }

    fn of_read(call: &Call) -> Kind {
        let input: Value = serde_json::from_str(call.input.get()).unwrap_or_default();
        let asks = |name: &str| input.get(name).is_some_and(|value| !value.is_null());
        if RANGES.iter().any(|name| asks(name)) { Kind::Range } else { Kind::Read }
    }

    /// A command that only reads or searches is one of those.
    fn of_command(call: &Call) -> Kind {
        let command = field(call, "command").or_else(|| field(call, "cmd")).unwrap_or_default();
        // What is done before (changing the folder) prints nothing.
        let last = command.rsplit("&&").next().unwrap_or_default().trim();
        let mut words = last.split_whitespace();
        let program = words.next().unwrap_or_default();
        let program = program.rsplit('/').next().unwrap_or_default();
        let piped = last.contains('|');
        match program {
            "sed" if last.contains("-i") => Kind::Shell,
            _ if RANGE_READERS.contains(&program) => Kind::Range,
            _ if READERS.contains(&program) && piped => Kind::Range,
            _ if READERS.contains(&program) => Kind::Read,
            _ if SEARCHERS.contains(&program) => Kind::Search,
            _ => Kind::Shell,
        }
    }

    /// Characters that are shown of a result of this kind, before lines with new names.
    pub fn allowance(self) -> usize {
        match self {
            Kind::Read => SHOWN_READ_CHARS,
            Kind::Range => SHOWN_RANGE_CHARS,
            Kind::Shell => SHOWN_SHELL_CHARS,
            Kind::Search => SHOWN_SEARCH_CHARS,
            Kind::Agent => SHOWN_AGENT_CHARS,
            Kind::Recall => SHOWN_RECALL_CHARS,
            Kind::Edit | Kind::Other => SHOWN_OTHER_CHARS,
        }
    }
}

/// A text in the input of a call; the last of several, as in `["bash", "-lc", "ls"]`.
fn field(call: &Call, name: &str) -> Option<String> {
    let input: Value = serde_json::from_str(call.input.get()).ok()?;
    match input.get(name)? {
        Value::String(text) => Some(text.clone()),
        Value::Array(all) => all.last().and_then(Value::as_str).map(str::to_owned),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::raw::Raw;
    use serde_json::json;

    #[test]
    fn tools_of_every_program_have_a_kind() {
        let kind = |name: &str, input: Value| {
            Kind::of(&Call { id: "c".into(), name: name.into(), input: Raw::of(&input) })
        };
        let cases = [
            ("Read", json!({"file_path": "a.rs"}), Kind::Read),
            ("Read", json!({"file_path": "a.rs", "offset": 10}), Kind::Range),
            ("read_file", json!({"path": "a.rs", "offset": null}), Kind::Read),
            ("mcp__files__read_text_file", json!({}), Kind::Read),
            ("Bash", json!({"command": "cargo test"}), Kind::Shell),
            ("bash", json!({"command": "cd src && cat main.rs"}), Kind::Read),
            ("exec_command", json!({"cmd": "sed -n 1,80p main.rs"}), Kind::Range),
            ("exec_command", json!({"cmd": "sed -i s/a/b/ main.rs"}), Kind::Shell),
            ("shell", json!({"command": ["bash", "-lc", "rg --files"]}), Kind::Search),
            ("Grep", json!({"pattern": "x"}), Kind::Search),
            ("run_shell_command", json!({"command": "make"}), Kind::Shell),
            ("apply_patch", json!("*** Begin Patch"), Kind::Edit),
            ("str_replace_editor", json!({"command": "view", "path": "a"}), Kind::Read),
            ("str_replace_editor", json!({"command": "create", "path": "a"}), Kind::Edit),
            ("Task", json!({"prompt": "look"}), Kind::Agent),
            ("recall", json!({"ref": 4}), Kind::Recall),
            ("weather", json!({}), Kind::Other),
        ];
        for (name, input, expected) in cases {
            assert_eq!(kind(name, input.clone()), expected, "{name} {input}");
        }
    }
}
