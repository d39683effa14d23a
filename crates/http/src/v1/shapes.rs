//! The shapes of responses, for the OpenAPI document. The responses themselves are written by types
//! that all interfaces share; a test compares the two.

#![expect(dead_code, reason = "these describe what other types write")]

use std::collections::BTreeMap;

use serde_json::Value;
use utoipa::ToSchema;
use uuid::Uuid;

/// A preset for building the context.
#[derive(ToSchema)]
#[schema(rename_all = "lowercase")]
pub(crate) enum Preset {
    Chat,
    Editor,
    Emacs,
    Cli,
    Bot,
}

/// The role of a message.
#[derive(ToSchema)]
#[schema(rename_all = "lowercase")]
pub(crate) enum Role {
    System,
    User,
    Assistant,
    Tool,
}

/// One event of a stream.
#[derive(ToSchema)]
pub(crate) struct Event {
    /// One line of JSON.
    #[schema(content_media_type = "application/json")]
    data: String,
}

/// A session: its stored fields, and totals of its log.
#[derive(ToSchema)]
pub(crate) struct Session {
    id: Uuid,
    /// Its readable id, such as `simple_sally_20251230_112153`. It never changes.
    readable_id: Option<String>,
    name: String,
    /// How clients find it.
    keys: Vec<String>,
    agent: Option<String>,
    /// The agent's file.
    agent_path: Option<String>,
    workspace: Option<String>,
    /// The session it came from.
    parent: Option<Uuid>,
    /// RFC 3339, UTC, milliseconds.
    created_at: String,
    last_activity_at: String,
    /// Messages of the user, the assistant and tools.
    messages: u64,
    /// Turns.
    queries: u64,
    first_message: String,
    tokens: u64,
    archived: bool,
    description: Option<String>,
    provider: Option<String>,
    model: Option<String>,
    /// A few words about its topic.
    title: Option<String>,
    /// `chat`, `imported`, `recorded`, `subagent`, or a kind from a newer version.
    kind: String,
    /// The program it comes from.
    source: Option<String>,
    /// What each model was charged since the session was started, by `provider/model`.
    usage: BTreeMap<String, ModelUsage>,
    /// When it was deleted; null unless it is in the trash.
    deleted_at: Option<String>,
}

/// What a model was charged: input, output, cache read and cache write tokens, and milliseconds.
#[derive(ToSchema)]
pub(crate) struct ModelUsage {
    input: u64,
    output: u64,
    cache_read: u64,
    cache_write: u64,
    ms: u64,
}

/// One session.
#[derive(ToSchema)]
pub(crate) struct OneSession {
    session: Session,
}

/// A page of sessions, newest activity first.
#[derive(ToSchema)]
pub(crate) struct Sessions {
    sessions: Vec<Session>,
    /// The cursor of the next page; null at the end.
    next: Option<String>,
    /// Sessions whose header cannot be read.
    damaged: Option<Vec<Uuid>>,
}

/// The sessions in the trash.
#[derive(ToSchema)]
pub(crate) struct Trash {
    sessions: Vec<Session>,
}

/// What was erased.
#[derive(ToSchema)]
pub(crate) struct Emptied {
    erased: u64,
    /// Sessions that were skipped because a turn is running in them.
    in_use: u64,
}

/// An entry: `seq`, `at`, `id` and `kind`, and the fields of its kind.
#[derive(ToSchema)]
pub(crate) struct Entry {
    seq: u64,
    at: String,
    id: String,
    /// `message`, `finished`, `round_limit`, `summary`, `restored`, `started`, `cleared`, `undone`,
    /// `left_out`, `file_changed`, `lost` for an entry that cannot be read, or a kind that this
    /// version does not know.
    kind: String,
}

/// A run of entries.
#[derive(ToSchema)]
pub(crate) struct Entries {
    entries: Vec<Entry>,
    /// The entry to continue from; null at the end.
    next: Option<u64>,
    /// How many entries the session has.
    head: u64,
}

/// The positions of messages that are now on disk.
#[derive(ToSchema)]
pub(crate) struct Appended {
    session: Uuid,
    seqs: Vec<u64>,
    head: u64,
}

/// A finished turn.
#[derive(ToSchema)]
pub(crate) struct Turn {
    session: Session,
    answer: String,
    /// `answered`, `round_limit`, `repeated`, `stopped` or `client_calls`.
    end: String,
    rounds: u32,
    usage: Value,
    ms: u64,
    /// The calls of the client's tools that the turn waits for: `id`, `tool` and `args`.
    calls: Vec<Value>,
    /// The entries of the turn.
    entries: Vec<Entry>,
}

/// What a model would be sent.
#[derive(ToSchema)]
pub(crate) struct Context {
    policy: String,
    model: String,
    tokens: u64,
    hash: String,
    messages: Vec<Value>,
    cuts: Vec<Value>,
    /// What sending it costs: `tokens` of what was `said`, the `tools` that are sent as well, the
    /// `cache` of the provider (`warm` with `until`, `cold` with `since`, `too_short`, `unsent` or
    /// `none`), and `dollars`.
    next_call: Value,
    /// One line per message, and what was cut and why; only if `explain` was set.
    explain: Option<String>,
}

/// Statistics of a session, as printed by `rethread stats SESSION --json`.
#[derive(ToSchema)]
pub(crate) struct Stats {
    session: Uuid,
    agent: Option<String>,
    agent_path: Option<String>,
    /// Messages by role.
    messages: Value,
    queries: u64,
    tokens: u64,
    usage: Value,
    ms: u64,
    from_running_totals: u64,
    /// What was charged for each model.
    models: Value,
    /// In dollars, if the price is known.
    cost: Option<Value>,
    restoration: Option<Value>,
    /// Calls, errors and tokens of each tool.
    tools: Value,
    /// The next context.
    context: Value,
    /// What contexts cost compared with sending everything; rewrites, cold starts and recalls.
    economy: Value,
}

/// A session that continues from a summary.
#[derive(ToSchema)]
pub(crate) struct ContinuedSession {
    from: Uuid,
    session: Session,
    before: u64,
    after: u64,
    carried: Value,
    summary: Value,
    acknowledgment: String,
}

/// What compacting would save.
#[derive(ToSchema)]
pub(crate) struct Preview {
    before: u64,
    after: u64,
    carried: u64,
}

/// What was undone.
#[derive(ToSchema)]
pub(crate) struct Undone {
    /// `delete`, `clear`, `new`, `fork`, `compact` or `resume`.
    undone: String,
    session: Uuid,
    back_to: Option<Uuid>,
    archived: Option<bool>,
}

/// The position of a clear.
#[derive(ToSchema)]
pub(crate) struct Cleared {
    session: Uuid,
    seq: u64,
}

/// Search hits.
#[derive(ToSchema)]
pub(crate) struct Hits {
    hits: Vec<Hit>,
    /// `skip` of the next page; null at the end.
    next: Option<u64>,
}

/// An entry that matches.
#[derive(ToSchema)]
pub(crate) struct Hit {
    session: Uuid,
    name: String,
    title: Option<String>,
    workspace: Option<String>,
    seq: u64,
    /// When it was said.
    at: String,
    /// The speaker: `user`, `assistant`, `tool` or `system`.
    from: String,
    /// The text around the match, on one line.
    snippet: String,
    /// The matches in the snippet: the index of the first character of each, and of the one after
    /// its end.
    marks: Vec<[u64; 2]>,
}

/// The available agents.
#[derive(ToSchema)]
pub(crate) struct Agents {
    agents: Vec<Agent>,
}

/// An agent.
#[derive(ToSchema)]
pub(crate) struct Agent {
    name: String,
    description: String,
    path: String,
    model: Option<String>,
    tools: Option<Vec<String>>,
    policy: Option<String>,
}

/// Whether a turn was stopped.
#[derive(ToSchema)]
pub(crate) struct Stopped {
    stopped: bool,
}

/// A key and its session.
#[derive(ToSchema)]
pub(crate) struct Bound {
    key: String,
    session: Session,
}

/// The state of the server.
#[derive(ToSchema)]
pub(crate) struct Status {
    /// `ok`, or `ready`.
    status: String,
}
