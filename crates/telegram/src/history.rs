//! `/history`: the conversation, newest last, page by page.

use rethread_core::{Body, Entry, Role, SessionId, Sessions, sessions};

use crate::buttons::{Buttons, Press};
use crate::handle_update::{UpdateError, UpdateHandler};
use crate::inbox::Reply;
use crate::limits::{HISTORY_PARTS_MAX, MESSAGE_UNITS_MAX};
use crate::markup::Rich;
use crate::texts;

impl UpdateHandler {
    pub(crate) async fn history(&self, rest: &str) -> Result<Reply, UpdateError> {
        let all = match rest {
            "" => false,
            "all" => true,
            _ => {
                return Ok(Rich::plain("It is ")
                    .code("/history")
                    .and(" or ")
                    .code("/history all")
                    .and(".")
                    .into());
            }
        };
        match self.current().await? {
            Some(session) => self.history_of(session.id(), None, all).await,
            None => Ok(texts::nothing_yet().into()),
        }
    }

    /// The messages before an entry, or up to now; back to the last clear, or to the beginning.
    pub(crate) async fn history_of(
        &self,
        id: SessionId,
        before: Option<u64>,
        all: bool,
    ) -> Result<Reply, UpdateError> {
        Ok(self.with(move |sessions| page(sessions, id, before, all)).await?)
    }
}

fn page(
    sessions: &Sessions,
    id: SessionId,
    before: Option<u64>,
    all: bool,
) -> Result<Reply, sessions::Error> {
    let session = sessions.get(id)?;
    let begins = if all { 0 } else { session.tally.begins() };
    let end = before.unwrap_or(session.tally.entries).min(session.tally.entries);
    let room = MESSAGE_UNITS_MAX * HISTORY_PARTS_MAX;
    let mut said: Vec<Rich> = Vec::new();
    let mut units = 0;
    let mut earlier = None;
    for entry in sessions.entries(id, begins..end).skip_damaged().rev() {
        let entry = entry?;
        let Some(text) = shown(&entry) else { continue };
        units += text.units() + 2;
        // A message that is longer than a page is a page of its own.
        if units > room && !said.is_empty() {
            earlier = Some(entry.seq + 1);
            break;
        }
        said.push(text);
    }
    let hidden = !all && begins > 0 && earlier.is_none();
    if said.is_empty() {
        let text = Rich::plain("No messages since the last clear.");
        return Ok(match hidden {
            true => text.and(" ").code("/history all").and(" shows what was before it.").into(),
            false => texts::nothing_yet().into(),
        });
    }
    let mut text = Rich::default();
    for one in said.into_iter().rev() {
        text = text.join(one).and("\n\n");
    }
    if hidden {
        text = text.italic("Before the last clear: /history all");
    }
    let buttons = match earlier {
        Some(before) => {
            Buttons::default().row("earlier …", Press::History { session: id, before, all })
        }
        None => Buttons::default(),
    };
    Ok(Reply { text, buttons })
}

/// The messages of people and models; tool output is left out.
fn shown(entry: &Entry) -> Option<Rich> {
    let at = entry.at.strftime("%Y-%m-%d %H:%M");
    match &entry.body {
        Body::Message(message) => {
            let text = message.plain_text();
            let who = match message.role {
                Role::User => "You",
                Role::Assistant => "Assistant",
                Role::System | Role::Tool => return None,
            };
            let attached = message.blobs().len() as u64;
            if text.trim().is_empty() && attached == 0 {
                return None;
            }
            let mut head = Rich::default().bold(who).italic(format!(" · {at} UTC")).and("\n");
            if attached > 0 {
                head = head.italic(format!("[{}]\n", texts::count(attached, "attachment")));
            }
            Some(match message.role {
                Role::Assistant => head.join(Rich::markdown(&text)),
                _ => head.and(text),
            })
        }
        Body::Cleared { .. } => Some(Rich::default().italic(format!("— cleared · {at} UTC —"))),
        Body::LeftOut(_) => {
            Some(Rich::default().italic(format!("— no longer shown to the model · {at} UTC —")))
        }
        Body::Undone { .. } => Some(Rich::default().italic(format!("— clear undone · {at} UTC —"))),
        Body::Restored(restored) => Some(
            Rich::default()
                .italic(format!("— continued from a summary · {at} UTC —"))
                .and("\n")
                .join(Rich::markdown(&restored.summary)),
        ),
        // An entry that is damaged, or was lost with a damaged log.
        Body::Unknown { kind, .. } if kind == "lost" => {
            Some(Rich::default().italic("— something here cannot be read —"))
        }
        _ => None,
    }
}
