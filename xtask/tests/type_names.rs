//! One public type name means one thing in the whole workspace.
//!
//! A reader who meets `Token` in a signature must not have to ask whose it is. The rule is about
//! `pub` types; what a module keeps to itself may be called what it likes.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Aliases that every Rust reader expects a module to have for itself, like `std::io::Result`.
const IDIOMS: &[&str] = &["Result"];

/// The directories of the workspace that hold crates.
const CRATES: &[&str] = &["crates", "bench", "xtask"];

/// A public type: its name, and the file and line that define it.
type Definition = (String, String);

#[test]
fn a_public_type_name_is_defined_once_in_the_workspace() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("a workspace").to_path_buf();
    let files = CRATES.iter().flat_map(|name| sources(&root.join(name)));
    let definitions: Vec<Definition> = files
        .flat_map(|file| {
            let name = file.strip_prefix(&root).unwrap_or(&file).display().to_string();
            definitions(&name, &std::fs::read_to_string(&file).expect("sources are text"))
        })
        .collect();
    let found = |name: &str| definitions.iter().any(|(defined, _)| defined == name);
    assert!(found("SessionId") && found("Host"), "these are not our sources: {definitions:?}");
    let wrong = defined_twice(definitions);
    assert!(wrong.is_empty(), "give each its own name: {wrong:#?}");
}

#[test]
fn a_public_type_name_that_is_defined_twice_is_seen() {
    let core = "/// A token.\npub struct Token(String);\npub(crate) enum Inner {}\n\
                pub type Result<T> = std::result::Result<T, Error>;\npub enum Error {}\n";
    let http = "    pub trait Token<'a>: Send {}\npub type Result<T> = Option<T>;\nstruct Error;\n\
                // pub struct Error;\npub struct Inner {}\npub fn token() {}\n";
    let both = [definitions("core.rs", core), definitions("http.rs", http)].concat();
    assert_eq!(defined_twice(both), ["Token: core.rs:2, http.rs:1"]);
}

/// The public types that a source text defines.
fn definitions(file: &str, text: &str) -> Vec<Definition> {
    let in_line = |(index, line): (usize, &str)| {
        let rest = line.trim_start().strip_prefix("pub ")?;
        let (keyword, rest) = rest.split_once(' ')?;
        let name = rest.split(|c: char| !(c.is_alphanumeric() || c == '_')).next()?;
        let is_type = matches!(keyword, "struct" | "enum" | "trait" | "type");
        is_type.then(|| (name.to_owned(), format!("{file}:{}", index + 1)))
    };
    text.lines().enumerate().filter_map(in_line).collect()
}

/// The names with more than one definition, each with where they are.
fn defined_twice(definitions: Vec<Definition>) -> Vec<String> {
    let mut places: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (name, place) in definitions {
        places.entry(name).or_default().push(place);
    }
    places
        .into_iter()
        .filter(|(name, places)| places.len() > 1 && !IDIOMS.contains(&name.as_str()))
        .map(|(name, places)| format!("{name}: {}", places.join(", ")))
        .collect()
}

/// The Rust files of the crates below a directory, without tests and examples.
fn sources(directory: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    let mut directories = vec![directory.to_path_buf()];
    while let Some(directory) = directories.pop() {
        let entries =
            std::fs::read_dir(&directory).and_then(Iterator::collect::<Result<Vec<_>, _>>);
        for path in entries.expect("the repository can be read").iter().map(|entry| entry.path()) {
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            let other = ["target", "tests", "examples"].contains(&name);
            if path.is_dir() && !other {
                directories.push(path);
            } else if name.ends_with(".rs") {
                files.push(path);
            }
        }
    }
    files.sort();
    files
}
