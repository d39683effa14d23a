//! `serve`: the HTTP door.

use std::io::{IsTerminal, Write};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use rethread_agent::Runner;
use rethread_agent::agents::Agent;
use rethread_http::{Door, Limits, Rules, Runners};
use rethread_store::System;
use serde_json::json;
use tokio::signal::unix::{SignalKind, signal};

use super::{Desk, Done};
use crate::args::{Serve, Talk};
use crate::chat::setup;
use crate::errors::Error;
use crate::out::{line, note};

/// How long work that cannot be stopped may hold up the end of the process.
const LAST_WAIT: Duration = Duration::from_millis(500);

pub(super) fn run(desk: &Desk, args: &Serve) -> Done {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let done = runtime.block_on(serve(desk, args));
    runtime.shutdown_timeout(LAST_WAIT);
    done
}

async fn serve(desk: &Desk, args: &Serve) -> Done {
    let talk = Talk {
        agent: args.agent.clone(),
        model: args.model.clone(),
        allow: args.allow.clone(),
        ..Talk::default()
    };
    let agents = setup::agents(desk)?;
    let agent = setup::agent(desk, &talk, &agents, None)?;
    // Nobody sits at this terminal to be asked: what is allowed by name is allowed.
    let runner = |agent: &Agent| {
        let runner = setup::runner(desk, &talk, &agents, agent.clone())?;
        Ok::<Runner, Error>(Runner { ask_first: false, ..runner })
    };
    let usual = runner(&agent)?;
    let model = usual.model.id();
    let runners = Runners::new(usual, agents.clone(), |agent| {
        runner(agent).map_err(|error| error.to_string())
    });
    let log = args.log || !std::io::stderr().is_terminal();
    let door = Door {
        store: desk.store.clone(),
        world: Arc::new(System),
        runners,
        rules: Rules {
            require_token: args.require_token,
            allow_hosts: args.allow_host.clone(),
            allow_origins: args.allow_origin.clone(),
        },
        limits: Limits::default(),
        log: log.then(|| Box::new(std::io::stderr()) as Box<dyn Write + Send>),
    };
    let (mut term, mut int) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    let listening = door.listen(args.listen).await.map_err(Error::Listen)?;
    let url = format!("http://{}", listening.address());
    match desk.global.json {
        true => crate::out::json(&json!({ "listening": url, "model": model }))?,
        false => line(format_args!(
            "Listening on {url} with {model}. {url}/docs shows what can be asked; Ctrl-C stops."
        ))?,
    }
    listening
        .serve(async {
            tokio::select! {
                _ = term.recv() => {}
                _ = int.recv() => {}
            }
            if !desk.global.json {
                note("Stopping: turns that run get a few seconds to finish.");
            }
        })
        .await;
    Ok(ExitCode::SUCCESS)
}
