//! Attachments of a question: files, folders and pictures that the user names, and the output of
//! commands they ran.
//!
//! `@src/limit.rs` in typed text attaches that file. Pasted text attaches nothing, because anyone
//! may have written it. A note lists what was attached, and how much of it.

use std::path::{Path, PathBuf};

use rethread_agent::media::FileKind;
use rethread_agent::tool::mention::{
    ATTACHED_TEXT_BYTES_MAX, Attachment, Content, Mentioned, picture_at,
};
use rethread_agent::tool::{ToolFailure, Workspace};
use rethread_core::context::{Model, ModelInputs};
use rethread_core::{Block, Message, Role, SessionId, Sessions};

use super::buffer::Typed;
use crate::errors::Error;
use crate::out::{count, one_line, plural};

/// Names in one question that are considered.
const MENTIONS_MAX: usize = 50;

/// Bytes of text for each token of a model's window: attachments fill at most half of it.
const BYTES_PER_WINDOW_TOKEN: u64 = 2;

/// A question and its attachments.
#[derive(Default)]
pub(super) struct Attached {
    text: String,
    /// The text before the user's own: files and output, as the model sees them.
    prefixes: Vec<String>,
    media: Vec<(Vec<u8>, FileKind, String)>,
    /// Names that were already handled, and the files that were attached.
    known: Vec<String>,
    taken: Vec<String>,
    /// A note for the user.
    pub(super) notes: Vec<String>,
}

/// Pictures from the clipboard, by their names in the prompt.
#[derive(Debug, Default)]
pub(super) struct Clipboard {
    pictures: Vec<Vec<u8>>,
}

impl Clipboard {
    /// Keeps a picture, and gives its name.
    pub(super) fn add(&mut self, bytes: Vec<u8>) -> String {
        self.pictures.push(bytes);
        format!("clipboard-{}", self.pictures.len())
    }

    fn get(&self, name: &str) -> Option<&Vec<u8>> {
        let number: usize = name.strip_prefix("clipboard-")?.parse().ok()?;
        self.pictures.get(number.checked_sub(1)?)
    }
}

impl Attached {
    /// A question with what it names. `outputs` are those of commands the user ran.
    pub(super) fn new(
        typed: &Typed,
        outputs: Vec<String>,
        (workspace, clipboard): (Option<&Path>, &Clipboard),
        model: &Model,
    ) -> Attached {
        let mut attached =
            Attached { text: typed.text.clone(), prefixes: outputs, ..Attached::default() };
        let workspace = workspace.and_then(|path| Workspace::open(path).ok());
        let most = model.window.saturating_mul(BYTES_PER_WINDOW_TOKEN);
        let mut room = ATTACHED_TEXT_BYTES_MAX.min(usize::try_from(most).unwrap_or(usize::MAX));
        for name in typed.parts_by_hand().flat_map(mentions).take(MENTIONS_MAX) {
            attached.name(&name, workspace.as_ref(), clipboard, model.sees, &mut room);
        }
        for name in typed.pasted_parts().flat_map(mentions).take(MENTIONS_MAX) {
            attached.leave_out(&name, workspace.as_ref());
        }
        attached
    }

    /// The message, once its session is known: pictures are stored with it.
    pub(super) fn message(&self, sessions: &Sessions, id: SessionId) -> Result<Message, Error> {
        let mut blocks: Vec<Block> = self.prefixes.iter().map(Block::prefix).collect();
        for (bytes, kind, name) in &self.media {
            let blob = sessions.put_blob(id, bytes)?;
            blocks.push(match kind {
                FileKind::Picture(media_type) => Block::image(blob, media_type),
                _ => Block::document(blob, "application/pdf", Some(name)),
            });
        }
        blocks.push(Block::text(&self.text));
        Ok(Message::new(Role::User, blocks))
    }

    fn name(
        &mut self,
        name: &str,
        workspace: Option<&Workspace>,
        clipboard: &Clipboard,
        sees: ModelInputs,
        room: &mut usize,
    ) {
        if let Some(bytes) = clipboard.get(name) {
            let kind = FileKind::of(bytes);
            return self.media(name.to_owned(), bytes.clone(), kind, sees);
        }
        let inside = |name: &str| workspace.filter(|workspace| workspace.has(name));
        // A full stop after a name ends the sentence.
        let name = match inside(name) {
            None => name.trim_end_matches(['.', ',', ';', ':', '!', '?', ')']),
            Some(_) => name,
        };
        if self.known.iter().any(|known| known == name) {
            return;
        }
        self.known.push(name.to_owned());
        let found = match (inside(name), outside(name)) {
            (Some(workspace), _) => workspace.mention(name, room),
            (None, Some(picture)) => {
                Ok(Mentioned { attachments: vec![picture], ..Mentioned::default() })
            }
            (None, None) if workspace.is_some_and(|workspace| workspace.leads_outside(name)) => {
                Err(ToolFailure(format!("`{name}` leads outside the workspace")))
            }
            // An e-mail address or a handle is not a file, and needs no note.
            (None, None) if !name.contains(['/', '.']) || name.is_empty() => return,
            (None, None) => Err(ToolFailure(match Path::new(name).is_absolute() {
                true => format!("`{name}` is outside the workspace, and not a picture"),
                false => format!("no `{name}` in the workspace"),
            })),
        };
        match found {
            Ok(found) if found.is_folder => self.folder(name, found),
            Ok(found) => {
                found.attachments.into_iter().for_each(|attachment| self.file(attachment, sees));
            }
            Err(failure) => self.notes.push(format!("not attached: {}", one_line(&failure.0))),
        }
    }

    /// Notes a file that only pasted text names: someone who recalls a question may expect it.
    fn leave_out(&mut self, name: &str, workspace: Option<&Workspace>) {
        let is_file = workspace.is_some_and(|workspace| workspace.has(name));
        if is_file && !self.known.iter().any(|known| known == name) {
            self.known.push(name.to_owned());
            self.notes.push(format!(
                "not attached: `@{}` was pasted or recalled; type it to attach it",
                one_line(name)
            ));
        }
    }

    fn file(&mut self, Attachment { path, content }: Attachment, sees: ModelInputs) {
        if self.taken.contains(&path) {
            return;
        }
        self.taken.push(path.clone());
        let is_cut = content.is_cut();
        match content {
            Content::Text { text, bytes } if text.is_empty() && is_cut => self.notes.push(format!(
                "not attached: `{}` ({} bytes) does not fit with the other attachments",
                one_line(&path),
                count(bytes)
            )),
            Content::Text { text, bytes } => {
                let lines = text.lines().count() as u64;
                let taken = match is_cut {
                    true => format!(
                        "the first {} ({} of {} bytes)",
                        plural(lines, "line"),
                        count(text.len() as u64),
                        count(bytes)
                    ),
                    false => plural(lines, "line"),
                };
                self.notes.push(format!("attached {}, {taken}", one_line(&path)));
                self.prefixes.push(quoted(&path, &text, bytes));
            }
            Content::Media { bytes, kind } => self.media(path, bytes, kind, sees),
        }
    }

    fn folder(&mut self, name: &str, found: Mentioned) {
        let Mentioned { mut attachments, mut left_out, .. } = found;
        // A file that was named explicitly is already attached.
        attachments.retain(|attachment| !self.taken.contains(&attachment.path));
        // A file of which nothing fits is not attached.
        let has_room = |content: &Content| match content {
            Content::Text { text, .. } => !text.is_empty() || !content.is_cut(),
            Content::Media { .. } => true,
        };
        let all = attachments.len();
        attachments.retain(|attachment| has_room(&attachment.content));
        left_out += all - attachments.len();
        let (mut bytes, mut cut) = (0, Vec::new());
        let files = attachments.len() as u64;
        for Attachment { path, content } in attachments {
            self.taken.push(path.clone());
            let is_cut = content.is_cut();
            if let Content::Text { text, bytes: all } = content {
                bytes += text.len() as u64;
                self.prefixes.push(quoted(&path, &text, all));
            }
            cut.extend(is_cut.then_some(path));
        }
        let mut note = format!(
            "attached {} of {}, {} bytes",
            plural(files, "file"),
            one_line(name),
            count(bytes)
        );
        // Of a file that is cut, whole lines are taken, so a shorter one may still fit after it.
        match cut.as_slice() {
            [] => {}
            [path] => note += &format!("; {} is cut", one_line(path)),
            paths => note += &format!("; {} of them are cut", count(paths.len() as u64)),
        }
        if left_out > 0 {
            note += &format!("; {} left out (not text, or no room)", count(left_out as u64));
        }
        self.notes.push(note);
    }

    fn media(&mut self, path: String, bytes: Vec<u8>, kind: FileKind, sees: ModelInputs) {
        let size = bytes.len() as u64;
        let (what, is_seen) = match kind {
            FileKind::Picture(_) => ("picture", sees.takes_image(size)),
            _ => ("PDF", sees.takes_document(size)),
        };
        let unseen = match is_seen {
            true => String::new(),
            false => {
                format!(
                    "; it is kept, but this model cannot read it (no {what} input, or too large)"
                )
            }
        };
        self.notes.push(format!(
            "attached the {what} {}, {} bytes{unseen}",
            one_line(&path),
            count(size)
        ));
        self.media.push((bytes, kind, path));
    }
}

/// A file as the model sees it, before what the person wrote.
fn quoted(path: &str, text: &str, bytes: u64) -> String {
    let cut = match (text.len() as u64) < bytes {
        true => format!("\n[cut: {} of {bytes} bytes]", text.len()),
        false => String::new(),
    };
    format!("[File: {path}]\n\n{text}{cut}\n\n[End of file]\n\n")
}

/// A picture outside the workspace, named by its path.
fn outside(name: &str) -> Option<Attachment> {
    picture_at(&in_home(name))
}

/// A path as it is typed, in which `~/` is the home folder.
pub(super) fn in_home(path: &str) -> PathBuf {
    match (path.strip_prefix("~/"), std::env::var_os("HOME")) {
        (Some(rest), Some(home)) => PathBuf::from(home).join(rest),
        _ => PathBuf::from(path),
    }
}

/// The names in a text: words that begin with `@`, and `@"in quotes"`.
pub(super) fn mentions(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut before = ' ';
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        rest = &rest[c.len_utf8()..];
        if c == '@' && (before.is_whitespace() || before == '(') {
            let (name, after) = match rest.strip_prefix('"') {
                Some(quoted) => match quoted.split_once('"') {
                    Some((name, after)) => (name, after),
                    None => (quoted, ""),
                },
                None => rest.split_at(rest.find(char::is_whitespace).unwrap_or(rest.len())),
            };
            if !name.is_empty() {
                found.push(name.to_owned());
            }
            rest = after;
        }
        before = c;
    }
    found
}

/// How a path is written after `@`.
pub(super) fn mention(path: &str) -> String {
    match path.contains(char::is_whitespace) {
        true => format!("@\"{path}\""),
        false => format!("@{path}"),
    }
}

/// The picture that a paste refers to: terminals paste the path of a file that is dropped on them,
/// some in quotes, some with backslashes.
pub(super) fn dropped_picture(pasted: &str) -> Option<String> {
    let text = pasted.trim();
    if text.is_empty() || text.contains('\n') || text.len() > 4_096 {
        return None;
    }
    let unquoted = ["'", "\""].iter().find_map(|quote| {
        text.strip_prefix(quote).and_then(|rest| rest.strip_suffix(quote)).map(str::to_owned)
    });
    let path = unquoted.unwrap_or_else(|| {
        let mut path = String::new();
        let mut chars = text.chars();
        while let Some(c) = chars.next() {
            path.extend(if c == '\\' { chars.next() } else { Some(c) });
        }
        path
    });
    let path = path.strip_prefix("file://").unwrap_or(&path).to_owned();
    picture_at(Path::new(&path)).map(|_| path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_begins_with_an_at_sign_at_the_start_of_a_word() {
        assert_eq!(
            mentions("compare @a.rs with (@b.rs) and @\"c d.rs\"!"),
            ["a.rs", "b.rs)", "c d.rs"]
        );
        assert_eq!(mentions("me@example.org is no file, and @ is none"), Vec::<String>::new());
        for path in ["src/a.rs", "a b.rs"] {
            assert_eq!(mentions(&format!("see {} now", mention(path))), [path]);
        }
    }

    fn of(typed: &Typed, folder: &Path) -> Attached {
        let mut model = Model::new("openai", "m");
        model.sees = ModelInputs { images: true, documents: false };
        let clipboard = Clipboard { pictures: vec![b"\x89PNG1".to_vec()] };
        Attached::new(typed, vec!["[output]".into()], (Some(folder), &clipboard), &model)
    }

    #[test]
    fn what_is_typed_attaches_and_what_is_pasted_does_not() {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::write(folder.path().join("a.txt"), "one\ntwo\n").expect("written");
        let attached =
            of(&Typed::by_hand("what is @a.txt? And @a.txt, @nosuch.rs, @you?"), folder.path());
        assert_eq!(
            attached.prefixes,
            ["[output]", "[File: a.txt]\n\none\ntwo\n\n\n[End of file]\n\n"]
        );
        assert_eq!(
            attached.notes,
            ["attached a.txt, 2 lines", "not attached: no `nosuch.rs` in the workspace"]
        );
        let twice = of(&Typed::by_hand("@a.txt and @./ and @./a.txt"), folder.path());
        assert_eq!(twice.prefixes.len(), 2, "{:?}", twice.notes);
        let pasted = of(&Typed::data("explain: @a.txt, @nosuch.rs, @you"), folder.path());
        assert_eq!(pasted.prefixes.len(), 1);
        assert_eq!(pasted.notes, [""; 0], "a full stop or a comma may belong to a name");
        let pasted = of(&Typed::data("explain @a.txt and @a.txt"), folder.path());
        assert_eq!(
            pasted.notes,
            ["not attached: `@a.txt` was pasted or recalled; type it to attach it"]
        );
        let picture =
            of(&Typed::by_hand("what is in @clipboard-1 and @clipboard-2"), folder.path());
        assert_eq!((picture.media.len(), picture.notes.len()), (1, 1));
        assert_eq!(picture.notes, ["attached the picture clipboard-1, 5 bytes"]);
    }

    #[test]
    fn a_file_that_there_is_no_room_for_is_not_attached_as_nothing() {
        let folder = tempfile::tempdir().expect("a folder");
        let full = "x".repeat(ATTACHED_TEXT_BYTES_MAX);
        std::fs::write(folder.path().join("full.txt"), &full).expect("written");
        std::fs::write(folder.path().join("a.txt"), "one\n").expect("written");
        let attached = of(&Typed::by_hand("@full.txt and @a.txt"), folder.path());
        assert_eq!(
            attached.notes,
            [
                "attached full.txt, the first 1 line (256,000 of 262,144 bytes)",
                "not attached: `a.txt` (4 bytes) does not fit with the other attachments"
            ]
        );
        assert_eq!(attached.prefixes.len(), 2, "the output of a command, and one file");
    }

    #[test]
    fn a_link_out_of_the_workspace_is_called_one() {
        let folder = tempfile::tempdir().expect("a folder");
        std::os::unix::fs::symlink("/etc/passwd", folder.path().join("link")).expect("linked");
        let attached = of(&Typed::by_hand("see @link and @you"), folder.path());
        assert_eq!(attached.notes, ["not attached: `link` leads outside the workspace"]);
    }

    #[test]
    fn the_note_about_a_folder_says_which_file_is_cut() {
        let folder = tempfile::tempdir().expect("a folder");
        let write = |name: &str, text: &str| {
            std::fs::write(folder.path().join(name), text).expect("written");
        };
        let notes = || of(&Typed::by_hand("@./"), folder.path()).notes;
        // The room is 256,000 bytes. The first line of b fits and the second does not, so c does.
        write("a.txt", &"x".repeat(255_000));
        write("b.txt", &format!("short\n{}", "x".repeat(2_000)));
        write("c.txt", "one\n");
        assert_eq!(notes(), ["attached 3 files of ./, 255,010 bytes; b.txt is cut"]);
        write("c.txt", &format!("short\n{}", "x".repeat(2_000)));
        assert_eq!(notes(), ["attached 3 files of ./, 255,012 bytes; 2 of them are cut"]);
        write("a.txt", &"x".repeat(256_000));
        assert_eq!(
            notes(),
            ["attached 1 file of ./, 256,000 bytes; 2 left out (not text, or no room)"]
        );
    }

    #[test]
    fn a_dropped_file_is_a_picture_however_its_path_is_written() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("my shot.png");
        std::fs::write(&path, b"\x89PNG").expect("written");
        let path = path.to_str().expect("text");
        for pasted in [
            path.to_owned(),
            format!("'{path}' "),
            path.replace(' ', "\\ "),
            format!("file://{path}"),
        ] {
            assert_eq!(dropped_picture(&pasted).as_deref(), Some(path), "{pasted}");
        }
        assert_eq!(dropped_picture("no path\nat all"), None);
        assert_eq!(dropped_picture("/etc/passwd"), None);
    }
}
