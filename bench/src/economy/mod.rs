//! What a rule for contexts costs, and what it forgets.
//!
//! Transcripts are replayed call by call through the real core: each entry is appended to a session
//! in memory by the holder of its lease, and before each reply the context is built that the model
//! would have been sent. What that costs with prompt caching is compared with sending everything;
//! what the reply used of the session before it is looked for in the context.

mod compaction;
pub(crate) mod corpus;
mod docs;
mod edit;
mod picture;
mod report;
mod rules;
mod score;
mod view;
mod what;

use std::borrow::Cow;
use std::cell::RefCell;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use clap::Parser;
use jiff::Timestamp;
use rethread_core::context::{Cut, Model};
use rethread_core::entry::Body;
use rethread_core::limits::LEASE_MAX;
use rethread_core::world::World;
use rethread_core::{
    Fixed, Incoming, Item, MemoryStore, Message, New, Owner, Role, Sessions, Thread,
};

use corpus::{Half, Transcript};
use docs::Written;
use report::Row;
use rules::{Group, Rule};
use score::{Needs, Scored, Scorer};
use view::{Tokens, Views};

/// What rules for contexts cost and forget, measured by replaying transcripts
#[derive(Debug, Parser)]
pub(crate) struct Args {
    /// The folder of transcripts, in any format that `import` reads
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
    /// The rule of `chat` with other allowances, such as `read=4000,shell=1000`; may be given
    /// several times
    #[arg(long, value_parser = |text: &str| rules::with_allowances(text).map(|_| text.to_owned()))]
    allowances: Vec<String>,
    /// Tokens the model can see at once
    #[arg(long, default_value_t = 10_000_000)]
    window: u64,
    /// Compact each session at several points, and show what the rest of it misses
    #[arg(long, conflicts_with_all = ["rule", "allowances", "window", "sessions"])]
    compact: bool,
    /// Show each session by itself, too
    #[arg(long)]
    sessions: bool,
    /// Write the tables and the picture into this folder, which has an `economy.md`
    #[arg(long)]
    docs: Option<PathBuf>,
    /// The sections of `economy.md` that the tables belong to
    #[arg(long, default_value = "repository")]
    name: String,
}

/// Seconds a cache lives, if it ever ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Ttl(Option<u32>);

impl std::fmt::Display for Ttl {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.0 {
            Some(seconds) => write!(f, "expires after {seconds} s"),
            None => write!(f, "never expires"),
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
    if args.compact {
        return compaction::run(args, &corpus);
    }
    let rules = match chosen(args) {
        Ok(rules) => rules,
        Err(wrong) => {
            eprintln!("error: {wrong}");
            return ExitCode::FAILURE;
        }
    };
    let scores = Scores::new(args, corpus);
    let rows: Vec<(Row, Vec<Vec<Scored>>)> = rules
        .iter()
        .map(|rule| {
            let scored = scores.of(rule);
            (scores.row(rule, &scored, |_| true), scored)
        })
        .collect();
    if args.sessions {
        for (rule, (_, scored)) in rules.iter().zip(&rows) {
            scores.print_sessions(rule, scored);
        }
    }
    let half = |half: Half| -> Vec<Row> {
        let all = rules.iter().zip(&rows).filter(|(rule, _)| rule.group != Group::Control);
        let one = |(rule, (_, scored)): (&Rule, &(Row, Vec<Vec<Scored>>))| {
            scores.row(rule, scored, |transcript| transcript.half == half)
        };
        all.map(one).collect()
    };
    let halves = [("tuning", half(Half::Tuning)), ("held out", half(Half::HeldOut))];
    let rows: Vec<Row> = rows.into_iter().map(|(row, _)| row).collect();
    let calls = rows.first().map_or(0, |row| row.calls);
    let said = format!("{} sessions, {calls} calls, cache {}", scores.corpus.len(), args.ttl);
    let named = |names: &[&str]| -> Vec<&Row> {
        let of = |name: &&str| rows.iter().find(|row| row.name == **name);
        names.iter().filter_map(of).collect()
    };
    let mut sections = vec![
        ("table", format!("{said}:\n\n{}", report::table(&rows))),
        ("halves", report::halves(&halves)),
        ("breakdown", report::breakdown(&named(&["everything", "editor", "chat"]))),
    ];
    sections.extend(named(&["chat"]).first().map(|row| ("savings", report::savings(row))));
    for (section, text) in &sections {
        println!("{section}\n\n{text}");
    }
    let title = format!("What rules for contexts cost and forget: {said}");
    let picture = Some(picture::picture(&title, &rows));
    let written = Written { name: args.name.clone(), sections, picture };
    match args.docs.as_ref().map(|docs| written.put(docs)) {
        Some(Err(error)) => {
            eprintln!("error: the tables were not written: {error}");
            ExitCode::FAILURE
        }
        _ => ExitCode::SUCCESS,
    }
}

/// The rules that are asked for: all, and the curve, unless some are named.
fn chosen(args: &Args) -> Result<Vec<Rule>, String> {
    let all = || rules::all().into_iter().chain(rules::curve());
    if let Some(name) = args.rule.iter().find(|name| !all().any(|rule| rule.name == **name)) {
        let known: Vec<String> = all().map(|rule| rule.name).collect();
        return Err(format!("unknown rule `{name}`\nhint: the rules are {}", known.join(", ")));
    }
    let wanted = |rule: &Rule| match args.rule.is_empty() {
        true => args.allowances.is_empty(),
        false => args.rule.contains(&rule.name),
    };
    let own = args.allowances.iter().map(|text| rules::with_allowances(text));
    all().filter(wanted).map(Ok).chain(own).collect()
}

/// What is needed to score a rule.
struct Scores<'a> {
    args: &'a Args,
    corpus: Vec<Transcript>,
    views: RefCell<Views>,
    /// What each call of each session needs.
    needs: Vec<Vec<Needs>>,
    /// The scores of sending everything.
    whole: Vec<Vec<Scored>>,
}

impl Scores<'_> {
    /// Replays the sessions with everything in view, to see what each call needs.
    fn new(args: &Args, corpus: Vec<Transcript>) -> Scores<'_> {
        let everything = &rules::all()[0];
        let mut views = Views::new(args.tokens);
        let mut needs = Vec::new();
        for transcript in &corpus {
            let mut scorer = Scorer::new(None);
            let mut of_session = Vec::new();
            replay(transcript, everything, None, u64::MAX, &mut |call| {
                let blocks = views.of(call.messages);
                of_session.push(scorer.needs(&mut views, &blocks, call.reply));
            });
            needs.push(of_session);
        }
        let views = RefCell::new(views);
        let mut scores = Scores { args, corpus, views, needs, whole: Vec::new() };
        scores.whole = scores.of(everything);
        scores
    }

    /// Replays every session under a rule.
    fn of(&self, rule: &Rule) -> Vec<Vec<Scored>> {
        let ttl = self.args.ttl.0;
        let mut all = Vec::new();
        for (transcript, needs) in self.corpus.iter().zip(&self.needs) {
            let mut scorer = Scorer::new(ttl);
            let mut of_session = Vec::new();
            replay(transcript, rule, ttl, self.args.window, &mut |call| {
                let blocks = self.views.borrow_mut().of(call.messages);
                let needs = &needs[of_session.len()];
                of_session.push(scorer.call(&blocks, call.cuts, call.at, call.opens, needs));
            });
            all.push(of_session);
        }
        all
    }

    /// The scores of some of the sessions as a row.
    fn row(
        &self,
        rule: &Rule,
        scored: &[Vec<Scored>],
        wanted: impl Fn(&Transcript) -> bool,
    ) -> Row {
        let some = |all: &[Vec<Scored>]| -> Vec<usize> {
            (0..all.len()).filter(|index| wanted(&self.corpus[*index])).collect()
        };
        let indices = some(scored);
        let of = |index: &usize| scored[*index].as_slice();
        let whole = |index: &usize| self.whole[*index].as_slice();
        let (scored, whole): (Vec<_>, Vec<_>) =
            (indices.iter().map(of).collect(), indices.iter().map(whole).collect());
        Row::new(rule, &scored, &whole)
    }

    fn print_sessions(&self, rule: &Rule, scored: &[Vec<Scored>]) {
        for (transcript, (scored, whole)) in self.corpus.iter().zip(scored.iter().zip(&self.whole))
        {
            let row = Row::new(rule, &[scored], &[whole]);
            let (file, calls) = (&transcript.file, transcript.calls());
            let table = report::table(&[row]);
            let row = table.lines().last().unwrap_or_default();
            println!("{file} ({calls} calls, {:?}): {row}", transcript.half);
        }
    }
}

/// A call of the model.
struct Call<'a> {
    /// Its context, and what was cut from it.
    messages: &'a [Message],
    cuts: &'a [Cut],
    reply: &'a Message,
    /// When the reply came.
    at: Timestamp,
    /// It is the first of its turn.
    opens: bool,
}

/// Appends a transcript entry by entry, and shows the context before each reply.
fn replay(
    transcript: &Transcript,
    rule: &Rule,
    ttl: Option<u32>,
    window: u64,
    each: &mut dyn FnMut(Call<'_>),
) {
    let begun = transcript.entries.first().map(|(at, _)| *at).unwrap_or_default();
    let world = Arc::new(Fixed::at(begun));
    let store = Arc::new(MemoryStore::new(world.clone()));
    let sessions = Sessions::new(store, Owner::local(), world.clone());
    let id = sessions.create(&New::default(), None).expect("created").id();
    let mut thread: Thread = sessions.thread(id).expect("opened");
    thread.hold("replay", LEASE_MAX).expect("there is no other writer");
    let model = Model { window, ..Model::new("replayed", "model") };
    let mut memory = rules::Memory::default();
    let mut opens = true;
    for (at, body) in &transcript.entries {
        let passed = at.duration_since(world.now()).as_millis();
        world.advance(Duration::from_millis(u64::try_from(passed).unwrap_or(0)));
        if let Body::Message(message) = body {
            if message.role == Role::Assistant {
                let context = thread.context(&rule.policy, &model).expect("built");
                let mut messages = Cow::Borrowed(&context.messages);
                if rule.change != rules::Change::Nothing {
                    rules::change(messages.to_mut(), rule.change, &mut memory);
                }
                let (messages, cuts) = (messages.as_slice(), context.cuts.as_slice());
                each(Call { messages, cuts, reply: message, at: *at, opens });
                opens = false;
            }
            opens |= message.opens_turn();
        }
        let asks = body.message().is_some_and(|message| message.opens_turn());
        let life = ttl.map_or(Duration::MAX, |seconds| Duration::from_secs(seconds.into()));
        let thinned = asks.then(|| thread.thinning(&rule.policy, thread.last_at(), life)).flatten();
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
