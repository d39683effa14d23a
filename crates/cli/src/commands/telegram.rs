//! `telegram`: the door for a chat bot.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use rethread_agent::Runner;
use rethread_core::context::Policy;
use rethread_telegram::{Door, DoorError, People, Token, Workspaces};
use serde_json::json;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

use super::{Desk, Done};
use crate::args::{Talk, Telegram};
use crate::chat::setup;
use crate::config::{env, owner_of};
use crate::errors::Error;
use crate::out::{clean, line, note, plural};

/// Where the token is, if it is in the environment. It is no setting: `config` shows those.
const TOKEN_VARIABLE: &str = "TELEGRAM_BOT_TOKEN";

/// How long work that cannot be stopped may hold up the end of the process.
const LAST_WAIT: Duration = Duration::from_millis(500);

pub(super) fn run(desk: &Desk, args: &Telegram) -> Done {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let done = runtime.block_on(answer(desk, args));
    runtime.shutdown_timeout(LAST_WAIT);
    done
}

async fn answer(desk: &Desk, args: &Telegram) -> Done {
    let token = token(desk, args)?;
    let people = people(desk, args);
    let (runners, agent) = runners(desk, args)?;
    let model = runners[&agent].model.id();
    let door = Door {
        url: desk.config.text("telegram.api_url").to_owned(),
        token,
        people: people.clone(),
        sessions: desk.sessions.clone(),
        runners,
        agent,
        workspaces: workspaces(desk, args)?,
        voice: Arc::new(|text| note(clean(text))),
    };
    let stop = stopped_by_signal(desk.global.json)?;
    let bot = match door.open(&stop).await {
        Err(DoorError::Stopped) => return Ok(ExitCode::SUCCESS),
        opened => opened.map_err(Error::Telegram)?,
    };
    let name = bot.name();
    let allowed = people.allowed.len() as u64;
    match desk.global.json {
        true => crate::out::json(&json!({ "bot": name, "model": model, "people": allowed }))?,
        false => line(format_args!(
            "Answering as {} with {model}: {} may talk to it. Ctrl-C stops.",
            clean(&name),
            if allowed == 1 {
                "1 person".into()
            } else {
                plural(allowed, "person").replace("persons", "people")
            }
        ))?,
    }
    if allowed == 0 {
        note(format_args!(
            "Nobody may talk to it yet: write to {} once, and it tells you your number for --allow-user",
            clean(&name)
        ));
    }
    bot.serve(&stop).await.map_err(Error::Telegram)?;
    Ok(ExitCode::SUCCESS)
}

/// The token: from the environment, or from the file that a flag or the configuration names.
fn token(desk: &Desk, args: &Telegram) -> Result<Token, Error> {
    let bad = |error| Error::BotToken(Some(error));
    let named = args.token_file.as_deref();
    if let (None, Some(text)) = (named, env(TOKEN_VARIABLE)) {
        return Token::new(&text).map_err(bad);
    }
    let configured = desk.config.given("telegram.token_file").map(Path::new);
    match named.or(configured) {
        Some(path) => Token::from_file(path).map_err(bad),
        None => Err(Error::BotToken(None)),
    }
}

fn people(desk: &Desk, args: &Telegram) -> People {
    let listed = desk.config.list("telegram.allow_users");
    let mut people = People {
        allowed: listed.iter().filter_map(|id| id.parse().ok()).collect(),
        owners: desk
            .config
            .list("telegram.owners")
            .iter()
            .filter_map(|pair| owner_of(pair))
            .collect(),
    };
    people.allowed.extend(&args.allow_user);
    people
}

fn workspaces(desk: &Desk, args: &Telegram) -> Result<Workspaces, Error> {
    let configured = desk.config.list("telegram.roots").into_iter().map(PathBuf::from);
    let roots: Vec<PathBuf> = args.root.iter().cloned().chain(configured).collect();
    let usual = desk.workspace()?;
    Workspaces::new(Path::new(&usual), &roots).map_err(|(path, _)| Error::NoFolder { path })
}

/// What runs the turns of each agent, and which one answers where none is named.
fn runners(desk: &Desk, args: &Telegram) -> Result<(BTreeMap<String, Runner>, String), Error> {
    let talk = Talk {
        agent: args.agent.clone(),
        model: args.model.clone(),
        allow: args.allow.clone(),
        ..Talk::default()
    };
    let agents = setup::agents(desk)?;
    let usual = setup::agent(desk, &talk, &agents, None)?;
    let policy = policy(desk, args);
    let ready = |runner: Runner| Runner {
        // Nobody sits at this terminal to be asked: what is allowed by name is allowed.
        ask_first: false,
        // What people far away say is not written to files of whoever runs the bot.
        transcripts: None,
        policy: match &runner.agent.policy {
            Some(_) => runner.policy,
            None => policy.clone(),
        },
        ..runner
    };
    let mut runners = BTreeMap::new();
    for agent in agents.iter() {
        match setup::runner(desk, &talk, &agents, agent.clone()) {
            Ok(runner) => drop(runners.insert(agent.name.clone(), ready(runner))),
            Err(error) if agent.name == usual.name => return Err(error),
            // One agent that wants a model nobody has a key for does not keep the others.
            Err(error) => note(format_args!(
                "\x1b[1;33mwarning:\x1b[0m {} cannot answer: {}",
                clean(&agent.name),
                clean(&error.to_string())
            )),
        }
    }
    Ok((runners, usual.name))
}

fn policy(desk: &Desk, args: &Telegram) -> Policy {
    let name = args.policy.as_deref().unwrap_or(desk.config.text("telegram.policy"));
    let mut policy = Policy::preset(name).expect("checked when it was read");
    if let Some(clip) = &mut policy.clip {
        let number = |name| desk.config.number(name).and_then(|n| usize::try_from(n).ok());
        clip.texts = number("telegram.clip_texts").unwrap_or(clip.texts);
        clip.chars = number("telegram.clip_chars").unwrap_or(clip.chars);
    }
    policy
}

/// Cancelled by Ctrl-C, or by whoever manages services here.
fn stopped_by_signal(quiet: bool) -> Result<CancellationToken, Error> {
    let (mut term, mut int) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    let stop = CancellationToken::new();
    let stopped = stop.clone();
    tokio::spawn(async move {
        tokio::select! {
            _ = term.recv() => {}
            _ = int.recv() => {}
        }
        if !quiet {
            note("Stopping: turns that run are finished first.");
        }
        stopped.cancel();
    });
    Ok(stop)
}
