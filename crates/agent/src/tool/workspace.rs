//! The folder tools work in, and the only way they reach it.
//!
//! The folder is opened once. Every path is resolved beneath that handle, one component at a
//! time, so neither `..`, nor an absolute path, nor a symbolic link, nor a link that is swapped in
//! at the worst moment leads outside.

use std::io::{self, Cursor, Read};
use std::path::{Component, Path, PathBuf};

use cap_std::ambient_authority;
use cap_std::fs::{Dir, FileTypeExt, OpenOptions, OpenOptionsExt};
use ignore::WalkBuilder;
use rustix::fs::OFlags;

use super::ToolFailure;
use super::limits::{BINARY_BYTES, FILE_BYTES_MAX};

/// The folder tools work in.
#[derive(Debug)]
pub struct Workspace {
    dir: Dir,
    /// Where it is, for the walker and for commands. Never opened for reading.
    root: PathBuf,
    /// Where whoever opened it said it is, which may lead through links.
    given: PathBuf,
}

/// A regular file inside the workspace, open at its beginning, that holds text.
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
    /// When it is not there, or not a folder.
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

    pub(super) fn dir(&self) -> &Dir {
        &self.dir
    }

    /// What a model's path means, relative to the workspace. Whether it leads outside is decided
    /// when it is opened; what is plainly outside is refused here.
    pub(super) fn locate(&self, path: &str) -> Result<PathBuf, ToolFailure> {
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
        if is_of_the_store(&clean) {
            return Err(ToolFailure(format!(
                "`{}` belongs to the store of sessions; `recall` and `search_sessions` read those",
                path.display()
            )));
        }
        Ok(if clean.as_os_str().is_empty() { PathBuf::from(".") } else { clean })
    }

    /// Opens a regular file, whatever its content. Nothing here waits for a pipe's other end.
    pub(super) fn file(&self, path: &Path) -> Result<std::fs::File, ToolFailure> {
        // Opening a device can do things, so it is looked at first; and because it may have been
        // swapped since, what was opened is looked at again, without having waited for it.
        let kind = self.dir.metadata(path).map_err(|error| failed("read", path, &error))?;
        regular(path, &kind.file_type())?;
        let mut options = OpenOptions::new();
        let flags = OFlags::NONBLOCK | OFlags::NOCTTY;
        options.read(true).custom_flags(flags.bits().cast_signed());
        let file =
            self.dir.open_with(path, &options).map_err(|error| failed("read", path, &error))?;
        let kind = file.metadata().map_err(|error| failed("read", path, &error))?;
        regular(path, &kind.file_type())?;
        Ok(file.into_std())
    }

    /// Opens a file that holds text.
    pub(super) fn text_file(&self, path: &Path) -> Result<TextFile, ToolFailure> {
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

    /// The bytes of a text file that is not too large to be read whole.
    pub(super) fn read(&self, path: &Path) -> Result<Vec<u8>, ToolFailure> {
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

    /// The files below `base` that are neither hidden nor ignored, as paths from the workspace,
    /// in the order of their paths.
    ///
    /// Ignore files are those of the workspace itself, also where it is no git repository; what
    /// stands in a folder above has no say. The walker reads folders by path, so what it finds is
    /// only a proposal: each path is looked up beneath the handle before it is given out.
    ///
    /// A file or a hidden folder that is named is searched, ignored or not.
    pub(super) fn walk(&self, base: &Path) -> Box<dyn Iterator<Item = PathBuf> + '_> {
        let base = if base == Path::new(".") { PathBuf::new() } else { base.to_owned() };
        if self.dir.metadata(&base).is_ok_and(|found| found.is_file()) {
            return Box::new(std::iter::once(base));
        }
        let hidden = base.components().any(|part| part.as_os_str().as_encoded_bytes()[0] == b'.');
        let (root, below) = (self.root.clone(), base.clone());
        let mut builder = WalkBuilder::new(&self.root);
        builder
            .parents(false)
            .hidden(!hidden)
            .git_global(false)
            .require_git(false)
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
            .filter(|path| self.dir.symlink_metadata(path).is_ok_and(|found| found.is_file()));
        Box::new(found)
    }

    /// The folder or file a model wants searched, without detours, because the walk compares
    /// paths: the workspace itself when the model does not say.
    pub(super) fn base(&self, path: Option<&str>) -> Result<PathBuf, ToolFailure> {
        let path = self.locate(path.unwrap_or("."))?;
        if path == Path::new(".") {
            return Ok(path);
        }
        let error = |error: io::Error| failed("search", &path, &error);
        let real = self.dir.canonicalize(&path).map_err(error)?;
        let found = self.dir.metadata(&real).map_err(error)?;
        match found.is_dir() || found.is_file() {
            true => Ok(real),
            false => Err(ToolFailure(format!("`{}` is not a folder", path.display()))),
        }
    }
}

/// Whether a path leads to what a store of sessions keeps in its directory: other people's
/// sessions among them. A project's agents stand in a folder of that name as well.
fn is_of_the_store(path: &Path) -> bool {
    let mut parts = path.components().map(Component::as_os_str);
    parts.any(|part| part == ".rethread")
        && (parts.next().is_none_or(|next| next != "agents") || parts.any(|part| part == ".."))
}

/// A path as models see it.
pub(super) fn shown(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

/// Says what could not be done to a path, and why.
pub(super) fn failed(action: &str, path: &Path, error: &io::Error) -> ToolFailure {
    let escaped = error.kind() == io::ErrorKind::PermissionDenied && error.raw_os_error().is_none();
    match error.kind() {
        _ if escaped => outside(path),
        io::ErrorKind::NotFound => {
            ToolFailure(format!("there is no `{}` in the workspace", path.display()))
        }
        _ => ToolFailure(format!("cannot {action} `{}`: {error}", path.display())),
    }
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
