//! Full-text search with PostgreSQL's `tsvector`.
//!
//! This is the only part that needs PostgreSQL itself, and it is kept separate: its table and its
//! statements are in this file and `search.sql`. The index is derived from the entries, updated
//! when somebody searches, and can be dropped and rebuilt.
//!
//! A term of the index is prefixed with its owner. So the postings of a term belong to one owner,
//! and other owners' text does not slow a search down. The index has no positions: for a phrase,
//! the text is read.

use std::collections::{BTreeSet, HashMap, HashSet};

use jiff::Timestamp;
use rethread_core::search::{Hit, Query, Rank, SearchText, Speaker, terms};
use rethread_core::store::Result;
use rethread_core::{Owner, Place, SessionId, StoreError};
use sha2::{Digest, Sha256};
use uuid::Uuid;

use super::append::Statement;
use super::connection::Link;
use super::error::Fail;
use super::{Db, read, sql};
use crate::row::number;

/// The table.
pub(super) const SCHEMA: &str = include_str!("search.sql");

/// Drops the index of an earlier format.
pub(super) const DROP: &str = "DROP TABLE IF EXISTS rethread_search";

/// Adds the terms of entries; existing rows are not changed.
const ADD: &str = "INSERT INTO rethread_search (owner, session, seq, at, speaker, words) \
    SELECT $1, $2, e.seq, e.at, e.speaker, e.words::tsvector \
    FROM unnest($3::bigint[], $4::bigint[], $5::smallint[], $6::text[]) \
    AS e (seq, at, speaker, words) ON CONFLICT (owner, session, seq) DO NOTHING";

/// Entries that have all terms, in the order of their rank, after a given rank. The first two
/// speakers are the user and the assistant.
const SEARCH: &str = "SELECT session, seq, at, speaker < 2 FROM rethread_search \
    WHERE owner = $1 AND words @@ $2::text::tsquery AND at >= $3 AND speaker = ANY ($4) \
    AND (speaker < 2, at, session, seq) < ($5, $6, $7, $8) \
    ORDER BY speaker < 2 DESC, at DESC, session DESC, seq DESC LIMIT $9";

/// Removes a session from the index.
pub(super) const FORGET: &str = "DELETE FROM rethread_search WHERE owner = $1 AND session = $2";

/// How many entries of a session the index has.
pub(super) const COUNT: &str =
    "SELECT count(*) FROM rethread_search WHERE owner = $1 AND session = $2";

const WHAT: &str = "search";

/// Entries indexed in one transaction, during which the session is locked.
const FILL_ENTRIES: i64 = 500;

/// Sessions with entries to index that are looked up at once.
const FILL_SESSIONS: i64 = 64;

/// Sessions examined to report how many entries are not indexed yet. Somebody may ask every few
/// seconds, and if nobody ever searches, no session is indexed.
const BEHIND_SESSIONS: i64 = 256;

/// Hits read from the index at once: more than a page, because some may be in the trash, in another
/// workspace, or without the phrase.
const PLACES: i64 = 500;

/// Bytes of all terms of an entry, which PostgreSQL limits to 1 MiB. The searchable text of an
/// entry has fewer, unless it is full of ligatures that are expanded; terms beyond this are left
/// out.
const TERMS_BYTES_MAX: usize = (1 << 20) - 1;

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

    /// The number of entries that are not indexed yet, in the sessions that are examined.
    pub(super) fn index_lag(&self) -> Result<u64> {
        self.pool.run(WHAT, async |link, _| {
            let answer = link.one(sql::BEHIND, &[&BEHIND_SESSIONS]).await?;
            let behind: i64 = answer.rows.first().map_or(Ok(0), |row| row.try_get(0))?;
            Ok(u64::try_from(behind).unwrap_or_default())
        })
    }

    pub(super) fn search(
        &self,
        owner: &Owner,
        query: &Query,
        offset: usize,
        limit: usize,
    ) -> Result<Vec<Hit>> {
        match self.fill_search(owner) {
            // A standby, or a full disk, can still search what was indexed before.
            Ok(()) | Err(StoreError::ReadOnly { .. } | StoreError::Full { .. }) => {}
            Err(error) => return Err(error),
        }
        self.pool.run(WHAT, async |link, _| {
            let (mut hits, mut offset, mut after) = (Vec::new(), offset, None);
            let mut sessions = HashSet::new();
            loop {
                let places = some_places(link, owner, query, after).await?;
                let Some(last) = places.last() else { return Ok(hits) };
                after = Some(*last);
                let mut places = shown(link, owner, query, places).await?;
                // Without a phrase, every one of them matches.
                if query.scope.once_per_session && !query.has_phrase() {
                    places.retain(|rank| sessions.insert(rank.session));
                }
                // The text of skipped hits does not have to be read.
                let places = match query.has_phrase() {
                    true => places.as_slice(),
                    false => {
                        let skipped = offset.min(places.len());
                        offset -= skipped;
                        &places[skipped..]
                    }
                };
                let said = read_said(link, owner, places).await?;
                for rank in places {
                    let Some(said) = said.get(&rank.place()) else { continue };
                    if query.has_phrase() && !query.matches(&said.text) {
                        continue;
                    }
                    let is_known = query.has_phrase() && !sessions.insert(rank.session);
                    if is_known && query.scope.once_per_session {
                        continue;
                    }
                    if offset > 0 {
                        offset -= 1;
                    } else {
                        hits.push(query.hit(rank.place(), rank.at, said));
                    }
                    if hits.len() == limit {
                        return Ok(hits);
                    }
                }
            }
        })
    }
}

/// The next entries that have all terms, after a rank.
async fn some_places(
    link: &mut Link,
    owner: &Owner,
    query: &Query,
    after: Option<Rank>,
) -> std::result::Result<Vec<Rank>, Fail> {
    let terms: Vec<String> = query
        .terms()
        .into_iter()
        .map(|wanted| {
            let star = if wanted.prefix { ":*" } else { "" };
            format!("{}{star}", quoted(&lexeme(&prefix_of(owner), &wanted.text)))
        })
        .collect();
    let since = query.scope.since.map_or(i64::MIN, Timestamp::as_millisecond);
    let speakers: Vec<i16> = match query.scope.from {
        Some(speaker) => vec![number_of(speaker)],
        None => Speaker::ALL.map(number_of).into(),
    };
    let (is_conversation, at, session, seq) = match after {
        Some(rank) => {
            (rank.is_conversation, rank.at.as_millisecond(), rank.session.0, number(rank.seq))
        }
        None => (true, i64::MAX, Uuid::max(), i64::MAX),
    };
    let answer = link
        .one(
            SEARCH,
            &[
                &owner.as_str(),
                &terms.join(" & "),
                &since,
                &speakers,
                &is_conversation,
                &at,
                &session,
                &seq,
                &PLACES,
            ],
        )
        .await?;
    let mut places = Vec::new();
    for row in &answer.rows {
        places.push(Rank {
            session: SessionId(row.try_get(0)?),
            seq: u64::try_from(row.try_get::<_, i64>(1)?).unwrap_or_default(),
            at: Timestamp::from_millisecond(row.try_get(2)?).unwrap_or(Timestamp::UNIX_EPOCH),
            is_conversation: row.try_get(3)?,
        });
    }
    Ok(places)
}

/// The hits in requested sessions that are not in the trash.
async fn shown(
    link: &mut Link,
    owner: &Owner,
    query: &Query,
    mut places: Vec<Rank>,
) -> std::result::Result<Vec<Rank>, Fail> {
    let ids: BTreeSet<Uuid> = places.iter().map(|rank| rank.session.0).collect();
    let ids: Vec<Uuid> = ids.into_iter().collect();
    let workspace = query.scope.workspace.as_deref().map(read::hash);
    let answer = link.one(sql::SHOWN, &[&owner.as_str(), &ids, &workspace]).await?;
    let mut shown = HashSet::new();
    for row in &answer.rows {
        shown.insert(SessionId(row.try_get(0)?));
    }
    places.retain(|rank| shown.contains(&rank.session));
    Ok(places)
}

/// The hits at these positions, if their entries can be read.
async fn read_said(
    link: &mut Link,
    owner: &Owner,
    places: &[Rank],
) -> std::result::Result<HashMap<Place, SearchText>, Fail> {
    let (sessions, seqs): (Vec<Uuid>, Vec<i64>) =
        places.iter().map(|rank| (rank.session.0, number(rank.seq))).unzip();
    let answer = link.one(sql::FOUND, &[&owner.as_str(), &sessions, &seqs]).await?;
    let mut found = HashMap::new();
    for row in &answer.rows {
        let session = SessionId(row.try_get(0)?);
        let entry = read::stored(row, 1)?.entry(session);
        if let Some((seq, said)) =
            entry.ok().and_then(|entry| Some((entry.seq, SearchText::of(&entry.body)?)))
        {
            found.insert(Place { session, seq }, said);
        }
    }
    Ok(found)
}

/// Indexes the next entries of a session; returns whether there may be more.
async fn fill_some(
    link: &mut Link,
    owner: &Owner,
    id: SessionId,
) -> std::result::Result<bool, Fail> {
    let (name, session) = (owner.as_str(), id.0);
    let answers = link.all(&[(sql::BEGIN, &[]), (sql::LOCK_INDEXED, &[&name, &session])]).await?;
    let Some(row) = answers[1].rows.first() else {
        // It was deleted, together with its pending entries.
        link.all(&[(sql::SEARCHED, &[&name, &session]), (sql::COMMIT, &[])]).await?;
        return Ok(false);
    };
    let from: i64 = row.try_get(0)?;
    let to = from.saturating_add(FILL_ENTRIES);
    let answer = link.one(sql::ENTRIES, &[&name, &session, &from, &to]).await?;
    let (mut seqs, mut times, mut speakers, mut texts) =
        (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let mut next = from;
    for row in &answer.rows {
        let stored = read::stored(row, 0)?;
        let (seq, at) = (row.try_get::<_, i64>(0)?, stored.at);
        next = seq + 1;
        // An entry that cannot be read cannot be found; `doctor` reports it.
        let Ok(entry) = stored.entry(id) else { continue };
        if let Some(said) = SearchText::of(&entry.body) {
            seqs.push(seq);
            times.push(at);
            speakers.push(number_of(said.speaker));
            texts.push(vector(owner, &said.text));
        }
    }
    let more = answer.rows.len() as i64 == FILL_ENTRIES;
    let add: Statement<'_> = (ADD, &[&name, &session, &seqs, &times, &speakers, &texts]);
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

/// The terms of a text, as stored in the index.
fn vector(owner: &Owner, text: &str) -> String {
    let prefix = prefix_of(owner);
    let all: BTreeSet<String> = terms(text).map(|term| term.text).collect();
    let mut left = TERMS_BYTES_MAX;
    let fits = all.iter().map(|term| lexeme(&prefix, term)).take_while(|term| {
        let fits = term.len() <= left;
        left = left.saturating_sub(term.len());
        fits
    });
    fits.map(|term| quoted(&term)).collect::<Vec<_>>().join(" ")
}

/// A term with the prefix of its owner.
fn lexeme(prefix: &str, term: &str) -> String {
    format!("{prefix}{term}")
}

/// The prefix of an owner's terms: 25 bits of a hash. Owners may share a prefix, so the owner
/// itself is compared as well.
fn prefix_of(owner: &Owner) -> String {
    const LETTERS: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";
    let hash = Sha256::digest(owner.as_str());
    hash[..5].iter().map(|byte| char::from(LETTERS[usize::from(byte % 32)])).collect()
}

/// A speaker in the index.
fn number_of(speaker: Speaker) -> i16 {
    match speaker {
        Speaker::User => 0,
        Speaker::Assistant => 1,
        Speaker::Tool => 2,
        Speaker::System => 3,
    }
}

/// A term of letters, digits and marks needs nothing but quotes.
fn quoted(term: &str) -> String {
    format!("'{term}'")
}
