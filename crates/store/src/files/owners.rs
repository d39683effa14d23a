//! Whose directory is where.
//!
//! The directory itself belongs to the person at this machine, owner `local`. Any other owner has
//! one of the same kind in `.rethread/owners/`, made when the first of their sessions is. It is
//! named after the owner, with everything but small letters, digits, `-` and `_` written as `%`
//! and two hex digits; an owner for whom that is too long, as `~` and all bytes in hex.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use rethread_core::store::{Finding, FindingState, Result};
use rethread_core::{Owner, StoreError};

use super::disk::Told;
use super::fold::names;
use super::folder::{Folder, Way};

/// Bytes of a file's name that every file system takes, with room for what programs put behind.
const FOLDER_BYTES_MAX: usize = 200;

/// The directories of all owners.
pub(super) struct Owners {
    way: Way,
    root: PathBuf,
    local: Arc<Folder>,
    /// Those of others that were asked for.
    others: Mutex<HashMap<Owner, Arc<Folder>>>,
}

impl Owners {
    /// Opens the directory, making it if it is not there.
    pub(super) fn open(way: Way, path: &Path) -> Result<Owners> {
        let local = Arc::new(Folder::open(&way, path, Owner::local())?);
        Ok(Owners { way, root: path.to_owned(), local, others: Mutex::default() })
    }

    fn place(&self) -> PathBuf {
        self.root.join(".rethread").join("owners")
    }

    /// The directory of an owner, if there is one.
    pub(super) fn find(&self, owner: &Owner) -> Result<Option<Arc<Folder>>> {
        if *owner == Owner::local() {
            return Ok(Some(self.local.clone()));
        }
        let mut others = self.others.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(folder) = others.get(owner) {
            return Ok(Some(folder.clone()));
        }
        let path = self.place().join(folder_name(owner));
        for path in [self.place(), path.clone()] {
            match path.symlink_metadata() {
                Ok(there) if there.is_dir() => {}
                // A link could lead anywhere, and what is written there is believed.
                Ok(_) => return Err(StoreError::NotAStore { place: path.display().to_string() }),
                Err(_) => return Ok(None),
            }
        }
        let folder = Arc::new(Folder::open(&self.way, &path, owner.clone())?);
        others.insert(owner.clone(), folder.clone());
        Ok(Some(folder))
    }

    /// The directory of an owner, made if there is none.
    pub(super) fn make(&self, owner: &Owner) -> Result<Arc<Folder>> {
        const ACTION: &str = "make a directory for an owner";
        if let Some(folder) = self.find(owner)? {
            return Ok(folder);
        }
        let (place, disk) = (self.place(), self.way.disk.as_ref());
        disk.folder(&place.join(folder_name(owner))).told(&place, ACTION)?;
        // A session that is acknowledged must not be lost with the names above it.
        disk.sync_folder(&self.root.join(".rethread")).told(&place, ACTION)?;
        disk.sync_folder(&place).told(&place, ACTION)?;
        let gone = || StoreError::NotAStore { place: place.display().to_string() };
        self.find(owner)?.ok_or_else(gone)
    }

    /// All directories, whoever made them.
    pub(super) fn all(&self) -> Result<Vec<(Owner, Arc<Folder>)>> {
        let mut all = vec![(Owner::local(), self.local.clone())];
        for owner in names(&self.place()).iter().filter_map(|name| owner_of(name)) {
            all.extend(self.find(&owner)?.map(|folder| (owner, folder)));
        }
        Ok(all)
    }

    /// What stands among the directories and is none.
    pub(super) fn check(&self) -> Vec<Finding> {
        let mut strange = names(&self.place());
        strange.retain(|name| owner_of(name).is_none());
        let note = |name: String| Finding {
            session: None,
            seq: None,
            what: format!(".rethread/owners/{name} is left alone: it is not the name of an owner"),
            state: FindingState::Noted,
        };
        strange.into_iter().map(note).collect()
    }
}

fn folder_name(owner: &Owner) -> String {
    let escaped: String = owner
        .as_str()
        .bytes()
        .map(|byte| match byte {
            b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' => char::from(byte).to_string(),
            other => format!("%{other:02x}"),
        })
        .collect();
    match escaped.len() <= FOLDER_BYTES_MAX {
        true => escaped,
        false => owner.as_str().bytes().fold("~".into(), |name, byte| format!("{name}{byte:02x}")),
    }
}

/// The owner a folder is named after. Each has one name and no other.
fn owner_of(name: &str) -> Option<Owner> {
    let digits = |at: usize| u8::from_str_radix(name.get(at..at + 2)?, 16).ok();
    let (step, mut at) = if name.starts_with('~') { (2, 1) } else { (3, 0) };
    let mut bytes = Vec::new();
    while at < name.len() {
        let plain = step == 3 && name.as_bytes()[at] != b'%';
        bytes.push(if plain { name.as_bytes()[at] } else { digits(at + step - 2)? });
        at += if plain { 1 } else { step };
    }
    let owner = Owner::new(String::from_utf8(bytes).ok()?).ok()?;
    (folder_name(&owner) == name && owner != Owner::local()).then_some(owner)
}

#[cfg(test)]
mod tests {
    use rethread_core::limits::OWNER_BYTES_MAX;

    use super::*;

    #[test]
    fn every_owner_has_one_folder_that_says_whose_it_is() {
        let longest = "é".repeat(OWNER_BYTES_MAX / 2);
        let full = "x".repeat(OWNER_BYTES_MAX);
        for text in ["ada", "Ada", "telegram:42", "..", "a/b", "~61", "%61", "é", &longest, &full]
        {
            let owner = Owner::new(text).expect("an owner");
            let name = folder_name(&owner);
            let safe = |c: char| matches!(c, 'a'..='z' | '0'..='9' | '-' | '_' | '%' | '~');
            assert!(name.chars().all(safe) && name.len() <= 255, "{name}");
            assert_eq!(owner_of(&name), Some(owner), "{name}");
        }
        for name in
            ["", "local", "Ada", "%6", "%zz", "~6", "~616", "a b", "%61da", "~616461", ".git"]
        {
            assert_eq!(owner_of(name), None, "{name}");
        }
    }
}
