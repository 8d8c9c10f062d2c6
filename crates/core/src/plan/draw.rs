//! Drawings of a plan and of how far it is. Ids and titles come from a model: whatever they hold is shown as text and never
//! acts as part of the drawing's language, a terminal's included.

use std::fmt::Write as _;

use super::{PlanGraph, SubTaskState};
use crate::text::is_invisible;

/// Deeper levels of [`PlanGraph::tree`] are not indented further, so that a long chain is not drawn in quadratic space.
const DEEPEST_INDENT: usize = 32;

const STATES: [SubTaskState; 6] = [
    SubTaskState::Waiting,
    SubTaskState::Ready,
    SubTaskState::Running,
    SubTaskState::Succeeded,
    SubTaskState::Failed,
    SubTaskState::Skipped,
];

impl SubTaskState {
    fn sign(self) -> char {
        match self {
            SubTaskState::Waiting => '·',
            SubTaskState::Ready => '○',
            SubTaskState::Running => '▶',
            SubTaskState::Succeeded => '✓',
            SubTaskState::Failed => '✗',
            SubTaskState::Skipped => '↷',
        }
    }

    /// Fill and border.
    fn colours(self) -> (&'static str, &'static str) {
        match self {
            SubTaskState::Waiting => ("#eeeeee", "#888888"),
            SubTaskState::Ready => ("#fff3c4", "#b7880b"),
            SubTaskState::Running => ("#cfe2ff", "#0b5ed7"),
            SubTaskState::Succeeded => ("#d1e7dd", "#146c43"),
            SubTaskState::Failed => ("#f8d7da", "#b02a37"),
            SubTaskState::Skipped => ("#e2d9f3", "#59359a"),
        }
    }
}

impl PlanGraph {
    /// A Mermaid flowchart; a sub-task's state is its class.
    pub fn mermaid(&self) -> String {
        let mut drawing = String::from("flowchart TD\n");
        for (index, subtask) in self.plan().subtasks.iter().enumerate() {
            let (title, id) = (mermaid_text(&subtask.title), mermaid_text(&subtask.id.0));
            let _ = writeln!(
                drawing,
                "    s{index}[\"{title}<br/>{id}\"]:::{}",
                self.state(index)
            );
        }
        for index in 0..self.plan().subtasks.len() {
            for dependency in self.dependencies(index) {
                let _ = writeln!(drawing, "    s{dependency} --> s{index}");
            }
        }
        for state in STATES {
            let (fill, border) = state.colours();
            let _ = writeln!(
                drawing,
                "    classDef {state} fill:{fill},stroke:{border},color:#000000"
            );
        }
        drawing
    }

    /// A Graphviz digraph; a sub-task's state is its colour and its class.
    pub fn dot(&self) -> String {
        let mut drawing = String::from("digraph plan {\n    node [shape=box, style=filled];\n");
        for (index, subtask) in self.plan().subtasks.iter().enumerate() {
            let (title, id) = (dot_text(&subtask.title), dot_text(&subtask.id.0));
            let state = self.state(index);
            let (fill, border) = state.colours();
            let _ = writeln!(
                drawing,
                "    s{index} [label=\"{title}\\n{id}\", class=\"{state}\", fillcolor=\"{fill}\", color=\"{border}\"];"
            );
        }
        for index in 0..self.plan().subtasks.len() {
            for dependency in self.dependencies(index) {
                let _ = writeln!(drawing, "    s{dependency} -> s{index};");
            }
        }
        drawing.push_str("}\n");
        drawing
    }

    /// Indented text, one line for each sub-task, under the first that it depends on; what else it depends on is noted.
    /// From the 33rd level on lines are not indented further, and name what they are under.
    pub fn tree(&self) -> String {
        let mut drawing = String::new();
        let len = self.plan().subtasks.len();
        let roots = (0..len).filter(|index| self.dependencies(*index).next().is_none());
        let mut open: Vec<(usize, usize)> = roots.map(|index| (index, 0)).collect();
        open.reverse();
        while let Some((index, depth)) = open.pop() {
            self.tree_line(&mut drawing, index, depth);
            let first_child = open.len();
            let under = self.dependents(index);
            open.extend(
                under
                    .filter(|child| self.dependencies(*child).next() == Some(index))
                    .map(|child| (child, depth + 1)),
            );
            open[first_child..].reverse();
        }
        drawing
    }

    fn tree_line(&self, drawing: &mut String, index: usize, depth: usize) {
        let subtask = &self.plan().subtasks[index];
        let state = self.state(index);
        let indent = "  ".repeat(depth.min(DEEPEST_INDENT));
        let (title, id) = (plain_text(&subtask.title), plain_text(&subtask.id.0));
        let _ = write!(drawing, "{indent}{} {title} [{id}] {state}", state.sign());
        let names = |skipped: usize| -> Vec<String> {
            let after = self.dependencies(index).skip(skipped);
            after
                .map(|after| plain_text(&self.plan().subtasks[after].id.0))
                .collect()
        };
        let note = if depth > DEEPEST_INDENT {
            format!("after {}", names(0).join(", "))
        } else {
            format!("also after {}", names(1).join(", "))
        };
        if !note.ends_with(' ') {
            let _ = write!(drawing, " ({note})");
        }
        drawing.push('\n');
    }
}

/// All but letters, digits and spaces becomes a numeric entity, which Mermaid decodes only after it has parsed the drawing and
/// the Markdown in its labels. Marks inside a word (`edit-parser`, `src/a.rs`) mean nothing to either and stay readable.
fn mermaid_text(text: &str) -> String {
    let text: Vec<char> = plain_text(text).chars().collect();
    let mut label = String::with_capacity(text.len());
    for (place, &c) in text.iter().enumerate() {
        let word_char = |place: Option<usize>| {
            place
                .and_then(|place| text.get(place))
                .is_some_and(|c| c.is_alphanumeric())
        };
        let inside_word = word_char(place.checked_sub(1)) && word_char(Some(place + 1));
        if c.is_alphanumeric() || c == ' ' || inside_word && matches!(c, '-' | '_' | '.' | '/') {
            label.push(c);
        } else {
            let _ = write!(label, "#{};", u32::from(c));
        }
    }
    label
}

/// For a quoted string of Graphviz, which knows backslash escapes and HTML entities.
fn dot_text(text: &str) -> String {
    let mut label = String::with_capacity(text.len());
    for c in plain_text(text).chars() {
        match c {
            '"' | '\\' => label.extend(['\\', c]),
            '&' => label.push_str("&amp;"),
            _ => label.push(c),
        }
    }
    label
}

/// One line: white space becomes single spaces; control characters, and the invisible ones that reorder or hide text, go.
fn plain_text(text: &str) -> String {
    let words: Vec<String> = text
        .split_whitespace()
        .map(|word| {
            word.chars()
                .filter(|c| !c.is_control() && !is_invisible(*c))
                .collect()
        })
        .filter(|word: &String| !word.is_empty())
        .collect();
    words.join(" ")
}
