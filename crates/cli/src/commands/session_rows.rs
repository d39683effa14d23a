//! Rows of a list of sessions: title, folder, source, age and messages, at any width.
//!
//! If there is room, a session is one line; in a narrow window it is two, the title and the rest.
//! All text is cleaned and cut, so a row never wraps.

use std::path::Path;

use jiff::Timestamp;
use rethread_core::{Session, SessionKind};
use unicode_width::UnicodeWidthStr;

use crate::out::{clean, fit, pad, plural};

/// Columns from which a session is one line.
const ONE_LINE_FROM_COLUMNS: usize = 72;

const FOLDER_COLUMNS: usize = 14;
const FOLDER_COLUMNS_MIN: usize = 6;
const SOURCE_COLUMNS: usize = 11;
const AGE_COLUMNS: usize = 7;
const MESSAGES_COLUMNS: usize = 5;

/// The width of everything but the title: a position, gaps, and the four columns.
const BESIDE_TITLE: usize =
    5 + 2 + FOLDER_COLUMNS + 2 + SOURCE_COLUMNS + 2 + AGE_COLUMNS + 2 + MESSAGES_COLUMNS;

/// The width and the current time.
pub(crate) struct Rows {
    /// Columns of the window.
    pub(crate) columns: usize,
    /// The time now.
    pub(crate) now: Timestamp,
}

impl Rows {
    /// The header, if sessions are one line.
    pub(crate) fn heading(&self) -> Option<String> {
        let title = self.title_columns()?;
        Some(format!(
            "\x1b[2m{:>3}  {}  {:<FOLDER_COLUMNS$}  {:<SOURCE_COLUMNS$}  {:>AGE_COLUMNS$}  {:>MESSAGES_COLUMNS$}\x1b[0m",
            "#",
            pad("TITLE", title),
            "FOLDER",
            "SOURCE",
            "AGE",
            "MSGS"
        ))
    }

    /// One session, with a prefix before its title and the time that its age is counted from.
    pub(crate) fn row(&self, position: &str, session: &Session, at: Timestamp) -> String {
        let title = shown_title(session);
        let folder = folder(session).unwrap_or_default();
        let source = source(session);
        let (age, messages) = (age(at, self.now), session.tally.messages);
        match self.title_columns() {
            Some(columns) => format!(
                "{position:>3}  \x1b[1m{}\x1b[0m  {}  {}  {age:>AGE_COLUMNS$}  {messages:>MESSAGES_COLUMNS$}",
                pad(&fit(&title, columns), columns),
                pad(&fit(&folder, FOLDER_COLUMNS), FOLDER_COLUMNS),
                pad(&fit(&source, SOURCE_COLUMNS), SOURCE_COLUMNS),
            ),
            None => {
                let left = self.columns.saturating_sub(5);
                let about = about(&folder, [&source, &age], messages, left);
                format!(
                    "{position:>3}  \x1b[1m{}\x1b[0m\n     \x1b[2m{about}\x1b[0m",
                    fit(&title, left)
                )
            }
        }
    }

    /// Columns for the title, if a session is one line.
    fn title_columns(&self) -> Option<usize> {
        (self.columns >= ONE_LINE_FROM_COLUMNS).then(|| (self.columns - BESIDE_TITLE).min(80))
    }
}

/// What belongs to a title, in a line of its own. The folder is cut first: the rest is short. Where
/// little would be left of it, the number of messages has no word.
fn about(folder: &str, facts: [&str; 2], messages: u64, columns: usize) -> String {
    let facts: Vec<&str> = facts.into_iter().filter(|fact| !fact.is_empty()).collect();
    let facts = facts.join(" · ");
    for counted in [plural(messages, "msg"), messages.to_string()] {
        let rest = format!("{facts} · {counted}");
        let room = columns.saturating_sub(rest.width() + 3);
        if folder.is_empty() && rest.width() <= columns {
            return rest;
        }
        if room >= FOLDER_COLUMNS_MIN.min(folder.width()) && !folder.is_empty() {
            return format!("{} · {rest}", fit(folder, room));
        }
    }
    fit(&format!("{facts} · {messages}"), columns)
}

/// The title of a session, with a mark if it is archived.
pub(crate) fn shown_title(session: &Session) -> String {
    let title = match session.title() {
        Some(title) => clean(&title),
        None => untitled(session).into(),
    };
    match session.header.archived {
        true => format!("(archived) {title}"),
        false => title,
    }
}

/// What a session is called that has no title: nobody named it or asked something in it.
pub(crate) fn untitled(session: &Session) -> &'static str {
    if session.tally.messages > 0 { "(no question)" } else { "(nothing said)" }
}

/// The last component of a session's folder.
pub(crate) fn folder(session: &Session) -> Option<String> {
    let path = Path::new(session.header.profile.workspace.as_deref()?);
    let home = std::env::var_os("HOME");
    if home.as_deref().is_some_and(|home| Path::new(home) == path) {
        return Some("~".into());
    }
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned());
    Some(clean(&name.unwrap_or_else(|| "/".into())))
}

/// The program a session comes from.
pub(crate) fn source(session: &Session) -> String {
    let header = &session.header;
    let known = header.source.as_deref().or(header.imported.as_deref());
    let kind = Some(header.kind.as_str()).filter(|_| header.kind != SessionKind::Chat);
    clean(known.or(kind).unwrap_or_default())
}

/// The age in as few characters as possible: `now`, `5m`, `3h`, `12d`, `2025-03`.
pub(crate) fn age(at: Timestamp, now: Timestamp) -> String {
    let seconds = now.as_second().saturating_sub(at.as_second()).max(0);
    match seconds {
        0..60 => "now".into(),
        60..3_600 => format!("{}m", seconds / 60),
        3_600..86_400 => format!("{}h", seconds / 3_600),
        86_400..8_640_000 => format!("{}d", seconds / 86_400),
        _ => at.strftime("%Y-%m").to_string(),
    }
}

#[cfg(test)]
mod tests {
    use rethread_core::{Header, Owner, Profile, SessionId};
    use rethread_render::terminal::line_width;

    use super::*;

    fn session(first: &str) -> Session {
        let at = Timestamp::from_second(1_700_000_000).expect("a time");
        let mut header =
            Header::new(SessionId::of_source(&Owner::local(), "a session"), Owner::local(), at);
        let workspace = Some("/home/you/a-folder-with-a-long-name".into());
        header.profile = Profile { workspace, ..Profile::default() };
        header.source = Some("claude-code".into());
        Session { first_message: first.into(), ..Session::new(header) }
    }

    #[test]
    fn no_row_is_wider_than_the_window_and_each_says_everything() {
        let now = Timestamp::from_second(1_700_010_000).expect("a time");
        for columns in [40, 60, 80, 120, 200] {
            for first in ["why?", &"words and more ".repeat(20), &"日本語".repeat(60), "\x1b[2Jx"]
            {
                let rows = Rows { columns, now };
                let session = session(first);
                let row = rows.row("12", &session, session.last_activity_at);
                for line in row.lines().chain(rows.heading().as_deref()) {
                    assert!(line_width(line) <= columns, "{columns}: {line:?}");
                }
                for part in ["12", "a-f", "claude-code", "2h", "0"] {
                    assert!(row.contains(part), "{columns}: {part} in {row:?}");
                }
                assert_eq!(row.lines().count(), if columns < 72 { 2 } else { 1 });
            }
        }
    }

    #[test]
    fn the_folder_has_room_in_the_narrowest_window() {
        let facts = ["claude-code", "2026-01"];
        assert_eq!(about("cli", facts, 106, 35), "cli · claude-code · 2026-01 · 106");
        assert_eq!(
            about("entire-sem", ["codex", "2026-05"], 1, 35),
            "entire-s… · codex · 2026-05 · 1 msg"
        );
        assert_eq!(about("", facts, 106, 35), "claude-code · 2026-01 · 106 msgs");
        assert_eq!(about("folder", facts, 2, 55), "folder · claude-code · 2026-01 · 2 msgs");
    }

    #[test]
    fn a_session_in_which_only_a_model_spoke_is_not_said_to_be_silent() {
        let mut session = session("");
        assert_eq!(shown_title(&session), "(nothing said)");
        session.tally.messages = 37;
        assert_eq!(shown_title(&session), "(no question)");
    }
}
