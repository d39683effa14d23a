//! `serve`: the HTTP API.

use std::io::{IsTerminal, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use rethread_core::World;
use rethread_http::{Limits, Rules, ServerSettings};
use rethread_store::System;
use serde_json::json;
use tokio::signal::unix::{SignalKind, signal};

use super::{Cli, Done};
use crate::args::Serve;
use crate::errors::Error;
use crate::hosting::Answering;
use crate::out::{line, note};

/// How long work that cannot be cancelled may delay the end of the process.
const LAST_WAIT: Duration = Duration::from_millis(500);

pub(super) fn run(cli: &Cli, args: &Serve) -> Done {
    // The HTTP library panics on such a date in every response.
    if System.now() < jiff::Timestamp::UNIX_EPOCH {
        return Err(Error::Word {
            what: "the clock of this machine shows a time before 1970".into(),
            hint: "set the clock, then start the server again",
        });
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let done = runtime.block_on(serve(cli, args));
    runtime.shutdown_timeout(LAST_WAIT);
    done
}

async fn serve(cli: &Cli, args: &Serve) -> Done {
    let answering = Answering {
        agent: args.agent.clone(),
        model: args.model.clone(),
        allow: args.allow.clone(),
        source: Some("http"),
        ..Answering::default()
    };
    let transcripts = cli.config.given("transcripts").map(PathBuf::from);
    let settings = cli.settings(answering, cli.workspaces()?, transcripts)?;
    let model = settings.roster.connect(settings.roster.default_agent())?.model.id();
    let log = args.log || !std::io::stderr().is_terminal();
    let door = ServerSettings {
        store: cli.store.clone(),
        world: Arc::new(System),
        settings,
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
    match cli.global.json {
        true => crate::out::json(&json!({ "listening": url, "model": model }))?,
        false => line(format_args!(
            "Listening on {url} with {model}. {url}/docs describes the API; Ctrl-C stops."
        ))?,
    }
    listening
        .serve(async {
            tokio::select! {
                _ = term.recv() => {}
                _ = int.recv() => {}
            }
            if !cli.global.json {
                note("Stopping: running turns have a few seconds to finish.");
            }
        })
        .await;
    Ok(ExitCode::SUCCESS)
}
