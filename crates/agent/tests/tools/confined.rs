//! No path leads out of the workspace.

use std::os::unix::fs::symlink;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::{CWD, RenameFlags, renameat_with};
use serde_json::json;

use crate::fixture::{Fixture, SECRET, paths};

#[test]
fn no_path_leads_outside() {
    let fixture = Fixture::new();
    fixture.write("a.txt", "inside\n");
    let outside = fixture.outer.path().join("outside");
    symlink(outside.join("secret.txt"), fixture.work().join("link.txt")).unwrap();
    symlink(&outside, fixture.work().join("linked")).unwrap();
    symlink("../outside", fixture.work().join("relative")).unwrap();
    let absolute = outside.join("secret.txt").display().to_string();
    for path in [
        "../outside/secret.txt",
        "x/../../outside/secret.txt",
        &absolute,
        "link.txt",
        "linked/secret.txt",
        "relative/secret.txt",
        "/etc/passwd",
        "/proc/self/environ",
    ] {
        for (tool, input) in [
            ("read_file", json!({"path": path})),
            ("list_dir", json!({"path": path})),
            ("grep", json!({"pattern": "secret", "path": path})),
            ("glob", json!({"pattern": "*", "path": path})),
            ("write_file", json!({"path": path, "content": "overwritten"})),
            ("edit_file", json!({"path": path, "old": "secret", "new": "overwritten"})),
        ] {
            let answer = fixture.run(tool, input);
            let refused = answer.starts_with("error: ");
            assert!(refused && !answer.contains(SECRET), "{tool} {path}: {answer}");
        }
    }
    let answer = fixture.run("read_file", json!({"path": "/etc/passwd"}));
    assert_eq!(
        answer,
        "error: `/etc/passwd` is outside the workspace, and tools stay in the workspace"
    );
    let answer = fixture.run("read_file", json!({"path": "linked/secret.txt"}));
    assert!(answer.contains("`linked/secret.txt` is outside the workspace"), "{answer}");
    let secret = std::fs::read_to_string(outside.join("secret.txt")).unwrap();
    assert_eq!(secret, SECRET, "nothing outside was written");
    assert_eq!(std::fs::read_dir(&outside).unwrap().count(), 1);
}

#[test]
fn a_walk_does_not_follow_links() {
    let fixture = Fixture::new();
    fixture.write("a.txt", "secret word inside\n");
    symlink(fixture.outer.path().join("outside"), fixture.work().join("linked")).unwrap();
    symlink(".", fixture.work().join("loop")).unwrap();
    assert_eq!(paths(&fixture.json("grep", json!({"pattern": "secret"})), "matches"), ["a.txt"]);
    assert_eq!(paths(&fixture.json("glob", json!({"pattern": "*.txt"})), "files"), ["a.txt"]);
    let listed = fixture.json("list_dir", json!({}));
    let kinds: Vec<_> = listed["files"].as_array().unwrap().iter().map(|f| &f["kind"]).collect();
    assert_eq!(kinds, ["file", "link", "link"]);
}

#[test]
fn a_link_swapped_in_during_a_walk_leaks_nothing() {
    let fixture = Fixture::new();
    for n in 0..200 {
        fixture.write(&format!("d{n:03}/plain.txt"), "nothing here\n");
    }
    fixture.write("m/secret.txt", "nothing here\n");
    let (folder, away) = (fixture.work().join("m"), fixture.outer.path().join("away"));
    let outside = fixture.outer.path().join("outside");
    let done = AtomicBool::new(false);
    let mut leaks = Vec::new();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                std::fs::rename(&folder, &away).unwrap();
                symlink(&outside, &folder).unwrap();
                std::fs::remove_file(&folder).unwrap();
                std::fs::rename(&away, &folder).unwrap();
            }
        });
        for _ in 0..60 {
            for (tool, input) in [
                ("grep", json!({"pattern": "secret outside"})),
                ("read_file", json!({"path": "m/secret.txt"})),
                ("grep", json!({"pattern": "outside", "path": "m"})),
            ] {
                let answer = fixture.run(tool, input);
                if answer.contains(SECRET) {
                    leaks.push(format!("{tool}: {answer}"));
                }
            }
        }
        done.store(true, Ordering::Relaxed);
    });
    assert!(leaks.is_empty(), "{leaks:?}");
}

#[test]
fn an_absolute_path_inside_the_workspace_is_fine() {
    let fixture = Fixture::new();
    fixture.write("src/a.rs", "fn a() {}\n");
    let path = fixture.work().join("src/a.rs").display().to_string();
    assert_eq!(fixture.run("read_file", json!({"path": path})), "1\tfn a() {}\n");
    assert_eq!(fixture.run("read_file", json!({"path": "./src/../src/a.rs"})), "1\tfn a() {}\n");
    let folder = fixture.work().join("src").display().to_string();
    assert_eq!(paths(&fixture.json("list_dir", json!({"path": folder})), "files"), ["src/a.rs"]);
}

#[test]
fn a_link_to_a_file_inside_is_read_and_written_through() {
    let fixture = Fixture::new();
    fixture.write("real/a.txt", "one\n");
    symlink("real/a.txt", fixture.work().join("link.txt")).unwrap();
    assert_eq!(fixture.run("read_file", json!({"path": "link.txt"})), "1\tone\n");
    fixture.run("edit_file", json!({"path": "link.txt", "old": "one", "new": "two"}));
    assert_eq!(fixture.text("real/a.txt"), "two\n");
    assert!(fixture.work().join("link.txt").is_symlink());
}

#[test]
fn a_search_goes_through_a_link_that_is_named_and_stays_inside() {
    let fixture = Fixture::new();
    fixture.write("real/deep/a.txt", "needle\n");
    symlink("real", fixture.work().join("alias")).unwrap();
    for path in ["alias", "alias/deep", "real/../real", "alias/../real/deep/a.txt", "real/.."] {
        let found = fixture.json("grep", json!({"pattern": "needle", "path": path}));
        assert_eq!(paths(&found, "matches"), ["real/deep/a.txt"], "{path}");
    }
}

#[test]
fn a_pipe_and_a_folder_are_refused_at_once() {
    let fixture = Fixture::new();
    let pipe = fixture.work().join("pipe");
    let made = std::process::Command::new("mkfifo").arg(&pipe).status().unwrap();
    assert!(made.success());
    let answer = fixture.run("read_file", json!({"path": "pipe"}));
    assert_eq!(answer, "error: `pipe` is a pipe, not a file");
    fixture.write("d/a.txt", "x");
    assert_eq!(
        fixture.run("read_file", json!({"path": "d"})),
        "error: `d` is a folder, not a file"
    );
    assert_eq!(
        fixture.json("grep", json!({"pattern": "."}))["matches"].as_array().unwrap().len(),
        1
    );
    for tool in ["write_file", "edit_file"] {
        let answer = fixture.run(
            tool,
            match tool {
                "write_file" => json!({"path": "pipe", "content": "x"}),
                _ => json!({"path": "pipe", "old": "x", "new": "y"}),
            },
        );
        assert!(answer.starts_with("error: `pipe` is"), "{answer}");
    }
}

#[test]
fn what_a_store_keeps_in_its_directory_is_read_by_no_tool() {
    let fixture = Fixture::new();
    fixture.write("sessions/.rethread/owners/ada/plan.json", SECRET);
    fixture.write("sessions/.rethread/agents/poet.md", "rhymes\n");
    for path in [
        "sessions/.rethread",
        "sessions/.rethread/owners/ada/plan.json",
        "sessions/x/../.rethread/owners/ada/plan.json",
        "sessions/.rethread/agents/../owners/ada/plan.json",
    ] {
        for (tool, input) in [
            ("read_file", json!({"path": path})),
            ("list_dir", json!({"path": path})),
            ("grep", json!({"pattern": ".", "path": path})),
            ("glob", json!({"pattern": "**", "path": path})),
            ("write_file", json!({"path": path, "content": "overwritten"})),
        ] {
            let answer = fixture.run(tool, input);
            let refused = answer.starts_with("error: ");
            assert!(refused && !answer.contains(SECRET), "{tool} {path}: {answer}");
        }
    }
    let agents = fixture.run("read_file", json!({"path": "sessions/.rethread/agents/poet.md"}));
    assert!(agents.contains("rhymes"), "{agents}");
}

#[test]
fn a_link_into_the_store_does_not_get_around_the_rule() {
    let fixture = Fixture::new();
    fixture.write(".rethread/logs/x.log", SECRET);
    symlink(".rethread", fixture.work().join("storelink")).unwrap();
    symlink(".rethread/logs/x.log", fixture.work().join("xlog")).unwrap();
    symlink(".rethread/logs", fixture.work().join("logs")).unwrap();
    fixture.write("deep/a.txt", "plain");
    symlink("../storelink/logs", fixture.work().join("deep/twice")).unwrap();
    for path in ["storelink/logs/x.log", "xlog", "logs/x.log", "deep/twice/x.log", "storelink"] {
        for (tool, input) in [
            ("read_file", json!({"path": path})),
            ("list_dir", json!({"path": path})),
            ("grep", json!({"pattern": ".", "path": path})),
            ("glob", json!({"pattern": "**", "path": path})),
            ("write_file", json!({"path": path, "content": "overwritten"})),
            ("edit_file", json!({"path": path, "old": "secret", "new": "overwritten"})),
        ] {
            let answer = fixture.run(tool, input);
            assert!(answer.contains("belongs to the store"), "{tool} {path}: {answer}");
        }
    }
    let evil = json!({"path": "storelink/evil", "content": "x"});
    assert!(fixture.run("write_file", evil).contains("belongs to the store"));
    assert!(!fixture.work().join(".rethread/evil").exists());
    assert_eq!(fixture.text(".rethread/logs/x.log"), SECRET);
    // A link to anything else is followed, so it is the target that was refused.
    symlink("deep", fixture.work().join("open")).unwrap();
    assert_eq!(fixture.run("read_file", json!({"path": "open/a.txt"})), "1\tplain");
}

#[test]
fn a_link_into_the_store_swapped_in_at_any_moment_leaks_nothing() {
    let fixture = Fixture::new();
    fixture.write(".rethread/logs/m.txt", SECRET);
    fixture.write("m/m.txt", "nothing here\n");
    let (folder, link) = (fixture.work().join("m"), fixture.work().join("link"));
    symlink(".rethread/logs", &link).unwrap();
    let done = AtomicBool::new(false);
    let mut leaks = Vec::new();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                renameat_with(CWD, &folder, CWD, &link, RenameFlags::EXCHANGE).unwrap();
            }
        });
        for _ in 0..400 {
            for (tool, input) in [
                ("read_file", json!({"path": "m/m.txt"})),
                ("grep", json!({"pattern": "secret", "path": "m"})),
                ("grep", json!({"pattern": "secret"})),
                ("write_file", json!({"path": "m/new.txt", "content": "written"})),
            ] {
                let answer = fixture.run(tool, input);
                if answer.contains(SECRET) {
                    leaks.push(format!("{tool}: {answer}"));
                }
            }
        }
        done.store(true, Ordering::Relaxed);
    });
    assert!(leaks.is_empty(), "{leaks:?}");
    assert!(!fixture.work().join(".rethread/logs/new.txt").exists());
}

#[test]
fn what_runs_by_itself_is_not_written() {
    let fixture = Fixture::new();
    fixture.write(".git/hooks/pre-commit.sample", "#!/bin/sh\n");
    fixture.write(".git/config", "[core]\n");
    fixture.write(".rethread/agents/poet.md", "rhymes\n");
    fixture.write("sub/.git/config", "[core]\n");
    symlink(".git/hooks", fixture.work().join("hooks")).unwrap();
    symlink(".git/config", fixture.work().join("settings")).unwrap();
    for path in [
        ".git/hooks/pre-commit",
        ".GIT/hooks/pre-commit",
        "hooks/pre-commit",
        "x/../.git/hooks/pre-commit",
        ".git/config",
        "settings",
        "sub/.git/config",
        "new/.git",
        ".hg/hgrc",
        ".rethread/agents/build.md",
        ".rethread/agents/poet.md",
    ] {
        let write = fixture.run("write_file", json!({"path": path, "content": "evil"}));
        assert!(write.starts_with("error: "), "{path}: {write}");
        for old in ["[core]", "rhymes"] {
            let edit = fixture.run("edit_file", json!({"path": path, "old": old, "new": "evil"}));
            assert!(edit.starts_with("error: "), "{path}: {edit}");
        }
    }
    let told = fixture.run("write_file", json!({"path": "hooks/pre-commit", "content": "evil"}));
    assert!(told.contains("files in `.git` are run"), "{told}");
    assert!(!fixture.work().join(".git/hooks/pre-commit").exists());
    assert_eq!(fixture.text(".git/config"), "[core]\n");
    assert_eq!(fixture.text(".rethread/agents/poet.md"), "rhymes\n");
    // Names that only look similar are ordinary files.
    for path in [".gitignore", "a.git/b", ".github/workflows/x.yml", "git/hooks/x"] {
        let write = fixture.run("write_file", json!({"path": path, "content": "fine"}));
        assert!(write.starts_with("created "), "{path}: {write}");
    }
}

#[test]
fn missing_folders_are_created_below_a_link_too() {
    let fixture = Fixture::new();
    fixture.write("real/a.txt", "one\n");
    symlink("real", fixture.work().join("alias")).unwrap();
    let made = fixture.run("write_file", json!({"path": "alias/x/y/new.txt", "content": "two"}));
    assert_eq!(made, "created `real/x/y/new.txt`: 3 bytes");
    assert_eq!(fixture.text("real/x/y/new.txt"), "two");
    let lost = fixture.run("write_file", json!({"path": "none/../new.txt", "content": "x"}));
    assert!(lost.starts_with("error: there is no"), "{lost}");
    symlink("nowhere", fixture.work().join("dangling")).unwrap();
    let dangling = fixture.run("write_file", json!({"path": "dangling", "content": "x"}));
    assert!(dangling.starts_with("error: there is no"), "{dangling}");
}
