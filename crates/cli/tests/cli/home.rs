//! A temporary home directory with a store: runs the real binary in it.

use std::io::Write;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};

use serde_json::Value;

/// A temporary folder that is `HOME`, with a store in it.
pub(crate) struct Home {
    folder: tempfile::TempDir,
}

/// The output of a command.
#[derive(Debug)]
pub(crate) struct Said {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Home {
    pub(crate) fn new() -> Home {
        Home { folder: tempfile::tempdir().expect("a temporary folder") }
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.folder.path().to_owned()
    }

    pub(crate) fn store(&self) -> PathBuf {
        self.folder.path().join("data").join("rethread.db")
    }

    /// The command, without this machine's environment.
    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_rethread"));
        command.args(args).current_dir(self.folder.path()).env_clear();
        command.env("HOME", self.folder.path()).env("RETHREAD_STORE", self.store());
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    pub(crate) fn run(&self, args: &[&str]) -> Said {
        Said::from(self.command(args).output().expect("it runs"))
    }

    /// Runs with this on standard input.
    pub(crate) fn feed(&self, args: &[&str], input: impl AsRef<[u8]>) -> Said {
        let mut child = self.spawn(args);
        let mut stdin = child.stdin.take().expect("its input");
        let input = input.as_ref().to_owned();
        let writer = std::thread::spawn(move || {
            // A command that refuses its input early closes the pipe.
            if let Err(error) = stdin.write_all(&input) {
                assert_eq!(error.kind(), std::io::ErrorKind::BrokenPipe);
            }
        });
        let output = child.wait_with_output().expect("it ends");
        writer.join().expect("the input is written");
        Said::from(output)
    }

    /// Starts a command whose input stays open.
    pub(crate) fn spawn(&self, args: &[&str]) -> Child {
        self.command(args).stdin(Stdio::piped()).spawn().expect("it starts")
    }

    /// Runs a command and returns the JSON it printed.
    pub(crate) fn json(&self, args: &[&str]) -> Value {
        let said = self.run(&[args, &["--json"]].concat());
        assert_eq!(said.code, 0, "{args:?}: {said:?}");
        serde_json::from_str(&said.out).expect("JSON")
    }

    /// Starts a session of this name with these messages.
    pub(crate) fn session(&self, name: &str, lines: &[&str]) -> Said {
        let said = self.feed(&["append", "--new", "--name", name], lines.join("\n"));
        assert_eq!(said.code, 0, "{said:?}");
        said
    }
}

impl From<Output> for Said {
    fn from(output: Output) -> Said {
        let text = |bytes| String::from_utf8(bytes).expect("text");
        Said {
            code: output.status.code().unwrap_or(-1),
            out: text(output.stdout),
            err: text(output.stderr),
        }
    }
}

impl Said {
    /// The seqs that were acknowledged.
    pub(crate) fn seqs(&self) -> Vec<u64> {
        let line = |line: &str| serde_json::from_str::<Value>(line).expect("JSON")["seq"].as_u64();
        self.out.lines().map(|text| line(text).expect("a seq")).collect()
    }
}

/// A conversation with a tool, in four messages.
pub(crate) const WITH_TOOL: [&str; 4] = [
    r#"{"role":"user","content":"Find all .el files"}"#,
    r#"{"role":"assistant","content":[{"type":"text","text":"I'll search for .el files using glob."},{"type":"tool_use","id":"call_123","name":"glob","input":{"pattern":"*.el"}}]}"#,
    r#"{"role":"tool","content":{"type":"tool_result","tool_use_id":"call_123","content":"file1.el\nfile2.el\nfile3.el"}}"#,
    r#"{"role":"assistant","content":"I found 3 Emacs Lisp files."}"#,
];
