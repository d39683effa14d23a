//! Sends messages to Telegram, at the rate it allows, with retries.
//!
//! An important message is retried until Telegram accepts it or refuses it permanently. If the
//! response is lost, it is unknown whether Telegram accepted the message: it is sent again, because
//! a duplicate is better than a lost message. An edit can be repeated without harm.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::api::{Api, ApiError};
use crate::bot::Warn;
use crate::buttons::Buttons;
use crate::limits::{DRAFT_BEHIND_MAX, RETRY_WAIT, RETRY_WAIT_MAX, SENDS_PER_SECOND};
use crate::markup::Part;
use crate::update::{Chat, IncomingUpdate};
use crate::wire::{
    AnswerCallbackQuery, Content, EditMessageText, LinkPreviewOptions, ReplyParameters,
    SendChatAction, SendMessage,
};

/// Why a message was not delivered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Undelivered {
    /// Telegram will never accept it: the bot was blocked, or the chat or the message is gone.
    Never,
    /// The group is a supergroup now, with this id.
    Moved(i64),
    /// The bot is stopping; it is delivered after the next start.
    Stopping,
}

/// The result of sending a draft.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Draft<T> {
    Shown(T),
    /// Not sent; try again after this time.
    Later(Duration),
}

/// Sends messages to Telegram.
pub(crate) struct Post {
    api: Arc<Api>,
    /// When the next message may be sent.
    next: Mutex<Instant>,
    warn: Warn,
    stopping: CancellationToken,
}

impl Post {
    pub(crate) fn new(api: Arc<Api>, warn: Warn, stopping: CancellationToken) -> Post {
        Post { api, next: Mutex::new(Instant::now()), warn, stopping }
    }

    /// Sends a message, and returns its id.
    pub(crate) async fn send(
        &self,
        incoming: &IncomingUpdate,
        part: &Part,
        buttons: &Buttons,
    ) -> Result<i32, Undelivered> {
        let mut styled = true;
        let mut waits = Waits::default();
        loop {
            self.my_turn().await;
            let failed = match self.api.send(&message(incoming, part, buttons, styled)).await {
                Ok(sent) => return Ok(sent.message_id),
                Err(failed) => failed,
            };
            match failed.says("can't parse entities") && styled {
                true => styled = false,
                false => self.again(&failed, &mut waits).await?,
            }
        }
    }

    /// Edits a message.
    pub(crate) async fn edit(
        &self,
        chat: Chat,
        message: i32,
        part: &Part,
        buttons: &Buttons,
    ) -> Result<(), Undelivered> {
        let mut styled = true;
        let mut waits = Waits::default();
        loop {
            self.my_turn().await;
            let failed = match self.api.edit(&edited(chat, message, part, buttons, styled)).await {
                Ok(()) => return Ok(()),
                Err(failed) if failed.says("message is not modified") => return Ok(()),
                Err(failed) => failed,
            };
            match failed.says("can't parse entities") && styled {
                true => styled = false,
                false => self.again(&failed, &mut waits).await?,
            }
        }
    }

    /// Sends the first draft of a reply, unless the rate limit is reached.
    pub(crate) async fn first_draft(&self, incoming: &IncomingUpdate, part: &Part) -> Draft<i32> {
        if !self.has_room() {
            return Draft::Later(DRAFT_BEHIND_MAX);
        }
        match self.api.send(&message(incoming, part, &Buttons::default(), true)).await {
            Ok(sent) => Draft::Shown(sent.message_id),
            Err(failed) => Draft::Later(failed.wait().unwrap_or(RETRY_WAIT_MAX)),
        }
    }

    /// Updates the draft of a reply, unless the rate limit is reached.
    pub(crate) async fn draft(&self, chat: Chat, message: i32, part: &Part) -> Draft<()> {
        if !self.has_room() {
            return Draft::Later(DRAFT_BEHIND_MAX);
        }
        match self.api.edit(&edited(chat, message, part, &Buttons::default(), true)).await {
            Ok(()) => Draft::Shown(()),
            Err(failed) => Draft::Later(failed.wait().unwrap_or(RETRY_WAIT)),
        }
    }

    /// Shows "typing". It does not matter if this fails.
    pub(crate) async fn typing(&self, chat: Chat) {
        let params =
            SendChatAction { chat_id: chat.id, message_thread_id: chat.topic, action: "typing" };
        drop(self.api.action(&params).await);
    }

    /// Answers a button press, which stops its spinner. Telegram drops old presses, so this is
    /// tried once.
    pub(crate) async fn pressed(&self, query: &str, text: Option<&str>) {
        let params = AnswerCallbackQuery { callback_query_id: query, text };
        drop(self.api.answer(&params).await);
    }

    /// Waits for a slot in the rate limit.
    async fn my_turn(&self) {
        let at = {
            let mut next = self.next.lock().unwrap_or_else(PoisonError::into_inner);
            let at = (*next).max(Instant::now());
            *next = at + Duration::from_secs(1) / SENDS_PER_SECOND;
            at
        };
        tokio::time::sleep_until(at).await;
    }

    /// Takes a slot now, if there is one.
    fn has_room(&self) -> bool {
        let mut next = self.next.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        let room = *next <= now + DRAFT_BEHIND_MAX;
        if room {
            *next = (*next).max(now) + Duration::from_secs(1) / SENDS_PER_SECOND;
        }
        room
    }

    /// Waits before a retry; or reports that a retry is pointless.
    async fn again(&self, failed: &ApiError, waits: &mut Waits) -> Result<(), Undelivered> {
        if let Some(to) = failed.moved() {
            return Err(Undelivered::Moved(to));
        }
        if matches!(failed.code(), Some(400 | 403)) {
            (self.warn)(&format!("a message was not delivered: {failed}"));
            return Err(Undelivered::Never);
        }
        let wait = waits.next(failed);
        tokio::select! {
            () = self.stopping.cancelled() => Err(Undelivered::Stopping),
            () = tokio::time::sleep(wait) => Ok(()),
        }
    }
}

/// How long to wait before the next retry.
#[derive(Default)]
pub(crate) struct Waits(u32);

impl Waits {
    /// As long as Telegram says; otherwise longer each time.
    pub(crate) fn next(&mut self, failed: &ApiError) -> Duration {
        if let Some(asked) = failed.wait() {
            return asked;
        }
        self.longer()
    }

    pub(crate) fn longer(&mut self) -> Duration {
        let wait = RETRY_WAIT.saturating_mul(2_u32.saturating_pow(self.0)).min(RETRY_WAIT_MAX);
        self.0 += 1;
        wait
    }

    pub(crate) fn reset(&mut self) {
        self.0 = 0;
    }
}

fn message<'a>(
    incoming: &IncomingUpdate,
    part: &'a Part,
    buttons: &'a Buttons,
    styled: bool,
) -> SendMessage<'a> {
    let Chat { id, group, topic } = incoming.chat;
    // In a group, a reply shows which question it answers.
    let reply = group.then_some(ReplyParameters {
        message_id: incoming.message,
        allow_sending_without_reply: true,
    });
    SendMessage {
        chat_id: id,
        message_thread_id: topic,
        reply_parameters: reply,
        content: content(part, buttons, styled),
    }
}

fn edited<'a>(
    chat: Chat,
    message: i32,
    part: &'a Part,
    buttons: &'a Buttons,
    styled: bool,
) -> EditMessageText<'a> {
    let content = content(part, buttons, styled);
    EditMessageText { chat_id: chat.id, message_id: message, content }
}

/// Telegram fetches a link to show a preview, so previews are off: a model's text must not cause
/// requests.
fn content<'a>(part: &'a Part, buttons: &'a Buttons, styled: bool) -> Content<'a> {
    Content {
        text: if styled { &part.html } else { &part.plain },
        parse_mode: styled.then_some("HTML"),
        link_preview_options: LinkPreviewOptions { is_disabled: true },
        reply_markup: buttons.markup(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_is_what_telegram_says_and_else_longer_each_time() {
        let mut waits = Waits::default();
        let limited = ApiError::Refused {
            code: 429,
            what: "Too Many Requests".into(),
            wait: Some(Duration::from_secs(7)),
            moved: None,
        };
        let away = ApiError::Unreachable { what: "x".into() };
        assert_eq!(waits.next(&limited), Duration::from_secs(7));
        assert_eq!(waits.next(&away), RETRY_WAIT);
        assert_eq!(waits.next(&away), RETRY_WAIT * 2);
        for _ in 0..100 {
            assert!(waits.next(&away) <= RETRY_WAIT_MAX);
        }
        assert_eq!(waits.next(&away), RETRY_WAIT_MAX);
    }
}
