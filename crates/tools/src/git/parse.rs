//! Converts git's output to JSON for models. Output that does not have the expected format is omitted.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

use dirigent_core::text::shorten;
use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::process::GitOutput;
use super::request::{Command, GitRequest};

/// Maximum length of a text, in characters.
const MAX_TEXT: usize = 60 * 1024;
/// Maximum size of all rows of a list together, in bytes of JSON.
const MAX_ROWS: usize = 60 * 1024;
/// Maximum length of a line in a blame and of a commit's subject in a log, in characters.
const MAX_LINE: usize = 300;
/// Maximum length of a commit's body in a log, in characters.
const MAX_BODY: usize = 1_000;

/// Extracts the names of filters from a NUL-separated list of setting names, such as `filter.NAME.clean`. A filter name can contain any
/// bytes.
pub(super) fn filter_names(stdout: &[u8]) -> Vec<OsString> {
    let mut names: Vec<OsString> = stdout
        .split(|byte| *byte == 0)
        .filter_map(|setting| {
            let rest = setting.strip_prefix(b"filter.")?;
            let end = rest.iter().rposition(|byte| *byte == b'.')?;
            Some(OsStr::from_bytes(&rest[..end]).to_owned())
        })
        .collect();
    names.sort();
    names.dedup();
    names
}

pub(super) fn parse(request: &GitRequest, output: &GitOutput) -> Value {
    let stdout = &*String::from_utf8_lossy(&output.bytes);
    let (name, rows, mut object) = match request.command {
        Command::Diff => return json!({"diff": text(stdout, output.truncated)}),
        Command::Show => return show(stdout, output.truncated),
        Command::Status => {
            let (head, files) = status(complete_rows(stdout, '\0', output));
            ("files", files, head)
        }
        Command::Log => ("commits", log(complete_rows(stdout, '\0', output)), Map::new()),
        Command::Blame => (
            "lines",
            blame(complete_rows(stdout, '\n', output)),
            Map::from_iter([("path".to_owned(), json!(request.paths.first()))]),
        ),
    };
    object.extend(limit_rows(name, rows, output.truncated));
    Value::Object(object)
}

/// Returns the output without an incomplete row or field at its end: if the output is truncated, everything after the last `end` is
/// dropped.
fn complete_rows<'a>(stdout: &'a str, end: char, output: &GitOutput) -> &'a str {
    match stdout.rsplit_once(end) {
        Some((complete_rows, _)) if output.truncated => complete_rows,
        _ => stdout,
    }
}

fn text(stdout: &str, truncated: bool) -> String {
    let mut text = shorten(stdout, MAX_TEXT, None).into_owned();
    if truncated {
        text.push_str("\n… [git's output is longer than 4 MiB, and the rest was not read: narrow the request, for example to fewer paths]");
    }
    text
}

/// Returns the first rows that fit into [`MAX_ROWS`], with the number of omitted rows.
fn limit_rows(name: &str, rows: Vec<Value>, truncated: bool) -> Map<String, Value> {
    let (mut shown, mut left_out, mut room) = (Vec::new(), 0_usize, MAX_ROWS);
    for row in rows {
        let size = row.to_string().len();
        if left_out == 0 && size <= room {
            room -= size;
            shown.push(row);
        } else {
            left_out += 1;
        }
    }
    let mut object = Map::from_iter([(name.to_owned(), Value::from(shown))]);
    if truncated {
        object.insert(
            "left_out".to_owned(),
            json!(format!("at least {}", left_out.max(1))),
        );
    } else if left_out > 0 {
        object.insert("left_out".to_owned(), json!(left_out));
    }
    object
}

/// Parses the output of `git status --porcelain=v2 --branch -z`.
fn status(stdout: &str) -> (Map<String, Value>, Vec<Value>) {
    let mut head = Map::new();
    let mut entries = Vec::new();
    let mut fields = stdout.split('\0');
    while let Some(field) = fields.next() {
        let (kind, rest) = field.split_once(' ').unwrap_or((field, ""));
        match kind {
            "#" => read_branch_header(&mut head, rest),
            "1" => entries.extend(changed(rest, 6, None)),
            "2" => entries.extend(changed(rest, 7, fields.next())),
            "u" => {
                if let Some(path) = rest.splitn(10, ' ').nth(9) {
                    entries.push(json!({"path": path, "working_tree": "unmerged"}));
                }
            }
            "?" => entries.push(json!({"path": rest, "working_tree": "untracked"})),
            _ => {}
        }
    }
    (head, entries)
}

fn read_branch_header(head: &mut Map<String, Value>, line: &str) {
    let (name, value) = line.split_once(' ').unwrap_or((line, ""));
    match name {
        "branch.oid" => drop(head.insert("commit".to_owned(), json!(value))),
        "branch.head" => drop(head.insert("branch".to_owned(), json!(value))),
        "branch.upstream" => drop(head.insert("upstream".to_owned(), json!(value))),
        "branch.ab" => {
            let mut counts = value.split(' ').filter_map(|count| count.parse::<i64>().ok());
            for name in ["ahead", "behind"] {
                if let Some(count) = counts.next() {
                    head.insert(name.to_owned(), json!(count.abs()));
                }
            }
        }
        _ => {}
    }
}

/// Parses the entry of a changed file: its states, `fields` other fields, and its path. `from` is the old path of a renamed or copied file.
fn changed(rest: &str, fields: usize, from: Option<&str>) -> Option<Value> {
    let mut parts = rest.splitn(fields + 2, ' ');
    let states = parts.next()?;
    let path = parts.nth(fields)?;
    let mut row = json!({"path": path});
    for (name, letter) in ["index", "working_tree"].into_iter().zip(states.chars()) {
        if let Some(state) = state(letter) {
            row[name] = json!(state);
        }
    }
    if let Some(from) = from {
        row["from"] = json!(from);
    }
    Some(row)
}

fn state(letter: char) -> Option<&'static str> {
    Some(match letter {
        'M' => "modified",
        'A' => "added",
        'D' => "deleted",
        'R' => "renamed",
        'C' => "copied",
        'T' => "type_changed",
        'U' => "unmerged",
        _ => return None,
    })
}

/// Parses a log: each commit has six fields, each followed by a NUL, with another NUL between commits.
fn log(stdout: &str) -> Vec<Value> {
    let fields: Vec<&str> = stdout.split('\0').collect();
    let commits = fields.chunks(7).filter_map(|commit| {
        let [id, author, email, date, subject, body, ..] = commit else {
            return None;
        };
        let mut row = json!({"commit": id, "author": author, "email": email, "date": date, "subject": shorten(subject, MAX_LINE, None)});
        if !body.trim().is_empty() {
            row["body"] = json!(shorten(body.trim(), MAX_BODY, None));
        }
        Some(row)
    });
    commits.collect()
}

fn show(stdout: &str, truncated: bool) -> Value {
    let fields: Vec<&str> = stdout.splitn(6, '\0').collect();
    match fields.as_slice() {
        [id, author, email, date, message, diff] if id.len() >= 40 && is_hexadecimal(id) => json!({
            "commit": id, "author": author, "email": email, "date": date,
            "message": shorten(message.trim_end(), MAX_TEXT / 4, None), "diff": text(diff.trim_start_matches('\n'), truncated),
        }),
        _ => json!({"text": text(stdout, truncated)}),
    }
}

fn is_hexadecimal(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// Parses the output of `git blame --porcelain`, which describes each commit only once.
fn blame(stdout: &str) -> Vec<Value> {
    let mut commits: HashMap<&str, (&str, &str)> = HashMap::new();
    let mut lines = Vec::new();
    let (mut commit, mut number) = ("", 0_u64);
    for line in stdout.lines() {
        if let Some(text) = line.strip_prefix('\t') {
            let (author, date) = commits.get(commit).copied().unwrap_or_default();
            lines.push((number, commit, author, date, text));
            continue;
        }
        let (name, value) = line.split_once(' ').unwrap_or((line, ""));
        match name {
            "author" => commits.entry(commit).or_default().0 = value,
            "author-time" => commits.entry(commit).or_default().1 = value,
            name if name.len() >= 40 && is_hexadecimal(name) => {
                commit = name;
                number = value
                    .split(' ')
                    .nth(1)
                    .and_then(|line| line.parse().ok())
                    .unwrap_or(0);
            }
            _ => {}
        }
    }
    let lines = lines.into_iter().map(|(number, commit, author, date, text)| {
        let commit: String = commit.chars().take(12).collect();
        json!({"line": number, "commit": commit, "author": author, "date": day(date), "text": shorten(text, MAX_LINE, None)})
    });
    lines.collect()
}

/// Formats the day of a Unix time in seconds, in UTC: `2026-11-22`.
fn day(seconds: &str) -> Option<String> {
    let time = Timestamp::from_second(seconds.parse().ok()?).ok()?;
    Some(time.strftime("%Y-%m-%d").to_string())
}
