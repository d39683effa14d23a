//! `telegram`: the Telegram bot.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use rethread_agent::{Host, Workspaces};
use rethread_core::context::Policy;
use rethread_telegram::{AllowList, BotError, BotSettings, BotToken};
use serde_json::json;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

use super::{Cli, Done};
use crate::args::Telegram;
use crate::config::{env, owner_of};
use crate::errors::Error;
use crate::hosting::Answering;
use crate::out::{clean, line, note, plural};

/// The environment variable with the token. It is not a setting, because `config` shows those.
const TOKEN_VARIABLE: &str = "TELEGRAM_BOT_TOKEN";

/// How long work that cannot be cancelled may delay the end of the process.
const LAST_WAIT: Duration = Duration::from_millis(500);

pub(super) fn run(cli: &Cli, args: &Telegram) -> Done {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let done = runtime.block_on(answer(cli, args));
    runtime.shutdown_timeout(LAST_WAIT);
    done
}

async fn answer(cli: &Cli, args: &Telegram) -> Done {
    let token = token(cli, args)?;
    let allow_list = allow_list(cli, args);
    let host = host(cli, args)?;
    let model = host.roster().connect(host.roster().default_agent())?.model.id();
    let door = BotSettings {
        url: cli.config.text("telegram.api_url").to_owned(),
        token,
        allow_list: allow_list.clone(),
        host,
        warn: Arc::new(|text| note(clean(text))),
    };
    let stop = stopped_by_signal(cli.global.json)?;
    let bot = match door.open(&stop).await {
        Err(BotError::Stopped) => return Ok(ExitCode::SUCCESS),
        opened => opened.map_err(Error::Telegram)?,
    };
    let name = bot.name();
    let allowed = allow_list.allowed.len() as u64;
    match cli.global.json {
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
            "No user is allowed yet: send {} a message, and it replies with your user id for --allow-user",
            clean(&name)
        ));
    }
    bot.serve(&stop).await.map_err(Error::Telegram)?;
    Ok(ExitCode::SUCCESS)
}

/// The token: from the environment, or from a file given by a flag or the configuration.
fn token(cli: &Cli, args: &Telegram) -> Result<BotToken, Error> {
    let bad = |error| Error::BotToken(Some(error));
    let named = args.token_file.as_deref();
    if let (None, Some(text)) = (named, env(TOKEN_VARIABLE)) {
        return BotToken::new(&text).map_err(bad);
    }
    let configured = cli.config.given("telegram.token_file").map(Path::new);
    match named.or(configured) {
        Some(path) => BotToken::from_file(path).map_err(bad),
        None => Err(Error::BotToken(None)),
    }
}

fn allow_list(cli: &Cli, args: &Telegram) -> AllowList {
    let listed = cli.config.list("telegram.allow_users");
    let mut list = AllowList {
        allowed: listed.iter().filter_map(|id| id.parse().ok()).collect(),
        owners: cli
            .config
            .list("telegram.owners")
            .iter()
            .filter_map(|pair| owner_of(pair))
            .collect(),
    };
    list.allowed.extend(&args.allow_user);
    list
}

fn workspaces(cli: &Cli, args: &Telegram) -> Result<Workspaces, Error> {
    let configured = cli.config.list("telegram.roots").iter().map(PathBuf::from);
    let roots: Vec<PathBuf> = args.root.iter().cloned().chain(configured).collect();
    let usual = cli.workspace()?;
    let below = Workspaces::below(Path::new(&usual), &roots);
    let below = below.map_err(|(path, _)| Error::NoFolder { path })?;
    Ok(below.with_run_settings(cli.run_settings()))
}

/// The host of the bot. Agents whose model has no API key are reported, and the others answer.
fn host(cli: &Cli, args: &Telegram) -> Result<Host, Error> {
    let answering = Answering {
        agent: args.agent.clone(),
        model: args.model.clone(),
        allow: args.allow.clone(),
        read_only: false,
        policy: Some(policy(cli, args)),
        window: None,
        source: Some("telegram"),
    };
    // Text of remote users is not written to the operator's files.
    let host = cli.host_in(answering, workspaces(cli, args)?, None)?;
    for agent in host.agents().iter() {
        if let Err(error) = host.roster().connect(&agent.name) {
            note(format_args!(
                "\x1b[1;33mwarning:\x1b[0m {} cannot answer: {}",
                clean(&agent.name),
                clean(&error.to_string())
            ));
        }
    }
    Ok(host)
}

fn policy(cli: &Cli, args: &Telegram) -> Policy {
    let name = args.policy.as_deref().unwrap_or(cli.config.text("telegram.policy"));
    let mut policy = Policy::preset(name).expect("checked when it was read");
    if let Some(clip) = &mut policy.clip {
        let number = |name| cli.config.number(name).and_then(|n| usize::try_from(n).ok());
        clip.texts = number("telegram.clip_texts").unwrap_or(clip.texts);
        clip.chars = number("telegram.clip_chars").unwrap_or(clip.chars);
    }
    policy
}

/// Cancelled by Ctrl-C, or by the service manager.
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
            note("Stopping: running turns finish first.");
        }
        stopped.cancel();
    });
    Ok(stop)
}
