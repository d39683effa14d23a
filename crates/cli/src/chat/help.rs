//! The commands of the chat: one table for `help`, the menu and completion.

use rethread_agent::own_commands::OwnCommand;

use crate::out::one_line;

/// The argument of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Takes {
    /// Nothing.
    Nothing,
    /// Something that cannot be completed, optional or not.
    Text(&'static str),
    /// An agent.
    Agent,
    /// A model.
    Model,
    /// A session.
    Session(&'static str),
    /// A file to write.
    NewFile,
}

impl Takes {
    /// As it is written in `help`.
    pub(super) fn shown(self) -> &'static str {
        match self {
            Takes::Nothing => "",
            Takes::Text(text) | Takes::Session(text) => text,
            Takes::Agent | Takes::Model => "[NAME]",
            Takes::NewFile => "[FILE]",
        }
    }
}

/// A command, as it is typed after a slash.
#[derive(Debug)]
pub(super) struct Command {
    pub(super) name: &'static str,
    pub(super) takes: Takes,
    pub(super) about: &'static str,
}

const fn command(name: &'static str, takes: Takes, about: &'static str) -> Command {
    Command { name, takes, about }
}

/// The commands, in the order people need them.
pub(super) const COMMANDS: &[Command] = &[
    command("help", Takes::Nothing, "show this help"),
    command("new", Takes::Text("[NAME]"), "start a new session"),
    command("open", Takes::Session("[SEL]"), "continue another session with its whole history"),
    command("resume", Takes::Session("[SEL]"), "start from the summary of an earlier session"),
    command("sessions", Takes::Nothing, "pick a session (also `resume` or /open without SEL)"),
    command("fork", Takes::Text("[NAME]"), "continue in a copy of this session"),
    command(
        "rewind",
        Takes::Text("[N]"),
        "list the turns, or go back to before turn N and restore files",
    ),
    command("rename", Takes::Text("NAME"), "name this session"),
    command("retry", Takes::Nothing, "ask the last question again"),
    command("compact", Takes::Nothing, "summarise the conversation and continue from the summary"),
    command("clear", Takes::Nothing, "reset the context; the log is kept"),
    command("delete", Takes::Session("[SEL]"), "move this session, or another, to the trash"),
    command("undo", Takes::Nothing, "undo a delete, archive, clear, compact, resume, fork or new"),
    command("agent", Takes::Agent, "show or change the agent"),
    command("model", Takes::Model, "list models, or change the model"),
    command("permissions", Takes::Text("[CHANGE]"), "show or change what may run without asking"),
    command(
        "allow",
        Takes::Text("TOOL"),
        "let a tool run without asking: edit_file, run:cargo test",
    ),
    command("history", Takes::Text("[all]"), "show the conversation"),
    command("search", Takes::Text("WORDS"), "search all sessions"),
    command("thinking", Takes::Nothing, "show the model's thinking in the last turn"),
    command("context", Takes::Nothing, "show what fills the model's window, and what was cut"),
    command("cost", Takes::Nothing, "show tokens, time and cost of each turn"),
    command("stats", Takes::Nothing, "count messages and tokens"),
    command("copy", Takes::Nothing, "copy the last answer to the clipboard"),
    command("export", Takes::NewFile, "write the transcript to a file"),
    command("archive", Takes::Nothing, "hide this session from lists; /open brings it back"),
    command("exit", Takes::Nothing, "save and exit (also `quit`)"),
];

/// The text of `help`.
pub(super) fn text(own: &[OwnCommand]) -> String {
    let shown = |command: &Command| format!("/{} {}", command.name, command.takes.shown());
    let widest = COMMANDS.iter().map(|command| shown(command).len()).max().unwrap_or(0);
    let commands: Vec<String> = COMMANDS
        .iter()
        .map(|command| format!("  {:<widest$}  {}", shown(command), command.about))
        .collect();
    let own: String = own
        .iter()
        .map(|command| {
            let shown = format!("/{} {}", command.name, one_line(&command.takes));
            format!("\n  {shown:<widest$}  {}", one_line(&command.description))
        })
        .collect();
    let own = if own.is_empty() { own } else { format!("\n\nYour own commands:\n{own}") };
    format!("{START}\n\n{}{own}\n\n{END}", commands.join("\n"))
}

const START: &str = "\
Type a message, and the agent answers. Esc or Ctrl-C stops a reply and keeps the part that arrived.";

const END: &str = "\
Examples:

  explain @src/limit.rs           attach a file; Tab completes its name
  what is missing in @docs/ ?     attach the text files of a folder
  what is wrong in @shot.png ?    attach a picture; drop one on the window, or Ctrl-V
  !cargo test                     run a command; its output goes with your next question
  /fork try-tokio                 try something, and come back with /undo
  /review src/limit.rs            a command of your own: .rethread/commands/review.md

`exit`, `compact`, `resume`, `sessions` and `help` also work without the slash. SEL is a position in the list (1 is \
the newest), a name or an id; `resume` also takes a .md file. Start a line with a space to send it as a message, even \
if it looks like a command.

Alt-Enter starts a new line, and a paste is one message. Up recalls earlier questions, Ctrl-R searches them, Tab \
completes, Ctrl-G opens your editor, Ctrl-O shows the last tool calls in full. What you type while the agent works is \
sent when it is done.";
