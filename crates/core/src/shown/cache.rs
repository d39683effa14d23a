//! Excerpts that were made before. A context is built for every round of a turn, and what it shows of
//! a result stays the same.

use std::collections::HashMap;
use std::hash::BuildHasherDefault;
use std::sync::{Arc, Mutex, PoisonError};

use super::number::Mixed;
use super::{Excerpt, Form};

/// Which excerpt: of which entry, which result of it, in which form, and the entry with the decision
/// about it where that is another one.
pub(crate) type ExcerptKey = (u64, usize, Form, Option<u64>);

/// The excerpts of one log. Nothing depends on what it holds.
#[derive(Debug, Default)]
pub(crate) struct Excerpts(Mutex<HashMap<ExcerptKey, Arc<Excerpt>, BuildHasherDefault<Mixed>>>);

impl Excerpts {
    /// The excerpt at a place, made if it was not made before.
    pub(crate) fn get(&self, place: ExcerptKey, make: impl FnOnce() -> Excerpt) -> Arc<Excerpt> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.entry(place).or_insert_with(|| Arc::new(make())).clone()
    }
}

impl Clone for Excerpts {
    /// A copy begins with none.
    fn clone(&self) -> Excerpts {
        Excerpts::default()
    }
}
