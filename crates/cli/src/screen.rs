//! How a run is shown while it goes on: as JSON, as lines, or as a tree that is redrawn; and what a person types beneath it.

use std::io::Write;

use dirigent::{Delta, Event};

use crate::args::WatchOptions;
use crate::interactive::Prompt;
use crate::live::LiveTree;
use crate::output::{Output, sanitize};
use crate::plain;

pub(crate) enum Screen<'a> {
    Json(&'a Output),
    Plain(PlainScreen<'a>),
    Live(LiveTree),
}

/// Lines one after the other, on a terminal that can take nothing back.
pub(crate) struct PlainScreen<'a> {
    output: &'a Output,
    /// What stands on the last line, which has no end yet.
    typed: Option<String>,
    /// What waits until the person has answered.
    deferred: Option<Vec<String>>,
    /// Whether what can be typed was told.
    hinted: bool,
}

impl<'a> Screen<'a> {
    pub(crate) fn new(watching: &WatchOptions, output: &'a Output) -> Self {
        if watching.json {
            Screen::Json(output)
        } else if output.can_redraw() {
            Screen::Live(LiveTree::new())
        } else {
            Screen::Plain(PlainScreen {
                output,
                typed: None,
                deferred: None,
                hinted: false,
            })
        }
    }

    pub(crate) fn show(&mut self, event: &Event) {
        match self {
            Screen::Json(output) => {
                if let Ok(line) = serde_json::to_string(event) {
                    output.print(&line);
                }
            }
            Screen::Plain(lines) => {
                if let Some(text) = plain::lines(event) {
                    lines.print(text, plain::is_user_action(event));
                }
            }
            Screen::Live(tree) => tree.show(event),
        }
    }

    /// Whether what models say is shown while they say it.
    pub(crate) fn shows_deltas(&self) -> bool {
        match self {
            Screen::Json(_) | Screen::Plain(_) => false,
            Screen::Live(_) => true,
        }
    }

    pub(crate) fn show_delta(&mut self, delta: &Delta) {
        match self {
            Screen::Json(_) | Screen::Plain(_) => {}
            Screen::Live(tree) => tree.show_delta(delta.agent, delta.turn, &delta.text),
        }
    }

    /// Something for the person that is no event, at once. It is [`sanitize`] already.
    pub(crate) fn print_now(&mut self, lines: &[String]) {
        match self {
            Screen::Json(output) => output.note(&lines.join("\n")),
            Screen::Plain(plain) => {
                plain.end_line();
                plain.output.note(&lines.join("\n"));
            }
            Screen::Live(tree) => tree.print_now(&lines.join("\n")),
        }
    }

    /// What is being typed. While the person is asked something, nothing comes between it and what was asked.
    pub(crate) fn prompt(&mut self, prompt: &Prompt, asks: bool) {
        match self {
            Screen::Json(_) => {}
            Screen::Plain(lines) => lines.prompt(prompt, asks),
            Screen::Live(tree) => tree.prompt(prompt, asks),
        }
    }

    pub(crate) fn finish(self) {
        match self {
            Screen::Json(_) => {}
            Screen::Plain(mut lines) => {
                lines.defer_output(false);
                lines.end_line();
            }
            Screen::Live(tree) => tree.finish(),
        }
    }
}

impl PlainScreen<'_> {
    fn print(&mut self, text: String, at_once: bool) {
        match &mut self.deferred {
            Some(deferred) if !at_once => deferred.push(text),
            Some(_) | None => {
                self.end_line();
                self.output.print(&text);
            }
        }
    }

    fn defer_output(&mut self, defer_output: bool) {
        if defer_output {
            self.deferred.get_or_insert_default();
        } else {
            for text in self.deferred.take().unwrap_or_default() {
                self.print(text, true);
            }
        }
    }

    fn prompt(&mut self, prompt: &Prompt, asks: bool) {
        self.defer_output(asks);
        if !asks && prompt.text.is_empty() {
            self.end_line();
            if !std::mem::replace(&mut self.hinted, true) {
                self.output.note(&format!("  {}", prompt.hint));
            }
            return;
        }
        let line = format!("{}{}", prompt.label, sanitize(&prompt.text));
        let shown = self.typed.as_deref().unwrap_or_default();
        let new = match (line.strip_prefix(shown), shown.strip_prefix(&line)) {
            (Some(more), _) if self.typed.is_some() => more.to_owned(),
            (_, Some(less)) => "\u{8} \u{8}".repeat(console::measure_text_width(less)),
            (_, None) => {
                self.end_line();
                let hint = if prompt.text.is_empty() {
                    prompt.hint.as_str()
                } else {
                    ""
                };
                let hint = if hint.is_empty() {
                    String::new()
                } else {
                    format!("  {hint}\n")
                };
                format!("{hint}{line}")
            }
        };
        write_out(&new);
        self.typed = Some(line);
    }

    fn end_line(&mut self) {
        if self.typed.take().is_some() {
            write_out("\n");
        }
    }
}

fn write_out(text: &str) {
    let mut terminal = std::io::stderr().lock();
    let _ = terminal
        .write_all(text.as_bytes())
        .and_then(|()| terminal.flush());
}
