//! The line above the prompt: agent, model, how full the window is, cost, and folder.
//!
//! It is fitted to the window by dropping parts, the least important first.

use std::path::Path;

use rethread_agent::provider::Models;
use rethread_core::message::Usage;
use rethread_core::usage::UsageByModel;
use rethread_render::terminal::{fit_line, line_width};

use super::cost::{cached, money};
use crate::out::{one_line, short_count};

/// Bytes of a file of git's that are looked at.
const GIT_BYTES_MAX: u64 = 4_096;

/// What is shown.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Status {
    pub(super) agent: String,
    pub(super) model: String,
    /// How full the window is, in percent, and how many tokens it has.
    pub(super) full: u64,
    pub(super) window: u64,
    /// The cached share of the last request, if the provider reports it.
    pub(super) last: Option<Usage>,
    pub(super) dollars: Option<f64>,
    pub(super) folder: Option<String>,
    pub(super) branch: Option<String>,
}

impl Status {
    /// The line, in this many columns.
    pub(super) fn line(&self, columns: usize) -> String {
        // In the order they are shown; the larger the number, the sooner it is dropped.
        let cached = self.last.map(|usage| cached(&usage)).filter(|share| *share > 0);
        let all = [
            (2, Some(one_line(&self.agent))),
            (1, Some(one_line(&self.model))),
            (0, Some(format!("{} % of {}", self.full, round(self.window)))),
            (5, cached.map(|share| format!("{share} % cached"))),
            (3, self.dollars.map(money)),
            (6, self.folder.as_deref().map(one_line)),
            (4, self.branch.as_deref().map(one_line)),
        ];
        let mut parts: Vec<(u8, String)> =
            all.into_iter().filter_map(|(drop, part)| Some((drop, part?))).collect();
        loop {
            let texts: Vec<&str> = parts.iter().map(|(_, text)| text.as_str()).collect();
            let line = texts.join(" · ");
            if line_width(&line) <= columns || parts.len() == 1 {
                return fit_line(&line, columns);
            }
            let least = parts.iter().map(|(drop, _)| *drop).max();
            parts.retain(|(drop, _)| Some(*drop) != least);
        }
    }
}

/// A window size in a few characters: `200K`, `8.2K`, `1M`.
fn round(tokens: u64) -> String {
    short_count(tokens).replace(".0", "")
}

/// The cost of a session so far, if a price is known.
pub(super) fn dollars(usage: &UsageByModel, models: &Models) -> Option<f64> {
    let costs = usage
        .iter()
        .filter_map(|(model, spent)| models.price(model).map(|price| price.of(&spent.usage)));
    costs.reduce(|all, cost| all + cost)
}

/// A folder as people write it.
pub(crate) fn folder(path: &Path, home: Option<&Path>) -> String {
    match home.and_then(|home| path.strip_prefix(home).ok()) {
        Some(rest) if rest.as_os_str().is_empty() => "~".to_owned(),
        Some(rest) => format!("~/{}", rest.display()),
        None => path.display().to_string(),
    }
}

/// The git branch of a folder; `None` outside a repository, or on a detached head.
pub(super) fn branch(folder: &Path) -> Option<String> {
    let git = folder.ancestors().map(|folder| folder.join(".git")).find(|git| git.exists())?;
    let git = match git.is_dir() {
        true => git,
        // A worktree says where its own is.
        false => {
            let pointer = start(&git)?;
            git.parent()?.join(pointer.trim().strip_prefix("gitdir:")?.trim())
        }
    };
    let head = start(&git.join("HEAD"))?;
    head.trim().strip_prefix("ref: refs/heads/").map(str::to_owned)
}

/// The start of a small file.
fn start(path: &Path) -> Option<String> {
    use std::io::Read;
    let mut text = String::new();
    std::fs::File::open(path).ok()?.take(GIT_BYTES_MAX).read_to_string(&mut text).ok()?;
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status() -> Status {
        Status {
            agent: "build".into(),
            model: "claude-sonnet-4-5".into(),
            full: 12,
            window: 200_000,
            last: Some(Usage { input: 100, output: 9, cache_read: 900, cache_write: 0 }),
            dollars: Some(0.042),
            folder: Some("~/code/service".into()),
            branch: Some("rate-limiter".into()),
        }
    }

    #[test]
    fn the_line_fits_by_dropping_the_least_important_parts() {
        let status = status();
        let whole = "build · claude-sonnet-4-5 · 12 % of 200K · 90 % cached · ~$0.04 · \
                     ~/code/service · rate-limiter";
        for (columns, expected) in [
            (200, whole),
            (whole.chars().count(), whole),
            (80, "build · claude-sonnet-4-5 · 12 % of 200K · 90 % cached · ~$0.04 · rate-limiter"),
            (60, "build · claude-sonnet-4-5 · 12 % of 200K · ~$0.04"),
            (40, "build · claude-sonnet-4-5 · 12 % of 200K"),
            (39, "claude-sonnet-4-5 · 12 % of 200K"),
            (16, "12 % of 200K"),
            (5, "12 %…"),
        ] {
            assert_eq!(status.line(columns), expected, "{columns}");
        }
        assert_eq!(Status { window: 8_192, ..Status::default() }.line(60), " ·  · 0 % of 8.2K");
    }

    #[test]
    fn what_a_file_says_cannot_drive_the_terminal() {
        let status = Status { branch: Some("\u{1b}[2J\nx".into()), ..status() };
        assert!(!status.line(200).chars().any(char::is_control));
    }

    #[test]
    fn the_branch_is_found_in_a_folder_below_and_in_a_worktree() {
        let root = tempfile::tempdir().unwrap();
        let (below, tree) = (root.path().join("a/b"), root.path().join("tree"));
        assert_eq!(branch(&below), None);
        std::fs::create_dir_all(root.path().join(".git/worktrees/tree")).unwrap();
        std::fs::create_dir_all(&below).unwrap();
        std::fs::create_dir_all(&tree).unwrap();
        std::fs::write(root.path().join(".git/HEAD"), "ref: refs/heads/main\n").unwrap();
        assert_eq!(branch(&below).as_deref(), Some("main"));
        std::fs::write(tree.join(".git"), "gitdir: ../.git/worktrees/tree\n").unwrap();
        let head = root.path().join(".git/worktrees/tree/HEAD");
        std::fs::write(&head, "ref: refs/heads/fix/limit\n").unwrap();
        assert_eq!(branch(&tree).as_deref(), Some("fix/limit"));
        std::fs::write(&head, "0123456789abcdef\n").unwrap();
        assert_eq!(branch(&tree), None);
    }

    #[test]
    fn a_folder_below_home_is_written_with_a_tilde() {
        let home = Path::new("/srv/you");
        assert_eq!(folder(Path::new("/srv/you/a"), Some(home)), "~/a");
        assert_eq!(folder(home, Some(home)), "~");
        assert_eq!(folder(Path::new("/srv/younger"), Some(home)), "/srv/younger");
    }
}
