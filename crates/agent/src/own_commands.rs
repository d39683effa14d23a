//! Custom commands: questions that are asked often, each in a Markdown file.
//!
//! `commands/review.md` becomes `/review`. Its text is sent as if it had been typed, with the
//! arguments filled in: `$ARGUMENTS` is all of them, `$1` to `$9` are single words, and needed.
//! Front matter may contain a `description` and an `argument-hint`, with optional words in brackets.
//!
//! Files come from the user's own folder and from the project's. A project's files come with its
//! code, so they follow the same rule as its agents: they are used once the user has trusted their
//! content.

use std::path::Path;

use crate::agents::AgentSource;
use crate::agents::front_matter;
use crate::agents::load::{AgentFault, AgentProblem, FILES_MAX, files_in, is_name, text_of};
use crate::host::FolderFile;

/// A custom command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnCommand {
    /// Its name, without the slash.
    pub name: String,
    /// Its purpose, in one line.
    pub description: String,
    /// Its arguments, as its file describes them.
    pub takes: String,
    /// Its text.
    pub prompt: String,
    /// The absolute path of its file.
    pub path: String,
    /// Where it comes from.
    pub origin: AgentSource,
}

/// A command was used without an argument that its text needs.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("/{command} lacks an argument; usage: {usage}")]
pub struct MissingArgument {
    /// Its name.
    pub command: String,
    /// The command with its arguments, as its file describes them.
    pub usage: String,
}

impl OwnCommand {
    /// The text with these arguments. Inserted text is not expanded again.
    ///
    /// # Errors
    ///
    /// [`MissingArgument`] if the text uses a word that was not given. `$ARGUMENTS` may be empty, and
    /// so may a word that is in brackets in the argument hint; an `@` before it is then left out.
    pub fn with(&self, arguments: &str) -> Result<String, MissingArgument> {
        let arguments = arguments.trim();
        let words = words(arguments);
        let optional: Vec<bool> =
            hints(&self.takes).iter().map(|hint| hint.starts_with('[')).collect();
        let mut needs = 0;
        let mut text = String::new();
        let mut is_used = false;
        let mut rest = self.prompt.as_str();
        while let Some(at) = rest.find('$') {
            text.push_str(&rest[..at]);
            let after = &rest[at + 1..];
            let (value, length) = match (after.strip_prefix("ARGUMENTS"), after.as_bytes().first())
            {
                (Some(_), _) => (Some(arguments), "ARGUMENTS".len()),
                (_, Some(digit @ b'1'..=b'9'))
                    if !after[1..].starts_with(|c: char| c.is_ascii_digit()) =>
                {
                    let at = usize::from(digit - b'1');
                    let is_optional = optional.get(at).copied().unwrap_or(false);
                    needs = if is_optional { needs } else { needs.max(at + 1) };
                    let word = words.get(at).map_or("", String::as_str);
                    if word.is_empty() && text.ends_with('@') {
                        text.pop();
                    }
                    (Some(word), 1)
                }
                _ => (None, 0),
            };
            is_used |= value.is_some();
            text.push_str(value.unwrap_or("$"));
            rest = &after[length..];
        }
        if words.len() < needs {
            let (command, usage) = (self.name.clone(), self.usage(needs));
            return Err(MissingArgument { command, usage });
        }
        text.push_str(rest);
        if !is_used && !arguments.is_empty() {
            text.push_str("\n\n");
            text.push_str(arguments);
        }
        Ok(text)
    }

    fn usage(&self, needs: usize) -> String {
        let takes = match self.takes.is_empty() {
            true => (1..=needs).map(|n| format!("ARGUMENT{n}")).collect::<Vec<_>>().join(" "),
            false => self.takes.clone(),
        };
        format!("/{} {takes}", self.name)
    }
}

/// The arguments of a hint; brackets keep words together.
fn hints(takes: &str) -> Vec<&str> {
    let mut depth = 0_i32;
    let is_between = |c: char| {
        depth += i32::from(c == '[') - i32::from(c == ']');
        c.is_whitespace() && depth <= 0
    };
    takes.split(is_between).filter(|hint| !hint.is_empty()).collect()
}

/// The words of a text; quotes keep words together.
fn words(text: &str) -> Vec<String> {
    let mut words = Vec::new();
    let (mut word, mut quote, mut is_begun) = (String::new(), None, false);
    for c in text.chars() {
        match (c, quote) {
            (c, Some(open)) if c == open => quote = None,
            (c, Some(_)) => word.push(c),
            ('"' | '\'', None) if word.is_empty() => (quote, is_begun) = (Some(c), true),
            (c, None) if c.is_whitespace() => {
                if is_begun || !word.is_empty() {
                    words.push(std::mem::take(&mut word));
                }
                is_begun = false;
            }
            (c, None) => word.push(c),
        }
    }
    if is_begun || !word.is_empty() {
        words.push(word);
    }
    words
}

/// The commands in the files of these two folders, if they exist; a project's replaces the user's
/// of the same name. A project's commands are loaded only if their current content is `trusted`.
///
/// A file with an error is skipped and becomes an [`AgentProblem`]; the rest are loaded.
pub fn load(
    user: Option<&Path>,
    project: Option<&Path>,
    trusted: &dyn Fn(&FolderFile) -> bool,
) -> (Vec<OwnCommand>, Vec<AgentProblem>) {
    let (mut commands, mut problems) = (Vec::<OwnCommand>::new(), Vec::new());
    for (folder, origin) in [(user, AgentSource::User), (project, AgentSource::Project)] {
        let Some(folder) = folder else { continue };
        let files = match files_in(folder, origin) {
            Ok(files) => files,
            Err(what) => {
                problems.push(AgentProblem { path: folder.into(), line: None, what });
                continue;
            }
        };
        if files.len() > FILES_MAX {
            let what = AgentFault::TooMany { count: files.len() };
            problems.push(AgentProblem { path: folder.into(), line: None, what });
        }
        for path in files.into_iter().take(FILES_MAX) {
            match command(folder, &path, origin, trusted) {
                Ok(command) => {
                    commands.retain(|known| known.name != command.name);
                    commands.push(command);
                }
                Err((line, what)) => problems.push(AgentProblem { path, line, what }),
            }
        }
    }
    commands.sort_by(|a, b| a.name.cmp(&b.name));
    (commands, problems)
}

fn command(
    folder: &Path,
    path: &Path,
    origin: AgentSource,
    trusted: &dyn Fn(&FolderFile) -> bool,
) -> Result<OwnCommand, (Option<usize>, AgentFault)> {
    let text = text_of(folder, path, origin).map_err(|fault| (None, fault))?;
    let absolute = std::path::absolute(path).map_err(|error| (None, error.into()))?;
    let file = FolderFile::new(&absolute, text.as_bytes());
    let name = path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
    if !is_name(&name) {
        return Err((None, AgentFault::Name { name }));
    }
    let (description, takes, prompt) = parts(&text).map_err(|(line, fault)| (Some(line), fault))?;
    if prompt.is_empty() {
        return Err((Some(text.lines().count().max(1)), AgentFault::EmptyBody));
    }
    if origin == AgentSource::Project && !trusted(&file) {
        return Err((None, AgentFault::Untrusted { file, replaces: None }));
    }
    let path = absolute.to_string_lossy().into_owned();
    Ok(OwnCommand { name, description, takes, prompt, path, origin })
}

/// The description, the argument hint and the text of a file. Front matter is optional.
fn parts(text: &str) -> Result<(String, String, String), front_matter::Wrong> {
    let bare = text.strip_prefix('\u{feff}').unwrap_or(text);
    if bare.lines().next().map(str::trim_end) != Some("---") {
        let prompt = bare.trim().to_owned();
        let first = prompt.lines().next().unwrap_or_default().trim_start_matches('#');
        return Ok((first.trim().to_owned(), String::new(), prompt));
    }
    let front = front_matter::parse(text)?;
    let field = |key: &str| Ok(front.text(key)?.map(|(_, text)| text).unwrap_or_default());
    Ok((field("description")?, field("argument-hint")?, front.body.to_owned()))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn asks(prompt: &str, arguments: &str) -> String {
        let command = OwnCommand {
            name: "x".into(),
            description: String::new(),
            takes: String::new(),
            prompt: prompt.into(),
            path: String::new(),
            origin: AgentSource::User,
        };
        command.with(arguments).expect("nothing is missing")
    }

    #[test]
    fn a_word_that_is_missing_is_asked_for_unless_the_hint_has_it_in_brackets() {
        let asks = |prompt: &str, takes: &str, arguments: &str| {
            let command = OwnCommand {
                name: "x".into(),
                description: String::new(),
                takes: takes.into(),
                prompt: prompt.into(),
                path: String::new(),
                origin: AgentSource::User,
            };
            command.with(arguments).map_err(|missing| missing.to_string())
        };
        let usage = |text: &str| Err(text.to_owned());
        assert_eq!(asks("See @$1.", "FILE", " "), usage("/x lacks an argument; usage: /x FILE"));
        assert_eq!(
            asks("Greet $1 in $2.", "", "Ann"),
            usage("/x lacks an argument; usage: /x ARGUMENT1 ARGUMENT2")
        );
        assert_eq!(
            asks("Greet $1 in $2.", "", "Ann ''"),
            Ok("Greet Ann in .".into()),
            "it is given"
        );
        let takes = "FILE [the words] [@MORE]";
        assert_eq!(asks("See @$1, $2 @$3.", takes, "a"), Ok("See @a,  .".into()));
        assert_eq!(asks("See @$1, $2 @$3.", takes, "a b c"), Ok("See @a, b @c.".into()));
        assert!(asks("See @$1, $2 @$3.", takes, "").is_err());
        assert_eq!(asks("All of $ARGUMENTS!", "", ""), Ok("All of !".into()));
    }

    #[test]
    fn what_follows_a_command_is_put_in_once() {
        assert_eq!(asks("Fix $1 in $2.", "bug 'a file.rs' more"), "Fix bug in a file.rs.");
        assert_eq!(asks("All: $ARGUMENTS!", " a  b "), "All: a  b!");
        assert_eq!(
            asks("Look at $1 and $ARGUMENTS", "$2 $ARGUMENTS"),
            "Look at $2 and $2 $ARGUMENTS"
        );
        assert_eq!(asks("It costs $10, $x and $", "y"), "It costs $10, $x and $\n\ny");
        assert_eq!(asks("Review it.", "carefully"), "Review it.\n\ncarefully");
        assert_eq!(asks("Review it.", ""), "Review it.");
    }

    #[test]
    fn a_file_is_a_command_and_a_project_s_needs_consent() {
        let folder = tempfile::tempdir().expect("a folder");
        let (user, project) = (folder.path().join("user"), folder.path().join("project"));
        for (path, text) in [
            (
                "user/review.md",
                "---\ndescription: Reviews it\nargument-hint: FILE\n---\nReview $1.\n",
            ),
            ("user/plain.md", "# Say hello\nHello!"),
            ("user/bad name.md", "x"),
            ("user/empty.md", "---\ndescription: y\n---\n"),
            ("project/review.md", "Review as we do here."),
        ] {
            fs::create_dir_all(folder.path().join(path).parent().expect("it")).expect("made");
            fs::write(folder.path().join(path), text).expect("written");
        }
        let (commands, problems) = load(Some(&user), Some(&project), &|_| false);
        let of = |commands: &[OwnCommand]| -> Vec<String> {
            commands
                .iter()
                .map(|it| format!("{} {}: {}", it.name, it.takes, it.description))
                .collect()
        };
        assert_eq!(of(&commands), ["plain : Say hello", "review FILE: Reviews it"]);
        let what: Vec<&AgentFault> = problems.iter().map(|problem| &problem.what).collect();
        assert!(
            matches!(
                what[..],
                [AgentFault::Name { .. }, AgentFault::EmptyBody, AgentFault::Untrusted { .. }]
            ),
            "{what:?}"
        );
        let (commands, _) = load(Some(&user), Some(&project), &|_| true);
        assert_eq!(commands[1].prompt, "Review as we do here.");
        assert_eq!(load(None, Some(&folder.path().join("none")), &|_| true), (vec![], vec![]));
    }
}
