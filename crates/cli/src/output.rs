//! Standard output and error: colours where they are wanted, and no panic where nobody reads.

use std::io::{IsTerminal, Write};

use console::Style;

/// Where the command writes.
pub(crate) struct Output {
    attended: bool,
    redraws: bool,
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
            attended: stdin && stdout && stderr,
            redraws: stdout && stderr && std::env::var("TERM").as_deref() != Ok("dumb"),
        }
    }

    /// Whether a person can be asked: sees what is printed and the prompt, and can write.
    pub(crate) fn is_attended(&self) -> bool {
        self.attended
    }

    /// Whether a person watches and lines can be redrawn.
    pub(crate) fn can_redraw(&self) -> bool {
        self.redraws
    }

    /// A line or several on standard output. A reader that has gone is no error: `dirigent runs | head` is fine.
    pub(crate) fn say(&self, text: &str) {
        let mut out = std::io::stdout().lock();
        let _ = out.write_all(text.as_bytes()).and_then(|()| {
            if text.ends_with('\n') {
                Ok(())
            } else {
                out.write_all(b"\n")
            }
        });
        let _ = out.flush();
    }

    /// Something for the person at the terminal, out of the way of what is piped on.
    pub(crate) fn note(&self, text: &str) {
        let _ = writeln!(std::io::stderr().lock(), "{text}");
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

/// Text from a model or a tool without what a terminal would obey: control characters and changes of direction.
pub(crate) fn inert(text: &str) -> String {
    let harmful = |c: char| {
        c.is_control() && c != '\n' && c != '\t'
            || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{200e}' | '\u{200f}')
    };
    text.chars()
        .map(|c| if harmful(c) { '\u{fffd}' } else { c })
        .collect()
}
