//! A log and a copy of its conversation: what the copy adds, and one log from both.
//!
//! They are compared by a [`Likeness`] of each message, which the owner of the copy defines: programs
//! that rewrite a conversation assign new ids and times, and leave messages out.

use std::collections::{BTreeMap, HashSet};

use jiff::Timestamp;

use crate::alignment::Alignment;
use crate::entry::{Body, Entry, NewEntry, fingerprint};

/// What is compared of a message.
pub type Likeness = [u8; 16];

/// The first new message of a copy that continues a log. `None` if it is another conversation: it
/// has other messages between those of the log, or none of them.
pub fn first_new(log: &[Likeness], copy: &[Likeness]) -> Option<usize> {
    let places = Alignment::of(log, copy).places;
    let known = places.iter().take_while(|place| place.is_some()).count();
    let new = places.iter().rposition(Option::is_some).map_or(0, |last| last + 1);
    let last = places.iter().rev().find_map(|place| *place);
    // A program that changes something in the middle keeps what followed. If the last message of
    // the log is missing, the program had not seen it, and a message that looks like one of the log
    // is a new one; but not if all that follows the change is in the log.
    let has_seen_the_end = last.is_none_or(|last| last + 1 == log.len()) || new == copy.len();
    if new > known && known > 0 && !has_seen_the_end {
        return Some(known);
    }
    let nothing = new == 0 && !log.is_empty() && !copy.is_empty();
    (new == known && !nothing).then_some(new)
}

/// A log that was rebuilt.
#[derive(Clone, Debug, PartialEq)]
pub struct Rebuilt {
    /// All of its entries.
    pub entries: Vec<NewEntry>,
    /// How many of them come from the copy.
    pub copied: usize,
    /// How many of them replace an entry that neither has.
    pub lost: usize,
}

/// Rebuilds a log of `end` entries from those that can be read, which keep their positions, and
/// from a copy of its messages.
///
/// If the copy has ids of the log, equal entries are recognised by their ids; otherwise by their
/// likeness. Any other message of the copy takes the first free position after the previous one.
/// `lost` makes the entries for the positions that stay free, with the time of the one before, if
/// there is one.
pub fn rebuild(
    log: Vec<Entry>,
    copy: Vec<NewEntry>,
    end: u64,
    likeness: impl Fn(&Body) -> Option<Likeness>,
    lost: impl Fn(Option<Timestamp>) -> NewEntry,
) -> Rebuilt {
    let mut ids = HashSet::new();
    // A damaged index may give the same entry at two positions.
    let log = log.into_iter().filter(|entry| entry.seq < end && ids.insert(entry.id.clone()));
    let new = |Entry { seq, id, at, body, measure, .. }| (seq, NewEntry { id, at, body, measure });
    let mut slots: BTreeMap<u64, NewEntry> = log.map(new).collect();
    let by_id = copy.iter().any(|new| ids.contains(&new.id));
    let key = |new: &NewEntry| match by_id {
        true => Some(fingerprint("id", new.id.as_str())),
        false => likeness(&new.body),
    };
    let known = slots.iter().filter_map(|(seq, entry)| Some((*seq, Some(key(entry)?))));
    let (seqs, keys): (Vec<u64>, Vec<_>) = known.unzip();
    let alignment = Alignment::of(&keys, &copy.iter().map(key).collect::<Vec<_>>());
    let (mut next, mut copied) = (0, 0);
    for (new, place) in copy.into_iter().zip(alignment.places) {
        next = match place {
            Some(place) => seqs[place] + 1,
            // It is at another position of the log.
            None if ids.contains(&new.id) => next,
            None => {
                let free = (next..).find(|seq| !slots.contains_key(seq)).unwrap_or(next);
                slots.insert(free, new);
                copied += 1;
                free + 1
            }
        };
    }
    let end = slots.last_key_value().map_or(end, |(last, _)| end.max(last + 1));
    let (known, mut before) = (slots.len(), None);
    let filled = (0..end).map(|seq| {
        let entry = slots.remove(&seq).unwrap_or_else(|| lost(before));
        before = Some(entry.at);
        entry
    });
    let entries: Vec<NewEntry> = filled.collect();
    Rebuilt { lost: entries.len() - known, entries, copied }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entry::{EntryId, Tally};
    use crate::message::Message;
    use crate::raw::Raw;

    fn like(c: char) -> Likeness {
        [c as u8; 16]
    }

    fn compare(log: &str, copy: &str) -> Option<usize> {
        let [log, copy] = [log, copy].map(|text| text.chars().map(like).collect::<Vec<_>>());
        first_new(&log, &copy)
    }

    #[test]
    fn what_follows_the_last_known_message_is_new() {
        assert_eq!(compare("abc", "abc"), Some(3));
        assert_eq!(compare("abc", "abcde"), Some(3));
        assert_eq!(compare("atbtc", "abcd"), Some(3), "tool messages were dropped");
        assert_eq!(compare("abcdefgh", "fghxy"), Some(3), "only the last were kept");
        assert_eq!(compare("aaabbb", "abc"), Some(2), "repeated ones were dropped");
        assert_eq!(compare("abcab", "abcaba"), Some(5), "said again, it is new");
        assert_eq!(compare("", "ab"), Some(0));
        assert_eq!(compare("abc", ""), Some(0));
        assert_eq!(compare("abcd", "abx"), Some(2), "it had not seen the last");
        assert_eq!(compare("abcd", "abxycz"), Some(2), "nor the last two, and said one");
    }

    #[test]
    fn what_was_changed_further_up_is_another_conversation() {
        assert_eq!(compare("abc", "axc"), None);
        assert_eq!(compare("abc", "xabc"), None);
        assert_eq!(compare("abc", "xyz"), None);
        assert_eq!(compare("abcde", "axcd"), None, "before it saw the last");
    }

    fn new(id: &str, text: &str) -> NewEntry {
        let id = EntryId::new(id).expect("an id");
        NewEntry::new(id, Timestamp::UNIX_EPOCH, Body::Message(Message::user(text)))
    }

    /// A log of which only some entries can be read: `.` is one that cannot, a capital letter is
    /// not a message. The ids of the copy are those of the log, or others.
    fn rebuilt(log: &str, copy: &str, same_ids: bool) -> (String, usize, usize) {
        let body = |c: char| match c.is_uppercase() {
            true => Body::Unknown { kind: c.to_string(), raw: Raw::of(&c) },
            false => Body::Message(Message::user(c.to_string())),
        };
        let entry = |(seq, c): (usize, char)| {
            let NewEntry { id, at, measure, .. } = new(&format!("id-{c}"), "");
            (c != '.').then(|| Entry {
                seq: seq as u64,
                at,
                id,
                body: body(c),
                measure,
                tally: Tally::default(),
            })
        };
        let entries: Vec<Entry> = log.chars().enumerate().filter_map(entry).collect();
        let id = |c: char| if same_ids { format!("id-{c}") } else { format!("other-{c}") };
        let copy = copy.chars().map(|c| new(&id(c), &c.to_string())).collect();
        let likeness = |body: &Body| {
            let text = body.message()?.plain_text();
            Some(fingerprint("user", &text))
        };
        let lost = |_| {
            NewEntry::new(EntryId::new("lost").expect("an id"), Timestamp::UNIX_EPOCH, body('?'))
        };
        let Rebuilt { entries, copied, lost } =
            rebuild(entries, copy, log.chars().count() as u64, likeness, lost);
        let shown = |entry: &NewEntry| match &entry.body {
            Body::Unknown { kind, .. } => kind.clone(),
            body => body.message().expect("a message").plain_text(),
        };
        (entries.iter().map(shown).collect(), copied, lost)
    }

    #[test]
    fn a_log_is_rebuilt_from_what_is_left_of_it_and_a_copy() {
        for same_ids in [true, false] {
            let rebuilt = |log: &str, copy: &str| rebuilt(log, copy, same_ids);
            let whole = |text: &str, copied, lost| (text.to_owned(), copied, lost);
            assert_eq!(rebuilt("abc", "abc"), whole("abc", 0, 0));
            assert_eq!(rebuilt("a.c", "abc"), whole("abc", 1, 0));
            assert_eq!(rebuilt("...", "abc"), whole("abc", 3, 0));
            assert_eq!(rebuilt("aXc", "ac"), whole("aXc", 0, 0), "what is not a message stays");
            assert_eq!(rebuilt("aX.d", "abd"), whole("aXbd", 1, 0), "in its place");
            assert_eq!(rebuilt("a.b", "ab"), whole("a?b", 0, 1), "what neither has is lost");
            assert_eq!(rebuilt("ab.", "abcde"), whole("abcde", 3, 0), "the copy may continue");
            assert_eq!(rebuilt("abc", ""), whole("abc", 0, 0));
            assert_eq!(rebuilt("..", ""), whole("??", 0, 2));
        }
        // One that is at another position of the log is not doubled.
        assert_eq!(rebuilt("ab.", "ba", true), ("ab?".to_owned(), 0, 1));
    }
}
