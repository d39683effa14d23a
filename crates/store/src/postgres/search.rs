//! Finding what was said, with PostgreSQL's `tsvector`.
//!
//! This is the one part that only PostgreSQL has, and it stands apart: its table and its statements
//! are in this file and `search.sql`. What it holds is derived from entries, follows them when
//! somebody searches, and can be thrown away and made anew.
//!
//! A word of the index begins with its owner. So the places of a word are those of one owner, and a
//! search takes no longer because others have said the same.

use rethread_core::store::{Hit, Result};
use rethread_core::text::{searchable, snippet, words};
use rethread_core::{Owner, Place, SessionId, StoreError};
use sha2::{Digest, Sha256};
use std::collections::{BTreeSet, HashMap};
use uuid::Uuid;

use super::append::Statement;
use super::error::Fail;
use super::link::Link;
use super::{Db, read, sql};

/// The table.
pub(super) const SCHEMA: &str = include_str!("search.sql");

/// Adds the words of entries; those it has stay as they are.
const ADD: &str = "INSERT INTO rethread_search (owner, session, seq, at, words) \
    SELECT $1, $2, e.seq, e.at, e.words::tsvector \
    FROM unnest($3::bigint[], $4::bigint[], $5::text[]) AS e (seq, at, words) \
    ON CONFLICT (owner, session, seq) DO NOTHING";

/// The entries that have all words, newest first.
const SEARCH: &str = "SELECT session, seq FROM rethread_search \
    WHERE owner = $1 AND words @@ $2::text::tsquery AND coalesce((SELECT s.trashed IS NULL \
      FROM rethread_sessions s WHERE s.owner = $1 AND s.id = rethread_search.session), false) \
    ORDER BY at DESC, session DESC, seq DESC LIMIT $3 OFFSET $4";

/// Forgets a session.
pub(super) const FORGET: &str = "DELETE FROM rethread_search WHERE owner = $1 AND session = $2";

/// How many entries of a session the index has.
pub(super) const COUNT: &str =
    "SELECT count(*) FROM rethread_search WHERE owner = $1 AND session = $2";

const WHAT: &str = "search";

/// Entries put into the index in one transaction, while which the session is locked.
const FILL_ENTRIES: i64 = 500;

/// Sessions looked up at once that are behind.
const FILL_SESSIONS: i64 = 64;

/// Sessions looked at to tell how far search is behind. Somebody may ask every few seconds, and
/// where nobody ever searches, all sessions there are wait for it.
const BEHIND_SESSIONS: i64 = 256;

/// Bytes of a word that count. What is longer is no word, and the index takes no more than 2 KB.
const WORD_BYTES_MAX: usize = 512;

impl Db {
    /// Brings the index of an owner up to date.
    fn fill_search(&self, owner: &Owner) -> Result<()> {
        loop {
            let behind: Vec<Uuid> = self.pool.run(WHAT, async |link, _| {
                let answer =
                    link.one(sql::SOME_UNSEARCHED, &[&owner.as_str(), &FILL_SESSIONS]).await?;
                answer.rows.iter().map(|row| Ok(row.try_get(0)?)).collect()
            })?;
            if behind.is_empty() {
                return Ok(());
            }
            for id in behind {
                let id = SessionId(id);
                while self.pool.run(WHAT, async |link, _| fill_some(link, owner, id).await)? {}
            }
        }
    }

    /// Entries that the index has not seen, in as many sessions as are looked at.
    pub(super) fn behind(&self) -> Result<u64> {
        self.pool.run(WHAT, async |link, _| {
            let answer = link.one(sql::BEHIND, &[&BEHIND_SESSIONS]).await?;
            let behind: i64 = answer.rows.first().map_or(Ok(0), |row| row.try_get(0))?;
            Ok(u64::try_from(behind).unwrap_or_default())
        })
    }

    pub(super) fn search(
        &self,
        owner: &Owner,
        words: &[String],
        offset: usize,
        limit: usize,
    ) -> Result<Vec<Hit>> {
        match self.fill_search(owner) {
            // A standby finds what was indexed before, and so does a full disk.
            Ok(()) | Err(StoreError::ReadOnly { .. } | StoreError::Full { .. }) => {}
            Err(error) => return Err(error),
        }
        let name = owner.as_str();
        let query: Vec<String> = words.iter().map(|word| quoted(&lexeme(owner, word))).collect();
        let query = query.join(" & ");
        let number = |n: usize| i64::try_from(n).unwrap_or(i64::MAX);
        let (limit, offset) = (number(limit), number(offset));
        self.pool.run(WHAT, async |link, _| {
            let answer = link.one(SEARCH, &[&name, &query, &limit, &offset]).await?;
            let mut places: Vec<(Uuid, i64)> = Vec::new();
            for row in &answer.rows {
                places.push((row.try_get(0)?, row.try_get(1)?));
            }
            let (sessions, seqs): (Vec<Uuid>, Vec<i64>) = places.iter().copied().unzip();
            let answer = link.one(sql::FOUND, &[&name, &sessions, &seqs]).await?;
            let mut texts: HashMap<(Uuid, i64), String> = HashMap::new();
            for row in &answer.rows {
                let (session, seq): (Uuid, i64) = (row.try_get(0)?, row.try_get(1)?);
                let entry = read::stored(row, 1)?.entry(SessionId(session));
                if let Some(text) = entry.ok().and_then(|entry| searchable(&entry.body)) {
                    texts.insert((session, seq), snippet(&text, words));
                }
            }
            let hit = |at: (Uuid, i64)| Hit {
                place: Place {
                    session: SessionId(at.0),
                    seq: u64::try_from(at.1).unwrap_or_default(),
                },
                snippet: texts.remove(&at).unwrap_or_default(),
            };
            Ok(places.into_iter().map(hit).collect())
        })
    }
}

/// Puts the next entries of a session into the index; whether there may be more.
async fn fill_some(
    link: &mut Link,
    owner: &Owner,
    id: SessionId,
) -> std::result::Result<bool, Fail> {
    let (name, session) = (owner.as_str(), id.0);
    let answers = link.all(&[(sql::BEGIN, &[]), (sql::LOCK_INDEXED, &[&name, &session])]).await?;
    let Some(row) = answers[1].rows.first() else {
        // It was deleted, and what waits for it with it.
        link.all(&[(sql::SEARCHED, &[&name, &session]), (sql::COMMIT, &[])]).await?;
        return Ok(false);
    };
    let from: i64 = row.try_get(0)?;
    let to = from.saturating_add(FILL_ENTRIES);
    let answer = link.one(sql::ENTRIES, &[&name, &session, &from, &to]).await?;
    let (mut seqs, mut times, mut texts) = (Vec::new(), Vec::new(), Vec::new());
    let mut next = from;
    for row in &answer.rows {
        let stored = read::stored(row, 0)?;
        let (seq, at) = (row.try_get::<_, i64>(0)?, stored.at);
        next = seq + 1;
        // An entry that cannot be read cannot be found; `doctor` reports it.
        let Ok(entry) = stored.entry(id) else { continue };
        if let Some(text) = searchable(&entry.body) {
            seqs.push(seq);
            times.push(at);
            texts.push(vector(owner, &text));
        }
    }
    let more = answer.rows.len() as i64 == FILL_ENTRIES;
    let add: Statement<'_> = (ADD, &[&name, &session, &seqs, &times, &texts]);
    let indexed: Statement<'_> = (sql::SET_INDEXED, &[&name, &session, &next]);
    let searched: Statement<'_> = (sql::SEARCHED, &[&name, &session]);
    let mut statements = vec![add, indexed];
    if !more {
        statements.push(searched);
    }
    statements.push((sql::COMMIT, &[]));
    link.all(&statements).await?;
    Ok(more)
}

/// The words of a text as the index has them.
fn vector(owner: &Owner, text: &str) -> String {
    let words: BTreeSet<String> = words(text).map(|word| lexeme(owner, &word)).collect();
    words.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" ")
}

/// A word of an owner. Eight bytes of a hash tell owners apart well enough: the owner itself is
/// looked at as well.
fn lexeme(owner: &Owner, word: &str) -> String {
    let hash = Sha256::digest(owner.as_str());
    let owner: String = hash[..8].iter().map(|byte| format!("{byte:02x}")).collect();
    format!("{owner}{}", &word[..word.floor_char_boundary(WORD_BYTES_MAX)])
}

/// A word of letters and digits needs nothing but quotes.
fn quoted(word: &str) -> String {
    format!("'{word}'")
}
