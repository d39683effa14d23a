//! The careless store: search and maintenance.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use rethread_core::search::{Hit, Query, SearchText, Wanted};
use rethread_core::store::{Finding, FindingState, Result, Search, Upkeep};
use rethread_core::{Owner, Place, SessionId, Store};

use crate::faults::Fault;
use crate::place::{Opened, locked};

impl Search for Opened {
    fn search(
        &self,
        owner: &Owner,
        query: &Query,
        offset: usize,
        limit: usize,
    ) -> Result<Vec<Hit>> {
        let inner = self.inner();
        let page = |hits: Vec<Hit>| Ok(hits.into_iter().skip(offset).take(limit).collect());
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
                for term in query.terms() {
                    let found = inner.search(owner, &words([term])?, 0, usize::MAX)?;
                    hits.extend(
                        found.into_iter().map(|hit| ((hit.place.session, hit.place.seq), hit)),
                    );
                }
                page(hits.into_values().collect())
            }
            Fault::SearchSkipsTheArchived => {
                let mut hits = inner.search(owner, query, 0, usize::MAX)?;
                hits.retain(|hit| {
                    !inner.get(owner, hit.place.session).is_ok_and(|s| s.header.archived)
                });
                page(hits)
            }
            Fault::SearchFindsParts => {
                let wanted = query.terms();
                let has = |text: &str| {
                    let text = text.to_lowercase();
                    wanted.iter().all(|part| text.contains(&part.text))
                };
                page(self.read_all(owner, query, has)?)
            }
            Fault::SearchTakesPhrasesForWords => {
                inner.search(owner, &words(query.terms())?, offset, limit)
            }
            Fault::SearchRanksByTime => {
                let mut hits = inner.search(owner, query, 0, usize::MAX)?;
                hits.sort_by_key(|hit| Reverse((hit.at, hit.place.session, hit.place.seq)));
                page(hits)
            }
            Fault::SearchShowsTheTrash => {
                page(self.read_all(owner, query, |text| query.matches(text))?)
            }
            _ => inner.search(&self.whose(owner), query, offset, limit),
        }
    }

    fn index_lag(&self) -> Result<Option<u64>> {
        self.inner().index_lag()
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
            let what = "the search index was rebuilt".into();
            let state = match repair {
                true => FindingState::Repaired,
                false => FindingState::Repairable,
            };
            findings.push(Finding { session: Some(id), seq: None, what, state });
        }
        Ok(findings)
    }
}

impl Opened {
    /// All entries of an owner that pass a test, regardless of the state of their session.
    fn read_all(
        &self,
        owner: &Owner,
        query: &Query,
        passes: impl Fn(&str) -> bool,
    ) -> Result<Vec<Hit>> {
        let (inner, mut hits) = (self.inner(), Vec::new());
        for (_, session) in inner.everything()?.into_iter().filter(|(of, _)| of == owner) {
            for entry in inner.read(owner, session, 0..u64::MAX)? {
                let Some(said) = SearchText::of(&entry.body) else { continue };
                if passes(&said.text) {
                    let place = Place { session, seq: entry.seq };
                    hits.push(query.hit(place, entry.at, &said));
                }
            }
        }
        Ok(hits)
    }
}

/// A query for these terms as separate words.
fn words<'a>(terms: impl IntoIterator<Item = &'a Wanted>) -> Result<Query> {
    let word = |term: &Wanted| format!("{}{}", term.text, if term.prefix { "*" } else { "" });
    Query::new(&terms.into_iter().map(word).collect::<Vec<_>>().join(" "))
}
