//! Workspaces: the folders below the configured roots, and no others.
//!
//! The folder in a session, typed by a person or imported is only a request. It is resolved on disk
//! each time, links included, and used only if it is really below a root.

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use crate::limits::WORKSPACES_MAX;
use crate::tool::{RunSettings, Tool, Toolbox, Workspace};

/// The allowed folders.
pub struct Workspaces {
    roots: Vec<PathBuf>,
    /// The default folder, for sessions without one.
    usual: PathBuf,
    /// Whether a session may use its own folder, below a root.
    follow: bool,
    /// Additional tools, offered in every folder.
    extra: Vec<Arc<dyn Tool>>,
    /// The settings for commands, in every folder.
    run: Arc<RunSettings>,
    open: Mutex<HashMap<PathBuf, Arc<Toolbox>>>,
}

/// A folder, and the tools that are limited to it.
#[allow(missing_docs, reason = "the fields say what they are")]
pub struct Folder {
    /// Its real path.
    pub path: PathBuf,
    pub tools: Arc<Toolbox>,
}

impl Workspaces {
    /// No folder: there are no tools that read one.
    pub fn none() -> Workspaces {
        Workspaces {
            roots: Vec::new(),
            usual: PathBuf::new(),
            follow: false,
            extra: Vec::new(),
            run: Arc::default(),
            open: Mutex::default(),
        }
    }

    /// One folder for every session, wherever it was started.
    ///
    /// # Errors
    ///
    /// If it cannot be opened, with its path.
    pub fn only(folder: &Path) -> Result<Workspaces, (PathBuf, io::Error)> {
        Ok(Workspaces { follow: false, ..Workspaces::below(folder, &[])? })
    }

    /// For each session its own folder, if that is below one of these roots; without roots, below
    /// `usual`.
    ///
    /// # Errors
    ///
    /// If a root or the default folder cannot be opened, with its path.
    pub fn below(usual: &Path, roots: &[PathBuf]) -> Result<Workspaces, (PathBuf, io::Error)> {
        let real = |path: &Path| -> Result<PathBuf, (PathBuf, io::Error)> {
            let opened = Workspace::open(path).map_err(|error| (path.to_owned(), error))?;
            Ok(opened.root().to_owned())
        };
        let usual = real(usual)?;
        let roots = match roots.is_empty() {
            true => vec![usual.clone()],
            false => roots.iter().map(|root| real(root)).collect::<Result<_, _>>()?,
        };
        // A default folder outside of the roots would be a way around them.
        let inside = roots.iter().any(|root| usual.starts_with(root));
        let usual = if inside { usual } else { roots[0].clone() };
        Ok(Workspaces { roots, usual, follow: true, ..Workspaces::none() })
    }

    /// The same with one more tool in every folder.
    #[must_use]
    pub fn with_tool(mut self, tool: Arc<dyn Tool>) -> Workspaces {
        self.extra.push(tool);
        self
    }

    /// The same with these settings for commands.
    #[must_use]
    pub fn with_run_settings(mut self, settings: RunSettings) -> Workspaces {
        self.run = Arc::new(settings);
        self
    }

    /// The folder of a session, or the default one if that is not allowed.
    pub(super) fn folder(&self, remembered: Option<&str>) -> io::Result<Folder> {
        if let Some(path) = remembered.filter(|_| self.follow)
            && let Ok(folder) = self.at(Path::new(path))
        {
            return Ok(folder);
        }
        self.at(&self.usual)
    }

    /// The folder a person refers to: a path below a root, or an absolute one.
    pub fn find(&self, typed: &str) -> Option<Folder> {
        let typed = Path::new(typed.trim());
        if typed.is_absolute() {
            return self.at(typed).ok();
        }
        self.roots.iter().find_map(|root| self.at(&root.join(typed)).ok())
    }

    /// The folders that can be chosen with a button: the roots and the folders directly below them.
    pub fn choices(&self, most: usize) -> Vec<PathBuf> {
        let mut found = Vec::new();
        for root in &self.roots {
            found.push(root.clone());
            let Ok(entries) = std::fs::read_dir(root) else { continue };
            let folders = entries.flatten().filter(|entry| {
                let hidden = entry.file_name().as_encoded_bytes().starts_with(b".");
                !hidden && entry.file_type().is_ok_and(|kind| kind.is_dir())
            });
            let mut below: Vec<PathBuf> = folders.map(|entry| entry.path()).collect();
            below.sort();
            found.extend(below);
        }
        found.truncate(most);
        found
    }

    /// A folder for display: relative to its root.
    pub fn shown(&self, path: &Path) -> String {
        let root = self.roots.iter().find(|root| path.starts_with(root));
        let above = root.and_then(|root| root.parent());
        let short = above.and_then(|above| path.strip_prefix(above).ok()).unwrap_or(path);
        short.display().to_string()
    }

    fn at(&self, path: &Path) -> io::Result<Folder> {
        // A cached folder is still looked up: it may have been moved.
        let real = path.canonicalize()?;
        if !self.roots.iter().any(|root| real.starts_with(root)) {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(tools) = open.get(&real) {
            return Ok(Folder { path: real, tools: tools.clone() });
        }
        let workspace = Workspace::open(&real)?;
        let path = workspace.root().to_owned();
        // It may have become a link in the meantime.
        if !self.roots.iter().any(|root| path.starts_with(root)) {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        let tools = Toolbox::with_settings(workspace, self.run.clone());
        let tools = self.extra.iter().cloned().fold(tools, Toolbox::with);
        let tools = Arc::new(tools);
        if open.len() >= WORKSPACES_MAX {
            open.clear();
        }
        open.insert(path.clone(), tools.clone());
        Ok(Folder { path, tools })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_outside_of_the_roots_is_ever_a_workspace() {
        let folder = tempfile::tempdir().expect("a folder");
        let top = folder.path().canonicalize().expect("real");
        for path in ["root/a/deep", "root/b", "outside"] {
            std::fs::create_dir_all(top.join(path)).expect("made");
        }
        std::os::unix::fs::symlink(top.join("outside"), top.join("root/detour")).expect("linked");
        std::fs::write(top.join("root/file"), "x").expect("written");
        let root = top.join("root");
        let spaces = Workspaces::below(&top, std::slice::from_ref(&root)).expect("opened");
        let found = |typed: &str| spaces.find(typed).map(|folder| folder.path);
        assert_eq!(found("a"), Some(root.join("a")));
        assert_eq!(found("a/deep"), Some(root.join("a/deep")));
        assert_eq!(found(&root.join("b").display().to_string()), Some(root.join("b")));
        let outside = top.join("outside").display().to_string();
        for bad in ["..", "../outside", "detour", "a/../../outside", "file", "none", "/", &outside]
        {
            assert_eq!(found(bad), None, "{bad}");
        }
        // The folder of a session is checked like any other, and so is the default one.
        for remembered in [Some(outside.as_str()), Some("/"), Some("detour"), None] {
            assert_eq!(spaces.folder(remembered).expect("opened").path, root);
        }
        assert_eq!(spaces.choices(8), [root.clone(), root.join("a"), root.join("b")]);
        assert_eq!(spaces.shown(&root.join("a")), "root/a");
    }

    #[test]
    fn without_roots_there_is_the_usual_folder_and_what_is_below_it() {
        let folder = tempfile::tempdir().expect("a folder");
        let top = folder.path().canonicalize().expect("real");
        std::fs::create_dir_all(top.join("here/below")).expect("made");
        let spaces = Workspaces::below(&top.join("here"), &[]).expect("opened");
        assert!(spaces.find("below").is_some());
        assert!(spaces.find(&top.display().to_string()).is_none());
        assert!(Workspaces::below(&top.join("none"), &[]).is_err());
    }
}
