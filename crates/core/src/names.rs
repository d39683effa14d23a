//! The names in a text: what a later reply may refer to by spelling it.
//!
//! A name is a path, an identifier, a file name, a hash or a longer number: something that cannot
//! be guessed and has to be seen to be used. Ordinary words are not names.

/// Digits a number needs to be a name. Shorter ones are everywhere, and mean something else each
/// time.
const NUMBER_DIGITS_MIN: usize = 4;
/// Bytes an identifier needs to be a name.
const IDENTIFIER_BYTES_MIN: usize = 4;
/// Bytes of the longest name. What is longer is data.
const NAME_BYTES_MAX: usize = 160;

/// The names in a text, in order; one that is there twice comes twice.
pub fn names(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !is_word(c)).flat_map(of_word)
}

fn is_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '_' | '/' | '.' | '-')
}

/// The names in a run of letters, digits and `_ / . -`.
fn of_word(word: &str) -> impl Iterator<Item = &str> {
    let word = word.trim_end_matches(['.', '-', '/']).trim_start_matches(['.', '-']);
    let long = word.len() > NAME_BYTES_MAX || word.len() < IDENTIFIER_BYTES_MIN;
    let is_path = !long && word.contains('/');
    let is_file = !long && !is_path && is_file_name(word);
    let whole =
        (is_path && word.bytes().any(|b| b.is_ascii_alphabetic()) || is_file).then_some(word);
    let parts = (!long && whole.is_none()).then(|| word.split(['.', '-', '/']));
    whole.into_iter().chain(parts.into_iter().flatten().filter(|part| is_identifier(part)))
}

/// `main.rs`: a short ending of letters after the only or last dot, and something before it.
fn is_file_name(word: &str) -> bool {
    word.rsplit_once('.').is_some_and(|(stem, ending)| {
        !stem.is_empty()
            && (1..=4).contains(&ending.len())
            && ending.bytes().all(|b| b.is_ascii_lowercase())
            && stem.bytes().any(|b| b.is_ascii_alphabetic())
    })
}

fn is_identifier(part: &str) -> bool {
    if part.len() < IDENTIFIER_BYTES_MIN {
        return false;
    }
    let (mut letters, mut digits, mut joined, mut humps) = (0, 0, false, false);
    let mut before = b'_';
    for byte in part.bytes() {
        match byte {
            b'0'..=b'9' => digits += 1,
            b'_' => joined = true,
            _ => {
                letters += 1;
                humps |= byte.is_ascii_uppercase() && before.is_ascii_lowercase();
            }
        }
        before = byte;
    }
    match letters {
        0 => digits >= NUMBER_DIGITS_MIN,
        _ => joined || humps || digits > 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_what_has_to_be_seen_to_be_used() {
        let text = "In src/store/queue.rs, `append_group` calls FoldMarks (see main.rs, line 88, \
                    commit 80c4489): 16384 rows, then done. e.g. and/or.";
        let found: Vec<&str> = names(text).collect();
        let expected = [
            "src/store/queue.rs",
            "append_group",
            "FoldMarks",
            "main.rs",
            "80c4489",
            "16384",
            "and/or",
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn words_and_data_have_no_names() {
        assert_eq!(names("An ordinary sentence, with 12 words. v1").count(), 0);
        assert_eq!(names(&"a1".repeat(200)).count(), 0);
    }
}
