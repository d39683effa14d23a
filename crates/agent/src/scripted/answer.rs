//! What a scripted model says.

use rethread_core::message::Usage;
use serde_json::Value;

/// What a scripted model says to one request.
///
/// An answer is sent in chunks. What the model thinks comes first, then its text, both in pieces
/// of four characters (more, if there would be over 64 pieces); each piece is a chunk, each call
/// is one, and so is the end. They are counted from 0. The first chunk with a character of
/// several bytes is sent in two halves, which part that character.
#[derive(Clone, Debug)]
pub struct Answer {
    pub(super) kind: Kind,
    pub(super) holds: Vec<usize>,
    pub(super) cut: Option<usize>,
}

#[derive(Clone, Debug)]
pub(super) enum Kind {
    Says(Says),
    Status { status: u16, message: String, retry_after: Option<String> },
    Garbage,
    Raw { content_type: String, chunks: Vec<Vec<u8>> },
}

#[derive(Clone, Debug, Default)]
pub(super) struct Says {
    /// What it thinks, and the signature of that.
    pub(super) thinking: Option<(String, String)>,
    pub(super) text: String,
    pub(super) calls: Vec<(String, Value)>,
    pub(super) usage: Usage,
}

impl Answer {
    fn of(kind: Kind) -> Answer {
        Answer { kind, holds: Vec::new(), cut: None }
    }

    /// A text.
    pub fn text(text: impl Into<String>) -> Answer {
        let usage = Usage { input: 10, output: 5, ..Usage::default() };
        Answer::of(Kind::Says(Says { text: text.into(), usage, ..Says::default() }))
    }

    /// Calls of tools, all in one reply: names and arguments.
    pub fn calls<N: Into<String>>(calls: impl IntoIterator<Item = (N, Value)>) -> Answer {
        Answer::text("").and_calls(calls)
    }

    /// A status other than success, such as 429 or 500.
    pub fn status(status: u16) -> Answer {
        let message = format!("scripted status {status}");
        Answer::of(Kind::Status { status, message, retry_after: None })
    }

    /// Something that is not a reply in any wire format.
    pub fn garbage() -> Answer {
        Answer::of(Kind::Garbage)
    }

    /// These chunks as they are, with status 200.
    pub fn raw<C: Into<Vec<u8>>>(
        content_type: impl Into<String>,
        chunks: impl IntoIterator<Item = C>,
    ) -> Answer {
        let chunks = chunks.into_iter().map(Into::into).collect();
        Answer::of(Kind::Raw { content_type: content_type.into(), chunks })
    }

    /// Adds calls after the text.
    ///
    /// # Panics
    ///
    /// If this is not an answer of a model, as for the methods below.
    pub fn and_calls<N: Into<String>>(
        mut self,
        calls: impl IntoIterator<Item = (N, Value)>,
    ) -> Answer {
        self.says().calls.extend(calls.into_iter().map(|(name, input)| (name.into(), input)));
        self
    }

    /// Has the model think first. Only Anthropic's wire has signatures.
    pub fn thinking(mut self, text: impl Into<String>, signature: impl Into<String>) -> Answer {
        self.says().thinking = Some((text.into(), signature.into()));
        self
    }

    /// What the reply says it used; as OpenAI, tokens written to the cache count as read, and as
    /// Ollama there is no cache at all.
    pub fn usage(mut self, usage: Usage) -> Answer {
        self.says().usage = usage;
        self
    }

    /// Has the server say this with a status.
    pub fn saying(mut self, text: impl Into<String>) -> Answer {
        match &mut self.kind {
            Kind::Status { message, .. } => *message = text.into(),
            _ => panic!("only a status is explained"),
        }
        self
    }

    /// Has the server ask to wait, in seconds or by a date.
    pub fn retry_after(mut self, wait: impl ToString) -> Answer {
        match &mut self.kind {
            Kind::Status { retry_after, .. } => *retry_after = Some(wait.to_string()),
            _ => panic!("only a status asks to wait"),
        }
        self
    }

    /// Waits before chunk `n` until the test says so with `release`; may be called several times.
    pub fn slowly(mut self, n: usize) -> Answer {
        self.holds.push(n);
        self
    }

    /// Closes the connection after `n` chunks.
    pub fn cut_after(mut self, n: usize) -> Answer {
        self.cut = Some(n);
        self
    }

    fn says(&mut self) -> &mut Says {
        match &mut self.kind {
            Kind::Says(says) => says,
            _ => panic!("only a model thinks, calls and counts"),
        }
    }
}
