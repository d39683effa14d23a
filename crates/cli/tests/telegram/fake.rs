//! A fake Bot API on the loopback, over real HTTP: keeps updates until they are confirmed, holds
//! long polls open, checks every message by Telegram's rules, and fails when a test asks for it.

use std::collections::{BTreeMap, HashMap};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::checker;

/// The secret of the bot in these tests.
pub(crate) const TOKEN: &str = "4242:AAH-s3cret_0123456789";

/// The name of the bot, and its number.
pub(crate) const NAME: &str = "ThreadBot";
pub(crate) const ID: u64 = 4242;

/// How long nothing may happen. A test in which nothing happens for longer has failed.
pub(crate) const WAIT_MAX: Duration = Duration::from_secs(60);

/// A fault to inject.
#[derive(Clone, Debug)]
pub(crate) enum Fault {
    /// Responds with this status and body, and does nothing.
    Status(u16, Value),
    /// Responds with a page that is not JSON.
    Page(u16),
    /// The connection is cut before anything is done.
    CutBefore,
    /// It is done, and the connection is cut before the response.
    CutAfter,
    /// The victim is killed before anything is done.
    KillBefore,
    /// It is done, and the victim is killed before the response.
    KillAfter,
}

/// A request as it came.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    pub(crate) method: String,
    pub(crate) body: Value,
    pub(crate) at: Instant,
}

/// A message as users see it.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    pub(crate) id: i64,
    pub(crate) chat: i64,
    /// Its current text.
    pub(crate) text: String,
    pub(crate) html: String,
    pub(crate) edits: usize,
    pub(crate) buttons: Vec<(String, String)>,
    pub(crate) reply_to: Option<i64>,
}

#[derive(Default)]
struct State {
    updates: BTreeMap<i64, Value>,
    /// Updates that are delivered again although they were confirmed.
    repeated: Vec<Value>,
    /// The next batch comes in the wrong order.
    shuffled: bool,
    next_update: i64,
    next_message: i64,
    seen: Vec<Seen>,
    asked: Vec<Asked>,
    /// Faults by the number of the request, or by the method; each happens once, in order.
    at: HashMap<usize, Fault>,
    next_of: HashMap<String, Vec<Fault>>,
    fired: usize,
    refused: Vec<String>,
    confirmed: i64,
    /// What was sent to the bot: by id, where it is and its bytes.
    files: HashMap<String, (String, Vec<u8>)>,
    /// Groups that became supergroups.
    moved: HashMap<i64, i64>,
    victim: Option<u32>,
    stopped: bool,
}

struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

pub(crate) struct Fake {
    pub(crate) url: String,
    shared: Arc<Shared>,
}

/// The buttons under a message: what they say, and what they send.
type Buttons = Vec<(String, String)>;

impl Fake {
    pub(crate) fn start() -> Fake {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        let state = State { next_update: 1_000, next_message: 1, ..State::default() };
        let shared = Arc::new(Shared { state: Mutex::new(state), changed: Condvar::new() });
        let inner = shared.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                if inner.lock().stopped {
                    return;
                }
                let inner = inner.clone();
                std::thread::spawn(move || inner.connection(stream));
            }
        });
        Fake { url, shared }
    }

    /// Adds an update with these fields.
    pub(crate) fn update(&self, content: Value) -> i64 {
        let mut state = self.shared.lock();
        let id = state.next_update;
        state.next_update += 1;
        let mut update = content;
        update["update_id"] = json!(id);
        state.updates.insert(id, update);
        self.shared.changed.notify_all();
        id
    }

    /// A user writes to the bot.
    pub(crate) fn says(&self, user: i64, text: &str) -> i64 {
        self.update(json!({ "message": message(user, user, "private", text) }))
    }

    /// A user writes in a group.
    pub(crate) fn says_in_group(&self, user: i64, group: i64, text: &str) -> i64 {
        self.update(json!({ "message": message(user, group, "supergroup", text) }))
    }

    /// A user writes in a group that is not a supergroup.
    pub(crate) fn says_in_small_group(&self, user: i64, group: i64, text: &str) -> i64 {
        self.update(json!({ "message": message(user, group, "group", text) }))
    }

    /// A group becomes a supergroup: nothing can be sent to it any more, and Telegram says so.
    pub(crate) fn moves(&self, from: i64, to: i64) {
        self.shared.lock().moved.insert(from, to);
    }

    /// One of the two messages that say a group became a supergroup.
    pub(crate) fn says_moved(&self, in_old: bool, from: i64, to: i64) -> i64 {
        let (chat, kind) = if in_old { (from, "group") } else { (to, "supergroup") };
        let mut message = message(999, chat, kind, "");
        for field in ["text", "entities"] {
            message.as_object_mut().expect("an object").remove(field);
        }
        match in_old {
            true => message["migrate_to_chat_id"] = json!(to),
            false => message["migrate_from_chat_id"] = json!(from),
        }
        self.update(json!({ "message": message }))
    }

    /// A user sends a photo, in two sizes.
    pub(crate) fn sends_photo(&self, user: i64, caption: &str, bytes: &[u8]) -> i64 {
        let id = self.keeps("photos", bytes);
        let size = |id: &str, side: usize, size: usize| json!({ "file_id": id, "file_unique_id": id, "width": side, "height": side, "file_size": size });
        let mut message = message(user, user, "private", "");
        message["photo"] = json!([size("thumbnail", 90, 1), size(&id, 1280, bytes.len())]);
        self.update(json!({ "message": captioned(message, caption) }))
    }

    /// A user sends a document of this many bytes, according to Telegram.
    pub(crate) fn sends_document(&self, user: i64, caption: &str, name: &str, bytes: &[u8]) -> i64 {
        let id = self.keeps("documents", bytes);
        let mut message = message(user, user, "private", "");
        message["document"] = json!({ "file_id": id, "file_unique_id": id, "file_name": name,
            "mime_type": "application/octet-stream", "file_size": bytes.len() });
        self.update(json!({ "message": captioned(message, caption) }))
    }

    fn keeps(&self, folder: &str, bytes: &[u8]) -> String {
        let mut state = self.shared.lock();
        let id = format!("file_{}", state.files.len());
        state.files.insert(id.clone(), (format!("{folder}/{id}.bin"), bytes.to_vec()));
        id
    }

    /// A user presses a button of a message.
    pub(crate) fn presses(&self, user: i64, on: &Seen, label: &str) -> i64 {
        let (_, data) = on
            .buttons
            .iter()
            .find(|(text, _)| text.contains(label))
            .unwrap_or_else(|| panic!("no button {label} in {on:?}"));
        let kind = if on.chat < 0 { "supergroup" } else { "private" };
        self.update(json!({ "callback_query": {
            "id": format!("q{}", on.id), "chat_instance": "i", "data": data,
            "from": { "id": user, "is_bot": false, "first_name": "Ada" },
            "message": { "message_id": on.id, "date": 1, "chat": { "id": on.chat, "type": kind } },
        } }))
    }

    /// The same update is delivered again, confirmed or not.
    pub(crate) fn repeat(&self, update: Value) {
        self.shared.lock().repeated.push(update);
        self.shared.changed.notify_all();
    }

    pub(crate) fn shuffle(&self) {
        self.shared.lock().shuffled = true;
    }

    /// The request with this number fails.
    pub(crate) fn fault_at(&self, number: usize, fault: Fault) {
        self.shared.lock().at.insert(number, fault);
    }

    /// The next request for this method fails.
    pub(crate) fn fault(&self, method: &str, fault: Fault) {
        self.shared.lock().next_of.entry(method.into()).or_default().push(fault);
    }

    /// Whom a fault may kill.
    pub(crate) fn victim(&self, pid: u32) {
        self.shared.lock().victim = Some(pid);
        self.shared.changed.notify_all();
    }

    /// Removes the faults by number. Returns whether one of them happened.
    pub(crate) fn calm(&self) -> bool {
        let mut state = self.shared.lock();
        state.at.clear();
        state.fired > 0
    }

    /// How many faults happened.
    pub(crate) fn fired(&self) -> usize {
        self.shared.lock().fired
    }

    pub(crate) fn asked(&self) -> Vec<Asked> {
        self.shared.lock().asked.clone()
    }

    pub(crate) fn seen(&self) -> Vec<Seen> {
        self.shared.lock().seen.clone()
    }

    /// What a chat shows.
    pub(crate) fn chat(&self, id: i64) -> Vec<Seen> {
        self.seen().into_iter().filter(|seen| seen.chat == id).collect()
    }

    /// What Telegram would have rejected.
    pub(crate) fn refused(&self) -> Vec<String> {
        self.shared.lock().refused.clone()
    }

    /// The highest update that was confirmed.
    pub(crate) fn confirmed(&self) -> i64 {
        self.shared.lock().confirmed
    }

    /// Waits until a condition holds, as long as the bot is still active.
    pub(crate) fn wait<T>(&self, what: &str, check: impl Fn(&Fake) -> Option<T>) -> T {
        let mut end = Instant::now() + WAIT_MAX;
        let mut known = 0;
        loop {
            if let Some(found) = check(self) {
                return found;
            }
            let state = self.shared.lock();
            // A waiting bot still polls for updates, and reports that it is typing.
            let waits =
                |asked: &&Asked| matches!(asked.method.as_str(), "getUpdates" | "sendChatAction");
            let done = state.asked.iter().filter(|asked| !waits(asked)).count();
            if done > known {
                known = done;
                end = Instant::now() + WAIT_MAX;
            }
            assert!(
                Instant::now() < end,
                "{what}\nseen: {:#?}\nasked: {:#?}",
                state.seen,
                tail(&state.asked)
            );
            // Wakes up on a change, or checks again.
            drop(self.shared.changed.wait_timeout(state, Duration::from_millis(100)));
        }
    }

    /// Waits for a message in a chat that contains these words.
    pub(crate) fn wait_for(&self, chat: i64, words: &str) -> Seen {
        self.wait(&format!("{words:?} in {chat}"), |fake| {
            fake.chat(chat).into_iter().find(|seen| seen.text.contains(words))
        })
    }
}

impl Drop for Fake {
    fn drop(&mut self) {
        self.shared.lock().stopped = true;
        self.shared.changed.notify_all();
        drop(TcpStream::connect(self.url.trim_start_matches("http://")));
    }
}

fn tail(asked: &[Asked]) -> Vec<String> {
    let last = asked.len().saturating_sub(12);
    asked[last..].iter().map(|asked| format!("{} {}", asked.method, asked.body)).collect()
}

/// A message, with the entities Telegram would find in it.
fn message(user: i64, chat: i64, kind: &str, text: &str) -> Value {
    let mut entities = Vec::new();
    let mut offset = 0;
    for word in text.split(' ') {
        let length = word.encode_utf16().count();
        if word.starts_with('@') {
            entities.push(json!({ "type": "mention", "offset": offset, "length": length }));
        } else if word.starts_with('/') && offset == 0 {
            entities.push(json!({ "type": "bot_command", "offset": 0, "length": length }));
        }
        offset += length + 1;
    }
    json!({
        "message_id": 900_000 + user, "date": 1_735_689_600, "text": text, "entities": entities,
        "from": { "id": user, "is_bot": false, "first_name": format!("User{user}") },
        "chat": { "id": chat, "type": kind, "title": "t" },
    })
}

/// A message whose text is a caption.
fn captioned(mut message: Value, caption: &str) -> Value {
    let fields = message.as_object_mut().expect("an object");
    fields.remove("text");
    fields.remove("entities");
    if !caption.is_empty() {
        message["caption"] = json!(caption);
    }
    message
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn connection(&self, stream: TcpStream) {
        let mut reader = BufReader::new(stream.try_clone().expect("a socket"));
        let mut out = stream;
        while let Some((path, body)) = request(&mut reader) {
            if let Some(path) = path.strip_prefix(&format!("/file/bot{TOKEN}/")) {
                let state = self.lock();
                let bytes = state.files.values().find(|(known, _)| known == path);
                let bytes = bytes.map(|(_, bytes)| bytes.clone());
                drop(state);
                match bytes {
                    Some(bytes) => respond_with(&mut out, 200, &bytes),
                    None => respond(&mut out, 404, "{}"),
                };
                continue;
            }
            let Some(method) = path.strip_prefix(&format!("/bot{TOKEN}/")) else {
                let refused =
                    json!({ "ok": false, "error_code": 401, "description": "Unauthorized" });
                respond(&mut out, 401, &refused.to_string());
                continue;
            };
            let fault = {
                let mut state = self.lock();
                let number = state.asked.len();
                state.asked.push(Asked {
                    method: method.into(),
                    body: body.clone(),
                    at: Instant::now(),
                });
                let mut fault = state.at.remove(&number);
                if fault.is_none()
                    && let Some(waiting) = state.next_of.get_mut(method)
                {
                    fault = (!waiting.is_empty()).then(|| waiting.remove(0));
                }
                state.fired += usize::from(fault.is_some());
                self.changed.notify_all();
                fault
            };
            match fault {
                Some(Fault::Status(status, body)) => {
                    respond(&mut out, status, &body.to_string());
                    continue;
                }
                Some(Fault::Page(status)) => {
                    respond(&mut out, status, "<html>Bad Gateway</html>");
                    continue;
                }
                Some(Fault::CutBefore) => return,
                Some(Fault::KillBefore) => return self.kill(),
                _ => {}
            }
            let (status, answer) = self.answer(method, &body);
            self.changed.notify_all();
            match fault {
                Some(Fault::CutAfter) => return,
                Some(Fault::KillAfter) => return self.kill(),
                _ => {}
            }
            if !respond(&mut out, status, &answer.to_string()) {
                return;
            }
        }
    }

    /// Kills the victim, once it is known.
    fn kill(&self) {
        let mut state = self.lock();
        let pid = loop {
            if let Some(pid) = state.victim {
                break pid;
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        };
        drop(state);
        let kill = format!("kill -9 {pid}");
        let killed = std::process::Command::new("sh").args(["-c", &kill]).status();
        assert!(killed.expect("a shell").success(), "{pid} was there to be killed");
    }

    fn answer(&self, method: &str, body: &Value) -> (u16, Value) {
        let done = match method {
            "getMe" => {
                Ok(json!({ "id": ID, "is_bot": true, "first_name": "Thread", "username": NAME }))
            }
            "getUpdates" => Ok(self.updates(body)),
            "getFile" => self.file(body),
            "sendMessage" | "editMessageText" if self.moved_to(body).is_some() => {
                let what = "Bad Request: group chat was upgraded to a supergroup chat";
                let parameters = json!({ "migrate_to_chat_id": self.moved_to(body) });
                return (
                    400,
                    json!({ "ok": false, "error_code": 400, "description": what, "parameters": parameters }),
                );
            }
            "sendMessage" => self.send(body),
            "editMessageText" => self.edit(body),
            "sendChatAction" | "answerCallbackQuery" | "setMyCommands" => Ok(json!(true)),
            other => Err(format!("Not Found: method {other}")),
        };
        match done {
            Ok(result) => (200, json!({ "ok": true, "result": result })),
            Err(what) => {
                let what = format!("Bad Request: {what}");
                (400, json!({ "ok": false, "error_code": 400, "description": what }))
            }
        }
    }

    /// Long polling: confirms what is before the offset, and waits while there is nothing else.
    fn updates(&self, body: &Value) -> Value {
        let offset = body["offset"].as_i64();
        let end = Instant::now() + Duration::from_secs(body["timeout"].as_u64().unwrap_or(0));
        let mut state = self.lock();
        if let Some(offset) = offset {
            state.updates.retain(|id, _| *id >= offset);
            state.confirmed = state.confirmed.max(offset - 1);
            self.changed.notify_all();
        }
        while state.updates.is_empty() && state.repeated.is_empty() && !state.stopped {
            let now = Instant::now();
            if now >= end {
                break;
            }
            let (next, _) =
                self.changed.wait_timeout(state, end - now).unwrap_or_else(PoisonError::into_inner);
            state = next;
        }
        let mut given: Vec<Value> = std::mem::take(&mut state.repeated);
        given.extend(state.updates.values().take(100).cloned());
        if std::mem::take(&mut state.shuffled) {
            given.reverse();
        }
        Value::Array(given)
    }

    fn moved_to(&self, body: &Value) -> Option<i64> {
        let chat = body["chat_id"].as_i64()?;
        self.lock().moved.get(&chat).copied()
    }

    /// Where a file is. Telegram gives bots no more than 20 MB.
    fn file(&self, body: &Value) -> Result<Value, String> {
        let id = body["file_id"].as_str().unwrap_or_default();
        let state = self.lock();
        let (path, bytes) = state.files.get(id).ok_or("invalid file_id")?;
        match bytes.len() > 20 << 20 {
            true => Err("file is too big".into()),
            false => Ok(
                json!({ "file_id": id, "file_unique_id": id, "file_size": bytes.len(), "file_path": path }),
            ),
        }
    }

    /// What a user would see of a message, as Telegram parses it.
    fn shown(&self, body: &Value) -> Result<(String, String, Buttons), String> {
        let text = body["text"].as_str().unwrap_or_default().to_owned();
        let seen = match body["parse_mode"].as_str() {
            Some("HTML") => checker::check(&text),
            Some(other) => Err(format!("parse mode {other} is not checked here")),
            None if text.encode_utf16().count() > 4_096 => Err("message is too long".into()),
            None => Ok(text.clone()),
        };
        let mut buttons = Vec::new();
        for row in body["reply_markup"]["inline_keyboard"].as_array().into_iter().flatten() {
            for button in row.as_array().into_iter().flatten() {
                let word = |name: &str| button[name].as_str().unwrap_or_default().to_owned();
                buttons.push((word("text"), word("callback_data")));
            }
        }
        let checked = seen.and_then(|seen| {
            match buttons.iter().find(|(text, data)| text.is_empty() || data.len() > 64) {
                Some(button) => Err(format!("BUTTON_DATA_INVALID {button:?}")),
                None => Ok(seen),
            }
        });
        match checked {
            Ok(seen) => Ok((seen, text, buttons)),
            Err(wrong) => {
                self.lock().refused.push(format!("{wrong}: {text}"));
                Err(wrong)
            }
        }
    }

    fn send(&self, body: &Value) -> Result<Value, String> {
        let (text, html, buttons) = self.shown(body)?;
        let chat = body["chat_id"].as_i64().ok_or("chat not found")?;
        let mut state = self.lock();
        let id = state.next_message;
        state.next_message += 1;
        let reply_to = body["reply_parameters"]["message_id"].as_i64();
        state.seen.push(Seen { id, chat, text: text.clone(), html, edits: 0, buttons, reply_to });
        Ok(
            json!({ "message_id": id, "date": 1, "chat": { "id": chat, "type": "private" }, "text": text }),
        )
    }

    fn edit(&self, body: &Value) -> Result<Value, String> {
        let (text, html, buttons) = self.shown(body)?;
        let (chat, id) = (body["chat_id"].as_i64(), body["message_id"].as_i64());
        let mut state = self.lock();
        let found =
            state.seen.iter_mut().find(|seen| Some(seen.chat) == chat && Some(seen.id) == id);
        let seen = found.ok_or("message to edit not found")?;
        if seen.html == html && seen.buttons == buttons {
            return Err("message is not modified: specified new message content is the same".into());
        }
        *seen = Seen { text, html, buttons, edits: seen.edits + 1, ..seen.clone() };
        Ok(json!({ "message_id": id }))
    }
}

fn request(reader: &mut BufReader<TcpStream>) -> Option<(String, Value)> {
    let mut line = String::new();
    reader.read_line(&mut line).ok().filter(|read| *read > 0)?;
    let path = line.split(' ').nth(1)?.to_owned();
    let mut length = 0;
    loop {
        let mut header = String::new();
        reader.read_line(&mut header).ok().filter(|read| *read > 0)?;
        let header = header.trim().to_lowercase();
        if header.is_empty() {
            break;
        }
        if let Some(value) = header.strip_prefix("content-length:") {
            length = value.trim().parse().ok()?;
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    Some((path, serde_json::from_slice(&body).unwrap_or(Value::Null)))
}

fn respond(out: &mut TcpStream, status: u16, body: &str) -> bool {
    respond_with(out, status, body.as_bytes())
}

fn respond_with(out: &mut TcpStream, status: u16, body: &[u8]) -> bool {
    let head = format!(
        "HTTP/1.1 {status} x\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    out.write_all(&[head.as_bytes(), body].concat()).is_ok()
}
