//! `token`: access tokens for remote clients.

use std::process::ExitCode;
use std::sync::Arc;

use rethread_core::Name;
use rethread_http::AccessTokens;
use rethread_store::System;
use serde_json::json;

use super::{Cli, Done};
use crate::args::Token;
use crate::errors::Error;
use crate::out::{ago, clean, line, note, pad};

pub(super) fn run(cli: &Cli, args: &Token) -> Done {
    let tokens = AccessTokens::new(cli.store.clone(), Arc::new(System));
    match args {
        Token::Create { name } => create(cli, &tokens, name)?,
        Token::List => list(cli, &tokens)?,
        Token::Revoke { name } => {
            let name = Name::new(name)?;
            tokens.revoke(&name).map_err(Error::Token)?;
            match cli.global.json {
                true => crate::out::json(&json!({ "revoked": name }))?,
                false => line(format_args!("Revoked {name}."))?,
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn create(cli: &Cli, tokens: &AccessTokens, name: &str) -> Result<(), Error> {
    let (name, owner) = (Name::new(name)?, cli.sessions.owner());
    let token = tokens.create(&name, owner).map_err(Error::Token)?;
    if cli.global.json {
        return crate::out::json(&json!({ "name": name, "owner": owner, "token": token }));
    }
    line(&token)?;
    note(format_args!(
        "This token gives access to the sessions of `{}`. It is not shown again; \
         send it as `Authorization: Bearer …`.",
        clean(owner.as_str())
    ));
    Ok(())
}

fn list(cli: &Cli, tokens: &AccessTokens) -> Result<(), Error> {
    let all = tokens.list().map_err(Error::Token)?;
    if cli.global.json {
        return crate::out::json(&json!({ "tokens": all }));
    }
    let width = all.iter().map(|token| token.name.as_str().len()).max().unwrap_or(0);
    for token in &all {
        line(format_args!(
            "\x1b[1m{}\x1b[0m  {}  \x1b[2m{}\x1b[0m",
            pad(token.name.as_str(), width),
            clean(token.owner.as_str()),
            ago(token.created_at, cli.now)
        ))?;
    }
    if all.is_empty() {
        note("No tokens. `rethread token create NAME --owner OWNER` creates one.");
    }
    Ok(())
}
