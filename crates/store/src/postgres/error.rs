//! The server's errors as decisions for the caller.

use rethread_core::StoreError;
use rethread_core::store::BoxError;
use tokio_postgres::Error;
use tokio_postgres::error::SqlState;

/// Why an attempt failed.
#[derive(Debug)]
pub(super) enum Fail {
    /// The store refuses; a retry would not help.
    Refused(StoreError),
    /// Another writer was faster; retry the whole transaction.
    Again,
    /// The server refuses, or cannot be reached.
    Server(Error),
}

impl From<StoreError> for Fail {
    fn from(error: StoreError) -> Fail {
        Fail::Refused(error)
    }
}

impl From<Error> for Fail {
    fn from(error: Error) -> Fail {
        Fail::Server(error)
    }
}

impl Fail {
    /// The index or key that already has the value.
    pub(super) fn taken(&self) -> Option<&str> {
        let Fail::Server(error) = self else { return None };
        let error = error.as_db_error()?;
        (*error.code() == SqlState::UNIQUE_VIOLATION).then(|| error.constraint().unwrap_or(""))
    }
}

/// Whether the connection was lost, and the answer with it: the transaction may have been
/// committed.
pub(super) fn is_lost(error: &Error) -> bool {
    use std::error::Error as _;
    match error.code() {
        Some(code) => {
            code.code().starts_with("08")
                || [
                    SqlState::ADMIN_SHUTDOWN,
                    SqlState::CRASH_SHUTDOWN,
                    SqlState::CANNOT_CONNECT_NOW,
                    SqlState::IDLE_IN_TRANSACTION_SESSION_TIMEOUT,
                ]
                .contains(code)
        }
        None => {
            error.is_closed()
                || error.source().is_some_and(|source| source.is::<std::io::Error>())
                || error.to_string().starts_with("unexpected message")
        }
    }
}

/// Whether the server rolled the transaction back, so that a retry may succeed.
pub(super) fn is_passing(error: &Error) -> bool {
    let passing = [
        SqlState::T_R_SERIALIZATION_FAILURE,
        SqlState::T_R_DEADLOCK_DETECTED,
        SqlState::TOO_MANY_CONNECTIONS,
    ];
    error.code().is_some_and(|code| passing.contains(code))
}

/// Whether the server is read-only: a standby, or a former primary.
pub(super) fn is_read_only(error: &Error) -> bool {
    error.code() == Some(&SqlState::READ_ONLY_SQL_TRANSACTION)
}

/// An error of the server during `action`.
pub(super) fn store_error(place: &str, action: &'static str, error: Error) -> StoreError {
    let place = place.to_owned();
    match error.code() {
        Some(code) if *code == SqlState::READ_ONLY_SQL_TRANSACTION => {
            StoreError::ReadOnly { place }
        }
        Some(code) if *code == SqlState::DISK_FULL => StoreError::Full { place },
        Some(code) if *code == SqlState::LOCK_NOT_AVAILABLE => StoreError::Busy { place },
        Some(code) if *code == SqlState::INSUFFICIENT_PRIVILEGE => {
            StoreError::Denied { place, action, source: cause(error) }
        }
        Some(code) if *code == SqlState::QUERY_CANCELED => {
            StoreError::Slow { place, action, source: cause(error) }
        }
        Some(code) if [SqlState::DATA_CORRUPTED, SqlState::INDEX_CORRUPTED].contains(code) => {
            StoreError::Corrupt { place }
        }
        _ if is_lost(&error) => unreachable(place, error),
        _ => StoreError::Backend { store: "postgres", action, source: cause(error) },
    }
}

/// The server cannot be reached, or refuses the login.
pub(super) fn unreachable(place: String, error: Error) -> StoreError {
    StoreError::Unreachable { place, source: cause(error) }
}

/// The server's own error message; the client's would only be `db error`.
fn cause(error: Error) -> BoxError {
    use std::error::Error as _;
    match error.as_db_error() {
        Some(said) => said.message().to_owned().into(),
        None => match error.source() {
            Some(source) => source.to_string().into(),
            None => error.to_string().into(),
        },
    }
}
