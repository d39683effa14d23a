//! Matches a file whose messages have no ids with the log that may contain an earlier version of
//! it.
//!
//! The id of such a message is a fingerprint of its text; equal messages are numbered when they are
//! stored. [`Alignment`] finds out which messages are new.

use std::collections::{HashMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};

use rethread_core::alignment::Alignment;
use rethread_core::entry::Body;
use rethread_core::name::NameError;
use rethread_core::sessions::{ArrivingEntry, Import};
use rethread_core::store::BoxError;
use rethread_core::{EntryId, Message, Raw};

use crate::import::IMPORTED;
use crate::message_growth::{self, Rest};
use crate::read::{Format, fingerprint};

/// Powers of two: how many messages are compared to distinguish conversations that begin alike.
const NAMES_TRIED: u32 = 6;

/// A window and the log that may hold its beginning.
pub(crate) struct Overlap {
    /// The messages of the log.
    log: Vec<Said>,
    alignment: Alignment,
    /// Both are the same conversation.
    pub(crate) is_one: bool,
}

impl Overlap {
    /// Aligns a window with the log of a session. If the source names the session, both are the
    /// same conversation, however little of it is left.
    pub(crate) fn of(
        import: &mut Import,
        batch: &[ArrivingEntry],
        is_named: bool,
    ) -> Result<Overlap, BoxError> {
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
            // Text that both contain by chance does not make them the same conversation.
            alignment.places.fill(None);
        }
        Ok(Overlap { log, alignment, is_one })
    }

    /// Whether the two have a message in common.
    pub(crate) fn overlaps(&self) -> bool {
        self.alignment.same() > 0
    }

    /// What is new in the window, and how many messages were rewritten. Ids are fingerprints, and
    /// the same text may occur often, so each occurrence gets a number.
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
        // The message of the log that the next message of the window may be a later version of.
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
                match old.map(|old| message_growth::rest(std::slice::from_ref(old), message)) {
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

/// A message of the log: a fingerprint of its text, and its position. The log may be long, so
/// nothing else is kept in memory.
struct Said {
    words: u64,
    seq: u64,
}

/// Numbers messages that have no id but their text, because the same text may occur often.
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

/// How many messages of the log the file has in a longer form, each right after a message they
/// share.
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
        let rest = old.map(|old| message_growth::rest(std::slice::from_ref(old), message));
        grown += usize::from(matches!(rest, Some(Rest::Nothing | Rest::More(_))));
    }
    Ok(grown)
}

/// Ids for a conversation that begins like another one and continues differently: from its first
/// two messages, its first four, and so on.
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

/// The text of a message that had another text when it was imported.
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

/// Whether an entry is used to align a window with a log: only messages are. Records of the program
/// may appear anywhere, and may be rewritten.
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
