//! The output of `rename_symbol` as text, which models read.
//!
//! Paragraphs are separated by empty lines, and no line of a paragraph is empty. A paragraph is the uses in a file, whose first line ends
//! with their number in parentheses, or a list, whose first line ends with a colon.

use std::fmt::Write as _;

use super::change::PlannedEdit;
use super::report::{FileRows, Located, Report};
use super::syntax::{Prose, Role};
use crate::truncate::truncate_chars;

/// The maximum number of changed lines that the result of a rename shows.
const MAX_CHANGED_LINES: usize = 40;
/// The maximum length of such a line, in characters.
const MAX_LINE_CHARS: usize = 200;

/// Returns the uses of the name, after a note that nothing was changed if there is a new name.
pub(super) fn preview(report: &Report) -> String {
    let uses = listing(report);
    match &report.to {
        Some(to) if report.occurrences > 0 => {
            format!("Preview: nothing was changed. Renaming to `{to}` would change {uses}")
        }
        Some(_) | None => uses,
    }
}

/// Returns the uses of the name, and what a rename would leave, miss or break.
pub(super) fn listing(report: &Report) -> String {
    let Report { from, totals, .. } = report;
    let mut text = headline(report);
    for file in &report.files {
        let _ = writeln!(text, "\n{} ({})", file.path, file.total);
        text.push_str(&uses(file));
    }
    if let Some(to) = &report.to {
        let heading = format!("`{to}` is in use already");
        section(&mut text, &heading, &report.clashes, totals.clashes, located);
    }
    let heading = "Uses that seem to belong to a library, which a rename would break";
    section(
        &mut text,
        heading,
        &report.foreign,
        totals.foreign,
        lines_of_files,
    );
    let heading = "Imports of a module with this name, whose file keeps its name";
    section(&mut text, heading, &report.modules, totals.modules, located);
    let heading = "Uses whose object or type the syntax does not show, so some may be other symbols";
    section(
        &mut text,
        heading,
        &report.members,
        totals.members,
        lines_of_files,
    );
    let heading = "In comments and strings, which a rename leaves as they are";
    section(
        &mut text,
        heading,
        &report.mentions,
        totals.mentions,
        |mentions| {
            let rows = mentions.iter().map(|mention| {
                let (path, at) = (&mention.path, &mention.location);
                let kind = match mention.prose {
                    Prose::String => "string",
                    Prose::Comment => "comment",
                };
                format!("{path}:{}:{}: {kind}: {}\n", at.line, at.column, at.text)
            });
            rows.collect()
        },
    );
    if !report.similar.is_empty() {
        let _ = writeln!(
            text,
            "\nNames similar to `{from}`: `{}`",
            report.similar.join("`, `")
        );
    }
    let heading = "Files with syntax errors, where uses may be missed";
    section(
        &mut text,
        heading,
        &report.syntax_errors,
        totals.syntax_errors,
        |paths| paths.iter().map(|path| format!("{path}\n")).collect(),
    );
    let heading = "Files that were not read";
    section(&mut text, heading, &report.skipped, totals.skipped, |files| {
        let rows = files.iter();
        rows.map(|file| format!("{}: {}\n", file.path, file.reason))
            .collect()
    });
    text
}

fn headline(report: &Report) -> String {
    let Report { from, totals, .. } = report;
    if report.occurrences == 0 {
        return format!("No uses of `{from}`\n");
    }
    let mut text = uses_in_files(report.occurrences, from, totals.files);
    if totals.introductions == 0 {
        text.push_str("; no searched file defines it");
    }
    let listed: usize = report.files.iter().map(|file| file.occurrences.len()).sum();
    if listed < report.occurrences {
        let _ = write!(text, "; only the first {listed} are listed");
    }
    text.push('\n');
    text
}

fn uses_in_files(uses: usize, name: &str, files: usize) -> String {
    format!(
        "{} of `{name}` in {}",
        count(uses, "use", "uses"),
        count(files, "file", "files")
    )
}

fn count(number: usize, one: &str, more: &str) -> String {
    match number {
        1 => format!("1 {one}"),
        _ => format!("{number} {more}"),
    }
}

/// Returns a line for each line with uses: `3 definition: fn old() {`, or `9 (2): old(old)` if it has several.
fn uses(file: &FileRows) -> String {
    let mut text = String::new();
    let same_line = file
        .occurrences
        .chunk_by(|one, other| one.location.line == other.location.line);
    for uses in same_line {
        let Some(first) = uses.first() else {
            continue;
        };
        let is_definition = uses.iter().any(|one| match one.role {
            Role::Definition | Role::Declared => true,
            Role::Imported(_) | Role::Bound | Role::Local | Role::Use => false,
        });
        let definition = if is_definition { " definition" } else { "" };
        let number = match uses.len() {
            1 => String::new(),
            several => format!(" ({several})"),
        };
        let at = &first.location;
        let _ = writeln!(text, "{}{definition}{number}: {}", at.line, at.text);
    }
    text
}

/// Appends a heading and the rows below it; nothing if there are no rows. The heading says how many of `total` rows are listed, unless all
/// are.
fn section<T>(text: &mut String, heading: &str, rows: &[T], total: usize, list: impl Fn(&[T]) -> String) {
    if rows.is_empty() {
        return;
    }
    let cut = match rows.len() {
        all if all == total => String::new(),
        listed => format!(" (the first {listed} of {total})"),
    };
    let _ = write!(text, "\n{heading}{cut}:\n{}", list(rows));
}

fn located(rows: &[Located]) -> String {
    let row = |row: &Located| {
        let at = &row.location;
        format!("{}:{}:{}: {}\n", row.path, at.line, at.column, at.text)
    };
    rows.iter().map(row).collect()
}

/// Lists uses, whose text is listed already, by the numbers of their lines: `src/a.rs: 4, 9`.
fn lines_of_files(rows: &[Located]) -> String {
    let of_file = |rows: &[Located]| {
        let mut lines: Vec<String> = rows.iter().map(|row| row.location.line.to_string()).collect();
        lines.dedup();
        let path = rows.first().map_or("", |row| &row.path);
        format!("{path}: {}\n", lines.join(", "))
    };
    rows.chunk_by(|one, other| one.path == other.path)
        .map(of_file)
        .collect()
}

/// Returns what was renamed: for each file the number of uses and its changed lines, then the places that still have the old name.
pub(super) fn renamed(report: &Report, changes: &[PlannedEdit]) -> String {
    let (from, to) = (&report.from, report.to.as_deref().unwrap_or_default());
    let (uses, files) = (
        count(report.occurrences, "use", "uses"),
        count(changes.len(), "file", "files"),
    );
    let mut text = format!("Renamed `{from}` to `{to}`: {uses} in {files}\n");
    let mut room = MAX_CHANGED_LINES;
    for change in changes {
        let uses = report.files.iter().find(|file| file.path == change.path());
        let uses = uses.map_or_else(String::new, |file| format!(" ({})", file.total));
        let _ = writeln!(text, "\n{}{uses}", change.path());
        for (number, line) in change.changed_lines().take(room) {
            room -= 1;
            let _ = writeln!(text, "{number}\t{}", truncate_chars(&line, MAX_LINE_CHARS));
        }
    }
    if !report.mentions.is_empty() {
        let _ = writeln!(text, "\n`{from}` is left in comments and strings:");
    }
    for mention in &report.mentions {
        let line = mention.location.line;
        let _ = writeln!(text, "{}:{line}: {}", mention.path, mention.location.text);
    }
    for path in &report.syntax_errors {
        let _ = writeln!(text, "{path} has syntax errors, so uses in it may be missed");
    }
    for skipped in &report.skipped {
        let _ = writeln!(text, "{} was not read: {}", skipped.path, skipped.reason);
    }
    text
}
