//! What the loop itself costs: a turn whose model and tools take no time.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use rethread_agent::provider::{Listener, Provider, Reply, Request};
use rethread_agent::tool::{Spec, Tool, ToolContext, ToolFailure};
use rethread_agent::{
    Events, Host, HostLimits, HostSettings, Roster, RosterSettings, Runner, Workspaces,
};
use rethread_core::context::Model;
use rethread_core::{Block, Message, New, Owner, Raw, Role, SessionId};
use rethread_store::System;
use serde_json::json;

use crate::append::fill;
use crate::run::{Report, Setting, Target, median, timed, us};

/// Rounds of one turn.
const ROUNDS: u32 = 10;

/// A model that calls a tool at once, and answers in the last round.
#[derive(Default)]
struct Instant {
    asked: AtomicU32,
}

impl Provider for Instant {
    fn ask<'a>(&'a self, _: Request<'a>, _: Listener<'a>) -> Reply<'a> {
        let asked = self.asked.fetch_add(1, Ordering::Relaxed);
        let reply = match (asked + 1).is_multiple_of(ROUNDS) {
            true => Message::assistant("done"),
            false => {
                let call = Block::tool_use(
                    format!("c{asked}"),
                    "nothing",
                    Raw::of(&json!({ "n": asked })),
                );
                Message::new(Role::Assistant, vec![call])
            }
        };
        Box::pin(std::future::ready(Ok(reply)))
    }
}

/// A tool that does nothing.
struct Nothing;

impl Tool for Nothing {
    fn spec(&self) -> Spec {
        Spec {
            name: "nothing".into(),
            description: "Does nothing.".into(),
            input: json!({"type": "object"}),
        }
    }

    fn changes(&self) -> bool {
        false
    }

    fn run(&self, _: &str, _: &ToolContext) -> Result<String, ToolFailure> {
        Ok("nothing was done".into())
    }
}

/// The loop's own time for each round, disk included.
pub(crate) fn overhead(setting: &Setting) -> Vec<Report> {
    let sessions = setting.sessions("round.db");
    let id = sessions.create(&New::default(), None).expect("a session").id();
    fill(&sessions, id, setting.size(10_000, 2_000), 400);
    let model = Model::new("offline", "instant");
    let provider: Arc<dyn Provider> = Arc::new(Instant::default());
    let workspaces = Workspaces::only(&setting.folder).expect("a folder");
    let settings = HostSettings {
        roster: Roster::with_provider(RosterSettings::default(), model, provider),
        workspaces: workspaces.with_tool(Arc::new(Nothing)),
        limits: HostLimits::default(),
        transcripts: None,
    };
    let host = Host::new(setting.store("round.db"), Arc::new(System), settings);
    let runner = host.handle(Owner::local()).runner(None, None).expect("it can answer");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.expect("a runtime");
    let (events, stop, options) = (Events::none(), Default::default(), Default::default());
    let mut times: Vec<Duration> = Vec::new();
    for turn in 0..setting.size(60, 12) {
        let (took, answer) = timed(|| {
            runtime.block_on(runner.run_turn(id, Message::user("go"), &options, &events, &stop))
        });
        assert_eq!(answer.expect("answered").rounds, ROUNDS);
        if turn >= 2 {
            times.push(took / ROUNDS);
        }
    }
    let round = median(&mut times);
    let (context, appends) = parts(&runner, id);
    vec![Report {
        name: "the loop's own time per round",
        against: "nothing: the model and the tool take no time".into(),
        figure: round.as_secs_f64() * 1e3,
        unit: "ms",
        target: Target::AtMost(2.0),
        detail: format!(
            "{} with 10,000 entries, of which building the context {} and two durable appends {}",
            us(round),
            us(context),
            us(appends)
        ),
    }]
}

/// What the parts of a round take by themselves.
fn parts(runner: &Runner, id: SessionId) -> (Duration, Duration) {
    let mut thread = runner.sessions().thread(id).expect("a thread");
    thread.append(Message::user("go")).expect("appended");
    let (mut contexts, mut appends) = (Vec::new(), Vec::new());
    for round in 0..100 {
        let call = Block::tool_use(format!("p{round}"), "nothing", Raw::of(&json!({})));
        let (append, ()) = timed(|| {
            thread.append(Message::new(Role::Assistant, vec![call])).expect("appended");
            thread.append(Message::tool_result(format!("p{round}"), "nothing")).expect("appended");
        });
        let (context, _) =
            timed(|| thread.context(&runner.responder.policy, &runner.responder.model));
        appends.push(append);
        contexts.push(context);
    }
    (median(&mut contexts), median(&mut appends))
}
