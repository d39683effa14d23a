//! How much of a result is shown.

use super::ToolKind;
use crate::limits::{
    SHOWN_AGENT_CHARS, SHOWN_NAMES_CHARS, SHOWN_OTHER_CHARS, SHOWN_RANGE_CHARS, SHOWN_READ_CHARS,
    SHOWN_RECALL_CHARS, SHOWN_SEARCH_CHARS, SHOWN_SHELL_CHARS, THIN_HEAD_CHARS, THIN_NAMES_CHARS,
};

/// Characters of a result that are shown, by the kind of tool. Every preset uses the default, and
/// `doctor` expects it; other values are for measuring what they would cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Allowances {
    /// For a file that was read from its beginning.
    pub read: usize,
    /// For a part of a file.
    pub range: usize,
    /// For the output of a command.
    pub shell: usize,
    /// For results of searches and listings.
    pub search: usize,
    /// For the report of another agent.
    pub agent: usize,
    /// For anything else.
    pub other: usize,
    /// In addition, for lines with new names.
    pub names: usize,
    /// For the beginning of a thin result.
    pub thin_head: usize,
    /// For lines with new names in a thin result.
    pub thin_names: usize,
}

impl Default for Allowances {
    fn default() -> Allowances {
        Allowances {
            read: SHOWN_READ_CHARS,
            range: SHOWN_RANGE_CHARS,
            shell: SHOWN_SHELL_CHARS,
            search: SHOWN_SEARCH_CHARS,
            agent: SHOWN_AGENT_CHARS,
            other: SHOWN_OTHER_CHARS,
            names: SHOWN_NAMES_CHARS,
            thin_head: THIN_HEAD_CHARS,
            thin_names: THIN_NAMES_CHARS,
        }
    }
}

impl Allowances {
    /// The allowance for a result of this kind, without lines with new names.
    pub fn of(&self, kind: ToolKind) -> usize {
        match kind {
            ToolKind::Read => self.read,
            ToolKind::Range => self.range,
            ToolKind::Shell => self.shell,
            ToolKind::Search => self.search,
            ToolKind::Agent => self.agent,
            ToolKind::Recall => SHOWN_RECALL_CHARS,
            ToolKind::Edit | ToolKind::Other => self.other,
        }
    }
}
