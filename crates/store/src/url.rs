//! Parses the URL of a store.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rethread_core::{Backend, StoreError, World};

use crate::files::repair::set_damaged_aside;
use crate::files::{FilesLimit, FilesStore};
use crate::postgres::{PostgresStore, address};
use crate::progress::ProgressSink;
use crate::sqlite::SqliteStore;

/// Why a store could not be opened.
#[derive(Debug)]
#[allow(missing_docs, reason = "the fields say what they are")]
pub enum ConnectError {
    /// The URL has an unknown scheme.
    Unknown {
        /// The URL's scheme, without anything that could be a password.
        scheme: String,
    },
    /// The URL has an unknown option.
    Option {
        /// The option, `name=value`.
        option: String,
    },
    /// The path is a directory, and the URL is for a file.
    Directory { path: PathBuf },
    /// The store was found, and cannot be used.
    Store(StoreError),
}

impl std::fmt::Display for ConnectError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            ConnectError::Unknown { scheme } => {
                write!(f, "`{scheme}:` is not a supported kind of store")
            }
            ConnectError::Option { option } => {
                write!(f, "`{option}` is not an option of a store")
            }
            ConnectError::Directory { path } => {
                write!(f, "{} is a directory, not a file", path.display())
            }
            ConnectError::Store(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for ConnectError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            ConnectError::Unknown { .. }
            | ConnectError::Option { .. }
            | ConnectError::Directory { .. } => None,
            ConnectError::Store(error) => error.source(),
        }
    }
}

impl From<StoreError> for ConnectError {
    fn from(error: StoreError) -> ConnectError {
        ConnectError::Store(error)
    }
}

/// The URL of a store for display, without a password.
pub fn shown(url: &str) -> String {
    address::shown(url)
}

/// A parsed URL: a kind of store, and its location. Nothing is opened or created yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreUrl(Place);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Place {
    Sqlite(PathBuf),
    Files(PathBuf, Option<usize>, FilesLimit),
    Postgres(String),
}

impl StoreUrl {
    /// Parses `sqlite:PATH`, `files:DIR`, `postgres://USER@HOST/DATABASE`, or just a path, which
    /// means SQLite.
    ///
    /// # Errors
    ///
    /// [`ConnectError::Unknown`] for another kind of URL, [`ConnectError::Option`] for an option
    /// that does not exist, and [`StoreError::NotAStore`] for an empty path.
    pub fn parse(url: &str) -> Result<StoreUrl, ConnectError> {
        if address::split(url).is_some() {
            return Ok(StoreUrl(Place::Postgres(url.into())));
        }
        let place = match url.split_once(':') {
            Some(("sqlite", path)) => Place::Sqlite(path.into()),
            Some(("files", rest)) => {
                let (path, sessions, limit) = files_options(rest)?;
                Place::Files(path.into(), sessions, limit)
            }
            // One letter is a drive, and a path may contain a colon after a slash.
            Some((scheme, _)) if scheme.len() > 1 && !scheme.contains(['/', '\\', '.']) => {
                return Err(ConnectError::Unknown { scheme: scheme.into() });
            }
            _ => Place::Sqlite(url.into()),
        };
        let url = StoreUrl(place);
        match url.path() {
            Some(path) if path.as_os_str().is_empty() => {
                Err(StoreError::NotAStore { place: "an empty path".into() }.into())
            }
            _ => Ok(url),
        }
    }

    /// The file or directory, if it is one.
    pub fn path(&self) -> Option<&Path> {
        match &self.0 {
            Place::Sqlite(path) | Place::Files(path, ..) => Some(path),
            Place::Postgres(_) => None,
        }
    }

    /// Keeps this many sessions (0: any number), if the store archives others and the URL does not
    /// give a number.
    #[must_use]
    pub fn keeping(mut self, sessions: usize) -> StoreUrl {
        if let Place::Files(_, said @ None, _) = &mut self.0 {
            *said = Some(sessions);
        }
        self
    }

    /// Opens the store, and creates it if it does not exist.
    ///
    /// # Errors
    ///
    /// [`ConnectError::Directory`] if there is a directory instead of a file;
    /// [`ConnectError::Store`] if it is not a store, is newer than this program, or cannot be
    /// reached.
    pub fn open(&self, world: Arc<dyn World>) -> Result<Arc<dyn Backend>, ConnectError> {
        self.open_with_progress(world, None)
    }

    /// The same; `progress` receives progress lines if it takes longer than a second.
    ///
    /// # Errors
    ///
    /// As [`open`](StoreUrl::open).
    pub fn open_with_progress(
        &self,
        world: Arc<dyn World>,
        progress: Option<&ProgressSink>,
    ) -> Result<Arc<dyn Backend>, ConnectError> {
        Ok(match &self.0 {
            Place::Sqlite(path) if path.is_dir() => {
                return Err(ConnectError::Directory { path: path.clone() });
            }
            Place::Sqlite(path) => Arc::new(SqliteStore::open_telling(path, world, progress)?),
            Place::Files(path, said, limit) => {
                let sessions = said.unwrap_or(limit.sessions);
                let limit = FilesLimit { sessions, ..*limit };
                Arc::new(FilesStore::open_telling(path, limit, world, progress)?)
            }
            Place::Postgres(url) => Arc::new(PostgresStore::open_with_progress(url, progress)?),
        })
    }

    /// Moves a database aside that cannot be read, if session files are a second copy of it:
    /// opening the store then rebuilds the sessions from those files. Returns the new path of the
    /// database; `None` if it can be read, or if it has no second copy.
    ///
    /// No other process may have the store open.
    ///
    /// # Errors
    ///
    /// [`StoreError::Newer`] if a newer version wrote it, [`StoreError::Busy`] if another process
    /// is writing the session files, otherwise I/O errors.
    pub fn set_damaged_aside(
        &self,
        world: Arc<dyn World>,
    ) -> Result<Option<PathBuf>, ConnectError> {
        match &self.0 {
            Place::Files(path, ..) => Ok(set_damaged_aside(path, world)?),
            Place::Sqlite(_) | Place::Postgres(_) => Ok(None),
        }
    }
}

/// Opens the store at a URL, and creates it if it does not exist: `sqlite:PATH`, `files:DIR`,
/// `postgres://USER@HOST/DATABASE`, or just a path, which means SQLite.
///
/// `files:DIR?max_sessions=N` keeps at most N sessions that are not archived (0: any number),
/// `&purge=delete` deletes the others instead of archiving them.
///
/// `postgres://` takes the options of `psql`, including several hosts and `target_session_attrs`.
/// Connections to another machine are encrypted and its certificate is verified, unless `sslmode=`
/// (`disable`, `prefer`, `require`, `verify-full`) says otherwise; `sslrootcert=FILE` has the
/// trusted certificates.
///
/// # Errors
///
/// As [`StoreUrl::parse`] and [`StoreUrl::open`].
pub fn connect(url: &str, world: Arc<dyn World>) -> Result<Arc<dyn Backend>, ConnectError> {
    StoreUrl::parse(url)?.open(world)
}

/// The directory, the number of sessions in the URL, and what happens to the others. A `?` in the
/// name of a folder does not start an option.
fn files_options(text: &str) -> Result<(&str, Option<usize>, FilesLimit), ConnectError> {
    let mut limit = FilesLimit::default();
    let mut sessions = None;
    let Some((path, options)) = text.rsplit_once('?').filter(|(_, rest)| !rest.contains('/'))
    else {
        return Ok((text, sessions, limit));
    };
    for option in options.split('&') {
        let wrong = || ConnectError::Option { option: option.chars().take(80).collect() };
        match option.split_once('=') {
            Some(("max_sessions", number)) => {
                sessions = Some(number.parse().map_err(|_| wrong())?);
            }
            Some(("purge", "archive")) => limit.delete = false,
            Some(("purge", "delete")) => limit.delete = true,
            _ => return Err(wrong()),
        }
    }
    Ok((path, sessions, limit))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_may_say_how_many_sessions_it_keeps() {
        let read = |text: &str| match StoreUrl::parse(text).map_err(|error| error.to_string()) {
            Ok(StoreUrl(Place::Files(path, sessions, limit))) => {
                Ok((path.display().to_string(), sessions, limit.delete))
            }
            other => Err(format!("{other:?}")),
        };
        let dir = |path: &str, sessions, delete| Ok((path.to_owned(), sessions, delete));
        assert_eq!(read("files:dir"), dir("dir", None, false));
        assert_eq!(read("files:dir?max_sessions=0"), dir("dir", Some(0), false));
        assert_eq!(read("files:/a?b/dir"), dir("/a?b/dir", None, false));
        assert_eq!(read("files:dir?max_sessions=7&purge=delete"), dir("dir", Some(7), true));
        for (wrong, option) in
            [("files:dir?max=7", "max=7"), ("files:d?max_sessions=x", "max_sessions=x")]
        {
            let said = read(wrong).expect_err(wrong);
            assert!(said.contains(&format!("`{option}` is not an option of a store")), "{said}");
        }
    }

    #[test]
    fn the_number_of_the_url_goes_before_any_other() {
        let kept = |url: &str| match StoreUrl::parse(url).expect(url).keeping(3).0 {
            Place::Files(_, sessions, _) => sessions,
            _ => None,
        };
        assert_eq!(kept("files:dir"), Some(3));
        assert_eq!(kept("files:dir?purge=delete"), Some(3));
        assert_eq!(kept("files:dir?max_sessions=9"), Some(9));
        assert_eq!(kept("dir"), None);
    }

    #[test]
    fn a_url_says_which_path_it_means() {
        let path = |url: &str| {
            let url = StoreUrl::parse(url).expect(url);
            url.path().map(|path| path.display().to_string())
        };
        assert_eq!(path("a.db").as_deref(), Some("a.db"));
        assert_eq!(path("sqlite:a.db").as_deref(), Some("a.db"));
        assert_eq!(path("files:a?max_sessions=1").as_deref(), Some("a"));
        assert_eq!(path("./a:b").as_deref(), Some("./a:b"));
        assert_eq!(path("postgres://you@host/db"), None);
        assert!(StoreUrl::parse("redis:x").is_err() && StoreUrl::parse("files:").is_err());
    }
}
