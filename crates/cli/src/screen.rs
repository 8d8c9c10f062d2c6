//! Shows the progress of a run as JSON, as plain lines or as a redrawn tree, with the prompt for the user's input.

use std::io::Write;

use dirigent::{Delta, Event};

use crate::answer_stream::AnswerStream;
use crate::args::WatchOptions;
use crate::live::LiveTree;
use crate::output::{Output, sanitize};
use crate::plain;
use crate::prompt::Prompt;

pub(crate) enum Screen<'a> {
    Json(&'a Output),
    Plain(PlainScreen<'a>),
    Live(LiveTree),
    /// Shows nothing: a chat without a terminal prints only the answers.
    Silent(&'a Output),
}

/// Plain lines, for output that cannot be redrawn.
pub(crate) struct PlainScreen<'a> {
    output: &'a Output,
    events: plain::EventLines,
    /// The prompt on the current line, which has no line break yet.
    unfinished_line: Option<String>,
    /// Output to print once the open dialog is closed; `None` while no dialog is open.
    deferred: Option<Vec<String>>,
    /// Set once the hint has been printed.
    hint_shown: bool,
}

impl<'a> Screen<'a> {
    pub(crate) fn new(watching: &WatchOptions, output: &'a Output) -> Self {
        if watching.json {
            Screen::Json(output)
        } else if output.can_redraw() {
            let answers = watching.in_chat && output.is_interactive() && !watching.verbose && !watching.diff;
            Screen::Live(LiveTree::new(answers.then(AnswerStream::default)))
        } else if watching.in_chat && !watching.verbose {
            Screen::Silent(output)
        } else {
            Screen::Plain(PlainScreen {
                output,
                events: plain::EventLines::default(),
                unfinished_line: None,
                deferred: None,
                hint_shown: false,
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
                if let Some(text) = lines.events.lines(event) {
                    lines.print(text, plain::is_user_action(event));
                }
            }
            Screen::Live(tree) => tree.show(event),
            Screen::Silent(_) => {}
        }
    }

    /// Returns true if replies of models are shown while they stream.
    pub(crate) fn shows_deltas(&self) -> bool {
        match self {
            Screen::Json(_) | Screen::Plain(_) | Screen::Silent(_) => false,
            Screen::Live(_) => true,
        }
    }

    pub(crate) fn show_delta(&mut self, delta: &Delta) {
        match self {
            Screen::Json(_) | Screen::Plain(_) | Screen::Silent(_) => {}
            Screen::Live(tree) => tree.show_delta(delta),
        }
    }

    /// Prints lines that are not an event, even while a dialog is open. The lines must be sanitized.
    pub(crate) fn print_now(&mut self, lines: &[String]) {
        match self {
            Screen::Json(output) | Screen::Silent(output) => output.note(&lines.join("\n")),
            Screen::Plain(plain) => {
                plain.end_line();
                plain.output.note(&lines.join("\n"));
            }
            Screen::Live(tree) => tree.print_now(&lines.join("\n")),
        }
    }

    /// Runs a program that uses the whole terminal, such as an editor.
    pub(crate) fn suspend<T>(&self, program: impl FnOnce() -> T) -> T {
        match self {
            Screen::Json(_) | Screen::Plain(_) | Screen::Silent(_) => program(),
            Screen::Live(tree) => tree.suspend(program),
        }
    }

    /// Draws the prompt. While a dialog is open, other output is deferred, so that nothing separates the prompt from its question.
    pub(crate) fn prompt(&mut self, prompt: &Prompt, has_dialog: bool) {
        match self {
            Screen::Json(_) | Screen::Silent(_) => {}
            Screen::Plain(lines) => lines.prompt(prompt, has_dialog),
            Screen::Live(tree) => tree.prompt(prompt, has_dialog),
        }
    }

    /// Ends the output. Returns the answer stream of a chat, if there is one, which knows how much of the answer was printed.
    pub(crate) fn finish(self) -> Option<AnswerStream> {
        match self {
            Screen::Json(_) | Screen::Silent(_) => None,
            Screen::Plain(mut lines) => {
                lines.defer_output(false);
                lines.end_line();
                None
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

    fn defer_output(&mut self, defer: bool) {
        if defer {
            self.deferred.get_or_insert_default();
        } else {
            for text in self.deferred.take().unwrap_or_default() {
                self.print(text, true);
            }
        }
    }

    fn prompt(&mut self, prompt: &Prompt, has_dialog: bool) {
        self.defer_output(has_dialog);
        if !has_dialog && prompt.text.is_empty() {
            self.end_line();
            if !std::mem::replace(&mut self.hint_shown, true) {
                self.output.note(&format!("  {}", prompt.hint));
            }
            return;
        }
        let line = format!("{}{}", prompt.label, sanitize(&prompt.text));
        let shown = self.unfinished_line.as_deref().unwrap_or_default();
        let new = match (line.strip_prefix(shown), shown.strip_prefix(&line)) {
            (Some(added), _) if self.unfinished_line.is_some() => added.to_owned(),
            (_, Some(removed)) => "\u{8} \u{8}".repeat(console::measure_text_width(removed)),
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
        self.unfinished_line = Some(line);
    }

    fn end_line(&mut self) {
        if self.unfinished_line.take().is_some() {
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
