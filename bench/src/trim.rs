//! The time it takes to show results by lines, compared with cutting them at a length.
//!
//! The same sessions are replayed under both rules in turns, into SQLite: what each append and each
//! context takes is added up for the whole of them, and the medians of the sums are compared.

use std::path::Path;
use std::time::Duration;

use rethread_core::context::{Model, Policy};
use rethread_core::entry::Body;
use rethread_core::limits::LEASE_MAX;
use rethread_core::{Incoming, Item, New, Role, Sessions};

use crate::economy::corpus::{Transcript, load};
use crate::run::{Report, Setting, Target, median, timed, us};

/// What a replay took.
#[derive(Clone, Copy, Default)]
struct Took {
    appends: Duration,
    contexts: Duration,
}

/// Appends and contexts under `chat`, against `editor`.
pub(crate) fn lines(setting: &Setting) -> Vec<Report> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus");
    let corpus = load(&folder).expect("the transcripts of the repository");
    let entries: usize = corpus.iter().map(|transcript| transcript.entries.len()).sum();
    let calls: usize = corpus.iter().map(Transcript::calls).sum();
    let (mut chat, mut editor) = (Vec::new(), Vec::new());
    let rounds = setting.size(40, 1);
    for round in 0..rounds + rounds / 5 {
        // Each begins every other time.
        let mut took = [Took::default(); 2];
        for index in [round % 2, 1 - round % 2] {
            let policy = [Policy::chat(), Policy::editor()][index].clone();
            let sessions = setting.sessions(&format!("trim-{round}-{index}.db"));
            corpus.iter().for_each(|one| replay(&sessions, one, &policy, &mut took[index]));
        }
        if round >= rounds / 5 {
            chat.push(took[0]);
            editor.push(took[1]);
        }
    }
    let report = |name, of: fn(&Took) -> Duration, count: usize| {
        let middle = |all: &[Took]| median(&mut all.iter().map(of).collect::<Vec<_>>());
        let (ours, theirs) = (middle(&chat), middle(&editor));
        let each = |all: Duration| us(all / u32::try_from(count.max(1)).unwrap_or(u32::MAX));
        Report {
            name,
            against: "results cut at 4,000 characters (`editor`)".into(),
            figure: ours.as_secs_f64() / theirs.as_secs_f64(),
            unit: "×",
            target: Target::AtMost(1.1),
            detail: format!("{} against {}", each(ours), each(theirs)),
        }
    };
    vec![
        report("append, results shown by lines (`chat`)", |took| took.appends, entries),
        report("context, results shown by lines (`chat`)", |took| took.contexts, calls),
    ]
}

/// Appends a transcript as turns do, and builds a context before each reply.
fn replay(sessions: &Sessions, transcript: &Transcript, policy: &Policy, took: &mut Took) {
    let model = Model { window: 1_000_000, ..Model::new("replayed", "model") };
    let id = sessions.create(&New::default(), None).expect("created").id();
    let mut thread = sessions.thread(id).expect("opened");
    thread.hold("replay", LEASE_MAX).expect("there is no other writer");
    for (_, body) in &transcript.entries {
        let message = body.message();
        if message.is_some_and(|message| message.role == Role::Assistant) {
            let (time, _) = timed(|| drop(thread.context(policy, &model).expect("built")));
            took.contexts += time;
        }
        let asks = message.is_some_and(|message| message.opens_turn());
        let item = match body.clone() {
            Body::Message(message) => Item::Said(Incoming::from(message)),
            other => Item::Noted(other),
        };
        let (time, ()) = timed(|| {
            let thinned = asks
                .then(|| thread.thinning(policy, thread.last_at(), Duration::from_secs(300)))
                .flatten();
            let thinned = thinned.map(|thinned| Item::Noted(Body::Thinned(thinned)));
            thread.record(thinned.into_iter().chain([item]).collect()).expect("appended");
        });
        took.appends += time;
    }
}
