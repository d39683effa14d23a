//! Kinds of tools, recognised by the names they have in different programs.

use serde_json::Value;

use crate::message::Call;

/// What a tool does, to decide how much of its result is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ToolKind {
    /// Reads a file from its beginning.
    Read,
    /// Reads a part of a file.
    Range,
    /// Runs a command.
    Shell,
    /// Searches or lists.
    Search,
    /// Changes a file and reports it.
    Edit,
    /// Asks another agent.
    Agent,
    /// Fetches what was left out.
    Recall,
    /// Anything else.
    Other,
}

/// Names of tools, without case, `_` and `-`, in the programs whose sessions can be imported.
const NAMES: [(ToolKind, &[&str]); 6] = [
    (
        ToolKind::Read,
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
        ToolKind::Shell,
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
        ToolKind::Search,
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
        ToolKind::Edit,
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
    (ToolKind::Agent, &["task", "agent", "subagent", "dispatchagent", "spawnagent"]),
    (ToolKind::Recall, &["recall"]),
];

/// Arguments that ask for a part of a file.
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

/// Commands that print a file from its beginning, a part of one, or search results.
const READERS: [&str; 3] = ["cat", "nl", "bat"];
const RANGE_READERS: [&str; 4] = ["sed", "head", "tail", "awk"];
const SEARCHERS: [&str; 8] = ["rg", "grep", "ls", "find", "fd", "tree", "ag", "git-grep"];

impl ToolKind {
    /// The kind of a call.
    pub fn of(call: &Call) -> ToolKind {
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
                Some("view") => ToolKind::of_read(call),
                _ => ToolKind::Edit,
            };
        }
        let found = NAMES.iter().find(|(_, names)| names.contains(&name.as_str()));
        match found.map_or(ToolKind::Other, |(kind, _)| *kind) {
            ToolKind::Read => ToolKind::of_read(call),
            ToolKind::Shell => ToolKind::of_command(call),
            kind => kind,
        }
    }

    fn of_read(call: &Call) -> ToolKind {
        let input: Value = serde_json::from_str(call.input.get()).unwrap_or_default();
        let asks = |name: &str| input.get(name).is_some_and(|value| !value.is_null());
        if RANGES.iter().any(|name| asks(name)) { ToolKind::Range } else { ToolKind::Read }
    }

    /// A command that only reads or searches has the kind of that.
    fn of_command(call: &Call) -> ToolKind {
        let command = field(call, "command").or_else(|| field(call, "cmd")).unwrap_or_default();
        // Commands before it (such as `cd`) print nothing.
        let last = command.rsplit("&&").next().unwrap_or_default().trim();
        let mut words = last.split_whitespace();
        let program = words.next().unwrap_or_default();
        let program = program.rsplit('/').next().unwrap_or_default();
        let piped = last.contains('|');
        match program {
            "sed" if last.contains("-i") => ToolKind::Shell,
            _ if RANGE_READERS.contains(&program) => ToolKind::Range,
            _ if READERS.contains(&program) && piped => ToolKind::Range,
            _ if READERS.contains(&program) => ToolKind::Read,
            _ if SEARCHERS.contains(&program) => ToolKind::Search,
            _ => ToolKind::Shell,
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
            ToolKind::of(&Call { id: "c".into(), name: name.into(), input: Raw::of(&input) })
        };
        let cases = [
            ("Read", json!({"file_path": "a.rs"}), ToolKind::Read),
            ("Read", json!({"file_path": "a.rs", "offset": 10}), ToolKind::Range),
            ("read_file", json!({"path": "a.rs", "offset": null}), ToolKind::Read),
            ("mcp__files__read_text_file", json!({}), ToolKind::Read),
            ("Bash", json!({"command": "cargo test"}), ToolKind::Shell),
            ("bash", json!({"command": "cd src && cat main.rs"}), ToolKind::Read),
            ("exec_command", json!({"cmd": "sed -n 1,80p main.rs"}), ToolKind::Range),
            ("exec_command", json!({"cmd": "sed -i s/a/b/ main.rs"}), ToolKind::Shell),
            ("shell", json!({"command": ["bash", "-lc", "rg --files"]}), ToolKind::Search),
            ("Grep", json!({"pattern": "x"}), ToolKind::Search),
            ("run_shell_command", json!({"command": "make"}), ToolKind::Shell),
            ("apply_patch", json!("*** Begin Patch"), ToolKind::Edit),
            ("str_replace_editor", json!({"command": "view", "path": "a"}), ToolKind::Read),
            ("str_replace_editor", json!({"command": "create", "path": "a"}), ToolKind::Edit),
            ("Task", json!({"prompt": "look"}), ToolKind::Agent),
            ("recall", json!({"ref": 4}), ToolKind::Recall),
            ("weather", json!({}), ToolKind::Other),
        ];
        for (name, input, expected) in cases {
            assert_eq!(kind(name, input.clone()), expected, "{name} {input}");
        }
    }
}
