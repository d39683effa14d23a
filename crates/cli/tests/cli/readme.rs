//! The README's commands, run as they are written, in a terminal of 80 columns.

use crate::home::Home;
use crate::terminal::Terminal;

/// A command of the README, with its lines of input, and the output that is shown for it.
struct Shown {
    command: String,
    output: String,
}

/// The commands of a section of the README.
fn commands(section: &str) -> Vec<Shown> {
    let readme = include_str!("../../../../README.md");
    let (_, rest) = readme.split_once(&format!("## {section}\n")).expect("the section");
    let text = rest.split_once("\n## ").map_or(rest, |(text, _)| text);
    let blocks = text.split("```console\n").skip(1).map(|rest| rest.split("```").next());
    let mut commands: Vec<Shown> = Vec::new();
    let mut is_input = false;
    for line in blocks.flatten().flat_map(str::lines) {
        if let Some(command) = line.strip_prefix("$ ") {
            is_input = command.ends_with("<<'END'");
            commands.push(Shown { command: format!("{command}\n"), output: String::new() });
            continue;
        }
        let last = commands.last_mut().expect("a block begins with a command");
        let into = if is_input { &mut last.command } else { &mut last.output };
        *into += &format!("{line}\n");
        is_input = is_input && line != "END";
    }
    commands
}

/// Replaces what differs between two runs: everything that matches `template`, in which
/// `9` is any digit and `f` any hexadecimal digit.
fn masked(text: &str, template: &str) -> String {
    let (text, form): (Vec<char>, Vec<char>) = (text.chars().collect(), template.chars().collect());
    let fits = |at: usize| {
        let found = text.get(at..at + form.len()).unwrap_or_default();
        let alike = |(form, found): (&char, &char)| match form {
            '9' => found.is_ascii_digit(),
            'f' => found.is_ascii_hexdigit(),
            other => other == found,
        };
        found.len() == form.len() && form.iter().zip(found).all(alike)
    };
    let (mut masked, mut at) = (String::new(), 0);
    while at < text.len() {
        if fits(at) {
            masked += template;
            at += form.len();
        } else {
            masked.push(text[at]);
            at += 1;
        }
    }
    masked
}

#[test]
fn the_tour_of_the_readme_prints_what_the_readme_shows() {
    let home = Home::new();
    std::fs::create_dir(home.path().join("rethread")).expect("made");
    let tour = commands("A one-minute tour of the engine");
    assert!(tour.len() > 10, "the tour is not where it was");
    let mut script = String::from("stty cols 80 rows 50\ncd rethread\n");
    script += &format!("rethread() {{ {} \"$@\"; }}\n", env!("CARGO_BIN_EXE_rethread"));
    let is_setting = |shown: &&Shown| shown.command.starts_with("alias ");
    let run: Vec<&Shown> = tour.iter().filter(|shown| !is_setting(shown)).collect();
    for shown in &run {
        script += &format!("echo '$ '\n{}", shown.command);
    }
    let variables = [("PAGER", "cat".to_owned())];
    let printed = Terminal::run(&home, &script, &variables).all_bytes();
    let printed = String::from_utf8(printed).expect("text").replace('\r', "");
    let printed = printed.replace(&home.path().display().to_string(), "/home/you");
    let expected: String = run.iter().map(|shown| format!("$ \n{}", shown.output)).collect();
    let [printed, expected] = [printed, expected].map(|text| {
        // Blank lines separate blocks of the README; the output has its own.
        let lines = text.lines().filter(|line| !line.is_empty());
        let text: String = lines.map(|line| format!("{line}\n")).collect();
        let text = masked(&text, "ffffffff-ffff-ffff-ffff-ffffffffffff");
        masked(&text, "9999-99-99 99:99")
    });
    assert_eq!(printed, expected);
}
