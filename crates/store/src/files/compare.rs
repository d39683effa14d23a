//! Compares a file that another program wrote with our log.
//!
//! Messages are equal if their role and content are. Ids and times are ignored: other programs
//! assign new ones whenever they write.

use std::collections::HashMap;

/// What is compared of a message.
pub(super) type Likeness = [u8; 16];

/// The first new message of a file that continues a log. `None` if it is another conversation: it
/// has other messages between those of the log, or none of them.
pub(super) fn first_new(ours: &[Likeness], theirs: &[Option<Likeness>]) -> Option<usize> {
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
    match said_again {
        true => Some(known(&matched)),
        false => (!other && !nothing).then_some(new),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn compare(ours: &str, theirs: &str) -> Option<usize> {
        let like = |c: char| [c as u8; 16];
        let ours: Vec<_> = ours.chars().map(like).collect();
        let theirs: Vec<_> = theirs.chars().map(|c| Some(like(c))).collect();
        first_new(&ours, &theirs)
    }

    #[test]
    fn what_follows_the_last_known_message_is_new() {
        assert_eq!(compare("abc", "abc"), Some(3));
        assert_eq!(compare("abc", "abcde"), Some(3));
        assert_eq!(compare("atbtc", "abcd"), Some(3), "tool messages were dropped");
        assert_eq!(compare("abcdefgh", "fghxy"), Some(3), "only the last were kept");
        assert_eq!(compare("aaabbb", "abc"), Some(2), "repeated ones were dropped");
        assert_eq!(compare("abcab", "abcaba"), Some(5), "said again, it is new");
        assert_eq!(compare("", "ab"), Some(0));
        assert_eq!(compare("abc", ""), Some(0));
        assert_eq!(compare("abcd", "abx"), Some(2), "it had not seen the last");
        assert_eq!(compare("abcd", "abxycz"), Some(2), "nor the last two, and said one");
    }

    #[test]
    fn what_was_changed_further_up_is_another_conversation() {
        assert_eq!(compare("abc", "axc"), None);
        assert_eq!(compare("abc", "xabc"), None);
        assert_eq!(compare("abc", "xyz"), None);
    }
}
