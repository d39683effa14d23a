//! SQLite's errors as decisions for the caller.

use std::path::Path;

use rethread_core::StoreError;
use rusqlite::ErrorCode;
use rusqlite::ffi::SQLITE_IOERR_SHMSIZE;

/// An error of SQLite during `action`.
pub(super) fn store_error(
    place: &Path,
    action: &'static str,
    error: rusqlite::Error,
) -> StoreError {
    let place = place.display().to_string();
    // SQLite's error if it cannot make its `-shm` file long enough.
    let no_room = |error: &rusqlite::ffi::Error| error.extended_code == SQLITE_IOERR_SHMSIZE;
    match error.sqlite_error_code() {
        _ if error.sqlite_error().is_some_and(no_room) => StoreError::Full { place },
        Some(ErrorCode::DiskFull) => StoreError::Full { place },
        Some(ErrorCode::ReadOnly | ErrorCode::PermissionDenied | ErrorCode::CannotOpen) => {
            StoreError::ReadOnly { place }
        }
        Some(ErrorCode::DatabaseCorrupt) => StoreError::Corrupt { place },
        // A value of a type that is never written to its column.
        None if is_of_another_type(&error) => StoreError::Corrupt { place },
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => StoreError::Busy { place },
        Some(ErrorCode::NotADatabase) => StoreError::NotAStore { place },
        _ => StoreError::Backend { store: "sqlite", action, source: Box::new(error) },
    }
}

fn is_of_another_type(error: &rusqlite::Error) -> bool {
    matches!(
        error,
        rusqlite::Error::FromSqlConversionFailure(..)
            | rusqlite::Error::IntegralValueOutOfRange(..)
            | rusqlite::Error::InvalidColumnType(..)
            | rusqlite::Error::Utf8Error(..)
    )
}

/// Adds the file and the action to an error of SQLite.
pub(super) trait OrStoreError<T> {
    /// The value, or the error of SQLite during `action`.
    fn or_store_error(self, place: &Path, action: &'static str) -> Result<T, StoreError>;
}

impl<T> OrStoreError<T> for rusqlite::Result<T> {
    fn or_store_error(self, place: &Path, action: &'static str) -> Result<T, StoreError> {
        self.map_err(|error| store_error(place, action, error))
    }
}
