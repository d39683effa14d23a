//! A file whose messages have no ids, and the log that may hold an earlier state of it.
//!
//! The ids of such messages are fingerprints of what they say; equal ones get the number of their
//! occurrence when they are stored. What is new is found by [`Alignment`].

use std::collections::{HashMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};

use rethread_core::entry::Body;
use rethread_core::name::NameError;
use rethread_core::sessions::{ArrivingEntry, Import};
use rethread_core::store::BoxError;
use rethread_core::{EntryId, Message, Raw};

use crate::grown::{self, Rest};
use crate::import::IMPORTED;
use crate::read::{Format, fingerprint};
use crate::window::Alignment;

/// Powers of two: the numbers of messages that tell conversations apart that begin alike.
const NAMES_TRIED: u32 = 6;

/// A window and the log that may hold its beginning.
pub(crate) struct Beside {
    /// The messages of the log.
    log: Vec<Said>,
    alignment: Alignment,
    /// Both are the same conversation.
    pub(crate) is_one: bool,
}

impl Beside {
    /// Lays a window beside the log of a session. Where the source names the session, both are
    /// the same conversation, however little is left of what was said.
    pub(crate) fn of(
        import: &mut Import,
        batch: &[ArrivingEntry],
        is_named: bool,
    ) -> Result<Beside, BoxError> {
        let mut log = Vec::new();
        for entry in import.entries()? {
            let entry = entry?;
            if is_of_a_window(&entry.id, &entry.body) {
                log.push(Said { words: hash(base(entry.id.as_str())), seq: entry.seq });
            }
        }
        let words: Vec<u64> = log.iter().map(|said| said.words).collect();
        let window = || batch.iter().filter(|coming| is_of_a_window(&coming.id, &coming.body));
        let ids: Vec<u64> = window().map(|coming| hash(coming.id.as_str())).collect();
        let mut alignment = Alignment::of(&words, &ids);
        let mut is_one = is_named || alignment.is_one_conversation(log.len(), 0);
        if !is_one && alignment.same() > 0 {
            let messages = window().filter_map(|coming| coming.body.message());
            let grown = grown_since(import, &log, &alignment, messages)?;
            is_one = alignment.is_one_conversation(log.len(), grown);
        }
        if !is_one {
            // Words that are in both by chance tie nothing together.
            alignment.places.fill(None);
        }
        Ok(Beside { log, alignment, is_one })
    }

    /// Whether something is in both.
    pub(crate) fn overlaps(&self) -> bool {
        self.alignment.same() > 0
    }

    /// What of the window is new, and how many messages were written again. Ids are fingerprints,
    /// and equal words may be said often, so each gets the number of its occurrence.
    pub(crate) fn fresh(
        &self,
        import: &mut Import,
        batch: Vec<ArrivingEntry>,
        format: Format,
    ) -> Result<(Vec<ArrivingEntry>, u64), BoxError> {
        let places = &self.alignment.places;
        let window = batch.iter().filter(|coming| is_of_a_window(&coming.id, &coming.body));
        let new = window.zip(places).filter(|(_, place)| place.is_none());
        let new: HashSet<u64> = new.map(|(coming, _)| hash(coming.id.as_str())).collect();
        let mut numbers = Numbers::default();
        for said in self.log.iter().filter(|said| new.contains(&said.words)) {
            *numbers.said.entry(said.words).or_default() += 1;
        }
        let mut taken = vec![false; self.log.len()];
        for place in places.iter().flatten() {
            taken[*place] = true;
        }
        let last = places.iter().rposition(Option::is_some);
        let (mut fresh, mut changed) = (Vec::new(), 0);
        // The place in the log that the next message of the window may be a new state of.
        let (mut index, mut next) = (0, 0);
        for mut coming in batch {
            if !is_of_a_window(&coming.id, &coming.body) {
                fresh.push(numbers.number(coming)?);
                continue;
            }
            let (place, is_past) = (places[index], last.is_some_and(|last| index < last));
            index += 1;
            if let Some(place) = place {
                next = place + 1;
                continue;
            }
            if let Some(message) = coming.body.message().filter(|_| last.is_some()) {
                let before = self.log.get(next).filter(|_| !taken[next]);
                let before = before.map(|said| import.stored_at(said.seq)).transpose()?.flatten();
                let old = before.as_ref().and_then(|entry| entry.body.message());
                let old = old.filter(|old| old.role == message.role);
                next += usize::from(old.is_some());
                match old.map(|old| grown::rest(std::slice::from_ref(old), message)) {
                    Some(Rest::Nothing) => continue,
                    Some(Rest::More(more)) => coming.body = Body::Message(more),
                    _ if is_past => {
                        let (id, body) = now_says(format, &coming.id, message)?;
                        if !import.knows(&id) {
                            changed += 1;
                            fresh.push(ArrivingEntry { id, body, ..coming });
                        }
                        continue;
                    }
                    _ => {}
                }
            }
            fresh.push(numbers.number(coming)?);
        }
        Ok((fresh, changed))
    }
}

/// A message of the log: a fingerprint of its words, and its place. The log may be long, so
/// nothing else of it is held.
struct Said {
    words: u64,
    seq: u64,
}

/// Numbers for what has no id but its words, as equal words may be said often.
#[derive(Default)]
pub(crate) struct Numbers {
    said: HashMap<u64, u32>,
    records: HashMap<u64, u32>,
}

impl Numbers {
    /// Gives an entry the number of its occurrence.
    pub(crate) fn number(&mut self, mut coming: ArrivingEntry) -> Result<ArrivingEntry, NameError> {
        let id = coming.id.as_str();
        if is_fixed(id) {
            return Ok(coming);
        }
        let counts = match coming.body.message() {
            Some(_) => &mut self.said,
            None => &mut self.records,
        };
        let count = counts.entry(hash(id)).or_default();
        *count += 1;
        if *count > 1 {
            coming.id = EntryId::new(format!("{id}.{count}"))?;
        }
        Ok(coming)
    }
}

/// How many messages of the log the file has in a longer form, each right after one they share.
fn grown_since<'a>(
    import: &mut Import,
    log: &[Said],
    alignment: &Alignment,
    messages: impl Iterator<Item = &'a Message>,
) -> Result<usize, BoxError> {
    let (mut grown, mut next) = (0, None);
    for (place, message) in alignment.places.iter().zip(messages) {
        if let Some(place) = place {
            next = Some(place + 1);
            continue;
        }
        let Some(said) = next.take().and_then(|next| log.get(next)) else { continue };
        let stored = import.stored_at(said.seq)?;
        let old = stored.as_ref().and_then(|entry| entry.body.message());
        let old = old.filter(|old| old.role == message.role);
        let rest = old.map(|old| grown::rest(std::slice::from_ref(old), message));
        grown += usize::from(matches!(rest, Some(Rest::Nothing | Rest::More(_))));
    }
    Ok(grown)
}

/// What a conversation that begins like another, and continues differently, may be called: by its
/// first two messages, its first four, and so on.
pub(crate) fn names_of(identity: &str, batch: &[ArrivingEntry]) -> Vec<String> {
    let said = batch.iter().filter(|coming| is_of_a_window(&coming.id, &coming.body));
    let ids: Vec<&str> = said.map(|coming| coming.id.as_str()).collect();
    let lengths = (1..=NAMES_TRIED).map(|power| 1 << power);
    let lengths = lengths.map(|length: usize| length.min(ids.len()));
    let mut names: Vec<String> =
        lengths.map(|length| format!("{identity}/{}", fingerprint(&ids[..length]))).collect();
    names.dedup();
    names
}

/// What a message says now that said something else when it was imported.
pub(crate) fn now_says(
    format: Format,
    id: &EntryId,
    message: &Message,
) -> Result<(EntryId, Body), NameError> {
    let raw = Raw::of(message);
    let kind = format!("imported/{}/changed", format.name());
    let id = EntryId::new(format!("changed:{}", fingerprint(&[id.as_str(), raw.get()])))?;
    Ok((id, Body::Unknown { kind, raw }))
}

/// Whether an entry is one of those that a window and a log are laid side by side by: something
/// said. Records of the program may be anywhere, and be written again.
fn is_of_a_window(id: &EntryId, body: &Body) -> bool {
    body.message().is_some() && !is_fixed(id.as_str())
}

fn hash(id: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    id.hash(&mut hasher);
    hasher.finish()
}

/// An id that is not a fingerprint of a message: marks, headers.
fn is_fixed(id: &str) -> bool {
    let id = without_number(id);
    id == IMPORTED || id.contains(':') || id.contains('-')
}

/// An id without the number of its occurrence.
fn base(id: &str) -> &str {
    let id = without_number(id);
    id.split_once('.').map_or(id, |(base, _)| base)
}

/// Earlier versions put the number of a message before its fingerprint.
fn without_number(id: &str) -> &str {
    match id.split_once(':') {
        Some((number, rest)) if number.bytes().all(|byte| byte.is_ascii_digit()) => rest,
        _ => id,
    }
}
