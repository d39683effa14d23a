//! What a replayed session cost, and what was out of view when it was needed.

use std::collections::{HashMap, HashSet};
use std::rc::Rc;

use jiff::Timestamp;
use rethread_core::context::{Cut, CutEffect, CutReason};
use rethread_core::identifiers::identifiers;
use rethread_core::message::Message;

use super::edit::replaced;
use super::view::{View, Views, readable};
use super::what::What;

/// Tokens of the instructions and the descriptions of tools, which come before every context.
const SYSTEM_TOKENS: f64 = 18_000.0;
/// What reading a token from the cache costs, in tokens of input.
const READ: f64 = 0.1;
/// What writing a token to the cache costs, in tokens of input.
const WRITE: f64 = 1.25;
/// Tokens of the call of `recall` or of a read.
const ASKING_TOKENS: f64 = 60.0;
/// Tokens of what `recall` brings back, or a read of what is to be edited.
const FETCHED_TOKENS: f64 = 2_000.0;

/// What a call needed from earlier in the session, and what of that is seen with everything in
/// view.
#[derive(Clone, Default)]
pub(super) struct Needs {
    /// The names, and what they were last seen in.
    names: Vec<(u32, What)>,
    /// The last lines in view with each of the names.
    lines: Vec<String>,
    /// For each edit, the texts it replaces.
    edits: Vec<Vec<String>>,
}

/// One call, scored.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Scored {
    /// What its input cost, in tokens.
    pub(super) cost: f64,
    /// What fetching the text of its edits again would cost.
    pub(super) refetch_edits: f64,
    /// What fetching the names would cost.
    pub(super) refetch_names: f64,
    pub(super) names: u32,
    pub(super) names_seen: u32,
    /// Lines with names, and those of them that are seen.
    pub(super) lines: u32,
    pub(super) lines_seen: u32,
    pub(super) edits: u32,
    /// Edits whose text is seen verbatim.
    pub(super) edits_verbatim: u32,
    /// Edits whose text is seen verbatim or line by line.
    pub(super) edits_seen: u32,
    /// The cached prefix was rewritten.
    pub(super) broke: bool,
    /// Inside a turn.
    pub(super) broke_in_turn: bool,
    /// Tokens that had been cached and were written again.
    pub(super) rewritten: f64,
    /// Tokens of its context.
    pub(super) context: f64,
    /// What each part of its context cost.
    pub(super) parts: [f64; What::ALL.len()],
    /// The names that are out of view, by what they were last seen in.
    pub(super) missed: [u32; What::ALL.len()],
    /// What the rest of each shortened result would have cost, by why it was shortened.
    pub(super) saved: [f64; WHYS.len()],
}

/// Why results are shortened.
pub(super) const WHYS: [CutReason; 6] = [
    CutReason::Tidied,
    CutReason::Echo,
    CutReason::Repeated,
    CutReason::Long,
    CutReason::Cold,
    CutReason::Pays,
];

/// Scores the calls of one session.
pub(super) struct Scorer {
    ttl: Option<u32>,
    cached: Vec<Rc<View>>,
    last_reply: Option<Timestamp>,
    /// How often each name is in view.
    seen: HashMap<u32, u32>,
    /// What is in view now.
    view: Vec<Rc<View>>,
    /// The cuts of the contexts before.
    cuts: HashSet<(u64, u64)>,
}

impl Scorer {
    pub(super) fn new(ttl: Option<u32>) -> Scorer {
        Scorer {
            ttl,
            cached: Vec::new(),
            last_reply: None,
            seen: HashMap::new(),
            view: Vec::new(),
            cuts: HashSet::new(),
        }
    }

    /// What a reply needs of what was said before it; everything is in view now.
    pub(super) fn needs(
        &mut self,
        views: &mut Views,
        blocks: &[Rc<View>],
        reply: &Message,
    ) -> Needs {
        self.look_at(blocks);
        let text: Vec<String> = reply.content.iter().map(readable).collect();
        let mut names = views.names(&text.join("\n"));
        names.retain(|name| self.seen.contains_key(name));
        let edits = reply.calls().map(replaced).filter(|texts| !texts.is_empty());
        let edits = edits.filter(|texts| is_seen(blocks, texts)).collect();
        let mut lines = Vec::new();
        let mut found = Vec::new();
        for name in names {
            let Some(block) = last_with(blocks, name) else { continue };
            found.push((name, block.what));
            lines.extend(first_line(views, block, name));
        }
        lines.sort_unstable();
        lines.dedup();
        Needs { names: found, lines, edits }
    }

    /// Scores a call that was sent these blocks at this time. `opens` says whether it is the first
    /// of its turn.
    pub(super) fn call(
        &mut self,
        blocks: &[Rc<View>],
        cuts: &[Cut],
        at: Timestamp,
        opens: bool,
        needs: &Needs,
    ) -> Scored {
        self.look_at(blocks);
        let cold = self.last_reply.is_none_or(|last| {
            self.ttl.is_some_and(|ttl| at.duration_since(last).as_secs() > i64::from(ttl))
        });
        let same = match cold {
            true => 0,
            false => self.cached.iter().zip(blocks).take_while(|(a, b)| a.key == b.key).count(),
        };
        let sum = |blocks: &[Rc<View>]| blocks.iter().map(|block| block.tokens).sum::<f64>();
        let (read, written) = (sum(&blocks[..same]), sum(&blocks[same..]));
        let cost = match cold {
            true => WRITE * (SYSTEM_TOKENS + read + written),
            false => READ * (SYSTEM_TOKENS + read) + WRITE * written,
        };
        let broke = !cold && same < self.cached.len();
        let lost = if broke { sum(&self.cached[same..]) } else { 0.0 };
        let context = SYSTEM_TOKENS + read + written;
        let price = |cached: bool| if cached && !cold { READ } else { WRITE };
        let mut parts = [0.0; What::ALL.len()];
        parts[What::Instructions as usize] = price(true) * SYSTEM_TOKENS;
        for (index, block) in blocks.iter().enumerate() {
            parts[block.what as usize] += price(index < same) * block.tokens;
        }
        let mut saved = [0.0; WHYS.len()];
        for cut in cuts {
            if let CutEffect::Trimmed { from_chars, to_chars, why, .. } = cut.change
                && let Some(at) = WHYS.iter().position(|one| *one == why)
            {
                let new = self.cuts.insert((cut.seq, to_chars));
                saved[at] += price(!new) * from_chars.saturating_sub(to_chars) as f64 / 4.0;
            }
        }
        let mut missed = [0; What::ALL.len()];
        for (name, what) in &needs.names {
            missed[*what as usize] += u32::from(!self.seen.contains_key(name));
        }
        let names_seen = needs.names.len() - missed.iter().sum::<u32>() as usize;
        let in_view = |line: &&String| blocks.iter().rev().any(|block| block.text.contains(*line));
        let lines_seen = needs.lines.iter().filter(in_view).count();
        let verbatim = needs.edits.iter().filter(|texts| {
            texts.iter().all(|text| blocks.iter().any(|block| block.text.contains(text.as_str())))
        });
        let edits_verbatim = verbatim.count();
        let edits_seen = needs.edits.iter().filter(|texts| is_seen(blocks, texts)).count();
        // Fetching takes one more call: the context is read, and what comes back is written and
        // read once more by the call that needed it.
        let fetch = READ * context + (WRITE + READ) * (ASKING_TOKENS + FETCHED_TOKENS);
        let missed_edits = needs.edits.len() - edits_seen;
        self.cached = blocks.to_vec();
        self.last_reply = Some(at);
        Scored {
            cost,
            refetch_edits: fetch * missed_edits as f64,
            refetch_names: if names_seen < needs.names.len() { fetch } else { 0.0 },
            names: needs.names.len() as u32,
            names_seen: names_seen as u32,
            lines: needs.lines.len() as u32,
            lines_seen: lines_seen as u32,
            edits: needs.edits.len() as u32,
            edits_verbatim: edits_verbatim as u32,
            edits_seen: edits_seen as u32,
            broke,
            broke_in_turn: broke && !opens,
            rewritten: lost,
            context,
            parts,
            missed,
            saved,
        }
    }

    /// Counts the names in view, starting from what was in view before.
    fn look_at(&mut self, blocks: &[Rc<View>]) {
        let same = self.view.iter().zip(blocks).take_while(|(a, b)| a.key == b.key).count();
        for name in self.view.drain(same..).flat_map(|block| block.names.clone()) {
            if let Some(count) = self.seen.get_mut(&name) {
                *count -= 1;
                if *count == 0 {
                    self.seen.remove(&name);
                }
            }
        }
        for block in &blocks[same..] {
            for name in &block.names {
                *self.seen.entry(*name).or_default() += 1;
            }
            self.view.push(block.clone());
        }
    }
}

/// The last block with this name.
fn last_with(blocks: &[Rc<View>], name: u32) -> Option<&Rc<View>> {
    blocks.iter().rev().find(|block| block.names.binary_search(&name).is_ok())
}

/// The first line of a block that has this name, without the number a tool put before it.
fn first_line(views: &Views, block: &View, name: u32) -> Option<String> {
    let name = views.name(name);
    let line = block.text.lines().find(|line| identifiers(line).any(|other| other == name))?;
    let line = line.trim();
    let bare = line.trim_start_matches(|c: char| c.is_ascii_digit());
    let bare = bare.strip_prefix('→').or_else(|| bare.strip_prefix('\t')).unwrap_or(line);
    Some(bare.trim().to_owned())
}

/// Whether every text is in view, verbatim or line by line.
pub(super) fn is_seen(blocks: &[Rc<View>], texts: &[String]) -> bool {
    let contains = |text: &str| blocks.iter().any(|block| block.text.contains(text));
    texts.iter().all(|text| {
        contains(text) || {
            let lines: HashSet<&str> =
                text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
            lines.into_iter().all(contains)
        }
    })
}
