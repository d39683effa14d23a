//! The careless store as it searches and looks after itself.

use std::collections::BTreeMap;

use rethread_core::store::{Finding, FindingState, Hit, Result, Search, Upkeep, query_words};
use rethread_core::text::searchable;
use rethread_core::{Owner, Place, SessionId, Store, StoreError};

use crate::faults::Fault;
use crate::place::{Opened, locked};

impl Search for Opened {
    fn search(&self, owner: &Owner, query: &str, offset: usize, limit: usize) -> Result<Vec<Hit>> {
        let inner = self.inner();
        match self.fault {
            Fault::SearchLags => {
                let mut now = BTreeMap::new();
                for (owner, id) in inner.everything()? {
                    now.insert(id, inner.get(&owner, id)?.tally.entries);
                }
                let then = std::mem::replace(&mut *locked(&self.shared.indexed), now);
                let mut hits = inner.search(owner, query, offset, limit)?;
                hits.retain(|hit| {
                    then.get(&hit.place.session).is_some_and(|end| hit.place.seq < *end)
                });
                Ok(hits)
            }
            Fault::SearchesForAnyWord => {
                let mut hits = BTreeMap::new();
                for word in query_words(query)? {
                    let found = inner.search(owner, &word, 0, usize::MAX)?;
                    hits.extend(
                        found.into_iter().map(|hit| ((hit.place.session, hit.place.seq), hit)),
                    );
                }
                Ok(hits.into_values().skip(offset).take(limit).collect())
            }
            Fault::SearchSkipsTheArchived => {
                let mut hits = inner.search(owner, query, 0, usize::MAX)?;
                hits.retain(|hit| {
                    !inner.get(owner, hit.place.session).is_ok_and(|s| s.header.archived)
                });
                Ok(hits.into_iter().skip(offset).take(limit).collect())
            }
            Fault::SearchFindsParts => {
                let (wanted, mut hits) = (query_words(query)?, Vec::new());
                for (_, session) in inner.everything()?.into_iter().filter(|(of, _)| of == owner) {
                    for entry in inner.read(owner, session, 0..u64::MAX)? {
                        let Some(text) = searchable(&entry.body) else { continue };
                        if wanted.iter().all(|part| text.to_lowercase().contains(part)) {
                            let place = Place { session, seq: entry.seq };
                            hits.push(Hit { place, snippet: text });
                        }
                    }
                }
                Ok(hits.into_iter().skip(offset).take(limit).collect())
            }
            Fault::PassesQueriesOn if query.contains(['"', '(']) => Err(StoreError::Backend {
                store: "careless",
                action: "search",
                source: format!("syntax error near `{query}`").into(),
            }),
            _ => inner.search(&self.whose(owner), query, offset, limit),
        }
    }

    fn behind(&self) -> Result<Option<u64>> {
        self.inner().behind()
    }
}

impl Upkeep for Opened {
    fn can_write(&self) -> Result<()> {
        self.inner().can_write()
    }

    fn everything(&self) -> Result<Vec<(Owner, SessionId)>> {
        let mut all = self.inner().everything()?;
        if self.has(Fault::OverlooksOwners) {
            all.retain(|(owner, _)| *owner == Owner::local());
        }
        Ok(all)
    }

    fn check(&self, repair: bool) -> Result<Vec<Finding>> {
        self.inner().check(repair)
    }

    fn check_session(&self, owner: &Owner, id: SessionId, repair: bool) -> Result<Vec<Finding>> {
        let mut findings = self.inner().check_session(owner, id, repair)?;
        if self.has(Fault::FindsFaultWithTheHealthy) {
            let what = "the search index was written anew".into();
            let state = match repair {
                true => FindingState::Repaired,
                false => FindingState::Repairable,
            };
            findings.push(Finding { session: Some(id), seq: None, what, state });
        }
        Ok(findings)
    }
}
