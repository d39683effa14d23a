//! The options for building a context, and the presets.

use crate::limits::{CLIP_CHARS, CLIP_TEXTS, HISTORY_MESSAGES_MAX, RESULT_CHARS_MAX};
use crate::session::Header;
use crate::shown::Allowances;

/// The options for building a context. `fit_budget` and `validity` always apply.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the fields say what they are")]
pub struct Policy {
    pub name: String,
    /// How many lines of tool results are shown, if not all: see [`shown`](crate::shown).
    pub trim_results: Option<Allowances>,
    /// Whether results of finished turns are thinned if the log says that the cache was cold.
    pub thin_turns: bool,
    /// Characters of a tool result.
    pub truncate_results: Option<usize>,
    /// Whether tool results of finished turns are replaced by stubs.
    pub stub_tools: bool,
    /// Whether thinking stays after its turn, if its provider accepts it.
    pub keep_thinking: bool,
    /// Messages to keep, not counting the system message.
    pub keep_recent: Option<u32>,
    /// Keep only the last texts.
    pub clip: Option<Clip>,
}

/// How much of the past a clipped context keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the fields say what they are")]
pub struct Clip {
    pub texts: usize,
    /// Characters of each.
    pub chars: usize,
}

impl Policy {
    /// The presets, by name.
    pub const PRESETS: [&str; 5] = ["chat", "editor", "emacs", "cli", "bot"];

    /// Everything that fits the model's window.
    pub fn cli() -> Policy {
        Policy {
            name: "cli".into(),
            trim_results: None,
            thin_turns: false,
            truncate_results: None,
            stub_tools: false,
            keep_thinking: true,
            keep_recent: None,
            clip: None,
        }
    }

    /// Results cut at 4,000 characters; those of finished turns stubbed.
    pub fn editor() -> Policy {
        Policy {
            name: "editor".into(),
            truncate_results: Some(RESULT_CHARS_MAX),
            stub_tools: true,
            keep_thinking: false,
            ..Policy::cli()
        }
    }

    /// The last hundred messages.
    pub fn emacs() -> Policy {
        Policy {
            name: "emacs".into(),
            keep_thinking: false,
            keep_recent: Some(HISTORY_MESSAGES_MAX),
            ..Policy::cli()
        }
    }

    /// The current turn, and 500 characters of each of the two texts before it.
    pub fn bot() -> Policy {
        let clip = Clip { texts: CLIP_TEXTS, chars: CLIP_CHARS };
        Policy { name: "bot".into(), keep_thinking: false, clip: Some(clip), ..Policy::cli() }
    }

    /// The terminal's default: the relevant lines of each result, and fewer in finished turns once
    /// the cache is cold. On replayed sessions it costs least and forgets least
    /// (`docs/economy.md`).
    pub fn chat() -> Policy {
        let trim_results = Some(Allowances::default());
        Policy { name: "chat".into(), trim_results, thin_turns: true, ..Policy::cli() }
    }

    /// The preset of this name.
    pub fn preset(name: &str) -> Option<Policy> {
        match name {
            "chat" => Some(Policy::chat()),
            "editor" => Some(Policy::editor()),
            "emacs" => Some(Policy::emacs()),
            "cli" => Some(Policy::cli()),
            "bot" => Some(Policy::bot()),
            _ => None,
        }
    }

    /// The policy with the session's own history length, if it limits messages.
    #[must_use]
    pub fn for_session(mut self, header: &Header) -> Policy {
        if let (Some(_), Some(own)) = (self.keep_recent, header.profile.max_history) {
            self.keep_recent = Some(own);
        }
        self
    }
}
