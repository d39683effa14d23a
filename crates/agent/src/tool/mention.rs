//! Attachments that the user names in a question: files and folders of the workspace, and pictures.
//!
//! Files are accessed like by tools: below the workspace, without following links out of it, and
//! not in the store. In a folder, hidden and ignored files are left out; a file that is named
//! explicitly is attached. A picture may also be named by its absolute path: the user names it, and
//! screenshots are elsewhere.

use std::io::Read;
use std::path::Path;

use super::workspace::{RealPath, failed, shown};
use super::{ToolFailure, Workspace};
use crate::media::FileKind;

/// Bytes of text attached to one question, in total. About 64,000 tokens.
pub const ATTACHED_TEXT_BYTES_MAX: usize = 256 << 10;

/// Files of a folder that are attached. For more, use a search.
pub const FOLDER_FILES_MAX: usize = 100;

/// Files of a folder that are examined, including those that are not attached.
const FOLDER_FILES_SEEN_MAX: usize = 2_000;

/// Something that is attached.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the fields say what they are")]
pub struct Attachment {
    /// Its path, relative to the workspace if it is inside.
    pub path: String,
    pub content: Content,
}

/// What is in an attachment.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the fields say what they are")]
pub enum Content {
    /// Text.
    Text {
        /// Complete lines, as much as fit.
        text: String,
        /// Its size in bytes.
        bytes: u64,
    },
    /// A picture or a PDF.
    Media {
        /// All of it.
        bytes: Vec<u8>,
        kind: FileKind,
    },
}

impl Content {
    /// Whether it was cut.
    pub fn is_cut(&self) -> bool {
        matches!(self, Content::Text { text, bytes } if (text.len() as u64) < *bytes)
    }
}

/// What a name refers to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs, reason = "the fields say what they are")]
pub struct Mentioned {
    /// What is attached.
    pub attachments: Vec<Attachment>,
    pub is_folder: bool,
    /// Files of a folder that were left out: not text, or too large.
    pub left_out: usize,
}

impl Workspace {
    /// The files that are neither hidden nor ignored, as paths relative to the workspace, up to a
    /// limit.
    pub fn files(&self, max: usize) -> Vec<String> {
        let Ok(base) = self.base(None) else { return Vec::new() };
        self.walk(&base).take(max).map(|path| shown(&path)).collect()
    }

    /// Whether a file or folder with this name exists.
    pub fn has(&self, path: &str) -> bool {
        self.base(Some(path)).is_ok()
    }

    /// The attachments for a name. `room` is the remaining number of bytes of text, and is reduced
    /// by what is attached.
    ///
    /// # Errors
    ///
    /// [`ToolFailure`] if it does not exist, is not in the workspace, or has a type that models
    /// cannot read.
    pub fn mention(&self, path: &str, room: &mut usize) -> Result<Mentioned, ToolFailure> {
        let base = self.base(Some(path))?;
        if self.folder(&base).is_err() {
            let attachment = self.attachment(&base, room)?;
            return Ok(Mentioned { attachments: vec![attachment], ..Mentioned::default() });
        }
        let mut mentioned = Mentioned { is_folder: true, ..Mentioned::default() };
        for file in self.walk(&base).take(FOLDER_FILES_SEEN_MAX) {
            let is_full = *room == 0 || mentioned.attachments.len() >= FOLDER_FILES_MAX;
            // Pictures are attached one by one, because each costs as much as a long text.
            match (is_full, self.text_file(&file)) {
                (false, Ok(_)) if self.starts_as(&file).is_none() => {
                    match self.attachment(&file, room) {
                        Ok(attachment) => mentioned.attachments.push(attachment),
                        Err(_) => mentioned.left_out += 1,
                    }
                }
                _ => mentioned.left_out += 1,
            }
        }
        Ok(mentioned)
    }

    fn starts_as(&self, path: &RealPath) -> Option<FileKind> {
        let mut start = [0; 16];
        let read = self.file(path).ok()?.read(&mut start).ok()?;
        FileKind::of_start(&start[..read])
    }

    fn attachment(&self, path: &RealPath, room: &mut usize) -> Result<Attachment, ToolFailure> {
        let error = |error: std::io::Error| failed("read", path, &error);
        if let Some(kind) = self.starts_as(path) {
            let bytes = media(self.file(path)?, kind).map_err(error)?;
            let Some(bytes) = bytes else { return Err(too_large(path)) };
            return Ok(Attachment { path: shown(path), content: Content::Media { bytes, kind } });
        }
        let file = self.text_file(path)?;
        let size = file.size;
        let mut bytes = Vec::new();
        file.take(*room as u64).read_to_end(&mut bytes).map_err(error)?;
        let is_cut = (bytes.len() as u64) < size;
        if is_cut {
            // Complete lines; if the first line is longer than the room, its beginning.
            let end =
                bytes.iter().rposition(|byte| *byte == b'\n').map_or(bytes.len(), |at| at + 1);
            bytes.truncate(end);
        }
        let text = match String::from_utf8(bytes) {
            Ok(text) => text,
            Err(error) if is_cut && error.utf8_error().error_len().is_none() => {
                let valid = error.utf8_error().valid_up_to();
                String::from_utf8_lossy(&error.as_bytes()[..valid]).into_owned()
            }
            Err(_) => {
                let path = path.display();
                return Err(ToolFailure(format!("`{path}` is not text in UTF-8")));
            }
        };
        *room -= text.len();
        Ok(Attachment { path: shown(path), content: Content::Text { text, bytes: size } })
    }
}

/// The picture at an absolute path; `None` if the file is not a picture that models accept.
pub fn picture_at(path: &Path) -> Option<Attachment> {
    // Checked before it is opened, because opening a pipe waits for a writer.
    if !path.is_absolute() || !std::fs::metadata(path).ok()?.is_file() {
        return None;
    }
    let mut start = [0; 16];
    let read = std::fs::File::open(path).ok()?.read(&mut start).ok()?;
    let kind = FileKind::of_start(&start[..read])?;
    let bytes = media(std::fs::File::open(path).ok()?, kind).ok()??;
    Some(Attachment { path: shown(path), content: Content::Media { bytes, kind } })
}

/// All of a picture or a PDF; `None` if it is larger than models accept.
fn media(file: std::fs::File, kind: FileKind) -> std::io::Result<Option<Vec<u8>>> {
    let max = kind.bytes_max().unwrap_or(0);
    let mut bytes = Vec::new();
    file.take(max + 1).read_to_end(&mut bytes)?;
    Ok(Some(bytes).filter(|bytes| bytes.len() as u64 <= max))
}

fn too_large(path: &Path) -> ToolFailure {
    ToolFailure(format!("`{}` is larger than models take", path.display()))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    const PNG: &[u8] = b"\x89PNG\r\n\x1a\nrest";

    fn workspace(files: &[(&str, &[u8])]) -> (tempfile::TempDir, Workspace) {
        let folder = tempfile::tempdir().expect("a folder");
        for (path, content) in files {
            let path = folder.path().join(path);
            fs::create_dir_all(path.parent().expect("a folder")).expect("made");
            fs::write(path, content).expect("written");
        }
        let workspace = Workspace::open(folder.path()).expect("opened");
        (folder, workspace)
    }

    fn texts(mentioned: &Mentioned) -> Vec<String> {
        let shown = |it: &Attachment| match &it.content {
            Content::Text { text, .. } => format!("{}: {text}", it.path),
            Content::Media { .. } => format!("{}: media", it.path),
        };
        mentioned.attachments.iter().map(shown).collect()
    }

    #[test]
    fn of_a_folder_what_is_hidden_ignored_or_not_text_is_left_out() {
        let (_folder, workspace) = workspace(&[
            ("src/a.rs", b"a\n"),
            ("src/deep/b.rs", b"b\n"),
            ("src/.hidden", b"secret"),
            ("src/built.o", b"ignored"),
            ("src/data.bin", b"\0\0"),
            ("src/shot.png", PNG),
            (".gitignore", b"*.o\n"),
        ]);
        let mut room = 100;
        let found = workspace.mention("src/", &mut room).expect("a folder");
        assert_eq!(texts(&found), ["src/a.rs: a\n", "src/deep/b.rs: b\n"]);
        assert_eq!((found.is_folder, found.left_out, room), (true, 2, 96));
        // A file that is named explicitly is attached.
        let named = workspace.mention("src/built.o", &mut room).expect("a file");
        assert_eq!(texts(&named), ["src/built.o: ignored"]);
        assert_eq!(
            workspace.files(10),
            ["src/a.rs", "src/data.bin", "src/deep/b.rs", "src/shot.png"]
        );
    }

    #[test]
    fn there_is_room_for_so_many_bytes_in_whole_lines() {
        let (_folder, workspace) =
            workspace(&[("a.txt", b"one\ntwo\n"), ("long", "é".repeat(9).as_bytes())]);
        for (mut room, text, left) in [(8, "one\ntwo\n", 0), (7, "one\n", 3), (3, "one", 0)] {
            let found = workspace.mention("a.txt", &mut room).expect("a file");
            assert_eq!((texts(&found), room), (vec![format!("a.txt: {text}")], left));
            assert_eq!(found.attachments[0].content.is_cut(), text.len() < 8);
        }
        let mut room = 5;
        assert_eq!(texts(&workspace.mention("long", &mut room).expect("text")), ["long: éé"]);
    }

    #[test]
    fn what_is_outside_of_the_store_or_not_there_is_refused() {
        let (folder, workspace) = workspace(&[(".rethread/store.db", b"x"), ("x.bin", b"a\0b")]);
        std::os::unix::fs::symlink("/etc", folder.path().join("etc")).expect("linked");
        let mut room = 100;
        for path in ["/etc/passwd", "../x", "etc/passwd", ".rethread/store.db", "nosuch", "x.bin"] {
            assert!(workspace.mention(path, &mut room).is_err(), "{path}");
        }
        assert_eq!(room, 100);
        for (path, leads) in [("etc", true), ("etc/passwd", true), ("x.bin", false), ("no", false)]
        {
            assert_eq!(workspace.leads_outside(path), leads, "{path}");
        }
    }

    #[test]
    fn a_picture_is_known_by_its_bytes_and_may_be_anywhere() {
        let (folder, workspace) = workspace(&[("a.dat", PNG), ("b.png", b"no picture")]);
        let found = workspace.mention("a.dat", &mut 0).expect("a picture");
        let kind = FileKind::Picture("image/png");
        assert_eq!(found.attachments[0].content, Content::Media { bytes: PNG.into(), kind });
        assert!(picture_at(&folder.path().join("a.dat")).is_some());
        assert!(picture_at(&folder.path().join("b.png")).is_none());
        assert!(picture_at(Path::new("a.dat")).is_none(), "only by an absolute path");
    }
}
