//! Two writers on one session: the one who has not seen the latest entry gets a conflict.
//!
//! `cargo run --release -p rethread-store --example two_writers`

use std::sync::Arc;
use std::time::Duration;

use rethread_core::sessions::Error;
use rethread_core::{Key, Message, New, Owner, Sessions, StoreError};
use rethread_store::{System, connect};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("rethread.db").display().to_string();
    let sessions =
        Sessions::new(connect(&path, Arc::new(System))?, Owner::local(), Arc::new(System));
    let key = Key::new("project:/home/you/service")?;
    let mut mine = sessions.open(&key, &New::default())?;
    let mut yours = sessions.open(&key, &New::default())?;

    // The second writer has not seen what the first wrote. Nothing of it is stored.
    mine.append(Message::user("mine"))?;
    match yours.append(Message::user("yours")) {
        Err(Error::Store(error @ StoreError::Conflict { .. })) => println!("refused: {error}"),
        other => panic!("a stale writer must be refused, not {other:?}"),
    }
    yours.refresh()?;
    yours.append(Message::user("yours, after reading mine"))?;

    // During a turn nobody else may write; a lease that is not renewed expires.
    mine.refresh()?;
    mine.hold("laptop", Duration::from_secs(30))?;
    match yours.hold("phone", Duration::from_secs(30)) {
        Err(error) => println!("held: {error}"),
        Ok(()) => panic!("one turn at a time"),
    }
    mine.append(Message::assistant("an answer to both"))?;
    mine.release("laptop")?;
    yours.hold("phone", Duration::from_secs(30))?;
    println!("{} entries, in one order", sessions.get(mine.session().id())?.tally.entries);
    Ok(())
}
