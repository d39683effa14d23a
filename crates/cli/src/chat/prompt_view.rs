//! The view of the prompt: the line, wrapped at the window, and the menu below it.

use rethread_render::terminal::{fit_line, line_width};

use super::buffer::{Buffer, Glyph};
use super::line_editor::LineEditor;
use super::menu::Menu;
use super::paint::Paint;
use crate::out::{count, one_line, pad};

/// The labels of a line and of a search.
const PROMPT: &str = "You:";
const SEARCH: &str = "search:";

/// Choices of a menu that are shown at once.
const MENU_ROWS: usize = 8;

/// Columns of the longest label in a menu, before what it is.
const LABEL_COLUMNS_MAX: usize = 32;

/// Rows of a window, and the cursor: a row, and the columns before it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct PromptView {
    pub(super) lines: Vec<String>,
    pub(super) cursor: (usize, usize),
}

/// The prompt in a window of this size.
pub(super) fn view(
    editor: &LineEditor,
    (columns, rows): (usize, usize),
    paint: Paint,
) -> PromptView {
    let columns = columns.max(2);
    let (mut lines, cursor) = match editor.searched() {
        Some(query) => {
            let line = format!("{} {}", paint.you(SEARCH), one_line(query));
            (vec![fit_line(&line, columns)], (0, line_width(&line).min(columns - 1)))
        }
        None => lay_out(&editor.buffer, columns, paint),
    };
    let most = rows.saturating_sub(1).max(1);
    let below = match editor.menu() {
        Some(menu) => menu_lines(menu, (columns, MENU_ROWS.min(most.saturating_sub(2))), paint),
        None if editor.searched().is_some() => vec![paint.dim("  nothing found · Esc goes back")],
        None => Vec::new(),
    };
    // Of a text that is higher than the window, the part around the cursor is shown.
    let room = most.saturating_sub(below.len()).max(1);
    let from = (cursor.0 + 1).saturating_sub(room);
    lines.drain(..from);
    lines.truncate(room);
    lines.extend(below);
    PromptView { lines, cursor: (cursor.0 - from, cursor.1) }
}

/// A sent line, as it stays on the screen: whole lines.
pub(super) fn sent(shown: &str, columns: usize, paint: Paint) -> String {
    let (mut lines, _) = lay_out(&Buffer::of(shown), columns.max(2), paint);
    // The cursor needs no extra row here.
    if lines.len() > 1 && lines.last().is_some_and(String::is_empty) {
        lines.pop();
    }
    lines.join("\n") + "\n"
}

/// The rows of a text after the prompt, and where the cursor is.
fn lay_out(buffer: &Buffer, columns: usize, paint: Paint) -> (Vec<String>, (usize, usize)) {
    let mut rows = vec![format!("{} ", paint.you(PROMPT))];
    let mut used = PROMPT.len() + 1;
    if used >= columns {
        rows.push(String::new());
        used = 0;
    }
    let mut cursor = (rows.len() - 1, used);
    let glyphs = buffer.glyphs();
    let mentions = mentions(glyphs);
    for (index, glyph) in glyphs.iter().enumerate() {
        let wide = glyph.width();
        if !glyph.is_line_feed() && used + wide > columns && used > 0 {
            rows.push(String::new());
            used = 0;
        }
        if index == buffer.cursor() {
            cursor = (rows.len() - 1, used);
        }
        if glyph.is_line_feed() {
            rows.push(String::new());
            used = 0;
            continue;
        }
        let row = rows.last_mut().expect("there is a row");
        let text = match (glyph.is_fold(), mentions[index]) {
            (true, _) => paint.dim(glyph.shown()),
            (_, true) => paint.speaker(glyph.shown()),
            _ => glyph.shown().to_owned(),
        };
        // One that is wider than the window has rows of its own.
        if wide > columns {
            row.push_str(&fit_line(&text, columns));
            used = columns;
            continue;
        }
        row.push_str(&text);
        used += wide;
    }
    // After a full row the cursor is in the next one.
    if used >= columns {
        rows.push(String::new());
        used = 0;
    }
    if buffer.cursor() == glyphs.len() {
        cursor = (rows.len() - 1, used);
    }
    (rows, cursor)
}

/// Which characters name an attachment: those of a word that begins with `@` and was typed.
fn mentions(glyphs: &[Glyph]) -> Vec<bool> {
    let mut is_in = false;
    let mut after_space = true;
    let mut found = Vec::with_capacity(glyphs.len());
    for glyph in glyphs {
        let is_space = glyph.is_line_feed() || glyph.shown().trim().is_empty();
        is_in = !is_space && !glyph.is_pasted() && (is_in || after_space && glyph.shown() == "@");
        after_space = is_space;
        found.push(is_in);
    }
    found
}

fn menu_lines(menu: &Menu, (columns, rows): (usize, usize), paint: Paint) -> Vec<String> {
    let (shown, all) = menu.shown(rows.max(1));
    let widest = shown.iter().map(|(choice, _)| line_width(&choice.label)).max().unwrap_or(0);
    let widest = widest.min(LABEL_COLUMNS_MAX).min(columns.saturating_sub(2));
    let has_about = shown.iter().any(|(choice, _)| !choice.about.is_empty());
    let mut lines: Vec<String> = shown
        .iter()
        .map(|(choice, is_chosen)| {
            let mark = if *is_chosen { "›" } else { " " };
            let label = match has_about {
                true => pad(&fit_line(&choice.label, widest), widest),
                false => choice.label.clone(),
            };
            let about = if has_about { format!("  {}", choice.about) } else { String::new() };
            // The last column stays empty, so that a terminal that wraps early shows one row.
            let line = fit_line(&format!("{mark} {label}{about}"), columns.saturating_sub(1));
            match is_chosen {
                true => paint.bold(&line),
                false => paint.dim(&line),
            }
        })
        .collect();
    if all > shown.len() || menu.has_more {
        let more = if menu.has_more { "+" } else { "" };
        lines.push(paint.dim(&format!("  {}{more} in all", count(all as u64))));
    }
    lines
}

#[cfg(test)]
mod tests {
    use rethread_render::terminal::Style;

    use super::super::keys::Key;
    use super::super::line_editor::{Candidates, Completion};
    use super::super::menu::Choice;
    use super::*;

    struct Two;

    impl Candidates for Two {
        fn complete(&self, line: &str) -> Option<Completion> {
            let choice = |name: &str, about: &str| Choice {
                text: name.into(),
                label: name.into(),
                about: about.into(),
                is_whole: false,
            };
            let choices = vec![choice("/new", "start a new session"), choice("/cost", "tokens")];
            line.starts_with('/').then_some(Completion { replaces: 1, choices, has_more: false })
        }
    }

    fn typed(keys: &[Key]) -> LineEditor {
        let mut editor = LineEditor::default();
        for key in keys {
            editor.key(key, &Two);
        }
        editor
    }

    fn shown(editor: &LineEditor, columns: usize, rows: usize) -> (String, (usize, usize)) {
        let PromptView { lines, cursor } =
            view(editor, (columns, rows), Paint::of(&Style::plain(columns)));
        (lines.join("\n"), cursor)
    }

    fn text(text: &str) -> Key {
        Key::Text(text.into())
    }

    #[test]
    fn a_line_is_wrapped_at_the_window_and_the_cursor_is_where_the_next_key_goes() {
        let mut editor = typed(&[text("hello world")]);
        assert_eq!(shown(&editor, 80, 24), ("You: hello world".into(), (0, 16)));
        assert_eq!(shown(&editor, 10, 24), ("You: hello\n world".into(), (1, 6)));
        assert_eq!(shown(&editor, 16, 24), ("You: hello world\n".into(), (1, 0)), "a full row");
        editor.key(&Key::Left, &Two);
        assert_eq!(shown(&editor, 16, 24).1, (0, 15));
        let editor = typed(&[text("漢漢漢"), Key::Left]);
        assert_eq!(shown(&editor, 8, 24), ("You: 漢\n漢漢".into(), (1, 2)));
        assert_eq!(shown(&typed(&[]), 2, 24), ("You: \n".into(), (1, 0)), "two columns");
    }

    #[test]
    fn of_a_text_higher_than_the_window_the_part_around_the_cursor_is_shown() {
        let mut editor = typed(&[text("1\n2\n3\n4\n5\n6")]);
        assert_eq!(shown(&editor, 20, 4), ("4\n5\n6".into(), (2, 1)));
        for _ in 0..5 {
            editor.key(&Key::Up, &Two);
        }
        assert_eq!(shown(&editor, 20, 4), ("You: 1\n2\n3".into(), (0, 6)));
    }

    #[test]
    fn a_menu_is_below_the_line_with_what_each_choice_is() {
        let mut editor = typed(&[text("/")]);
        let menu = "You: /\n  /new   start a new session\n  /cost  tokens";
        assert_eq!(shown(&editor, 40, 24), (menu.into(), (0, 6)));
        editor.key(&Key::Down, &Two);
        assert!(shown(&editor, 40, 24).0.contains("\n› /new"));
        assert_eq!(shown(&editor, 20, 24).0.lines().nth(1), Some("› /new   start a n…"));
        let (small, cursor) = shown(&editor, 40, 4);
        assert_eq!((small.lines().count(), cursor), (3, (0, 6)), "{small}");
    }

    #[test]
    fn what_was_sent_stays_as_it_was_seen() {
        let paint = Paint::of(&Style::plain(80));
        assert_eq!(sent("why?\n[400 lines]", 80, paint), "You: why?\n[400 lines]\n");
        assert_eq!(sent("0123456789", 10, paint), "You: 01234\n56789\n");
        assert_eq!(sent("01234", 10, paint), "You: 01234\n");
    }
}
