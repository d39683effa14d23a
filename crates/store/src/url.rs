//! Which store a URL means.

use std::path::Path;
use std::sync::Arc;

use rethread_core::{Backend, StoreError, World};

use crate::files::{FilesLimit, FilesStore};
use crate::postgres::{PostgresStore, place};
use crate::sqlite::SqliteStore;

/// Why a place could not be opened.
#[derive(Debug)]
pub enum ConnectError {
    /// The URL names no kind of store this program has.
    Unknown {
        /// The URL's scheme, without anything that could be a password.
        scheme: String,
    },
    /// The URL says something about the store that means nothing.
    Option {
        /// What it says, `name=value`.
        option: String,
    },
    /// The place was found, and refused.
    Store(StoreError),
}

impl std::fmt::Display for ConnectError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            ConnectError::Unknown { scheme } => {
                write!(f, "`{scheme}:` is not a kind of store this program has")
            }
            ConnectError::Option { option } => {
                write!(f, "`{option}` is not an option of a store")
            }
            ConnectError::Store(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for ConnectError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            ConnectError::Unknown { .. } | ConnectError::Option { .. } => None,
            ConnectError::Store(error) => error.source(),
        }
    }
}

impl From<StoreError> for ConnectError {
    fn from(error: StoreError) -> ConnectError {
        ConnectError::Store(error)
    }
}

/// The URL of a store as people may see it: without a password.
pub fn shown(url: &str) -> String {
    place::shown(url)
}

/// Opens the store at a URL, creating it if nothing is there: `sqlite:PATH`, `files:DIR`,
/// `postgres://USER@HOST/DATABASE`, or just a path, which is SQLite's.
///
/// `files:DIR?max_sessions=N` keeps at most N sessions that are not archived (0: any number),
/// `&purge=delete` deletes the others instead of archiving them.
///
/// `postgres://` takes what `psql` takes, several hosts and `target_session_attrs` included. What
/// goes to another machine is encrypted and its certificate checked, unless `sslmode=` (`disable`,
/// `prefer`, `require`, `verify-full`) says otherwise; `sslrootcert=FILE` names who is trusted.
///
/// # Errors
///
/// [`ConnectError::Unknown`] for another kind of URL; [`ConnectError::Option`] for an option that
/// is none; [`ConnectError::Store`] if what is there is not a store, is newer than this program,
/// or cannot be reached.
pub fn connect(url: &str, world: Arc<dyn World>) -> Result<Arc<dyn Backend>, ConnectError> {
    let nowhere = || StoreError::NotAStore { place: "an empty path".into() };
    if place::split(url).is_some() {
        return Ok(Arc::new(PostgresStore::open(url)?));
    }
    let path = match url.split_once(':') {
        Some(("sqlite", path)) => path,
        Some(("files", rest)) => {
            let (path, limit) = files_options(rest)?;
            if path.is_empty() {
                return Err(nowhere().into());
            }
            return Ok(Arc::new(FilesStore::open(Path::new(path), limit, world)?));
        }
        // One letter is a drive, and a path may hold a colon after a slash.
        Some((scheme, _)) if scheme.len() > 1 && !scheme.contains(['/', '\\', '.']) => {
            return Err(ConnectError::Unknown { scheme: scheme.into() });
        }
        _ => url,
    };
    if path.is_empty() {
        return Err(nowhere().into());
    }
    Ok(Arc::new(SqliteStore::open(Path::new(path), world)?))
}

/// The directory, and what the URL says about it. A `?` in the name of a folder is no option.
fn files_options(text: &str) -> Result<(&str, FilesLimit), ConnectError> {
    let mut limit = FilesLimit::default();
    let Some((path, options)) = text.rsplit_once('?').filter(|(_, rest)| !rest.contains('/'))
    else {
        return Ok((text, limit));
    };
    for option in options.split('&') {
        let wrong = || ConnectError::Option { option: option.chars().take(80).collect() };
        match option.split_once('=') {
            Some(("max_sessions", number)) => {
                limit.sessions = number.parse().map_err(|_| wrong())?;
            }
            Some(("purge", "archive")) => limit.delete = false,
            Some(("purge", "delete")) => limit.delete = true,
            _ => return Err(wrong()),
        }
    }
    Ok((path, limit))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_may_say_how_many_sessions_it_keeps() {
        let read = |text| files_options(text).map_err(|error| error.to_string());
        let limit = |sessions, delete| FilesLimit { sessions, delete };
        assert_eq!(read("dir"), Ok(("dir", limit(50, false))));
        assert_eq!(read("dir?max_sessions=0"), Ok(("dir", limit(0, false))));
        assert_eq!(read("/a?b/dir"), Ok(("/a?b/dir", limit(50, false))));
        assert_eq!(read("dir?max_sessions=7&purge=delete"), Ok(("dir", limit(7, true))));
        assert_eq!(read("dir?max=7"), Err("`max=7` is not an option of a store".into()));
        assert_eq!(
            read("dir?max_sessions=x"),
            Err("`max_sessions=x` is not an option of a store".into())
        );
    }
}
