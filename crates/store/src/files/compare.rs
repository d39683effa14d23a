//! Compares a file that another program wrote with our log.
//!
//! Messages are equal if their role and content are. Ids and times are ignored: other programs
//! assign new ones whenever they write.

use std::collections::HashMap;

/// What is compared of a message.
pub(super) type Likeness = [u8; 16];

/// How a file compares with a log.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Compared {
    /// It continues the log, with new messages from this one on.
    New(usize),
    /// It has other messages between those of the log, or none of them.
    Other,
}

/// How the messages of a file compare with those of a log.
pub(super) fn compared(ours: &[Likeness], theirs: &[Option<Likeness>]) -> Compared {
    let mut places: HashMap<Likeness, Vec<usize>> = HashMap::new();
    for (place, likeness) in ours.iter().enumerate() {
        places.entry(*likeness).or_default().push(place);
    }
    // Each message is searched after the previous one.
    let mut next = 0;
    let mut matched = Vec::new();
    let known = |matched: &[bool]| matched.iter().take_while(|matched| **matched).count();
    for likeness in theirs {
        let places = likeness.as_ref().and_then(|likeness| places.get(likeness));
        let place = places
            .and_then(|places| places.get(places.partition_point(|place| *place < next)).copied());
        if let Some(place) = place {
            next = place + 1;
        }
        matched.push(place.is_some());
    }
    let new = matched.iter().rposition(|matched| *matched).map_or(0, |last| last + 1);
    let other = matched[..new].iter().any(|matched| !matched);
    let nothing = new == 0 && !ours.is_empty() && !theirs.is_empty();
    // A program that changes something in the middle keeps what followed. If our last message is
    // missing, the program had not seen it, and a message that looks like ours is a new one.
    let said_again = other && known(&matched) > 0 && next < ours.len();
    match (said_again, other || nothing) {
        (true, _) => Compared::New(known(&matched)),
        (false, true) => Compared::Other,
        (false, false) => Compared::New(new),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn compare(ours: &str, theirs: &str) -> Compared {
        let like = |c: char| [c as u8; 16];
        let ours: Vec<_> = ours.chars().map(like).collect();
        let theirs: Vec<_> = theirs.chars().map(|c| Some(like(c))).collect();
        compared(&ours, &theirs)
    }

    #[test]
    fn what_follows_the_last_known_message_is_new() {
        assert_eq!(compare("abc", "abc"), Compared::New(3));
        assert_eq!(compare("abc", "abcde"), Compared::New(3));
        assert_eq!(compare("atbtc", "abcd"), Compared::New(3), "tool messages were dropped");
        assert_eq!(compare("abcdefgh", "fghxy"), Compared::New(3), "only the last were kept");
        assert_eq!(compare("aaabbb", "abc"), Compared::New(2), "repeated ones were dropped");
        assert_eq!(compare("abcab", "abcaba"), Compared::New(5), "said again, it is new");
        assert_eq!(compare("", "ab"), Compared::New(0));
        assert_eq!(compare("abc", ""), Compared::New(0));
        assert_eq!(compare("abcd", "abx"), Compared::New(2), "it had not seen the last");
        assert_eq!(compare("abcd", "abxycz"), Compared::New(2), "nor the last two, and said one");
    }

    #[test]
    fn what_was_changed_further_up_is_another_conversation() {
        assert_eq!(compare("abc", "axc"), Compared::Other);
        assert_eq!(compare("abc", "xabc"), Compared::Other);
        assert_eq!(compare("abc", "xyz"), Compared::Other);
    }
}
