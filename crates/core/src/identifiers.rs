//! The identifiers in a text, or names for short: what a later reply may refer to by spelling it.
//!
//! It is a path, an identifier of a program, a file name, a hash or a longer number: something that
//! cannot be guessed and has to be seen to be used. Ordinary words are not names. The names of
//! sessions are in `name.rs`.

/// Digits a number needs to count as a name. Shorter ones are everywhere, with different meanings.
const NUMBER_DIGITS_MIN: usize = 4;
/// Bytes an identifier needs to count as a name.
const IDENTIFIER_BYTES_MIN: usize = 4;
/// Bytes of the longest name. Anything longer is data.
const NAME_BYTES_MAX: usize = 160;

/// The identifiers in a text, in order, with repetitions.
pub fn identifiers(text: &str) -> impl Iterator<Item = &str> {
    words(text).flat_map(of_word)
}

/// The role of a byte in a word: a capital, a digit, `_`, `/` or `.`; or a lowercase letter or `-`,
/// which alone do not make a name. Zero is not part of a word.
const TELLING: u8 = 2;
const ORDINARY: u8 = 1;
const KINDS: [u8; 256] = {
    let mut kinds = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        kinds[byte] = match byte as u8 {
            b'a'..=b'z' | b'-' => ORDINARY,
            b'A'..=b'Z' | b'0'..=b'9' | b'_' | b'/' | b'.' => TELLING,
            _ => 0,
        };
        byte += 1;
    }
    kinds
};

/// The runs of letters, digits and `_ / . -` that may contain a name. Most words do not, and are
/// skipped at once, because every result is searched when it is appended.
fn words(text: &str) -> impl Iterator<Item = &str> {
    let bytes = text.as_bytes();
    let mut at = 0;
    std::iter::from_fn(move || {
        while at < bytes.len() {
            let start = at;
            let mut kinds = 0;
            while let Some(kind) = bytes.get(at).map(|byte| KINDS[usize::from(*byte)])
                && kind != 0
            {
                kinds |= kind;
                at += 1;
            }
            if kinds & TELLING != 0 && at - start >= IDENTIFIER_BYTES_MIN {
                return Some(&text[start..at]);
            }
            at += usize::from(kinds == 0);
        }
        None
    })
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

/// `main.rs`: a short extension of letters after the only or last dot, and something before it.
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
        let found: Vec<&str> = identifiers(text).collect();
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
    fn names_end_where_other_characters_begin() {
        let found: Vec<&str> =
            identifiers("größe_max→src/ä.rs 日本_x1日本 a_b_c\u{1b}[0mFooBar").collect();
        assert_eq!(found, ["e_max", "a_b_c", "0mFooBar"]);
    }

    #[test]
    fn words_and_data_have_no_names() {
        assert_eq!(identifiers("An ordinary sentence, with 12 words. v1").count(), 0);
        assert_eq!(identifiers(&"a1".repeat(200)).count(), 0);
    }
}
