//! The flags of the chat, and of `open`, which starts one.

use clap::Args as ClapArgs;
use rethread_agent::Grant;

/// Flags of the chat.
#[derive(Clone, Debug, Default, ClapArgs)]
#[command(next_help_heading = "Chat")]
pub(crate) struct ChatFlags {
    /// Continue where this folder's last chat ended
    #[arg(short = 'c', long = "continue", conflicts_with_all = ["resume", "name"])]
    pub(crate) continue_last: bool,
    /// Start from the summary of a session or a transcript (.md); without a value, pick one from a list
    #[arg(long, value_name = "SEL|FILE")]
    pub(crate) resume: Option<Option<String>>,
    /// Where the chat begins.
    #[arg(skip)]
    pub(crate) open: Option<Option<String>>,
    /// Ask one question, print the answer and exit. Piped input is sent along with it; `-` reads the
    /// question itself from standard input
    #[arg(short, long, value_name = "PROMPT")]
    pub(crate) prompt: Option<String>,
    /// With -p: print each event as a line of JSON, the answer last
    #[arg(long, requires = "prompt")]
    pub(crate) json_stream: bool,
    /// Agent to use: build, plan, explore, general, or one of your own
    #[arg(long, value_name = "AGENT")]
    pub(crate) agent: Option<String>,
    /// Model to use [env: RETHREAD_MODEL]
    #[arg(long, value_name = "PROVIDER/MODEL")]
    pub(crate) model: Option<String>,
    /// Name of the new session
    #[arg(long)]
    pub(crate) name: Option<String>,
    /// Let a tool run without asking: write_file, edit_file, run, or `run:cargo test` for commands
    /// that start with `cargo test`
    #[arg(long, value_name = "TOOL", value_delimiter = ',')]
    pub(crate) allow: Vec<Grant>,
    /// Offer no tool that changes anything
    #[arg(long, conflicts_with = "allow")]
    pub(crate) read_only: bool,
    /// Print plain text line by line and never redraw, for screen readers
    #[arg(long)]
    pub(crate) plain: bool,
}

impl ChatFlags {
    /// The flags of the chat that were given: most are not allowed with a command.
    pub(crate) fn all_typed(&self) -> impl Iterator<Item = &'static str> {
        [
            (self.continue_last, "--continue"),
            (self.resume.is_some(), "--resume"),
            (self.prompt.is_some(), "--prompt"),
            (self.json_stream, "--json-stream"),
            (self.agent.is_some(), "--agent"),
            (self.model.is_some(), "--model"),
            (self.name.is_some(), "--name"),
            (!self.allow.is_empty(), "--allow"),
            (self.read_only, "--read-only"),
            (self.plain, "--plain"),
        ]
        .into_iter()
        .filter_map(|(typed, flag)| typed.then_some(flag))
    }
}

/// Flags of `open`.
#[derive(Debug, ClapArgs)]
pub(crate) struct Open {
    /// Session: position in the list, name, id, or `last` [default: pick one from a list]
    pub(crate) sel: Option<String>,
    /// Key to bind the session to [default: the key of this folder]
    #[arg(long)]
    pub(crate) key: Option<String>,
    /// Agent to use: build, plan, explore, general, or one of your own
    #[arg(long, value_name = "AGENT")]
    pub(crate) agent: Option<String>,
    /// Model to use [env: RETHREAD_MODEL]
    #[arg(long, value_name = "PROVIDER/MODEL")]
    pub(crate) model: Option<String>,
    /// Let a tool run without asking: write_file, edit_file, run, or `run:cargo test` for commands
    /// that start with `cargo test`
    #[arg(long, value_name = "TOOL", value_delimiter = ',')]
    pub(crate) allow: Vec<Grant>,
    /// Offer no tool that changes anything
    #[arg(long, conflicts_with = "allow")]
    pub(crate) read_only: bool,
    /// Print plain text line by line and never redraw, for screen readers
    #[arg(long)]
    pub(crate) plain: bool,
}

impl Open {
    /// The flags of the chat that it opens: those before `open`, and those after it.
    ///
    /// # Errors
    ///
    /// A flag before `open` that says where a chat begins, or that it is not one.
    pub(crate) fn chat_flags(&self, before: &ChatFlags) -> Result<ChatFlags, &'static str> {
        let talk = ChatFlags {
            open: Some(self.sel.clone()),
            agent: self.agent.clone().or(before.agent.clone()),
            model: self.model.clone().or(before.model.clone()),
            allow: before.allow.iter().chain(&self.allow).cloned().collect(),
            read_only: before.read_only || self.read_only,
            plain: before.plain || self.plain,
            ..ChatFlags::default()
        };
        let taken = ["--agent", "--model", "--allow", "--read-only", "--plain"];
        match before.all_typed().find(|flag| !taken.contains(flag)) {
            Some(flag) => Err(flag),
            None => Ok(talk),
        }
    }
}
