//! The rules of this repository, checked on this repository.
//!
//! Each rule is a function from data to what is wrong with it. Next to the test that applies it to
//! this repository is one that violates it, because a rule that cannot fail protects nothing.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

/// Which crate may depend on which. A new edge deserves a page in `docs/decisions/`.
const EDGES: &[(&str, &[&str])] = &[
    (
        "rethread",
        &[
            "rethread-http",
            "rethread-telegram",
            "rethread-mcp",
            "rethread-agent",
            "rethread-store",
            "rethread-transcript",
            "rethread-render",
            "rethread-core",
        ],
    ),
    ("rethread-http", &["rethread-agent", "rethread-core"]),
    ("rethread-telegram", &["rethread-agent", "rethread-core"]),
    ("rethread-mcp", &["rethread-agent", "rethread-core"]),
    ("rethread-agent", &["rethread-transcript", "rethread-core"]),
    ("rethread-store", &["rethread-core"]),
    ("rethread-transcript", &["rethread-render", "rethread-core"]),
    ("rethread-render", &[]),
    ("rethread-core", &[]),
    ("xtask", &[]),
];

/// Measures everything, so it may use everything; nothing depends on it.
const FREE: &str = "rethread-bench";

/// Crates that bring a runtime, a database or a network, besides those recognised by their names.
const OUTSIDE_CORE: &[&str] = &[
    "actix-rt",
    "axum",
    "embassy",
    "futures",
    "glommio",
    "hyper",
    "mio",
    "monoio",
    "native-tls",
    "polling",
    "postgres",
    "reqwest",
    "rusqlite",
    "rustls",
    "smol",
    "socket2",
    "sqlx",
    "tokio",
    "tower",
    "ureq",
];

/// The same, by how the name begins.
const OUTSIDE_CORE_PREFIXES: &[&str] = &[
    "async-",
    "futures-",
    "hyper-",
    "libsqlite3-",
    "rethread",
    "smol-",
    "sqlx-",
    "tokio-",
    "tower-",
];

/// Lines of a source file. Two hundred read well; nobody holds eight hundred in their head.
const LINES_BELOW: usize = 800;

/// The user name in example paths.
const ANYBODY: &str = "you";

#[test]
fn crates_depend_on_each_other_only_as_designed() {
    let metadata = metadata();
    let names: Vec<String> = members(&metadata).into_iter().map(|(name, _)| name).collect();
    assert!(names.iter().any(|name| name == "rethread-core"), "this is not the house: {names:?}");
    let wrong = undesigned(&edges(&metadata));
    assert!(wrong.is_empty(), "edges nobody designed (see docs/architecture.md): {wrong:#?}");
}

#[test]
fn an_edge_nobody_designed_is_seen() {
    let metadata = json!({"packages": [
        {"name": "rethread-core", "dependencies": [
            {"name": "serde", "kind": null},
            {"name": "rethread-core", "kind": "dev"},
            {"name": "rethread-store", "kind": "dev"},
        ]},
        {"name": "rethread-store", "dependencies": [{"name": "rethread-core", "kind": null}]},
        {"name": "rethread-http", "dependencies": [
            {"name": "rethread-agent", "kind": null},
            {"name": "rethread-store", "kind": null, "rename": "shelf", "optional": true},
        ]},
        {"name": "rethread-bench", "dependencies": [{"name": "rethread-store", "kind": null}]},
        {"name": "rethread-new", "dependencies": [{"name": "rethread-core", "kind": null}]},
        {"name": "xtask", "dependencies": [{"name": "rethread-core", "kind": null}]},
    ]});
    let expected =
        ["rethread-http → rethread-store", "rethread-new → rethread-core", "xtask → rethread-core"];
    assert_eq!(undesigned(&edges(&metadata)), expected);
}

#[test]
fn core_needs_no_runtime_no_database_and_no_network() {
    let tree = cargo(&[
        "tree",
        "--package=rethread-core",
        "--edges=normal",
        "--prefix=none",
        "--format={p}",
        "--locked",
        "--offline",
    ]);
    let names: BTreeSet<&str> =
        tree.lines().filter_map(|line| line.split_whitespace().next()).collect();
    assert!(names.contains("rethread-core"), "not a tree of core: {tree}");
    let wrong = outside_core(names.into_iter().filter(|name| *name != "rethread-core"));
    assert!(wrong.is_empty(), "core computes and does nothing else, but it needs {wrong:?}");
}

#[test]
fn a_runtime_below_core_is_seen() {
    let names = ["serde", "tokio", "async-trait", "rusqlite", "jiff", "reqwest", "rethread-store"];
    let expected = ["tokio", "async-trait", "rusqlite", "reqwest", "rethread-store"];
    assert_eq!(outside_core(names), expected);
}

#[test]
fn every_crate_forbids_unsafe_code_and_missing_docs() {
    let read = |path: &Path| std::fs::read_to_string(path).unwrap();
    let workspace = read(&root().join("Cargo.toml"));
    let crates: Vec<(String, String)> = members(&metadata())
        .into_iter()
        .map(|(name, directory)| (name, read(&directory.join("Cargo.toml"))))
        .collect();
    let wrong = unguarded(&workspace, &crates);
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn a_crate_without_the_lints_of_the_workspace_is_seen() {
    let strict = "[workspace.lints.rust]\nunsafe_code = \"forbid\" # for good\n\
                  missing_docs = { level = \"deny\", priority = 1 }\n";
    let lax = "[workspace.lints.rust]\nunsafe_code = \"warn\"\n[other]\nmissing_docs = \"deny\"\n";
    let named = |name: &str, manifest: &str| (name.to_owned(), manifest.to_owned());
    let crates = [
        named("table", "[package]\nname = \"a\"\n\n[lints]\nworkspace = true\n"),
        named("dotted", "lints.workspace = true\n"),
        named("own", "[lints.rust]\nunsafe_code = \"allow\"\n"),
        named("elsewhere", "[dependencies.lints]\nworkspace = true\n"),
        named("commented", "[lints]\n# workspace = true\n"),
    ];
    let without = |name| format!("{name} does not say `[lints] workspace = true`");
    assert_eq!(unguarded(strict, &crates), ["own", "elsewhere", "commented"].map(without));
    let expected = [
        "the workspace does not set unsafe_code to \"forbid\"",
        "the workspace does not set missing_docs to \"deny\"",
    ];
    assert_eq!(unguarded(lax, &crates[..2]), expected);
}

#[test]
fn no_file_names_a_path_of_somebodys_machine() {
    let root = root();
    let files = kept_files(&root);
    assert!(
        files.contains(&root.join("xtask/tests/repository_rules.rs")),
        "this file is not among {files:?}"
    );
    let wrong: Vec<String> = files
        .iter()
        .filter_map(|file| Some((file, text(file)?)))
        .flat_map(|(file, text)| {
            let name = file.strip_prefix(&root).unwrap_or(file).display().to_string();
            machine_paths(&text).into_iter().map(move |found| format!("{name}:{found}"))
        })
        .collect();
    assert!(wrong.is_empty(), "in examples write `/home/{ANYBODY}`, not {wrong:#?}");
}

#[test]
fn a_path_of_somebodys_machine_is_seen() {
    // Concatenated, so that this file does not violate the rule itself.
    let (root, work, home, mac) = ("root", "work", "home", "Users");
    let text = format!(
        "cd /{root}/x\n\"/{work}/x\" (`/{home}/ada`)\nfile:///{root}/x\nproject:/{mac}/ada.\n"
    );
    let expected = [
        format!("1 /{root}/x"),
        format!("2 /{work}/x"),
        format!("2 /{home}/ada"),
        format!("3 /{root}/x"),
        format!("4 /{mac}/ada"),
    ];
    assert_eq!(machine_paths(&text), expected);
    for harmless in [
        format!("project:/{home}/you/notes and /{home}/you."),
        format!("docs/{root}/x, ~/{work}/x, $HOME/{work}/x, ${{DIR}}/{root}/x, ../{root}/x"),
        format!("https://{work}/x and https://example.org/{home}/ada"),
        format!("/{home}work/x /{root}s/x /{home}/ /{home}/<name>"),
    ] {
        assert_eq!(machine_paths(&harmless), Vec::<String>::new(), "{harmless}");
    }
}

#[test]
fn every_source_file_is_under_800_lines() {
    let root = root();
    let files: Vec<(String, usize)> = members(&metadata())
        .iter()
        .flat_map(|(_, directory)| walk(directory))
        .filter(|file| file.extension().is_some_and(|extension| extension == "rs"))
        .filter_map(|file| {
            let name = file.strip_prefix(&root).unwrap_or(&file).display().to_string();
            Some((name, text(&file)?.lines().count()))
        })
        .collect();
    assert!(files.iter().any(|(name, _)| name == "xtask/tests/repository_rules.rs"), "{files:?}");
    let wrong = too_long(&files);
    assert!(wrong.is_empty(), "split by reason to change: {wrong:#?}");
}

#[test]
fn a_source_file_of_800_lines_is_seen() {
    let files = [799, 800, 801].map(|lines| (format!("{lines}.rs"), lines));
    assert_eq!(too_long(&files), ["800.rs has 800 lines", "801.rs has 801 lines"]);
}

/// The edges that are not in [`EDGES`], sorted.
fn undesigned(edges: &BTreeSet<(String, String)>) -> Vec<String> {
    let designed = |from: &str, to: &str| {
        from == FREE || EDGES.iter().any(|(name, may)| *name == from && may.contains(&to))
    };
    edges
        .iter()
        .filter(|(from, to)| !designed(from, to))
        .map(|(from, to)| format!("{from} → {to}"))
        .collect()
}

/// Which of our crates needs which, leaving out what only tests and build scripts need.
fn edges(metadata: &Value) -> BTreeSet<(String, String)> {
    let packages = list(metadata, "packages");
    let ours: BTreeSet<&str> = packages
        .iter()
        .map(|package| string(package, "name"))
        .chain(EDGES.iter().map(|(name, _)| *name))
        .collect();
    packages
        .iter()
        .flat_map(|package| {
            list(package, "dependencies")
                .iter()
                .filter(|dependency| dependency["kind"].is_null())
                .map(|dependency| (string(package, "name"), string(dependency, "name")))
        })
        .filter(|(_, to)| ours.contains(to))
        .map(|(from, to)| (from.to_owned(), to.to_owned()))
        .collect()
}

/// The crates that core must not depend on.
fn outside_core<'a>(names: impl IntoIterator<Item = &'a str>) -> Vec<&'a str> {
    names
        .into_iter()
        .filter(|name| {
            OUTSIDE_CORE.contains(name)
                || OUTSIDE_CORE_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
        })
        .collect()
}

/// What keeps the lints from applying everywhere.
fn unguarded(workspace: &str, crates: &[(String, String)]) -> Vec<String> {
    let levels = [("unsafe_code", "\"forbid\""), ("missing_docs", "\"deny\"")];
    let unset = levels.into_iter().filter_map(|(lint, level)| {
        let value = setting(workspace, &format!("workspace.lints.rust.{lint}"));
        let set = value.is_some_and(|value| value.contains(level));
        (!set).then(|| format!("the workspace does not set {lint} to {level}"))
    });
    let without = crates.iter().filter_map(|(name, manifest)| {
        let takes = setting(manifest, "lints.workspace") == Some("true");
        (!takes).then(|| format!("{name} does not say `[lints] workspace = true`"))
    });
    unset.chain(without).collect()
}

/// The value of a dotted key in a manifest. Enough of TOML for one-line settings.
fn setting<'a>(manifest: &'a str, wanted: &str) -> Option<&'a str> {
    let mut table = String::new();
    for line in manifest.lines() {
        let line = line.split_once(" #").map_or(line, |(setting, _)| setting).trim();
        if let Some(name) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            table = format!("{name}.");
        } else if let Some((key, value)) = line.split_once('=')
            && format!("{table}{}", key.trim()) == wanted
        {
            return Some(value.trim());
        }
    }
    None
}

/// The absolute paths in a text that only exist on one machine, each with its line.
fn machine_paths(text: &str) -> Vec<String> {
    let in_line = |(index, line): (usize, &str)| {
        line.match_indices('/')
            .filter(|(at, _)| begins_a_path(&line[..*at]))
            .filter_map(|(at, _)| machine_path(&line[at..]))
            .map(|path| format!("{} {path}", index + 1))
            .collect::<Vec<_>>()
    };
    text.lines().enumerate().flat_map(in_line).collect()
}

/// Whether a slash after this text starts an absolute path, rather than continuing one.
fn begins_a_path(before: &str) -> bool {
    match before.chars().next_back() {
        Some('/') => before.ends_with("://"),
        Some(c) => !(c.is_alphanumeric() || "_-.~})".contains(c)),
        None => true,
    }
}

/// The path at the start of a text, if it is one of a machine.
fn machine_path(text: &str) -> Option<&str> {
    let path = text.split(|c: char| !(c.is_alphanumeric() || "/_-.".contains(c))).next()?;
    let path = path.trim_end_matches('.');
    let (place, below) = path.strip_prefix('/')?.split_once('/')?;
    let person = below.split('/').next().unwrap_or_default();
    let named = match place {
        "root" | "work" => true,
        "home" | "Users" => !person.is_empty() && person != ANYBODY,
        _ => false,
    };
    named.then_some(path)
}

/// The files that reach [`LINES_BELOW`].
fn too_long(files: &[(String, usize)]) -> Vec<String> {
    files
        .iter()
        .filter(|(_, lines)| *lines >= LINES_BELOW)
        .map(|(name, lines)| format!("{name} has {lines} lines"))
        .collect()
}

/// The top of the repository.
fn root() -> PathBuf {
    let own = Path::new(env!("CARGO_MANIFEST_DIR"));
    own.parent().expect("this crate is a directory of the repository").to_path_buf()
}

fn metadata() -> Value {
    let text = cargo(&["metadata", "--format-version=1", "--no-deps", "--locked"]);
    serde_json::from_str(&text).expect("cargo writes JSON")
}

fn cargo(arguments: &[&str]) -> String {
    let mut command = Command::new(env!("CARGO"));
    let output = command.args(arguments).current_dir(root()).output().expect("cargo runs tests");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "cargo {}: {errors}", arguments.join(" "));
    String::from_utf8(output.stdout).expect("cargo writes UTF-8")
}

/// The crates of the workspace and where they are.
fn members(metadata: &Value) -> Vec<(String, PathBuf)> {
    list(metadata, "packages")
        .iter()
        .map(|package| {
            let directory = Path::new(string(package, "manifest_path")).parent();
            let directory = directory.expect("a manifest is in a directory");
            (string(package, "name").to_owned(), directory.to_path_buf())
        })
        .collect()
}

fn list<'a>(value: &'a Value, field: &str) -> &'a [Value] {
    value[field].as_array().unwrap_or_else(|| panic!("`{field}` is not a list: {value}"))
}

fn string<'a>(value: &'a Value, field: &str) -> &'a str {
    value[field].as_str().unwrap_or_else(|| panic!("`{field}` is not a string: {value}"))
}

/// The files git tracks, and new ones it does not ignore; in a copy without git, all of them.
fn kept_files(root: &Path) -> Vec<PathBuf> {
    let listed = Command::new("git")
        .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
        .current_dir(root)
        .output();
    match listed {
        Ok(output) if output.status.success() && !output.stdout.is_empty() => {
            let names = String::from_utf8(output.stdout).expect("our file names are UTF-8");
            names.split_terminator('\0').map(|name| root.join(name)).collect()
        }
        _ => walk(root),
    }
}

/// The files below a directory, without what cargo builds and git keeps.
fn walk(directory: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    let mut directories = vec![directory.to_path_buf()];
    while let Some(directory) = directories.pop() {
        let entries =
            std::fs::read_dir(&directory).and_then(Iterator::collect::<Result<Vec<_>, _>>);
        for entry in entries.expect("the repository can be read") {
            let kind = entry.file_type().expect("the repository can be read");
            let skipped = entry.file_name() == "target" || entry.file_name() == ".git";
            if kind.is_dir() && !skipped {
                directories.push(entry.path());
            } else if kind.is_file() {
                files.push(entry.path());
            }
        }
    }
    files.sort();
    files
}

/// The content of a file, if it is text. A file that git tracks may have been removed.
fn text(file: &Path) -> Option<String> {
    let bytes = std::fs::read(file).ok()?;
    String::from_utf8(bytes).ok().filter(|text| !text.contains('\0'))
}
