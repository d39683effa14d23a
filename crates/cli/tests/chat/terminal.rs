//! A person at a terminal.

use std::io::{Read, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use crate::home::Home;

/// How long anything may take before a test has failed.
const PATIENCE: Duration = Duration::from_secs(60);

/// A program in a pseudo-terminal, made by `script`.
pub(crate) struct Terminal {
    child: Child,
    keys: ChildStdin,
    screen: Arc<(Mutex<Screen>, Condvar)>,
    /// How much of the output was already matched.
    seen: usize,
}

#[derive(Default)]
struct Screen {
    bytes: Vec<u8>,
    text: String,
    ended: bool,
}

impl Terminal {
    /// Starts `rethread` with these arguments and variables.
    pub(crate) fn start(home: &Home, args: &[&str], variables: &[(&str, String)]) -> Terminal {
        let all = [&[env!("CARGO_BIN_EXE_rethread")], args].concat();
        // The window is wide, so that what is waited for is on one line. The shell prints its pid,
        // and becomes the program: a test may kill it.
        let line = format!("stty cols 200 rows 50; echo \"pid $$.\"; exec {}", quoted(&all));
        Terminal::run(home, &line, variables)
    }

    /// Starts a shell with this line and these variables.
    pub(crate) fn run(home: &Home, line: &str, variables: &[(&str, String)]) -> Terminal {
        let mut command = Command::new("script");
        command.args(["-qefc", line, "/dev/null"]).current_dir(home.path()).env_clear();
        command.env("HOME", home.path()).env("RETHREAD_STORE", home.store());
        command.env("PATH", "/usr/bin:/bin").env("TERM", "xterm").env("SHELL", "/bin/sh");
        command.env("TZ", "UTC").env("NO_COLOR", "1");
        command.envs(variables.iter().map(|(name, value)| (name, value)));
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child =
            command.spawn().expect("`script` (package bsdutils) makes pseudo-terminals");
        let keys = child.stdin.take().expect("its input");
        let mut output = child.stdout.take().expect("its output");
        let screen: Arc<(Mutex<Screen>, Condvar)> = Arc::default();
        let shared = screen.clone();
        std::thread::spawn(move || {
            let mut buffer = [0; 4096];
            loop {
                let read = output.read(&mut buffer).unwrap_or(0);
                let mut screen = shared.0.lock().expect("whole");
                screen.bytes.extend_from_slice(&buffer[..read]);
                screen.text = String::from_utf8_lossy(&screen.bytes).replace('\r', "");
                screen.ended = read == 0;
                shared.1.notify_all();
                if read == 0 {
                    return;
                }
            }
        });
        Terminal { child, keys, screen, seen: 0 }
    }

    /// Waits until this is shown after what was waited for before. Returns the text between.
    pub(crate) fn expect(&mut self, text: &str) -> String {
        let began = Instant::now();
        let mut screen = self.screen.0.lock().expect("whole");
        loop {
            if let Some(at) = screen.text[self.seen..].find(text) {
                let between = screen.text[self.seen..self.seen + at].to_owned();
                self.seen += at + text.len();
                return between;
            }
            assert!(
                !screen.ended && began.elapsed() < PATIENCE,
                "`{text}` was not shown after:\n{}",
                &screen.text[self.seen..]
            );
            screen = self.screen.1.wait_timeout(screen, Duration::from_secs(1)).expect("whole").0;
        }
    }

    /// Waits until `shown` returns something for all the bytes written so far.
    #[allow(dead_code, reason = "the tests of the Emacs client look at whole screens")]
    pub(crate) fn wait<T>(&self, what: &str, shown: impl Fn(&[u8]) -> Result<T, String>) -> T {
        self.look(PATIENCE, shown)
            .unwrap_or_else(|instead| panic!("{what} was not shown, but:\n{instead}"))
    }

    /// As [`Terminal::wait`], but at most this long; otherwise returns the last result of `shown`.
    #[allow(dead_code, reason = "the tests of the Emacs client look at whole screens")]
    pub(crate) fn look<T>(
        &self,
        patience: Duration,
        shown: impl Fn(&[u8]) -> Result<T, String>,
    ) -> Result<T, String> {
        let began = Instant::now();
        let mut screen = self.screen.0.lock().expect("whole");
        loop {
            match shown(&screen.bytes) {
                Err(_) if !screen.ended && began.elapsed() < patience => {}
                seen => return seen,
            }
            screen = self.screen.1.wait_timeout(screen, Duration::from_secs(1)).expect("whole").0;
        }
    }

    /// Waits until the program has ended, and returns every byte it wrote.
    #[allow(dead_code, reason = "the tests of the Emacs client look at whole screens")]
    pub(crate) fn all_bytes(&self) -> Vec<u8> {
        let began = Instant::now();
        let mut screen = self.screen.0.lock().expect("whole");
        while !screen.ended {
            assert!(began.elapsed() < PATIENCE, "it did not end after:\n{}", screen.text);
            screen = self.screen.1.wait_timeout(screen, Duration::from_secs(1)).expect("whole").0;
        }
        screen.bytes.clone()
    }

    /// Types a line.
    pub(crate) fn say(&mut self, line: &str) {
        self.press(format!("{line}\n"));
    }

    /// Presses keys.
    pub(crate) fn press(&mut self, keys: impl AsRef<[u8]>) {
        self.keys.write_all(keys.as_ref()).expect("typed");
        self.keys.flush().expect("typed");
    }

    /// The id of the process.
    pub(crate) fn pid(&mut self) -> String {
        self.expect("pid ");
        self.expect(".")
    }

    /// Waits for the end. Returns what was shown since, and the exit code.
    pub(crate) fn end(mut self) -> (String, i32) {
        let code = self.child.wait().expect("it ends").code().unwrap_or(-1);
        let mut screen = self.screen.0.lock().expect("whole");
        while !screen.ended {
            screen = self.screen.1.wait(screen).expect("whole");
        }
        (screen.text[self.seen..].to_owned(), code)
    }

    /// Everything that was shown.
    pub(crate) fn all(&self) -> String {
        self.screen.0.lock().expect("whole").text.clone()
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // A failed test leaves no process running.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// Words as a shell takes them.
pub(crate) fn quoted(words: &[&str]) -> String {
    let quoted = |word: &&str| format!("'{}'", word.replace('\'', "'\\''"));
    words.iter().map(quoted).collect::<Vec<_>>().join(" ")
}

/// Kills a process at once, as a crash would.
pub(crate) fn kill(pid: &str) {
    signal(pid, "KILL");
    // The signal may be delivered later; wait until the process is gone.
    let state = || std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let over = |stat: &str| stat.rsplit_once(')').is_none_or(|(_, rest)| rest.starts_with(" Z"));
    while !over(&state()) {
        std::thread::yield_now();
    }
}

/// Sends a signal. The shell has it built in; a program of that name is not everywhere.
pub(crate) fn signal(pid: &str, name: &str) {
    let done = Command::new("sh").args(["-c", &format!("kill -{name} {pid}")]).status();
    assert!(done.expect("a shell").success());
}
