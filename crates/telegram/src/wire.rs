//! The part of Telegram's Bot API that the bot uses, as it is on the wire.
//!
//! Received types list only the fields that are read: everything else is ignored, so an update with
//! a field, an entity or a kind of chat that is newer than this program can still be read. Sent
//! types leave out absent fields.

use serde::{Deserialize, Serialize};

/// An update, as `getUpdates` returns it.
#[derive(Deserialize)]
pub(crate) struct Update {
    pub(crate) update_id: u32,
    pub(crate) message: Option<Message>,
    pub(crate) callback_query: Option<CallbackQuery>,
}

#[derive(Deserialize)]
pub(crate) struct Message {
    pub(crate) message_id: i32,
    /// Seconds since 1970. Zero marks a message that the bot can no longer access.
    pub(crate) date: u64,
    pub(crate) chat: ChatInfo,
    pub(crate) message_thread_id: Option<i32>,
    #[serde(default)]
    pub(crate) is_topic_message: bool,
    pub(crate) from: Option<User>,
    pub(crate) reply_to_message: Option<Box<Message>>,
    pub(crate) text: Option<String>,
    #[serde(default)]
    pub(crate) entities: Vec<MessageEntity>,
    pub(crate) caption: Option<String>,
    #[serde(default)]
    pub(crate) caption_entities: Vec<MessageEntity>,
    /// One photo, in several sizes.
    #[serde(default)]
    pub(crate) photo: Vec<PhotoSize>,
    pub(crate) document: Option<Document>,
    pub(crate) migrate_to_chat_id: Option<i64>,
    pub(crate) migrate_from_chat_id: Option<i64>,
}

#[derive(Deserialize)]
pub(crate) struct ChatInfo {
    pub(crate) id: i64,
    #[serde(rename = "type")]
    pub(crate) kind: ChatKind,
}

#[derive(Clone, Copy, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ChatKind {
    Private,
    Channel,
    /// A group, a supergroup, or something newer.
    #[serde(other)]
    Group,
}

#[derive(Deserialize)]
pub(crate) struct User {
    pub(crate) id: u64,
    pub(crate) is_bot: bool,
    pub(crate) first_name: String,
    pub(crate) last_name: Option<String>,
    pub(crate) username: Option<String>,
}

/// An entity: a part of a text with a meaning; its position is counted in UTF-16 units.
#[derive(Deserialize)]
pub(crate) struct MessageEntity {
    #[serde(rename = "type")]
    pub(crate) kind: EntityKind,
    pub(crate) offset: u32,
    pub(crate) length: u32,
    /// Who is mentioned by a `text_mention`.
    pub(crate) user: Option<User>,
}

#[derive(Clone, Copy, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub(crate) enum EntityKind {
    Mention,
    TextMention,
    BotCommand,
    #[serde(other)]
    Other,
}

#[derive(Deserialize)]
pub(crate) struct PhotoSize {
    pub(crate) file_id: String,
    pub(crate) width: u32,
    pub(crate) height: u32,
    pub(crate) file_size: Option<u64>,
}

#[derive(Deserialize)]
pub(crate) struct Document {
    pub(crate) file_id: String,
    pub(crate) file_name: Option<String>,
    pub(crate) mime_type: Option<String>,
    pub(crate) file_size: Option<u64>,
}

/// A button was pressed.
#[derive(Deserialize)]
pub(crate) struct CallbackQuery {
    pub(crate) id: String,
    pub(crate) from: User,
    pub(crate) message: Option<Message>,
    pub(crate) data: Option<String>,
}

/// The path at which a file can be fetched.
#[derive(Deserialize)]
pub(crate) struct FileInfo {
    pub(crate) file_size: Option<u64>,
    pub(crate) file_path: Option<String>,
}

/// The id of a message that was sent.
#[derive(Deserialize)]
pub(crate) struct Sent {
    pub(crate) message_id: i32,
}

#[derive(Serialize)]
pub(crate) struct GetUpdates {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) offset: Option<i64>,
    pub(crate) limit: u32,
    /// Seconds to wait for an update.
    pub(crate) timeout: u32,
    pub(crate) allowed_updates: &'static [&'static str],
}

#[derive(Serialize)]
pub(crate) struct GetFile<'a> {
    pub(crate) file_id: &'a str,
}

#[derive(Serialize)]
pub(crate) struct SendMessage<'a> {
    pub(crate) chat_id: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) message_thread_id: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) reply_parameters: Option<ReplyParameters>,
    #[serde(flatten)]
    pub(crate) content: Content<'a>,
}

#[derive(Serialize)]
pub(crate) struct EditMessageText<'a> {
    pub(crate) chat_id: i64,
    pub(crate) message_id: i32,
    #[serde(flatten)]
    pub(crate) content: Content<'a>,
}

/// What a message shows.
#[derive(Serialize)]
pub(crate) struct Content<'a> {
    pub(crate) text: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) parse_mode: Option<&'static str>,
    pub(crate) link_preview_options: LinkPreviewOptions,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) reply_markup: Option<InlineKeyboardMarkup<'a>>,
}

#[derive(Serialize)]
pub(crate) struct LinkPreviewOptions {
    pub(crate) is_disabled: bool,
}

#[derive(Serialize)]
pub(crate) struct ReplyParameters {
    pub(crate) message_id: i32,
    pub(crate) allow_sending_without_reply: bool,
}

#[derive(Serialize)]
pub(crate) struct InlineKeyboardMarkup<'a> {
    pub(crate) inline_keyboard: Vec<Vec<InlineKeyboardButton<'a>>>,
}

#[derive(Serialize)]
pub(crate) struct InlineKeyboardButton<'a> {
    pub(crate) text: &'a str,
    pub(crate) callback_data: &'a str,
}

#[derive(Serialize)]
pub(crate) struct SendChatAction {
    pub(crate) chat_id: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) message_thread_id: Option<i32>,
    pub(crate) action: &'static str,
}

#[derive(Serialize)]
pub(crate) struct AnswerCallbackQuery<'a> {
    pub(crate) callback_query_id: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) text: Option<&'a str>,
}

#[derive(Serialize)]
pub(crate) struct SetMyCommands {
    pub(crate) commands: Vec<BotCommand>,
}

#[derive(Serialize)]
pub(crate) struct BotCommand {
    pub(crate) command: &'static str,
    pub(crate) description: &'static str,
}
