//! What a rule for contexts costs, and what it forgets.
//!
//! Transcripts are replayed call by call through the real core: each entry is appended to a session
//! in memory by the holder of its lease, and before each reply the context is built that the model
//! would have been sent. What that costs with prompt caching is compared with sending everything;
//! what the reply used of the session before it is looked for in the context.

mod corpus;
mod edit;
mod report;
mod rules;
mod score;
mod view;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use clap::Parser;
use jiff::Timestamp;
use rethread_core::context::Model;
use rethread_core::entry::Body;
use rethread_core::limits::LEASE_MAX;
use rethread_core::world::World;
use rethread_core::{
    Fixed, Incoming, Item, MemoryStore, Message, New, Owner, Role, Sessions, Thread,
};

use corpus::Transcript;
use report::Row;
use rules::Rule;
use score::{Needs, Scored, Scorer};
use view::{Tokens, Views};

/// What rules for contexts cost and forget, measured by replaying transcripts
#[derive(Debug, Parser)]
pub(crate) struct Args {
    /// The folder of transcripts, in any format that `import` reads [default: the one in the repository]
    #[arg(long, default_value = "bench/corpus")]
    corpus: PathBuf,
    /// How long a provider's cache lives without a call: `none` for ever, or seconds
    #[arg(long, default_value = "none", value_parser = ttl)]
    ttl: Ttl,
    /// How tokens are counted
    #[arg(long, default_value = "chars4")]
    tokens: Tokens,
    /// Only these rules; may be given several times
    #[arg(long)]
    rule: Vec<String>,
    /// Show each session by itself, too
    #[arg(long)]
    sessions: bool,
    /// Write the table and the picture into this folder, which has an `economy.md`
    #[arg(long)]
    docs: Option<PathBuf>,
}

/// Seconds a cache lives, if it ever ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Ttl(Option<u32>);

impl std::fmt::Display for Ttl {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.0 {
            Some(seconds) => write!(f, "ends after {seconds} s"),
            None => write!(f, "never ends"),
        }
    }
}

fn ttl(text: &str) -> Result<Ttl, String> {
    match text {
        "none" => Ok(Ttl(None)),
        _ => text.parse().map(|seconds| Ttl(Some(seconds))).map_err(|_| "`none` or seconds".into()),
    }
}

/// Runs the comparison.
pub(crate) fn run(args: &Args) -> ExitCode {
    let corpus = match corpus::load(&args.corpus) {
        Ok(corpus) => corpus,
        Err(wrong) => {
            eprintln!("error: {wrong}");
            return ExitCode::FAILURE;
        }
    };
    let mut rules = rules::all();
    for name in &args.rule {
        if !rules.iter().any(|rule| rule.name == name) {
            let known: Vec<&str> = rules.iter().map(|rule| rule.name).collect();
            eprintln!("error: there is no rule `{name}`\nhint: the rules are {}", known.join(", "));
            return ExitCode::FAILURE;
        }
    }
    rules.retain(|rule| args.rule.is_empty() || args.rule.iter().any(|name| name == rule.name));
    let mut views = Views::new(args.tokens);
    let baseline = &rules::all()[0];
    let mut needs: Vec<Vec<Needs>> = Vec::new();
    for transcript in &corpus {
        let mut scorer = Scorer::new(None);
        let mut of_session = Vec::new();
        replay(transcript, baseline, None, &mut |context, reply, _, _| {
            let blocks = views.of(context);
            of_session.push(scorer.needs(&mut views, &blocks, reply));
        });
        needs.push(of_session);
    }
    let score = |rule: &Rule, views: &mut Views| -> Vec<Vec<Scored>> {
        let mut all = Vec::new();
        for (transcript, needs) in corpus.iter().zip(&needs) {
            let mut scorer = Scorer::new(args.ttl.0);
            let mut of_session = Vec::new();
            replay(transcript, rule, args.ttl.0, &mut |context, _, at, opens| {
                let blocks = views.of(context);
                of_session.push(scorer.call(&blocks, at, opens, &needs[of_session.len()]));
            });
            all.push(of_session);
        }
        all
    };
    let whole = score(baseline, &mut views);
    let calls = whole.iter().flatten().count();
    let said = format!("{} sessions, {calls} calls, cache {}", corpus.len(), args.ttl);
    let mut rows = Vec::new();
    for rule in &rules {
        let scored = score(rule, &mut views);
        if args.sessions {
            for (transcript, (scored, whole)) in corpus.iter().zip(scored.iter().zip(&whole)) {
                let row =
                    Row::new(rule.name, std::slice::from_ref(scored), std::slice::from_ref(whole));
                let (file, calls) = (&transcript.file, transcript.calls());
                println!(
                    "{file} ({calls} calls): {}",
                    report::table(&[row]).lines().last().unwrap_or_default()
                );
            }
        }
        rows.push(Row::new(rule.name, &scored, &whole));
    }
    let table = report::table(&rows);
    println!("{said}\n\n{table}");
    match args.docs.as_ref().map(|docs| write(docs, &said, &table, &report::picture(&rows))) {
        Some(Err(error)) => {
            eprintln!("error: the table was not written: {error}");
            ExitCode::FAILURE
        }
        _ => ExitCode::SUCCESS,
    }
}

/// Where the table is in the document.
const TABLE: [&str; 2] =
    ["<!-- table: written by the command -->\n", "<!-- end of the table -->\n"];

/// Puts the table into the document, and the picture beside it.
fn write(docs: &Path, said: &str, table: &str, picture: &str) -> std::io::Result<()> {
    let document = docs.join("economy.md");
    let text = std::fs::read_to_string(&document)?;
    let parts = text
        .split_once(TABLE[0])
        .and_then(|(before, rest)| rest.split_once(TABLE[1]).map(|(_, after)| (before, after)));
    let Some((before, after)) = parts else {
        return Err(std::io::Error::other("the document has no place for it"));
    };
    let [begin, end] = TABLE;
    std::fs::write(&document, format!("{before}{begin}\n{said}:\n\n{table}\n{end}{after}"))?;
    std::fs::write(docs.join("economy.svg"), picture)
}

/// The model the contexts are for: no transcript fills its window.
fn model() -> Model {
    Model { window: 10_000_000, ..Model::new("replayed", "model") }
}

/// Gets the context of a call, its reply, when it came, and whether it is the first of its turn.
type Call<'a> = dyn FnMut(&[Message], &Message, Timestamp, bool) + 'a;

/// Appends a transcript entry by entry, and shows the context before each reply.
fn replay(transcript: &Transcript, rule: &Rule, ttl: Option<u32>, each: &mut Call<'_>) {
    let begun = transcript.entries.first().map(|(at, _)| *at).unwrap_or_default();
    let world = Arc::new(Fixed::at(begun));
    let store = Arc::new(MemoryStore::new(world.clone()));
    let sessions = Sessions::new(store, Owner::local(), world.clone());
    let id = sessions.create(&New::default(), None).expect("created").id();
    let mut thread: Thread = sessions.thread(id).expect("opened");
    thread.hold("replay", LEASE_MAX).expect("nobody else is there");
    let model = model();
    let mut memory = rules::Memory::default();
    let mut opens = true;
    for (at, body) in &transcript.entries {
        let passed = at.duration_since(world.now()).as_millis();
        world.advance(Duration::from_millis(u64::try_from(passed).unwrap_or(0)));
        if let Body::Message(message) = body {
            if message.role == Role::Assistant {
                let context = thread.context(&rule.policy, &model).expect("built");
                match rule.change {
                    rules::Change::Nothing => each(&context.messages, message, *at, opens),
                    change => {
                        let mut messages = context.messages.clone();
                        rules::change(&mut messages, change, &mut memory);
                        each(&messages, message, *at, opens);
                    }
                }
                opens = false;
            }
            opens |= message.opens_turn();
        }
        let asks = body.message().is_some_and(|message| message.opens_turn());
        let life = ttl.map_or(Duration::MAX, |seconds| Duration::from_secs(seconds.into()));
        let thinned = asks.then(|| thread.thinning(&rule.policy, life)).flatten();
        let item = match body.clone() {
            Body::Message(message) => Item::Said(Incoming::from(message)),
            other => Item::Noted(other),
        };
        let items = thinned
            .map(|thinned| Item::Noted(Body::Thinned(thinned)))
            .into_iter()
            .chain([item])
            .collect();
        thread.record(items).expect("appended");
    }
}
