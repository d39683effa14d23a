//! Code fences: what is between them is quoted.

/// Which of the lines are in a code fence, its first and last line included. A fence that is never
/// closed is not one: a reply that was cut off must not hide everything after it.
pub(crate) fn fenced(lines: &[&str]) -> Vec<bool> {
    let mut fenced = vec![false; lines.len()];
    // The longest line after each one that could close a fence of backticks, and of tildes. It
    // shows at once that a fence is never closed, so every line is examined only twice.
    let mut closing = vec![[0, 0]; lines.len() + 1];
    for (at, line) in lines.iter().enumerate().rev() {
        closing[at] = closing[at + 1];
        if let Some(Fence { mark, length, bare: true }) = Fence::of(line) {
            let longest = &mut closing[at][usize::from(mark == '~')];
            *longest = length.max(*longest);
        }
    }
    let mut at = 0;
    while at < lines.len() {
        let open = Fence::of(lines[at]);
        let closed =
            open.filter(|open| closing[at + 1][usize::from(open.mark == '~')] >= open.length);
        let Some(open) = closed else {
            at += 1;
            continue;
        };
        let closes = |line: &str| {
            Fence::of(line)
                .is_some_and(|end| end.bare && end.mark == open.mark && end.length >= open.length)
        };
        let Some(length) = lines[at + 1..].iter().position(|line| closes(line)) else {
            at += 1;
            continue;
        };
        let end = at + 1 + length;
        fenced[at..=end].fill(true);
        at = end + 1;
    }
    fenced
}

/// A line that opens or closes a fence.
struct Fence {
    mark: char,
    length: usize,
    /// Nothing but the marks is in the line, so it may close a fence.
    bare: bool,
}

impl Fence {
    fn of(line: &str) -> Option<Fence> {
        // What someone says begins on the line of their name.
        let labelled = line.strip_prefix("**").and_then(|name| name.split_once(":** "));
        let line = labelled.map_or(line, |(_, said)| said);
        let text = line.trim_start_matches(' ');
        if line.len() - text.len() > 3 {
            return None;
        }
        let mark = text.chars().next().filter(|c| matches!(c, '`' | '~'))?;
        let rest = text.trim_start_matches(mark);
        let length = text.len() - rest.len();
        // `` ```a``` `` is code within a line.
        if length < 3 || mark == '`' && rest.contains('`') {
            return None;
        }
        Some(Fence { mark, length, bare: labelled.is_none() && rest.trim().is_empty() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str) -> String {
        let lines: Vec<&str> = text.lines().collect();
        fenced(&lines).iter().map(|inside| if *inside { 'x' } else { '.' }).collect()
    }

    #[test]
    fn a_fence_ends_with_as_many_of_the_same_marks() {
        assert_eq!(shown("a\n```rust\n---\n```\nb"), ".xxx.");
        assert_eq!(shown("````\n```\n---\n````\nb"), "xxxx.");
        assert_eq!(shown("~~~\n```\n~~~\n"), "xxx");
        assert_eq!(shown("```\na\n  ```  \nb"), "xxx.");
        assert_eq!(shown("**You:** ```\n---\n```\n**You:** b"), "xxx.");
    }

    #[test]
    fn a_fence_that_is_never_closed_hides_nothing() {
        assert_eq!(shown("```\na\nb"), "...");
        assert_eq!(shown("```x\na\n~~~\nb\n~~~"), "..xxx");
        assert_eq!(shown("    ```\na\n    ```"), "...");
        assert_eq!(shown("a ```\n```b```\nc"), "...");
    }
}
