//! Interprets updates: what was sent, where, and whether it is meant for the bot.
//!
//! Only this is kept of an update. In a group, a message is meant for the bot if it mentions the
//! bot, if it is a command with the bot's name, or if it replies to the bot; all other messages are
//! ignored.

use serde::{Deserialize, Serialize};

use crate::limits::NAME_CHARS_MAX;
use crate::wire::{ChatKind, EntityKind, Message, PhotoSize, Update, User};

/// The bot's identity.
#[derive(Clone, Debug)]
pub(crate) struct Me {
    pub(crate) id: u64,
    pub(crate) username: String,
}

/// A chat, and a topic in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Chat {
    pub(crate) id: i64,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) group: bool,
    /// The topic of a group that has topics.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) topic: Option<i32>,
}

/// A message or an action meant for the bot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct IncomingUpdate {
    pub(crate) update: u32,
    pub(crate) chat: Chat,
    pub(crate) user: u64,
    /// The sender's name.
    pub(crate) name: String,
    /// The message, or the one whose button was pressed.
    pub(crate) message: i32,
    pub(crate) what: UpdateKind,
}

/// The content.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum UpdateKind {
    /// A text, or a command.
    Said(String),
    /// A photo or a document, with its caption.
    Sent {
        /// The caption; may be empty.
        text: String,
        file: SentFile,
    },
    /// A button was pressed.
    Pressed {
        /// The id of the press.
        query: String,
        /// The data of the button.
        data: String,
    },
    /// A voice message, a location: nothing with text.
    Wordless,
    /// A group became a supergroup, with another id. Telegram reports it in both.
    Moved {
        /// The old id.
        from: i64,
        /// The new id.
        to: i64,
    },
}

/// A file stored by Telegram.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SentFile {
    pub(crate) id: String,
    /// Its name; photos have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) name: Option<String>,
    /// Its type, according to the sender's program.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) media_type: Option<String>,
    /// Its size in bytes, if Telegram gave it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) size: Option<u64>,
}

impl IncomingUpdate {
    /// The command, in lowercase and without its slash.
    pub(crate) fn command(&self) -> Option<String> {
        let UpdateKind::Said(text) = &self.what else { return None };
        let name = text.strip_prefix('/')?.split(char::is_whitespace).next()?;
        Some(name.to_lowercase())
    }

    /// Whether it starts a turn.
    pub(crate) fn asks(&self) -> bool {
        match &self.what {
            UpdateKind::Said(_) => self.command().is_none_or(|command| command == "retry"),
            UpdateKind::Sent { .. } => true,
            UpdateKind::Pressed { .. } | UpdateKind::Wordless | UpdateKind::Moved { .. } => false,
        }
    }

    /// Whether it is about the running turn, and so does not wait for it.
    pub(crate) fn is_urgent(&self) -> bool {
        self.command().is_some_and(|command| matches!(command.as_str(), "stop" | "status"))
    }

    /// The content of this update for the bot; `None` if it is not meant for it.
    pub(crate) fn of(update: Update, me: &Me) -> Option<IncomingUpdate> {
        if let Some(message) = update.message {
            return said(update.update_id, message, me);
        }
        let query = update.callback_query?;
        let message = query.message.filter(|message| message.date != 0)?;
        let data = query.data?;
        Some(IncomingUpdate {
            update: update.update_id,
            chat: chat(&message),
            user: query.from.id,
            name: name(&query.from),
            message: message.message_id,
            what: UpdateKind::Pressed { query: query.id, data },
        })
    }
}

fn said(update: u32, message: Message, me: &Me) -> Option<IncomingUpdate> {
    if message.chat.kind == ChatKind::Channel {
        return None;
    }
    let here = message.chat.id;
    let moved = match (message.migrate_to_chat_id, message.migrate_from_chat_id) {
        (Some(to), _) => Some((here, to)),
        (None, Some(from)) => Some((from, here)),
        (None, None) => None,
    };
    if let Some((from, to)) = moved {
        // Telegram itself reports it.
        let what = UpdateKind::Moved { from, to };
        let (chat, message) = (chat(&message), message.message_id);
        return Some(IncomingUpdate { update, chat, user: 0, name: String::new(), message, what });
    }
    let from = message.from.as_ref().filter(|from| !from.is_bot)?;
    let chat = chat(&message);
    let (text, entities) = match (&message.text, &message.caption) {
        (Some(text), _) => (text.as_str(), message.entities.as_slice()),
        (None, Some(caption)) => (caption.as_str(), message.caption_entities.as_slice()),
        (None, None) => ("", [].as_slice()),
    };
    let units: Vec<u16> = text.encode_utf16().collect();
    let mut meant = !chat.group
        || message
            .reply_to_message
            .as_ref()
            .and_then(|replied| replied.from.as_ref())
            .is_some_and(|from| from.id == me.id);
    // The bot's name is removed, from the end, so that earlier positions stay valid.
    let mut kept = units.clone();
    for entity in entities.iter().rev() {
        let start = entity.offset as usize;
        let end = start + entity.length as usize;
        let Some(words) = units.get(start..end).map(String::from_utf16_lossy) else { continue };
        if end > kept.len() {
            continue;
        }
        let at_me = |words: &str| {
            words.strip_prefix('@').is_some_and(|name| name.eq_ignore_ascii_case(&me.username))
        };
        let names_me = match entity.kind {
            EntityKind::Mention => at_me(&words),
            EntityKind::TextMention => entity.user.as_ref().is_some_and(|user| user.id == me.id),
            EntityKind::BotCommand => match words.find('@') {
                Some(at) if at_me(&words[at..]) => {
                    let cut = start + words[..at].encode_utf16().count();
                    kept.drain(cut..end);
                    meant = true;
                    false
                }
                // A command for another bot.
                Some(_) if start == 0 => return None,
                _ => false,
            },
            _ => false,
        };
        if names_me {
            meant = true;
            kept.drain(start..end);
        }
    }
    if !meant {
        return None;
    }
    let text = String::from_utf16_lossy(&kept).trim().to_owned();
    let what = match file(&message) {
        Some(file) => UpdateKind::Sent { text, file },
        None if text.is_empty() => UpdateKind::Wordless,
        None => UpdateKind::Said(text),
    };
    let (user, name, message) = (from.id, name(from), message.message_id);
    Some(IncomingUpdate { update, chat, user, name, message, what })
}

/// The photo or document of a message. For a photo, the largest size.
fn file(message: &Message) -> Option<SentFile> {
    let area = |size: &&PhotoSize| u64::from(size.width) * u64::from(size.height);
    let photo = message.photo.iter().max_by_key(area);
    if let Some(photo) = photo {
        let (id, size) = (photo.file_id.clone(), photo.file_size);
        return Some(SentFile { id, name: None, media_type: Some("image/jpeg".into()), size });
    }
    let document = message.document.as_ref()?;
    Some(SentFile {
        id: document.file_id.clone(),
        name: document.file_name.as_deref().map(on_one_line),
        media_type: document.mime_type.clone(),
        size: document.file_size,
    })
}

fn chat(message: &Message) -> Chat {
    Chat {
        id: message.chat.id,
        group: message.chat.kind != ChatKind::Private,
        topic: message.message_thread_id.filter(|_| message.is_topic_message),
    }
}

/// The sender's name, on one line. People can choose anything.
fn name(user: &User) -> String {
    on_one_line(&format!("{} {}", user.first_name, user.last_name.as_deref().unwrap_or_default()))
}

/// A name without invisible characters and without brackets, which have a meaning here.
fn on_one_line(name: &str) -> String {
    let seen =
        name.chars().filter(|c| !rethread_core::name::is_invisible(*c) && !"[]".contains(*c));
    let name: String = seen.take(NAME_CHARS_MAX).collect();
    name.trim().to_owned()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn incoming(message: Value) -> Option<IncomingUpdate> {
        let mut message = message;
        message["message_id"] = json!(5);
        message["date"] = json!(1);
        message["from"] =
            json!({"id": 7, "is_bot": false, "first_name": "Ada", "last_name": "L\n."});
        let update = json!({"update_id": 9, "message": message});
        let me = Me { id: 42, username: "ThreadBot".into() };
        IncomingUpdate::of(serde_json::from_value(update).expect("an update"), &me)
    }

    fn words(message: Value) -> Option<String> {
        match incoming(message)?.what {
            UpdateKind::Said(text) => Some(text),
            other => Some(format!("{other:?}")),
        }
    }

    fn group(text: &str, entities: Value) -> Option<String> {
        let chat = json!({"id": -100, "type": "supergroup", "title": "t"});
        words(json!({"chat": chat, "text": text, "entities": entities}))
    }

    #[test]
    fn in_a_private_chat_everything_is_for_the_bot() {
        let chat = json!({"id": 7, "type": "private", "first_name": "Ada"});
        let said = incoming(json!({"chat": chat, "text": " hello "})).expect("meant");
        assert_eq!(said.what, UpdateKind::Said("hello".into()));
        assert_eq!((said.user, said.name.as_str(), said.chat.group), (7, "Ada L.", false));
        assert_eq!(words(json!({"chat": chat, "caption": "look"})).as_deref(), Some("look"));
        assert_eq!(words(json!({"chat": chat})).as_deref(), Some("Wordless"));
    }

    #[test]
    fn in_a_group_only_what_names_the_bot_is_for_it() {
        let mention =
            |offset, length| json!([{"type": "mention", "offset": offset, "length": length}]);
        assert_eq!(group("hello", json!([])), None);
        assert_eq!(group("@other hello", mention(0, 6)), None);
        assert_eq!(group("@threadbot hello", mention(0, 10)).as_deref(), Some("hello"));
        // Positions are counted in UTF-16 units.
        assert_eq!(group("🧵 @ThreadBot go", mention(3, 10)).as_deref(), Some("🧵  go"));
        assert_eq!(group("@ThreadBot", mention(0, 10)).as_deref(), Some("Wordless"));
        assert_eq!(group("x", mention(3, 600)), None, "a place outside of the text");
    }

    #[test]
    fn in_a_group_a_command_is_for_the_bot_if_it_names_it() {
        let command = |length| json!([{"type": "bot_command", "offset": 0, "length": length}]);
        assert_eq!(group("/new", command(4)), None);
        assert_eq!(group("/new@other", command(10)), None);
        assert_eq!(group("/new@threadbot plan", command(14)).as_deref(), Some("/new plan"));
    }

    #[test]
    fn a_reply_to_the_bot_is_for_it() {
        let reply = |id: u64| {
            json!({"chat": {"id": -1, "type": "group"}, "text": "and?", "reply_to_message": {
                "message_id": 1, "date": 1, "chat": {"id": -1, "type": "group"},
                "from": {"id": id, "is_bot": true, "first_name": "b"}}})
        };
        assert_eq!(words(reply(42)).as_deref(), Some("and?"));
        assert_eq!(words(reply(43)), None);
    }

    #[test]
    fn a_photo_is_read_in_its_largest_size_and_a_document_by_its_name() {
        let chat = json!({"id": 7, "type": "private", "first_name": "Ada"});
        let size = |id: &str, side: u32| json!({"file_id": id, "file_unique_id": id, "width": side, "height": side, "file_size": side});
        let sizes = [size("s", 90), size("l", 1280), size("m", 320)];
        let sent = incoming(json!({"chat": chat, "photo": sizes, "caption": " what is it? "}));
        let file = SentFile {
            id: "l".into(),
            name: None,
            media_type: Some("image/jpeg".into()),
            size: Some(1280),
        };
        let text = "what is it?".into();
        assert_eq!(sent.expect("meant").what, UpdateKind::Sent { text, file });
        let document = json!({"file_id": "d", "file_unique_id": "d", "file_name": "a\n[b].txt",
            "mime_type": "text/plain"});
        let sent = incoming(json!({"chat": chat, "document": document})).expect("meant");
        let UpdateKind::Sent { text, file } = sent.what else { panic!("{sent:?}") };
        assert_eq!((text.as_str(), file.name.as_deref(), file.size), ("", Some("ab.txt"), None));
    }

    #[test]
    fn an_update_with_something_newer_in_it_is_read() {
        let chat = json!({"id": -1, "type": "forum", "is_direct": true});
        let entities = json!([{"type": "date_time", "offset": 0, "length": 70_000},
            {"type": "mention", "offset": 0, "length": 10}]);
        let newer =
            json!({"chat": chat, "text": "@ThreadBot hi", "entities": entities, "gift": {}});
        assert_eq!(words(newer).as_deref(), Some("hi"));
    }

    #[test]
    fn a_button_below_a_message_that_is_out_of_reach_is_ignored() {
        let pressed = |date: u64| {
            let update = json!({"update_id": 3, "callback_query": {"id": "q", "data": "o:1",
                "from": {"id": 8, "is_bot": false, "first_name": "Bo"},
                "message": {"message_id": 6, "date": date, "chat": {"id": 8, "type": "private"}}}});
            let me = Me { id: 42, username: "ThreadBot".into() };
            IncomingUpdate::of(serde_json::from_value(update).expect("an update"), &me)
        };
        assert!(pressed(1).is_some());
        assert_eq!(pressed(0), None);
    }

    #[test]
    fn a_group_that_moves_says_so_in_both_places() {
        let moved = Some(UpdateKind::Moved { from: -5, to: -1005 });
        let old = json!({"chat": {"id": -5, "type": "group"}, "migrate_to_chat_id": -1005});
        let new = json!({"chat": {"id": -1005, "type": "supergroup"}, "migrate_from_chat_id": -5});
        assert_eq!(incoming(old).map(|incoming| incoming.what), moved);
        assert_eq!(incoming(new).map(|incoming| incoming.what), moved);
    }

    #[test]
    fn only_what_is_about_a_running_turn_is_urgent() {
        let chat = json!({"id": 7, "type": "private", "first_name": "Ada"});
        let said = |text: &str| incoming(json!({"chat": chat, "text": text})).expect("meant");
        assert!(said("/stop").is_urgent() && said("/STATUS now").is_urgent());
        assert!(!said("/stopp").is_urgent() && !said("stop").is_urgent());
        assert!(said("stop").asks() && said("/retry").asks() && !said("/compact").asks());
    }

    #[test]
    fn a_button_and_who_pressed_it_are_read() {
        let update = json!({"update_id": 3, "callback_query": {"id": "q", "chat_instance": "i", "data": "o:1",
            "from": {"id": 8, "is_bot": false, "first_name": "Bo"},
            "message": {"message_id": 6, "date": 1, "chat": {"id": 8, "type": "private"}}}});
        let me = Me { id: 42, username: "ThreadBot".into() };
        let incoming = IncomingUpdate::of(serde_json::from_value(update).expect("an update"), &me)
            .expect("meant");
        assert_eq!((incoming.user, incoming.message), (8, 6));
        assert_eq!(incoming.what, UpdateKind::Pressed { query: "q".into(), data: "o:1".into() });
        let kept = serde_json::to_string(&incoming).expect("JSON");
        assert_eq!(serde_json::from_str::<IncomingUpdate>(&kept).expect("the same"), incoming);
    }
}
