//! The scripted answers of a model.

use rethread_core::message::Usage;
use serde_json::Value;

/// The answer of a scripted model to one request.
///
/// An answer is sent in chunks. Thinking comes first, then text, both in pieces of four characters
/// (more, if there would be over 64 pieces); each piece is a chunk, each call is one, and so is the
/// end. They are counted from 0. The first chunk with a multi-byte character is sent in two halves
/// that split that character.
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
    /// Its thinking, with its signature.
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

    /// Tool calls, all in one reply: names and arguments.
    pub fn calls<N: Into<String>>(calls: impl IntoIterator<Item = (N, Value)>) -> Answer {
        Answer::text("").and_calls(calls)
    }

    /// A status other than success, such as 429 or 500.
    pub fn status(status: u16) -> Answer {
        let message = format!("scripted status {status}");
        Answer::of(Kind::Status { status, message, retry_after: None })
    }

    /// Something that is not a reply in any API.
    pub fn garbage() -> Answer {
        Answer::of(Kind::Garbage)
    }

    /// These chunks verbatim, with status 200.
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

    /// Adds thinking before the text. Only Anthropic's API has signatures.
    pub fn thinking(mut self, text: impl Into<String>, signature: impl Into<String>) -> Answer {
        self.says().thinking = Some((text.into(), signature.into()));
        self
    }

    /// The reported usage; for OpenAI, cache writes count as input, and for Ollama there is no
    /// cache.
    pub fn usage(mut self, usage: Usage) -> Answer {
        self.says().usage = usage;
        self
    }

    /// Sets the text of an error response.
    pub fn saying(mut self, text: impl Into<String>) -> Answer {
        match &mut self.kind {
            Kind::Status { message, .. } => *message = text.into(),
            _ => panic!("only a status is explained"),
        }
        self
    }

    /// Sets `Retry-After`, in seconds or as a date.
    pub fn retry_after(mut self, wait: impl ToString) -> Answer {
        match &mut self.kind {
            Kind::Status { retry_after, .. } => *retry_after = Some(wait.to_string()),
            _ => panic!("only a status asks to wait"),
        }
        self
    }

    /// Waits before chunk `n` until the test calls `release`; may be used several times.
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
