//! One rule for files that come with a folder and take the place of what the user has (agents,
//! commands, the configuration of tools): they are used once a person has agreed to exactly what
//! they say. Project instructions are only text, and need no consent (`project_instructions.rs`).
//!
//! A folder's files come with its code, from people the user may not know. What was agreed to is
//! remembered by the file's path and the SHA-256 of its content, so a file that changes is asked
//! about again. It is a log under a reserved owner, in the same store as everything else.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rethread_core::{Backend, Body, Key, New, Owner, Raw, Sessions, World, sessions};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// Whose log it is. No token or chat leads to this owner.
pub const TRUST_OWNER: &str = "rethread:trust";

const TRUSTED: &str = "folder_file_trusted";

/// A file of a folder, and what it says.
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

/// What one owner agreed to.
pub struct FolderTrust {
    sessions: Sessions,
    key: Key,
}

impl FolderTrust {
    /// What this owner agreed to, in a store.
    pub fn new(store: Arc<dyn Backend>, world: Arc<dyn World>, owner: &Owner) -> FolderTrust {
        let reserved = Owner::new(TRUST_OWNER).expect("a valid owner");
        let key = Key::new(format!("trust:{}", owner.as_str())).expect("an owner is visible");
        FolderTrust { sessions: Sessions::new(store, reserved, world), key }
    }

    /// The files that are trusted.
    ///
    /// # Errors
    ///
    /// I/O errors.
    pub fn files(&self) -> Result<HashSet<FolderFile>, sessions::Error> {
        let Some(id) = self.sessions.resolve(&self.key)? else { return Ok(HashSet::new()) };
        let head = self.sessions.get(id)?.tally.entries;
        let mut files = HashSet::new();
        for entry in self.sessions.entries(id, 0..head) {
            if let Body::Unknown { kind, raw } = entry?.body
                && kind == TRUSTED
                && let Ok(file) = serde_json::from_str(raw.get())
            {
                files.insert(file);
            }
        }
        Ok(files)
    }

    /// The owner agrees to these files, as they are.
    ///
    /// # Errors
    ///
    /// I/O errors.
    pub fn trust(&self, files: &[FolderFile]) -> Result<(), sessions::Error> {
        let mut thread = self.sessions.open(&self.key, &New::default())?;
        for file in files {
            thread.note(Body::Unknown { kind: TRUSTED.into(), raw: Raw::of(file) })?;
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
    }
}
