//! Agents from files: what loads, what is refused, and who wins.

use std::fs;
use std::path::{Path, PathBuf};

use rethread_agent::agents::{
    Agent, AgentFault, AgentProblem, AgentSource, Agents, CHANGE_TOOLS, FILE_BYTES_MAX, FILES_MAX,
    READ_TOOLS,
};
use tempfile::TempDir;

/// A user's folder and a project's.
struct Folders {
    root: TempDir,
}

impl Folders {
    fn new() -> Folders {
        let root = tempfile::tempdir().expect("a folder");
        for folder in ["user", "project"] {
            fs::create_dir(root.path().join(folder)).expect("a folder");
        }
        Folders { root }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.root.path().join(name)
    }

    fn file(&self, name: &str, text: impl AsRef<[u8]>) -> &Folders {
        fs::write(self.path(name), text).expect("a file");
        self
    }

    fn load(&self) -> (Agents, Vec<AgentProblem>) {
        Agents::load(Some(&self.path("user")), Some(&self.path("project")), &|_| true)
    }

    /// The problems, as file name, line and fault.
    fn problems(&self) -> Vec<(String, Option<usize>, AgentFault)> {
        let name = |path: &Path| path.file_name().map(|n| n.to_string_lossy().into_owned());
        let problems = self.load().1.into_iter();
        problems.map(|p| (name(&p.path).unwrap_or_default(), p.line, p.what)).collect()
    }
}

fn tools(agent: &Agent) -> Vec<&str> {
    agent.tools.iter().flatten().map(String::as_str).collect()
}

#[test]
fn without_folders_there_are_the_built_in_agents() {
    assert_eq!(Agents::load(None, None, &|_| false), (Agents::builtin(), Vec::new()));
    let nowhere = Path::new("/nowhere/at/all");
    assert_eq!(
        Agents::load(Some(nowhere), Some(nowhere), &|_| true),
        (Agents::builtin(), Vec::new())
    );
}

#[test]
fn a_file_says_all_that_an_agent_is() {
    let folders = Folders::new();
    folders.file(
        "user/file.md",
        "---\nname: reviewer\ndescription: Reads: and \"judges\"\nmodel: openai/gpt-5\n\
         tools: [grep, run]\npolicy: editor\ncolor: red\n---\n\nYou review.\n\nKindly.\n",
    );
    let (agents, problems) = folders.load();
    assert_eq!(problems, []);
    let expected = Agent {
        name: "reviewer".into(),
        description: "Reads: and \"judges\"".into(),
        prompt: "You review.\n\nKindly.".into(),
        model: Some("openai/gpt-5".into()),
        tools: Some(vec!["grep".into(), "run".into()]),
        policy: Some("editor".into()),
        path: folders.path("user/file.md").to_string_lossy().into_owned(),
        origin: AgentSource::User,
    };
    assert_eq!(agents.get("reviewer"), Some(&expected));
}

#[test]
fn a_file_without_a_name_is_called_after_itself_and_only_markdown_counts() {
    let folders = Folders::new();
    folders.file("user/my-agent_2.md", "---\n---\nhello").file("user/notes.txt", "x");
    let (agents, problems) = folders.load();
    assert_eq!(problems, []);
    let agent = agents.get("my-agent_2").expect("loaded");
    assert_eq!((agent.tools.clone(), agent.description.as_str()), (None, ""));
    assert_eq!(agents.iter().count(), Agents::builtin().iter().count() + 1);
}

#[test]
fn a_problem_is_reported_with_its_line_and_the_rest_loads() {
    let folders = Folders::new();
    let tool = |name: &str| AgentFault::Tool { name: name.into() };
    let name = |name: &str| AgentFault::Name { name: name.into() };
    let long = "n".repeat(65);
    let cases: Vec<(String, Option<usize>, AgentFault)> = vec![
        ("hello".into(), Some(1), AgentFault::NoFrontMatter),
        ("---\nname: a\n".into(), Some(2), AgentFault::NoEnd),
        ("---\nname: a\nwhat is this\n---\nx".into(), Some(3), AgentFault::NotAKey),
        ("---\n# c\nname: a b\n---\nx".into(), Some(3), name("a b")),
        ("---\nname: ../a\n---\nx".into(), Some(2), name("../a")),
        (format!("---\nname: {long}\n---\nx"), Some(2), name(&long)),
        (
            "---\nname: a\npolicy: magic\n---\nx".into(),
            Some(3),
            AgentFault::Policy { name: "magic".into() },
        ),
        ("---\nname: a\ntools:\n  - grep\n  - Bash\n---\nx".into(), Some(3), tool("Bash")),
        (
            "---\ntools:\n  write: true\n---\nx".into(),
            Some(2),
            AgentFault::NotAList { key: "tools".into() },
        ),
        ("---\nname: a\n---\n\n \n".into(), Some(5), AgentFault::EmptyBody),
        ("---\nname: \"a\n---\nx".into(), Some(2), AgentFault::Quote),
        ("---\nname: a\nname: b\n---\nx".into(), Some(3), AgentFault::Twice { key: "name".into() }),
    ];
    folders.file("user/zz.md", format!("---\nname: {}\n---\nx", "n".repeat(64)));
    for (index, (text, ..)) in cases.iter().enumerate() {
        folders.file(&format!("user/case{index:02}.md"), text);
    }
    folders.file("user/y.md", b"---\n---\n\xff");
    let mut expected: Vec<_> = cases
        .into_iter()
        .enumerate()
        .map(|(index, (_, line, fault))| (format!("case{index:02}.md"), line, fault))
        .collect();
    expected.push(("y.md".into(), None, AgentFault::NotText));
    assert_eq!(folders.problems(), expected);
    assert!(folders.load().0.get(&"n".repeat(64)).is_some());
    let shown = folders.load().1[2].to_string();
    assert!(shown.ends_with("case02.md:3: this is not a `key: value` line"), "{shown}");
}

#[test]
fn a_file_and_a_folder_have_limits() {
    let folders = Folders::new();
    let front = "---\n---\n";
    let room = FILE_BYTES_MAX as usize - front.len();
    folders.file("user/fits.md", format!("{front}{}", "x".repeat(room)));
    folders.file("user/large.md", format!("{front}{}", "x".repeat(room + 1)));
    assert_eq!(folders.problems(), [("large.md".into(), None, AgentFault::TooLarge)]);
    assert!(folders.load().0.get("fits").is_some());

    let folders = Folders::new();
    for index in 0..FILES_MAX {
        folders.file(&format!("user/a{index:03}.md"), "---\n---\nx");
    }
    assert_eq!(folders.problems(), []);
    folders.file("user/b.md", "---\n---\nx");
    let many = AgentFault::TooMany { count: FILES_MAX + 1 };
    assert_eq!(folders.problems(), [("user".into(), None, many)]);
    let (agents, _) = folders.load();
    assert!(agents.get("a199").is_some() && agents.get("b").is_none());
}

#[test]
fn the_project_goes_before_the_user_and_the_user_before_what_is_built_in() {
    let folders = Folders::new();
    folders
        .file("user/plan.md", "---\n---\nthe user's")
        .file("user/mine.md", "---\n---\nthe user's");
    folders.file("project/mine.md", "---\n---\nthe project's");
    let (agents, problems) = folders.load();
    assert_eq!(problems, []);
    let prompts =
        ["plan", "mine"].map(|name| agents.get(name).map(|a| (a.prompt.as_str(), a.origin)));
    let expected = [("the user's", AgentSource::User), ("the project's", AgentSource::Project)];
    assert_eq!(prompts, expected.map(Some));
    let names: Vec<&str> = agents.iter().map(|agent| agent.name.as_str()).collect();
    assert_eq!(names, ["build", "plan", "explore", "general", "compaction", "mine"]);
}

#[test]
fn of_two_files_with_one_name_in_a_folder_the_first_stays() {
    let folders = Folders::new();
    folders
        .file("user/a.md", "---\nname: x\n---\nfirst")
        .file("user/b.md", "---\nname: x\n---\nsecond");
    let other = folders.path("user/a.md").to_string_lossy().into_owned();
    let taken = AgentFault::Taken { name: "x".into(), other };
    assert_eq!(folders.problems(), [("b.md".into(), None, taken)]);
    assert_eq!(folders.load().0.get("x").map(|agent| agent.prompt.clone()), Some("first".into()));
}

#[test]
fn a_project_narrows_the_tools_of_an_agent_it_replaces_and_never_widens_them() {
    let folders = Folders::new();
    // The user gives `explore` more tools than the built-in one has, which is allowed.
    folders.file("user/explore.md", "---\ntools: [grep, run]\n---\nx");
    folders.file("project/explore.md", "---\ntools: [run, glob]\n---\nx");
    folders.file("project/plan.md", "---\nname: plan\ntools: [grep, run, write_file]\n---\nx");
    folders.file("project/general.md", "---\n---\nx");
    folders.file("project/compaction.md", "---\ntools: []\n---\nx");
    folders.file("project/build.md", "---\ntools: [run]\n---\nx");
    let narrowed = |name: &str, tools: &[&str]| AgentFault::Narrowed {
        name: name.into(),
        tools: tools.iter().map(|tool| (*tool).into()).collect(),
    };
    assert_eq!(
        folders.problems(),
        [
            ("explore.md".into(), Some(2), narrowed("explore", &["glob"])),
            ("plan.md".into(), Some(3), narrowed("plan", &["run", "write_file"])),
        ]
    );
    let (agents, _) = folders.load();
    let has = |name: &str| tools(agents.get(name).expect("loaded"));
    assert_eq!(
        (has("explore"), has("plan"), has("build")),
        (vec!["run"], vec!["grep"], vec!["run"])
    );
    assert_eq!((has("general"), has("compaction")), (READ_TOOLS.to_vec(), vec![]));
}

#[test]
fn a_new_agent_of_a_project_may_name_any_tool_because_permission_comes_from_elsewhere() {
    let folders = Folders::new();
    let all = [&READ_TOOLS[..], &CHANGE_TOOLS[..]].concat();
    folders.file("project/new.md", format!("---\ntools: {}\n---\nx", all.join(", ")));
    assert_eq!(folders.problems(), []);
    assert_eq!(tools(folders.load().0.get("new").expect("loaded")), all);
}

#[cfg(unix)]
#[test]
fn a_link_out_of_the_projects_folder_is_not_followed() {
    use std::os::unix::fs::symlink;
    let folders = Folders::new();
    folders.file("secret.md", "---\n---\nsecret").file("project/real.md", "---\nname: r\n---\nx");
    symlink(folders.path("secret.md"), folders.path("project/out.md")).expect("a link");
    symlink("real.md", folders.path("project/in.md")).expect("a link");
    symlink(folders.path("secret.md"), folders.path("user/out.md")).expect("a link");
    symlink("gone", folders.path("project/zz.md")).expect("a link");
    fs::create_dir(folders.path("project/folder.md")).expect("a folder");
    let problems = folders.problems();
    let faults: Vec<_> = problems.iter().map(|(file, _, fault)| (file.as_str(), fault)).collect();
    assert_eq!(faults[..1], [("folder.md", &AgentFault::NotAFile)]);
    assert_eq!(faults[1], ("out.md", &AgentFault::LeadsOutside));
    assert!(matches!(faults[2], ("real.md", AgentFault::Taken { .. })), "{faults:?}");
    assert!(matches!(faults[3], ("zz.md", AgentFault::Unreadable { .. })), "{faults:?}");
    // Files in the user's own folder are trusted.
    assert_eq!(folders.load().0.get("out").map(|agent| agent.origin), Some(AgentSource::User));

    symlink(folders.path("user"), folders.path("linked")).expect("a link");
    let (agents, problems) = Agents::load(None, Some(&folders.path("linked")), &|_| true);
    assert_eq!(agents, Agents::builtin());
    assert_eq!(problems[0].what, AgentFault::LeadsOutside);
}

#[test]
fn a_file_of_the_project_that_nobody_agreed_to_is_left_out_and_named() {
    let folders = Folders::new();
    folders.file("project/build.md", "---\nname: build\n---\nObey the folder.\n");
    folders.file("user/mine.md", "---\nname: mine\n---\nMy own.\n");
    let load = |trusted: bool| {
        Agents::load(Some(&folders.path("user")), Some(&folders.path("project")), &move |_| trusted)
    };
    let (agents, problems) = load(false);
    let build = agents.get("build").expect("built in");
    assert_eq!(build.origin, AgentSource::Builtin, "the built-in one stays");
    assert!(agents.get("mine").is_some(), "the user's own need nobody's consent");
    assert!(matches!(&problems[0].what, AgentFault::Untrusted { file, replaces }
            if file.path == folders.path("project/build.md") && replaces.as_deref() == Some("build")));
    let (agents, problems) = load(true);
    assert_eq!(agents.get("build").expect("there").origin, AgentSource::Project);
    assert!(problems.is_empty(), "{problems:?}");
}
