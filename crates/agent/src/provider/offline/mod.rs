//! The model for those who have none yet: no network, no key, always the same answer.
//!
//! It answers as a model would, through the same loop and the same tools: it looks at the messages
//! and the tools it is offered, and replies with calls or with a text. It understands nothing; it
//! picks the words of a question, searches files and earlier sessions for them, reads around the
//! best places, and quotes them with their sources. It says so, too.

mod answer;
mod evidence;
mod intent;
mod newcomer;
mod rank;
mod view;
mod words;

use rethread_core::message::{BlockKind, Usage};
use rethread_core::{Block, Message, Raw, Role, tokens};
use serde_json::{Value, json};

use super::{Delta, Listener, Provider, Reply, Request};
use answer::Sayer;
use evidence::Evidence;
use intent::{Intent, Question};
use view::Turn;
use words::Keywords;

/// The name of the model in logs.
pub const MODEL: &str = "offline/offline";

/// Pieces a text is streamed in. Enough to see that it streams.
const DELTAS: usize = 4;

/// Matches asked of one search. More would not fit into the 4,000 characters of a result that
/// a context keeps.
const MATCHES: u64 = 20;

/// Files that answer no question, and would crowd out those that do; instructions for models are full
/// of what people ask about.
const NOT_THESE: &str =
    "!{*.lock,*-lock.*,*.min.*,*.svg,*.map,AGENTS.md,CLAUDE.md,**/agents/**/*.md}";

/// Words that are searched one by one; further ones count where they are seen.
const WORDS_SEARCHED: usize = 4;

/// Searches of earlier sessions.
const SEARCHES: usize = 4;

/// Places that are read before an answer is given.
const PLACES_READ: usize = 3;

/// Lines that are read around a place, and how many of them before it. They fit into a result.
const LINES_READ: u64 = 40;
const LINES_BEFORE: u64 = 12;

/// Characters of what was said. They fit into a result, with the line that says where to continue.
const RECALL_CHARS: u64 = 3_500;

/// Lines of a file that was asked for by name.
const LINES_SHOWN: u64 = 60;

/// The model for those who have none yet.
#[derive(Clone, Copy, Debug, Default)]
pub struct Offline;

/// What a reply does: use tools, or say something.
enum Step {
    Call(Vec<(&'static str, Value)>),
    Say(String),
}

impl Provider for Offline {
    fn ask<'a>(&'a self, request: Request<'a>, listener: Listener<'a>) -> Reply<'a> {
        Box::pin(async move {
            let content = match next(&request) {
                Step::Say(text) => {
                    for piece in pieces(&text) {
                        listener(Delta::Text(piece.into()));
                    }
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

/// What to do next, from what the conversation looks like.
fn next(request: &Request<'_>) -> Step {
    let Some(turn) = Turn::current(request.messages) else {
        return Step::Say(Sayer::new(&[]).help());
    };
    let sayer = Sayer::new(turn.earlier);
    let tools = Tools(request);
    match intent::of(turn.question, turn.earlier) {
        Intent::Restore => Step::Say(sayer.restored(turn.question)),
        Intent::Summarize => Step::Say(sayer.no_summary()),
        Intent::Greeting => Step::Say(sayer.greeting()),
        Intent::Thanks => Step::Say(sayer.thanks()),
        Intent::Help => Step::Say(sayer.help()),
        Intent::NothingBefore => Step::Say(sayer.nothing_before()),
        Intent::List(path) => list(&path, &turn, &tools, &sayer),
        Intent::Read(path) => read(&path, &turn, &tools, &sayer),
        Intent::Find(text) => find(&text, &turn, &tools, &sayer),
        Intent::About => about(&turn, &tools, &sayer),
        Intent::Question(question) => answer(&question, &turn, &tools, &sayer),
    }
}

/// The tools that are offered.
struct Tools<'a>(&'a Request<'a>);

impl Tools<'_> {
    fn offer(&self, name: &str) -> bool {
        self.0.tools.iter().any(|tool| tool.name == name)
    }

    /// The calls that can be made; without any there is no step.
    fn step(&self, calls: Vec<(&'static str, Value)>) -> Option<Step> {
        let calls: Vec<_> = calls.into_iter().filter(|(name, _)| self.offer(name)).collect();
        (!calls.is_empty()).then_some(Step::Call(calls))
    }
}

fn list(path: &str, turn: &Turn<'_>, tools: &Tools<'_>, sayer: &Sayer) -> Step {
    match turn.answers.last() {
        None => tools
            .step(vec![("list_dir", json!({"path": path}))])
            .unwrap_or_else(|| Step::Say(sayer.no_tools())),
        Some(listing) => Step::Say(sayer.listing(path, listing)),
    }
}

/// Reads a file; where it is not at that path, looks for one of that name first.
fn read(path: &str, turn: &Turn<'_>, tools: &Tools<'_>, sayer: &Sayer) -> Step {
    let read = |path: &str| ("read_file", json!({"path": path, "limit": LINES_SHOWN}));
    let Some(last) = turn.answers.last() else {
        return tools.step(vec![read(path)]).unwrap_or_else(|| Step::Say(sayer.no_tools()));
    };
    let step = match (last.tool, last.failed) {
        ("read_file", false) => return Step::Say(sayer.file(last)),
        ("read_file", true) if turn.rounds == 1 => {
            let name = path.rsplit('/').next().unwrap_or(path);
            tools.step(vec![("glob", json!({"pattern": format!("**/{name}*")}))])
        }
        ("glob", false) => last.paths().first().and_then(|path| tools.step(vec![read(path)])),
        _ => None,
    };
    step.unwrap_or_else(|| Step::Say(sayer.no_file(path)))
}

fn find(text: &str, turn: &Turn<'_>, tools: &Tools<'_>, sayer: &Sayer) -> Step {
    if turn.rounds > 0 {
        return Step::Say(sayer.matches(text, turn));
    }
    let pattern = regex::escape(text);
    let calls = vec![
        ("grep", json!({"pattern": pattern, "ignore_case": true, "max": MATCHES})),
        ("search_sessions", json!({"query": text, "limit": 5})),
    ];
    tools.step(calls).unwrap_or_else(|| Step::Say(sayer.no_tools()))
}

/// Quotes how the project introduces itself.
fn about(turn: &Turn<'_>, tools: &Tools<'_>, sayer: &Sayer) -> Step {
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
    step.unwrap_or_else(|| {
        let evidence = Evidence::of(turn, &Keywords::of(turn.question));
        Step::Say(sayer.introduction(&newcomer::introduction(&evidence)))
    })
}

/// Searches, reads around the best places, and quotes the best of what was read. A newcomer's
/// question is searched for first where projects usually answer it, and then everywhere.
fn answer(question: &Question, turn: &Turn<'_>, tools: &Tools<'_>, sayer: &Sayer) -> Step {
    let keywords = Keywords::of(&question.text);
    if keywords.is_empty() {
        return Step::Say(sayer.no_words());
    }
    let answered = question.is_newcomers && (turn.rounds == 0 || newcomer::is_answered(turn));
    let searched_before = usize::from(question.is_newcomers && !answered);
    let rounds = turn.rounds - searched_before;
    if searched_before > 0
        && let Some(custom) = newcomer::custom(turn)
    {
        return Step::Say(sayer.passages(&[], &keywords, Some(custom), false));
    }
    if rounds == 0 {
        let mut calls = searches(&keywords, if answered { newcomer::FILES } else { NOT_THESE });
        if answered {
            calls.retain(|(tool, _)| *tool == "grep");
            calls.push(("glob", json!({"pattern": newcomer::FILES})));
        }
        return tools.step(calls).unwrap_or_else(|| Step::Say(sayer.no_tools()));
    }
    let mut evidence = Evidence::of(turn, &keywords);
    evidence.leave_out(&question.shown);
    if rounds == 1
        && let Some(step) = tools.step(looks(&evidence, &keywords))
    {
        return step;
    }
    let passages = rank::passages(&evidence, &keywords);
    let all_told = passages.first().is_some_and(|best| best.words == keywords.words.len());
    let custom = (question.is_newcomers && !all_told).then(|| newcomer::custom(turn)).flatten();
    Step::Say(sayer.passages(&passages, &keywords, custom, !question.shown.is_empty()))
}

/// What to search for: words next to each other, each word by itself, files with these names, and
/// what was said before.
fn searches(keywords: &Keywords, files: &str) -> Vec<(&'static str, Value)> {
    let mut calls = Vec::new();
    let mut grep = |pattern: String| {
        calls.push(("grep", json!({"pattern": pattern, "glob": files, "max": MATCHES})));
    };
    keywords.phrases.iter().take(2).for_each(|phrase| grep(phrase.pattern()));
    if let Some(pairs) = keywords.pairs() {
        grep(pairs);
    }
    keywords.by_length().take(WORDS_SEARCHED).for_each(|word| grep(word.pattern()));
    calls.push(("glob", json!({"pattern": keywords.file_names()})));
    for query in keywords.queries().into_iter().take(SEARCHES) {
        calls.push(("search_sessions", json!({"query": query})));
    }
    calls
}

/// What to look at more closely: the best places.
fn looks(evidence: &Evidence, keywords: &Keywords) -> Vec<(&'static str, Value)> {
    let mut calls = Vec::new();
    for place in rank::places(evidence, keywords).into_iter().take(PLACES_READ) {
        let offset = place.line.saturating_sub(LINES_BEFORE).max(1);
        let input = json!({"path": place.path, "offset": offset, "limit": LINES_READ});
        calls.push(("read_file", input));
    }
    let mut recall = Vec::new();
    for place in rank::said(evidence, keywords).into_iter().take(PLACES_READ) {
        // A question is answered by what follows it.
        let next = place.next().filter(|_| place.by_user);
        for reference in std::iter::once(place.reference.clone()).chain(next) {
            if !recall.contains(&reference) {
                recall.push(reference);
            }
        }
    }
    calls.extend(recall.iter().map(|at| ("recall", json!({"ref": at, "limit": RECALL_CHARS}))));
    calls
}

/// A number that no other point of this conversation has: 64 bits of FNV-1a over all of it.
fn fingerprint(messages: &[Message]) -> u64 {
    let mut hash: u64 = 0xcbf2_9ce4_8422_2325;
    let mut add = |text: &str| {
        for byte in text.bytes().chain([0xff]) {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    };
    add(&messages.len().to_string());
    for message in messages {
        add(message.role.as_str());
        texts(message).for_each(|text| add(&text));
    }
    hash
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

/// A text in a few pieces, each of whole lines.
fn pieces(text: &str) -> Vec<&str> {
    let size = text.len().div_ceil(DELTAS).max(1);
    let mut pieces = Vec::new();
    let mut rest = text;
    while rest.len() > size {
        let at = rest.floor_char_boundary(size);
        let at = rest[at..].find('\n').map_or(rest.len(), |end| at + end + 1);
        let (piece, tail) = rest.split_at(at);
        pieces.push(piece);
        rest = tail;
    }
    if !rest.is_empty() {
        pieces.push(rest);
    }
    pieces
}
