//! The offline model: no network, no key, always the same answer.
//!
//! It works like a model, through the same loop and the same tools: it reads the messages and the
//! tools it is offered, and replies with calls or with text. It understands nothing; it picks the
//! words of a question, searches files and earlier sessions for them, reads around the best places,
//! and quotes them with their sources. Its answers say so.

mod answer;
mod evidence;
mod intent;
mod newcomer;
mod rank;
mod readme;
mod view;
mod words;

use std::hash::{Hash, Hasher};

use rethread_core::message::{BlockKind, Usage};
use rethread_core::{Block, Message, Raw, Role, tokens};
use serde_json::{Value, json};

use super::{Delta, Listener, Provider, Reply, Request};
use answer::Source;
use evidence::Evidence;
use intent::{Intent, Question};
use rank::Passage;
use view::Turn;
use words::Keywords;

/// The name of the model in logs.
pub const MODEL: &str = "offline/offline";

/// Matches requested from one search. More would not fit into the 4,000 characters of a result that
/// a context keeps.
const MATCHES: u64 = 20;

/// Files that answer no question, and would crowd out those that do; instructions for models are
/// full of what people ask about.
const NOT_THESE: &str =
    "!{*.lock,*-lock.*,*.min.*,*.svg,*.map,AGENTS.md,CLAUDE.md,**/agents/**/*.md}";

/// Words that are searched one by one; further ones only count where they are found.
const WORDS_SEARCHED: usize = 4;

/// Searches of earlier sessions.
const SEARCHES: usize = 4;

/// Places that are read before an answer is given.
const PLACES_READ: usize = 3;

/// Lines that are read around a place, and how many of them before it. They fit into a result.
const LINES_READ: u64 = 40;
const LINES_BEFORE: u64 = 12;

/// Characters of a message. They fit into a result, with the line that says where to continue.
const RECALL_CHARS: u64 = 3_500;

/// Lines of a file that was asked for by name.
const LINES_SHOWN: u64 = 60;

/// The model for those who have none yet.
#[derive(Clone, Copy, Debug, Default)]
pub struct Offline;

/// What a reply does: call tools, or say something.
enum Step {
    Call(Vec<(&'static str, Value)>),
    Say(String),
}

impl Provider for Offline {
    fn ask<'a>(&'a self, request: Request<'a>, listener: Listener<'a>) -> Reply<'a> {
        Box::pin(async move {
            let content = match next(&request) {
                Step::Say(text) => {
                    text.split_inclusive('\n').for_each(|line| listener(Delta::Text(line.into())));
                    vec![Block::text(text)]
                }
                Step::Call(calls) => {
                    let stem = fingerprint(request.messages);
                    let block = |(index, (name, input)): (usize, (&str, Value))| {
                        let id = format!("offline_{stem:016x}_{index}");
                        Block::tool_use(id, name, Raw::of(&input))
                    };
                    calls.into_iter().enumerate().map(block).collect()
                }
            };
            let mut message = Message::new(Role::Assistant, content);
            message.model = Some(MODEL.into());
            let input = request.messages.iter().map(tokens_of).sum();
            message.usage = Some(Usage { input, output: tokens_of(&message), ..Usage::default() });
            Ok(message)
        })
    }
}

/// Decides what to do next, from the conversation.
fn next(request: &Request<'_>) -> Step {
    let Some(turn) = Turn::current(request.messages) else {
        return Step::Say(answer::noted(answer::HELP, &[]));
    };
    let tools = Tools(request);
    let step = match intent::of(turn.question, turn.earlier) {
        Intent::Restore => Step::Say(answer::restored(turn.question)),
        Intent::Said(text) => Step::Say(text.into()),
        Intent::List(path) => list(&path, &turn, &tools),
        Intent::Read(path) => read(&path, &turn, &tools),
        Intent::Find(text) => find(&text, &turn, &tools),
        Intent::About => about(&turn, &tools),
        Intent::Question(question) => look_up(&question, &turn, &tools),
    };
    match step {
        Step::Say(text) => Step::Say(answer::noted(&text, turn.earlier)),
        calls => calls,
    }
}

/// The tools that are offered.
struct Tools<'a>(&'a Request<'a>);

impl Tools<'_> {
    /// Those of the calls that can be made; `None` if there are none.
    fn step(&self, mut calls: Vec<(&'static str, Value)>) -> Option<Step> {
        calls.retain(|(name, _)| self.0.tools.iter().any(|tool| tool.name == *name));
        (!calls.is_empty()).then_some(Step::Call(calls))
    }

    /// The same, for a turn that begins with them.
    fn first(&self, calls: Vec<(&'static str, Value)>) -> Step {
        self.step(calls).unwrap_or_else(|| Step::Say(answer::NO_TOOLS.into()))
    }
}

fn list(path: &str, turn: &Turn<'_>, tools: &Tools<'_>) -> Step {
    match turn.answers.last() {
        None => tools.first(vec![("list_dir", json!({"path": path}))]),
        Some(listing) => Step::Say(answer::listing(path, listing)),
    }
}

/// Reads a file; if it is not at that path, searches for one with that name first.
fn read(path: &str, turn: &Turn<'_>, tools: &Tools<'_>) -> Step {
    let read = |path: &str| vec![("read_file", json!({"path": path, "limit": LINES_SHOWN}))];
    let Some(last) = turn.answers.last() else { return tools.first(read(path)) };
    let step = match (last.tool, last.failed) {
        ("read_file", false) => return Step::Say(answer::file(last)),
        ("read_file", true) if turn.rounds == 1 => {
            let name = path.rsplit('/').next().unwrap_or(path);
            tools.step(vec![("glob", json!({"pattern": format!("**/{name}*")}))])
        }
        ("glob", false) => last.paths().first().and_then(|path| tools.step(read(path))),
        _ => None,
    };
    step.unwrap_or_else(|| Step::Say(answer::no_file(path)))
}

fn find(text: &str, turn: &Turn<'_>, tools: &Tools<'_>) -> Step {
    if turn.rounds > 0 {
        return Step::Say(answer::matches(text, turn));
    }
    let pattern = regex::escape(text);
    tools.first(vec![
        ("grep", json!({"pattern": pattern, "ignore_case": true, "max": MATCHES})),
        ("search_sessions", json!({"query": text, "limit": 5})),
    ])
}

/// Quotes how the project introduces itself.
fn about(turn: &Turn<'_>, tools: &Tools<'_>) -> Step {
    let step = match turn.rounds {
        0 => tools.step(vec![
            ("glob", json!({"pattern": newcomer::FILES})),
            ("grep", json!({"pattern": newcomer::DESCRIPTION, "glob": newcomer::FILES})),
        ]),
        1 => newcomer::readme(turn).and_then(|path| {
            let input = json!({"path": path, "limit": newcomer::README_LINES});
            tools.step(vec![("read_file", input)])
        }),
        _ => None,
    };
    if let Some(step) = step {
        return step;
    }
    let evidence = Evidence::of(turn, &Keywords::of(turn.question));
    let passages = newcomer::introduction(&evidence);
    let listing = turn.of("list_dir").next();
    if passages.is_empty()
        && listing.is_none()
        && let Some(step) = tools.step(vec![("list_dir", json!({"path": "."}))])
    {
        return step;
    }
    Step::Say(answer::introduction(&passages, listing))
}

/// Searches, reads around the best places, and quotes the best of what was read. A newcomer's
/// question is searched first where projects usually answer it, and then everywhere.
fn look_up(question: &Question, turn: &Turn<'_>, tools: &Tools<'_>) -> Step {
    let mut keywords = Keywords::of(&question.text);
    if keywords.words.is_empty() {
        // `explain this` is about what came with it.
        keywords = turn.attached.map_or(keywords, Keywords::of);
    }
    if keywords.words.is_empty() && keywords.phrases.is_empty() {
        return Step::Say(answer::NO_WORDS.into());
    }
    let more = !question.shown.is_empty();
    let customary = || {
        newcomer::custom(turn)
            .filter(|_| !more)
            .map(|(file, command)| answer::custom(&file, command))
    };
    let answered = question.is_newcomers && (turn.rounds == 0 || newcomer::is_answered(turn));
    let searched_before = usize::from(question.is_newcomers && !answered);
    let rounds = turn.rounds - searched_before;
    if searched_before > 0
        && let Some(custom) = customary()
    {
        return Step::Say(custom);
    }
    // If the question fills the window, only the last round is seen.
    let has_looked =
        turn.answers.iter().any(|answer| matches!(answer.tool, "read_file" | "recall"));
    if rounds == 0 && !has_looked {
        let mut calls = searches(&keywords, if answered { newcomer::FILES } else { NOT_THESE });
        if answered {
            calls.retain(|(tool, _)| *tool == "grep");
            calls.extend([
                ("glob", json!({"pattern": newcomer::FILES})),
                ("glob", json!({"pattern": newcomer::SIGNS})),
            ]);
        }
        return tools.first(calls);
    }
    let mut evidence = Evidence::of(turn, &keywords);
    evidence.leave_out(&question.shown);
    if !has_looked && let Some(step) = tools.step(looks(&evidence, &keywords)) {
        return step;
    }
    let passages = rank::passages(&evidence, &keywords);
    // A manifest names its tasks, and not the command that does them.
    let is_manifest = |best: &Passage| {
        let manifest = newcomer::custom(turn).map(|(manifest, _)| manifest);
        matches!(&best.source, Source::File { path, .. } if Some(path) == manifest.as_ref())
    };
    let all_told = passages
        .first()
        .is_some_and(|best| best.words == keywords.words.len() && !is_manifest(best));
    let custom = (question.is_newcomers && !all_told).then(customary).flatten();
    Step::Say(answer::passages(&passages, &keywords, custom, more))
}

/// What to search for: words next to each other, each word by itself, files with these names, and
/// what was said before.
fn searches(keywords: &Keywords, files: &str) -> Vec<(&'static str, Value)> {
    let mut calls = Vec::new();
    let mut grep = |pattern: &str| {
        calls.push(("grep", json!({"pattern": pattern, "glob": files, "max": MATCHES})));
    };
    keywords.phrases.iter().take(2).for_each(|phrase| grep(phrase.pattern()));
    keywords.pairs().iter().for_each(|pairs| grep(pairs));
    keywords.by_length().take(WORDS_SEARCHED).for_each(|word| grep(word.pattern()));
    calls.push(("glob", json!({"pattern": keywords.file_names()})));
    for query in keywords.queries().into_iter().take(SEARCHES) {
        calls.push(("search_sessions", json!({"query": query})));
    }
    calls
}

/// The best places, to be read more closely.
fn looks(evidence: &Evidence, keywords: &Keywords) -> Vec<(&'static str, Value)> {
    let mut calls = Vec::new();
    for place in rank::places(evidence, keywords).into_iter().take(PLACES_READ) {
        let offset = place.line.saturating_sub(LINES_BEFORE).max(1);
        let input = json!({"path": place.path, "offset": offset, "limit": LINES_READ});
        calls.push(("read_file", input));
    }
    for (_, place) in rank::said(evidence, keywords).into_iter().take(PLACES_READ) {
        // A question is answered by what follows it.
        let next = place.next().filter(|_| place.by_user);
        for reference in std::iter::once(place.reference.clone()).chain(next) {
            let call = ("recall", json!({"ref": reference, "limit": RECALL_CHARS}));
            if !calls.contains(&call) {
                calls.push(call);
            }
        }
    }
    calls
}

/// A number that is unique in this conversation.
fn fingerprint(messages: &[Message]) -> u64 {
    let mut hasher = std::hash::DefaultHasher::new();
    for message in messages {
        (message.role.as_str(), texts(message).collect::<Vec<_>>()).hash(&mut hasher);
    }
    hasher.finish()
}

fn texts(message: &Message) -> impl Iterator<Item = String> {
    message.content.iter().map(|block| match &block.kind {
        BlockKind::Text(text) | BlockKind::Prefix(text) => text.clone(),
        BlockKind::ToolUse(call) => format!("{} {} {}", call.id, call.name, call.input.get()),
        BlockKind::ToolResult(result) => result.text(),
        BlockKind::Thinking(_) | BlockKind::Image { .. } | BlockKind::Unknown => String::new(),
    })
}

fn tokens_of(message: &Message) -> u64 {
    texts(message).map(|text| u64::from(tokens::count(&text))).sum()
}
