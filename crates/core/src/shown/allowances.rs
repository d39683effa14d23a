//! How much of a result is shown.

use super::ToolKind;
use crate::limits::{
    SHOWN_AGENT_CHARS, SHOWN_NAMES_CHARS, SHOWN_OTHER_CHARS, SHOWN_RANGE_CHARS, SHOWN_READ_CHARS,
    SHOWN_RECALL_CHARS, SHOWN_SEARCH_CHARS, SHOWN_SHELL_CHARS, THIN_HEAD_CHARS, THIN_NAMES_CHARS,
};

/// Characters of a result that are shown, by the kind of tool. The default is what every preset uses
/// and what `doctor` expects; others exist to measure what they would cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Allowances {
    /// A file that was read from its beginning.
    pub read: usize,
    /// A part of a file.
    pub range: usize,
    /// The output of a command.
    pub shell: usize,
    /// What was found or listed.
    pub search: usize,
    /// The report of another agent.
    pub agent: usize,
    /// Anything else.
    pub other: usize,
    /// Lines with new names, besides.
    pub names: usize,
    /// The beginning of a thin result.
    pub thin_head: usize,
    /// Lines with new names in a thin result.
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
    /// Characters that are shown of a result of this kind, before lines with new names.
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
