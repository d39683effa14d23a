//! Writes headers, keys and leases.

use std::time::Duration;

use jiff::Timestamp;
use rethread_core::store::{At, Bind, Change, KeyChange, Lease, Result};
use rethread_core::{Header, NewEntry, Owner, Session, SessionId, StoreError};
use tokio_postgres::types::ToSql;

use super::append::{End, Request, Statement, first_question, free, lease, millis, repeated};
use super::connection::{Answer, Link, Params};
use super::error::Fail;
use super::read::{found, hash, header_of, session};
use super::{Db, search, sql};

type Write<T> = std::result::Result<T, Fail>;

/// The index of names, to recognise that a name was taken.
const NAMES: &str = "rethread_sessions_name";

/// The columns that repeat parts of the header.
pub(super) struct Columns {
    json: String,
    workspace: Option<Vec<u8>>,
    parent: Option<uuid::Uuid>,
    continues: bool,
    pub(super) trashed: Option<i64>,
}

impl Columns {
    pub(super) fn new(header: &Header) -> Columns {
        Columns {
            json: serde_json::to_string(header).expect("a header is always valid JSON"),
            workspace: header.profile.workspace.as_deref().map(hash),
            parent: header.parent.map(|parent| parent.id.0),
            continues: header.parent.is_some_and(|parent| parent.origin.continues()),
            trashed: header.trash.as_ref().map(|trash| trash.at.as_millisecond()),
        }
    }
}

/// A key, as it is looked up.
struct Bound<'a> {
    bind: &'a Bind,
    hash: Vec<u8>,
}

impl<'a> Bound<'a> {
    fn new(bind: &'a Bind) -> Bound<'a> {
        Bound { bind, hash: hash(bind.key.as_str()) }
    }

    fn is_where_seen(&self, answer: &Answer) -> Write<Option<SessionId>> {
        let actual = found(answer)?;
        match actual == self.bind.seen {
            true => Ok(actual),
            false => Err(StoreError::KeyMoved { key: self.bind.key.clone(), actual }.into()),
        }
    }
}

impl Db {
    pub(super) fn create(
        &self,
        header: &Header,
        entries: &[NewEntry],
        binds: &[Bind],
    ) -> Result<Session> {
        let request = Request::new(&header.owner, header.id, Default::default(), entries);
        let bounds: Vec<Bound<'_>> = binds.iter().map(Bound::new).collect();
        self.pool.run("create a session", async |link, _| {
            self.created(link, header, &request, &bounds).await
        })
    }

    async fn created(
        &self,
        link: &mut Link,
        header: &Header,
        request: &Request,
        bounds: &[Bound<'_>],
    ) -> Write<Session> {
        let (owner, id, entries) = (header.owner.as_str(), header.id, &request.entries);
        let ids: Vec<&str> = entries.iter().map(|ready| ready.id.as_str()).collect();
        let mut statements: Vec<(&'static str, Vec<&(dyn ToSql + Sync)>)> = vec![
            (sql::BEGIN, vec![]),
            (sql::SESSION, vec![&owner, &id.0]),
            (sql::IDS, vec![&owner, &id.0, &ids]),
        ];
        for bound in bounds {
            statements.push((sql::LOCK_KEY, vec![&owner, &bound.hash]));
        }
        let answers = link.all(&borrowed(&statements)).await?;
        if !answers[1].rows.is_empty() {
            let session = session(&answers[1], id)?;
            // The process that created it may not know that it is durable; committing a lock makes
            // it so.
            link.all(&[(sql::LOCK_HEADER, &[&owner, &id.0]), (sql::COMMIT, &[])]).await?;
            return match created_before(&session, header, &answers[2], request)? {
                true => Ok(session),
                false => Err(StoreError::Exists { id }.into()),
            };
        }
        for (bound, answer) in bounds.iter().zip(&answers[3..]) {
            bound.is_where_seen(answer)?;
        }
        repeated(&answers[2], id, entries)?;
        self.write_session(link, header, request, bounds).await
    }

    async fn write_session(
        &self,
        link: &mut Link,
        header: &Header,
        request: &Request,
        bounds: &[Bound<'_>],
    ) -> Write<Session> {
        let (owner, id, entries) = (header.owner.as_str(), header.id, &request.entries);
        let columns = Columns::new(header);
        let last_at = entries.last().map_or(header.created_at.as_millisecond(), |entry| entry.at);
        let first = first_question(&Default::default(), entries).unwrap_or_default();
        let name = header.name.folded();
        let Columns { json, workspace, parent, continues, trashed } = &columns;
        let create: Statement<'_> = (
            sql::CREATE,
            &[
                &owner,
                &id.0,
                &name,
                json,
                &header.archived,
                workspace,
                parent,
                continues,
                &last_at,
                &first,
                trashed,
            ],
        );
        let keys: Vec<(&str, SessionId)> =
            bounds.iter().map(|bound| (bound.bind.key.as_str(), id)).collect();
        let mut after: Vec<(&'static str, Vec<&(dyn ToSql + Sync)>)> = Vec::new();
        for (bound, (key, id)) in bounds.iter().zip(&keys) {
            after.push(match bound.bind.seen {
                None => (sql::NEW_KEY, vec![&owner, &bound.hash, key, &id.0]),
                Some(_) => (sql::MOVE_KEY, vec![&owner, &bound.hash, &id.0]),
            });
        }
        after.push((sql::SESSION, vec![&owner, &id.0]));
        after.push((sql::COMMIT, vec![]));
        let after = borrowed(&after);
        let written = match entries.is_empty() {
            true => link.all(&[&[create], after.as_slice()].concat()).await,
            false => self.insert_all(link, request, create, &after).await,
        };
        let answers = match written {
            Ok(answers) => answers,
            Err(fail) => {
                return Err(match fail.taken() {
                    Some(NAMES) => StoreError::NameTaken { name: header.name.clone() }.into(),
                    // Another process was faster with the session, or with a key.
                    Some(_) => Fail::Again,
                    None => fail,
                });
            }
        };
        session(&answers[answers.len() - 2], id)
    }

    /// A new session with its first entries.
    async fn insert_all(
        &self,
        link: &mut Link,
        request: &Request,
        create: Statement<'_>,
        after: &[Statement<'_>],
    ) -> Write<Vec<Answer>> {
        let inserted =
            self.insert(link, request, &At::END, &End::default(), &[create], after).await?;
        match inserted.seqs.is_empty() {
            true => Err(Fail::Again),
            false => Ok(inserted.answers),
        }
    }

    pub(super) fn bind(&self, owner: &Owner, bind: &Bind, to: Option<SessionId>) -> Result<()> {
        let bound = Bound::new(bind);
        let (owner, key) = (owner.as_str(), bind.key.as_str());
        self.pool.run("bind a key", async |link, doubt| {
            let target = to.unwrap_or(SessionId(uuid::Uuid::nil()));
            // The session first: deleting it takes locks in the same order.
            let answers = link
                .all(&[
                    (sql::BEGIN, &[]),
                    (sql::LOCK_SESSION, &[&owner, &target.0]),
                    (sql::LOCK_KEY, &[&owner, &bound.hash]),
                ])
                .await?;
            if doubt && found(&answers[2])? == to {
                link.one(sql::COMMIT, &[]).await?;
                return Ok(());
            }
            let actual = bound.is_where_seen(&answers[2])?;
            if to.is_some() && answers[1].rows.is_empty() {
                return Err(StoreError::NotFound { id: target }.into());
            }
            let write: Statement<'_> = match (to, actual) {
                (None, _) => (sql::DROP_KEY, &[&owner, &bound.hash]),
                (Some(_), None) => (sql::NEW_KEY, &[&owner, &bound.hash, &key, &target.0]),
                (Some(_), Some(_)) => (sql::MOVE_KEY, &[&owner, &bound.hash, &target.0]),
            };
            match link.all(&[write, (sql::COMMIT, &[])]).await {
                Ok(_) => Ok(()),
                Err(fail) if fail.taken().is_some() => Err(Fail::Again),
                Err(fail) => Err(fail),
            }
        })
    }

    pub(super) fn update(&self, owner: &Owner, id: SessionId, change: &Change) -> Result<Session> {
        let now = self.now();
        self.pool.run("change a session", async |link, _| {
            let name = owner.as_str();
            let answers = link
                .all(&[
                    (sql::BEGIN, &[]),
                    (sql::LOCK_HEADER, &[&name, &id.0]),
                    (sql::LOCK_ANY_PLACE, &[&name, &id.0, &now]),
                ])
                .await?;
            let row = answers[1].rows.first().ok_or(StoreError::NotFound { id })?;
            let mut header = header_of(id, row.try_get(0)?)?;
            let keys = change.keys(&header)?;
            change.apply(&mut header);
            let mut claims: Vec<(Vec<u8>, &str)> = Vec::new();
            let mut after: Vec<(&'static str, Vec<&(dyn ToSql + Sync)>)> = Vec::new();
            match &keys {
                KeyChange::Keep => {}
                KeyChange::Release => {
                    free(&answers[2], id)?;
                    after.push((sql::RELEASE_KEYS, vec![&name, &id.0]));
                }
                KeyChange::Claim(keys) => {
                    claims = keys.iter().map(|key| (hash(key.as_str()), key.as_str())).collect();
                }
            }
            for (hash, key) in &claims {
                after.push((sql::CLAIM_KEY, vec![&name, hash, key, &id.0]));
            }
            after.push((sql::SESSION, vec![&name, &id.0]));
            after.push((sql::COMMIT, vec![]));
            let answers = write_header(link, owner, &header, &borrowed(&after)).await?;
            session(&answers[answers.len() - 2], id)
        })
    }

    pub(super) fn lease(
        &self,
        owner: &Owner,
        id: SessionId,
        holder: &str,
        ttl: Duration,
    ) -> Result<Lease> {
        let (name, session, now) = (owner.as_str(), id.0, self.now());
        let ttl = millis(ttl);
        self.pool.run("take a lease", async |link, _| {
            let answer = link.one(sql::LEASE, &[&name, &session, &holder, &ttl, &now]).await?;
            if let Some(row) = answer.rows.first() {
                return lease(row);
            }
            free(&link.one(sql::PLACE, &[&name, &session, &now]).await?, id)?;
            // It was released in the meantime.
            Err(Fail::Again)
        })
    }

    pub(super) fn delete(
        &self,
        owner: &Owner,
        id: SessionId,
        trashed_at: Option<Timestamp>,
    ) -> Result<()> {
        let (name, session, now) = (owner.as_str(), id.0, self.now());
        let trashed = trashed_at.map(Timestamp::as_millisecond);
        self.pool.run("delete a session", async |link, doubt| {
            let place: Params<'_> = &[&name, &session, &now, &trashed];
            let answers = link.all(&[(sql::BEGIN, &[]), (sql::LOCK_TO_DELETE, place)]).await?;
            if doubt && answers[1].rows.is_empty() {
                return Ok(());
            }
            free(&answers[1], id)?;
            let params: Params<'_> = &[&name, &session];
            let mut statements: Vec<Statement<'_>> = vec![(search::FORGET, params)];
            statements.extend(sql::DELETE.map(|delete| (delete, params)));
            statements.push((sql::COMMIT, &[]));
            link.all(&statements).await?;
            Ok(())
        })
    }
}

/// Writes a header, and the columns that repeat parts of it.
pub(super) async fn write_header(
    link: &mut Link,
    owner: &Owner,
    header: &Header,
    after: &[Statement<'_>],
) -> Write<Vec<Answer>> {
    let (owner, name) = (owner.as_str(), header.name.folded());
    let Columns { json, workspace, parent, continues, trashed } = &Columns::new(header);
    let update: Statement<'_> = (
        sql::UPDATE,
        &[
            &owner,
            &header.id.0,
            &name,
            json,
            &header.archived,
            workspace,
            parent,
            continues,
            trashed,
        ],
    );
    let written = link.all(&[&[update], after].concat()).await;
    written.map_err(|fail| match fail.taken() {
        Some(_) => StoreError::NameTaken { name: header.name.clone() }.into(),
        None => fail,
    })
}

/// Whether the existing session is the one to be created.
fn created_before(
    session: &Session,
    header: &Header,
    ids: &Answer,
    request: &Request,
) -> Write<bool> {
    let same = match repeated(ids, header.id, &request.entries) {
        Ok(Some(seqs)) => seqs.into_iter().eq(0..request.entries.len() as u64),
        Ok(None) => request.entries.is_empty(),
        Err(Fail::Refused(StoreError::IdReused { .. })) => false,
        Err(fail) => return Err(fail),
    };
    Ok(same && session.header.created_at == header.created_at)
}

fn borrowed<'a>(
    statements: &'a [(&'static str, Vec<&'a (dyn ToSql + Sync)>)],
) -> Vec<Statement<'a>> {
    statements.iter().map(|(sql, params)| (*sql, params.as_slice())).collect()
}
