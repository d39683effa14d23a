//! A cache of excerpts. A context is built for every round of a turn, and its excerpts stay the
//! same.

use std::collections::HashMap;
use std::hash::BuildHasherDefault;
use std::sync::{Arc, Mutex, PoisonError};

use super::hash::Mixed;
use super::{Excerpt, ResultForm};

/// Identifies an excerpt: the entry, the index of the result, the form, and the entry with the
/// decision about it, if that is another one.
pub(crate) type ExcerptKey = (u64, usize, ResultForm, Option<u64>);

/// The excerpts of one log. It is only a cache: nothing depends on its contents.
#[derive(Debug, Default)]
pub(crate) struct Excerpts(Mutex<HashMap<ExcerptKey, Arc<Excerpt>, BuildHasherDefault<Mixed>>>);

impl Excerpts {
    /// The excerpt, made if it is not cached.
    pub(crate) fn get(&self, place: ExcerptKey, make: impl FnOnce() -> Excerpt) -> Arc<Excerpt> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.entry(place).or_insert_with(|| Arc::new(make())).clone()
    }

    /// Caches an excerpt that was made in another place.
    pub(crate) fn put(&self, place: ExcerptKey, excerpt: Excerpt) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.insert(place, Arc::new(excerpt));
    }
}

impl Clone for Excerpts {
    /// A copy starts empty.
    fn clone(&self) -> Excerpts {
        Excerpts::default()
    }
}
