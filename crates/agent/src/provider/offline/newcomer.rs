//! Typical first questions about a folder: what is this, and how is it built, run and tested?
//!
//! A project answers them in its README, its notes for contributors and its manifest, so only those
//! are searched. Elsewhere the same words mean something else.

use std::collections::BTreeMap;

use super::answer::Source;
use super::evidence::Evidence;
use super::rank::Passage;
use super::readme::{self, is_ornament};
use super::view::{Answer, Turn};
use super::words::{Keywords, Word, among};

/// Files in which a project introduces itself, at its top.
pub(super) const FILES: &str = "./{README*,Readme*,readme*,CONTRIBUTING*,Contributing*,INSTALL*,\
    HACKING*,DEVELOPMENT*,Cargo.toml,package.json,pyproject.toml,setup.cfg,setup.py,go.mod,Makefile,makefile,\
    justfile,Justfile,CMakeLists.txt,composer.json,Gemfile,pom.xml,build.gradle*,mix.exs}";

/// Files at the top of a project that say which tools it uses, and nothing about the project.
pub(super) const SIGNS: &str =
    "./{pytest.ini,tox.ini,conftest.py,test_*.py,tests/test_*.py,manage.py,requirements.txt}";

/// Matches the description in a manifest.
pub(super) const DESCRIPTION: &str =
    r#"^\s*description\s*[=:]|\bdescription["']?\s*[:=]\s*["']|<description>"#;

/// Lines of a README that are looked at, and those of them that are quoted.
pub(super) const README_LINES: u64 = 40;
const QUOTED_LINES: usize = 12;

/// Words for a project as a whole.
const PROJECT: &str = "project repo repository code codebase program tool app application library \
    package crate folder directory software";

/// What people do with a project first.
const TASKS: &str = "run test tests build compile install start launch set setup develop \
    contribute deploy execute suite unit integration server dev locally command commands dependencies";

/// The customary commands for each kind of file: to test, run, build and install. A `*` in a name
/// stands for anything.
const CUSTOMS: [(&str, [&str; 4]); 16] = [
    ("Cargo.toml", ["cargo test", "cargo run", "cargo build", "cargo install --path ."]),
    ("go.mod", ["go test ./...", "go run .", "go build ./...", "go install ./..."]),
    ("package.json", ["npm test", "npm start", "npm run build", "npm install"]),
    ("pyproject.toml", ["pytest", "", "pip install .", "pip install ."]),
    ("setup.py", ["pytest", "", "pip install .", "pip install ."]),
    ("setup.cfg", ["pytest", "", "pip install .", "pip install ."]),
    ("manage.py", ["python manage.py test", "python manage.py runserver", "", ""]),
    ("pytest.ini", ["pytest", "", "", ""]),
    ("tox.ini", ["tox", "", "", ""]),
    ("conftest.py", ["pytest", "", "", ""]),
    ("test_*.py", ["pytest", "", "", ""]),
    ("tests/test_*.py", ["pytest", "", "", ""]),
    ("requirements.txt", ["", "", "", "pip install -r requirements.txt"]),
    ("pom.xml", ["mvn test", "", "mvn package", "mvn install"]),
    ("build.gradle*", ["gradle test", "gradle run", "gradle build", ""]),
    ("mix.exs", ["mix test", "mix run", "mix compile", "mix deps.get"]),
];

/// Programs that commands for a project begin with.
const RUNNERS: &str = "bash bundle bun cabal cargo cmake composer conda ctest deno docker dotnet go \
    gradle just make meson mix mvn ninja node npm npx nox pip pipx pnpm poetry pytest python python3 \
    rake ruby sh stack swift tox uv yarn zig";

/// Whether this asks what the project is.
pub(super) fn asks_what(question: &str) -> bool {
    is_made_of(question, "what what's tell describe explain", &[PROJECT])
}

/// Whether this asks how to do something that people do with any project.
pub(super) fn asks_how(question: &str) -> bool {
    is_made_of(question, "how what what's", &[TASKS, PROJECT]) && !asks_what(question)
}

/// Whether a question begins with one of these words, and has no other words to search for.
fn is_made_of(question: &str, begins: &str, lists: &[&str]) -> bool {
    let words = Keywords::of(question).words;
    let is_known = |word: &Word| lists.iter().any(|list| among(list, &word.text));
    let first = question.split_whitespace().next().unwrap_or_default().to_lowercase();
    among(begins, &first)
        && !question.contains(" in ")
        && !words.is_empty()
        && words.iter().all(is_known)
}

/// How a project introduces itself: the beginning of its README, and the description in its manifest.
pub(super) fn introduction(evidence: &Evidence) -> Vec<Passage> {
    let mut passages = Vec::new();
    for (path, lines) in &evidence.files {
        let is_readme = path.to_lowercase().starts_with("readme");
        let quoted = match is_readme {
            true => beginning(path, lines),
            false => lines
                .iter()
                .find_map(|(at, line)| Some((*at, description(line)?)))
                .into_iter()
                .collect(),
        };
        let Some((first, _)) = quoted.first() else { continue };
        let source = Source::File { path: path.clone(), line: *first };
        let lines = quoted.into_iter().map(|(_, line)| line).collect();
        let score = if is_readme { 2.0 } else { 1.0 };
        passages.push(Passage { source, lines, score, words: 0 });
    }
    passages.sort_by(|a, b| b.score.total_cmp(&a.score));
    passages
}

/// The description in a line of a manifest. If the whole manifest is on one line, only that part.
fn description(line: &str) -> Option<String> {
    let found = regex::Regex::new(DESCRIPTION).ok()?.find(line)?;
    let before = line[..found.start()].trim_end_matches(['"', '\'']);
    if before.trim().is_empty() {
        return Some(line.trim_end().to_owned());
    }
    let (part, value) = (&line[before.len()..], &line[found.end()..]);
    let end = match found.as_str().chars().last()? {
        '>' => value.find('<'),
        quote => {
            let mut escaped = false;
            let end = value.find(|c: char| {
                let is_end = c == quote && !escaped;
                escaped = c == '\\' && !escaped;
                is_end
            });
            end.map(|end| end + 1)
        }
    };
    let end = end.map_or(part.len(), |end| part.len() - value.len() + end);
    Some(part[..end].to_owned())
}

/// The first part of a README.
fn beginning(path: &str, lines: &BTreeMap<u64, String>) -> Vec<(u64, String)> {
    let mut lines = readme::plain(path, lines);
    let blank = lines.iter().take_while(|(_, line)| line.trim().is_empty()).count();
    lines.drain(..blank);
    lines.truncate(first_part(&lines));
    lines
}

/// How many lines belong to the first part of a README: its title and the text before the next
/// heading, up to the end of a paragraph.
fn first_part(lines: &[(u64, String)]) -> usize {
    let is_heading = |line: &str| line.starts_with('#');
    let is_blank = |line: &str| line.trim().is_empty();
    let text = lines.iter().position(|(_, line)| !is_blank(line) && !is_heading(line));
    let text = text.unwrap_or(lines.len());
    let is_next = |line: &str| is_heading(line) || line.starts_with("```");
    let next = lines.iter().skip(text).position(|(_, line)| is_next(line));
    let most = next.map_or(lines.len(), |next| text + next).min(QUOTED_LINES.max(text));
    let ends = |at: &usize| lines.get(*at).is_none_or(|(_, line)| is_blank(line) || is_next(line));
    let end = (text + 1..=most).rev().find(ends).unwrap_or(most);
    lines[..end].iter().rposition(|(_, line)| !is_blank(line)).map_or(0, |last| last + 1)
}

/// The README among the files that were found: the one with the shortest name.
pub(super) fn readme(turn: &Turn<'_>) -> Option<String> {
    let readmes = files(turn).filter(|path| path.to_lowercase().starts_with("readme"));
    readmes.min_by_key(String::len)
}

/// Whether something was found where projects usually answer newcomers' questions.
pub(super) fn is_answered(turn: &Turn<'_>) -> bool {
    let there = turn.of("grep").filter(|answer| answer.asked("glob") == FILES);
    there.into_iter().any(|answer| !answer.found().is_empty())
}

/// The customary command in a project of this kind: the file that says so, and the command.
pub(super) fn custom(turn: &Turn<'_>) -> Option<(String, &'static str)> {
    let files: Vec<String> = files(turn).collect();
    let asked = turn.question.to_lowercase();
    let task = match asked {
        asked if asked.contains("test") => 0,
        asked if ["run", "start", "launch"].iter().any(|word| asked.contains(word)) => 1,
        asked if ["install", "set up", "dependencies"].iter().any(|word| asked.contains(word)) => 3,
        _ => 2,
    };
    let known = CUSTOMS.iter().map(|(name, commands)| (*name, commands[task]));
    known.filter(|(_, command)| !command.is_empty()).find_map(|(name, command)| {
        let file = files.iter().find(|file| is_named(file, name))?;
        Some((file.clone(), command))
    })
}

/// Whether a path is this name, in which a `*` stands for anything.
fn is_named(path: &str, name: &str) -> bool {
    match name.split_once('*') {
        Some((begins, ends)) => path.starts_with(begins) && path.ends_with(ends),
        None => path == name,
    }
}

/// How much more a line is worth to someone who asks how something is done: it shows a command, it
/// names the task itself, or it is in the README. A badge is worth nothing.
pub(super) fn worth(path: &str, line: &str, keywords: &Keywords) -> f64 {
    if is_ornament(line) || line.trim_start().starts_with('<') {
        return 0.0;
    }
    let is_runner = |text: &str| {
        let first = text.split(|c: char| !c.is_alphanumeric()).next().unwrap_or_default();
        text.starts_with("./") || among(RUNNERS, first)
    };
    let begins = line.trim_start().trim_start_matches("$ ");
    let shows_command = is_runner(begins) || line.split('`').skip(1).step_by(2).any(is_runner);
    let lower = line.to_lowercase();
    let mut words = lower.split(|c: char| !c.is_alphanumeric());
    let names_task = words.any(|word| keywords.words.iter().any(|known| known.text == word));
    let is_readme = path.to_lowercase().starts_with("readme");
    [(shows_command, 1.5), (names_task, 1.2), (is_readme, 1.1)]
        .into_iter()
        .filter(|(applies, _)| *applies)
        .map(|(_, worth)| worth)
        .product()
}

/// Whether a list of files was asked for only to see which tools a project uses.
pub(super) fn is_about_tools(answer: &Answer<'_>) -> bool {
    answer.asked("pattern") == SIGNS
}

fn files(turn: &Turn<'_>) -> impl Iterator<Item = String> {
    turn.of("glob").flat_map(Answer::paths)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_questions_are_distinguished_from_others() {
        for about in [
            "what does this project do?",
            "What is this repository about?",
            "what is this project?",
            "describe the code",
            "Tell me about this project",
        ] {
            assert!(asks_what(about) && !asks_how(about), "{about}");
        }
        for how in [
            "how do I run the tests?",
            "How can I build it?",
            "how to install this",
            "What is the command to run the test suite?",
        ] {
            assert!(asks_how(how) && !asks_what(how), "{how}");
        }
        for other in [
            "how do I run the retry worker?",
            "what does the limiter do?",
            "where is the order of the context steps decided?",
            "why do the tests fail on Mondays?",
            "what did we decide?",
            "what is in this folder?",
            "list files",
        ] {
            assert!(!asks_how(other) && !asks_what(other), "{other}");
        }
    }
}
