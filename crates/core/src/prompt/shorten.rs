//! Shortens long results, marks the omissions, and adds the handle for reading the rest (PAOR-6). Text is cut between lines, and lists in
//! data between their entries.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::text::{first_numbered_line, omission, shorten, shorten_error, shorten_value};
use crate::tool::{ModelToolResult, OmittedPart};

/// The name of the tool that reads shortened output.
pub const READ_OUTPUT: &str = "read_output";

/// Minimum length of a shortened output in characters, even if the rest of the result is long.
const MIN_OUTPUT: usize = 400;

/// Shortens a tool's result for a model to about `max` characters.
pub(crate) fn shorten_result(
    mut result: ModelToolResult,
    max: usize,
    handle: Option<&str>,
) -> ModelToolResult {
    if size(&result) <= max {
        return result;
    }
    let error = result.error.take();
    result.error = error.map(|error| shorten_error(&error, max / 4, handle).into_owned());
    bound_changes(&mut result.changes, max / 4);
    if let Some(output) = result.output.take() {
        // The size of everything but the output, including the line break that separates the output.
        result.output = Some(Value::from("…"));
        let others = size(&result) - 1;
        let room = max.saturating_sub(others).max(MIN_OUTPUT.min(max));
        result.output = Some(shorten_output(&output, room, handle, result.omit));
    }
    result
}

/// Shortens an output to about `max` characters.
pub(crate) fn shorten_output(output: &Value, max: usize, handle: Option<&str>, omit: OmittedPart) -> Value {
    match output {
        Value::String(text) => Value::String(shorten_lines(text, max, handle, omit)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => {
            shorten_data(output, max, handle)
        }
    }
}

/// Shortens text to about `max` characters by whole lines. If its lines are too long, cuts within lines.
fn shorten_lines(text: &str, max: usize, handle: Option<&str>, omit: OmittedPart) -> String {
    let total = text.chars().count();
    if total <= max {
        return text.to_owned();
    }
    let errors = match omit {
        OmittedPart::Middle if first_numbered_line(text).is_none() => error_lines(text),
        OmittedPart::Middle | OmittedPart::End => Vec::new(),
    };
    if !errors.is_empty() {
        return shorten_log(text, &errors, max, handle);
    }
    let (head_room, tail_room) = match omit {
        OmittedPart::Middle => (max * 2 / 3, max / 3),
        OmittedPart::End => (max, 0),
    };
    let fitting = |lines: &mut dyn Iterator<Item = &str>, room: usize| {
        let mut fitting = Fitting::default();
        for line in lines {
            let characters = line.chars().count();
            if fitting.characters + characters > room {
                break;
            }
            fitting.lines += 1;
            fitting.characters += characters;
            fitting.bytes += line.len();
        }
        fitting
    };
    let head = fitting(&mut text.split_inclusive('\n'), head_room);
    let tail = fitting(&mut text.split_inclusive('\n').rev(), tail_room);
    if head.characters + tail.characters < max / 2 {
        return shorten(text, max, handle).into_owned();
    }
    // The output of a file read already has line numbers, so use them. Its first line is a header; the file starts on the second line.
    let number = |line: usize| match first_numbered_line(text) {
        Some(first) => (first + line).saturating_sub(2),
        None => line,
    };
    let last = number(text.split_inclusive('\n').count() - tail.lines);
    let first = number(head.lines + 1);
    let lines = match first == last {
        true => format!("line {first}"),
        false => format!("lines {first} to {last}"),
    };
    let left_out = total - head.characters - tail.characters;
    format!(
        "{}… [{lines}, {left_out} characters left out: {}] …\n{}",
        &text[..head.bytes],
        omission(handle),
        &text[text.len() - tail.bytes..]
    )
}

/// Lowercase words that mark a line of a log as an error line.
const ERROR_WORDS: [&str; 5] = ["error", "failed", "failure", "panicked", "fatal"];
/// Phrases that contain an error word but say that there are no errors. The `0 failed` in `10 failed` does not count.
const NO_ERRORS: [&str; 4] = ["0 errors", "0 failed", "0 failures", "no errors"];
/// The number of lines to show after an error line, because they often say where the error is.
const AFTER_ERROR: usize = 2;
/// Maximum length of a line from the middle of a log, in characters.
const MAX_ERROR_LINE: usize = 300;

/// Returns the indices of the error lines.
fn error_lines(text: &str) -> Vec<usize> {
    let says_error = |line: &str| {
        let line = line.to_lowercase();
        ERROR_WORDS.iter().any(|word| line.contains(word))
            && !NO_ERRORS.iter().any(|none| {
                let mut places = line.match_indices(none);
                places.any(|(at, _)| !line[..at].ends_with(|c: char| c.is_ascii_digit()))
            })
    };
    let lines = text.lines().enumerate();
    lines
        .filter(|(_, line)| says_error(line))
        .map(|(index, _)| index)
        .collect()
}

/// Shortens a log to about `max` characters: keeps its first and last lines and, from the middle, the first error lines, each with the
/// lines after it.
fn shorten_log(text: &str, errors: &[usize], max: usize, handle: Option<&str>) -> String {
    let lines: Vec<&str> = text.lines().collect();
    // The end of a long line is kept as well, because it often says what is wrong.
    let cut = |line: &str| cut_line(line, MAX_ERROR_LINE.min(max / 4));
    let mut kept: BTreeMap<usize, String> = BTreeMap::new();
    let mut keep = |room: usize, wanted: &mut dyn Iterator<Item = usize>| {
        let mut room = room;
        for index in wanted.filter(|index| *index < lines.len()) {
            if kept.contains_key(&index) {
                continue;
            }
            let line = cut(lines[index]);
            let Some(rest) = room.checked_sub(line.chars().count() + 1) else {
                break;
            };
            room = rest;
            kept.insert(index, line);
        }
    };
    keep(max / 4, &mut (0..lines.len()));
    keep(max / 4, &mut (0..lines.len()).rev());
    let around = |index: &usize| *index..=index + AFTER_ERROR;
    keep(max / 2, &mut errors.iter().flat_map(around));
    let characters =
        |lines: &mut dyn Iterator<Item = &str>| lines.map(|line| line.chars().count() + 1).sum::<usize>();
    if characters(&mut kept.values().map(String::as_str)) < max / 2 {
        return shorten(text, max, handle).into_owned();
    }
    let omitted = lines
        .iter()
        .enumerate()
        .filter(|(index, _)| !kept.contains_key(index));
    let left_out = characters(&mut omitted.map(|(_, line)| *line));
    let mut shortened = String::new();
    let (mut next, mut is_first_gap) = (0, true);
    for (index, line) in &kept {
        shortened.push_str(&gap(next, *index, &mut is_first_gap, left_out, handle));
        shortened.push_str(line);
        shortened.push('\n');
        next = index + 1;
    }
    shortened.push_str(&gap(next, lines.len(), &mut is_first_gap, left_out, handle));
    shortened
}

/// Shortens a line of a log. The log's first gap says how to read what is left out.
fn cut_line(line: &str, max: usize) -> String {
    let count = line.chars().count();
    if count <= max {
        return line.to_owned();
    }
    let half = max.saturating_sub(4) / 2;
    let head: String = line.chars().take(half).collect();
    let tail: String = line.chars().skip(count - half).collect();
    format!("{head} … {tail}")
}

/// Returns the note for the lines from index `next` up to `index`, which are left out; empty if there are none. The first note says how to
/// read them.
fn gap(next: usize, index: usize, is_first: &mut bool, left_out: usize, handle: Option<&str>) -> String {
    if next == index {
        return String::new();
    }
    let lines = match index - next {
        1 => format!("line {index}"),
        _ => format!("lines {} to {index}", next + 1),
    };
    match std::mem::replace(is_first, false) {
        true => format!(
            "… [{lines}, {left_out} characters left out in all: {}] …\n",
            omission(handle)
        ),
        false => format!("… [{lines}] …\n"),
    }
}

/// The lines at one end of the text that fit into the available space, with their size.
#[derive(Default)]
struct Fitting {
    lines: usize,
    characters: usize,
    bytes: usize,
}

/// Shortens data to about `max` characters. First shortens its long strings, then its lists; both keep the structure. If this is not
/// enough, replaces the data with the beginning and the end of its JSON text.
fn shorten_data(data: &Value, max: usize, handle: Option<&str>) -> Value {
    let fits = |value: &Value| data_size(value) <= max;
    if fits(data) {
        return data.clone();
    }
    let mut shortened = Value::Null;
    for most in [max / 8 * 7, max / 2, max / 4, max / 8] {
        shortened = shorten_value(data, most, handle);
        if fits(&shortened) {
            return shortened;
        }
    }
    // Binary search for the largest number of entries that fits: `fitting` fits, unless it is 0, and `too_many` does not.
    let (mut fitting, mut too_many) = (0, longest_list(&shortened));
    while fitting + 1 < too_many {
        let entries = fitting.midpoint(too_many);
        match fits(&bound_lists(&shortened, entries, handle)) {
            true => fitting = entries,
            false => too_many = entries,
        }
    }
    match fitting {
        0 => Value::String(shorten(&data.to_string(), max, handle).into_owned()),
        entries => bound_lists(&shortened, entries, handle),
    }
}

/// The number of entries of the longest list in the data.
fn longest_list(data: &Value) -> usize {
    match data {
        Value::Array(items) => {
            let inner = items.iter().map(longest_list).max();
            items.len().max(inner.unwrap_or_default())
        }
        Value::Object(fields) => fields.values().map(longest_list).max().unwrap_or_default(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => 0,
    }
}

/// Keeps the first `most` entries of each list, and adds a note with the number of the others.
fn bound_lists(data: &Value, most: usize, handle: Option<&str>) -> Value {
    match data {
        Value::Array(items) => {
            let kept = items.iter().take(most);
            let more = items.len().saturating_sub(most);
            let note = (more > 0).then(|| format!("… [{more} more left out: {}]", omission(handle)));
            kept.map(|item| bound_lists(item, most, handle))
                .chain(note.map(Value::String))
                .collect()
        }
        Value::Object(fields) => fields
            .iter()
            .map(|(name, field)| (name.clone(), bound_lists(field, most, handle)))
            .collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => data.clone(),
    }
}

/// Keeps the first changes, up to about `max` characters, and adds a note with the number of the others.
fn bound_changes(changes: &mut Vec<String>, max: usize) {
    for change in changes.iter_mut() {
        *change = shorten(change, max, None).into_owned();
    }
    let mut room = max;
    let fits = |change: &&String| {
        let rest = room.checked_sub(change.chars().count() + 2);
        room = rest.unwrap_or_default();
        rest.is_some()
    };
    let kept = changes.iter().take_while(fits).count().max(1);
    let more = changes.len().saturating_sub(kept);
    if more > 0 {
        changes.truncate(kept);
        changes.push(format!("… and {more} more"));
    }
}

/// Length of the result as text, in characters.
fn size(result: &ModelToolResult) -> usize {
    result.to_string().chars().count()
}

/// Length of the value as JSON, in characters.
fn data_size(value: &Value) -> usize {
    value.to_string().chars().count()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn output(output: Value) -> ModelToolResult {
        ModelToolResult {
            success: true,
            output: Some(output),
            ..ModelToolResult::default()
        }
    }

    fn shortened(result: ModelToolResult, max: usize) -> String {
        let short = shorten_result(result, max, Some("a1.3")).to_string();
        assert!(short.chars().count() <= max + 120, "{short}");
        short
    }

    #[test]
    fn paor_6_a_note_never_stands_for_text_that_is_hardly_longer() {
        let near = "x".repeat(250);
        let data = json!({"sql": near, "patch": "y".repeat(2_000)});
        let short = shorten_value(&data, 200, Some("a1.7"));
        assert_eq!(short["sql"], near);
        let patch = short["patch"].as_str().unwrap();
        assert!(patch.len() < 300 && patch.contains("handle a1.7"), "{patch}");
        assert_eq!(shorten("a text", 4, Some("a1.7")), "a text");
    }

    #[test]
    fn paor_6_a_text_is_cut_between_lines() {
        let text: String = (1..=1_000).map(|number| format!("line {number}\n")).collect();
        let short = shortened(output(json!(text)), 600);
        assert!(short.starts_with("line 1\nline 2\n"), "{short}");
        assert!(short.ends_with("line 999\nline 1000\n"), "{short}");
        let note = "line 51\n… [lines 52 to 978, 8295 characters left out: read them with read_output, handle a1.3] …\nline 979\n";
        assert!(short.contains(note), "{short}");
    }

    #[test]
    fn paor_6_a_log_keeps_its_ends_and_the_lines_that_say_what_went_wrong() {
        let mut lines: Vec<String> = (1..=1_000)
            .map(|number| format!("   Compiling crate-{number}"))
            .collect();
        lines[399] = "error[E0308]: mismatched types".to_owned();
        lines[400] = "  --> src/lib.rs:7:5".to_owned();
        lines[699] = "test parses ... FAILED".to_owned();
        lines[700] = "thread 'parses' panicked at src/parse.rs:12".to_owned();
        lines[800] = "test result: ok. 3 passed; 0 failed".to_owned();
        let short = shortened(output(json!(lines.join("\n"))), 800);
        for kept in [
            "   Compiling crate-1\n",
            "… [lines 10 to 399, ",
            "error[E0308]: mismatched types\n  --> src/lib.rs:7:5\n   Compiling crate-402\n… [lines 403 to 699] …\n",
            "test parses ... FAILED\nthread 'parses' panicked at src/parse.rs:12\n",
            "handle a1.3",
            "   Compiling crate-1000\n",
        ] {
            assert!(short.contains(kept), "{kept}: {short}");
        }
        assert!(!short.contains("0 failed"), "{short}");
    }

    #[test]
    fn paor_6_a_count_of_failures_that_ends_with_zero_says_what_went_wrong() {
        for (count, is_error) in [
            ("0 failed", false),
            ("10 failed", true),
            ("0 errors", false),
            ("200 errors", true),
        ] {
            let line = format!("test result: {count}");
            assert_eq!(!error_lines(&line).is_empty(), is_error, "{line}");
        }
    }

    #[test]
    fn paor_6_the_lines_that_are_cut_out_of_a_file_have_the_numbers_of_the_file() {
        let lines: String = (101..=900).map(|number| format!("{number}\tline\n")).collect();
        let short = shortened(output(json!(format!("Lines 101-900 of 900\n{lines}"))), 600);
        assert!(short.contains("\n142\tline\n… [lines 143 to "), "{short}");
    }

    #[test]
    fn paor_6_a_list_is_cut_at_its_end() {
        let text: String = (1..=1_000).map(|number| format!("line {number}\n")).collect();
        let list = ModelToolResult {
            omit: OmittedPart::End,
            ..output(json!(text))
        };
        let short = shortened(list, 600);
        assert!(short.contains("line 76\n… [lines 77 to 1000, "), "{short}");
        assert!(
            short.ends_with("left out: read them with read_output, handle a1.3] …\n"),
            "{short}"
        );
    }

    #[test]
    fn paor_6_a_text_with_few_long_lines_is_cut_within_a_line() {
        let short = shortened(output(json!(format!("begin {} end", "word ".repeat(1_000)))), 600);
        assert!(
            short.starts_with("begin word") && short.ends_with("word  end"),
            "{short}"
        );
    }

    #[test]
    fn paor_6_a_list_of_rows_is_cut_between_rows() {
        let rows: Vec<Value> = (1..=500).map(|number| json!([number, "name"])).collect();
        let short = shortened(output(json!({"columns": ["id", "name"], "rows": rows})), 600);
        let data: Value = serde_json::from_str(&short).unwrap_or_default();
        let rows = data["rows"].as_array().map_or(&[][..], Vec::as_slice);
        assert_eq!(data["columns"], json!(["id", "name"]));
        assert_eq!(rows[0], json!([1, "name"]));
        assert_eq!(
            rows[rows.len() - 1],
            format!(
                "… [{} more left out: read them with read_output, handle a1.3]",
                501 - rows.len()
            )
        );
        assert!(rows.len() > 30, "{short}");
    }

    #[test]
    fn paor_6_a_long_list_of_changes_and_a_long_error_are_bounded_too() {
        let changes: Vec<String> = (1..=3_000)
            .map(|number| format!("edited src/module_{number}.rs"))
            .collect();
        let result = ModelToolResult {
            error: Some("e".repeat(9_000)),
            changes,
            ..ModelToolResult::default()
        };

        let short = shorten_result(result, 4_000, Some("a1.3"));

        assert!(size(&short) <= 4_000, "{}", size(&short));
        let error = short.error.unwrap_or_default();
        assert!(
            error.contains("read them with read_output, handle a1.3"),
            "{error}"
        );
        let changes = short.changes;
        assert_eq!(changes[0], "edited src/module_1.rs");
        assert_eq!(
            changes[changes.len() - 1],
            format!("… and {} more", 3_001 - changes.len())
        );
    }

    #[test]
    fn paor_6_a_few_changes_are_complete_even_if_the_output_is_shortened() {
        let changes = vec!["edited a.rs".to_owned(), "edited b.rs".to_owned()];
        let result = ModelToolResult {
            changes: changes.clone(),
            ..output(json!("o".repeat(9_000)))
        };
        assert_eq!(shorten_result(result, 4_000, None).changes, changes);
    }
}
