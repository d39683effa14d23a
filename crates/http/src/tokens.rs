//! Access tokens for remote clients.
//!
//! A token is 256 random bits. It is shown once, when it is created; its SHA-256 is stored as an
//! entry of a log under a reserved owner, in the same store as everything else. Nothing is removed
//! from that log: revoking a token adds an entry.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use jiff::Timestamp;
use rethread_core::name::NameError;
use rethread_core::world::rfc3339;
use rethread_core::{
    Backend, Body, Key, Name, New, Owner, Raw, Sessions, StoreError, World, sessions,
};
use serde::{Deserialize, Serialize};
use serde_json::json;
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};

use crate::limits::{TOKEN_FRESH, TOKENS_MAX};

/// The owner of the log with the tokens. No token can be created for it.
pub const TOKENS_OWNER: &str = "rethread:tokens";

/// The owner whose tokens can read the metrics, and nothing else. It has no sessions.
pub const METRICS_OWNER: &str = "rethread:metrics";

/// Whether a token of this owner is only for the metrics.
pub(crate) fn is_only_for_metrics(owner: &Owner) -> bool {
    owner.as_str() == METRICS_OWNER
}

/// The prefix of every token, so that leaked ones can be found by a search.
const MARK: &str = "rt_";

/// Attempts of a change if other writers are faster.
const TRIES_MAX: usize = 16;

/// A token as it is listed. The secret itself is not stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccessToken {
    /// What people call it.
    pub name: Name,
    /// The owner whose sessions it can access.
    pub owner: Owner,
    /// When it was made.
    pub created_at: Timestamp,
}

impl Serialize for AccessToken {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let created_at = rfc3339(self.created_at);
        json!({ "name": self.name, "owner": self.owner, "created_at": created_at })
            .serialize(serializer)
    }
}

/// Why a token could not be created or revoked.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the fields say what they are")]
pub enum AccessTokenError {
    /// The store refused.
    #[error(transparent)]
    Sessions(#[from] sessions::Error),
    /// The name or the owner is invalid.
    #[error(transparent)]
    Name(#[from] NameError),
    /// A token with this name exists.
    #[error("a token `{name}` exists already")]
    Taken { name: Name },
    /// No token has this name.
    #[error("no token `{name}`")]
    Missing { name: Name },
    /// The owner is reserved.
    #[error("owners that begin with `rethread:` are reserved, all but `rethread:metrics`")]
    Reserved,
    /// There are too many tokens.
    #[error("there are {TOKENS_MAX} tokens, the most allowed")]
    TooMany,
    /// The system could not provide random bytes.
    #[error("the system has no random bytes: {what}")]
    NoRandomness { what: String },
}

/// The access tokens of a store.
#[derive(Clone)]
pub struct AccessTokens {
    sessions: Sessions,
    key: Key,
}

/// A token and its hash.
#[derive(Clone)]
struct Known {
    token: AccessToken,
    hash: [u8; 32],
}

#[derive(Serialize, Deserialize)]
struct Made {
    name: Name,
    owner: Owner,
    sha256: String,
}

#[derive(Serialize, Deserialize)]
struct Revoked {
    name: Name,
}

impl AccessTokens {
    /// The tokens in this store.
    pub fn new(store: Arc<dyn Backend>, world: Arc<dyn World>) -> AccessTokens {
        let owner = Owner::new(TOKENS_OWNER).expect("a valid owner");
        let key = Key::new("tokens").expect("a valid key");
        AccessTokens { sessions: Sessions::new(store, owner, world), key }
    }

    /// Creates a token for an owner and returns it: this is the only time it can be seen.
    ///
    /// # Errors
    ///
    /// [`AccessTokenError::Taken`], [`AccessTokenError::Reserved`], [`AccessTokenError::TooMany`],
    /// or [`AccessTokenError::Sessions`] if the store fails.
    pub fn create(&self, name: &Name, owner: &Owner) -> Result<String, AccessTokenError> {
        // Reserved owners belong to the program.
        if owner.as_str().starts_with("rethread:") && !is_only_for_metrics(owner) {
            return Err(AccessTokenError::Reserved);
        }
        let mut random = [0; 32];
        getrandom::fill(&mut random)
            .map_err(|error| AccessTokenError::NoRandomness { what: error.to_string() })?;
        let secret = format!("{MARK}{}", hex(&random));
        let made = Made { name: name.clone(), owner: owner.clone(), sha256: hex(&hash(&secret)) };
        self.change("token", &made, |known| {
            if known.len() >= TOKENS_MAX {
                return Err(AccessTokenError::TooMany);
            }
            match known.iter().any(|known| known.token.name.folded() == name.folded()) {
                true => Err(AccessTokenError::Taken { name: name.clone() }),
                false => Ok(()),
            }
        })?;
        Ok(secret)
    }

    /// All tokens, oldest first.
    ///
    /// # Errors
    ///
    /// [`AccessTokenError::Sessions`] if the store cannot be read.
    pub fn list(&self) -> Result<Vec<AccessToken>, AccessTokenError> {
        Ok(self.known()?.1.into_iter().map(|known| known.token).collect())
    }

    /// Revokes a token. A running server accepts it for up to a second longer.
    ///
    /// # Errors
    ///
    /// [`AccessTokenError::Missing`], or [`AccessTokenError::Sessions`] if the store fails.
    pub fn revoke(&self, name: &Name) -> Result<(), AccessTokenError> {
        self.change("token_revoked", &Revoked { name: name.clone() }, |known| {
            match known.iter().any(|known| known.token.name.folded() == name.folded()) {
                true => Ok(()),
                false => Err(AccessTokenError::Missing { name: name.clone() }),
            }
        })
    }

    /// Appends an entry, if the current tokens allow it, and retries if another writer is first.
    fn change(
        &self,
        kind: &str,
        body: &impl Serialize,
        check: impl Fn(&[Known]) -> Result<(), AccessTokenError>,
    ) -> Result<(), AccessTokenError> {
        let mut tries = 0;
        loop {
            let mut thread = self.sessions.open(&self.key, &New::default())?;
            let (head, known) = self.known()?;
            check(&known)?;
            let body = Body::Unknown { kind: kind.into(), raw: Raw::of(body) };
            let noted = match thread.head() == head {
                true => thread.note(body).map(drop),
                false => Err(conflict(&thread, head)),
            };
            match noted {
                Err(sessions::Error::Store(StoreError::Conflict { .. })) if tries < TRIES_MAX => {
                    tries += 1;
                }
                other => return Ok(other?),
            }
        }
    }

    /// The number of entries in the log of tokens.
    fn head(&self) -> Result<u64, sessions::Error> {
        match self.sessions.resolve(&self.key)? {
            Some(id) => Ok(self.sessions.get(id)?.tally.entries),
            None => Ok(0),
        }
    }

    /// The valid tokens, and the head of the log they were read at.
    fn known(&self) -> Result<(u64, Vec<Known>), sessions::Error> {
        let Some(id) = self.sessions.resolve(&self.key)? else { return Ok((0, Vec::new())) };
        let head = self.sessions.get(id)?.tally.entries;
        let mut known: Vec<Known> = Vec::new();
        for entry in self.sessions.entries(id, 0..head) {
            let entry = entry?;
            let Body::Unknown { kind, raw } = &entry.body else { continue };
            match kind.as_str() {
                "token" => {
                    if let Ok(made) = serde_json::from_str::<Made>(raw.get())
                        && let Some(hash) = bytes(&made.sha256)
                    {
                        let Made { name, owner, .. } = made;
                        let token = AccessToken { name, owner, created_at: entry.at };
                        known.push(Known { token, hash });
                    }
                }
                "token_revoked" => {
                    if let Ok(gone) = serde_json::from_str::<Revoked>(raw.get()) {
                        known.retain(|known| known.token.name.folded() != gone.name.folded());
                    }
                }
                _ => {}
            }
        }
        Ok((head, known))
    }
}

fn conflict(thread: &rethread_core::Thread, actual: u64) -> sessions::Error {
    let (id, expected) = (thread.session().id(), thread.head());
    StoreError::Conflict { id, expected, actual }.into()
}

/// The tokens in a server's memory, so that not every request reads the log.
pub(crate) struct TokenCache {
    tokens: AccessTokens,
    seen: Mutex<Seen>,
    watches: Arc<Watches>,
}

/// The hash of a token.
pub(crate) type TokenHash = [u8; 32];

/// The tokens of open requests, and what ends when one of them is revoked.
#[derive(Default)]
struct Watches(Mutex<HashMap<TokenHash, Watch>>);

struct Watch {
    revoked: CancellationToken,
    requests: usize,
}

/// An open request that was admitted with a token.
pub(crate) struct Watched {
    watches: Arc<Watches>,
    hash: TokenHash,
    revoked: CancellationToken,
}

impl Watched {
    /// Waits until the token is revoked.
    pub(crate) fn revoked_owned(&self) -> WaitForCancellationFutureOwned {
        self.revoked.clone().cancelled_owned()
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        let mut watches = self.watches.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(watch) = watches.get_mut(&self.hash) {
            watch.requests -= 1;
            if watch.requests == 0 {
                watches.remove(&self.hash);
            }
        }
    }
}

#[derive(Clone, Default)]
struct Seen {
    head: u64,
    at: Option<Instant>,
    known: Arc<[Known]>,
}

impl TokenCache {
    pub(crate) fn new(tokens: AccessTokens) -> TokenCache {
        TokenCache { tokens, seen: Mutex::default(), watches: Arc::default() }
    }

    /// Watches the token of a request.
    pub(crate) fn watch(&self, secret: &str) -> Watched {
        let hash = hash(secret);
        let mut watches = self.watches.0.lock().unwrap_or_else(PoisonError::into_inner);
        let new = || Watch { revoked: CancellationToken::new(), requests: 0 };
        let watch = watches.entry(hash).or_insert_with(new);
        watch.requests += 1;
        Watched { watches: self.watches.clone(), hash, revoked: watch.revoked.clone() }
    }

    /// Whether a request with a token is open.
    pub(crate) fn is_watching(&self) -> bool {
        !self.watches.0.lock().unwrap_or_else(PoisonError::into_inner).is_empty()
    }

    /// Ends requests whose tokens are no longer valid.
    pub(crate) fn end_revoked(&self) -> Result<(), sessions::Error> {
        let lock = || self.watches.0.lock().unwrap_or_else(PoisonError::into_inner);
        // Taken before the log is read, so that a token created in the meantime is not missed.
        let watched: Vec<TokenHash> = lock().keys().copied().collect();
        let known = self.refresh(self.seen())?;
        let gone = watched.iter().filter(|hash| find(&known, hash).is_none());
        for hash in gone {
            if let Some(watch) = lock().get(hash) {
                watch.revoked.cancel();
            }
        }
        Ok(())
    }

    /// The owner of this token, if it is cached.
    pub(crate) fn remembered(&self, secret: &str) -> Option<Owner> {
        let seen = self.seen();
        let fresh = seen.at.is_some_and(|at| at.elapsed() < TOKEN_FRESH);
        find(&seen.known, &hash(secret)).filter(|_| fresh)
    }

    /// The owner of this token, according to the store. An unknown token may have just been
    /// created; a known one may have been revoked.
    pub(crate) fn looked_up(&self, secret: &str) -> Result<Option<Owner>, sessions::Error> {
        Ok(find(&self.refresh(self.seen())?, &hash(secret)))
    }

    fn seen(&self) -> Seen {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Reads the log again, if it has grown.
    fn refresh(&self, seen: Seen) -> Result<Arc<[Known]>, sessions::Error> {
        let at = Some(Instant::now());
        let seen = match self.tokens.head()? == seen.head {
            true => Seen { at, ..seen },
            false => {
                let (head, known) = self.tokens.known()?;
                Seen { head, at, known: known.into() }
            }
        };
        let known = seen.known.clone();
        *self.seen.lock().unwrap_or_else(PoisonError::into_inner) = seen;
        Ok(known)
    }
}

/// Compares with every token, so that the duration reveals nothing.
fn find(known: &[Known], hash: &[u8; 32]) -> Option<Owner> {
    let mut found = None;
    for known in known {
        if bool::from(known.hash.ct_eq(hash)) {
            found = Some(known.token.owner.clone());
        }
    }
    found
}

fn hash(secret: &str) -> [u8; 32] {
    Sha256::digest(secret).into()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn bytes(hex: &str) -> Option<[u8; 32]> {
    let mut bytes = [0; 32];
    if hex.len() != 64 || !hex.is_ascii() {
        return None;
    }
    for (index, byte) in bytes.iter_mut().enumerate() {
        *byte = u8::from_str_radix(&hex[2 * index..2 * index + 2], 16).ok()?;
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use rethread_core::{Fixed, MemoryStore};

    use super::*;

    fn tokens() -> AccessTokens {
        let world = Arc::new(Fixed::default());
        AccessTokens::new(Arc::new(MemoryStore::new(world.clone())), world)
    }

    fn name(text: &str) -> Name {
        Name::new(text).expect("valid")
    }

    #[test]
    fn a_token_opens_its_owners_sessions_until_it_is_revoked() {
        let tokens = tokens();
        let ring = TokenCache::new(tokens.clone());
        let ada = Owner::new("ada").expect("valid");
        assert_eq!(ring.looked_up("rt_nothing").expect("read"), None);
        let secret = tokens.create(&name("laptop"), &ada).expect("made");
        assert_eq!(secret.len(), 3 + 64);
        assert_eq!(ring.looked_up(&secret).expect("read"), Some(ada.clone()));
        assert_eq!(ring.remembered(&secret), Some(ada));
        tokens.revoke(&name("laptop")).expect("revoked");
        assert_eq!(TokenCache::new(tokens.clone()).looked_up(&secret).expect("read"), None);
        assert!(matches!(tokens.revoke(&name("laptop")), Err(AccessTokenError::Missing { .. })));
    }

    #[test]
    fn the_store_holds_the_hash_and_never_the_token() {
        let tokens = tokens();
        let secret = tokens.create(&name("laptop"), &Owner::local()).expect("made");
        let id = tokens.sessions.resolve(&tokens.key).expect("read").expect("there is a log");
        let said: String = tokens
            .sessions
            .read(id, 0..9)
            .expect("read")
            .iter()
            .map(|entry| entry.body.json())
            .collect();
        assert!(!said.contains(&secret[3..]) && said.contains(&hex(&hash(&secret))), "{said}");
    }

    #[test]
    fn a_name_is_taken_once_and_the_owner_of_the_tokens_has_none() {
        let tokens = tokens();
        tokens.create(&name("a"), &Owner::local()).expect("made");
        let again = tokens.create(&name("a"), &Owner::local());
        assert!(matches!(again, Err(AccessTokenError::Taken { .. })));
        let reserved = Owner::new(TOKENS_OWNER).expect("valid");
        assert!(matches!(tokens.create(&name("b"), &reserved), Err(AccessTokenError::Reserved)));
        assert_eq!(tokens.list().expect("read").len(), 1);
    }
}
