//! Loads agents from files.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use rethread_core::context::Policy;

use super::front_matter::{self, Wrong};
use super::{Agent, AgentSource, Agents, CHANGE_TOOLS, READ_TOOLS, WORK_TOOLS};
use crate::host::FolderFile;

/// Bytes of an agent file. A prompt of this length fills half the window of most models.
pub const FILE_BYTES_MAX: u64 = 256 << 10;

/// Agent files in a folder. Nobody can choose among more.
pub const FILES_MAX: usize = 200;

/// Characters of an agent's name.
pub const NAME_CHARS_MAX: usize = 64;

/// A problem with an agent file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AgentProblem {
    /// The file, or the folder.
    pub path: PathBuf,
    /// The line, 1 for the first, if there is one.
    pub line: Option<usize>,
    /// What is wrong.
    pub what: AgentFault,
}

impl std::fmt::Display for AgentProblem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.path.display())?;
        if let Some(line) = self.line {
            write!(f, ":{line}")?;
        }
        write!(f, ": {}", self.what)
    }
}

/// What is wrong with an agent file. In all cases but [`AgentFault::Narrowed`], the file is
/// skipped.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "the fields say what they are")]
pub enum AgentFault {
    /// It does not begin with a fence.
    #[error("the file does not begin with `---`")]
    NoFrontMatter,
    /// The fence is never closed.
    #[error("the front matter has no closing `---`")]
    NoEnd,
    /// A line is not `key: value`.
    #[error("this is not a `key: value` line")]
    NotAKey,
    /// A key occurs more than once.
    #[error("`{key}` is given twice")]
    Twice { key: String },
    /// A quote is not closed, or text follows it.
    #[error("the quotes do not match")]
    Quote,
    /// A list was expected.
    #[error("`{key}` is not a list such as `[a, b]`")]
    NotAList { key: String },
    /// The name is invalid.
    #[error(
        "`{name}` is not a valid agent name: use letters, digits, `-` and `_`, at most {NAME_CHARS_MAX}"
    )]
    Name { name: String },
    /// Another file in the same folder has this name.
    #[error("the name `{name}` is already used by {}", .other)]
    Taken {
        name: String,
        /// The path of the other file.
        other: String,
    },
    /// The policy does not exist.
    #[error("no policy `{name}`; the policies are {}", Policy::PRESETS.join(", "))]
    Policy { name: String },
    /// The tool does not exist.
    #[error("no tool `{name}`; the tools are {}, {}, {}", READ_TOOLS.join(", "), CHANGE_TOOLS.join(", "), WORK_TOOLS.join(", "))]
    Tool { name: String },
    /// The file has no prompt.
    #[error("no prompt below the front matter")]
    EmptyBody,
    /// The file is too large.
    #[error("the file has more than {FILE_BYTES_MAX} bytes")]
    TooLarge,
    /// There are too many files.
    #[error("the folder has {count} agent files; only the first {FILES_MAX} are read")]
    TooMany {
        /// How many there are.
        count: usize,
    },
    /// The file is not text.
    #[error("the file is not UTF-8")]
    NotText,
    /// A symbolic link of the project leads out of its folder.
    #[error("the link points outside the project and is not followed")]
    LeadsOutside,
    /// It is not a regular file.
    #[error("this is not a regular file")]
    NotAFile,
    /// The file or the folder could not be read.
    #[error("it could not be read: {what}")]
    Unreadable {
        /// The I/O error.
        what: String,
    },
    /// The user has not trusted the content of a project's file.
    #[error("it belongs to this project and is not trusted yet")]
    Untrusted {
        /// The file, with its current content.
        file: FolderFile,
        /// The agent that it would replace.
        replaces: Option<String>,
    },
    /// A project's agent lists tools that the agent it replaces does not have. It is loaded without
    /// them.
    #[error("`{name}` does not get {}, because the agent it replaces does not have it", .tools.join(", "))]
    Narrowed {
        /// The agent.
        name: String,
        tools: Vec<String>,
    },
}

impl From<io::Error> for AgentFault {
    fn from(error: io::Error) -> AgentFault {
        AgentFault::Unreadable { what: error.to_string() }
    }
}

/// Adds the agents in the `*.md` files of a folder, sorted by file name. A missing folder has none.
pub(super) fn folder(
    agents: &mut Agents,
    folder: &Path,
    origin: AgentSource,
    trusted: &dyn Fn(&FolderFile) -> bool,
    problems: &mut Vec<AgentProblem>,
) {
    let files = match files_in(folder, origin) {
        Ok(files) => files,
        Err(what) => {
            problems.push(AgentProblem { path: folder.into(), line: None, what });
            return;
        }
    };
    if files.len() > FILES_MAX {
        let what = AgentFault::TooMany { count: files.len() };
        problems.push(AgentProblem { path: folder.into(), line: None, what });
    }
    for path in files.into_iter().take(FILES_MAX) {
        if let Err((line, what)) = add(agents, folder, &path, origin, trusted) {
            problems.push(AgentProblem { path, line, what });
        }
    }
}

pub(crate) fn files_in(folder: &Path, origin: AgentSource) -> Result<Vec<PathBuf>, AgentFault> {
    match fs::symlink_metadata(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        // A folder that is a link could lead anywhere, and all of its files would be sent to a
        // model.
        Ok(found) if found.is_symlink() && origin == AgentSource::Project => {
            return Err(AgentFault::LeadsOutside);
        }
        _ => {}
    }
    let mut files = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "md") {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

type Place = Option<usize>;

fn add(
    agents: &mut Agents,
    folder: &Path,
    path: &Path,
    origin: AgentSource,
    trusted: &dyn Fn(&FolderFile) -> bool,
) -> Result<(), (Place, AgentFault)> {
    let text = text_of(folder, path, origin).map_err(|fault| (None, fault))?;
    let stem = path.file_stem().map(|stem| stem.to_string_lossy()).unwrap_or_default();
    let absolute = std::path::absolute(path).map_err(|error| (None, error.into()))?;
    let file = FolderFile::new(&absolute, text.as_bytes());
    let absolute = absolute.to_string_lossy().into_owned();
    let agent =
        agent(&text, &stem, absolute, origin).map_err(|(line, fault)| (Some(line), fault))?;
    if origin == AgentSource::Project && !trusted(&file) {
        let replaces = agents.get(&agent.name).map(|other| other.name.clone());
        return Err((None, AgentFault::Untrusted { file, replaces }));
    }
    let name = agent.name.clone();
    if let Some(other) = agents.get(&name).filter(|other| other.origin == origin) {
        return Err((None, AgentFault::Taken { name, other: other.path.clone() }));
    }
    let tools = agents.put(agent);
    match tools.is_empty() {
        true => Ok(()),
        false => {
            let field = front_matter::parse(&text).ok().and_then(|f| f.line_of("tools"));
            Err((field, AgentFault::Narrowed { name, tools }))
        }
    }
}

/// The text of a file, after checking what kind of file it is.
pub(crate) fn text_of(
    folder: &Path,
    path: &Path,
    origin: AgentSource,
) -> Result<String, AgentFault> {
    let real = path.canonicalize()?;
    if origin == AgentSource::Project && !real.starts_with(folder.canonicalize()?) {
        return Err(AgentFault::LeadsOutside);
    }
    // Checked before it is opened, because opening a pipe waits for a writer.
    if !fs::metadata(&real)?.is_file() {
        return Err(AgentFault::NotAFile);
    }
    let mut bytes = Vec::new();
    File::open(&real)?.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > FILE_BYTES_MAX {
        return Err(AgentFault::TooLarge);
    }
    String::from_utf8(bytes).map_err(|_| AgentFault::NotText)
}

/// The agent in a file. `stem` is its name if it does not give one.
pub(super) fn agent(
    text: &str,
    stem: &str,
    path: String,
    origin: AgentSource,
) -> Result<Agent, Wrong> {
    let front = front_matter::parse(text)?;
    let (line, name) = front.text("name")?.unwrap_or_else(|| (1, stem.to_owned()));
    if !is_name(&name) {
        return Err((line, AgentFault::Name { name }));
    }
    let policy = match front.text("policy")? {
        Some((line, name)) if Policy::preset(&name).is_none() => {
            return Err((line, AgentFault::Policy { name }));
        }
        policy => policy.map(|(_, name)| name),
    };
    let tools = front.list("tools")?;
    if let Some((line, tools)) = &tools {
        let lists = [&READ_TOOLS[..], &CHANGE_TOOLS, &WORK_TOOLS];
        let known = |tool: &str| lists.iter().any(|list| list.contains(&tool));
        if let Some(name) = tools.iter().find(|tool| !known(tool)) {
            return Err((*line, AgentFault::Tool { name: name.clone() }));
        }
    }
    if front.body.is_empty() {
        return Err((text.lines().count().max(1), AgentFault::EmptyBody));
    }
    Ok(Agent {
        name,
        description: front.text("description")?.map(|(_, text)| text).unwrap_or_default(),
        prompt: front.body.to_owned(),
        model: front.text("model")?.map(|(_, text)| text),
        tools: tools.map(|(_, tools)| tools),
        policy,
        path,
        origin,
    })
}

pub(crate) fn is_name(name: &str) -> bool {
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    !name.is_empty() && name.len() <= NAME_CHARS_MAX && name.chars().all(allowed)
}
