//! Standard input as a keyboard: key by key and without an echo, so that what is typed can be drawn beneath what goes on.
//!
//! The terminal is only ours while we are in its foreground: a run in the background neither reads, which would stop it, nor touches
//! the mode. When it comes to the foreground, the keyboard is ours with the next key or event. Ctrl-C and Ctrl-Z stay signals.

use std::io::Write;

use rustix::termios::{LocalModes, OptionalActions, SpecialCodeIndex, Termios};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use super::keys::{Decoder, Key};

/// Tells a terminal to mark what is pasted, and to leave it unmarked.
const BRACKETED_PASTE: [&str; 2] = ["\u{1b}[?2004h", "\u{1b}[?2004l"];

pub(crate) struct Keyboard {
    input: AsyncFd<std::io::Stdin>,
    /// How the terminal was before it was ours, while it is.
    saved_mode: Option<Termios>,
    decoder: Decoder,
    bracketed_paste: bool,
}

impl Keyboard {
    /// None where standard input is no terminal that can be waited for.
    pub(crate) fn new(bracketed_paste: bool) -> Option<Self> {
        #[expect(
            deprecated,
            reason = "its successor is unsafe, as a descriptor could be closed meanwhile: standard input never is"
        )]
        let input = AsyncFd::with_interest(std::io::stdin(), Interest::READABLE).ok()?;
        rustix::termios::tcgetattr(input.get_ref()).ok()?;
        let mut keyboard = Keyboard {
            input,
            saved_mode: None,
            decoder: Decoder::default(),
            bracketed_paste,
        };
        keyboard.acquire();
        Some(keyboard)
    }

    /// Makes the terminal ours where it is not and we are in its foreground. Whether it is.
    pub(crate) fn acquire(&mut self) -> bool {
        if !self.is_foreground() {
            return false;
        }
        if self.saved_mode.is_none() {
            let Ok(mode) = rustix::termios::tcgetattr(self.input.get_ref()) else {
                return false;
            };
            let before = mode.clone();
            if !self.enter_cbreak_mode(mode) {
                return false;
            }
            self.saved_mode = Some(before);
            self.set_bracketed_paste(BRACKETED_PASTE[0]);
        }
        true
    }

    /// Whether the terminal was ours when it was last looked at. The system tells those in its foreground, and only them, when it is closed.
    pub(crate) fn is_acquired(&self) -> bool {
        self.saved_mode.is_some()
    }

    /// The process goes on after it was stopped: whoever had the terminal meanwhile has set it as they like.
    pub(crate) fn on_continue(&mut self) {
        self.saved_mode = None;
        self.acquire();
    }

    /// The next keys; none at the end of the input, and where the terminal is gone.
    pub(crate) async fn keys(&mut self) -> Option<Vec<Key>> {
        loop {
            let closed = {
                let mut ready = self.input.readable().await.ok()?;
                let closed = ready.ready().is_read_closed();
                // What comes from now on is told anew; what is there is read now, or is not for us.
                ready.clear_ready();
                closed
            };
            let keys = self.pending();
            match keys {
                Some(keys) if !keys.is_empty() => return Some(keys),
                Some(_) if !closed => {}
                Some(_) | None => return None,
            }
        }
    }

    /// The keys that have been pressed already; none where the terminal is gone.
    pub(crate) fn pending(&mut self) -> Option<Vec<Key>> {
        if self.is_closed() {
            return None;
        }
        let mut keys = Vec::new();
        let mut bytes = [0; 1024];
        while self.acquire() {
            match rustix::io::read(self.input.get_ref(), &mut bytes) {
                // Nothing more is there for now: whatever comes is told anew.
                Ok(0) | Err(rustix::io::Errno::AGAIN) => break,
                Ok(read) => keys.extend(self.decoder.keys(&bytes[..read])),
                Err(rustix::io::Errno::INTR) => {}
                Err(_) if keys.is_empty() => return None,
                Err(_) => break,
            }
        }
        Some(keys)
    }

    /// Whether nobody can type any more: a terminal that was closed is readable for ever, and has no mode.
    fn is_closed(&self) -> bool {
        rustix::termios::tcgetattr(self.input.get_ref()).is_err()
    }

    fn is_foreground(&self) -> bool {
        rustix::termios::tcgetpgrp(self.input.get_ref())
            .is_ok_and(|foreground| foreground == rustix::process::getpgrp())
    }

    /// No echo, no waiting for a line, and reads that return at once.
    fn enter_cbreak_mode(&self, mut mode: Termios) -> bool {
        mode.local_modes.remove(LocalModes::ICANON | LocalModes::ECHO);
        mode.special_codes[SpecialCodeIndex::VMIN] = 0;
        mode.special_codes[SpecialCodeIndex::VTIME] = 0;
        rustix::termios::tcsetattr(self.input.get_ref(), OptionalActions::Now, &mode).is_ok()
    }

    fn set_bracketed_paste(&self, code: &str) {
        if self.bracketed_paste {
            let mut terminal = std::io::stderr().lock();
            let _ = terminal
                .write_all(code.as_bytes())
                .and_then(|()| terminal.flush());
        }
    }
}

impl Drop for Keyboard {
    fn drop(&mut self) {
        if let Some(before) = self.saved_mode.take()
            && self.is_foreground()
        {
            self.set_bracketed_paste(BRACKETED_PASTE[1]);
            let _ = rustix::termios::tcsetattr(self.input.get_ref(), OptionalActions::Drain, &before);
        }
    }
}
