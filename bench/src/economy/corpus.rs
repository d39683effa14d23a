//! Transcripts to replay: every session in a folder, in any format that `import` reads.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use jiff::Timestamp;
use rethread_core::entry::Body;
use rethread_core::{Fixed, MemoryStore, Owner, Role, Sessions};
use rethread_transcript::import::import;
use rethread_transcript::read::{Options, recognise};

/// A session, as it was recorded.
pub(crate) struct Transcript {
    /// The file it is from, without the folders.
    pub(super) file: String,
    /// Which half of the corpus it belongs to.
    pub(super) half: Half,
    /// What happened, and when.
    pub(crate) entries: Vec<(Timestamp, Body)>,
}

/// A half of the sessions. Which one a session belongs to depends on its file name alone, so it
/// stays there when others are added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Half {
    /// Rules may be chosen by looking at it.
    Tuning,
    /// Used only to check the rules that were chosen.
    HeldOut,
}

impl Half {
    /// The half of the session with this number in a file: FNV-1a, which never changes. The first
    /// character was chosen so that both halves have long sessions, before any rule was scored on
    /// them.
    fn of(file: &str, number: usize) -> Half {
        let name = format!("4:{file}:{number}");
        let hash = name.bytes().fold(0xCBF2_9CE4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01B3)
        });
        // The low bits of this hash are its weak ones.
        if (hash >> 32).count_ones().is_multiple_of(2) { Half::Tuning } else { Half::HeldOut }
    }
}

impl Transcript {
    /// Replies of the model: each is one call.
    pub(crate) fn calls(&self) -> usize {
        let said = self.entries.iter().filter_map(|(_, body)| body.message());
        said.filter(|message| message.role == Role::Assistant).count()
    }
}

/// Reads every transcript under a folder, in the order of their paths.
///
/// # Errors
///
/// What is wrong, for people: a folder that cannot be read, or one without a transcript.
pub(crate) fn load(folder: &Path) -> Result<Vec<Transcript>, String> {
    let mut found = Vec::new();
    walk(folder, &mut found)?;
    found.retain(|transcript| transcript.calls() > 0);
    match found.is_empty() {
        true => Err(format!("no transcript under {}", folder.display())),
        false => Ok(found),
    }
}

fn walk(path: &Path, found: &mut Vec<Transcript>) -> Result<(), String> {
    let failed = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
    if let Some(format) = recognise(path).map_err(|error| failed(&error))? {
        let world = Arc::new(Fixed::default());
        let store = Arc::new(MemoryStore::new(world.clone()));
        let sessions = Sessions::new(store, Owner::local(), world);
        let modified = Timestamp::UNIX_EPOCH;
        let options = Options { zone: jiff::tz::TimeZone::UTC, modified, keys: false };
        let receipt = import(Some(&sessions), format, path, &options, &mut |_| {});
        let file = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        for (number, imported) in
            receipt.map_err(|error| failed(&error))?.sessions.into_iter().enumerate()
        {
            let entries = sessions.entries(imported.id, 0..u64::MAX);
            let entries = entries.map(|entry| entry.map(|entry| (entry.at, entry.body)));
            let entries = entries.collect::<Result<_, _>>().map_err(|error| failed(&error))?;
            let half = Half::of(&file, number);
            found.push(Transcript { file: file.clone(), half, entries });
        }
    } else if path.is_dir() {
        let inside = std::fs::read_dir(path).map_err(|error| failed(&error))?;
        let mut inside: Vec<PathBuf> =
            inside.filter_map(|entry| entry.ok().map(|entry| entry.path())).collect();
        inside.sort();
        for path in inside {
            walk(&path, found)?;
        }
    }
    Ok(())
}
