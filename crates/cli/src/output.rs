//! Standard output and error: colours where they are wanted, and no panic where nobody reads.

use std::fmt::Write as _;
use std::io::{self, IsTerminal, Write};
use std::sync::OnceLock;

use console::Style;

/// Where the command writes.
pub(crate) struct Output {
    interactive: bool,
    redraws: bool,
    /// Why standard output could not be written, since when nothing more is: part of it would be missing.
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

    /// Whether a person can be asked: sees what is printed and the prompt, and can write.
    pub(crate) fn is_interactive(&self) -> bool {
        self.interactive
    }

    /// Whether a person watches and lines can be redrawn.
    pub(crate) fn can_redraw(&self) -> bool {
        self.redraws
    }

    /// A line or several on standard output. A reader that has gone is no error: `dirigent runs | head` is fine. Any other failure is told
    /// by [`Self::failure`].
    pub(crate) fn print(&self, text: &str) {
        let end: &[u8] = if text.ends_with('\n') { b"" } else { b"\n" };
        self.write(&[text.as_bytes(), end]);
    }

    /// Why something could not be written to standard output, if so.
    pub(crate) fn failure(&self) -> Option<&io::Error> {
        self.failure.get()
    }

    /// Notes that standard output could not be written, unless its reader has gone.
    pub(crate) fn note_failure(&self, error: io::Error) {
        if error.kind() != io::ErrorKind::BrokenPipe {
            // The first failure counts.
            let _ = self.failure.set(error);
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

    /// The same for bytes that are not to be changed: where they are piped on, they are. A person sees them as text that does no harm.
    pub(crate) fn print_bytes(&self, bytes: &[u8]) {
        if io::stdout().is_terminal() {
            return self.print(&coloured_diff(&sanitize(&String::from_utf8_lossy(bytes))));
        }
        self.write(&[bytes]);
    }

    /// Something for the person at the terminal, out of the way of what is piped on.
    pub(crate) fn note(&self, text: &str) {
        let _ = writeln!(std::io::stderr().lock(), "{text}");
    }

    /// Asks the person at the terminal for a line; none where it is at its end.
    pub(crate) fn ask(&self, question: &str) -> Option<String> {
        self.write(&[question.as_bytes()]);
        let mut line = String::new();
        let read = std::io::stdin().read_line(&mut line);
        read.is_ok_and(|bytes| bytes > 0).then_some(line)
    }

    pub(crate) fn error(&self, text: &str) {
        let label = Style::new().for_stderr().red().bold().apply_to("error:");
        let _ = writeln!(std::io::stderr().lock(), "{label} {text}");
    }
}

/// A diff with its lines coloured.
pub(crate) fn coloured_diff(diff: &str) -> String {
    let colour = |line: &str| {
        let style = match line.as_bytes() {
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

/// Text from a model or a tool without what a terminal would obey or a person could not see: control characters, changes of direction
/// and characters without a width. For what a person decides about there is [`escape_invisible`].
pub(crate) fn sanitize(text: &str) -> String {
    text.chars()
        .map(|c| if is_harmful(c) { '\u{fffd}' } else { c })
        .collect()
}

/// The same for a text that a person decides about: nothing of it is replaced by the like, as each such character is shown by its number,
/// `⟨U+202E⟩`, and so is every blank that is not a space. Line breaks stay.
pub(crate) fn escape_invisible(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        let blank = c.is_whitespace() && c != ' ' && c != '\n';
        if is_harmful(c) || blank || is_invisible(c) {
            let _ = write!(shown, "⟨U+{:04X}⟩", u32::from(c));
        } else {
            shown.push(c);
        }
    }
    shown
}

/// What a terminal obeys, and what lets text look like other text.
fn is_harmful(c: char) -> bool {
    let direction =
        matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    let nothing = matches!(c, '\u{ad}' | '\u{180e}' | '\u{200b}' | '\u{2060}'..='\u{2065}' | '\u{206a}'..='\u{206f}' | '\u{feff}'
        | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e0fff}');
    c.is_control() && c != '\n' && c != '\t' || direction || nothing
}

/// What has no shape of its own but is part of ordinary text: joiners, variation selectors, fillers.
fn is_invisible(c: char) -> bool {
    matches!(c, '\u{34f}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}' | '\u{180b}'..='\u{180f}' | '\u{200c}' | '\u{200d}' | '\u{2800}'
        | '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{ffa0}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn approve_3_nothing_in_a_text_can_be_obeyed_turned_iteration_or_hidden() {
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
    fn approve_3_what_is_decided_about_shows_every_blank_that_is_no_space() {
        assert_eq!(
            escape_invisible("rm\u{a0}-rf\t~ \u{200d}\u{fe0f}\u{3000}\n"),
            "rm⟨U+00A0⟩-rf⟨U+0009⟩~ ⟨U+200D⟩⟨U+FE0F⟩⟨U+3000⟩\n"
        );
        assert_eq!(escape_invisible("größer 日本語 👍🏽"), "größer 日本語 👍🏽");
        assert_eq!(sanitize("a\tb\nc 👍\u{fe0f}"), "a\tb\nc 👍\u{fe0f}");
    }
}
