//! How long a provider keeps a context in its cache, and when it is asked to keep it for longer.

use std::time::Duration;

use crate::entry::Entry;
use crate::message::Role;

/// How long a provider keeps a context that nobody sends again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CacheLife {
    /// Unless it is asked for more.
    pub usual: Duration,
    /// When it is asked for more, which costs more for each token that is written.
    pub longer: Option<Duration>,
}

impl CacheLife {
    /// How long the calls after these entries have the provider keep what they write.
    ///
    /// It is asked for more where a pause has just ended that outlasted the cache and would not
    /// have outlasted the longer life: people who pause like that do it again, and everything is
    /// written at that moment anyway. It stays so until a pause outlasts the longer life, too.
    pub fn after(&self, entries: &[Entry]) -> Duration {
        if self.longer.is_none() {
            return self.usual;
        }
        // While a model replies, its cache is in use.
        let replies = |entry: &Entry| {
            entry.body.message().is_some_and(|message| message.role == Role::Assistant)
        };
        entries.windows(2).filter(|pair| !replies(&pair[1])).fold(self.usual, |life, pair| {
            let pause = Duration::try_from(pair[1].at.duration_since(pair[0].at));
            self.after_pause(life, pause.unwrap_or_default())
        })
    }

    /// The same after one pause, where it was `life` before.
    pub fn after_pause(&self, life: Duration, pause: Duration) -> Duration {
        match self.longer {
            Some(longer) if pause > life && pause <= longer => longer,
            _ if pause > life => self.usual,
            _ => life,
        }
    }
}

impl From<Duration> for CacheLife {
    fn from(usual: Duration) -> CacheLife {
        CacheLife { usual, longer: None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Fixed;
    use crate::entry::{Body, NewEntry, Tally};
    use crate::message::{Block, Message};
    use crate::world::World;

    /// Entries after pauses of so many minutes.
    fn entries(said: &[(u64, Role)]) -> Vec<Entry> {
        let (world, mut tally) = (Fixed::default(), Tally::default());
        let mut entries = Vec::new();
        for (minutes, role) in said {
            world.advance(Duration::from_secs(minutes * 60));
            let body = Body::Message(Message::new(*role, vec![Block::text("words")]));
            let entry = NewEntry::new(world.uuid().into(), world.now(), body).placed(&tally);
            tally = entry.tally;
            entries.push(entry);
        }
        entries
    }

    #[test]
    fn a_longer_life_is_asked_for_after_a_pause_that_it_would_have_outlasted() {
        let (asks, replies) = (Role::User, Role::Assistant);
        let minutes = |minutes: u64| Duration::from_secs(minutes * 60);
        let cache = CacheLife { usual: minutes(5), longer: Some(minutes(60)) };
        for (said, expected) in [
            (&[][..], 5),
            (&[(0, asks), (4, replies), (5, asks)], 5),
            // The model was slow; the user did not pause.
            (&[(0, asks), (20, replies), (1, asks)], 5),
            (&[(0, asks), (1, replies), (6, asks)], 60),
            (&[(0, asks), (1, replies), (6, asks), (1, replies), (50, asks)], 60),
            (&[(0, asks), (1, replies), (61, asks)], 5),
            (&[(0, asks), (1, replies), (6, asks), (1, replies), (61, asks)], 5),
        ] {
            assert_eq!(cache.after(&entries(said)), minutes(expected), "{said:?}");
            assert_eq!(CacheLife::from(minutes(5)).after(&entries(said)), minutes(5));
        }
    }
}
