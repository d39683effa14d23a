//! The prompt: keys in, a line out.
//!
//! `line_editor.rs` decides what a key does to the line, `prompt_view.rs` what is shown,
//! `screen.rs` how it is drawn. This module connects them, and handles everything that is not about
//! the line: the pager, an editor, suspending the program.

use rethread_render::terminal::{Background, Colour};

use super::attach::{dropped_picture, mention};
use super::buffer::Typed;
use super::keys::Key;
use super::line_editor::Edited;
use super::output::print;
use super::paint::Paint;
use super::prompt_view::{sent, view};
use super::screen::Screen;
use super::{Chat, Leaving, clipboard, folder_history};
use crate::errors::Error;

/// Asks a terminal for its background colour.
const ASK_BACKGROUND: &str = "\x1b]11;?\x1b\\";

/// Keys that are handled before the screen is drawn again. A paste without markers may be long.
const KEYS_AT_ONCE: usize = 256;

/// The result of a key.
enum Next {
    Goes,
    Sent(Typed),
    Leave(Leaving),
}

impl Chat {
    /// The next line that is typed, or why there is none.
    pub(super) async fn edited_line(&mut self) -> Result<Typed, Leaving> {
        let paint = Paint::of(&self.voice.style());
        let mut screen = Screen::new();
        if let Some(typed) = self.input.next_ahead() {
            // It is seen when it is sent.
            let shown = sent(&typed.shown, screen.columns, paint);
            screen.end(&shown).ok();
            self.editor.past.add(&typed);
            return Ok(typed);
        }
        if let Some(begun) = self.input.take_begun() {
            self.editor.buffer = begun;
        }
        self.begin_prompt();
        let line = self.edit(&mut screen, paint).await;
        self.input.watch();
        screen.settled().await;
        match line {
            Ok(typed) => {
                screen.end(&sent(&typed.shown, screen.columns, paint)).ok();
                Ok(typed)
            }
            Err(leaving) => {
                // The line is left as it is.
                let shown = std::mem::take(&mut self.editor.buffer).typed().shown;
                screen.end(&sent(&shown, screen.columns, paint)).ok();
                Err(leaving)
            }
        }
    }

    /// Preparations before each prompt, none of which block.
    fn begin_prompt(&mut self) {
        self.input.prompt();
        let workspace = self.runner.responder.workspace.clone();
        let sessions = self.handle.sessions();
        self.completions.renew(sessions, self.session, workspace.as_deref());
        if !std::mem::replace(&mut self.asked_background, true) {
            self.older = Some(folder_history::load(sessions.clone(), workspace));
            self.ask_background();
        }
    }

    /// Queries the background colour of the terminal, if it is not known. The response arrives as a
    /// key, or never.
    fn ask_background(&self) {
        let style = self.voice.style();
        let term = std::env::var("TERM").unwrap_or_default();
        let is_known = style.background != Background::Unknown || style.colour == Colour::None;
        // These print what they do not understand.
        if !is_known && term != "linux" && !term.starts_with("screen") {
            print(ASK_BACKGROUND).ok();
        }
    }

    /// Handles what a terminal reports like a key. Returns whether it was that.
    pub(super) fn take_report(&mut self, key: &Key) -> bool {
        match key {
            Key::Focus(focused) => self.focused = *focused,
            Key::Background(light) => {
                let is_light = *light >= 128;
                let seen = if is_light { Background::Light } else { Background::Dark };
                self.voice.background = Some(seen);
            }
            _ => return false,
        }
        true
    }

    async fn edit(&mut self, screen: &mut Screen, paint: Paint) -> Result<Typed, Leaving> {
        let mut warned = false;
        loop {
            screen.resized();
            let settles_in = screen.settles_in();
            if settles_in.is_zero() {
                let shown = view(&self.editor, (screen.columns, screen.rows), paint);
                if screen.draw_at(shown.lines, shown.cursor).is_err() {
                    // Nobody reads any more.
                    return Err(Leaving::Told);
                }
            }
            tokio::select! {
                biased;
                _ = self.signals.terminate.recv() => return Err(Leaving::Told),
                _ = self.signals.hang_up.recv() => return Err(Leaving::Told),
                _ = self.signals.interrupt.recv() => {
                    self.editor.key(&Key::Interrupt, &self.completions);
                    if std::mem::replace(&mut warned, true) {
                        return Err(Leaving::AtOnce);
                    }
                    self.explain_how_to_leave(screen);
                }
                _ = self.window_change.recv() => {}
                () = tokio::time::sleep(settles_in), if !settles_in.is_zero() => {}
                older = async {
                    match &mut self.older {
                        Some(older) => older.await,
                        None => std::future::pending().await,
                    }
                } => {
                    self.older = None;
                    self.editor.add_older(older.unwrap_or_default());
                }
                () = self.completions.more() => self.editor.refresh(&self.completions),
                key = self.input.next_key() => {
                    let mut next = key.map(|(_, key)| key);
                    for _ in 0..KEYS_AT_ONCE {
                        let Some(key) = next else { return Err(self.keys_ended()) };
                        match self.prompt_key(screen, &key, &mut warned).await {
                            Next::Goes => {}
                            Next::Sent(typed) => return Ok(typed),
                            Next::Leave(leaving) => return Err(leaving),
                        }
                        match self.input.key_now() {
                            Some(key) => next = Some(key),
                            None => break,
                        }
                    }
                }
            }
        }
    }

    /// The end of the keys: the terminal is gone, or its input was closed.
    fn keys_ended(&self) -> Leaving {
        use std::io::IsTerminal;
        match std::io::stdin().is_terminal() {
            true => Leaving::Asked,
            false => Leaving::Told,
        }
    }

    async fn prompt_key(&mut self, screen: &mut Screen, key: &Key, warned: &mut bool) -> Next {
        if self.take_report(key) {
            return Next::Goes;
        }
        // Twice means one right after the other: what was typed since is cleared first.
        if *key != Key::Interrupt {
            *warned = false;
        }
        // A file that is dropped on the window is pasted as its path.
        let dropped = match key {
            Key::Paste(text) => dropped_picture(text),
            _ => None,
        };
        let key = &dropped.map_or_else(|| key.clone(), |path| Key::Text(mention(&path) + " "));
        match self.editor.key(key, &self.completions) {
            Edited::Goes => {}
            Edited::Sent(typed) => return Next::Sent(typed),
            Edited::Over => return Next::Leave(Leaving::Asked),
            Edited::Interrupted => {
                if std::mem::replace(warned, true) {
                    return Next::Leave(Leaving::AtOnce);
                }
                self.explain_how_to_leave(screen);
            }
            Edited::NotText => self.report_above(
                screen,
                &Error::Word {
                    what: "this line is not valid UTF-8; it was not sent".into(),
                    hint: "check the encoding of the input",
                },
            ),
            Edited::PasteTooLong => self.report_above(
                screen,
                &Error::Word {
                    what: "the paste is longer than 4 MiB and was not inserted".into(),
                    hint: "save it to a file in the workspace and ask about the file",
                },
            ),
            Edited::Wanted(key) => return self.wanted(screen, &key).await,
        }
        Next::Goes
    }

    /// Handles a key that is not about the line.
    async fn wanted(&mut self, screen: &mut Screen, key: &Key) -> Next {
        let done = match key {
            Key::Open => {
                // The program may be stopped while the pager is open: the prompt is redrawn.
                screen.end("").ok();
                let done = self.page_last_turn().await;
                self.input.prompt();
                done
            }
            Key::Suspend => {
                self.suspend(screen);
                Ok(())
            }
            Key::Redraw => {
                screen.clear().ok();
                Ok(())
            }
            Key::Editor => self.open_editor(screen).await,
            Key::PasteImage => {
                match tokio::task::spawn_blocking(clipboard::picture).await.ok().flatten() {
                    Some(picture) => {
                        let name = self.pasted.add(picture);
                        self.editor.buffer.insert(&(mention(&name) + " "));
                        Ok(())
                    }
                    None => Err(Error::Word {
                        what: "no picture in the clipboard, or no program to read it".into(),
                        hint: "install wl-paste, xclip or pngpaste, or attach a file: @shot.png",
                    }),
                }
            }
            _ => Ok(()),
        };
        if let Err(error) = done {
            self.report_above(screen, &error);
        }
        match self.terminated {
            true => Next::Leave(Leaving::Told),
            false => Next::Goes,
        }
    }

    fn explain_how_to_leave(&mut self, screen: &mut Screen) {
        screen.end("").ok();
        self.voice.notice("(`exit` or Ctrl-C again leaves)");
    }

    /// Shows an error above the prompt.
    pub(super) fn report_above(&mut self, screen: &mut Screen, error: &Error) {
        screen.end("").ok();
        self.report(error);
    }
}
