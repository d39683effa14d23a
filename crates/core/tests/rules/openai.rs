//! What `POST /v1/chat/completions` accepts, from the OpenAI API reference and error texts.
//!
//! "Reference" below is "Create chat completion" at platform.openai.com,
//! `/docs/api-reference/chat/create`, and its machine-readable form, `openapi.yaml` in
//! openai/openai-openapi (schemas `ChatCompletionRequest…Message`). Error texts are quoted as
//! reported in the named GitHub thread.

use std::collections::HashSet;

use serde_json::{Value, json};

use super::{Findings, Violation, is_plain_name, list, set};

define_rules! {
    /// A request carries at least one message.
    /// Reference (`messages`, `minItems: 1`); error "Invalid 'messages': empty array. Expected an
    /// array with minimum length 1" (CopilotKit/CopilotKit#529).
    MESSAGES_NOT_EMPTY = "messages_not_empty";

    /// A message's role is system, developer, user, assistant or tool.
    /// Reference. The reference also lists `function`, but as deprecated, and newer models answer
    /// "'messages[59].role' does not support 'function' with this model" (TheR1D/shell_gpt#717).
    ROLE_KNOWN = "role_known";

    /// After an assistant message with `tool_calls`, one tool message per call comes before any
    /// message of another role, and before the request ends.
    /// Error "An assistant message with 'tool_calls' must be followed by tool messages responding
    /// to each 'tool_call_id'" (aliasrobotics/cai#111).
    TOOL_CALLS_ANSWERED = "tool_calls_answered";

    /// A tool message answers a call of the assistant message its run of tool messages follows.
    /// Errors "messages with role 'tool' must be a response to a preceeding message with
    /// 'tool_calls'" (miurla/morphic#136) and "'tool_call_id' of '…' not found in 'tool_calls' of
    /// previous message" (dapr/dapr-agents#145).
    TOOL_MESSAGE_ASKED_FOR = "tool_message_asked_for";

    /// A call is answered once.
    /// Error "Duplicate value for 'tool_call_id' of '…', in messages[7] and messages[8]"
    /// (agno-agi/agno#5116).
    TOOL_CALL_ANSWERED_ONCE = "tool_call_answered_once";

    /// A call's id is a string of 1 to 40 characters.
    /// Error "Invalid 'messages[36].tool_calls[0].id': string too long. Expected a string with
    /// maximum length 40" (vercel/ai#8132); LM Studio refuses an empty id
    /// (lmstudio-ai/lmstudio-bug-tracker#830). The limit was not found in the reference, and a
    /// later attempt in vercel/ai#8132 to provoke the error failed, but Azure
    /// (Portkey-AI/gateway#1062) and Copilot (anomalyco/opencode#12653) answer with it too.
    TOOL_CALL_ID = "tool_call_id";

    /// The ids of one assistant message's calls differ, since an answer could not be matched
    /// otherwise. Reuse in a later message is fine.
    /// HTTP 400 "duplicate tool_call_id" (openclaw/openclaw#47136).
    TOOL_CALL_IDS_DISTINCT = "tool_call_ids_distinct";

    /// A function name is 1 to 64 characters out of a-z, A-Z, 0-9, underscore and dash.
    /// Reference (`function.name`, "with a maximum length of 64"); error
    /// "'messages[9].tool_calls[0].function.name': string does not match pattern"
    /// (mcp-use/mcp-use#94).
    FUNCTION_NAME = "function_name";

    /// `function.arguments` is a string holding a JSON object.
    /// Reference for the string. OpenAI itself takes any text, and says so ("the model does not
    /// always generate valid JSON"), but other servers parse it: "arguments must be a valid JSON
    /// object string" (justrach/codegraff#752), and vLLM and llama.cpp answer 400 as well
    /// (local-inference-lab/vllm#684, ggml-org/llama.cpp#25583).
    ARGUMENTS_OBJECT = "arguments_object";

    /// An entry of `tool_calls` has an id, the type `function`, and a function.
    /// Reference (`ChatCompletionMessageToolCall`, all three required). The newer type `custom` is
    /// reported too, because nothing here would check it.
    TOOL_CALL_SHAPE = "tool_call_shape";

    /// `tool_calls` is left out rather than empty.
    /// Error "Invalid 'messages[2].tool_calls': empty array" (home-assistant/core#118577).
    TOOL_CALLS_NOT_EMPTY = "tool_calls_not_empty";

    /// Every message has content; only an assistant message with `tool_calls` may go without.
    /// Reference ("Required unless `tool_calls` or `function_call` is specified"); error "Invalid
    /// value for 'content': expected a string, got null" (langchain-ai/langchainjs#4153).
    CONTENT_PRESENT = "content_present";

    /// An assistant message says something or calls something. OpenAI takes an empty string here,
    /// but Moonshot answers "the message at position 64 with role 'assistant' must not be empty"
    /// (anomalyco/opencode#37887), which leaves the session unusable.
    ASSISTANT_NOT_EMPTY = "assistant_not_empty";

    /// Content is a string or an array of parts.
    /// Reference (`content`, `oneOf` string and array).
    CONTENT_SHAPE = "content_shape";

    /// An array of parts holds at least one part.
    /// Reference (`minItems: 1`). api.openai.com was seen to let an empty array through
    /// (openai/openai-python#1812); the schema is the rule.
    PARTS_NOT_EMPTY = "parts_not_empty";

    /// A part is of a type its role may send: text everywhere, images, audio and files from the
    /// user only, refusals from the assistant only.
    /// Reference ("For tool messages, only type `text` is supported"); error "Image URLs are only
    /// allowed for messages with role 'user'" (openai/openai-node#1030).
    PART_TYPE = "part_type";

    /// A part carries its payload under the key of its type, and an image has a url.
    /// Reference (`ChatCompletionRequestMessageContentPart…`, `required`).
    PART_SHAPE = "part_shape";

    /// Nothing carries a field the reference does not list for it.
    /// Errors "Additional properties are not allowed ('id' was unexpected) - 'messages.0'"
    /// (adamrushy/OpenAISwift#99) and, for fields from a previous reply, "property
    /// 'reasoning_content' is unsupported" (Groq, tashfeenahmed/freellmapi#1070) and "Extra inputs
    /// are not permitted" (Mistral, charmbracelet/crush#1590).
    NO_EXTRA_FIELDS = "no_extra_fields";
}

/// Everything in `request` that the endpoint, or a strict server of the same protocol, refuses.
pub(crate) fn check(request: &Value) -> Vec<Violation> {
    let mut found = Findings::default();
    for (index, tool) in list(&request["tools"]).iter().enumerate() {
        let named = tool["function"]["name"].as_str();
        if tool["type"] == "function" && !named.is_some_and(|name| is_plain_name(name, 64)) {
            found.add(FUNCTION_NAME, format!("tools[{index}] is named {named:?}"));
        }
    }
    let messages = list(&request["messages"]);
    if messages.is_empty() {
        found.add(MESSAGES_NOT_EMPTY, "messages has no element".to_owned());
    }
    for (index, message) in messages.iter().enumerate() {
        check_message(&format!("messages[{index}]"), message, &mut found);
    }
    check_answers(messages, &mut found);
    found.0
}

fn check_message(at: &str, message: &Value, found: &mut Findings) {
    let role = message["role"].as_str().unwrap_or_default();
    let fields: &[&str] = match role {
        "system" | "developer" | "user" => &["role", "content", "name"],
        "assistant" => {
            &["role", "content", "name", "refusal", "audio", "tool_calls", "function_call"]
        }
        // OpenAI's own examples of parallel calls put the function's name on the answer.
        "tool" => &["role", "content", "tool_call_id", "name"],
        _ => {
            found.add(ROLE_KNOWN, format!("{at} has the role {}", message["role"]));
            return;
        }
    };
    found.extra_keys(NO_EXTRA_FIELDS, at, message, fields);
    check_tool_calls(at, message, found);

    let calls = !list(&message["tool_calls"]).is_empty();
    match &message["content"] {
        Value::Null if !calls => found.add(CONTENT_PRESENT, format!("{at} has no content")),
        Value::String(text) if text.is_empty() && role == "assistant" && !calls => {
            found.add(ASSISTANT_NOT_EMPTY, format!("{at} says and calls nothing"));
        }
        Value::Array(parts) if parts.is_empty() => {
            found.add(PARTS_NOT_EMPTY, format!("{at}.content has no part"));
        }
        Value::Array(parts) => {
            for (index, part) in parts.iter().enumerate() {
                check_part(&format!("{at}.content[{index}]"), role, part, found);
            }
        }
        Value::Null | Value::String(_) => {}
        other => found.add(CONTENT_SHAPE, format!("{at}.content is {other}")),
    }
}

fn check_part(at: &str, role: &str, part: &Value, found: &mut Findings) {
    let kind = part["type"].as_str().unwrap_or_default();
    let allowed = match kind {
        "text" => true,
        "image_url" | "input_audio" | "file" => role == "user",
        "refusal" => role == "assistant",
        _ => false,
    };
    if !allowed {
        found.add(PART_TYPE, format!("{at} is a {} part from {role}", part["type"]));
        return;
    }
    found.extra_keys(NO_EXTRA_FIELDS, at, part, &["type", kind]);
    let complete = match kind {
        "text" | "refusal" => part[kind].is_string(),
        "image_url" => part[kind]["url"].as_str().is_some_and(|url| !url.is_empty()),
        _ => part[kind].is_object(),
    };
    if !complete {
        found.add(PART_SHAPE, format!("{at}.{kind} is {}", part[kind]));
    }
    if kind == "image_url" {
        found.extra_keys(NO_EXTRA_FIELDS, at, &part[kind], &["url", "detail"]);
    }
}

fn check_tool_calls(at: &str, message: &Value, found: &mut Findings) {
    let calls = match message.get("tool_calls") {
        None => return,
        Some(Value::Array(calls)) => calls,
        Some(other) => {
            found.add(TOOL_CALL_SHAPE, format!("{at}.tool_calls is {other}"));
            return;
        }
    };
    if calls.is_empty() {
        found.add(TOOL_CALLS_NOT_EMPTY, format!("{at}.tool_calls has no element"));
    }
    let mut seen = HashSet::new();
    for (index, call) in calls.iter().enumerate() {
        let at = format!("{at}.tool_calls[{index}]");
        let function = &call["function"];
        if call["type"] != "function" || !function.is_object() {
            found.add(TOOL_CALL_SHAPE, format!("{at} is {call}"));
            continue;
        }
        found.extra_keys(NO_EXTRA_FIELDS, &at, call, &["id", "type", "function"]);
        found.extra_keys(NO_EXTRA_FIELDS, &at, function, &["name", "arguments"]);
        let id = call["id"].as_str().unwrap_or_default();
        if id.is_empty() || id.chars().count() > 40 {
            found.add(TOOL_CALL_ID, format!("{at} has the id {}", call["id"]));
        }
        if !seen.insert(id) {
            found.add(TOOL_CALL_IDS_DISTINCT, format!("{at} repeats the id {id:?}"));
        }
        if !function["name"].as_str().is_some_and(|name| is_plain_name(name, 64)) {
            found.add(FUNCTION_NAME, format!("{at} calls {}", function["name"]));
        }
        let arguments = function["arguments"].as_str().unwrap_or_default();
        if !serde_json::from_str::<Value>(arguments).is_ok_and(|parsed| parsed.is_object()) {
            found.add(ARGUMENTS_OBJECT, format!("{at} passes {}", function["arguments"]));
        }
    }
}

/// Walks the conversation with the set of calls that still wait for their answer.
fn check_answers(messages: &[Value], found: &mut Findings) {
    let mut asked: HashSet<&str> = HashSet::new();
    let mut answered: HashSet<&str> = HashSet::new();
    for (index, message) in messages.iter().enumerate() {
        if message["role"] == "tool" {
            let id = message["tool_call_id"].as_str().unwrap_or_default();
            if !asked.contains(id) {
                found.add(TOOL_MESSAGE_ASKED_FOR, format!("messages[{index}] answers {id:?}"));
            } else if !answered.insert(id) {
                found.add(TOOL_CALL_ANSWERED_ONCE, format!("messages[{index}] answers {id:?}"));
            }
            continue;
        }
        report_unanswered(&asked, &answered, &format!("messages[{index}]"), found);
        answered.clear();
        asked =
            list(&message["tool_calls"]).iter().filter_map(|call| call["id"].as_str()).collect();
    }
    report_unanswered(&asked, &answered, "the end", found);
}

fn report_unanswered(
    asked: &HashSet<&str>,
    answered: &HashSet<&str>,
    before: &str,
    found: &mut Findings,
) {
    for id in asked.difference(answered) {
        found.add(TOOL_CALLS_ANSWERED, format!("{id:?} has no answer before {before}"));
    }
}

fn request(messages: impl Into<Value>) -> Value {
    json!({"model": "gpt-5", "messages": messages.into()})
}

fn user(content: impl Into<Value>) -> Value {
    json!({"role": "user", "content": content.into()})
}

fn assistant(content: impl Into<Value>) -> Value {
    json!({"role": "assistant", "content": content.into()})
}

fn calls(calls: impl Into<Value>) -> Value {
    json!({"role": "assistant", "content": null, "tool_calls": calls.into()})
}

fn call(id: &str) -> Value {
    json!({"id": id, "type": "function", "function": {"name": "read", "arguments": "{}"}})
}

fn tool(id: &str, content: impl Into<Value>) -> Value {
    json!({"role": "tool", "tool_call_id": id, "content": content.into()})
}

/// The shortest answer to the call `id`.
fn ok(id: &str) -> Value {
    tool(id, "ok")
}

/// A round whose only call is `call`, answered under the id "c1".
fn round(call: Value) -> Value {
    request([user("hi"), calls([call]), ok("c1")])
}

/// A round whose call has the function name and the arguments given.
fn function(name: &str, arguments: impl Into<Value>) -> Value {
    let function = json!({"name": name, "arguments": arguments.into()});
    round(json!({"id": "c1", "type": "function", "function": function}))
}

fn text(text: &str) -> Value {
    json!({"type": "text", "text": text})
}

fn image() -> Value {
    json!({"type": "image_url", "image_url": {"url": "https://a.b/c.png", "detail": "low"}})
}

/// Requests known to be refused, each with the rule it breaks.
#[rustfmt::skip] // A table reads best with one request a line.
pub(crate) fn rejected() -> Vec<(&'static str, Value)> {
    let hi = || user("hi");
    let none = || json!([]);
    let two = || calls([call("c1"), call("c2")]);
    let long = "c".repeat(41);
    let untyped = json!({"id": "c1", "function": {"name": "read", "arguments": "{}"}});
    let noted = json!({"name": "read", "arguments": "{}", "output": "ok"});
    let sized = json!({"url": "https://a.b/c.png", "width": 640});
    let misnamed = json!([{"type": "function", "function": {"name": "read file"}}]);
    vec![
        (MESSAGES_NOT_EMPTY, request(none())),
        (MESSAGES_NOT_EMPTY, json!({"model": "gpt-5"})),
        (ROLE_KNOWN, request([set(hi(), "role", "narrator")])),
        (ROLE_KNOWN, request([set(hi(), "role", "function")])),
        (ROLE_KNOWN, request([json!({"content": "hi"})])),
        // A session that was stopped in the middle of a call.
        (TOOL_CALLS_ANSWERED, request([hi(), calls([call("c1")])])),
        (TOOL_CALLS_ANSWERED, request([hi(), calls([call("c1")]), hi()])),
        (TOOL_CALLS_ANSWERED, request([hi(), two(), ok("c1"), hi()])),
        // The second answer comes, but only after the user spoke.
        (TOOL_CALLS_ANSWERED, request([hi(), two(), ok("c1"), hi(), ok("c2")])),
        // The assistant message was cut off the front of the window.
        (TOOL_MESSAGE_ASKED_FOR, request([ok("c1"), hi()])),
        (TOOL_MESSAGE_ASKED_FOR, request([hi(), two(), ok("c1"), ok("c2"), ok("c3")])),
        (TOOL_MESSAGE_ASKED_FOR, request([hi(), two(), ok("c1"), ok("c2"), hi(), ok("c1")])),
        (TOOL_MESSAGE_ASKED_FOR, request([hi(), json!({"role": "tool", "content": "ok"})])),
        (TOOL_CALL_ANSWERED_ONCE, request([hi(), calls([call("c1")]), ok("c1"), ok("c1")])),
        (TOOL_CALL_ANSWERED_ONCE, request([hi(), two(), ok("c1"), ok("c2"), ok("c1")])),
        (TOOL_CALL_ID, request([hi(), calls([call("")]), ok("")])),
        (TOOL_CALL_ID, request([hi(), calls([call(&long)]), ok(&long)])),
        (TOOL_CALL_IDS_DISTINCT, request([hi(), calls([call("c1"), call("c1")]), ok("c1")])),
        (
            TOOL_CALL_IDS_DISTINCT,
            request([
                hi(),
                calls([call("a"), call("b"), call("a")]),
                ok("a"),
                ok("b"),
            ]),
        ),
        (FUNCTION_NAME, function("files.read", "{}")),
        (FUNCTION_NAME, function("", "{}")),
        (FUNCTION_NAME, function(&"n".repeat(65), "{}")),
        (FUNCTION_NAME, set(request([hi()]), "tools", misnamed)),
        // Streaming stopped before the arguments were complete.
        (ARGUMENTS_OBJECT, function("read", "{\"path\": \"a")),
        (ARGUMENTS_OBJECT, function("read", "")),
        (ARGUMENTS_OBJECT, function("read", "[1]")),
        (ARGUMENTS_OBJECT, function("read", json!({"path": "a"}))),
        (TOOL_CALL_SHAPE, round(untyped)),
        (TOOL_CALL_SHAPE, round(json!({"id": "c1", "type": "function"}))),
        (TOOL_CALL_SHAPE, request([hi(), set(assistant("Hi."), "tool_calls", Value::Null)])),
        (TOOL_CALLS_NOT_EMPTY, request([hi(), set(assistant("Hi."), "tool_calls", none())])),
        (TOOL_CALLS_NOT_EMPTY, request([hi(), calls(none()), hi()])),
        (CONTENT_PRESENT, request([user(Value::Null)])),
        (CONTENT_PRESENT, request([hi(), json!({"role": "assistant"})])),
        (CONTENT_PRESENT, request([hi(), calls([call("c1")]), tool("c1", Value::Null)])),
        (ASSISTANT_NOT_EMPTY, request([hi(), assistant(""), hi()])),
        (ASSISTANT_NOT_EMPTY, request([hi(), set(assistant(""), "refusal", Value::Null)])),
        (CONTENT_SHAPE, request([user(text("hi"))])),
        (CONTENT_SHAPE, request([hi(), assistant(7)])),
        (PARTS_NOT_EMPTY, request([user(none())])),
        (PARTS_NOT_EMPTY, request([hi(), assistant(none())])),
        (PART_TYPE, request([hi(), assistant([image()])])),
        (PART_TYPE, request([hi(), calls([call("c1")]), tool("c1", [image()])])),
        (PART_TYPE, request([user([json!({"type": "tool_use", "id": "c1"})])])),
        (PART_TYPE, request([user(["hi"])])),
        (PART_SHAPE, request([user([json!({"type": "text"})])])),
        (PART_SHAPE, request([user([set(image(), "image_url", "https://a.b/c.png")])])),
        (NO_EXTRA_FIELDS, request([set(hi(), "_compacted", true)])),
        (NO_EXTRA_FIELDS, request([hi(), set(assistant("Hi."), "reasoning_content", "Greet.")])),
        (NO_EXTRA_FIELDS, request([user([set(text("hi"), "_compacted", true)])])),
        (NO_EXTRA_FIELDS, request([set(hi(), "tool_call_id", "c1")])),
        (NO_EXTRA_FIELDS, round(set(call("c1"), "index", 0))),
        (NO_EXTRA_FIELDS, round(set(call("c1"), "function", noted))),
        (NO_EXTRA_FIELDS, request([user([set(image(), "image_url", sized)])])),
    ]
}

/// Requests that are fine, so that no rule may reject too much.
pub(crate) fn accepted() -> Vec<Value> {
    let hi = || user("hi");
    vec![
        request([
            json!({"role": "system", "content": "Be brief."}),
            json!({"role": "developer", "content": [text("Be kind.")]}),
            set(hi(), "name", "ada"),
            set(assistant("Hello."), "refusal", Value::Null),
            hi(),
            hi(),
        ]),
        // Parallel calls, answered in another order, and an id used again in a later round.
        request([
            hi(),
            calls([call("c1"), call("c2")]),
            ok("c2"),
            ok("c1"),
            set(calls([call("c1")]), "content", ""),
            tool("c1", [text("ok")]),
            assistant([text("Done.")]),
        ]),
        // The content of a calling message may be left out, and an answer may be empty.
        request([
            hi(),
            json!({"role": "assistant", "tool_calls": [call("c1")]}),
            set(tool("c1", ""), "name", "read"),
        ]),
        request([user([text("What is this?"), image()])]),
        // The longest id and the longest name there may be.
        request([user("hi"), calls([call(&"c".repeat(40))]), ok(&"c".repeat(40))]),
        function(&"n".repeat(64), "{\"path\": \"a\"}"),
    ]
}
