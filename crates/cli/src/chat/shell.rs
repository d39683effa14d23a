//! `!command`: runs a command of the user, whose output is sent with the next question.
//!
//! It runs as in their shell: in this folder, with their environment, not confined. Its lines are
//! shown as they arrive. It has no terminal input; Esc ends it, and pressed again kills it.

use std::collections::VecDeque;
use std::io::Read;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::sync::mpsc;

use super::Chat;
use super::command_output::visible;
use super::keys::Key;
use super::output::Look;
use super::paint::Paint;
use super::screen::Screen;
use super::tool_line::lasted;
use super::turn_view::happening;
use super::typed_ahead::TypedAhead;
use crate::errors::Error;
use crate::out::{count, one_line, wrapped};

/// Bytes of output that the model gets: of its beginning, and of its end.
const KEPT_BYTES: usize = 32 << 10;

/// How long to wait for output after the command is over. A leftover process may keep the pipe open
/// forever.
const OUTPUT_WAIT: Duration = Duration::from_secs(1);

/// How often the elapsed time is updated.
const TICK: Duration = Duration::from_millis(250);

/// Pieces of output that are read ahead; then the command waits.
const PIECES: usize = 64;

/// What happens to a command.
enum ChildEvent {
    Wrote(Vec<u8>),
    Ended(std::io::Result<ExitStatus>),
}

/// The beginning and the end of an output.
#[derive(Default)]
struct Kept {
    head: Vec<u8>,
    tail: VecDeque<u8>,
    bytes: u64,
}

impl Kept {
    fn push(&mut self, bytes: &[u8]) {
        self.bytes += bytes.len() as u64;
        let (first, rest) = bytes.split_at(bytes.len().min(KEPT_BYTES - self.head.len()));
        self.head.extend_from_slice(first);
        self.tail.extend(rest);
        self.tail.drain(..self.tail.len().saturating_sub(KEPT_BYTES));
    }

    /// What is kept, with a note where something is missing.
    fn text(&self) -> String {
        let tail: Vec<u8> = self.tail.iter().copied().collect();
        let left_out = self.bytes - (self.head.len() + tail.len()) as u64;
        match left_out {
            0 => String::from_utf8_lossy(&[&self.head[..], &tail].concat()).into_owned(),
            _ => format!(
                "{}\n[{left_out} bytes left out]\n{}",
                String::from_utf8_lossy(&self.head),
                String::from_utf8_lossy(&tail)
            ),
        }
    }
}

impl Chat {
    /// Runs a command, shows its output, and keeps it for the next question.
    pub(super) async fn run_own(&mut self, command: &str) -> Result<(), Error> {
        let is_rich = self.voice.look == Look::Rich && self.input.edits();
        let paint = Paint::of(&self.voice.style());
        let (child, mut events) = start(command, self.runner.responder.workspace.as_deref())?;
        let group = Pid::from_child(&child);
        watch_end(child, events.1);
        let (mut screen, mut typed) = (Screen::new(), TypedAhead::default());
        let (began, mut clock) = (Instant::now(), tokio::time::interval(TICK));
        let (mut kept, mut line, mut status) = (Kept::default(), Vec::new(), None);
        let mut keys_end = !is_rich;
        let mut deadline = None;
        let mut is_stopped = false;
        let mut done = String::new();
        if is_rich {
            self.input.watch();
        }
        loop {
            tokio::select! {
                biased;
                terminated = self.signals.next() => {
                    self.terminated |= terminated;
                    end(group, std::mem::replace(&mut is_stopped, true));
                }
                _ = self.window_change.recv(), if is_rich => {}
                key = self.input.next_key(), if !keys_end => match key {
                    Some((_, Key::Escape | Key::Interrupt)) => {
                        end(group, std::mem::replace(&mut is_stopped, true));
                    }
                    Some((_, Key::Suspend)) => self.suspend(&mut screen),
                    Some((_, key)) if self.take_report(&key) => {}
                    Some((_, key)) => drop(typed.key(&key)),
                    None => keys_end = true,
                },
                event = events.0.recv() => match event {
                    Some(ChildEvent::Wrote(bytes)) => {
                        kept.push(&bytes);
                        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
                            line.extend_from_slice(piece);
                            if line.ends_with(b"\n") || line.len() > KEPT_BYTES {
                                done += &shown(&std::mem::take(&mut line), screen.columns);
                            }
                        }
                    }
                    Some(ChildEvent::Ended(ended)) => {
                        status = Some(ended?);
                        deadline = Some(tokio::time::Instant::now() + OUTPUT_WAIT);
                    }
                    None => break,
                },
                () = tokio::time::sleep_until(deadline.unwrap_or_else(tokio::time::Instant::now)),
                    if deadline.is_some() => break,
                _ = clock.tick() => {}
            }
            if is_rich {
                let what = format!("running {}", one_line(command));
                let stop = if is_stopped { " · Esc kills it" } else { " · Esc stops" };
                let live = happening(&what, began.elapsed(), stop, screen.columns, paint);
                let typed = typed.shown(screen.columns, paint);
                screen.draw_if_settled(&mut done, std::iter::once(live).chain(typed).collect())?;
            } else {
                self.voice.begin(&std::mem::take(&mut done));
            }
        }
        let last = if line.is_empty() { String::new() } else { shown(&line, screen.columns) };
        if is_rich {
            screen.settled().await;
            screen.end(&(done + &last))?;
            self.input.end_watch(typed, is_stopped);
        } else {
            self.voice.begin(&last);
        }
        let how = match status.and_then(|status| status.code()) {
            Some(code) => format!("exit {code}"),
            None => "stopped by a signal".to_owned(),
        };
        let took = began.elapsed();
        let time =
            if took.as_secs() >= 1 { format!(" · {}", lasted(took)) } else { String::new() };
        // A command without output is reported too: that it ended well says enough.
        let kept_bytes = match kept.bytes {
            0 => String::new(),
            1 => " · 1 byte goes with your next question".to_owned(),
            bytes => format!(" · {} bytes go with your next question", count(bytes)),
        };
        self.voice.notice(format_args!("\x1b[2m({how}{time}{kept_bytes})\x1b[0m"));
        let output = kept.text();
        let output = output.trim_end();
        self.outputs.push(format!("[I ran `{command}`: {how}]\n\n{output}\n\n[End of output]\n\n"));
        Ok(())
    }
}

type Pipes = (mpsc::Receiver<ChildEvent>, mpsc::Sender<ChildEvent>);

/// Starts a command with its output in a pipe, which a thread reads.
fn start(command: &str, folder: Option<&str>) -> Result<(Child, Pipes), Error> {
    let (mut output, writer) = std::io::pipe()?;
    let mut shell = Command::new("sh");
    shell.args(["-c", command]).stdin(Stdio::null());
    shell.stdout(writer.try_clone()?).stderr(writer).process_group(0);
    if let Some(folder) = folder {
        shell.current_dir(folder);
    }
    let child = shell.spawn()?;
    // The ends it writes to are closed here, so that the pipe ends with it.
    drop(shell);
    let (sender, events) = mpsc::channel(PIECES);
    let writer = sender.clone();
    std::thread::spawn(move || {
        let mut buffer = [0; 4_096];
        while let Ok(read @ 1..) = output.read(&mut buffer) {
            if writer.blocking_send(ChildEvent::Wrote(buffer[..read].to_vec())).is_err() {
                return;
            }
        }
    });
    Ok((child, (events, sender)))
}

/// Resolves when a command is over.
fn watch_end(mut child: Child, sender: mpsc::Sender<ChildEvent>) {
    std::thread::spawn(move || drop(sender.blocking_send(ChildEvent::Ended(child.wait()))));
}

/// Ends a command and its children; the second time at once.
fn end(group: Pid, again: bool) {
    let signal = if again { Signal::KILL } else { Signal::TERM };
    kill_process_group(group, signal).ok();
}

/// A line of output, in a window.
fn shown(line: &[u8], columns: usize) -> String {
    let line = String::from_utf8_lossy(line);
    wrapped(&visible(line.trim_end_matches('\n')), columns)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_beginning_and_the_end_of_a_long_output_are_kept() {
        let mut kept = Kept::default();
        kept.push(b"all of it");
        assert_eq!(kept.text(), "all of it");
        let mut kept = Kept::default();
        for piece in vec![b'a'; KEPT_BYTES].chunks(1_000) {
            kept.push(piece);
        }
        kept.push(&vec![b'b'; KEPT_BYTES]);
        assert_eq!(kept.text().len(), 2 * KEPT_BYTES);
        kept.push(b"c");
        let text = kept.text();
        assert!(
            text.contains("a\n[1 bytes left out]\nb") && text.ends_with("bc"),
            "{}",
            text.len()
        );
    }
}
