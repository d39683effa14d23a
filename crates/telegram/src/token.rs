//! The bot token. It is part of every URL, so it is kept out of everything that could be printed.

use std::fmt;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use crate::limits::TOKEN_FILE_BYTES_MAX;

/// The placeholder for the token.
const HIDDEN: &str = "[token]";

/// The bot token, as `@BotFather` gives it. It is never shown.
#[derive(Clone, PartialEq, Eq)]
pub struct BotToken(String);

/// Why a token cannot be used.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the fields say what they are")]
pub enum BotTokenError {
    /// It is not a valid token.
    #[error("this is not a bot token: digits, a colon, and letters")]
    Malformed,
    /// Its file cannot be read.
    #[error("{} cannot be read: {what}", .path.display())]
    Unreadable { path: PathBuf, what: String },
    /// Others can read its file.
    #[error("{} can be read by others (mode {mode:03o})", .path.display())]
    Open { path: PathBuf, mode: u32 },
}

impl BotToken {
    /// Parses a token. Space around it is ignored: it comes from files and terminals.
    ///
    /// # Errors
    ///
    /// [`BotTokenError::Malformed`].
    pub fn new(text: &str) -> Result<BotToken, BotTokenError> {
        let text = text.trim();
        let good = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
        match text.split_once(':') {
            Some((id, secret))
                if !id.is_empty()
                    && id.chars().all(|c| c.is_ascii_digit())
                    && !secret.is_empty()
                    && secret.chars().all(good) =>
            {
                Ok(BotToken(text.to_owned()))
            }
            _ => Err(BotTokenError::Malformed),
        }
    }

    /// Reads a token from a file that only its owner can read.
    ///
    /// # Errors
    ///
    /// [`BotTokenError`].
    pub fn from_file(path: &Path) -> Result<BotToken, BotTokenError> {
        let unreadable = |error: std::io::Error| BotTokenError::Unreadable {
            path: path.to_owned(),
            what: error.to_string(),
        };
        let file = std::fs::File::open(path).map_err(unreadable)?;
        let mode = file.metadata().map_err(unreadable)?.permissions().mode() & 0o777;
        if mode & 0o077 != 0 {
            return Err(BotTokenError::Open { path: path.to_owned(), mode });
        }
        let mut text = String::new();
        file.take(TOKEN_FILE_BYTES_MAX).read_to_string(&mut text).map_err(unreadable)?;
        BotToken::new(&text)
    }

    /// The URL of a method.
    pub(crate) fn path(&self, method: &str) -> String {
        format!("bot{}/{method}", self.0)
    }

    /// The text without the token, in case it contains it.
    pub(crate) fn hide_in(&self, text: &str) -> String {
        let secret = self.0.split_once(':').map_or(self.0.as_str(), |(_, secret)| secret);
        text.replace(&self.0, HIDDEN).replace(secret, HIDDEN)
    }
}

impl fmt::Debug for BotToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_digits_a_colon_and_letters_and_is_never_shown() {
        let token = BotToken::new(" 123:AAb-c_9\n").expect("a token");
        assert_eq!(format!("{token:?}"), "Token(…)");
        assert_eq!(
            token.hide_in("at /bot123:AAb-c_9/getMe, AAb-c_9"),
            "at /bot[token]/getMe, [token]"
        );
        for bad in ["", "123", "123:", ":abc", "12a:abc", "1:a/../b", "1:a b", "1:a?x"] {
            let error = BotToken::new(bad).expect_err(bad).to_string();
            assert!(bad.is_empty() || !error.contains(bad), "{error}");
        }
    }

    #[test]
    fn a_file_others_can_read_is_refused() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("token");
        std::fs::write(&path, "123:abc\n").expect("written");
        for (mode, good) in [(0o600, true), (0o400, true), (0o640, false), (0o604, false)] {
            let permissions = std::fs::Permissions::from_mode(mode);
            std::fs::set_permissions(&path, permissions).expect("set");
            let read = BotToken::from_file(&path);
            assert_eq!(read.is_ok(), good, "{mode:o}: {read:?}");
        }
        assert!(matches!(
            BotToken::from_file(&folder.path().join("none")),
            Err(BotTokenError::Unreadable { .. })
        ));
    }
}
