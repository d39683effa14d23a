//! All texts of the bot, in one place.

use rethread_core::{Session, sessions};

use crate::markup::Rich;

/// The commands, as Telegram's menu and `/help` show them.
pub(crate) const COMMANDS: [(&str, &str); 17] = [
    ("start", "what this bot does"),
    ("help", "list the commands"),
    ("new", "start a new session, optionally with a name"),
    ("sessions", "list your sessions, and open one"),
    ("open", "continue a session: number, name or id"),
    ("resume", "start from the summary of a session"),
    ("compact", "summarise this session and continue in a smaller one"),
    ("undo", "undo the last delete, clear, new, compact or resume"),
    ("stop", "stop the current answer"),
    ("retry", "ask the last question again"),
    ("status", "what is running and queued, model, folder, context"),
    ("workspace", "show or change the folder"),
    ("agent", "show or change the agent"),
    ("stats", "messages and tokens of this session"),
    ("history", "the conversation since the last clear, or /history all"),
    ("clear", "reset the context; the session is kept"),
    ("delete", "move a session to the trash"),
];

/// The greeting.
pub(crate) fn start(bot: &str, model: &str) -> Rich {
    Rich::plain("This is ")
        .bold(bot)
        .and(format!(", with {model}. Send a message, and it answers.\n\n"))
        .and("You have a session of your own. It survives restarts, remembers its folder, and loses nothing. ")
        .code("/new")
        .and(" starts another, ")
        .code("/sessions")
        .and(" opens an earlier one, ")
        .code("/help")
        .and(" lists the commands.")
}

/// The text of `/help`.
pub(crate) fn help() -> Rich {
    let mut text = Rich::plain("Send a message to get an answer, or a command:\n");
    for (name, what) in COMMANDS.iter().filter(|(name, _)| *name != "start") {
        text = text.and(format!("\n/{name} ")).italic(format!("– {what}"));
    }
    text.and(
        "\n\nTo select a session, use its number in /sessions, its name, the start of its id, or ",
    )
    .code("last")
    .and(".")
}

/// For users who are not on the allow list.
pub(crate) fn stranger(user: u64) -> Rich {
    Rich::plain("This is a private bot, and you are not on its list. To get access, send its operator your user id: ")
        .code(user.to_string())
        .and(".")
}

/// For a voice message, a location or a sticker.
pub(crate) fn wordless() -> Rich {
    Rich::plain("This bot reads only text, photos and documents. Please send one of those.")
}

/// For an unknown command.
pub(crate) fn unknown(name: &str) -> Rich {
    let name: String = name.chars().take(32).collect();
    Rich::plain("Unknown command ").code(format!("/{name}")).and(". /help lists the commands.")
}

/// For a chat without messages.
pub(crate) fn nothing_yet() -> Rich {
    Rich::plain("No messages here yet. Send one to start a session; /sessions lists earlier ones.")
}

/// The current session.
pub(crate) fn here(session: &Session) -> Rich {
    Rich::plain("You are in ").join(called(session)).and(".")
}

/// A session's name, so that it can be tapped and copied, or its title if nobody named it.
pub(crate) fn called(session: &Session) -> Rich {
    match session.title().filter(|_| !session.is_named()) {
        Some(title) => Rich::default().bold(&title),
        None => Rich::default().code(session.header.name.as_str()),
    }
}

/// For a button that has expired.
pub(crate) fn stale() -> Rich {
    Rich::plain("This button no longer works. /help lists the commands.")
}

/// An error: what happened, and what to do next.
pub(crate) fn trouble(error: &sessions::Error) -> Rich {
    use rethread_core::StoreError;
    use rethread_core::sessions::{Error, SelectError};
    let hint = match error {
        Error::Select(SelectError::None { .. } | SelectError::Several { .. })
        | Error::Store(StoreError::NotFound { .. }) => "/sessions lists all sessions.",
        Error::Select(SelectError::Empty) => "Send a message to start one.",
        Error::Name(_) => "A name has a letter or a digit, and no “/”, “\\” or “..”.",
        Error::NothingToUndo { .. } => "Nothing was changed.",
        Error::ContinuedSince { .. } => "It is unchanged.",
        Error::Store(StoreError::Held { .. }) => "It is being used elsewhere; try again later.",
        Error::TooLarge { .. } | Error::TooMany { .. } => "Nothing was stored.",
        _ => "The bot's log has details; no message is lost.",
    };
    let what = match error {
        // The holder is the name of a process, which means nothing to a person far away.
        Error::Store(StoreError::Held { .. }) => "The session is in use".into(),
        Error::NothingToUndo { .. } => "There is nothing to undo".into(),
        Error::ContinuedSince { .. } => {
            "This session has been continued since it was started".into()
        }
        other => capital(&other.to_string()),
    };
    Rich::plain(format!("{what}. {hint}"))
}

/// With a capital letter.
pub(crate) fn capital(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or(String::new(), |first| first.to_uppercase().chain(chars).collect())
}

/// A count and what is counted: 1 message, 2,345 messages.
pub(crate) fn count(number: u64, one: &str) -> String {
    match (number, one.strip_suffix('y')) {
        (1, _) => format!("1 {one}"),
        (_, Some(stem)) => format!("{} {stem}ies", rethread_agent::numbers::full(number)),
        (_, None) => format!("{} {one}s", rethread_agent::numbers::full(number)),
    }
}
