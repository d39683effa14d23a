//! Which records of a tree form one conversation.
//!
//! Each record points at the one before it. Going back and asking again creates a second child, and
//! so does a program that runs several tools in parallel; only the first is a fork. So the tree is
//! built in a first pass over the file, with a few bytes per record, before anything is emitted.

use std::collections::{HashMap, HashSet};

/// How many of the newest records are searched first for a parent. Nearly all parents are there.
const NEAR: usize = 64;

/// Means "no record".
const NONE: u32 = u32::MAX;

/// What the tree has to know about a record.
#[derive(Default)]
pub(super) struct Leaf<'a> {
    pub(super) id: &'a str,
    /// The record before it.
    pub(super) parent: Option<&'a str>,
    /// The message it is a part of, if a message is spread over several records.
    pub(super) group: Option<&'a str>,
    /// The agent that wrote it, if it is a subagent.
    pub(super) helper: Option<&'a str>,
    /// The session it says it belongs to.
    pub(super) session: Option<&'a str>,
    /// It contains a message.
    pub(super) spoken: bool,
    /// It contains tool results and nothing else.
    pub(super) result: bool,
    /// It belongs to a subagent.
    pub(super) side: bool,
    /// It is from the model.
    pub(super) reply: bool,
}

/// The records of a file.
#[derive(Default)]
pub(super) struct Tree {
    nodes: Vec<Node>,
    branches: Vec<Branch>,
    repeated: HashSet<u64>,
    split: HashSet<u64>,
    /// The sessions that records say they belong to, and the position of each.
    sessions: Vec<String>,
    numbers: HashMap<u64, u32>,
}

struct Node {
    id: u64,
    group: u64,
    parent: u32,
    branch: u32,
    session: u32,
    flags: u8,
}

const SPOKEN: u8 = 1;
const RESULT: u8 = 2;
const SIDE: u8 = 4;
const SPINE: u8 = 8;
const REPLY: u8 = 16;

/// A part of the tree that is a session of its own. The first one is the main conversation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Branch {
    /// Identifies it; the same whenever the file is read.
    pub(super) name: String,
    /// The record at which it branches off the main conversation.
    pub(super) at: Option<usize>,
    /// It belongs to a subagent.
    pub(super) side: bool,
    /// It contains a reply of the model.
    pub(super) replied: bool,
    /// It has a record.
    pub(super) used: bool,
    /// The conversation it belongs to; its own number if it is one.
    pub(super) base: usize,
    /// The session it is, if the file has several unrelated ones.
    pub(super) session: Option<String>,
}

impl Tree {
    /// Adds the next record, in the order of the file.
    pub(super) fn add(&mut self, leaf: &Leaf<'_>) {
        let parent = leaf.parent.map_or(NONE, |parent| self.find(hash(parent)));
        let mut flags = 0;
        for (is, flag) in
            [(leaf.spoken, SPOKEN), (leaf.result, RESULT), (leaf.side, SIDE), (leaf.reply, REPLY)]
        {
            flags |= if is { flag } else { 0 };
        }
        // A subagent is identified by its group; its replies are not part of the main conversation.
        let group = match (leaf.side, leaf.helper, leaf.group) {
            (true, Some(helper), _) => hash(helper),
            (true, None, _) | (false, _, None) => 0,
            (false, _, Some(group)) => hash(group),
        };
        let session = leaf.session.map_or(NONE, |session| self.number(session));
        self.nodes.push(Node { id: hash(leaf.id), group, parent, branch: 0, session, flags });
    }

    fn number(&mut self, session: &str) -> u32 {
        let next = self.sessions.len() as u32;
        let number = *self.numbers.entry(hash(session)).or_insert(next);
        if number == next {
            self.sessions.push(session.to_owned());
        }
        number
    }

    fn find(&self, id: u64) -> u32 {
        let near = self.nodes.len().saturating_sub(NEAR);
        let found = self.nodes[near..].iter().rposition(|node| node.id == id).map(|at| near + at);
        let found = found.or_else(|| self.nodes[..near].iter().rposition(|node| node.id == id));
        found.and_then(|at| u32::try_from(at).ok()).unwrap_or(NONE)
    }

    /// The index of a record among those read so far.
    pub(super) fn place(&self, id: &str) -> Option<usize> {
        match self.find(hash(id)) {
            NONE => None,
            place => Some(place as usize),
        }
    }

    /// The ids of records, hashed.
    pub(super) fn hashes(&self, places: std::ops::RangeInclusive<usize>) -> Vec<u64> {
        self.nodes.get(places).unwrap_or_default().iter().map(|node| node.id).collect()
    }

    /// Decides which records belong together, after all have been read.
    pub(super) fn grow(&mut self) {
        let mut ids: Vec<u64> = self.nodes.iter().map(|node| node.id).collect();
        ids.sort_unstable();
        self.repeated = twice(&ids);
        drop(ids);
        let mut groups: Vec<u64> = Vec::new();
        for node in self.nodes.iter().filter(|node| node.flags & SIDE == 0 && node.group != 0) {
            if groups.last() != Some(&node.group) {
                groups.push(node.group);
            }
        }
        groups.sort_unstable();
        self.split = twice(&groups);
        drop(groups);
        self.branches.push(Branch::default());
        let roots = self.spines();
        let bases = self.conversations(&roots);
        let spine: HashSet<u64> = self
            .nodes
            .iter()
            .filter(|node| node.flags & SPINE != 0 && node.group != 0)
            .map(|node| node.group)
            .collect();
        let mut helpers: HashMap<u64, u32> = HashMap::new();
        for (index, root) in roots.iter().enumerate() {
            let base = bases.get(root).copied().unwrap_or(0);
            let branch = self.branch_of(index, base, &spine, &mut helpers);
            let node = &mut self.nodes[index];
            node.branch = branch;
            let reply = node.flags & REPLY != 0;
            let branch = &mut self.branches[branch as usize];
            branch.used = true;
            branch.replied |= reply;
        }
    }

    /// Marks the path from the last message of each root back to it: the path that the user
    /// continued is the conversation, one for each root. Returns the root of each record.
    fn spines(&mut self) -> Vec<u32> {
        let mut roots = vec![NONE; self.nodes.len()];
        for index in 0..self.nodes.len() {
            let parent = self.nodes[index].parent;
            roots[index] = match parent {
                NONE => index as u32,
                // Parents always come before their children here, so there are no cycles.
                parent => roots[parent as usize],
            };
        }
        let mut done: HashSet<u32> = HashSet::new();
        for index in (0..self.nodes.len()).rev() {
            let flags = self.nodes[index].flags;
            if flags & SPOKEN == 0 || flags & SIDE != 0 || !done.insert(roots[index]) {
                continue;
            }
            let mut at = index as u32;
            while at != NONE {
                let node = &mut self.nodes[at as usize];
                node.flags |= SPINE;
                at = node.parent;
            }
        }
        roots
    }

    /// Roots that are not linked to the newest conversation and belong to another session are
    /// separate conversations: someone concatenated files. Returns the branch of each.
    fn conversations(&mut self, roots: &[u32]) -> HashMap<u32, u32> {
        let mut bases = HashMap::new();
        if self.sessions.len() < 2 {
            return bases;
        }
        let mut newest = NONE;
        let mut last: HashMap<u32, u32> = HashMap::new();
        for (index, node) in self.nodes.iter().enumerate().rev() {
            if node.flags & SPOKEN != 0 && node.flags & SIDE == 0 && node.session != NONE {
                last.entry(roots[index]).or_insert(node.session);
                newest = if newest == NONE { node.session } else { newest };
            }
        }
        let mut known: HashMap<u32, u32> = HashMap::new();
        for &root in roots {
            let Some(&session) = last.get(&root) else { continue };
            if session == newest || bases.contains_key(&root) {
                continue;
            }
            let next = self.branches.len() as u32;
            let base = *known.entry(session).or_insert(next);
            if base == next {
                let name = self.sessions[session as usize].clone();
                let (base, session) = (next as usize, Some(name.clone()));
                self.branches.push(Branch { name, base, session, ..Branch::default() });
            }
            bases.insert(root, base);
        }
        if !bases.is_empty() {
            self.branches[0].session = self.sessions.get(newest as usize).cloned();
        }
        bases
    }

    fn branch_of(
        &mut self,
        index: usize,
        base: u32,
        spine: &HashSet<u64>,
        helpers: &mut HashMap<u64, u32>,
    ) -> u32 {
        let Node { id, group, parent, session, flags, .. } = self.nodes[index];
        let above = match parent {
            NONE => None,
            parent => Some(&self.nodes[parent as usize]),
        };
        if flags & SIDE != 0 {
            if group != 0 {
                let next = self.branches.len() as u32;
                let branch = *helpers.entry(group).or_insert(next);
                if branch == next {
                    let base = self.base_of(session);
                    self.start(group, None, true, base);
                }
                return branch;
            }
            let base = self.base_of(session);
            return match above {
                Some(above) if above.flags & SIDE != 0 => above.branch,
                _ => self.start(id, None, true, base),
            };
        }
        // A subagent's record may be followed by one of the main conversation.
        let above = above.filter(|above| above.flags & SIDE == 0);
        let before = above.map_or(base, |above| above.branch);
        let of_the_main = flags & SPINE != 0
            || above.is_none()
            || flags & SPOKEN == 0
            || before == base && flags & RESULT != 0
            || before == base && group != 0 && spine.contains(&group);
        match of_the_main || before != base {
            true if flags & SPINE != 0 => base,
            true => before,
            false => self.start(id, Some(parent as usize), false, base),
        }
    }

    fn start(&mut self, name: u64, at: Option<usize>, side: bool, base: u32) -> u32 {
        let (name, base) = (format!("{name:016x}"), base as usize);
        let session = self.branches[base].session.clone();
        self.branches.push(Branch { name, at, side, base, session, ..Branch::default() });
        self.branches.len() as u32 - 1
    }

    /// The conversation of a session.
    fn base_of(&self, session: u32) -> u32 {
        let name = self.sessions.get(session as usize);
        name.map_or(0, |name| self.base(name) as u32)
    }

    /// The branch that is the conversation of a session; the main one if it has no branch of its
    /// own.
    pub(super) fn base(&self, session: &str) -> usize {
        let is_it = |(index, branch): &(usize, &Branch)| {
            branch.base == *index && branch.session.as_deref() == Some(session)
        };
        self.branches.iter().enumerate().find(is_it).map_or(0, |(index, _)| index)
    }

    /// Whether a record says it belongs to this session.
    pub(super) fn names(&self, session: &str) -> bool {
        self.sessions.iter().any(|known| known == session)
    }

    /// Whether there are several conversations.
    pub(super) fn is_mixed(&self) -> bool {
        self.branches.iter().any(|branch| branch.session.is_some())
    }

    /// The branch of the record with this number, counted from 0.
    pub(super) fn branch(&self, index: usize) -> usize {
        self.nodes.get(index).map_or(0, |node| node.branch as usize)
    }

    /// All branches.
    pub(super) fn branches(&self) -> &[Branch] {
        &self.branches
    }

    /// Whether there are other messages between the records of this one.
    pub(super) fn is_split(&self, group: &str) -> bool {
        self.split.contains(&hash(group))
    }

    /// Whether another record has the same id.
    pub(super) fn is_repeated(&self, id: &str) -> bool {
        self.repeated.contains(&hash(id))
    }
}

/// What appears more than once in a sorted list.
fn twice(sorted: &[u64]) -> HashSet<u64> {
    sorted.windows(2).filter(|pair| pair[0] == pair[1]).map(|pair| pair[0]).collect()
}

/// FNV-1a. The hash is part of the names of branches, so it must not change with the standard
/// library.
pub(super) fn hash(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(leaves: &[Leaf<'_>]) -> Tree {
        let mut tree = Tree::default();
        for leaf in leaves {
            tree.add(leaf);
        }
        tree.grow();
        tree
    }

    fn user<'a>(id: &'a str, parent: Option<&'a str>) -> Leaf<'a> {
        Leaf { id, parent, spoken: true, ..Leaf::default() }
    }

    fn reply<'a>(id: &'a str, parent: &'a str, group: &'a str) -> Leaf<'a> {
        let parent = Some(parent);
        Leaf { id, parent, group: Some(group), spoken: true, reply: true, ..Leaf::default() }
    }

    fn result<'a>(id: &'a str, parent: &'a str) -> Leaf<'a> {
        Leaf { id, parent: Some(parent), spoken: true, result: true, ..Leaf::default() }
    }

    fn branches(tree: &Tree) -> Vec<usize> {
        (0..tree.nodes.len()).map(|index| tree.branch(index)).collect()
    }

    #[test]
    fn parallel_tool_calls_are_not_a_fork() {
        let tree = tree(&[
            user("u", None),
            reply("a1", "u", "m"),
            reply("a2", "a1", "m"),
            result("r1", "a1"),
            result("r2", "a2"),
            reply("b", "r2", "n"),
        ]);
        assert_eq!(branches(&tree), [0; 6]);
    }

    #[test]
    fn asking_again_makes_the_abandoned_branch_a_fork() {
        let tree = tree(&[
            user("u", None),
            reply("a", "u", "m"),
            user("v", Some("a")),
            reply("b", "v", "n"),
            user("w", Some("a")),
            reply("c", "w", "o"),
        ]);
        assert_eq!(branches(&tree), [0, 0, 1, 1, 0, 0]);
        let fork = &tree.branches()[1];
        assert_eq!((fork.at, fork.side, fork.replied), (Some(1), false, true));
    }

    #[test]
    fn a_record_that_names_itself_or_a_later_one_ends_nothing() {
        let tree = tree(&[user("u", Some("u")), user("v", Some("w")), user("w", Some("v"))]);
        assert_eq!(branches(&tree), [0, 0, 0]);
    }

    #[test]
    fn sessions_that_nothing_ties_together_are_apart() {
        let of = |leaf: Leaf<'static>, session| Leaf { session: Some(session), ..leaf };
        let mut leaves = vec![
            of(user("u", None), "one"),
            of(reply("a", "u", "m"), "one"),
            of(user("v", None), "two"),
            of(reply("b", "v", "n"), "two"),
            of(user("w", Some("v")), "two"),
        ];
        let apart = tree(&leaves);
        assert_eq!(branches(&apart), [1, 1, 0, 2, 0]);
        assert_eq!(apart.branches()[1].session.as_deref(), Some("one"));
        assert_eq!((apart.base("one"), apart.base("two")), (1, 0));
        // A session that continues under another id is one.
        leaves[2] = of(user("v", Some("a")), "two");
        assert_eq!(branches(&tree(&leaves)), [0, 0, 0, 1, 0]);
    }

    #[test]
    fn helpers_have_sessions_of_their_own() {
        let side = |id, parent| Leaf { side: true, ..user(id, parent) };
        let named = |id, helper| Leaf { helper: Some(helper), ..side(id, None) };
        let tree = tree(&[
            user("u", None),
            side("s", Some("u")),
            side("t", Some("s")),
            user("v", Some("u")),
            named("x", "h"),
            named("y", "h"),
        ]);
        assert_eq!(branches(&tree), [0, 1, 1, 0, 2, 2]);
    }
}
