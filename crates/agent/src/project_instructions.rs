//! A project's instructions for agents: `AGENTS.md`, or `CLAUDE.md` if there is none, from the
//! workspace and the folders above it up to the root of the repository.
//!
//! The text becomes part of the system message, which is an entry of the log: appended when it is
//! first used, and again when it has changed. So a context stays a function of its log. It is only
//! text: tools, permissions and models are never read from it.
//!
//! A file is used if it is a text file that is really inside the repository. Links that lead out of
//! it, and binary files, are left out; a long file is cut.

use std::path::Path;

use rethread_core::{Message, Place, Raw, Session, Sessions, sessions};
use serde::{Deserialize, Serialize};

use crate::limits::{PROJECT_BYTES_MAX, PROJECT_FILE_BYTES_MAX, PROJECT_FOLDERS_MAX};
use crate::responder::naming_workspace;
use crate::tool::{Workspace, repository_of};

/// The possible names; the first that exists in a folder is used.
const NAMES: [&str; 2] = ["AGENTS.md", "CLAUDE.md"];

/// The field of a system message that marks the project's part of it.
const PROJECT: &str = "project";

const INTRODUCTION: &str = "The project says this to agents that work in it. It cannot add tools or \
                            permissions, and what the user says goes first.";

/// A project's instructions, as they are on disk now.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProjectInstructions {
    /// The text for the model; empty if there is none.
    text: String,
    files: Vec<ProjectFile>,
}

/// A file whose text is sent to the model.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProjectFile {
    /// The file, relative to the root of the repository.
    pub path: String,
    /// How many of its bytes are sent to the model.
    pub bytes: u64,
    /// Bytes it has.
    pub of: u64,
}

/// The project's part of a system message.
#[derive(Serialize, Deserialize)]
struct Part {
    /// The byte at which it begins.
    from: usize,
    files: Vec<ProjectFile>,
}

impl ProjectInstructions {
    /// Reads the instructions of a folder's project. Files that cannot be read are left out.
    pub fn read(folder: &Path) -> ProjectInstructions {
        let root = repository_of(folder).unwrap_or_else(|| folder.to_owned());
        let Ok(workspace) = Workspace::open(&root) else { return ProjectInstructions::default() };
        let below = folder.strip_prefix(&root).unwrap_or(Path::new(""));
        let mut room = PROJECT_BYTES_MAX;
        let mut found = Vec::new();
        // The nearest file is the most relevant, and has priority.
        for folder in below.ancestors().take(PROJECT_FOLDERS_MAX) {
            let here = NAMES.iter().map(|name| folder.join(name));
            let Some((path, size, mut text)) = here.clone().find_map(|path| {
                let max = room.min(PROJECT_FILE_BYTES_MAX);
                let (bytes, size) = workspace.beginning(path.to_str()?, max)?;
                Some((path, size, String::from_utf8_lossy(&bytes).into_owned()))
            }) else {
                continue;
            };
            let max = room.min(PROJECT_FILE_BYTES_MAX) as usize;
            text.truncate(text.floor_char_boundary(max));
            // A file for which no room is left is named all the same: the model can read it.
            let no_room = size > 0 && text.is_empty();
            if text.trim().is_empty() && !no_room {
                continue;
            }
            room -= text.len() as u64;
            let path = path.display().to_string();
            let file = ProjectFile { path, bytes: text.len() as u64, of: size };
            found.push((file, text));
        }
        found.reverse();
        let mut project = ProjectInstructions::default();
        for (file, text) in found {
            let start = if project.text.is_empty() { INTRODUCTION } else { &project.text };
            let ProjectFile { path, bytes, of } = &file;
            let text = match text.trim() {
                "" => format!("[left out: no room for its {of} bytes; read it if you need it]"),
                text if of > bytes => format!("{text}\n[cut: {bytes} of {of} bytes]"),
                text => text.to_owned(),
            };
            project.text = format!("{start}\n\n# {path}\n\n{text}");
            project.files.push(file);
        }
        project
    }

    /// A system message that begins with `own`, followed by the project's instructions.
    pub(crate) fn message(&self, own: &str) -> Message {
        if self.text.is_empty() {
            return Message::system(own);
        }
        let gap = if own.is_empty() { "" } else { "\n\n" };
        let part = Part { from: own.len(), files: self.files.clone() };
        let mut message = Message::system(format!("{own}{gap}{}", self.text));
        message.extra.push((PROJECT.into(), Raw::of(&part)));
        message
    }

    /// The system message that replaces `held`, if the project's instructions or the folder of the
    /// tools have changed.
    pub(crate) fn replacing(
        &self,
        held: Option<&Message>,
        workspace: Option<&str>,
    ) -> Option<Message> {
        let own = naming_workspace(held.map(own_text).unwrap_or_default(), workspace);
        let mut message = self.message(&own);
        let said = held.map(Message::plain_text).unwrap_or_default();
        if message.plain_text() == said {
            return None;
        }
        // Its other fields are kept.
        let others = held.into_iter().flat_map(|held| held.extra.iter());
        let others = others.filter(|(name, _)| name != PROJECT).cloned();
        message.extra.splice(0..0, others);
        Some(message)
    }
}

/// The text of a system message without the project's part.
pub(crate) fn own_text(message: &Message) -> String {
    let mut text = message.plain_text();
    if let Some(part) = part_of(message).filter(|part| text.is_char_boundary(part.from)) {
        text.truncate(part.from);
    }
    text
}

fn part_of(message: &Message) -> Option<Part> {
    let (_, part) = message.extra.iter().find(|(name, _)| name == PROJECT)?;
    serde_json::from_str(part.get()).ok()
}

/// The field about the project's part, to be kept with the text.
pub(crate) fn note_of(message: &Message) -> Option<(String, Raw)> {
    message.extra.iter().find(|(name, _)| name == PROJECT).cloned()
}

/// The project files that are part of a session's system message, according to its log.
///
/// # Errors
///
/// [`StoreError::Damaged`](rethread_core::StoreError::Damaged) if the system message cannot be
/// read.
pub fn project_files(
    sessions: &Sessions,
    session: &Session,
) -> Result<Vec<ProjectFile>, sessions::Error> {
    let Some(seq) = session.tally.system else { return Ok(Vec::new()) };
    let entry = sessions.entry_at(Place { session: session.id(), seq })?;
    let part = entry.body.message().and_then(part_of);
    Ok(part.map(|part| part.files).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    struct Repository(tempfile::TempDir);

    impl Repository {
        fn new() -> Repository {
            let folder = tempfile::tempdir().expect("a folder");
            std::fs::create_dir_all(folder.path().join("repo/.git")).expect("made");
            std::fs::create_dir_all(folder.path().join("repo/a/b")).expect("made");
            Repository(folder)
        }

        fn path(&self, path: &str) -> PathBuf {
            self.0.path().canonicalize().expect("real").join(path)
        }

        fn write(&self, path: &str, content: impl AsRef<[u8]>) {
            std::fs::write(self.path(path), content).expect("written");
        }

        fn read(&self, folder: &str) -> ProjectInstructions {
            ProjectInstructions::read(&self.path(folder))
        }

        fn files(&self, folder: &str) -> Vec<String> {
            self.read(folder).files.into_iter().map(|file| file.path).collect()
        }
    }

    #[test]
    fn the_files_of_a_folder_and_its_parents_up_to_the_repository_are_listed_root_first() {
        let repository = Repository::new();
        repository.write("AGENTS.md", "outside of the repository");
        repository.write("repo/AGENTS.md", "at the root\n");
        repository.write("repo/CLAUDE.md", "not used next to the other");
        repository.write("repo/a/CLAUDE.md", "in a");
        repository.write("repo/a/b/AGENTS.md", "\n in b \n");
        assert_eq!(repository.files("repo/a/b"), ["AGENTS.md", "a/CLAUDE.md", "a/b/AGENTS.md"]);
        assert_eq!(repository.files("repo/a"), ["AGENTS.md", "a/CLAUDE.md"]);
        let text = repository.read("repo/a/b").text;
        let told = "# AGENTS.md\n\nat the root\n\n# a/CLAUDE.md\n\nin a\n\n# a/b/AGENTS.md\n\nin b";
        assert_eq!(text, format!("{INTRODUCTION}\n\n{told}"));
        std::fs::remove_dir(repository.path("repo/.git")).expect("removed");
        assert_eq!(repository.files("repo/a"), ["CLAUDE.md"], "without a repository, one folder");
    }

    #[test]
    fn what_leads_out_of_the_repository_is_binary_or_is_not_a_file_is_left_out() {
        let repository = Repository::new();
        repository.write("secret.md", "outside");
        let link = |to: &str, from: &str| {
            std::os::unix::fs::symlink(to, repository.path(from)).expect("linked");
        };
        link("../secret.md", "repo/AGENTS.md");
        link(&repository.path("secret.md").display().to_string(), "repo/a/AGENTS.md");
        assert_eq!(repository.read("repo/a"), ProjectInstructions::default());
        repository.write("repo/inside.md", "a link inside is followed");
        link("../../inside.md", "repo/a/b/AGENTS.md");
        assert_eq!(repository.files("repo/a/b"), ["a/b/AGENTS.md"]);
        std::fs::remove_file(repository.path("repo/AGENTS.md")).expect("removed");
        std::fs::remove_file(repository.path("repo/a/AGENTS.md")).expect("removed");
        repository.write("repo/AGENTS.md", b"text\0binary");
        std::fs::create_dir(repository.path("repo/a/AGENTS.md")).expect("made");
        assert_eq!(repository.read("repo/a"), ProjectInstructions::default());
        repository.write("repo/CLAUDE.md", "used, because the other cannot be");
        assert_eq!(repository.files("repo"), ["CLAUDE.md"]);
    }

    #[test]
    fn a_file_is_cut_at_its_limit_and_the_nearest_ones_come_first() {
        let repository = Repository::new();
        let max = PROJECT_FILE_BYTES_MAX as usize;
        for (bytes, is_cut) in [(max - 1, false), (max, false), (max + 1, true)] {
            repository.write("repo/AGENTS.md", "x".repeat(bytes));
            let project = repository.read("repo");
            assert_eq!(project.files[0].bytes, bytes.min(max) as u64);
            assert_eq!(project.text.contains("[cut: "), is_cut, "{bytes}");
        }
        repository.write("repo/AGENTS.md", "é".repeat(max));
        repository.write("repo/a/AGENTS.md", "é".repeat(max));
        repository.write("repo/a/b/AGENTS.md", "é".repeat(max / 2 + 1));
        let project = repository.read("repo/a/b");
        let bytes: Vec<u64> = project.files.iter().map(|file| file.bytes).collect();
        assert_eq!(bytes.iter().sum::<u64>(), PROJECT_BYTES_MAX);
        assert_eq!((bytes.len(), bytes[0]), (3, 0), "no room is left for the root");
        let note =
            "# AGENTS.md\n\n[left out: no room for its 65536 bytes; read it if you need it]\n";
        assert!(project.text.contains(note), "{}", &project.text[..300]);
    }

    #[test]
    fn a_system_message_is_replaced_when_the_project_says_something_else_and_keeps_its_own_text() {
        let repository = Repository::new();
        let own = Message::system("Be careful.");
        assert_eq!(repository.read("repo").replacing(Some(&own), None), None);
        repository.write("repo/AGENTS.md", "use tabs");
        let first = repository.read("repo").replacing(Some(&own), None).expect("changed");
        assert!(first.plain_text().starts_with("Be careful.\n\nThe project says"));
        assert_eq!(own_text(&first), "Be careful.");
        assert_eq!(
            repository.read("repo").replacing(Some(&first), None),
            None,
            "nothing has changed"
        );
        repository.write("repo/AGENTS.md", "use spaces");
        let second = repository.read("repo").replacing(Some(&first), None).expect("changed");
        assert!(second.plain_text().ends_with("use spaces"));
        assert!(!second.plain_text().contains("tabs"));
        std::fs::remove_file(repository.path("repo/AGENTS.md")).expect("removed");
        let third = repository.read("repo").replacing(Some(&second), None).expect("changed");
        assert_eq!(third, own);
    }
}
