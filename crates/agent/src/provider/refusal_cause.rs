//! Finds out why a provider refused a request.

use serde_json::Value;

/// The cause of a refusal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RefusalCause {
    /// The content: a policy, or a picture that cannot be read.
    Content,
    /// The form: the model, the tools, the length, the account. The content is fine.
    Request,
    /// The provider does not say.
    Unclear,
}

/// Words about the form of a request, not its content.
const REQUEST: [&str; 37] = [
    // Its length.
    "context_length",
    "context length",
    "context window",
    "context size",
    "too long",
    "too large",
    "too many tokens",
    "token limit",
    "max_tokens",
    "max_completion_tokens",
    "maximum number of tokens",
    // The model, or what it can do.
    "model_not_found",
    "model not found",
    "unknown model",
    "invalid model",
    "unsupported model",
    "does not exist",
    "does not support",
    "not supported",
    "not a valid model",
    // The tools.
    "invalid_function",
    "input_schema",
    "tool_choice",
    "tools.",
    "tools[",
    "\"tools\"",
    "function parameters",
    "schema",
    // The parameters.
    "unsupported_parameter",
    "unsupported parameter",
    "unknown parameter",
    "unrecognized request argument",
    // The account.
    "quota",
    "billing",
    "credit",
    "api key",
    "api_key",
];

/// Words about forbidden or unreadable content.
const CONTENT: [&str; 18] = [
    "content_filter",
    "content filter",
    "content_policy",
    "content policy",
    "content management policy",
    "usage polic",
    "safety",
    "moderation",
    "flagged",
    "harmful",
    "responsibleai",
    "could not process image",
    "image_parse_error",
    "invalid_image",
    "invalid image",
    "unsupported image",
    "unsupported_image",
    "invalid_prompt",
];

impl RefusalCause {
    /// Reads the response of a provider that refused a request with this status.
    pub(super) fn of(status: u16, answer: &str) -> RefusalCause {
        if !matches!(status, 400 | 422) {
            return RefusalCause::Request;
        }
        let answer = about(answer).to_lowercase();
        let says = |words: &[&str]| words.iter().any(|word| answer.contains(word));
        // A policy has distinctive words; the others may be quoted next to it.
        if says(&CONTENT) {
            RefusalCause::Content
        } else if says(&REQUEST) {
            RefusalCause::Request
        } else {
            RefusalCause::Unclear
        }
    }
}

/// What a response says about its error. Some servers also repeat the request.
fn about(answer: &str) -> String {
    let Ok(body) = serde_json::from_str::<Value>(answer) else { return answer.to_owned() };
    let error = body.get("error").unwrap_or(&body);
    let fields = ["code", "type", "param", "message", "detail"].iter();
    let told = fields.filter_map(|name| error.get(name).or_else(|| body.get(name)));
    let told: Vec<&str> = told.filter_map(Value::as_str).chain(error.as_str()).collect();
    told.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_is_about_what_was_said_only_where_the_provider_says_so() {
        for (status, answer, cause) in [
            (
                400,
                r#"{"error":{"code":"content_filter","message":"The response was filtered"}}"#,
                RefusalCause::Content,
            ),
            (400, r#"{"error":{"message":"Could not process image"}}"#, RefusalCause::Content),
            (
                400,
                r#"{"error":{"code":"context_length_exceeded","message":"too long"}}"#,
                RefusalCause::Request,
            ),
            (400, "prompt is too long: 210000 tokens > 200000 maximum", RefusalCause::Request),
            (400, "tools.0.custom.input_schema: JSON schema is invalid", RefusalCause::Request),
            (400, "Your credit balance is too low", RefusalCause::Request),
            (400, "The model `gpt-9` does not exist", RefusalCause::Request),
            (404, "no such thing, says the content filter", RefusalCause::Request),
            (413, "", RefusalCause::Request),
            (400, "", RefusalCause::Unclear),
            (
                400,
                r#"{"error":{"message":"bad"},"request":"is this flagged?"}"#,
                RefusalCause::Unclear,
            ),
            (422, "Bad Request", RefusalCause::Unclear),
        ] {
            assert_eq!(RefusalCause::of(status, answer), cause, "{status} {answer}");
        }
    }
}
