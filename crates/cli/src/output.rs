//! Standard output and standard error: colours where supported, and no panic on a closed pipe.

use std::fs::File;
use std::io::{self, IsTerminal, Read as _, Write};
use std::sync::OnceLock;

use console::Style;
pub(crate) use dirigent::render::{escape_invisible, sanitize};
use rustix::termios::{LocalModes, OptionalActions, tcgetattr, tcsetattr};

use crate::exit::Exit;

pub(crate) struct Output {
    interactive: bool,
    redraws: bool,
    /// The first error of writing to standard output. After an error, nothing more is written, because the output would have a gap.
    failure: OnceLock<io::Error>,
}

impl Output {
    pub(crate) fn new() -> Self {
        let [stdin, stdout, stderr] = [
            std::io::stdin().is_terminal(),
            std::io::stdout().is_terminal(),
            std::io::stderr().is_terminal(),
        ];
        let colours = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
        console::set_colors_enabled(colours && stdout);
        console::set_colors_enabled_stderr(colours && stderr);
        Output {
            interactive: stdin && stdout && stderr,
            redraws: stdout && stderr && std::env::var("TERM").as_deref() != Ok("dumb"),
            failure: OnceLock::new(),
        }
    }

    /// Returns true if input, output and error are all a terminal, so that a person can be asked.
    pub(crate) fn is_interactive(&self) -> bool {
        self.interactive
    }

    /// Returns true if standard output is a terminal.
    pub(crate) fn is_terminal(&self) -> bool {
        io::stdout().is_terminal()
    }

    /// Returns true if the terminal can redraw lines.
    pub(crate) fn can_redraw(&self) -> bool {
        self.redraws
    }

    /// Prints text to standard output, with a line break at its end. A closed pipe, as in `dirigent runs | head`, is not an error;
    /// [`Self::failure`] returns any other error.
    pub(crate) fn print(&self, text: &str) {
        let end: &[u8] = if text.ends_with('\n') { b"" } else { b"\n" };
        self.write(&[text.as_bytes(), end]);
    }

    /// The first error of writing to standard output.
    pub(crate) fn failure(&self) -> Option<&io::Error> {
        self.failure.get()
    }

    /// Records an error of writing to standard output, unless it is a closed pipe.
    pub(crate) fn note_failure(&self, error: io::Error) {
        if error.kind() != io::ErrorKind::BrokenPipe {
            // Keeps the first error.
            let _ = self.failure.set(error);
        }
    }

    /// Prints a file to standard output, byte for byte.
    pub(crate) fn print_file(&self, file: &mut File) -> io::Result<()> {
        let mut buffer = vec![0; 64 * 1024];
        loop {
            match file.read(&mut buffer)? {
                0 => return Ok(()),
                bytes => self.write(&[&buffer[..bytes]]),
            }
        }
    }

    fn write(&self, parts: &[&[u8]]) {
        if self.failure.get().is_some() {
            return;
        }
        let mut out = io::stdout().lock();
        let written = parts.iter().try_for_each(|part| out.write_all(part));
        if let Err(error) = written.and_then(|()| out.flush()) {
            self.note_failure(error);
        }
    }

    /// Prints a diff: to a terminal as sanitized, coloured text, otherwise byte for byte.
    pub(crate) fn print_diff(&self, bytes: &[u8]) {
        if io::stdout().is_terminal() {
            return self.print(&coloured_diff(&sanitize(&String::from_utf8_lossy(bytes))));
        }
        self.write(&[bytes]);
    }

    /// Prints a message for the user to standard error.
    pub(crate) fn note(&self, text: &str) {
        let _ = writeln!(std::io::stderr().lock(), "{text}");
    }

    /// Asks for a line on the terminal; `None` at the end of the input.
    pub(crate) fn ask(&self, question: &str) -> Option<String> {
        self.write(&[question.as_bytes()]);
        read_line()
    }

    /// Asks for a line on the terminal, which does not show what is typed; `None` at the end of the input, or if the terminal cannot hide it.
    pub(crate) fn ask_secret(&self, question: &str) -> Option<String> {
        let terminal = io::stdin();
        let shown = tcgetattr(&terminal).ok()?;
        let mut hidden = shown.clone();
        hidden.local_modes.remove(LocalModes::ECHO);
        hidden.local_modes.insert(LocalModes::ECHONL);
        // Before the question, so that nothing that is typed after it is shown.
        tcsetattr(&terminal, OptionalActions::Now, &hidden).ok()?;
        let line = self.ask(question);
        tcsetattr(&terminal, OptionalActions::Now, &shown).ok()?;
        line
    }

    /// Makes Ctrl-C show again what is typed, before it ends the process. For a command that has nothing else to end.
    pub(crate) fn end_on_interrupt() {
        let shown = tcgetattr(io::stdin()).ok();
        tokio::spawn(async move {
            if tokio::signal::ctrl_c().await.is_ok() {
                let _ = shown.map(|shown| tcsetattr(io::stdin(), OptionalActions::Now, &shown));
                std::process::exit(Exit::Cancelled.code().into());
            }
        });
    }

    /// Asks for a line without blocking the thread. If the caller stops waiting, the thread stays behind and consumes the next line, so
    /// use this only in a process that then ends.
    pub(crate) async fn ask_aside(&self, question: &str) -> Option<String> {
        self.write(&[question.as_bytes()]);
        let (sender, line) = tokio::sync::oneshot::channel();
        // A separate thread, because the runtime would wait for a blocking task when it shuts down.
        let reading = std::thread::Builder::new().name("question".to_owned());
        reading.spawn(move || sender.send(read_line())).ok()?;
        line.await.ok().flatten()
    }

    pub(crate) fn error(&self, text: &str) {
        let label = Style::new().for_stderr().red().bold().apply_to("error:");
        let _ = writeln!(std::io::stderr().lock(), "{label} {text}");
    }
}

/// Reads a line from standard input; `None` at its end.
fn read_line() -> Option<String> {
    let mut line = String::new();
    let read = std::io::stdin().read_line(&mut line);
    read.is_ok_and(|bytes| bytes > 0).then_some(line)
}

/// A unified diff in colours.
fn coloured_diff(diff: &str) -> String {
    let colour = |line: &str| {
        // Changes made while commands were running are shown in comments.
        let style = match line.strip_prefix("# ").unwrap_or(line).as_bytes() {
            [b'+', b'+', b'+', ..] | [b'-', b'-', b'-', ..] => Style::new().bold(),
            [b'+', ..] => Style::new().green(),
            [b'-', ..] => Style::new().red(),
            [b'@', ..] => Style::new().cyan(),
            _ => Style::new(),
        };
        style.apply_to(line).to_string()
    };
    diff.lines().map(colour).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn approve_3_control_and_invisible_characters_are_replaced_or_escaped() {
        let harmful = [
            '\u{1b}',
            '\u{7}',
            '\u{8}',
            '\r',
            '\u{7f}',
            '\u{85}',
            '\u{9b}',
            '\u{9d}',
            '\u{ad}',
            '\u{61c}',
            '\u{200b}',
            '\u{200e}',
            '\u{200f}',
            '\u{202a}',
            '\u{202b}',
            '\u{202c}',
            '\u{202d}',
            '\u{202e}',
            '\u{2060}',
            '\u{2066}',
            '\u{2067}',
            '\u{2068}',
            '\u{2069}',
            '\u{feff}',
            '\u{e0041}',
        ];
        for c in harmful {
            let text = format!("a{c}b");
            assert_eq!(sanitize(&text), "a\u{fffd}b", "{c:?}");
            assert_eq!(
                escape_invisible(&text),
                format!("a⟨U+{:04X}⟩b", u32::from(c)),
                "{c:?}"
            );
        }
    }

    #[test]
    fn approve_3_every_whitespace_character_except_the_space_is_escaped() {
        assert_eq!(
            escape_invisible("rm\u{a0}-rf\t~ \u{200d}\u{fe0f}\u{3000}\n"),
            "rm⟨U+00A0⟩-rf⟨U+0009⟩~ ⟨U+200D⟩⟨U+FE0F⟩⟨U+3000⟩\n"
        );
        assert_eq!(escape_invisible("größer 日本語 👍🏽"), "größer 日本語 👍🏽");
        assert_eq!(sanitize("a\tb\nc 👍\u{fe0f}"), "a\tb\nc 👍\u{fe0f}");
    }
}
