//! Which store a URL means.

use std::path::Path;
use std::sync::Arc;

use rethread_core::{Backend, StoreError, World};

use crate::sqlite::SqliteStore;

/// Why a place could not be opened.
#[derive(Debug)]
pub enum ConnectError {
    /// The URL names no kind of store this program has.
    Unknown {
        /// The URL's scheme, without anything that could be a password.
        scheme: String,
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
            ConnectError::Store(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for ConnectError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            ConnectError::Unknown { .. } => None,
            ConnectError::Store(error) => error.source(),
        }
    }
}

impl From<StoreError> for ConnectError {
    fn from(error: StoreError) -> ConnectError {
        ConnectError::Store(error)
    }
}

/// Opens the store at a URL, creating it if nothing is there: `sqlite:PATH`, or just a path.
///
/// # Errors
///
/// [`ConnectError::Unknown`] for another kind of URL; [`ConnectError::Store`] if what is there is
/// not a store, is newer than this program, or cannot be reached.
pub fn connect(url: &str, world: Arc<dyn World>) -> Result<Arc<dyn Backend>, ConnectError> {
    let path = match url.split_once(':') {
        Some(("sqlite", path)) => path,
        // One letter is a drive, and a path may hold a colon after a slash.
        Some((scheme, _)) if scheme.len() > 1 && !scheme.contains(['/', '\\', '.']) => {
            return Err(ConnectError::Unknown { scheme: scheme.into() });
        }
        _ => url,
    };
    if path.is_empty() {
        return Err(StoreError::NotAStore { place: "an empty path".into() }.into());
    }
    Ok(Arc::new(SqliteStore::open(Path::new(path), world)?))
}
