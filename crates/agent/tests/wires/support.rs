//! A server, a provider that asks it, and what they say to each other.

use std::future::Future;

use rethread_agent::provider::{Delta, Env, Failure, Request, connect, describe};
use rethread_agent::scripted::Server;
use rethread_agent::tool::Spec;
use rethread_core::{Message, Owner, SessionId};
use serde_json::json;

pub(crate) const PROVIDERS: [&str; 3] = ["anthropic", "openai", "ollama"];
pub(crate) const SSE: &str = "text/event-stream";

pub(crate) fn run<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime can be built").block_on(future)
}

fn tools() -> Vec<Spec> {
    let input = json!({"type": "object", "properties": {"path": {"type": "string"}}});
    vec![
        Spec { name: "list".into(), description: "Lists files.".into(), input: input.clone() },
        Spec { name: "read".into(), description: "Reads a file.".into(), input },
    ]
}

pub(crate) fn ask_in(
    env: &Env,
    provider: &str,
    messages: &[Message],
    stable: usize,
) -> (Result<Message, Failure>, Vec<Delta>) {
    let model = describe(provider, "model");
    let mut deltas = Vec::new();
    let tools = tools();
    let reply = run(async {
        let provider = connect(&model, env)?;
        let session = Some(SessionId::of_source(&Owner::local(), "a test"));
        let (model, tools, keep_longer) = (&model, &tools, false);
        let request = Request { model, messages, stable, tools, session, keep_longer };
        provider.ask(request, &mut |delta| deltas.push(delta)).await
    });
    (reply, deltas)
}

/// Asks several times over one connection, for a cache that lives longer than usual.
pub(crate) fn ask_to_keep_longer(server: &Server, messages: &[Message], times: usize) {
    let (model, tools) = (describe("anthropic", "model"), tools());
    run(async {
        let provider = connect(&model, &server.env()).expect("connected");
        for _ in 0..times {
            let (stable, session) = (messages.len(), None);
            let (model, tools, keep_longer) = (&model, &tools, true);
            let request = Request { model, messages, stable, tools, session, keep_longer };
            provider.ask(request, &mut |_| {}).await.expect("there is a reply");
        }
    });
}

pub(crate) fn ask(server: &Server, provider: &str, messages: &[Message]) -> Message {
    ask_in(&server.env(), provider, messages, messages.len()).0.expect("there is a reply")
}

pub(crate) fn failure(server: &Server, provider: &str) -> Failure {
    ask_in(&server.env(), provider, &hello(), 2).0.expect_err("there is no reply")
}

pub(crate) fn hello() -> Vec<Message> {
    vec![Message::system("Be brief."), Message::user("Hello?")]
}

pub(crate) fn joined(deltas: &[Delta]) -> (String, String) {
    let (mut thinking, mut text) = (String::new(), String::new());
    for delta in deltas {
        match delta {
            Delta::Thinking(more) => thinking.push_str(more),
            Delta::Text(more) => text.push_str(more),
        }
    }
    (thinking, text)
}

pub(crate) fn calls(message: &Message) -> Vec<(&str, &str)> {
    message.calls().map(|call| (call.name.as_str(), call.input.get())).collect()
}

/// The conversation after `reply` and a result for each of its calls, in a log's JSON and back.
pub(crate) fn continued(reply: Message) -> Vec<Message> {
    let mut messages = hello();
    let results: Vec<Message> =
        reply.calls().map(|call| Message::tool_result(&call.id, "done")).collect();
    messages.push(reply);
    messages.extend(results);
    let json = serde_json::to_string(&messages).expect("messages are JSON");
    serde_json::from_str(&json).expect("messages can be read again")
}
