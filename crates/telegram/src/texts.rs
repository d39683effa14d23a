//! What the bot says by itself, in one place.

use rethread_core::{Session, sessions};

use crate::markup::Rich;

/// The commands, as Telegram's menu and `/help` show them.
pub(crate) const COMMANDS: [(&str, &str); 17] = [
    ("start", "what this is"),
    ("help", "what can be sent"),
    ("new", "start a new session; a name may follow"),
    ("sessions", "your sessions, to open one"),
    ("open", "go on with a session: number, name or id"),
    ("resume", "start from the summary of a session"),
    ("compact", "summarise this session and go on, lighter"),
    ("undo", "take back the last delete, clear, new, compact or resume"),
    ("stop", "stop the answer that is being written"),
    ("retry", "ask the last question again"),
    ("status", "what is running and waiting, model, folder, context"),
    ("workspace", "the folder this is about, or another one"),
    ("agent", "who answers"),
    ("stats", "this session in numbers"),
    ("history", "what was said since the last clear, or /history all"),
    ("clear", "empty the history; the session stays"),
    ("delete", "move a session to the trash"),
];

/// What a person sees first.
pub(crate) fn start(bot: &str, model: &str) -> Rich {
    Rich::plain("This is ")
        .bold(bot)
        .and(format!(", with {model}. Just write, and it answers.\n\n"))
        .and("There is one session for you. It is kept for ever, whatever restarts; it remembers its folder, and nothing said in it is lost. ")
        .code("/new")
        .and(" begins another, ")
        .code("/sessions")
        .and(" brings an earlier one back, ")
        .code("/help")
        .and(" shows the rest.")
}

/// What can be sent.
pub(crate) fn help() -> Rich {
    let mut text = Rich::plain("Write something, and it is answered. Or send:\n");
    for (name, what) in COMMANDS.iter().filter(|(name, _)| *name != "start") {
        text = text.and(format!("\n/{name} ")).italic(format!("– {what}"));
    }
    text.and(
        "\n\nA session is named by its number in /sessions, its name, the beginning of its id, or ",
    )
    .code("last")
    .and(".")
}

/// For users who are not on the allow list.
pub(crate) fn stranger(user: u64) -> Rich {
    Rich::plain("This is a private bot, and you are not on its list. If it should know you, give whoever runs it this number: ")
        .code(user.to_string())
        .and(".")
}

/// For a voice, a place or a sticker.
pub(crate) fn wordless() -> Rich {
    Rich::plain("Only text, photos and documents can be read here. Write it, and it is answered.")
}

/// For a command nobody knows.
pub(crate) fn unknown(name: &str) -> Rich {
    let name: String = name.chars().take(32).collect();
    Rich::plain("There is no ").code(format!("/{name}")).and(". /help shows what there is.")
}

/// For a chat in which nothing was said.
pub(crate) fn nothing_yet() -> Rich {
    Rich::plain(
        "Nothing was said here yet. Write something, and a session begins; /sessions shows earlier ones.",
    )
}

/// Where the person is now.
pub(crate) fn here(session: &Session) -> Rich {
    Rich::plain("You are in ").join(called(session)).and(".")
}

/// What a session is called: its name, to be tapped and copied, or its title where nobody named it.
pub(crate) fn called(session: &Session) -> Rich {
    match session.title().filter(|_| session.header.name.is_automatic()) {
        Some(title) => Rich::default().bold(&title),
        None => Rich::default().code(session.header.name.as_str()),
    }
}

/// For a button whose time is over.
pub(crate) fn stale() -> Rich {
    Rich::plain("This button means nothing any more. /help shows what there is.")
}

/// Something could not be done: what, and what to do next.
pub(crate) fn trouble(error: &sessions::Error) -> Rich {
    use rethread_core::StoreError;
    use rethread_core::sessions::{Error, SelectError};
    let hint = match error {
        Error::Select(SelectError::None { .. } | SelectError::Several { .. })
        | Error::Store(StoreError::NotFound { .. }) => "/sessions shows them all.",
        Error::Select(SelectError::Empty) => "Write something, and there is one.",
        Error::Name(_) => "A name has a letter or a digit, and no “/”, “\\” or “..”.",
        Error::NothingToUndo { .. } => "Nothing was changed.",
        Error::GoneOn { .. } => "It stays as it is.",
        Error::Store(StoreError::Held { .. }) => {
            "It is being used elsewhere at this moment; try again when that has ended."
        }
        Error::TooLarge { .. } | Error::TooMany { .. } => "Nothing of it was stored.",
        _ => "Whoever runs this bot finds more in its log; nothing that was said is lost.",
    };
    let what = match error {
        // Who holds it is the name of a process, and means nothing to a person far away.
        Error::Store(StoreError::Held { .. }) => "The session is in use".into(),
        Error::NothingToUndo { .. } => "There is nothing to take back".into(),
        Error::GoneOn { .. } => "This session has gone on since it was started".into(),
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
