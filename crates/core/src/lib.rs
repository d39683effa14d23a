//! The session layer for AI agents: *the log is the truth; the context is a view*.
//!
//! A [`Session`] is an append-only log of [`Entry`]s. Nothing in it is rewritten, and nothing is
//! lost. What a model is sent is a [`context`]: a pure function of the log and a
//! [`Policy`](context::Policy), which truncates, stubs, trims and clips the *view*.
//!
//! ```
//! use std::sync::Arc;
//! use rethread_core::context::{Model, Policy};
//! use rethread_core::{Fixed, Key, MemoryStore, Message, New, Owner, Sessions};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let world = Arc::new(Fixed::default());
//! let store = Arc::new(MemoryStore::new(world.clone()));
//! let sessions = Sessions::new(store, Owner::local(), world);
//!
//! // A key is what your program calls a conversation; it is created when first opened.
//! let mut thread = sessions.open(&Key::new("file:notes.md")?, &New::default())?;
//! thread.append(Message::user("What did we decide about the rate limiter?"))?;
//! thread.append(Message::assistant("A token bucket, 100 requests a minute."))?;
//!
//! // What a model would see next, and what was left out of it.
//! let context = thread.context(&Policy::chat(), &Model::new("openai", "gpt-5"))?;
//! assert_eq!(context.messages.len(), 2);
//! assert!(context.cuts.is_empty());
//! # Ok(())
//! # }
//! ```
//!
//! For a store on disk, use `rethread_store::connect("sqlite:path", world)` instead of the memory
//! store, and `rethread_store::System` instead of the fixed world; nothing else changes.
//!
//! Where things are: the model in [`session`], [`entry`] and [`message`]; the end of a log in
//! [`log`]; the pipeline in [`context`]; the contract of a store in [`store`], and as a test suite
//! in `conformance` (a feature of that name); the verbs in [`sessions`].

pub mod alignment;
pub mod audit;
pub mod blob;
pub mod cache_life;
#[cfg(feature = "conformance")]
pub mod conformance;
pub mod context;
pub mod entry;
pub mod identifiers;
pub mod lease;
pub mod limits;
pub mod log;
pub mod measure;
pub mod memory;
pub mod merge;
pub mod message;
pub mod name;
pub mod parallel;
pub mod raw;
pub mod readable_id;
pub mod search;
pub mod session;
pub mod sessions;
pub mod shown;
pub mod store;
pub mod stub;
pub mod summary;
pub mod title;
pub mod tokens;
pub mod turn;
pub mod usage;
pub mod visible_json;
pub mod world;

pub use blob::{BlobId, BlobInfo};
pub use cache_life::CacheLife;
pub use entry::{Body, Entry, EntryId, NewEntry, Tally};
pub use log::Log;
pub use memory::MemoryStore;
pub use message::{Block, BlockKind, Message, Role};
pub use name::{Key, Name, Owner, SessionId};
pub use raw::Raw;
pub use session::{Header, Place, Profile, ProfileChange, Session, SessionKind};
pub use sessions::{Incoming, Item, New, Sessions, Thread};
pub use store::{Backend, Store, StoreError};
pub use turn::Turn;
pub use world::{Fixed, World};
