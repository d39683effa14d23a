//! What is lost in a compaction.
//!
//! Each session is compacted by the real agent after a quarter, a half and three quarters of its
//! turns, and the rest of it is replayed in the session that continues it. What the replies use of
//! the log is looked for in the contexts that they would have been given: with the whole log, with
//! what is carried over today, and with parts of that.

use std::collections::HashSet;
use std::path::Path;
use std::process::ExitCode;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use rethread_agent::provider::{Listener, OFFLINE, Provider, Reply, Request};
use rethread_agent::{
    Compacted, Host, HostLimits, HostSettings, Roster, RosterSettings, SummaryMethod, Workspaces,
};
use rethread_core::context::{Model, Policy};
use rethread_core::entry::{Body, Origin, Restored};
use rethread_core::limits::LEASE_MAX;
use rethread_core::sessions::is_end_of_turn;
use rethread_core::world::World;
use rethread_core::{
    Fixed, Incoming, Item, MemoryStore, Message, New, Owner, Role, SessionId, Sessions, Thread,
    summary,
};

use super::Args;
use super::corpus::Transcript;
use super::docs::Written;
use super::edit::replaced;
use super::score::is_seen;
use super::view::{View, Views, readable};

/// Where sessions are compacted, in percent of their turns.
const AFTER: [usize; 3] = [25, 50, 75];

/// Turns of the shortest session that is compacted.
const TURNS_MIN: usize = 4;

/// Turns that the scripted summary covers: about as many as fit 500 words.
const TOLD_TURNS: usize = 20;

/// Characters of a sentence in the scripted summary.
const SENTENCE_CHARS: usize = 160;

/// The end of the restoration prompt; names follow it.
const PROMPT_END: &str = "Keep your response concise.";

/// Who holds the lease of a replayed session.
const HOLDER: &str = "replay";

/// Who writes the summary.
#[derive(Clone, Copy, PartialEq)]
enum By {
    /// No model: sentences are extracted.
    Extract,
    /// A model that writes the first sentence of each question and each answer.
    Model,
}

/// What the rest of a session starts with.
#[derive(Clone, Copy, PartialEq)]
enum Given {
    /// The whole log: it is not compacted.
    Log,
    /// Nothing: a new session.
    Nothing,
    /// The summary, and the last turns that fit whole.
    WholeTurns(By),
    /// The end of a turn that does not fit, too.
    EndOfTurn(By),
    /// The names, too: what `compact` does.
    Names(By),
}

/// The rows of the table.
const ROWS: [(&str, Given); 8] = [
    ("the whole log", Given::Log),
    ("a new session", Given::Nothing),
    ("extract, and whole turns (before)", Given::WholeTurns(By::Extract)),
    ("… and the end of a long turn", Given::EndOfTurn(By::Extract)),
    ("… and names (now)", Given::Names(By::Extract)),
    ("scripted summary, and whole turns (before)", Given::WholeTurns(By::Model)),
    ("… and the end of a long turn", Given::EndOfTurn(By::Model)),
    ("… and names (now)", Given::Names(By::Model)),
];

/// Runs the comparison, prints it, and writes it into the document.
pub(super) fn run(args: &Args, corpus: &[Transcript]) -> ExitCode {
    let folder = tempfile::tempdir().expect("a folder for the agent");
    let mut views = Views::new(args.tokens);
    let mut sums = ROWS.map(|_| Sums::default());
    let (mut sessions, mut compactions) = (0, 0);
    for transcript in corpus {
        let points = points(transcript);
        sessions += usize::from(!points.is_empty());
        compactions += points.len();
        let needs = needs(transcript, &mut views);
        for point in points {
            for ((_, given), sums) in ROWS.iter().zip(&mut sums) {
                let rest = Rest { transcript, point, needs: &needs };
                rest.replay(*given, folder.path(), &mut views, sums);
            }
        }
    }
    if compactions == 0 {
        eprintln!("error: no session here has {TURNS_MIN} turns\nhint: see `--corpus`");
        return ExitCode::FAILURE;
    }
    let table = table(sessions, compactions, &sums);
    println!("{table}");
    let sections = vec![("compaction", table)];
    let written = Written { name: args.name.clone(), sections, picture: None };
    match args.docs.as_ref().map(|docs| written.put(docs)) {
        Some(Err(error)) => {
            eprintln!("error: the table was not written: {error}");
            ExitCode::FAILURE
        }
        _ => ExitCode::SUCCESS,
    }
}

/// The entries a compaction comes before: each opens a turn.
fn points(transcript: &Transcript) -> Vec<usize> {
    let opens = |body: &Body| body.message().is_some_and(Message::opens_turn);
    let entries = transcript.entries.iter().enumerate();
    let turns: Vec<usize> =
        entries.filter(|(_, (_, body))| opens(body)).map(|(index, _)| index).collect();
    if turns.len() < TURNS_MIN {
        return Vec::new();
    }
    let mut points: Vec<usize> =
        AFTER.iter().map(|percent| turns[turns.len() * percent / 100]).collect();
    points.dedup();
    points
}

/// What a reply uses of the log before it.
#[derive(Default)]
struct Need {
    /// Names in the log so far. Only those of messages since the last clear count.
    names: Vec<u32>,
    /// For each edit, the texts it replaces.
    edits: Vec<Vec<String>>,
}

/// What each entry uses of those before it.
fn needs(transcript: &Transcript, views: &mut Views) -> Vec<Need> {
    let mut log: Vec<Rc<View>> = Vec::new();
    let mut seen: HashSet<u32> = HashSet::new();
    let mut needs = Vec::new();
    for (_, body) in &transcript.entries {
        let mut need = Need::default();
        match body {
            Body::Message(message) => {
                if message.role == Role::Assistant {
                    let said: Vec<String> = message.content.iter().map(readable).collect();
                    need.names = views.names(&said.join("\n"));
                    need.names.retain(|name| seen.contains(name));
                    let edits = message.calls().map(replaced).filter(|texts| !texts.is_empty());
                    need.edits = edits.filter(|texts| is_seen(&log, texts)).collect();
                }
                let blocks = views.of(std::slice::from_ref(message));
                seen.extend(blocks.iter().flat_map(|block| &block.names));
                log.extend(blocks);
            }
            Body::Cleared { .. } => {
                log.clear();
                seen.clear();
            }
            _ => {}
        }
        needs.push(need);
    }
    needs
}

/// What was counted over all compactions.
#[derive(Clone, Copy, Default)]
struct Sums {
    calls: usize,
    /// Different names from before the compaction that are used after it, and those of them in view
    /// when it was done.
    names: usize,
    survived: usize,
    /// Names used, each time they are used, and those in view then.
    uses: usize,
    uses_seen: usize,
    edits: usize,
    edits_seen: usize,
    /// Compactions, and the tokens that the sessions after them begin with.
    starts: usize,
    start_tokens: f64,
}

/// A session from a compaction on.
struct Rest<'a> {
    transcript: &'a Transcript,
    point: usize,
    needs: &'a [Need],
}

impl Rest<'_> {
    /// Replays it, and adds what was in view.
    fn replay(&self, given: Given, folder: &Path, views: &mut Views, sums: &mut Sums) {
        let (before, after) = self.transcript.entries.split_at(self.point);
        let mut replay = Replay::new(before.first().map(|(at, _)| *at).unwrap_or_default());
        for (at, body) in before {
            replay.append(*at, body);
        }
        let known = views.of(&replay.messages(&Policy::cli()));
        let known: HashSet<u32> = known.iter().flat_map(|block| block.names.clone()).collect();
        replay.continue_from(given, folder);
        let start = views.of(&replay.messages(&Policy::chat()));
        sums.starts += 1;
        sums.start_tokens += start.iter().map(|block| block.tokens).sum::<f64>();
        let in_view = |blocks: &[Rc<View>]| -> HashSet<u32> {
            blocks.iter().flat_map(|block| block.names.clone()).collect()
        };
        let kept = in_view(&start);
        let used = self.needs[self.point..].iter().flat_map(|need| &need.names);
        let used: HashSet<u32> = used.filter(|name| known.contains(name)).copied().collect();
        sums.names += used.len();
        sums.survived += used.intersection(&kept).count();
        for ((at, body), need) in after.iter().zip(&self.needs[self.point..]) {
            if body.message().is_some_and(|message| message.role == Role::Assistant) {
                let blocks = views.of(&replay.messages(&Policy::chat()));
                let seen = in_view(&blocks);
                sums.calls += 1;
                sums.uses += need.names.len();
                sums.uses_seen += need.names.iter().filter(|name| seen.contains(name)).count();
                sums.edits += need.edits.len();
                sums.edits_seen +=
                    need.edits.iter().filter(|texts| is_seen(&blocks, texts)).count();
            }
            replay.append(*at, body);
        }
    }
}

/// A session in memory that is written again, entry by entry, by the holder of its lease.
struct Replay {
    world: Arc<Fixed>,
    store: Arc<MemoryStore>,
    sessions: Sessions,
    thread: Thread,
}

impl Replay {
    fn new(begun: Timestamp) -> Replay {
        let world = Arc::new(Fixed::at(begun));
        let store = Arc::new(MemoryStore::new(world.clone()));
        let sessions = Sessions::new(store.clone(), Owner::local(), world.clone());
        let id = sessions.create(&New::default(), None).expect("created").id();
        let thread = held(&sessions, id);
        Replay { world, store, sessions, thread }
    }

    fn append(&mut self, at: Timestamp, body: &Body) {
        let passed = at.duration_since(self.world.now()).as_millis();
        self.world.advance(Duration::from_millis(u64::try_from(passed).unwrap_or(0)));
        let asks = body.message().is_some_and(Message::opens_turn);
        let thinned = asks
            .then(|| self.thread.thinning(&Policy::chat(), self.thread.last_at(), Duration::MAX))
            .flatten();
        let item = match body.clone() {
            Body::Message(message) => Item::Said(Incoming::from(message)),
            other => Item::Noted(other),
        };
        let thinned = thinned.map(|thinned| Item::Noted(Body::Thinned(thinned)));
        self.thread.record(thinned.into_iter().chain([item]).collect()).expect("appended");
    }

    fn messages(&mut self, policy: &Policy) -> Vec<Message> {
        let context = self.thread.context(policy, &model("replayed")).expect("built");
        context.messages.clone()
    }

    /// Compacts the session, and continues in the one that comes after it.
    fn continue_from(&mut self, given: Given, folder: &Path) {
        let by = match given {
            Given::Log => return,
            Given::Nothing => {
                let new = self.sessions.create(&New::default(), None).expect("created");
                self.thread = held(&self.sessions, new.id());
                return;
            }
            Given::WholeTurns(by) | Given::EndOfTurn(by) | Given::Names(by) => by,
        };
        let old = self.thread.session().id();
        self.thread.release(HOLDER).expect("released");
        let mut restored = self.compacted(old, by, folder);
        if !matches!(given, Given::Names(_)) {
            let end = restored.prompt.rfind(PROMPT_END).expect("the prompt ends like this");
            restored.prompt.truncate(end + PROMPT_END.len());
        }
        if matches!(given, Given::WholeTurns(_))
            && restored.tail.first().is_some_and(|first| is_end_of_turn(&first.message))
        {
            let next = restored.tail.iter().skip(1).position(|c| c.message.opens_turn());
            restored.tail.drain(..next.map_or(restored.tail.len(), |at| at + 1));
        }
        let new = New::default();
        let child = self.sessions.restore(Some(old), Origin::Compact, &new, &[], restored);
        self.thread = held(&self.sessions, child.expect("restored").id());
    }

    /// What the real agent carries over.
    fn compacted(&self, id: SessionId, by: By, folder: &Path) -> Restored {
        let provider = match by {
            By::Extract => OFFLINE,
            By::Model => "scripted",
        };
        let roster = RosterSettings::default();
        let settings = HostSettings {
            roster: Roster::with_provider(roster, model(provider), Arc::new(FirstSentences)),
            workspaces: Workspaces::only(folder).expect("a folder"),
            limits: HostLimits::default(),
            transcripts: None,
        };
        let host = Host::new(self.store.clone(), self.world.clone(), settings);
        let runner = host.handle(Owner::local()).runner(None, None).expect("it can answer");
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let compacting = runner.compact(id, SummaryMethod::Model, |_| {});
        match runtime.expect("a runtime").block_on(compacting).expect("compacted") {
            Compacted::Done(receipt) => {
                let child = receipt.on.session.id();
                let first = self.sessions.read(child, 0..1).expect("read").pop();
                match first.map(|entry| entry.body) {
                    Some(Body::Restored(restored)) => *restored,
                    other => panic!("a continued session opens with what is restored: {other:?}"),
                }
            }
            Compacted::Nothing => panic!("there are turns before every compaction"),
        }
    }
}

/// A session, opened by the holder of its lease.
fn held(sessions: &Sessions, id: SessionId) -> Thread {
    let mut thread = sessions.thread(id).expect("opened");
    thread.hold(HOLDER, LEASE_MAX).expect("there is no other writer");
    thread
}

/// A model whose window no transcript fills.
fn model(provider: &str) -> Model {
    Model { window: 10_000_000, ..Model::new(provider, "model") }
}

/// A model that summarises by the first sentence of each question and each answer: what an
/// inattentive model would write, so that the effect of what else is carried over can be seen.
struct FirstSentences;

impl Provider for FirstSentences {
    fn ask<'a>(&'a self, request: Request<'a>, _: Listener<'a>) -> Reply<'a> {
        let asked = request.messages.last().map(Message::plain_text).unwrap_or_default();
        let said = match asked.starts_with("Generate a progressive session summary:") {
            true => summary::block(&first_sentences(&asked)),
            false => "I have read the summary and am ready to continue.".into(),
        };
        Box::pin(std::future::ready(Ok(Message::assistant(said))))
    }
}

fn first_sentences(asked: &str) -> String {
    let turns: Vec<&str> = asked.split("\n## Query ").skip(1).collect();
    let turns = &turns[turns.len().saturating_sub(TOLD_TURNS)..];
    let sentence = |text: &str| -> String {
        let line = text.lines().next().unwrap_or_default();
        line.split(". ").next().unwrap_or_default().chars().take(SENTENCE_CHARS).collect()
    };
    let listed = |part: usize| -> String {
        let parts = turns.iter().filter_map(|turn| turn.split(":** ").nth(part));
        let points: Vec<String> = parts.map(|text| format!("- {}", sentence(text))).collect();
        points.join("\n")
    };
    format!(
        "**Background Context:** Initial session.\n\n**Current Session Summary:**\n\
         **Topics Discussed:**\n{}\n\n**Decisions Made:**\n{}\n\n**Pending:**\n- None noted.",
        listed(1),
        listed(2)
    )
}

fn table(sessions: usize, compactions: usize, sums: &[Sums]) -> String {
    let share = |part: usize, all: usize| match all {
        0 => "–".to_owned(),
        _ => format!("{:.1}", 100.0 * part as f64 / all as f64),
    };
    let calls = sums.first().map_or(0, |sums| sums.calls);
    let mut table = format!(
        "{sessions} sessions, {compactions} compactions, {calls} calls after them:\n\n\
         | continued from | names that survive | recall | edl | tokens at the start |\n|---|---|---|---|---|\n"
    );
    for ((name, _), sums) in ROWS.iter().zip(sums) {
        table.push_str(&format!(
            "| {name} | {} | {} | {} | {:.0} |\n",
            share(sums.survived, sums.names),
            share(sums.uses_seen, sums.uses),
            share(sums.edits_seen, sums.edits),
            sums.start_tokens / sums.starts.max(1) as f64,
        ));
    }
    table
}
