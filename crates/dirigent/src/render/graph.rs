//! Drawings of a plan and the states of its sub-tasks. Ids and titles come from a model, so they are escaped: they never act as syntax of a
//! drawing or as control sequences of a terminal.

use std::fmt::Write as _;

use dirigent_core::plan::{PlanGraph, SubTaskState};
use dirigent_core::text::is_invisible;

/// Maximum indentation level of [`tree`], so that the size of the text does not grow quadratically with the length of a chain.
const DEEPEST_INDENT: usize = 32;

const STATES: [SubTaskState; 6] = [
    SubTaskState::Waiting,
    SubTaskState::Ready,
    SubTaskState::Running,
    SubTaskState::Succeeded,
    SubTaskState::Failed,
    SubTaskState::Skipped,
];

/// Draws a Mermaid flowchart; a sub-task's state is its class.
pub fn mermaid(graph: &PlanGraph) -> String {
    let mut drawing = String::from("flowchart TD\n");
    for (index, subtask) in graph.plan().subtasks.iter().enumerate() {
        let (title, id) = (mermaid_text(&subtask.title), mermaid_text(&subtask.id.0));
        let may_fail = if subtask.may_fail { "<br/>may fail" } else { "" };
        let _ = writeln!(
            drawing,
            "    s{index}[\"{title}<br/>{id}{may_fail}\"]:::{}",
            graph.state(index)
        );
    }
    for index in 0..graph.plan().subtasks.len() {
        for dependency in graph.dependencies(index) {
            let _ = writeln!(drawing, "    s{dependency} --> s{index}");
        }
    }
    for state in STATES {
        let (fill, border) = colours(state);
        let _ = writeln!(
            drawing,
            "    classDef {state} fill:{fill},stroke:{border},color:#000000"
        );
    }
    drawing
}

/// Draws a Graphviz digraph; a sub-task's state is its colour and its class.
pub fn dot(graph: &PlanGraph) -> String {
    let mut drawing = String::from("digraph plan {\n    node [shape=box, style=filled];\n");
    for (index, subtask) in graph.plan().subtasks.iter().enumerate() {
        let (title, id) = (dot_text(&subtask.title), dot_text(&subtask.id.0));
        let state = graph.state(index);
        let (fill, border) = colours(state);
        let may_fail = if subtask.may_fail { "\\nmay fail" } else { "" };
        let _ = writeln!(
            drawing,
            "    s{index} [label=\"{title}\\n{id}{may_fail}\", class=\"{state}\", fillcolor=\"{fill}\", color=\"{border}\"];"
        );
    }
    for index in 0..graph.plan().subtasks.len() {
        for dependency in graph.dependencies(index) {
            let _ = writeln!(drawing, "    s{dependency} -> s{index};");
        }
    }
    drawing.push_str("}\n");
    drawing
}

/// Draws an indented tree: each sub-task on a line below its first dependency, with its other dependencies at the end of the line.
///
/// Lines from the 33rd level on are not indented further and name all their dependencies.
pub fn tree(graph: &PlanGraph) -> String {
    tree_of(graph, &|index| {
        let subtask = &graph.plan().subtasks[index];
        let state = graph.state(index);
        let (title, id) = (plain_text(&subtask.title), plain_text(&subtask.id.0));
        let may_fail = if subtask.may_fail { " (may fail)" } else { "" };
        format!("{} {title} [{id}] {state}{may_fail}", sign(state))
    })
}

/// Draws the same tree as [`tree`], but with labels from a function of the sub-task's index.
pub(super) fn tree_of(graph: &PlanGraph, label: &dyn Fn(usize) -> String) -> String {
    let mut drawing = String::new();
    let len = graph.plan().subtasks.len();
    let roots = (0..len).filter(|index| graph.dependencies(*index).next().is_none());
    let mut open: Vec<(usize, usize)> = roots.map(|index| (index, 0)).collect();
    open.reverse();
    while let Some((index, depth)) = open.pop() {
        tree_line(graph, &mut drawing, label(index), index, depth);
        let first_child = open.len();
        let under = graph.dependents(index);
        open.extend(
            under
                .filter(|child| graph.dependencies(*child).next() == Some(index))
                .map(|child| (child, depth + 1)),
        );
        open[first_child..].reverse();
    }
    drawing
}

fn tree_line(graph: &PlanGraph, drawing: &mut String, label: String, index: usize, depth: usize) {
    let indent = "  ".repeat(depth.min(DEEPEST_INDENT));
    let _ = write!(drawing, "{indent}{label}");
    let names = |skipped: usize| -> Vec<String> {
        let dependencies = graph.dependencies(index).skip(skipped);
        dependencies
            .map(|dependency| plain_text(&graph.plan().subtasks[dependency].id.0))
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

fn sign(state: SubTaskState) -> char {
    match state {
        SubTaskState::Waiting => '·',
        SubTaskState::Ready => '○',
        SubTaskState::Running => '▶',
        SubTaskState::Succeeded => '✓',
        SubTaskState::Failed => '✗',
        SubTaskState::Skipped => '↷',
    }
}

/// Returns the colours of the fill and the border.
fn colours(state: SubTaskState) -> (&'static str, &'static str) {
    match state {
        SubTaskState::Waiting => ("#eeeeee", "#888888"),
        SubTaskState::Ready => ("#fff3c4", "#b7880b"),
        SubTaskState::Running => ("#cfe2ff", "#0b5ed7"),
        SubTaskState::Succeeded => ("#d1e7dd", "#146c43"),
        SubTaskState::Failed => ("#f8d7da", "#b02a37"),
        SubTaskState::Skipped => ("#e2d9f3", "#59359a"),
    }
}

/// Escapes text for a Mermaid label. All characters except letters, digits and spaces become numeric entities, which Mermaid decodes only
/// after it has parsed the drawing and the Markdown in its labels. Punctuation inside a word (`edit-parser`, `src/a.rs`) has no meaning in
/// either syntax and is kept.
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

/// Escapes text for a quoted string of Graphviz, which reads backslash escapes and HTML entities.
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

/// Returns the text on one line, with single spaces and without control characters and invisible characters, which can reorder or hide
/// text.
pub(super) fn plain_text(text: &str) -> String {
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
