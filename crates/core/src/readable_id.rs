//! Readable ids of sessions: `simple_sally_20251230_112153`.
//!
//! A session is identified by its UUID. Its readable id is a second, fixed id: created with the
//! session from the agent's name and the local time, or taken from the program the session comes
//! from. It is stored as a special key, so every store already keeps it unique among an owner's
//! sessions and creates it together with the session. Unlike other keys it never moves, and it is
//! not shown as a key: see [`split`].

use std::collections::HashMap;
use std::sync::Mutex;

use jiff::civil::DateTime;

use crate::name::{Key, NameError, Owner};

/// The prefix of a key that is a readable id.
const PREFIX: &str = "readable-id:";

/// Characters of the agent's name that are used.
const NAME_CHARS_MAX: usize = 64;

/// Bytes of a file name, leaving room for an extension.
const FILE_NAME_BYTES_MAX: usize = 200;

/// The key under which a readable id is stored.
///
/// # Errors
///
/// [`NameError`] if it is empty, too long or contains invisible characters.
pub fn key(readable_id: &str) -> Result<Key, NameError> {
    if readable_id.is_empty() {
        return Err(NameError::Empty { what: "session id", given: false });
    }
    Key::new(format!("{PREFIX}{readable_id}"))
}

/// Whether a key is a readable id. Such a key cannot be bound by a client.
pub fn is_readable_id(key: &Key) -> bool {
    in_key(key).is_some()
}

/// The readable id in a key, if it is one.
pub fn in_key(key: &Key) -> Option<&str> {
    key.as_str().strip_prefix(PREFIX)
}

/// Separates the keys of a session, as stored, from its readable id.
pub fn split(keys: impl IntoIterator<Item = Key>) -> (Vec<Key>, Option<String>) {
    let (ids, keys): (Vec<Key>, Vec<Key>) = keys.into_iter().partition(is_readable_id);
    let id = ids.first().and_then(in_key).map(str::to_owned);
    (keys, id)
}

/// The readable id of a session that is started now.
///
/// ```
/// let at = jiff::civil::datetime(2025, 12, 30, 11, 21, 53, 0);
/// let id = rethread_core::readable_id::made_of("Simple Sally", at);
/// assert_eq!(id, "simple_sally_20251230_112153");
/// ```
pub fn made_of(agent: &str, at: DateTime) -> String {
    let plain = |c: char| if c.is_alphanumeric() || matches!(c, '-' | '.') { c } else { '_' };
    let name: String =
        agent.trim().chars().flat_map(char::to_lowercase).map(plain).take(NAME_CHARS_MAX).collect();
    let name = match name.trim_start_matches('.') {
        "" => "session",
        name => name,
    };
    format!("{name}_{}", at.strftime("%Y%m%d_%H%M%S"))
}

/// Whether a readable id can be a file name. One that was imported may be anything.
pub fn is_file_name(readable_id: &str) -> bool {
    !readable_id.is_empty()
        && readable_id.len() <= FILE_NAME_BYTES_MAX
        && !readable_id.starts_with(['.', '-'])
        && !readable_id.contains(['/', '\\', ':', '\0'])
}

/// How often each id was created in the current second, so that sessions started in the same second
/// do not try each other's ids first.
#[derive(Debug, Default)]
pub(crate) struct IdCounters(Mutex<HashMap<(Owner, String), u32>>);

impl IdCounters {
    /// Ids of earlier seconds that are remembered.
    const REMEMBERED: usize = 1_000;

    /// The id itself the first time, then with a number: `…_2`.
    pub(crate) fn next(&self, owner: &Owner, id: &str) -> String {
        let mut made = self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let place = (owner.clone(), id.to_owned());
        if made.len() > Self::REMEMBERED && !made.contains_key(&place) {
            made.clear();
        }
        let count = made.entry(place).or_default();
        *count += 1;
        if *count == 1 { id.to_owned() } else { format!("{id}_{count}") }
    }
}

#[cfg(test)]
mod tests {
    use jiff::civil::datetime;

    use super::*;

    #[test]
    fn an_agents_name_never_leads_out_of_a_folder() {
        let at = datetime(2025, 12, 30, 11, 21, 53, 0);
        for (agent, id) in [
            ("../../etc", "_.._etc_20251230_112153"),
            ("", "session_20251230_112153"),
            ("Ärzte & Co", "ärzte___co_20251230_112153"),
            ("a\\b:c\u{202e}", "a_b_c__20251230_112153"),
        ] {
            assert_eq!(made_of(agent, at), id);
            assert!(is_file_name(id) && key(id).is_ok(), "{id}");
        }
        assert!(key(&made_of(&"x".repeat(10_000), at)).is_ok());
    }

    #[test]
    fn an_id_from_elsewhere_is_a_file_name_only_if_it_stays_in_its_folder() {
        for bad in ["", "../x", "a/b", "a\\b", ".index", "7:default", &"x".repeat(201)] {
            assert!(!is_file_name(bad), "{bad}");
        }
        assert!(is_file_name("project-foo"));
    }

    #[test]
    fn the_readable_id_is_not_among_the_keys() {
        let file = Key::new("file:a.md").expect("a key");
        let id = key("sally_20251230_112153").expect("a key");
        assert_eq!(
            split([file.clone(), id]),
            (vec![file], Some("sally_20251230_112153".to_owned()))
        );
    }

    #[test]
    fn ids_of_one_second_are_numbered() {
        let id_counters = IdCounters::default();
        let next = |id: &str| id_counters.next(&Owner::local(), id);
        assert_eq!([next("a"), next("a"), next("b"), next("a")], ["a", "a_2", "b", "a_3"]);
    }
}
