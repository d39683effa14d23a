//! What a replayed session cost, and what was out of view when it was needed.

use std::collections::{HashMap, HashSet};
use std::rc::Rc;

use jiff::Timestamp;
use rethread_core::message::Message;
use rethread_core::names::names;

use super::edit::replaced;
use super::view::{View, Views, readable};

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

/// What a call needed of the session before it, and of that what is seen with everything in view.
#[derive(Clone, Default)]
pub(super) struct Needs {
    names: Vec<u32>,
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
}

/// Scores the calls of one session.
pub(super) struct Scorer {
    ttl: Option<u32>,
    cached: Vec<Rc<View>>,
    last_reply: Option<Timestamp>,
    /// How often each name is in view.
    seen: HashMap<u32, u32>,
    /// What is in view now.
    view: Vec<Rc<View>>,
}

impl Scorer {
    pub(super) fn new(ttl: Option<u32>) -> Scorer {
        Scorer { ttl, cached: Vec::new(), last_reply: None, seen: HashMap::new(), view: Vec::new() }
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
        let mut lines: Vec<String> =
            names.iter().filter_map(|name| last_line(views, blocks, *name)).collect();
        lines.sort_unstable();
        lines.dedup();
        Needs { names, lines, edits }
    }

    /// Scores a call that was sent these blocks at this time. `opens` says whether it is the first of
    /// its turn.
    pub(super) fn call(
        &mut self,
        blocks: &[Rc<View>],
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
        let names_seen = needs.names.iter().filter(|name| self.seen.contains_key(name)).count();
        let in_view = |line: &&String| blocks.iter().rev().any(|block| block.text.contains(*line));
        let lines_seen = needs.lines.iter().filter(in_view).count();
        let verbatim = needs.edits.iter().filter(|texts| {
            texts.iter().all(|text| blocks.iter().any(|block| block.text.contains(text.as_str())))
        });
        let edits_verbatim = verbatim.count();
        let edits_seen = needs.edits.iter().filter(|texts| is_seen(blocks, texts)).count();
        // Fetching takes one more call: the context is read, and what comes back is written and read
        // once more by the call that needed it.
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

/// The last line in view that has this name, without the number a tool put before it.
fn last_line(views: &Views, blocks: &[Rc<View>], name: u32) -> Option<String> {
    let block = blocks.iter().rev().find(|block| block.names.binary_search(&name).is_ok())?;
    let name = views.name(name);
    let line = block.text.lines().find(|line| names(line).any(|other| other == name))?;
    let line = line.trim();
    let bare = line.trim_start_matches(|c: char| c.is_ascii_digit());
    let bare = bare.strip_prefix('→').or_else(|| bare.strip_prefix('\t')).unwrap_or(line);
    Some(bare.trim().to_owned())
}

/// Whether every text is in view, verbatim or line by line.
fn is_seen(blocks: &[Rc<View>], texts: &[String]) -> bool {
    let contains = |text: &str| blocks.iter().any(|block| block.text.contains(text));
    texts.iter().all(|text| {
        contains(text) || {
            let lines: HashSet<&str> =
                text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
            lines.into_iter().all(contains)
        }
    })
}
