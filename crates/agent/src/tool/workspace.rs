//! The workspace: the folder of the tools, and all access to it.
//!
//! The folder is opened once. Every path is resolved beneath that handle to a `RealPath`, on which
//! the rules are checked: tools do not access the session store, and do not write files that are
//! run automatically. A real path is then opened one component at a time without following links,
//! so neither `..`, an absolute path, a symbolic link, nor a link that is swapped in at the worst
//! moment leads outside, or around a rule.

use std::ffi::OsStr;
use std::io::{self, Cursor, Read};
use std::path::{Component, Path, PathBuf};

use cap_std::ambient_authority;
use cap_std::fs::{Dir, FileTypeExt};
use ignore::WalkBuilder;
use rustix::fs::{Mode, OFlags};

use super::ToolFailure;
use super::limits::{BINARY_BYTES, FILE_BYTES_MAX};
use crate::limits::PROJECT_FOLDERS_MAX;

/// The folder of the tools.
#[derive(Debug)]
pub struct Workspace {
    dir: Dir,
    /// Its path, for the directory walker and for commands. It is never opened for reading.
    root: PathBuf,
    /// The path it was opened with, which may lead through links.
    given: PathBuf,
}

/// The real target of a model's path, below the workspace: no links, no `..`, nothing of the
/// session store. The workspace itself is `.`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RealPath(PathBuf);

impl std::ops::Deref for RealPath {
    type Target = Path;

    fn deref(&self) -> &Path {
        &self.0
    }
}

impl From<RealPath> for PathBuf {
    fn from(path: RealPath) -> PathBuf {
        path.0
    }
}

/// A regular text file inside the workspace, open at its beginning.
pub(super) struct TextFile {
    head: Cursor<Vec<u8>>,
    rest: std::fs::File,
    /// Its size in bytes.
    pub(super) size: u64,
}

impl Read for TextFile {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self.head.read(buffer)? {
            0 => self.rest.read(buffer),
            n => Ok(n),
        }
    }
}

impl Workspace {
    /// Opens a folder.
    ///
    /// # Errors
    ///
    /// If it does not exist, or is not a folder.
    pub fn open(path: impl AsRef<Path>) -> io::Result<Workspace> {
        let given = std::path::absolute(path.as_ref())?;
        let root = given.canonicalize()?;
        let dir = Dir::open_ambient_dir(&root, ambient_authority())?;
        Ok(Workspace { dir, root, given })
    }

    /// Where it is.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// A model's path, relative to the workspace, before links are resolved. Paths that are plainly
    /// outside are refused here.
    fn locate(&self, path: &str) -> Result<PathBuf, ToolFailure> {
        if path.trim().is_empty() {
            return Err(ToolFailure("the path is empty; `.` is the workspace itself".into()));
        }
        if path.contains('\0') {
            return Err(ToolFailure(format!("the path {path:?} contains a NUL character")));
        }
        let path = Path::new(path);
        let inside = match path.is_absolute() {
            true => [&self.root, &self.given]
                .iter()
                .find_map(|root| path.strip_prefix(root).ok())
                .ok_or_else(|| outside(path))?,
            false => path,
        };
        let clean: PathBuf = inside.components().filter(|c| *c != Component::CurDir).collect();
        Ok(if clean.as_os_str().is_empty() { PathBuf::from(".") } else { clean })
    }

    /// The real target of a model's path. The end of the path need not exist yet.
    pub(super) fn resolve(&self, path: &str) -> Result<RealPath, ToolFailure> {
        let path = self.locate(path)?;
        let mut missing: Vec<&OsStr> = Vec::new();
        let mut there = path.as_path();
        let mut real = loop {
            if there.as_os_str().is_empty() || there == Path::new(".") {
                break PathBuf::new();
            }
            match self.dir.canonicalize(there) {
                Ok(real) => break real,
                Err(error) => {
                    // A dangling link exists, and so does a file in place of a folder.
                    let gone = error.kind() == io::ErrorKind::NotFound
                        && self.dir.symlink_metadata(there).is_err();
                    match (gone, there.components().next_back(), there.parent()) {
                        (true, Some(Component::Normal(name)), Some(parent)) => {
                            missing.push(name);
                            there = parent;
                        }
                        _ => return Err(failed("open", &path, &error)),
                    }
                }
            }
        };
        real.extend(missing.iter().rev());
        if is_of_the_store(&real) {
            return Err(ToolFailure(format!(
                "`{}` belongs to the store of sessions; `recall` and `search_sessions` read those",
                path.display()
            )));
        }
        Ok(RealPath(if real.as_os_str().is_empty() { PathBuf::from(".") } else { real }))
    }

    /// Whether this is a link out of the workspace, or a path through one.
    pub fn leads_outside(&self, path: &str) -> bool {
        let located = self.locate(path);
        located.is_ok_and(|path| self.dir.canonicalize(path).is_err_and(|error| escapes(&error)))
    }

    /// The same for a file to write. Files that are run automatically are refused.
    pub(super) fn resolve_for_writing(&self, path: &str) -> Result<RealPath, ToolFailure> {
        let real = self.resolve(path)?;
        match protected_part(&real) {
            Some(part) => Err(ToolFailure(format!(
                "tools do not write `{path}`, because files in `{part}` are run, or followed by \
                 agents, without asking the user again"
            ))),
            None => Ok(real),
        }
    }

    /// Why each change of a file needs consent: another program runs it automatically.
    pub(super) fn starts_by_itself(&self, path: &str) -> Option<String> {
        let real = self.resolve(path).ok()?;
        let part = real
            .components()
            .map(Component::as_os_str)
            .find(|part| STARTS.iter().any(|name| part.eq_ignore_ascii_case(name)))?;
        let part = part.to_string_lossy();
        Some(format!("other programs run or follow `{part}` the next time they start"))
    }

    /// Opens a folder. No link is followed.
    pub(super) fn folder(&self, path: &RealPath) -> io::Result<Dir> {
        self.enter(path, |_, _, error| Err(error))
    }

    /// Opens the folder of a file and returns the file's name; missing folders are created.
    pub(super) fn folder_to_write<'p>(&self, path: &'p RealPath) -> io::Result<(Dir, &'p OsStr)> {
        let name = path.file_name().ok_or(io::ErrorKind::IsADirectory)?;
        let dir = self.enter(path.parent().unwrap_or(Path::new("")), |dir, name, error| {
            if error.kind() != io::ErrorKind::NotFound {
                return Err(error);
            }
            match dir.create_dir(name) {
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
                _ => open_beneath(dir, name, OFlags::DIRECTORY),
            }
        })?;
        Ok((dir, name))
    }

    /// Descends into a folder, one component at a time; `otherwise` is called if one cannot be
    /// opened.
    fn enter(
        &self,
        path: &Path,
        otherwise: impl Fn(&Dir, &OsStr, io::Error) -> io::Result<std::fs::File>,
    ) -> io::Result<Dir> {
        let mut dir = self.dir.try_clone()?;
        for part in path.components() {
            let name = match part {
                Component::Normal(name) => name,
                Component::CurDir => continue,
                _ => return Err(io::ErrorKind::InvalidInput.into()),
            };
            let opened = open_beneath(&dir, name, OFlags::DIRECTORY);
            let opened = opened.or_else(|error| otherwise(&dir, name, error))?;
            dir = Dir::from_std_file(opened);
        }
        Ok(dir)
    }

    /// Opens a regular file, text or binary. This never waits for a pipe.
    pub(super) fn file(&self, path: &RealPath) -> Result<std::fs::File, ToolFailure> {
        let error = |error: io::Error| failed("read", path, &error);
        let Some(name) = path.file_name() else {
            return Err(ToolFailure(format!("`{}` is a folder, not a file", path.display())));
        };
        let dir = self.enter(path.parent().unwrap_or(Path::new("")), |_, _, error| Err(error));
        let dir = dir.map_err(error)?;
        // Opening a device can have effects, so the type is checked first; and because it may have
        // been swapped since, the opened file is checked again, without blocking.
        regular(path, &dir.symlink_metadata(name).map_err(error)?.file_type())?;
        let file = open_beneath(&dir, name, OFlags::NONBLOCK | OFlags::NOCTTY).map_err(error)?;
        let file = cap_std::fs::File::from_std(file);
        regular(path, &file.metadata().map_err(error)?.file_type())?;
        Ok(file.into_std())
    }

    /// Opens a text file.
    pub(super) fn text_file(&self, path: &RealPath) -> Result<TextFile, ToolFailure> {
        let rest = self.file(path)?;
        let read = |error: io::Error| failed("read", path, &error);
        let size = rest.metadata().map_err(read)?.len();
        let mut head = Vec::new();
        (&rest).take(BINARY_BYTES).read_to_end(&mut head).map_err(read)?;
        if head.contains(&0) {
            let message = format!("`{}` is a binary file ({size} bytes)", path.display());
            return Err(ToolFailure(message));
        }
        Ok(TextFile { head: Cursor::new(head), rest, size })
    }

    /// The content of a text file that is not too large.
    pub(super) fn read(&self, path: &RealPath) -> Result<Vec<u8>, ToolFailure> {
        let file = self.text_file(path)?;
        let mut bytes = Vec::new();
        // It may have grown since it was measured.
        let read = file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes);
        read.map_err(|error| failed("read", path, &error))?;
        if bytes.len() as u64 > FILE_BYTES_MAX {
            return Err(too_large(path));
        }
        Ok(bytes)
    }

    /// The first `max` bytes of a text file, and its size; `None` if there is no such file inside.
    pub(crate) fn beginning(&self, path: &str, max: u64) -> Option<(Vec<u8>, u64)> {
        let file = self.text_file(&self.resolve(path).ok()?).ok()?;
        let (size, mut bytes) = (file.size, Vec::new());
        file.take(max).read_to_end(&mut bytes).ok()?;
        Some((bytes, size))
    }

    /// The files below `base` that are neither hidden nor ignored, as paths relative to the
    /// workspace, sorted.
    ///
    /// Ignore files are those of the workspace, also if it is not a git repository, and those above
    /// it up to the root of its repository. The walker reads folders by path, so what it finds is
    /// only a proposal: [`is_file`](Workspace::is_file) or an attempt to read it says what is there.
    ///
    /// A file or a folder that is named is searched, hidden or ignored as it may be.
    pub(super) fn walk(&self, base: &RealPath) -> Box<dyn Iterator<Item = RealPath> + '_> {
        if self.is_file(base) {
            return Box::new(std::iter::once(base.clone()));
        }
        let base = if **base == *Path::new(".") { PathBuf::new() } else { base.0.clone() };
        let hidden = base.components().any(|part| part.as_os_str().as_encoded_bytes()[0] == b'.');
        let (root, below) = (self.root.clone(), base.clone());
        // The rules that leave a folder out cannot hold for what is in it, if it is wanted.
        let start = self.root.join(&base);
        let named = !leads_to(&self.root, &start);
        let mut builder = WalkBuilder::new(if named { &start } else { &self.root });
        let above = !named && self.has_rules_above();
        builder
            .parents(above)
            .require_git(above)
            .hidden(!hidden)
            .git_global(false)
            .sort_by_file_name(Ord::cmp)
            .filter_entry(move |entry| {
                let Ok(path) = entry.path().strip_prefix(&root) else { return false };
                entry.file_name() != ".git"
                    && (!is_of_the_store(path) || below.starts_with(path))
                    && (path.starts_with(&below) || below.starts_with(path))
            });
        let root = self.root.clone();
        let found = builder
            .build()
            .filter_map(Result::ok)
            .filter(|entry| entry.file_type().is_some_and(|kind| kind.is_file()))
            .filter_map(move |entry| Some(entry.path().strip_prefix(&root).ok()?.to_owned()))
            .filter(move |path| path.starts_with(&base))
            .map(RealPath);
        Box::new(found)
    }

    /// Whether the workspace is below the root of a repository whose rules do not leave it out.
    fn has_rules_above(&self) -> bool {
        let repository = repository_of(&self.root).filter(|root| *root != self.root);
        repository.is_some_and(|repository| leads_to(&repository, &self.root))
    }

    /// Whether anything is there.
    pub(super) fn is_there(&self, path: &RealPath) -> bool {
        self.dir.symlink_metadata(&path.0).is_ok()
    }

    /// Whether a regular file exists there, without links in its path.
    pub(super) fn is_file(&self, path: &RealPath) -> bool {
        let Some(name) = path.file_name() else { return false };
        let dir = self.enter(path.parent().unwrap_or(Path::new("")), |_, _, error| Err(error));
        dir.and_then(|dir| dir.symlink_metadata(name)).is_ok_and(|found| found.is_file())
    }

    /// The folder or file to search: the workspace itself by default.
    pub(super) fn base(&self, path: Option<&str>) -> Result<RealPath, ToolFailure> {
        let path = self.resolve(path.unwrap_or("."))?;
        if self.is_file(&path) {
            return Ok(path);
        }
        match self.folder(&path) {
            Ok(_) => Ok(path),
            Err(error) if error.kind() == io::ErrorKind::NotADirectory => {
                Err(ToolFailure(format!("`{}` is not a folder", path.display())))
            }
            Err(error) => Err(failed("search", &path, &error)),
        }
    }
}

/// Opens an entry of a folder for reading, unless it is a link.
fn open_beneath(dir: &Dir, name: &OsStr, flags: OFlags) -> io::Result<std::fs::File> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC | flags;
    Ok(rustix::fs::openat(dir, name, flags, Mode::empty())?.into())
}

/// Whether a real path belongs to the directory of a session store, with other people's sessions. A
/// project's agents and commands are in a folder of the same name.
fn is_of_the_store(path: &Path) -> bool {
    let mut parts = path.components().map(Component::as_os_str);
    parts.any(|part| part.eq_ignore_ascii_case(".rethread"))
        && parts.next().is_none_or(|next| next != "agents" && next != "commands")
}

/// Folders and files whose content is run or followed automatically: hooks and settings of version
/// control start programs, and agents instruct models.
const PROTECTED: [&str; 5] = [".git", ".hg", ".svn", ".jj", ".rethread"];

/// The part of a path because of which it must not be written.
fn protected_part(path: &Path) -> Option<&'static str> {
    let parts = path.components().map(Component::as_os_str);
    parts
        .flat_map(|part| PROTECTED.iter().find(|name| part.eq_ignore_ascii_case(name)))
        .next()
        .copied()
}

/// Files that other programs run, or read settings from that can run something, when a shell, an
/// editor or another agent is started in the folder; and folders of such files.
const STARTS: [&str; 23] = [
    ".bash_login",
    ".bash_logout",
    ".bash_profile",
    ".bashrc",
    ".profile",
    ".zlogin",
    ".zprofile",
    ".zshenv",
    ".zshrc",
    ".envrc",
    ".gitconfig",
    ".githooks",
    ".husky",
    ".pre-commit-config.yaml",
    ".vscode",
    ".idea",
    ".claude",
    ".codex",
    ".cursor",
    ".gemini",
    ".mcp.json",
    ".ssh",
    ".direnv",
];

/// The root of the repository a folder is in.
pub(crate) fn repository_of(folder: &Path) -> Option<PathBuf> {
    let mut above = folder.ancestors().take(PROJECT_FOLDERS_MAX);
    above.find(|path| path.join(".git").symlink_metadata().is_ok()).map(Path::to_owned)
}

/// Whether a walk from one folder finds another below it: no ignore file on the way leaves it out.
fn leads_to(from: &Path, to: &Path) -> bool {
    let target = to.to_owned();
    let depth = to.strip_prefix(from).map_or(0, |below| below.components().count());
    let mut builder = WalkBuilder::new(from);
    builder
        .parents(false)
        .require_git(false)
        .hidden(false)
        .git_global(false)
        .max_depth(Some(depth))
        .filter_entry(move |entry| target.starts_with(entry.path()));
    builder.build().filter_map(Result::ok).any(|entry| entry.path() == to)
}

/// A path as models see it.
pub(super) fn shown(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

/// An error for a path: the operation, and why it failed.
pub(super) fn failed(action: &str, path: &Path, error: &io::Error) -> ToolFailure {
    match error.kind() {
        _ if escapes(error) => outside(path),
        io::ErrorKind::NotFound => {
            ToolFailure(format!("there is no `{}` in the workspace", path.display()))
        }
        _ => ToolFailure(format!("cannot {action} `{}`: {error}", path.display())),
    }
}

/// Whether this error says that a path leads out of the folder it begins in.
fn escapes(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::PermissionDenied && error.raw_os_error().is_none()
}

fn outside(path: &Path) -> ToolFailure {
    let path = path.display();
    ToolFailure(format!("`{path}` is outside the workspace, and tools stay in the workspace"))
}

pub(super) fn too_large(path: &Path) -> ToolFailure {
    let (path, max) = (path.display(), FILE_BYTES_MAX >> 20);
    ToolFailure(format!("`{path}` is larger than {max} MiB; read a range of it instead"))
}

fn regular(path: &Path, kind: &cap_std::fs::FileType) -> Result<(), ToolFailure> {
    let what = match kind {
        kind if kind.is_file() => return Ok(()),
        kind if kind.is_dir() => "a folder",
        kind if kind.is_fifo() => "a pipe",
        kind if kind.is_socket() => "a socket",
        _ => "a device",
    };
    Err(ToolFailure(format!("`{}` is {what}, not a file", path.display())))
}
