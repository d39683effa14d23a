//! Builds a reply, for all providers.

use rethread_core::message::Usage;
use rethread_core::{Block, Message, Raw, Role};
use serde_json::{Map, Value};

use super::Request;

/// Characters used of a reply's id; with the rest of a call's id they stay below every provider's
/// limit.
const SEED_CHARS_MAX: usize = 20;

/// The message of a model.
pub(super) fn message(
    request: &Request<'_>,
    content: Vec<Block>,
    usage: Usage,
    reason: &str,
) -> Message {
    let mut message = Message::new(Role::Assistant, content);
    message.interrupted = CUT_OFF.contains(&reason);
    message.model = Some(request.model.id());
    message.usage = Some(usage);
    message
}

/// Stop reasons for a reply that was cut off.
const CUT_OFF: [&str; 4] =
    ["max_tokens", "length", "content_filter", "model_context_window_exceeded"];

/// A thinking block. It is parsed as if from a log, so that it is the same block when it is read
/// from one.
pub(super) fn thinking(text: &str, signature: Option<&str>) -> Block {
    let mut fields = Map::new();
    fields.insert("type".into(), "thinking".into());
    fields.insert("thinking".into(), text.into());
    if let Some(signature) = signature {
        fields.insert("signature".into(), signature.into());
    }
    let json = Value::Object(fields).to_string();
    serde_json::from_str(&json).expect("any JSON object is a block")
}

/// The arguments of a call from the model's text: empty means none, and invalid JSON becomes a
/// string, which the tool refuses with its own message.
pub(super) fn input(written: &str) -> Raw {
    if written.trim().is_empty() {
        return Raw::of(&Map::new());
    }
    // Between the values of JSON, a line end is white space; inside them there is none. On one
    // line, a call fits into JSON lines.
    Raw::parse(written.replace(['\n', '\r'], " ")).unwrap_or_else(|_| Raw::of(&written))
}

/// An id for a call that has none: `seed` distinguishes its reply from others.
pub(super) fn call_id(seed: &str, index: usize) -> String {
    let plain: Vec<char> = seed.chars().filter(char::is_ascii_alphanumeric).collect();
    let from = plain.len().saturating_sub(SEED_CHARS_MAX);
    match plain[from..] {
        [] => format!("call_{index}"),
        _ => format!("call_{}_{index}", plain[from..].iter().collect::<String>()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_stay_as_the_model_wrote_them() {
        assert_eq!(input("").get(), "{}");
        assert_eq!(input(" \n").get(), "{}");
        assert_eq!(input("{ \"n\": 1.0e2 }").get(), "{ \"n\": 1.0e2 }");
        assert_eq!(input("{\n  \"a\": \"x\\ny\"\n}\n").get(), "{   \"a\": \"x\\ny\" }");
    }

    #[test]
    fn arguments_that_are_not_json_become_a_string() {
        assert_eq!(input("{\"path\": \"a").get(), r#""{\"path\": \"a""#);
        assert_eq!(input("{} {}").get(), "\"{} {}\"");
    }

    #[test]
    fn a_made_id_has_a_form_every_provider_takes() {
        assert_eq!(call_id("", 0), "call_0");
        assert_eq!(call_id("chatcmpl-é-123", 2), "call_chatcmpl123_2");
        let id = call_id(&"x".repeat(90), usize::MAX);
        assert!(call_id(&"x".repeat(90), 999).len() <= 40, "{id}");
    }

    #[test]
    fn thinking_is_the_same_block_after_a_log() {
        for signature in [Some("c2ln/+=="), None] {
            let block = thinking("why \"not\"\n\u{1f980}", signature);
            let json = serde_json::to_string(&block).unwrap();
            assert_eq!(serde_json::from_str::<Block>(&json).unwrap(), block);
        }
    }
}
