//! The rule for files of a folder that replace something of the user's (agents, commands, tool
//! settings): they are used only after the user has trusted their exact content. Project
//! instructions are only text, and need no consent (`project_instructions.rs`).
//!
//! A folder's files come with its code, from people the user may not know. The user's answer, yes
//! or no, is recorded by the file's path and the SHA-256 of its content, so the user is asked once,
//! and again if a file changes. It is stored in a log under a reserved owner, in the same store as
//! everything else.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rethread_core::{Backend, Body, Key, New, Owner, Raw, Sessions, World, sessions};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// The owner of that log. No token or chat leads to this owner.
pub const TRUST_OWNER: &str = "rethread:trust";

const TRUSTED: &str = "folder_file_trusted";
const DECLINED: &str = "folder_file_declined";

/// A file of a folder, and its content.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct FolderFile {
    /// The file, as an absolute path.
    pub path: PathBuf,
    /// The SHA-256 of its content, in hexadecimal.
    pub sha256: String,
}

impl FolderFile {
    /// A file with this content.
    pub fn new(path: &Path, content: &[u8]) -> FolderFile {
        let sha256 = Sha256::digest(content).iter().map(|byte| format!("{byte:02x}")).collect();
        FolderFile { path: path.to_owned(), sha256 }
    }
}

/// The files that one owner trusts.
pub struct FolderTrust {
    sessions: Sessions,
    key: Key,
}

impl FolderTrust {
    /// The files that this owner trusts, in a store.
    pub fn new(store: Arc<dyn Backend>, world: Arc<dyn World>, owner: &Owner) -> FolderTrust {
        let reserved = Owner::new(TRUST_OWNER).expect("a valid owner");
        let key = Key::new(format!("trust:{}", owner.as_str())).expect("an owner is visible");
        FolderTrust { sessions: Sessions::new(store, reserved, world), key }
    }

    /// The files that are trusted.
    pub fn files(&self) -> Result<HashSet<FolderFile>, sessions::Error> {
        self.decided(TRUSTED)
    }

    /// The files that the owner was asked about and declined.
    pub fn declined(&self) -> Result<HashSet<FolderFile>, sessions::Error> {
        self.decided(DECLINED)
    }

    /// The owner trusts these files, with their current content.
    pub fn trust(&self, files: &[FolderFile]) -> Result<(), sessions::Error> {
        self.decide(TRUSTED, files)
    }

    /// The owner does not want these files, as they are.
    pub fn decline(&self, files: &[FolderFile]) -> Result<(), sessions::Error> {
        self.decide(DECLINED, files)
    }

    /// The files whose latest decision is of this kind.
    fn decided(&self, wanted: &str) -> Result<HashSet<FolderFile>, sessions::Error> {
        let Some(id) = self.sessions.resolve(&self.key)? else { return Ok(HashSet::new()) };
        let head = self.sessions.get(id)?.tally.entries;
        let mut files = HashSet::new();
        for entry in self.sessions.entries(id, 0..head) {
            if let Body::Unknown { kind, raw } = entry?.body
                && [TRUSTED, DECLINED].contains(&kind.as_str())
                && let Ok(file) = serde_json::from_str(raw.get())
            {
                match kind == wanted {
                    true => files.insert(file),
                    false => files.remove(&file),
                };
            }
        }
        Ok(files)
    }

    fn decide(&self, kind: &str, files: &[FolderFile]) -> Result<(), sessions::Error> {
        let mut thread = self.sessions.open(&self.key, &New::default())?;
        for file in files {
            thread.note(Body::Unknown { kind: kind.into(), raw: Raw::of(file) })?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use rethread_core::{Fixed, MemoryStore};

    use super::*;

    #[test]
    fn a_file_is_trusted_as_it_is_where_it_is_and_by_whom() {
        let world = Arc::new(Fixed::default());
        let store = Arc::new(MemoryStore::new(world.clone()));
        let of = |owner: &Owner| FolderTrust::new(store.clone(), world.clone(), owner);
        let (mine, other) = (Owner::local(), Owner::new("other").expect("valid"));
        let file = FolderFile::new(Path::new("/p/.rethread/agents/build.md"), b"be kind");
        assert!(of(&mine).files().expect("read").is_empty());
        of(&mine).trust(std::slice::from_ref(&file)).expect("stored");
        let known = of(&mine).files().expect("read");
        assert!(known.contains(&file));
        assert!(!known.contains(&FolderFile::new(&file.path, b"be cruel")), "it changed");
        let elsewhere = Path::new("/q/.rethread/agents/build.md");
        assert!(!known.contains(&FolderFile::new(elsewhere, b"be kind")), "it is another file");
        assert!(of(&other).files().expect("read").is_empty(), "someone else did not agree");
        of(&mine).decline(std::slice::from_ref(&file)).expect("stored");
        assert!(of(&mine).files().expect("read").is_empty(), "the latest decision holds");
        assert!(of(&mine).declined().expect("read").contains(&file));
        of(&mine).trust(std::slice::from_ref(&file)).expect("stored");
        assert!(of(&mine).declined().expect("read").is_empty());
    }
}
