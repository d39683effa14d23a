//! Finds the text in a file that is most similar to one a model was looking for.
//!
//! A model that misremembers a line needs to see the real one, not only that it was wrong. Lines
//! are first compared without surrounding white space; if none matches, by the pairs of characters
//! they share.

use std::collections::HashSet;

use super::limits::LINE_CHARS_MAX;

/// Lines that are shown. More of the file can be read.
const LINES_SHOWN: usize = 12;

/// Lines of a text that are compared. Longer texts differ early.
const LINES_COMPARED: usize = 40;

/// The share of character pairs that a line must have in common with the wanted one.
const LIKE: f64 = 0.5;

/// The most similar text.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Nearest {
    /// How it differs, in words.
    pub(super) difference: &'static str,
    /// Its first line.
    pub(super) first: usize,
    /// Its lines, numbered.
    pub(super) lines: String,
}

/// Finds the text in a file that is most like `wanted`.
pub(super) fn nearest(text: &str, wanted: &str) -> Option<Nearest> {
    let lines: Vec<&str> = text.lines().collect();
    let trimmed: Vec<&str> = lines.iter().map(|line| line.trim()).collect();
    let all: Vec<&str> = wanted.lines().map(str::trim).collect();
    let skipped = all.iter().take_while(|line| line.is_empty()).count();
    let wanted = &all[skipped..];
    let shown = wanted.len().clamp(1, LINES_SHOWN);
    let compared = &wanted[..wanted.len().min(LINES_COMPARED)];
    // Blank lines are alike everywhere, and are skipped.
    let equal = |at: usize| {
        let pairs = compared.iter().zip(&trimmed[at..]);
        pairs.filter(|(a, b)| a == b && !a.is_empty()).count()
    };
    let best = (0..lines.len()).rev().max_by_key(|at| equal(*at)).filter(|at| equal(*at) > 0);
    let (at, difference) = match best {
        Some(at) => {
            let same = wanted.len() <= lines.len() - at
                && wanted.iter().zip(&trimmed[at..]).all(|(a, b)| a == b);
            (at, if same { "only white space differs" } else { "some of its lines do" })
        }
        None => (most_alike(&trimmed, compared.first()?)?, "a line like it does"),
    };
    let near = lines[at..].iter().take(shown).enumerate();
    let near: Vec<String> = near.map(|(n, line)| numbered(at + n + 1, line)).collect();
    Some(Nearest { difference, first: at + 1, lines: near.join("\n") })
}

/// A line with its number, as models see lines.
pub(super) fn numbered(number: usize, line: &str) -> String {
    let line: String = line.chars().take(LINE_CHARS_MAX).collect();
    format!("{number}\t{line}")
}

/// The line that shares most character pairs with `wanted`, if it shares enough.
fn most_alike(lines: &[&str], wanted: &str) -> Option<usize> {
    let pairs = pairs(wanted);
    let (mut best, mut found) = ((0, 0), None);
    for (at, line) in lines.iter().enumerate() {
        let theirs = self::pairs(line);
        // A part of a line may be wanted; if several share as much, the shortest is the nearest.
        let shared = pairs.intersection(&theirs).count();
        let like = (shared, usize::MAX - theirs.len());
        if shared as f64 >= LIKE * pairs.len().max(1) as f64 && like > best {
            (best, found) = (like, Some(at));
        }
    }
    found
}

fn pairs(line: &str) -> HashSet<(char, char)> {
    let chars = || line.chars().take(LINE_CHARS_MAX);
    chars().zip(chars().skip(1)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "fn one() {\n    let a = 1;\n    go(a);\n}\n\nfn two() {\n\tlet b = 2;\n}\n";

    #[test]
    fn text_that_differs_in_white_space_alone_is_found_and_said_to() {
        let near = nearest(TEXT, "fn two() {\n    let b = 2;\n}").expect("found");
        assert_eq!((near.first, near.difference), (6, "only white space differs"));
        assert_eq!(near.lines, "6\tfn two() {\n7\t\tlet b = 2;\n8\t}");
    }

    #[test]
    fn of_several_places_the_one_with_most_equal_lines_is_shown() {
        let near = nearest(TEXT, "fn two() {\n    let b = 3;\n}").expect("found");
        assert_eq!((near.first, near.difference), (6, "some of its lines do"));
    }

    #[test]
    fn a_single_line_is_found_by_its_characters_and_nothing_alike_is_not_made_up() {
        let near = nearest(TEXT, "let a = 10;").expect("found");
        assert_eq!((near.first, near.lines.as_str()), (2, "2\t    let a = 1;"));
        let near = nearest(TEXT, "lat b = 2").expect("a part of a line");
        assert_eq!(near.first, 7);
        let long =
            nearest("x\nlabel() { echo \"area: $1\"; echo more; }\n", "lable() {").expect("found");
        assert_eq!(long.first, 2, "a part of a long line");
        assert_eq!(nearest(TEXT, "struct Nothing<T>(Vec<T>);"), None);
        assert_eq!(nearest("", "x"), None);
        assert_eq!(nearest(TEXT, "\n \n"), None);
    }
}
