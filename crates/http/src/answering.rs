//! Who answers a question: the session's own agent, or another one for a single turn.
//!
//! The log says whose instructions hold. An agent that answers once has its own written down before
//! its turn, with a note of which ones they stand in for; those hold again as soon as the turn is
//! over, or, after a crash, before the next one begins.

use rethread_agent::Runner;
use rethread_core::context::Policy;
use rethread_core::{Message, Raw, Role, Session, SessionId, Sessions, sessions};

use crate::desk::Visitor;
use crate::problem::Problem;

/// The field of a system message that holds for one turn: the seq of the one it stands in for.
const INSTEAD_OF: &str = "instead_of";

/// How a question is to be answered.
#[derive(Clone, Default)]
pub(crate) struct Asked {
    /// The agent that answers this once; the session's own when none is named.
    pub(crate) agent: Option<String>,
    /// How the context is shaped; as the agent has it when nothing is said.
    pub(crate) policy: Option<Policy>,
}

impl Visitor {
    /// What runs a turn in a session, once the right instructions hold there.
    pub(crate) async fn answering(&self, id: SessionId, asked: &Asked) -> Result<Runner, Problem> {
        let session = self.with(move |sessions| own_instructions(sessions, id)).await?;
        let imported = session.header.imported.is_some();
        let mut runner = match &asked.agent {
            Some(name) if session.header.profile.agent.as_ref() != Some(name) => {
                let once = self.runner(Some(name))?;
                let instructions = once.new_session().system.unwrap_or_default();
                let before = session.tally.system;
                self.with(move |sessions| for_one_turn(sessions, id, &instructions, before))
                    .await?;
                if imported { once.without_tools() } else { once }
            }
            _ => {
                let own = self.desk.runners.of(&session.header, self.sessions.clone())?;
                if imported {
                    let instructing = own.clone();
                    self.with(move |_| instructing.instruct(&session)).await?;
                }
                own
            }
        };
        if let Some(policy) = &asked.policy {
            runner.policy = policy.clone();
        }
        Ok(runner)
    }

    /// The turn is over: the session's own instructions hold again.
    pub(crate) async fn answered(&self, id: SessionId, asked: &Asked) {
        if asked.agent.is_some() {
            // Where this fails, the next turn does it before it begins.
            drop(self.with(move |sessions| own_instructions(sessions, id)).await);
        }
    }
}

fn for_one_turn(
    sessions: &Sessions,
    id: SessionId,
    instructions: &str,
    before: Option<u64>,
) -> sessions::Result<()> {
    let mut message = Message::system(instructions);
    message.extra.push((INSTEAD_OF.into(), Raw::of(&before)));
    sessions.append(id, vec![message.into()])?;
    Ok(())
}

/// Lets the session's own instructions hold, where those of one turn still do.
fn own_instructions(sessions: &Sessions, id: SessionId) -> sessions::Result<Session> {
    let session = sessions.get(id)?;
    let Some(held) = message_at(sessions, id, session.tally.system)? else { return Ok(session) };
    let Some((_, before)) = held.extra.iter().find(|(name, _)| name == INSTEAD_OF) else {
        return Ok(session);
    };
    let before = serde_json::from_str::<Option<u64>>(before.get()).unwrap_or_default();
    let own = message_at(sessions, id, before)?.map(|message| message.content).unwrap_or_default();
    sessions.append(id, vec![Message::new(Role::System, own).into()])?;
    sessions.get(id)
}

fn message_at(
    sessions: &Sessions,
    id: SessionId,
    seq: Option<u64>,
) -> sessions::Result<Option<Message>> {
    let Some(seq) = seq else { return Ok(None) };
    let entry = sessions.read(id, seq..seq.saturating_add(1))?.pop();
    Ok(entry.and_then(|entry| entry.body.message().cloned()))
}
