//! The stores: SQLite, a directory of files, and PostgreSQL.
//!
//! [`connect`] opens a store by its URL and returns a [`Backend`](rethread_core::Backend) for
//! [`Sessions`](rethread_core::Sessions):
//!
//! ```
//! use std::sync::Arc;
//! use rethread_core::{Key, Message, New, Owner, Sessions};
//! use rethread_store::{System, connect};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let folder = tempfile::tempdir()?;
//! # let url = format!("sqlite:{}", folder.path().join("rethread.db").display());
//! let world = Arc::new(System);
//! let store = connect(&url, world.clone())?;
//! let sessions = Sessions::new(store, Owner::local(), world);
//!
//! let mut thread = sessions.open(&Key::new("file:notes.md")?, &New::default())?;
//! let seq = thread.append(Message::user("hello"))?; // on disk when this returns
//! assert_eq!(seq, 0);
//! # Ok(())
//! # }
//! ```
//!
//! There are three kinds of store. [`SqliteStore`] is one file, and the two that SQLite keeps next
//! to it. [`FilesStore`] is a directory of JSON files that other programs read and write as well.
//! [`PostgresStore`] is a database that many machines share.

mod check;
mod compress;
mod files;
mod io;
mod journals;
mod postgres;
mod progress;
mod row;
mod sqlite;
#[cfg(feature = "testing")]
pub mod testing;
mod url;
mod world;

pub use files::{FilesLimit, FilesStore};
pub use postgres::PostgresStore;
pub use progress::ProgressSink;
pub use sqlite::SqliteStore;
pub use url::{ConnectError, StoreUrl, connect, shown};
pub use world::System;
