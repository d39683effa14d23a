//! A session in the picker: its row, and its searchable text.

use std::path::Path;

use jiff::Timestamp;
use nucleo_matcher::Utf32String;
use rethread_core::{Session, SessionId};
use rethread_render::terminal::{fit_line, line_width};

use crate::chat::folder;
use crate::commands::session_rows::untitled;
use crate::out::{ago, fit, pad};

/// Columns of a window from which the source and the folder are shown.
const SOURCE_FROM_COLUMNS: usize = 60;
const FOLDER_FROM_COLUMNS: usize = 50;

/// Columns of the parts that follow the title.
const FOLDER_COLUMNS: usize = 14;
const SOURCE_COLUMNS: usize = 11;
const AGE_COLUMNS: usize = 10;

/// Characters of a title that are shown or searched.
const TITLE_CHARS: usize = 200;

/// A session.
#[derive(Clone, Debug)]
pub(super) struct Row {
    pub(super) id: SessionId,
    /// What every list shows: its title, the name someone gave it, or its first question.
    pub(super) title: String,
    /// Whether that is a title, and not a note that there is none.
    pub(super) is_titled: bool,
    /// How messages refer to it.
    pub(super) label: String,
    /// It is not shown, and is found only by its complete text.
    pub(super) readable_id: String,
    pub(super) is_archived: bool,
    /// Whether it is listed without a filter.
    pub(super) is_listed: bool,
    folder: String,
    source: String,
    pub(super) active_at: Timestamp,
    /// The searchable texts: the title and the name a person chose, and everything else.
    pub(super) heads: Utf32String,
    pub(super) rest: Utf32String,
}

impl Row {
    /// The row of a session. All text is cleaned here.
    pub(super) fn new(session: &Session, home: &str, is_listed: bool) -> Row {
        let header = &session.header;
        // A name made of the time is shown nowhere.
        let name = match session.is_named() {
            true => fit(header.name.as_str(), TITLE_CHARS),
            false => String::new(),
        };
        let title = session.title().map(|title| fit(&title, TITLE_CHARS));
        let title = title.filter(|title| !title.is_empty());
        let is_titled = title.is_some();
        let title = title.unwrap_or_else(|| untitled(session).to_owned());
        let home = Some(Path::new(home)).filter(|home| home.is_absolute());
        let workspace = header.profile.workspace.as_deref().map(Path::new);
        let folder = workspace.map(|path| folder(path, home)).unwrap_or_default();
        let folder = fit(&folder, TITLE_CHARS);
        let source = header.source.as_deref().or(header.imported.as_deref()).unwrap_or_default();
        let source = fit(source, TITLE_CHARS);
        let agent = header.profile.agent.as_deref().unwrap_or_default();
        let readable_id = session.readable_id.as_deref().unwrap_or_default();
        let rest = [&session.first_message, folder.as_str(), &source, agent];
        Row {
            id: session.id(),
            heads: format!("{title}\n{name}").into(),
            rest: rest.join("\n").into(),
            readable_id: readable_id.to_owned(),
            title,
            is_titled,
            label: fit(&session.label(), TITLE_CHARS),
            is_archived: header.archived,
            is_listed,
            folder,
            source,
            active_at: session.last_activity_at,
        }
    }

    /// The row in this many columns: position, title, folder, source, and age.
    pub(super) fn line(&self, position: Option<usize>, columns: usize, now: Timestamp) -> String {
        let position = position.map_or_else(|| "·".into(), |at| at.to_string());
        // Of the two spaces after it, a position with five digits takes one.
        let begin = format!("{:<6}", format!("{position:>4} "));
        let mut end = String::new();
        if columns >= FOLDER_FROM_COLUMNS {
            end += &format!("  {}", pad(&last_part(&self.folder, FOLDER_COLUMNS), FOLDER_COLUMNS));
        }
        if columns >= SOURCE_FROM_COLUMNS {
            end += &format!("  {}", pad(&fit(&self.source, SOURCE_COLUMNS), SOURCE_COLUMNS));
        }
        end += &format!("  {:>AGE_COLUMNS$}", ago(self.active_at, now));
        let left = columns.saturating_sub(begin.len() + line_width(&end)).max(1);
        let mark = if self.is_archived { "(archived) " } else { "" };
        let title = fit(&format!("{mark}{}", self.title), left);
        fit_line(&format!("{begin}{}{end}", pad(&title, left)), columns)
    }
}

/// The end of a path: the part that distinguishes folders.
fn last_part(path: &str, columns: usize) -> String {
    if line_width(path) <= columns {
        return path.to_owned();
    }
    let mut end = String::new();
    for part in path.rsplit('/') {
        let longer = if end.is_empty() { part.to_owned() } else { format!("{part}/{end}") };
        if line_width(&longer) + 2 > columns {
            break;
        }
        end = longer;
    }
    match end.is_empty() {
        true => fit(path.rsplit('/').next().unwrap_or_default(), columns),
        false => format!("…/{end}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn titles_are_in_one_column_whatever_the_position() {
        let world = std::sync::Arc::new(rethread_core::Fixed::default());
        let store = std::sync::Arc::new(rethread_core::MemoryStore::new(world.clone()));
        let sessions = rethread_core::Sessions::new(store, rethread_core::Owner::local(), world);
        let session = sessions.create(&Default::default(), None).expect("created");
        let row = Row::new(&session, "", true);
        for position in [None, Some(1), Some(9_999), Some(10_000), Some(99_999)] {
            let line = row.line(position, 80, row.active_at);
            assert_eq!(line.find("(nothing said)").map(|at| line[..at].chars().count()), Some(6));
        }
    }

    #[test]
    fn of_a_long_folder_the_end_is_shown() {
        assert_eq!(last_part("~/code", 14), "~/code");
        assert_eq!(last_part("/home/you/work/service/api", 12), "…/api");
        assert_eq!(last_part("/home/you/work/service/api", 14), "…/service/api");
        assert_eq!(last_part("/a/a-folder-with-a-long-name", 14), "a-folder-with…");
    }
}
