//! What `POST /v1/messages` accepts, from the Claude documentation and error texts.
//!
//! "Reference" below is "Create a Message" at platform.claude.com, `/docs/en/api/messages`, as
//! also printed in the types of anthropics/anthropic-sdk-python (`message_create_params.py` and
//! the `…_block_param.py` files). Other pages are named by title and path on the same host.
//! Error texts are quoted as reported in the named GitHub thread.
//!
//! Consecutive messages of one role are accepted, because the reference says they are combined
//! into one turn. Calls and results are nevertheless matched message by message, as the error
//! texts word it, so that a context does not depend on the combining.

use std::collections::HashSet;

use serde_json::{Value, json};

use super::{Findings, Violation, is_plain_name, list, set};

define_rules! {
    /// A request carries at least one message.
    /// Error "at least one message is required" (langchain-ai/langchain#31696).
    MESSAGES_NOT_EMPTY = "messages_not_empty";

    /// The first message is the user's.
    /// Error "messages: first message must use the "user" role" (lobehub/lobehub#1601). At the
    /// end of 2024 api.anthropic.com was seen to take an assistant message there while Bedrock
    /// refused it (anthropics/anthropic-sdk-typescript#622); a context has to work on both.
    FIRST_IS_USER = "first_is_user";

    /// A message's role is user or assistant; the system prompt is a parameter of its own.
    /// Reference; error "Unexpected role "system". The Messages API accepts a top-level `system`
    /// parameter" (aaronrussell/anthropix#2). Claude Opus 4.8 and later take system messages after
    /// a user turn ("Mid-conversation system messages",
    /// `/docs/en/build-with-claude/mid-conversation-system-messages`), older models do not.
    ROLE_KNOWN = "role_known";

    /// Content is a string or an array of blocks.
    /// Reference (`MessageParam.content`).
    CONTENT_SHAPE = "content_shape";

    /// Content is not empty.
    /// Error "all messages must have non-empty content except for the optional final assistant
    /// message" (anthropics/claude-code#6774); the exception is a prefill, see `ENDS_WITH_USER`.
    CONTENT_NOT_EMPTY = "content_not_empty";

    /// A text block, or the string in its place, contains something other than whitespace.
    /// Errors "text content blocks must be non-empty" (anthropics/claude-code#53473) and "text
    /// content blocks must contain non-whitespace text" (anthropics/claude-code#23440). It holds
    /// inside a tool result as well (experientiallabs/experiential#799).
    TEXT_NOT_BLANK = "text_not_blank";

    /// Where the last message is the assistant's, its text does not end in whitespace.
    /// Error "messages: final assistant content cannot end with trailing whitespace"
    /// (tailcallhq/forgecode#1872). Earlier assistant messages are not concerned.
    NO_TRAILING_WHITESPACE = "no_trailing_whitespace";

    /// The last message is the user's.
    /// "Migration guide", `/docs/en/about-claude/models/migration-guide` ("Prefilling assistant
    /// messages returns a 400 error on Claude 4.6 models"); error "This model does not support
    /// assistant message prefill. The conversation must end with a user message"
    /// (cortexkit/magic-context#511). The reference still describes prefilling, for older models.
    ENDS_WITH_USER = "ends_with_user";

    /// Every `tool_use` has its `tool_result` in the very next message.
    /// "Handle tool calls", `/docs/en/agents-and-tools/tool-use/handle-tool-calls`; error
    /// "`tool_use` ids were found without `tool_result` blocks immediately after"
    /// (anthropics/claude-code#8210).
    TOOL_USE_ANSWERED = "tool_use_answered";

    /// In a message with results, the results come before everything else.
    /// "Handle tool calls" (text before a `tool_result` "will cause a 400 error").
    TOOL_RESULT_FIRST = "tool_result_first";

    /// Every `tool_result` answers a `tool_use` of the message right before.
    /// Error "unexpected `tool_use_id` found in `tool_result` blocks … Each `tool_result` block
    /// must have a corresponding `tool_use` block in the previous message"
    /// (anthropics/claude-code#18947).
    TOOL_RESULT_ASKED_FOR = "tool_result_asked_for";

    /// A `tool_use` is answered once.
    /// Error "each tool_use must have a single result. Found multiple `tool_result` blocks with id"
    /// (quoted by many clients; RooCodeInc/Roo-Code#9248 reports the same 400).
    TOOL_RESULT_ONCE = "tool_result_once";

    /// No two `tool_use` blocks of a request share an id, not even in different messages.
    /// Error "messages.43.content.2: `tool_use` ids must be unique" (anthropics/claude-code#28515).
    TOOL_USE_ID_UNIQUE = "tool_use_id_unique";

    /// The ids of calls and results match `^[a-zA-Z0-9_-]+$`.
    /// Error "tool_use.id: String should match pattern '^[a-zA-Z0-9_-]+$'"
    /// (BlockRunAI/ClawRouter#17; QwenLM/qwen-code#8160 for results and the empty id).
    TOOL_ID_PATTERN = "tool_id_pattern";

    /// A tool's name matches `^[a-zA-Z0-9_-]{1,128}$`.
    /// "Define tools", `/docs/en/agents-and-tools/tool-use/define-tools`. Older versions of
    /// the page and of the error text say 64 (modelcontextprotocol/typescript-sdk#413); the error
    /// text of today says 128 (modelcontextprotocol/modelcontextprotocol#1345).
    TOOL_NAME_PATTERN = "tool_name_pattern";

    /// The input of a `tool_use` is an object.
    /// Error "tool_use.input: Input should be a valid dictionary" (anthropics/claude-code#6696).
    TOOL_INPUT_OBJECT = "tool_input_object";

    /// The content of a `tool_result` is left out, a string, or a list of text, image, document or
    /// search result blocks.
    /// "Handle tool calls"; error "tool_result.content.0: Input tag 'thinking' … does not match any
    /// of the expected tags" (langchain-ai/deepagentsjs#245).
    TOOL_RESULT_CONTENT = "tool_result_content";

    /// A `thinking` block has its text, possibly empty, and its signature; a `redacted_thinking`
    /// block has its data.
    /// "Extended thinking", `/docs/en/build-with-claude/extended-thinking`; errors
    /// "thinking.signature: Field required" (lbjlaq/Antigravity-Manager#1650) and
    /// "thinking.thinking: Field required" (LibreChat-AI/agents#279).
    THINKING_COMPLETE = "thinking_complete";

    /// An assistant message with thinking in it begins with thinking. Further thinking between the
    /// blocks that follow is allowed, as interleaved thinking produces it.
    /// Error "If an assistant message contains any thinking blocks, the first block must be
    /// thinking or redacted_thinking" (anthropics/claude-code#20705).
    THINKING_FIRST = "thinking_first";

    /// An assistant message does not end with thinking, as a reply that was cut short would.
    /// Error "The final block in an assistant message cannot be `thinking`"
    /// (tailcallhq/forgecode#2107). Redacted thinking is taken to be the same.
    THINKING_NOT_LAST = "thinking_not_last";

    /// With `thinking.type` "enabled", the turn being continued begins with thinking. A turn lasts
    /// from a user message without results to the end of the request.
    /// Error "When `thinking` is enabled, a final `assistant` message must start with a thinking
    /// block (preceeding the lastmost set of `tool_use` and `tool_result` blocks)"
    /// (anomalyco/opencode#3077). "Adaptive thinking",
    /// `/docs/en/build-with-claude/adaptive-thinking`, lifts this for the type "adaptive".
    THINKING_STARTS_TURN = "thinking_starts_turn";

    /// Calls and thinking are the assistant's; results and images are the user's.
    /// Errors "`tool_use` blocks can only be in `assistant` messages" (quoted by several clients),
    /// "`tool_result` blocks can only be in `user` messages" (tghamm/Anthropic.SDK#128) and
    /// "'image' blocks are not permitted within assistant turns" (SEMOSS/Semoss#2323).
    BLOCK_ROLE = "block_role";

    /// A block is of a known type.
    /// Error "Input tag '…' found using 'type' does not match any of the expected tags"
    /// (langchain-ai/deepagentsjs#245). Blocks of server-side tools exist but have pairing rules of
    /// their own that are not written here, so they are reported rather than waved through.
    BLOCK_TYPE = "block_type";

    /// Nothing carries a field the reference does not list for it.
    /// Error "tool_use.index: Extra inputs are not permitted" (langchain-ai/langchain#31208).
    NO_EXTRA_FIELDS = "no_extra_fields";

    /// An image has a base64 source of one of four media types, a url, or a file id.
    /// "Vision", `/docs/en/build-with-claude/vision`, and the reference (`ImageBlockParam`).
    IMAGE_SOURCE = "image_source";

    /// The system prompt is left out, a string, or a list of text blocks, and is not blank.
    /// Reference; errors "system: text content blocks must contain non-whitespace text"
    /// (BoltAI/BoltAI#165) and, for an empty block, "system.1: cache_control cannot be set for
    /// empty text blocks" (vellum-ai/vellum-assistant#30712).
    SYSTEM_PROMPT = "system_prompt";
}

/// Everything in `request` that the endpoint refuses.
pub(crate) fn check(request: &Value) -> Vec<Violation> {
    let mut found = Findings::default();
    check_system(request, &mut found);
    for (index, tool) in list(&request["tools"]).iter().enumerate() {
        // A tool with a type other than "custom" is Anthropic's own and may have no name.
        let own = tool.get("type").is_none_or(|kind| kind == "custom");
        if own && !is_tool_name(&tool["name"]) {
            found.add(TOOL_NAME_PATTERN, format!("tools.{index} is named {}", tool["name"]));
        }
    }
    let messages = list(&request["messages"]);
    let Some(last) = messages.last() else {
        found.add(MESSAGES_NOT_EMPTY, "messages has no element".to_owned());
        return found.0;
    };
    if messages[0]["role"] != "user" {
        found.add(FIRST_IS_USER, format!("messages.0 is from {}", messages[0]["role"]));
    }
    for (index, message) in messages.iter().enumerate() {
        check_message(&format!("messages.{index}"), message, &mut found);
    }
    check_last(last, &mut found);
    check_results(messages, &mut found);
    if request["thinking"]["type"] == "enabled" {
        check_turn_start(messages, &mut found);
    }
    found.0
}

fn is_tool_name(name: &Value) -> bool {
    name.as_str().is_some_and(|name| is_plain_name(name, 128))
}

fn is_blank(text: &Value) -> bool {
    text.as_str().is_none_or(|text| text.trim().is_empty())
}

fn is_thinking(block: &Value) -> bool {
    block["type"] == "thinking" || block["type"] == "redacted_thinking"
}

/// The values under `key` in the blocks of `message` that are of type `kind`.
fn ids<'a>(message: &'a Value, kind: &str, key: &str) -> Vec<&'a str> {
    let blocks = list(&message["content"]).iter().filter(|block| block["type"] == *kind);
    blocks.map(|block| block[key].as_str().unwrap_or_default()).collect()
}

fn check_system(request: &Value, found: &mut Findings) {
    match request.get("system") {
        None => {}
        Some(Value::Array(blocks)) if !blocks.is_empty() => {
            for (index, block) in blocks.iter().enumerate() {
                let at = format!("system.{index}");
                if block["type"] != "text" || is_blank(&block["text"]) {
                    found.add(SYSTEM_PROMPT, format!("{at} is {block}"));
                }
                found.extra_keys(NO_EXTRA_FIELDS, &at, block, fields_of("text"));
            }
        }
        Some(text) if !is_blank(text) => {}
        Some(other) => found.add(SYSTEM_PROMPT, format!("system is {other}")),
    }
}

fn check_message(at: &str, message: &Value, found: &mut Findings) {
    let role = message["role"].as_str().unwrap_or_default();
    if role != "user" && role != "assistant" {
        found.add(ROLE_KNOWN, format!("{at} has the role {}", message["role"]));
    }
    found.extra_keys(NO_EXTRA_FIELDS, at, message, &["role", "content"]);
    let blocks = match &message["content"] {
        Value::String(text) if text.is_empty() => &[],
        Value::String(text) => {
            if text.trim().is_empty() {
                found.add(TEXT_NOT_BLANK, format!("{at}.content is blank"));
            }
            return;
        }
        Value::Array(blocks) => blocks.as_slice(),
        other => {
            found.add(CONTENT_SHAPE, format!("{at}.content is {other}"));
            return;
        }
    };
    if blocks.is_empty() {
        found.add(CONTENT_NOT_EMPTY, format!("{at}.content is empty"));
    }
    for (index, block) in blocks.iter().enumerate() {
        check_block(&format!("{at}.content.{index}"), role, block, found);
    }
    if blocks.iter().any(is_thinking) && !is_thinking(&blocks[0]) {
        found.add(THINKING_FIRST, format!("{at} begins with {}", blocks[0]["type"]));
    }
    if blocks.last().is_some_and(is_thinking) {
        found.add(THINKING_NOT_LAST, format!("{at} ends with thinking"));
    }
}

/// The fields the reference lists for a type of block, and none for an unknown type.
#[rustfmt::skip] // A table reads best with one type a line.
fn fields_of(kind: &str) -> &'static [&'static str] {
    match kind {
        "text" => &["type", "text", "cache_control", "citations"],
        "image" => &["type", "source", "cache_control"],
        "document" => &["type", "source", "title", "context", "citations", "cache_control"],
        "search_result" => &["type", "source", "title", "content", "citations", "cache_control"],
        "tool_use" => &["type", "id", "name", "input", "cache_control", "caller", "toolset_name"],
        "tool_result" => &["type", "tool_use_id", "content", "is_error", "cache_control"],
        "thinking" => &["type", "thinking", "signature"],
        "redacted_thinking" => &["type", "data"],
        _ => &[],
    }
}

fn check_block(at: &str, role: &str, block: &Value, found: &mut Findings) {
    let kind = block["type"].as_str().unwrap_or_default();
    let fields = fields_of(kind);
    if fields.is_empty() {
        found.add(BLOCK_TYPE, format!("{at} has the type {}", block["type"]));
        return;
    }
    found.extra_keys(NO_EXTRA_FIELDS, at, block, fields);
    let author = match kind {
        "tool_use" | "thinking" | "redacted_thinking" => "assistant",
        "tool_result" | "image" => "user",
        _ => role,
    };
    if role != author {
        found.add(BLOCK_ROLE, format!("{at} is a {kind} block from {role}"));
    }
    match kind {
        "text" if is_blank(&block["text"]) => {
            found.add(TEXT_NOT_BLANK, format!("{at}.text is {}", block["text"]));
        }
        "image" => check_image(at, &block["source"], found),
        "tool_use" => {
            check_tool_id(at, &block["id"], found);
            if !is_tool_name(&block["name"]) {
                found.add(TOOL_NAME_PATTERN, format!("{at} calls {}", block["name"]));
            }
            if !block["input"].is_object() {
                found.add(TOOL_INPUT_OBJECT, format!("{at}.input is {}", block["input"]));
            }
        }
        "tool_result" => {
            check_tool_id(at, &block["tool_use_id"], found);
            check_result_content(at, block.get("content"), found);
        }
        "thinking" => {
            let signed = block["signature"].as_str().is_some_and(|text| !text.is_empty());
            if !signed || !block["thinking"].is_string() {
                found.add(THINKING_COMPLETE, format!("{at} is {block}"));
            }
        }
        "redacted_thinking" if is_blank(&block["data"]) => {
            found.add(THINKING_COMPLETE, format!("{at} is {block}"));
        }
        _ => {}
    }
}

fn check_tool_id(at: &str, id: &Value, found: &mut Findings) {
    if !id.as_str().is_some_and(|id| is_plain_name(id, usize::MAX)) {
        found.add(TOOL_ID_PATTERN, format!("{at} has the id {id}"));
    }
}

fn check_image(at: &str, source: &Value, found: &mut Findings) {
    let media = ["image/jpeg", "image/png", "image/gif", "image/webp"];
    let (good, fields): (bool, &[&str]) = match source["type"].as_str().unwrap_or_default() {
        "base64" => {
            let known = source["media_type"].as_str().is_some_and(|kind| media.contains(&kind));
            (known && !is_blank(&source["data"]), &["type", "media_type", "data"])
        }
        "url" => (!is_blank(&source["url"]), &["type", "url"]),
        "file" => (!is_blank(&source["file_id"]), &["type", "file_id"]),
        _ => (false, &["type"]),
    };
    if !good {
        found.add(IMAGE_SOURCE, format!("{at}.source is {source}"));
    }
    found.extra_keys(NO_EXTRA_FIELDS, &format!("{at}.source"), source, fields);
}

fn check_result_content(at: &str, content: Option<&Value>, found: &mut Findings) {
    match content {
        None | Some(Value::String(_)) => {}
        Some(Value::Array(blocks)) => {
            for (index, block) in blocks.iter().enumerate() {
                let at = format!("{at}.content.{index}");
                match block["type"].as_str().unwrap_or_default() {
                    // Everything in a result is on the user's side of the conversation.
                    "text" | "image" | "document" | "search_result" => {
                        check_block(&at, "user", block, found);
                    }
                    _ => found.add(TOOL_RESULT_CONTENT, format!("{at} is {block}")),
                }
            }
        }
        Some(other) => found.add(TOOL_RESULT_CONTENT, format!("{at}.content is {other}")),
    }
}

fn check_last(last: &Value, found: &mut Findings) {
    if last["role"] == "user" {
        return;
    }
    found.add(ENDS_WITH_USER, format!("the last message is from {}", last["role"]));
    let end = list(&last["content"]).last().map_or(&last["content"], |block| &block["text"]);
    if end.as_str().is_some_and(|text| text.ends_with(char::is_whitespace)) {
        found.add(NO_TRAILING_WHITESPACE, format!("the last message ends {end}"));
    }
}

/// Matches calls and results over each pair of neighbours.
fn check_results(messages: &[Value], found: &mut Findings) {
    let mut every_id = HashSet::new();
    let mut asked: Vec<&str> = Vec::new();
    for (index, message) in messages.iter().enumerate() {
        let at = format!("messages.{index}");
        let answered = ids(message, "tool_result", "tool_use_id");
        for id in asked.iter().filter(|id| !answered.contains(id)) {
            found.add(TOOL_USE_ANSWERED, format!("{id:?} has no result in {at}"));
        }
        let mut seen = HashSet::new();
        for id in answered {
            if !asked.contains(&id) {
                found.add(TOOL_RESULT_ASKED_FOR, format!("{at} answers {id:?}"));
            }
            if !seen.insert(id) {
                found.add(TOOL_RESULT_ONCE, format!("{at} answers {id:?} again"));
            }
        }
        let is_result = |block: &Value| block["type"] == "tool_result";
        if list(&message["content"]).iter().skip_while(|block| is_result(block)).any(is_result) {
            found.add(TOOL_RESULT_FIRST, format!("{at} has another block before a result"));
        }
        asked = ids(message, "tool_use", "id");
        for id in asked.iter().filter(|id| !every_id.insert(**id)) {
            found.add(TOOL_USE_ID_UNIQUE, format!("{at} uses the id {id:?} again"));
        }
    }
    for id in asked {
        found.add(TOOL_USE_ANSWERED, format!("{id:?} has no result before the end"));
    }
}

fn check_turn_start(messages: &[Value], found: &mut Findings) {
    let opens_turn = |message: &Value| {
        message["role"] == "user" && ids(message, "tool_result", "tool_use_id").is_empty()
    };
    let start = messages.iter().rposition(opens_turn).map_or(0, |index| index + 1);
    let first = messages[start..].iter().find(|message| message["role"] == "assistant");
    if let Some(message) = first
        && !list(&message["content"]).first().is_some_and(is_thinking)
    {
        found.add(THINKING_STARTS_TURN, "the turn begins without thinking".to_owned());
    }
}

fn request(messages: impl Into<Value>) -> Value {
    json!({"model": "claude-opus-4-6", "max_tokens": 1024, "messages": messages.into()})
}

fn user(content: impl Into<Value>) -> Value {
    json!({"role": "user", "content": content.into()})
}

fn assistant(content: impl Into<Value>) -> Value {
    json!({"role": "assistant", "content": content.into()})
}

fn text(text: &str) -> Value {
    json!({"type": "text", "text": text})
}

fn call(id: &str) -> Value {
    json!({"type": "tool_use", "id": id, "name": "read", "input": {}})
}

fn result(id: &str) -> Value {
    json!({"type": "tool_result", "tool_use_id": id, "content": "ok"})
}

fn thinking() -> Value {
    json!({"type": "thinking", "thinking": "Greet back.", "signature": "c2lnbmVk"})
}

fn image(media_type: &str) -> Value {
    let source = json!({"type": "base64", "media_type": media_type, "data": "AA=="});
    json!({"type": "image", "source": source})
}

/// An assistant message with `content` between two user messages.
fn reply(content: impl Into<Value>) -> Value {
    request([user("hi"), assistant(content), user("go on")])
}

/// A user message, an assistant message with `calls`, and a user message with `results`.
fn round(calls: impl Into<Value>, results: impl Into<Value>) -> Value {
    request([user("hi"), assistant(calls), user(results)])
}

/// A round with one call whose result has `content`.
fn result_with(content: impl Into<Value>) -> Value {
    round([call("t1")], [set(result("t1"), "content", content)])
}

/// A request with manual thinking switched on.
fn enabled(messages: impl Into<Value>) -> Value {
    set(request(messages), "thinking", json!({"type": "enabled", "budget_tokens": 1024}))
}

/// A request with this system prompt.
fn system(prompt: impl Into<Value>) -> Value {
    set(request([user("hi")]), "system", prompt)
}

/// Requests known to be refused, each with the rule it breaks.
#[rustfmt::skip] // A table reads best with one request a line.
pub(crate) fn rejected() -> Vec<(&'static str, Value)> {
    let hi = || user("hi");
    let none = || json!([]);
    let png = || image("image/png");
    let asks = |id: &str| assistant([call(id)]);
    let answers = |id: &str| user([result(id)]);
    // An id as Moonshot's models make them.
    let foreign = "functions.read:0";
    let unsigned = json!({"type": "thinking", "thinking": "Greet back."});
    let named = json!({"type": "url", "url": "https://a.b/c.png", "media_type": "image/png"});
    let textless = json!({"type": "thinking", "signature": "c2lnbmVk"});
    vec![
        (MESSAGES_NOT_EMPTY, request(none())),
        (MESSAGES_NOT_EMPTY, json!({"model": "claude-opus-4-6", "system": "Be brief."})),
        (FIRST_IS_USER, request([assistant("How can I help?"), hi()])),
        (FIRST_IS_USER, request([asks("t1"), answers("t1")])),
        (ROLE_KNOWN, request([set(hi(), "role", "system"), hi()])),
        (ROLE_KNOWN, request([hi(), set(hi(), "role", "tool"), hi()])),
        (CONTENT_SHAPE, request([user(Value::Null)])),
        (CONTENT_SHAPE, request([user(text("hi"))])),
        (CONTENT_NOT_EMPTY, request([user("")])),
        (CONTENT_NOT_EMPTY, reply(none())),
        (TEXT_NOT_BLANK, request([user(" \n")])),
        (TEXT_NOT_BLANK, request([user([png(), text("")])])),
        (TEXT_NOT_BLANK, round([text(" "), call("t1")], [result("t1")])),
        (TEXT_NOT_BLANK, result_with([text("")])),
        (NO_TRAILING_WHITESPACE, request([hi(), assistant("The answer is ")])),
        (NO_TRAILING_WHITESPACE, request([hi(), assistant([text("So:\n")])])),
        (ENDS_WITH_USER, request([hi(), assistant("Hello.")])),
        (ENDS_WITH_USER, request([hi(), asks("t1")])),
        // A session that was stopped in the middle of a call.
        (TOOL_USE_ANSWERED, request([hi(), asks("t1")])),
        (TOOL_USE_ANSWERED, reply([call("t1")])),
        (TOOL_USE_ANSWERED, round([call("t1"), call("t2")], [result("t1")])),
        // The result comes, but one message late.
        (TOOL_USE_ANSWERED, request([hi(), asks("t1"), hi(), answers("t1")])),
        (TOOL_RESULT_FIRST, round([call("t1")], [text("Here:"), result("t1")])),
        (TOOL_RESULT_FIRST, round([call("t1"), call("t2")], [result("t1"), png(), result("t2")])),
        // The assistant message was cut off the front of the window.
        (TOOL_RESULT_ASKED_FOR, request([user([result("t1"), text("go on")])])),
        (TOOL_RESULT_ASKED_FOR, round([call("t1")], [result("t1"), result("t9")])),
        (
            TOOL_RESULT_ASKED_FOR,
            request([
                hi(),
                asks("t1"),
                answers("t1"),
                assistant("Done."),
                answers("t1"),
            ]),
        ),
        (TOOL_RESULT_ONCE, round([call("t1")], [result("t1"), result("t1")])),
        (
            TOOL_RESULT_ONCE,
            round(
                [call("t1"), call("t2")],
                [result("t1"), result("t2"), result("t1")],
            ),
        ),
        (TOOL_USE_ID_UNIQUE, round([call("t1"), call("t1")], [result("t1")])),
        (TOOL_USE_ID_UNIQUE, request([hi(), asks("t1"), answers("t1"), asks("t1"), answers("t1")])),
        (TOOL_ID_PATTERN, request([hi(), asks(foreign), answers(foreign)])),
        (TOOL_ID_PATTERN, request([hi(), asks(""), answers("")])),
        (TOOL_ID_PATTERN, request([answers("a b")])),
        (TOOL_NAME_PATTERN, reply([set(call("t1"), "name", "files.read")])),
        (TOOL_NAME_PATTERN, reply([set(call("t1"), "name", "n".repeat(129))])),
        (TOOL_NAME_PATTERN, set(request([hi()]), "tools", json!([{"name": "read file"}]))),
        (TOOL_INPUT_OBJECT, reply([set(call("t1"), "input", "{}")])),
        (TOOL_INPUT_OBJECT, reply([set(call("t1"), "input", Value::Null)])),
        (TOOL_RESULT_CONTENT, result_with([thinking()])),
        (TOOL_RESULT_CONTENT, result_with(["ok"])),
        (TOOL_RESULT_CONTENT, result_with(json!({"ok": true}))),
        (THINKING_COMPLETE, reply([unsigned, text("Hello.")])),
        (THINKING_COMPLETE, reply([set(thinking(), "signature", ""), text("Hello.")])),
        (THINKING_COMPLETE, reply([textless, text("Hello.")])),
        (THINKING_COMPLETE, reply([json!({"type": "redacted_thinking"}), text("Hello.")])),
        (THINKING_FIRST, reply([text("Hello."), thinking(), text("How are you?")])),
        (THINKING_FIRST, round([text("Hm."), thinking(), call("t1")], [result("t1")])),
        (THINKING_NOT_LAST, reply([thinking()])),
        (THINKING_NOT_LAST, reply([thinking(), text("Hello."), thinking()])),
        (THINKING_STARTS_TURN, enabled([hi(), asks("t1"), answers("t1")])),
        (
            THINKING_STARTS_TURN,
            enabled([
                hi(),
                assistant([thinking(), text("Hello.")]),
                hi(),
                assistant([text("Let me see."), call("t1")]),
                answers("t1"),
            ]),
        ),
        (BLOCK_ROLE, request([user([thinking(), text("hi")])])),
        (BLOCK_ROLE, request([user([call("t1")])])),
        (BLOCK_ROLE, reply([png()])),
        (BLOCK_ROLE, reply([call("t1"), result("t1")])),
        (BLOCK_TYPE, request([user([json!({"type": "image_url", "image_url": {}})])])),
        (BLOCK_TYPE, reply([json!({"text": "Hello."})])),
        (BLOCK_TYPE, request([user(["hi"])])),
        (NO_EXTRA_FIELDS, request([user([set(text("hi"), "_compacted", true)])])),
        (NO_EXTRA_FIELDS, request([set(hi(), "_compacted", true)])),
        (NO_EXTRA_FIELDS, round([set(call("t1"), "index", 0)], [result("t1")])),
        (NO_EXTRA_FIELDS, result_with([set(text("ok"), "id", "x")])),
        (NO_EXTRA_FIELDS, system([set(text("Be brief."), "_compacted", true)])),
        (NO_EXTRA_FIELDS, request([user([set(thinking(), "cache_control", Value::Null)])])),
        (NO_EXTRA_FIELDS, request([user([set(png(), "source", named)])])),
        (IMAGE_SOURCE, request([user([image("image/bmp")])])),
        (IMAGE_SOURCE, result_with([set(png(), "source", "https://a.b/c.png")])),
        (SYSTEM_PROMPT, system("")),
        (SYSTEM_PROMPT, system(" \n")),
        (SYSTEM_PROMPT, system(none())),
        (SYSTEM_PROMPT, system([text("Be brief."), text("")])),
        (SYSTEM_PROMPT, system([png()])),
    ]
}

/// Requests that are fine, so that no rule may reject too much.
pub(crate) fn accepted() -> Vec<Value> {
    let hi = || user("hi");
    let redacted = json!({"type": "redacted_thinking", "data": "ZGF0YQ=="});
    let linked = json!({"type": "image", "source": {"type": "url", "url": "https://a.b/c.png"}});
    let document = json!({
        "type": "document",
        "source": {"type": "text", "media_type": "text/plain", "data": "Ada was here."},
        "title": "Note",
    });
    let failed = json!({"type": "tool_result", "tool_use_id": "t3", "is_error": true});
    vec![
        system("Be brief."),
        system([set(text("Be brief."), "cache_control", json!({"type": "ephemeral"}))]),
        // Whitespace at the end matters in the last message only.
        request([hi(), assistant("Hello. "), hi()]),
        // Messages of one role in a row are combined by the endpoint.
        request([hi(), hi(), assistant("Hello."), assistant([text("You?")]), hi()]),
        // Parallel calls, answered in another order, with a remark of the user after the results.
        request([
            hi(),
            assistant([text("Let me see."), call("t1"), call("t2")]),
            user([result("t2"), result("t1"), text("Go on."), image("image/png")]),
            assistant([call("t3")]),
            user([failed]),
            hi(),
        ]),
        result_with([text("A picture:"), image("image/webp")]),
        result_with(""),
        // The longest name there may be.
        round([set(call("t1"), "name", "n".repeat(128))], [result("t1")]),
        request([user([linked, document.clone(), text("What is this?")])]),
        result_with([document]),
        // A tool loop is one turn, so only its first message must begin with thinking, and the
        // turns before it need not have kept theirs.
        enabled([
            hi(),
            assistant("Hello."),
            hi(),
            assistant([redacted, call("t1")]),
            user([result("t1")]),
            assistant([call("t2")]),
            user([result("t2")]),
        ]),
        set(
            request([
                hi(),
                assistant([call("t1")]),
                user([result("t1")]),
                assistant([thinking(), text("First."), thinking(), call("t2")]),
                user([result("t2")]),
            ]),
            "thinking",
            json!({"type": "adaptive"}),
        ),
    ]
}
