//! Decides which calls that change something run without asking, which need consent, and which are
//! refused.
//!
//! Everything here is a pure function of the call and the grants. Grants are stored elsewhere (see
//! `permission.rs`), and asking happens elsewhere (see `run_call.rs`).
//!
//! A command prefix is parsed more strictly than by a shell: anything that this file does not
//! understand is not a simple command, and needs consent. A mistake in that direction only costs a
//! question.

use std::str::FromStr;

use crate::tool::CHANGING;

/// The tool that runs commands.
pub(crate) const RUN: &str = "run";

/// Calls that may run without asking.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Grant {
    /// Every call of this tool.
    Tool(String),
    /// Commands that begin with these words.
    Command(CommandPrefix),
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
    #[error("`{program}` can run any command; allow `run` if that is what you want")]
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
            Grant::Command(_) => RUN,
        }
    }

    /// The grant for calls like this one: the tool, or the beginning of its command. `None` for a
    /// command that is not simple, or whose program runs any command it is given.
    pub(crate) fn like(tool: &str, command: Option<&str>) -> Option<Grant> {
        if tool != RUN {
            return Some(Grant::Tool(tool.to_owned()));
        }
        let words = simple_command(command?)?;
        let prefix = words.get(..prefix_length(&words)?)?.to_vec();
        prefix.iter().all(|word| is_plain(word)).then_some(Grant::Command(CommandPrefix(prefix)))
    }

    /// Whether it allows a call of this tool, with this command.
    pub(crate) fn fits(&self, tool: &str, command: Option<&str>) -> bool {
        match self {
            Grant::Tool(name) => name == tool,
            Grant::Command(CommandPrefix(prefix)) => {
                let words = command.filter(|_| tool == RUN).and_then(simple_command);
                words.is_some_and(|words| words.starts_with(prefix))
            }
        }
    }
}

impl std::fmt::Display for Grant {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Grant::Tool(name) => f.write_str(name),
            Grant::Command(CommandPrefix(words)) => write!(f, "{RUN}:{}", words.join(" ")),
        }
    }
}

impl FromStr for Grant {
    type Err = BadGrant;

    /// `write_file`, `run`, or `run:cargo test` for commands that begin like this.
    fn from_str(text: &str) -> Result<Grant, BadGrant> {
        let text = text.trim();
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

/// Whether a word is literal, wherever it is in a command.
fn is_plain(word: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_-./+:@%,".contains(c);
    !word.is_empty() && word.chars().all(plain)
}

/// Programs with subcommands: allowing `git status` does not allow `git push`.
const WITH_VERBS: [&str; 46] = [
    "apt",
    "aws",
    "az",
    "brew",
    "bun",
    "bundle",
    "cargo",
    "composer",
    "conda",
    "deno",
    "docker",
    "dotnet",
    "flutter",
    "gcloud",
    "gem",
    "gh",
    "git",
    "go",
    "gradle",
    "helm",
    "hg",
    "jj",
    "just",
    "kubectl",
    "make",
    "mix",
    "mvn",
    "nix",
    "npm",
    "pip",
    "pipx",
    "pnpm",
    "podman",
    "poetry",
    "rails",
    "rake",
    "rustup",
    "sbt",
    "svn",
    "swift",
    "systemctl",
    "task",
    "terraform",
    "uv",
    "yarn",
    "zig",
];

/// Subcommands of such programs that are followed by the name of another program.
const RUNNING_VERBS: [&str; 8] =
    ["exec", "x", "dlx", "foreach", "shell", "develop", "debug", "ssh"];

/// Programs whose `run` starts any program, rather than one of the project's own.
const RUNNING_ANY: [&str; 8] =
    ["conda", "docker", "kubectl", "nix", "pipx", "podman", "poetry", "uv"];

/// Programs that run a command or a script they are given, and shell keywords that do. Their name
/// says nothing about what they do.
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

/// How many words identify a command: the program, and its subcommand if it has one.
fn prefix_length(words: &[String]) -> Option<usize> {
    let program = words.first().filter(|program| !runs_others(program))?;
    let name = program.rsplit('/').next().unwrap_or(program);
    if !WITH_VERBS.contains(&name) {
        return Some(1);
    }
    let is_name = |word: &&String| !word.starts_with(['-', '+']);
    let verb = words.get(1).filter(is_name)?;
    match verb.as_str() {
        verb if RUNNING_VERBS.contains(&verb) => None,
        "run" if RUNNING_ANY.contains(&name) => None,
        "run" if name != "cargo" => words.get(2).filter(is_name).map(|_| 3),
        _ => Some(2),
    }
}

#[cfg(test)]
mod tests;
