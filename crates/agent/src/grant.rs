//! Decides which calls that change something run without asking, which need consent, and which are
//! refused.
//!
//! Everything here is a pure function of the call and the grants. Grants are stored elsewhere (see
//! `permission.rs`), and asking happens elsewhere (see `run_call.rs`).
//!
//! A command prefix is parsed more strictly than by a shell: anything that this file does not
//! understand is not a simple command, and needs consent. A mistake in that direction only costs a
//! question. What is offered as `always` is a prefix only for the commands in `grant/known.rs`; for
//! any other it is that one command.

mod known;

use std::str::FromStr;

use self::known::{Rest, known};
use crate::tool::CHANGING;

/// The tool that runs commands.
pub(crate) const RUN: &str = "run";

/// Calls that may run without asking.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Grant {
    /// Every call of this tool.
    Tool(String),
    /// Commands that begin with these words, with any arguments.
    Command(CommandPrefix),
    /// Commands that begin with these words, with options that neither run another program nor
    /// write a file, and paths in the workspace: see `grant/known.rs`.
    Known(CommandPrefix),
    /// This command, word for word.
    Exactly(String),
}

/// The words that a command begins with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandPrefix(Vec<String>);

/// Why a text is not a valid grant.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "the fields say what they are")]
pub enum BadGrant {
    /// No tool that changes something has this name.
    #[error("`{name}` is not a tool that changes anything; those are {}", CHANGING.join(", "))]
    NoTool { name: String },
    /// The words are not the beginning of one simple command.
    #[error(
        "`{prefix}` is not the start of one simple command; write for example `run:cargo test`"
    )]
    NotSimple { prefix: String },
    /// The program runs any command it is given.
    #[error(
        "`{program}` can run any command; allow `run` if that is what you want, or one command \
         with `run=`"
    )]
    RunsOthers { program: String },
}

impl Grant {
    /// Every call of this tool.
    pub fn tool(name: impl Into<String>) -> Grant {
        Grant::Tool(name.into())
    }

    /// Commands that begin with these words.
    ///
    /// # Errors
    ///
    /// [`BadGrant`] if they are not the beginning of one simple command, or would allow any.
    pub fn command(prefix: &str) -> Result<Grant, BadGrant> {
        let not_simple = || BadGrant::NotSimple { prefix: prefix.to_owned() };
        let words = simple_command(prefix).filter(|words| words.iter().all(|word| is_plain(word)));
        let words = words.filter(|words| !words.is_empty()).ok_or_else(not_simple)?;
        if runs_others(&words[0]) {
            return Err(BadGrant::RunsOthers { program: words[0].clone() });
        }
        Ok(Grant::Command(CommandPrefix(words)))
    }

    /// Its tool.
    pub fn tool_name(&self) -> &str {
        match self {
            Grant::Tool(name) => name,
            Grant::Command(_) | Grant::Known(_) | Grant::Exactly(_) => RUN,
        }
    }

    /// The grant for calls like this one: the tool; the first words of its command, if they say
    /// what it does; otherwise this command and no other.
    pub(crate) fn like(tool: &str, command: Option<&str>) -> Option<Grant> {
        if tool != RUN {
            return Some(Grant::Tool(tool.to_owned()));
        }
        let command = command?;
        let exactly = || Grant::Exactly(command.trim().to_owned());
        Some(known_command(command).map_or_else(exactly, Grant::Known))
    }

    /// Whether it allows a call of this tool, with this command.
    pub(crate) fn fits(&self, tool: &str, command: Option<&str>) -> bool {
        match self {
            Grant::Tool(name) => name == tool,
            Grant::Command(CommandPrefix(prefix)) => {
                let words = command.filter(|_| tool == RUN).and_then(simple_command);
                words.is_some_and(|words| words.starts_with(prefix))
            }
            Grant::Known(CommandPrefix(prefix)) => {
                let known = command.filter(|_| tool == RUN).and_then(known_command);
                known.is_some_and(|CommandPrefix(words)| words == *prefix)
            }
            Grant::Exactly(allowed) => {
                tool == RUN && command.is_some_and(|command| command.trim() == allowed)
            }
        }
    }
}

impl std::fmt::Display for Grant {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Grant::Tool(name) => f.write_str(name),
            Grant::Command(CommandPrefix(words)) => write!(f, "{RUN}:{}", words.join(" ")),
            Grant::Known(CommandPrefix(words)) => {
                let limits = match known(words) {
                    Some((_, Rest::AnyOptions)) => "in this folder",
                    _ => "usual options, in this folder",
                };
                write!(f, "{RUN}:{} ({limits})", words.join(" "))
            }
            Grant::Exactly(command) => write!(f, "{RUN}={command}"),
        }
    }
}

impl FromStr for Grant {
    type Err = BadGrant;

    /// `write_file`, `run`, `run:cargo test` for commands that begin like this, or `run=make check`
    /// for this command and no other.
    fn from_str(text: &str) -> Result<Grant, BadGrant> {
        let text = text.trim();
        let one = text.strip_prefix(RUN).and_then(|rest| rest.strip_prefix('='));
        if let Some(command) = one.map(str::trim).filter(|command| !command.is_empty()) {
            return Ok(Grant::Exactly(command.to_owned()));
        }
        if let Some(prefix) = text.strip_prefix(RUN).and_then(|rest| rest.strip_prefix(':')) {
            return Grant::command(prefix);
        }
        match CHANGING.contains(&text) {
            true => Ok(Grant::tool(text)),
            false => Err(BadGrant::NoTool { name: text.to_owned() }),
        }
    }
}

/// The permissions of a turn.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Permissions {
    /// What runs without asking.
    pub allow: Vec<Grant>,
    /// Nothing that changes something is offered or run.
    pub read_only: bool,
    /// Someone can be asked about the rest.
    pub can_ask: bool,
}

/// The decision about a call that changes something.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Run,
    Ask,
    /// Refuse it; the text is for the model.
    Refuse(String),
}

impl Permissions {
    /// Whether a tool that changes something is offered to the model: not if it could only be
    /// refused.
    pub fn offers(&self, tool: &str) -> bool {
        !self.read_only && (self.can_ask || self.allow.iter().any(|g| g.tool_name() == tool))
    }

    /// The decision about a call. `must_ask` is the reason why this call needs consent even if
    /// earlier ones were allowed.
    pub(crate) fn verdict(
        &self,
        tool: &str,
        command: Option<&str>,
        must_ask: Option<&str>,
    ) -> Verdict {
        if self.read_only {
            return Verdict::Refuse("nothing may be changed here: it was started read-only".into());
        }
        let allowed = self.allow.iter().any(|grant| grant.fits(tool, command));
        match (must_ask, self.can_ask) {
            (None, _) if allowed => Verdict::Run,
            (_, true) => Verdict::Ask,
            (Some(why), false) => Verdict::Refuse(format!(
                "a person must agree to this, and nobody can be asked here: {why}"
            )),
            (None, false) => {
                let named = self.allow.iter().filter(|grant| grant.tool_name() == tool);
                let named: Vec<String> = named.map(|grant| format!("`{grant}`")).collect();
                let what = match named.is_empty() {
                    true => format!("`{tool}` is not allowed"),
                    false => format!("only {} is allowed", named.join(", ")),
                };
                Verdict::Refuse(format!("{what}, and nobody can be asked here"))
            }
        }
    }
}

/// The words of a command, if it is one simple command: words and quoted texts, and nothing that a
/// shell would interpret. A backslash, an expansion, a redirection, a comment, a second line or a
/// second command make it something else.
fn simple_command(command: &str) -> Option<Vec<String>> {
    let (mut words, mut word): (Vec<String>, Option<String>) = (Vec::new(), None);
    let mut chars = command.chars();
    while let Some(c) = chars.next() {
        match c {
            ' ' | '\t' => words.extend(word.take()),
            '\'' | '"' => {
                let quoted = word.get_or_insert_default();
                loop {
                    match chars.next()? {
                        end if end == c => break,
                        '$' | '`' | '\\' if c == '"' => return None,
                        inner if inner.is_control() && inner != '\t' => return None,
                        inner => quoted.push(inner),
                    }
                }
            }
            ';' | '&' | '|' | '$' | '`' | '<' | '>' | '(' | ')' | '{' | '}' | '\\' | '#' => {
                return None;
            }
            c if c.is_control() => return None,
            c => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    Some(words)
}

/// The first words of a known command that continues in a known way.
fn known_command(command: &str) -> Option<CommandPrefix> {
    let words = simple_command(command)?;
    let (length, rest) = known(&words)?;
    let fits = rest.allows(&words[length..], has_pattern(command));
    fits.then(|| CommandPrefix(words[..length].to_vec()))
}

/// Whether a simple command has a pattern that the shell replaces by the names of files.
fn has_pattern(command: &str) -> bool {
    let mut quote = None;
    command.chars().any(|c| {
        match (quote, c) {
            (None, '\'' | '"') => quote = Some(c),
            (Some(end), c) if c == end => quote = None,
            _ => {}
        }
        quote.is_none() && matches!(c, '*' | '?' | '[')
    })
}

/// Whether a word is literal, wherever it is in a command.
fn is_plain(word: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_-./+:@%,".contains(c);
    !word.is_empty() && word.chars().all(plain)
}

/// Programs that run a command or a script they are given, and shell keywords that do. A prefix that
/// a user writes with one of these is likely a mistake. The list is not complete, and nothing relies
/// on it: what is offered without being asked for is in `known.rs`.
const RUNNING_OTHERS: [&str; 84] = [
    "!",
    ".",
    "[[",
    "ash",
    "at",
    "awk",
    "bash",
    "batch",
    "builtin",
    "bunx",
    "busybox",
    "case",
    "chroot",
    "command",
    "coproc",
    "csh",
    "dash",
    "doas",
    "ed",
    "elvish",
    "emacs",
    "env",
    "eval",
    "ex",
    "exec",
    "expect",
    "find",
    "fish",
    "flock",
    "for",
    "function",
    "gawk",
    "gdb",
    "if",
    "ionice",
    "irb",
    "ksh",
    "lldb",
    "ltrace",
    "lua",
    "mawk",
    "nawk",
    "nice",
    "node",
    "nodejs",
    "nohup",
    "npx",
    "nsenter",
    "nvim",
    "osascript",
    "parallel",
    "perl",
    "php",
    "pkexec",
    "pnpx",
    "pwsh",
    "python",
    "rlwrap",
    "ruby",
    "run-parts",
    "script",
    "select",
    "setsid",
    "sh",
    "source",
    "ssh",
    "stdbuf",
    "strace",
    "su",
    "sudo",
    "systemd-run",
    "taskset",
    "tclsh",
    "time",
    "timeout",
    "trap",
    "unshare",
    "until",
    "uvx",
    "vim",
    "watch",
    "while",
    "xargs",
    "zsh",
];

/// Whether this program runs any command it is given. Its folder and its version are ignored.
fn runs_others(program: &str) -> bool {
    let name = program.rsplit('/').next().unwrap_or(program);
    let bare = name.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.' || c == '-');
    [name, bare].iter().any(|name| name.is_empty() || RUNNING_OTHERS.contains(name))
}

#[cfg(test)]
mod tests;
