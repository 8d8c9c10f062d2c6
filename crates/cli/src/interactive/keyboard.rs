//! Reads keys from standard input one by one and without echo, so that the prompt can be drawn beneath the progress.
//!
//! The terminal is acquired only while the process is in its foreground. In the background, the process does not change the terminal's
//! mode, and does not read, because reading would stop it. Once the process returns to the foreground, the next key or event acquires the
//! terminal. Ctrl-C and Ctrl-Z still send signals.

use std::io::Write;

use rustix::termios::{LocalModes, OptionalActions, SpecialCodeIndex, Termios};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::time::Instant;

use super::keys::{Decoder, Key};

/// The escape sequences that turn bracketed paste on and off. While it is on, the terminal marks the start and end of pasted text.
const BRACKETED_PASTE: [&str; 2] = ["\u{1b}[?2004h", "\u{1b}[?2004l"];

/// The time after which a lone escape byte counts as the Escape key, not the beginning of another key's sequence.
const ESCAPE_DELAY: std::time::Duration = std::time::Duration::from_millis(50);

pub(crate) struct Keyboard {
    input: AsyncFd<std::io::Stdin>,
    /// The mode to restore; `None` while the terminal is not acquired.
    saved_mode: Option<Termios>,
    decoder: Decoder,
    /// The time at which the byte of the Escape key was noticed. This byte may also begin the sequence of another key. `None` if the
    /// input does not end with it.
    escape_since: Option<Instant>,
    bracketed_paste: bool,
}

impl Keyboard {
    /// Returns `None` if standard input is not a terminal, or cannot be polled.
    pub(crate) fn new(bracketed_paste: bool) -> Option<Self> {
        #[expect(
            deprecated,
            reason = "the replacement is unsafe, because a descriptor may be closed while it is registered; standard input is never closed"
        )]
        let input = AsyncFd::with_interest(std::io::stdin(), Interest::READABLE).ok()?;
        rustix::termios::tcgetattr(input.get_ref()).ok()?;
        let mut keyboard = Keyboard {
            input,
            saved_mode: None,
            decoder: Decoder::default(),
            escape_since: None,
            bracketed_paste,
        };
        keyboard.acquire();
        Some(keyboard)
    }

    /// Acquires the terminal if the process is in its foreground. Returns true if it is acquired now.
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

    /// Restores the terminal's mode, for another program in the foreground.
    pub(crate) fn release(&mut self) {
        if let Some(before) = self.saved_mode.take()
            && self.is_foreground()
        {
            self.set_bracketed_paste(BRACKETED_PASTE[1]);
            let _ = rustix::termios::tcsetattr(self.input.get_ref(), OptionalActions::Drain, &before);
        }
    }

    /// Returns true if the terminal is acquired. Callers treat the closing of an acquired terminal as a hang-up even without SIGHUP,
    /// because the system sends SIGHUP only to the processes in the terminal's foreground.
    pub(crate) fn is_acquired(&self) -> bool {
        self.saved_mode.is_some()
    }

    /// Acquires the terminal again after SIGCONT, because other processes may have changed its mode. A closed terminal keeps its state,
    /// because the system also sends SIGCONT, along with SIGHUP, when a terminal is closed.
    pub(crate) fn on_continue(&mut self) {
        if self.is_closed() {
            return;
        }
        self.saved_mode = None;
        self.acquire();
    }

    /// Waits for keys. `None` at the end of the input, or once the terminal is closed.
    pub(crate) async fn keys(&mut self) -> Option<Vec<Key>> {
        loop {
            if self.decoder.may_be_escape() {
                // Stored in `self`, because the caller may drop this future and call again.
                let since = *self.escape_since.get_or_insert_with(Instant::now);
                tokio::time::sleep_until(since + ESCAPE_DELAY).await;
                self.escape_since = None;
                let mut keys = self.pending()?;
                keys.extend(self.decoder.take_escape());
                if !keys.is_empty() {
                    return Some(keys);
                }
            } else {
                self.escape_since = None;
            }
            let closed = {
                let mut ready = self.input.readable().await.ok()?;
                let closed = ready.ready().is_read_closed();
                // Clear the readiness before reading: bytes that arrive later set it again. The bytes received so far are either read by
                // `pending` or belong to another process in the foreground.
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

    /// Keys pressed so far, without waiting. `None` once the terminal is closed.
    pub(crate) fn pending(&mut self) -> Option<Vec<Key>> {
        if self.is_closed() {
            return None;
        }
        let mut keys = Vec::new();
        let mut bytes = [0; 1024];
        while self.acquire() {
            match rustix::io::read(self.input.get_ref(), &mut bytes) {
                // Nothing more to read for now.
                Ok(0) | Err(rustix::io::Errno::AGAIN) => break,
                Ok(read) => keys.extend(self.decoder.keys(&bytes[..read])),
                Err(rustix::io::Errno::INTR) => {}
                Err(_) if keys.is_empty() => return None,
                Err(_) => break,
            }
        }
        Some(keys)
    }

    /// Returns true if the terminal was closed. A closed terminal stays readable, but its mode cannot be read.
    fn is_closed(&self) -> bool {
        rustix::termios::tcgetattr(self.input.get_ref()).is_err()
    }

    fn is_foreground(&self) -> bool {
        rustix::termios::tcgetpgrp(self.input.get_ref())
            .is_ok_and(|foreground| foreground == rustix::process::getpgrp())
    }

    /// Turns off echo and line buffering, and makes reads return at once.
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
        self.release();
    }
}
