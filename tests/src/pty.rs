//! Runs the real `dirigent` command in a pseudo-terminal, reads its screen and types keys.
//!
//! The command's output goes to a terminal emulator; tests look at its screen, together with the lines that have
//! scrolled out of it. Nothing sleeps: output wakes whoever waits for it, and only a test that
//! fails waits for the whole time limit.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::io::{Read, Write};
use std::process::{Child, Command, ExitStatus};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use pty_process::Size;
use pty_process::blocking::Pty;

/// The time after which a test fails if the expected text does not appear: longer than a whole run with builds and tests on a busy machine.
const PATIENCE: Duration = Duration::from_mins(10);

/// The number of lines that are kept after they have scrolled out of the screen.
const SCROLLBACK: usize = 10_000;

/// Ctrl-D: ends the input.
pub const CTRL_D: &str = "\u{4}";
/// Ctrl-C: interrupts.
pub const CTRL_C: &str = "\u{3}";
/// Ctrl-U: deletes the line.
pub const CTRL_U: &str = "\u{15}";

/// A command in its own terminal. The command is killed on drop.
pub struct Terminal {
    child: Child,
    keys: Arc<Pty>,
    shown: Arc<Shown>,
}

#[derive(Default)]
struct Shown {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// `None` until the terminal has a size.
    parser: Option<vt100::Parser>,
    written: Vec<u8>,
    closed: bool,
    /// True once reading must stop.
    hung_up: bool,
}

/// The size of a terminal.
#[derive(Clone, Copy, Debug)]
pub struct Dimensions {
    /// Lines.
    pub rows: u16,
    /// Characters in a line.
    pub columns: u16,
}

impl Default for Dimensions {
    fn default() -> Self {
        Dimensions {
            rows: 30,
            columns: 100,
        }
    }
}

impl Terminal {
    /// Starts a command in a terminal of 100 columns and 30 rows.
    pub fn start(command: Command) -> Terminal {
        Terminal::sized(command, Dimensions::default())
    }

    /// Starts a command in a terminal of this size. The terminal is an `xterm-256color`, unless the command's environment specifies
    /// another.
    pub fn sized(mut command: Command, size: Dimensions) -> Terminal {
        let (pty, pts) = pty_process::blocking::open().expect("a pseudo-terminal");
        pty.resize(Size::new(size.rows, size.columns)).expect("a size");
        if !command.get_envs().any(|(name, _)| name == "TERM") {
            command.env("TERM", "xterm-256color");
        }
        let child = pty_process::blocking::Command::from(command)
            .spawn(pts)
            .expect("a program that starts");
        let (keys, shown) = (Arc::new(pty), Arc::new(Shown::default()));
        let parser = vt100::Parser::new(
            size.rows.try_into().unwrap(),
            size.columns.try_into().unwrap(),
            SCROLLBACK,
        );
        shown.state().parser = Some(parser);
        let (source, target) = (Arc::clone(&keys), Arc::clone(&shown));
        std::thread::spawn(move || target.read(source));
        Terminal { child, keys, shown }
    }

    /// The process id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Types text.
    pub fn types(&self, text: &str) {
        (&*self.keys)
            .write_all(text.as_bytes())
            .expect("a terminal that takes keys");
    }

    /// Types text and Enter.
    pub fn enters(&self, text: &str) {
        self.types(&format!("{text}\r"));
    }

    /// Waits until this text is on the screen or has scrolled out of it.
    ///
    /// # Panics
    /// If the command ends before, or the text does not appear in time.
    #[track_caller]
    pub fn wait_for(&self, text: &str) {
        self.wait_until(text, |all| all.contains(text));
    }

    /// Waits until the last non-empty line, in which the user types, contains `text`.
    ///
    /// # Panics
    /// If the command ends before, or the text does not appear in time.
    #[track_caller]
    pub fn wait_for_prompt(&self, text: &str) {
        self.wait_until(text, |all| last_line(all).contains(text));
    }

    /// Waits until the contents satisfy the condition, and returns them.
    ///
    /// # Panics
    /// If the command ends or the time limit expires before; `what` describes the expected contents.
    #[track_caller]
    pub fn wait_until(&self, what: &str, mut is_there: impl FnMut(&str) -> bool) -> String {
        let end = Instant::now() + PATIENCE;
        let mut state = self.shown.state();
        loop {
            let all = state.all();
            if is_there(&all) {
                return all;
            }
            let left = end.saturating_duration_since(Instant::now());
            assert!(!state.closed, "the command ended without {what:?}:\n{all}");
            assert!(!left.is_zero(), "{what:?} does not come:\n{all}");
            state = self
                .shown
                .changed
                .wait_timeout(state, left)
                .unwrap_or_else(PoisonError::into_inner)
                .0;
        }
    }

    /// The lines that have scrolled out, then the current screen, without blanks at the ends of lines and empty lines at the end.
    pub fn contents(&self) -> String {
        self.shown.state().all()
    }

    /// Waits for the command's end. Returns its status, the final contents, and the raw output.
    ///
    /// # Panics
    /// If the command does not end in time.
    #[track_caller]
    pub fn end(mut self) -> (ExitStatus, String, Vec<u8>) {
        self.wait_for_end();
        let status = self.child.wait().expect("a child");
        let mut state = self.shown.state();
        (status, state.all(), std::mem::take(&mut state.written))
    }

    /// Waits for the command's end, and returns the final contents.
    ///
    /// # Panics
    /// With the contents if the exit code is not `code`.
    #[track_caller]
    pub fn end_with(self, code: i32) -> String {
        let (status, contents, _) = self.end();
        assert_eq!(status.code(), Some(code), "{status}\n{contents}");
        contents
    }

    #[track_caller]
    fn wait_for_end(&self) {
        let end = Instant::now() + PATIENCE;
        let mut state = self.shown.state();
        while !state.closed {
            let left = end.saturating_duration_since(Instant::now());
            assert!(!left.is_zero(), "the command does not end:\n{}", state.all());
            state = self
                .shown
                .changed
                .wait_timeout(state, left)
                .unwrap_or_else(PoisonError::into_inner)
                .0;
        }
    }

    /// Closes the terminal under a command that redraws when a key is pressed, and waits for the command's end.
    ///
    /// # Panics
    /// If the command has already ended.
    pub fn hang_up(mut self) -> ExitStatus {
        self.shown.state().hung_up = true;
        self.types("x");
        self.wait_for_end();
        // The assignment drops the old handle. The new handle is the last open one of the terminal, so dropping it closes the terminal.
        let (pty, _) = pty_process::blocking::open().expect("a pseudo-terminal");
        self.keys = Arc::new(pty);
        self.child.wait().expect("a child")
    }

    /// Kills the command like `kill -9`, and waits for its end.
    pub fn kill(mut self) {
        self.child.kill().expect("a process that runs");
        self.child.wait().expect("a child");
    }
}

/// The last non-empty line, in which the user types.
pub fn last_line(contents: &str) -> &str {
    contents.trim_end().rsplit('\n').next().unwrap_or_default()
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // The command may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Shown {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads the output until no process has the terminal open.
    fn read(&self, terminal: Arc<Pty>) {
        let mut bytes = [0; 65_536];
        let mut terminal = Some(terminal);
        loop {
            let read = terminal
                .as_deref()
                .map_or(0, |mut terminal| terminal.read(&mut bytes).unwrap_or(0));
            let mut state = self.state();
            let new = &bytes[..read];
            state.written.extend_from_slice(new);
            if let Some(parser) = &mut state.parser {
                parser.process(new);
            }
            if state.hung_up {
                terminal = None;
            }
            state.closed = read == 0;
            self.changed.notify_all();
            if read == 0 {
                return;
            }
        }
    }
}

impl State {
    fn all(&mut self) -> String {
        let Some(parser) = &mut self.parser else {
            return String::new();
        };
        let screen = parser.screen_mut();
        let (rows, columns) = screen.size();
        let (rows, columns) = (usize::from(rows.get()), columns.get());
        // Read a screenful at a time, from the top of the scrollback.
        screen.set_scrollback(usize::MAX);
        let mut above = screen.scrollback();
        let mut lines: Vec<String> = Vec::new();
        loop {
            screen.set_scrollback(above);
            let window: Vec<String> = screen.rows(0, columns).collect();
            lines.extend(
                window
                    .into_iter()
                    .take(if above == 0 { rows } else { above.min(rows) }),
            );
            if above == 0 {
                break;
            }
            above = above.saturating_sub(rows);
        }
        let lines: Vec<&str> = lines.iter().map(|line| line.trim_end()).collect();
        lines.join("\n").trim_end().to_owned()
    }
}
