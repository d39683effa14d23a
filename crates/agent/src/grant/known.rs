//! Commands whose first words say what they do, so that a user can allow them with other arguments.
//!
//! This is a list of what is known, not of what is dangerous: a program that is missing here is
//! allowed word for word, which costs a question. A program is listed if no argument makes it run
//! another program or overwrite a file; where some do, the options are listed that do not. Paths
//! stay in the workspace, as those of the other tools do. Build tools run the code of the project,
//! which is what they are for: the sandbox confines it.

/// How a known command may continue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rest {
    /// With any options.
    AnyOptions,
    /// With these options. `-n:` has a value, `-1` means any number.
    Options(&'static [&'static str]),
}

/// The known commands: their first words, and how they may continue.
const KNOWN: &[(&[&str], Rest)] = &[
    (&["basename"], Rest::AnyOptions),
    (&["cat"], Rest::AnyOptions),
    (&["cmp"], Rest::AnyOptions),
    (&["comm"], Rest::AnyOptions),
    (&["cut"], Rest::AnyOptions),
    (&["df"], Rest::AnyOptions),
    (&["diff"], Rest::AnyOptions),
    (&["dirname"], Rest::AnyOptions),
    (&["du"], Rest::AnyOptions),
    (&["echo"], Rest::AnyOptions),
    (&["egrep"], Rest::AnyOptions),
    (&["false"], Rest::AnyOptions),
    (&["fgrep"], Rest::AnyOptions),
    (&["grep"], Rest::AnyOptions),
    (&["head"], Rest::AnyOptions),
    (&["jq"], Rest::AnyOptions),
    (&["ls"], Rest::AnyOptions),
    (&["md5sum"], Rest::AnyOptions),
    (&["mkdir"], Rest::AnyOptions),
    (&["nl"], Rest::AnyOptions),
    (&["od"], Rest::AnyOptions),
    (&["pwd"], Rest::AnyOptions),
    (&["readlink"], Rest::AnyOptions),
    (&["realpath"], Rest::AnyOptions),
    (&["seq"], Rest::AnyOptions),
    (&["sha256sum"], Rest::AnyOptions),
    (&["stat"], Rest::AnyOptions),
    (&["tail"], Rest::AnyOptions),
    (&["touch"], Rest::AnyOptions),
    (&["true"], Rest::AnyOptions),
    (&["uname"], Rest::AnyOptions),
    (&["wc"], Rest::AnyOptions),
    (&["whoami"], Rest::AnyOptions),
    (&["rg"], Rest::Options(RIPGREP)),
    (&["git", "status"], Rest::Options(GIT_STATUS)),
    (&["git", "diff"], Rest::Options(GIT)),
    (&["git", "log"], Rest::Options(GIT)),
    (&["git", "show"], Rest::Options(GIT)),
    (&["cargo", "build"], Rest::Options(CARGO)),
    (&["cargo", "check"], Rest::Options(CARGO)),
    (&["cargo", "clippy"], Rest::Options(CARGO)),
    (&["cargo", "fmt"], Rest::Options(CARGO)),
    (&["cargo", "test"], Rest::Options(CARGO)),
    (&["go", "test"], Rest::Options(GO)),
    (&["go", "vet"], Rest::Options(GO)),
    (&["pytest"], Rest::Options(PYTEST)),
];

/// Not `--pre` and `--hostname-bin`, which name a program, nor `-z`, which starts some.
const RIPGREP: &[&str] = &[
    "-A:",
    "-B:",
    "-C:",
    "-F",
    "-H",
    "-I",
    "-L",
    "-N",
    "-P",
    "-S",
    "-T:",
    "-U",
    "-c",
    "-e:",
    "-g:",
    "-i",
    "-l",
    "-m:",
    "-n",
    "-o",
    "-q",
    "-s",
    "-t:",
    "-u",
    "-v",
    "-w",
    "-x",
    "--context",
    "--count",
    "--files",
    "--files-with-matches",
    "--fixed-strings",
    "--glob",
    "--hidden",
    "--ignore-case",
    "--json",
    "--line-number",
    "--max-count",
    "--multiline",
    "--no-heading",
    "--no-ignore",
    "--only-matching",
    "--sort",
    "--stats",
    "--type",
    "--word-regexp",
];

const GIT_STATUS: &[&str] = &[
    "-b",
    "-s",
    "-u",
    "-v",
    "-z",
    "--branch",
    "--ignored",
    "--long",
    "--porcelain",
    "--short",
    "--show-stash",
    "--untracked-files",
];

/// Not `--output`, which writes a file, nor `--ext-diff` and `--textconv`, which start programs.
const GIT: &[&str] = &[
    "-1",
    "-C",
    "-G:",
    "-L:",
    "-M",
    "-S:",
    "-U:",
    "-b",
    "-i",
    "-n:",
    "-p",
    "-s",
    "-u",
    "-w",
    "-z",
    "--abbrev-commit",
    "--all",
    "--author",
    "--branches",
    "--cached",
    "--check",
    "--color",
    "--date",
    "--decorate",
    "--diff-filter",
    "--exit-code",
    "--find-renames",
    "--first-parent",
    "--follow",
    "--format",
    "--graph",
    "--grep",
    "--ignore-all-space",
    "--left-right",
    "--max-count",
    "--merge-base",
    "--merges",
    "--name-only",
    "--name-status",
    "--no-color",
    "--no-ext-diff",
    "--no-index",
    "--no-merges",
    "--no-patch",
    "--no-renames",
    "--numstat",
    "--oneline",
    "--patch",
    "--pretty",
    "--quiet",
    "--raw",
    "--reverse",
    "--shortstat",
    "--since",
    "--skip",
    "--staged",
    "--stat",
    "--summary",
    "--tags",
    "--unified",
    "--until",
    "--word-diff",
];

/// Also options of the test program, after `--`. Not `--config`, which can name programs, nor
/// `--manifest-path`, `--fix` and `--logfile`.
const CARGO: &[&str] = &[
    "-A:",
    "-D:",
    "-F:",
    "-W:",
    "-j:",
    "-p:",
    "-q",
    "-r",
    "-v",
    "--all",
    "--all-features",
    "--all-targets",
    "--benches",
    "--bin",
    "--bins",
    "--check",
    "--color",
    "--doc",
    "--exact",
    "--example",
    "--examples",
    "--exclude",
    "--features",
    "--frozen",
    "--ignored",
    "--include-ignored",
    "--jobs",
    "--keep-going",
    "--lib",
    "--list",
    "--locked",
    "--message-format",
    "--no-default-features",
    "--no-deps",
    "--no-fail-fast",
    "--no-run",
    "--nocapture",
    "--no-capture",
    "--offline",
    "--package",
    "--profile",
    "--quiet",
    "--release",
    "--show-output",
    "--skip",
    "--test",
    "--test-threads",
    "--tests",
    "--verbose",
    "--workspace",
];

/// Not `-exec`, `-toolexec` and `-vettool`, which name a program, nor `-o` and the profiles.
const GO: &[&str] = &[
    "-bench",
    "-benchmem",
    "-count",
    "-cover",
    "-failfast",
    "-json",
    "-list",
    "-parallel",
    "-race",
    "-run",
    "-short",
    "-skip",
    "-tags",
    "-timeout",
    "-v",
];

/// Not `-p` and `-c`, which load code, nor `-o` and `--basetemp`.
const PYTEST: &[&str] = &[
    "-k:",
    "-l",
    "-m:",
    "-q",
    "-r:",
    "-s",
    "-v",
    "-x",
    "--co",
    "--collect-only",
    "--durations",
    "--exitfirst",
    "--failed-first",
    "--ff",
    "--last-failed",
    "--lf",
    "--maxfail",
    "--no-header",
    "--quiet",
    "--tb",
    "--verbose",
];

/// How many words make these a known command, and how it may continue.
pub(super) fn known(words: &[String]) -> Option<(usize, Rest)> {
    let begins = |first: &[&str]| words.get(..first.len()).is_some_and(|words| words == first);
    KNOWN.iter().find(|(first, _)| begins(first)).map(|(first, rest)| (first.len(), *rest))
}

impl Rest {
    /// Whether a known command may continue with these words. `expands` says that the shell
    /// replaces patterns in them by the names of files.
    pub(super) fn allows(self, words: &[String], expands: bool) -> bool {
        let here = words.iter().all(|word| stays_here(word, expands));
        here && match self {
            Rest::AnyOptions => true,
            // The name of a file that a pattern matches may look like an option.
            Rest::Options(options) => !expands && words.iter().all(|word| is_listed(word, options)),
        }
    }
}

/// Whether a word is not an option, or one of these. Abbreviated options are none of these.
fn is_listed(word: &str, options: &[&str]) -> bool {
    if !word.starts_with('-') || word == "-" || word == "--" {
        return true;
    }
    let name = word.split('=').next().unwrap_or(word);
    if options.contains(&name) {
        return true;
    }
    // Letters can be put together, and the last one may be followed by its value: `-vp3`.
    let Some(letters) = word.strip_prefix('-').filter(|rest| !rest.starts_with('-')) else {
        return false;
    };
    for letter in letters.chars() {
        let listed = |form: &str| options.contains(&form);
        if listed(&format!("-{letter}:")) {
            return true;
        }
        let is_listed = listed(&format!("-{letter}")) || letter.is_ascii_digit() && listed("-1");
        if !is_listed {
            return false;
        }
    }
    true
}

/// Whether a word cannot name a file outside of the folder the command runs in.
fn stays_here(word: &str, expands: bool) -> bool {
    let value = word.rsplit('=').next().unwrap_or(word);
    let is_short = word.starts_with('-') && !word.starts_with("--");
    let leads_out = |part: &str| {
        // In some shells, `.*` is also the folder above.
        part == ".." || expands && part.starts_with('.') && part.contains(['*', '?', '['])
    };
    // Behind the letter of an option, a path may begin anywhere.
    let leads_elsewhere = value.starts_with(['/', '~']) || value.split('/').any(leads_out);
    !(leads_elsewhere || is_short && word.contains('/'))
}
