//! Interprets a line: a message, or a command.

use crate::errors::Error;

/// A command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ChatCommand {
    Exit,
    Compact,
    Resume(Option<String>),
    Sessions,
    Help,
    Clear,
    New(Option<String>),
    Open(Option<String>),
    Agent(Option<String>),
    Model(Option<String>),
    /// Permissions: shown, or changed by this.
    Permissions(Option<String>),
    History {
        all: bool,
    },
    Stats,
    Context,
    Cost,
    Thinking,
    Undo,
    Retry,
    Fork(Option<String>),
    /// The turns of this session, or back to the point before one.
    Rewind(Option<String>),
    Rename(String),
    Delete(Option<String>),
    Search(String),
    Export(Option<String>),
    Copy,
    Archive,
}

/// A line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum TypedLine {
    /// Nothing.
    Nothing,
    /// Something to do.
    Do(ChatCommand),
    /// A message for the model.
    Text(String),
    /// A shell command.
    Run(String),
}

/// Parses a line.
///
/// # Errors
///
/// A command that does not exist, or lacks an argument.
pub(crate) fn understand(line: &str) -> Result<TypedLine, Error> {
    let text = line.trim();
    if text.is_empty() {
        return Ok(TypedLine::Nothing);
    }
    // Several lines are not a command, and the first may be indented like the others.
    if text.contains('\n') {
        return Ok(TypedLine::Text(line.trim_end().trim_start_matches('\n').into()));
    }
    if line.starts_with(char::is_whitespace) {
        return Ok(TypedLine::Text(text.into()));
    }
    let (first, rest) = match text.split_once(char::is_whitespace) {
        Some((first, rest)) => (first, Some(rest.trim()).filter(|rest| !rest.is_empty())),
        None => (text, None),
    };
    let slash = first.strip_prefix('/');
    // `/usr/bin/env is missing` is a message.
    if slash.is_some_and(|name| name.contains('/')) {
        return Ok(TypedLine::Text(text.into()));
    }
    let bare = match (first, rest) {
        ("exit" | "quit" | "compact" | "sessions" | "help" | "resume", None) => true,
        // One word after it: more would be a sentence.
        ("resume", Some(rest)) => !rest.contains(char::is_whitespace) || rest.ends_with(".md"),
        // `open src/main.rs` is for the agent: only something that can be nothing else is a
        // session.
        ("open", Some(rest)) => is_position_or_id(rest),
        _ => false,
    };
    let name = match slash {
        Some(name) => name,
        None if bare => first,
        None => return Ok(TypedLine::Text(text.into())),
    };
    word(name, rest).map(TypedLine::Do)
}

/// Whether this is a position in the list, or an id such as `build_20251230_112153`.
fn is_position_or_id(text: &str) -> bool {
    let are_digits = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
    let mut parts = text.rsplit('_').skip_while(|part| are_digits(part) && part.len() < 6);
    let (time, date) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    let is_id = are_digits(time) && time.len() == 6 && are_digits(date) && date.len() == 8;
    are_digits(text) || is_id && !text.contains(char::is_whitespace)
}

fn word(name: &str, rest: Option<&str>) -> Result<ChatCommand, Error> {
    let optional = || rest.map(str::to_owned);
    let needed = |what: &'static str| {
        rest.map(str::to_owned)
            .ok_or_else(|| Error::Word { what: format!("/{name} needs {what}"), hint: HINT })
    };
    Ok(match name {
        "exit" | "quit" => ChatCommand::Exit,
        "compact" => ChatCommand::Compact,
        "resume" => ChatCommand::Resume(optional()),
        "sessions" => ChatCommand::Sessions,
        "help" => ChatCommand::Help,
        "clear" => ChatCommand::Clear,
        "new" => ChatCommand::New(optional()),
        "open" => ChatCommand::Open(optional()),
        "agent" => ChatCommand::Agent(optional()),
        "model" => ChatCommand::Model(optional()),
        "permissions" => ChatCommand::Permissions(optional()),
        "allow" => ChatCommand::Permissions(rest.map(|grant| format!("allow {grant}"))),
        "history" => match rest {
            None => ChatCommand::History { all: false },
            Some("all") => ChatCommand::History { all: true },
            Some(other) => {
                let what = format!("/history takes no argument but `all`, not `{other}`");
                return Err(Error::Word { what, hint: HINT });
            }
        },
        "stats" => ChatCommand::Stats,
        "context" => ChatCommand::Context,
        "cost" => ChatCommand::Cost,
        "thinking" => ChatCommand::Thinking,
        "undo" => ChatCommand::Undo,
        "retry" => ChatCommand::Retry,
        "rewind" => ChatCommand::Rewind(optional()),
        "fork" => ChatCommand::Fork(optional()),
        "rename" => ChatCommand::Rename(needed("a name")?),
        "delete" => ChatCommand::Delete(optional()),
        "search" => ChatCommand::Search(needed("words")?),
        "export" => ChatCommand::Export(optional()),
        "copy" => ChatCommand::Copy,
        "archive" => ChatCommand::Archive,
        other => {
            let shown: String = other.chars().take(40).collect();
            return Err(Error::Word { what: format!("no command `/{shown}`"), hint: HINT });
        }
    })
}

const HINT: &str = "type `help` for commands; start a line with a space to send it as a message";

#[cfg(test)]
mod tests {
    use super::super::help::{COMMANDS, Command};
    use super::*;

    fn said(line: &str) -> TypedLine {
        understand(line).unwrap_or_else(|error| panic!("{line}: {error}"))
    }

    #[test]
    fn the_five_words_work_bare_and_with_a_slash() {
        for slash in ["", "/"] {
            assert_eq!(said(&format!("{slash}exit")), TypedLine::Do(ChatCommand::Exit));
            assert_eq!(said(&format!("{slash}quit")), TypedLine::Do(ChatCommand::Exit));
            assert_eq!(said(&format!("{slash}compact")), TypedLine::Do(ChatCommand::Compact));
            assert_eq!(said(&format!("{slash}sessions")), TypedLine::Do(ChatCommand::Sessions));
            assert_eq!(said(&format!("{slash}help")), TypedLine::Do(ChatCommand::Help));
            assert_eq!(
                said(&format!("{slash}resume 1 ")),
                TypedLine::Do(ChatCommand::Resume(Some("1".into())))
            );
        }
    }

    #[test]
    fn open_without_a_slash_takes_a_position_or_an_id_and_nothing_else() {
        for sel in ["3", "build_20251230_112153", "simple_sally_20251230_112153_2"] {
            assert_eq!(
                said(&format!("open {sel}")),
                TypedLine::Do(ChatCommand::Open(Some(sel.into())))
            );
        }
        for text in ["open it", "open src/main.rs", "open 3 files", "open a_1_2", "open"] {
            assert_eq!(said(text), TypedLine::Text(text.into()));
        }
        assert_eq!(said("/open my plan"), TypedLine::Do(ChatCommand::Open(Some("my plan".into()))));
        assert_eq!(said("/open"), TypedLine::Do(ChatCommand::Open(None)));
    }

    #[test]
    fn a_sentence_that_begins_like_a_command_is_something_to_say() {
        for text in [
            "compact the log files",
            "resume where we left off",
            "help me with this",
            "exit codes matter",
            "clear",
            "/usr/bin/env is missing",
        ] {
            assert_eq!(said(text), TypedLine::Text(text.into()));
        }
        assert_eq!(said(" /clear"), TypedLine::Text("/clear".into()));
        assert_eq!(said("  \t "), TypedLine::Nothing);
    }

    #[test]
    fn what_has_several_lines_is_something_to_say_and_keeps_its_indentation() {
        assert_eq!(said("/clear\nthis"), TypedLine::Text("/clear\nthis".into()));
        assert_eq!(
            said("\n    if a:\n        b\n\n"),
            TypedLine::Text("    if a:\n        b".into())
        );
        assert_eq!(said("/clear\n"), TypedLine::Do(ChatCommand::Clear));
        assert_eq!(said("\n \n"), TypedLine::Nothing);
    }

    #[test]
    fn every_name_that_is_completed_is_a_command() {
        for Command { name, .. } in COMMANDS {
            let line = format!("/{name} all");
            assert!(matches!(said(&line), TypedLine::Do(_)), "{line}");
        }
    }

    #[test]
    fn a_command_that_is_not_there_or_lacks_something_is_an_error() {
        for line in ["/nosuch", "/rename ", "/search", "/history some"] {
            assert!(understand(line).is_err(), "{line}");
        }
    }
}
