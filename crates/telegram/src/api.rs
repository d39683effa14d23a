//! A client of Telegram's Bot API.
//!
//! The token is part of every URL. So no error made here contains a URL, and the token is removed
//! from Telegram's messages before they are passed on. Nothing is retried here.

use std::time::Duration;

use reqwest::{Client, Url};
use serde::de::{DeserializeOwned, IgnoredAny};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::limits::{
    ANSWER_BYTES_MAX, ANSWER_TIME_MAX, FILE_BYTES_MAX, FILE_TIME_MAX, POLL_SECONDS, UPDATES_MAX,
};
use crate::token::BotToken;
use crate::wire::{
    AnswerCallbackQuery, EditMessageText, FileInfo, GetFile, GetUpdates, SendChatAction,
    SendMessage, Sent, SetMyCommands, User,
};

/// The default URL.
pub const DEFAULT_URL: &str = "https://api.telegram.org";

/// Why a call failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ApiError {
    /// The URL is invalid.
    #[error("the address of the Bot API is not an http or https address")]
    BadAddress,
    /// Telegram refused.
    #[error("Telegram says {code}: {what}")]
    Refused {
        /// The error code.
        code: u64,
        /// Telegram's description.
        what: String,
        /// How long to wait before the next call.
        wait: Option<Duration>,
        /// The group is a supergroup now, with this id.
        moved: Option<i64>,
    },
    /// There was no response.
    #[error("Telegram cannot be reached: {what}")]
    Unreachable {
        /// What happened.
        what: String,
    },
    /// A file is larger than what bots may download.
    #[error("the file is over {} MB", FILE_BYTES_MAX >> 20)]
    TooLarge,
    /// The response is invalid.
    #[error("Telegram's answer cannot be read: {what}")]
    Nonsense {
        /// What is wrong with it.
        what: String,
    },
}

impl ApiError {
    /// The error code, if Telegram gave one.
    pub(crate) fn code(&self) -> Option<u64> {
        match self {
            ApiError::Refused { code, .. } => Some(*code),
            _ => None,
        }
    }

    /// Whether Telegram's description contains this.
    pub(crate) fn says(&self, words: &str) -> bool {
        matches!(self, ApiError::Refused { what, .. } if what.to_lowercase().contains(words))
    }

    /// The new id of the group, if it became a supergroup.
    pub(crate) fn moved(&self) -> Option<i64> {
        match self {
            ApiError::Refused { moved, .. } => *moved,
            _ => None,
        }
    }

    /// How long Telegram wants the bot to wait.
    pub(crate) fn wait(&self) -> Option<Duration> {
        match self {
            ApiError::Refused { wait, .. } => *wait,
            _ => None,
        }
    }
}

/// The API for one bot.
pub(crate) struct Api {
    client: Client,
    base: Url,
    token: BotToken,
}

#[derive(Deserialize)]
struct Wire<'a> {
    ok: bool,
    #[serde(borrow)]
    result: Option<&'a RawValue>,
    error_code: Option<u64>,
    description: Option<String>,
    parameters: Option<Parameters>,
}

#[derive(Default, Deserialize)]
struct Parameters {
    retry_after: Option<u64>,
    migrate_to_chat_id: Option<i64>,
}

impl Api {
    /// The API at `url`.
    pub(crate) fn new(url: &str, token: BotToken) -> Result<Api, ApiError> {
        let base = Url::parse(&format!("{}/", url.trim().trim_end_matches('/')))
            .ok()
            .filter(|url| matches!(url.scheme(), "http" | "https") && url.has_host())
            .ok_or(ApiError::BadAddress)?;
        let client = rethread_agent::provider::client(&base)
            .map_err(|error| ApiError::Unreachable { what: innermost(error) })?;
        Ok(Api { client, base, token })
    }

    pub(crate) async fn get_me(&self) -> Result<User, ApiError> {
        self.ask("getMe", &serde_json::json!({}), ANSWER_TIME_MAX).await
    }

    /// Updates from `offset` on, each parsed separately: an invalid one does not lose the others.
    pub(crate) async fn updates(
        &self,
        offset: Option<i64>,
    ) -> Result<Vec<Box<RawValue>>, ApiError> {
        let params = GetUpdates {
            offset,
            limit: UPDATES_MAX,
            timeout: POLL_SECONDS,
            allowed_updates: &["message", "callback_query"],
        };
        let time = Duration::from_secs(POLL_SECONDS.into()) + ANSWER_TIME_MAX;
        self.ask("getUpdates", &params, time).await
    }

    pub(crate) async fn send(&self, params: &SendMessage<'_>) -> Result<Sent, ApiError> {
        self.ask("sendMessage", params, ANSWER_TIME_MAX).await
    }

    pub(crate) async fn edit(&self, params: &EditMessageText<'_>) -> Result<(), ApiError> {
        self.call("editMessageText", params).await
    }

    pub(crate) async fn action(&self, params: &SendChatAction) -> Result<(), ApiError> {
        self.call("sendChatAction", params).await
    }

    pub(crate) async fn answer(&self, params: &AnswerCallbackQuery<'_>) -> Result<(), ApiError> {
        self.call("answerCallbackQuery", params).await
    }

    pub(crate) async fn set_commands(&self, params: &SetMyCommands) -> Result<(), ApiError> {
        self.call("setMyCommands", params).await
    }

    /// The bytes of a file that was sent to the bot.
    ///
    /// # Errors
    ///
    /// [`ApiError::TooLarge`], also if Telegram did not give the size before.
    pub(crate) async fn file(&self, id: &str) -> Result<Vec<u8>, ApiError> {
        let params = GetFile { file_id: id };
        let file: FileInfo = self.ask("getFile", &params, ANSWER_TIME_MAX).await?;
        if file.file_size.is_some_and(|size| size > FILE_BYTES_MAX) {
            return Err(ApiError::TooLarge);
        }
        let path = file.file_path.filter(|path| is_below(path));
        let path = path.ok_or_else(|| self.nonsense("it names no file to fetch".into()))?;
        let mut url = self.base.clone();
        url.set_path(&format!("{}file/{}", self.base.path(), self.token.path(&path)));
        let fetched = async {
            let mut response = self.client.get(url).send().await.map_err(|e| self.lost(e))?;
            let status = response.status().as_u16();
            if !(200..300).contains(&status) {
                let what = "the file cannot be fetched".into();
                return Err(ApiError::Refused {
                    code: status.into(),
                    what,
                    wait: None,
                    moved: None,
                });
            }
            let mut bytes = Vec::new();
            while let Some(chunk) = response.chunk().await.map_err(|e| self.lost(e))? {
                bytes.extend_from_slice(&chunk);
                if bytes.len() as u64 > FILE_BYTES_MAX {
                    return Err(ApiError::TooLarge);
                }
            }
            Ok(bytes)
        };
        let silent = || ApiError::Unreachable {
            what: format!("the file did not arrive within {} seconds", FILE_TIME_MAX.as_secs()),
        };
        tokio::time::timeout(FILE_TIME_MAX, fetched).await.unwrap_or_else(|_| Err(silent()))
    }

    /// Calls a method whose result is only success or failure.
    async fn call(&self, method: &str, params: &impl Serialize) -> Result<(), ApiError> {
        self.ask::<IgnoredAny>(method, params, ANSWER_TIME_MAX).await.map(drop)
    }

    async fn ask<T: DeserializeOwned>(
        &self,
        method: &str,
        params: &impl Serialize,
        time: Duration,
    ) -> Result<T, ApiError> {
        let body = serde_json::to_vec(params).map_err(|error| self.nonsense(error.to_string()))?;
        let asked = async {
            // Joined as text: in a URL, the colon of a token would end a scheme.
            let mut url = self.base.clone();
            url.set_path(&format!("{}{}", self.base.path(), self.token.path(method)));
            let request = self.client.post(url).header("content-type", "application/json");
            let mut response = request.body(body).send().await.map_err(|e| self.lost(e))?;
            let status = response.status().as_u16();
            let mut bytes = Vec::new();
            while let Some(chunk) = response.chunk().await.map_err(|e| self.lost(e))? {
                bytes.extend_from_slice(&chunk);
                if bytes.len() > ANSWER_BYTES_MAX {
                    return Err(self.nonsense(format!("it is over {ANSWER_BYTES_MAX} bytes")));
                }
            }
            self.read(status, &bytes)
        };
        let silent = || ApiError::Unreachable {
            what: format!("{method} had no answer within {} seconds", time.as_secs()),
        };
        tokio::time::timeout(time, asked).await.unwrap_or_else(|_| Err(silent()))
    }

    fn read<T: DeserializeOwned>(&self, status: u16, bytes: &[u8]) -> Result<T, ApiError> {
        let Ok(wire) = serde_json::from_slice::<Wire<'_>>(bytes) else {
            // A proxy may answer with pages of its own.
            return match status {
                200..300 => Err(self.nonsense("it is not JSON".into())),
                _ => Err(ApiError::Refused {
                    code: status.into(),
                    what: "no more than that".into(),
                    wait: None,
                    moved: None,
                }),
            };
        };
        match (wire.ok, wire.result) {
            (true, Some(result)) => {
                serde_json::from_str(result.get()).map_err(|error| self.nonsense(error.to_string()))
            }
            _ => {
                let parameters = wire.parameters.unwrap_or_default();
                Err(ApiError::Refused {
                    code: wire.error_code.unwrap_or(status.into()),
                    what: self.token.hide_in(&wire.description.unwrap_or_default()),
                    wait: parameters.retry_after.map(Duration::from_secs),
                    moved: parameters.migrate_to_chat_id,
                })
            }
        }
    }

    fn lost(&self, error: reqwest::Error) -> ApiError {
        ApiError::Unreachable { what: self.token.hide_in(&innermost(error)) }
    }

    fn nonsense(&self, what: String) -> ApiError {
        ApiError::Nonsense { what: self.token.hide_in(&what) }
    }
}

/// Whether a path is below the folder of the bot: untrusted input must not lead elsewhere.
fn is_below(path: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    path.split('/')
        .all(|part| !part.is_empty() && !part.chars().all(|c| c == '.') && part.chars().all(plain))
}

/// The root cause of an error, without its URL.
fn innermost(error: reqwest::Error) -> String {
    use std::error::Error;
    let error = error.without_url();
    let mut cause: &dyn Error = &error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    cause.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_fetched_from_below_the_folder_of_the_bot_and_from_nowhere_else() {
        for good in ["photos/file_1.jpg", "documents/file-2.tar.gz", "a"] {
            assert!(is_below(good), "{good}");
        }
        for bad in [
            "",
            "/etc/passwd",
            "../x",
            "a/../../b",
            "a//b",
            "a/./b",
            "a?b",
            "a#b",
            "a%2e",
            "a\\b",
            "http://x/y",
            "a b",
        ] {
            assert!(!is_below(bad), "{bad}");
        }
    }
}
