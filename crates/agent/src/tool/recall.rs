//! `recall`: reads back what the context left out, verbatim.

use rethread_core::entry::{Body, Entry, Origin};
use rethread_core::limits::READ_ENTRIES;
use rethread_core::message::{Message, ToolResult};
use rethread_core::sessions::{Error, SelectError};
use rethread_core::{Role, SessionId, Sessions};
use serde::Deserialize;
use serde_json::json;

use super::input::{arguments, schema};
use super::limits::{
    RECALL_CHARS, RECALL_CHARS_MAX, RECALL_ENTRIES_MAX, RECALL_PARENTS_MAX, RECALL_REFERENCES_MAX,
};
use super::{Spec, Tool, ToolContext, ToolFailure};

/// Reads the original of a stub, a truncated result or an old message from the log.
pub struct Recall;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Input {
    #[serde(rename = "ref")]
    reference: Reference,
    #[serde(default)]
    offset: u64,
    limit: Option<u64>,
}

/// Models write `"42"`, and sometimes `42`, or a list of them.
#[derive(Deserialize)]
#[serde(untagged)]
enum Reference {
    Text(String),
    Seq(u64),
    Several(Vec<Reference>),
}

impl Reference {
    /// As one text, several separated by commas.
    fn text(self) -> String {
        match self {
            Reference::Text(text) => text,
            Reference::Seq(seq) => seq.to_string(),
            Reference::Several(all) => {
                all.into_iter().map(Reference::text).collect::<Vec<_>>().join(", ")
            }
        }
    }
}

impl Tool for Recall {
    fn spec(&self) -> Spec {
        Spec {
            name: "recall".into(),
            description:
                "Returns verbatim what was cut in this conversation or said in an earlier session. \
                 If a result says `[lines 38-74 cut; recall 42]`, `42#38-74` returns just those \
                 lines, which is cheaper than all of it or running the tool again."
                    .into(),
            input: schema(
                json!({
                    "ref": {"type": ["string", "integer", "array"], "items": {"type": ["string", "integer"]}, "description": "The `ref` of a cut result or of a search result (`42`, `0194a2b3:42`), or the id of a tool call. `42#38-74` is only its lines 38 to 74. Several are separated by commas: `42#38-74, 57#1-20`."},
                    "offset": {"type": "integer", "description": "Characters to skip."},
                    "limit": {"type": "integer", "description": "Characters to return: by default 8,000, at most 32,000."},
                }),
                &["ref"],
            ),
        }
    }

    fn changes(&self) -> bool {
        false
    }

    fn run(&self, input: &str, tool_context: &ToolContext) -> Result<String, ToolFailure> {
        let input: Input = arguments(&self.spec().input, input)?;
        let text = all(&input.reference.text(), tool_context)?;
        let limit = input.limit.unwrap_or(RECALL_CHARS).clamp(1, RECALL_CHARS_MAX);
        page(&text, input.offset, limit)
    }
}

/// The texts of all references in a list. A single one is returned as it is; several each get a
/// heading with their reference.
fn all(list: &str, tool_context: &ToolContext) -> Result<String, ToolFailure> {
    let references = split(list);
    match references.as_slice() {
        [] => Err(ToolFailure("`ref` is empty; it is the `ref` of a cut, such as `42`".into())),
        [one] => lines_of(one, tool_context),
        several if several.len() > RECALL_REFERENCES_MAX => Err(ToolFailure(format!(
            "{} references; at most {RECALL_REFERENCES_MAX} at once",
            several.len()
        ))),
        several => {
            let texts = several
                .iter()
                .map(|one| lines_of(one, tool_context).map(|text| format!("[{one}]\n{text}")));
            Ok(texts.collect::<Result<Vec<_>, _>>()?.join("\n\n"))
        }
    }
}

/// The references of a list. In `42#1-20, 38-74` the second range is of the same result.
fn split(list: &str) -> Vec<String> {
    let mut all: Vec<String> = Vec::new();
    for part in list.split(',').map(str::trim).filter(|part| !part.is_empty()) {
        let is_range = part.contains('-') && part.bytes().all(|b| b.is_ascii_digit() || b == b'-');
        let last = all.last().and_then(|last| last.rsplit_once('#'));
        let one = match last.filter(|_| is_range) {
            Some((one, _)) => format!("{one}#{part}"),
            None => part.to_owned(),
        };
        all.push(one);
    }
    all
}

/// The text of a reference, or the lines of it that are selected after a `#`; `38-` is all from line
/// 38 on.
fn lines_of(reference: &str, tool_context: &ToolContext) -> Result<String, ToolFailure> {
    let Some((one, range)) = reference.rsplit_once('#') else {
        return original(reference, tool_context);
    };
    let number = |text: &str| text.trim().parse::<usize>().ok().filter(|number| *number > 0);
    let (first, last) = range.split_once('-').unwrap_or((range, range));
    let last = if last.trim().is_empty() { Some(usize::MAX) } else { number(last) };
    let (Some(first), Some(last)) = (number(first), last) else {
        return Err(ToolFailure(format!("`{range}` is not a range of lines such as `38-74`")));
    };
    let text = original(one.trim(), tool_context)?;
    let total = text.lines().count();
    if first > last || first > total {
        return Err(ToolFailure(format!("`{one}` has {total} lines; there are no lines {range}")));
    }
    Ok(text
        .lines()
        .skip(first - 1)
        .take((last - first).saturating_add(1))
        .collect::<Vec<_>>()
        .join("\n"))
}

/// A part of a text, counted in characters, and where to continue.
fn page(text: &str, offset: u64, limit: u64) -> Result<String, ToolFailure> {
    let total = text.chars().count() as u64;
    if offset > 0 && offset >= total {
        return Err(ToolFailure(format!("`offset` is {offset}, but there are {total} characters")));
    }
    let part: String = text.chars().skip(offset as usize).take(limit as usize).collect();
    let end = total.min(offset + limit);
    Ok(match (offset, end == total) {
        (0, true) => part,
        (_, true) => format!("{part}\n[characters {}-{end} of {total}]", offset + 1),
        (_, false) => {
            let from = offset + 1;
            format!("{part}\n[characters {from}-{end} of {total}; recall with offset={end}]")
        }
    })
}

/// The whole text of a reference.
fn original(reference: &str, tool_context: &ToolContext) -> Result<String, ToolFailure> {
    if let Some(place) = in_log(reference) {
        return entry(tool_context, tool_context.session, place);
    }
    if let Some((id, place)) = reference.split_once(':')
        && let Some(place) = in_log(place)
        && id.len() >= 8
        && id.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-')
    {
        return entry(tool_context, other(id, tool_context)?, place);
    }
    call(reference, tool_context)
}

/// An entry, or one of several results in it: `42`, or `42.2` for the second.
fn in_log(text: &str) -> Option<(u64, Option<usize>)> {
    let Some((seq, result)) = text.split_once('.') else { return Some((text.parse().ok()?, None)) };
    let result = result.parse::<usize>().ok()?.checked_sub(1)?;
    Some((seq.parse().ok()?, Some(result)))
}

/// The session a reference names. Ids that begin alike were started within the same minute, as a
/// child and its parent may be: then a session that was compacted into this one is meant, because
/// the view refers to those; or else the one it was forked from, and those before.
fn other(id: &str, tool_context: &ToolContext) -> Result<SessionId, ToolFailure> {
    match tool_context.sessions.select(id) {
        Err(Error::Select(SelectError::Several { .. })) => {
            let digits = id.replace('-', "").to_lowercase();
            let fits = |id: &SessionId| id.0.simple().to_string().starts_with(&digits);
            let all = parents(tool_context);
            let sessions = all.iter().filter_map(|id| tool_context.sessions.get(*id).ok());
            let parents = sessions.filter_map(|session| session.header.parent);
            let continued = parents.filter(|parent| parent.origin != Origin::Fork);
            let mut likely = continued.map(|parent| parent.id).chain(all[1..].iter().copied());
            likely.find(fits).ok_or_else(|| {
                ToolFailure(format!("several sessions begin with `{id}`; give more of the id"))
            })
        }
        other => other.map_err(|error| ToolFailure(error.to_string())),
    }
}

/// This session and its ancestors, nearest first.
fn parents(tool_context: &ToolContext) -> Vec<SessionId> {
    let mut chain = vec![tool_context.session];
    while chain.len() <= RECALL_PARENTS_MAX
        && let Some(last) = chain.last()
        && let Ok(session) = tool_context.sessions.get(*last)
        && let Some(parent) = session.header.parent.filter(|parent| !chain.contains(&parent.id))
    {
        chain.push(parent.id);
    }
    chain
}

fn entry(
    tool_context: &ToolContext,
    id: SessionId,
    (seq, result): (u64, Option<usize>),
) -> Result<String, ToolFailure> {
    let sessions = &tool_context.sessions;
    match (read(sessions, id, seq..seq.saturating_add(1))?.pop(), result) {
        (Some(entry), Some(result)) => {
            let mut results = entry.body.message().into_iter().flat_map(Message::results);
            results.nth(result).map(ToolResult::text).ok_or_else(|| {
                ToolFailure(format!("entry {seq} has no result {}", result.saturating_add(1)))
            })
        }
        // They do not apply here, and would be taken for what someone said.
        (Some(entry), None) if id != tool_context.session && is_instructions(&entry.body) => {
            Err(ToolFailure(format!("entry {seq} holds the instructions of that session")))
        }
        (Some(entry), None) => said(&entry.body).ok_or_else(|| {
            let kind = entry.body.kind();
            ToolFailure(format!("nothing is said in entry {seq}, which is of the kind `{kind}`"))
        }),
        (None, _) => {
            let entries = sessions.get(id).map_or(0, |session| session.tally.entries);
            Err(ToolFailure(format!("there is no entry {seq}; the session has {entries}")))
        }
    }
}

fn read(
    sessions: &Sessions,
    id: SessionId,
    range: std::ops::Range<u64>,
) -> Result<Vec<Entry>, ToolFailure> {
    sessions.read(id, range).map_err(|error| ToolFailure(error.to_string()))
}

fn is_instructions(body: &Body) -> bool {
    body.message().is_some_and(|message| message.role == Role::System)
}

/// The text of an entry: complete results, or the texts, or the calls if there is nothing else.
fn said(body: &Body) -> Option<String> {
    let text = match body {
        Body::Message(message) => of_message(message),
        Body::Summary(summary) => summary.text.clone(),
        Body::Restored(restored) => format!("{}\n\n{}", restored.prompt, restored.acknowledgment),
        _ => return None,
    };
    (!text.is_empty()).then_some(text)
}

fn of_message(message: &Message) -> String {
    let results: Vec<String> = message.results().map(|result| result.text()).collect();
    if !results.is_empty() {
        return results.join("\n\n");
    }
    let text = message.plain_text();
    if !text.is_empty() {
        return text;
    }
    let calls = message.calls().map(|call| format!("{} {}", call.name, call.input.get()));
    calls.collect::<Vec<_>>().join("\n")
}

/// The result of a call, searched backwards from the end of this log, then in its ancestors.
fn call(id: &str, tool_context: &ToolContext) -> Result<String, ToolFailure> {
    let mut called = false;
    for session in parents(tool_context) {
        let Ok(head) = tool_context.sessions.get(session) else { break };
        let end = head.tally.entries;
        for entry in tool_context
            .sessions
            .entries(session, end.saturating_sub(RECALL_ENTRIES_MAX)..end)
            .rev()
        {
            if tool_context.stop.is_cancelled() {
                return Err(ToolFailure("stopped".into()));
            }
            let entry = entry.map_err(|error| ToolFailure(error.to_string()))?;
            let Some(message) = entry.body.message() else { continue };
            if let Some(result) = message.results().find(|result| result.tool_use_id == id) {
                return Ok(result.text());
            }
            called |= message.calls().any(|call| call.id == id);
        }
    }
    if let Some(text) = renamed(id, tool_context)? {
        return Ok(text);
    }
    Err(ToolFailure(match called {
        true => format!("the call `{id}` has no result"),
        false => format!(
            "`{id}` is neither an entry (`42`), nor an entry of another session (`0194a2b3:42`), \
             nor the id of a call in this session or those before it"
        ),
    }))
}

/// The result of a call that got another id in the view, because its own was invalid or not unique:
/// `call_<seq>_<index>`, with the position of its reply.
fn renamed(id: &str, tool_context: &ToolContext) -> Result<Option<String>, ToolFailure> {
    let mut numbers = id.strip_prefix("call_").into_iter().flat_map(|rest| rest.split('_'));
    let mut number = || numbers.next().and_then(|number| number.parse::<u64>().ok());
    let (Some(seq), Some(index)) = (number(), number()) else { return Ok(None) };
    let entries =
        read(&tool_context.sessions, tool_context.session, seq..seq.saturating_add(READ_ENTRIES))?;
    let mut said = entries.iter().filter_map(|entry| entry.body.message());
    let call = said.next().and_then(|reply| reply.calls().nth(usize::try_from(index).ok()?));
    let Some(call) = call else { return Ok(None) };
    let mut results = said.flat_map(Message::results);
    Ok(results.find(|result| result.tool_use_id == call.id).map(|result| result.text()))
}
