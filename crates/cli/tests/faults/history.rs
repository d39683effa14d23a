//! What was acknowledged, compared with what is stored.

use std::collections::BTreeMap;

use rethread_core::{Owner, SessionId, Store};

/// One acknowledged append: its text, and the acknowledged position.
#[derive(Clone, Debug)]
pub(crate) struct Acknowledged {
    pub(crate) writer: usize,
    pub(crate) text: String,
    pub(crate) seq: u64,
}

/// Checks that every acknowledged append is in the log once, at the acknowledged position, in the
/// order of its writer; and that nothing is duplicated.
pub(crate) fn check(
    store: &dyn Store,
    id: SessionId,
    acknowledged: &[Acknowledged],
) -> Result<String, String> {
    let entries = store.read(&Owner::local(), id, 0..u64::MAX).map_err(|e| format!("{e:?}"))?;
    let mut places: BTreeMap<String, Vec<u64>> = BTreeMap::new();
    for (index, entry) in entries.iter().enumerate() {
        if entry.seq != index as u64 {
            return Err(format!("entry {index} is missing"));
        }
        if let Some(message) = entry.body.message() {
            places.entry(message.plain_text()).or_default().push(entry.seq);
        }
    }
    let twice = places.iter().filter(|(_, seqs)| seqs.len() > 1).count();
    let mut lost = 0;
    let mut last: BTreeMap<usize, u64> = BTreeMap::new();
    for Acknowledged { writer, text, seq } in acknowledged {
        match places.get(text) {
            None => lost += 1,
            Some(seqs) if !seqs.contains(seq) => {
                return Err(format!("`{text}` was acknowledged at {seq} and is at {seqs:?}"));
            }
            Some(_) => {}
        }
        if last.insert(*writer, *seq).is_some_and(|before| before >= *seq) {
            return Err(format!("the entries of writer {writer} are out of order at {seq}"));
        }
    }
    let said = format!(
        "{} acknowledged, {} stored, {lost} lost, {twice} doubled",
        acknowledged.len(),
        entries.len()
    );
    match lost + twice {
        0 => Ok(said),
        _ => Err(said),
    }
}
