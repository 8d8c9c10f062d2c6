//! What git says, as data for models. Nothing is taken on trust: what is not as expected is left out.

use std::collections::HashMap;

use dirigent_core::prompt::shorten;
use serde_json::{Map, Value, json};

use super::{Checked, Command};

/// The longest text, in characters, and the most bytes that the rows of a list have together.
const MAX_TEXT: usize = 60 * 1024;
const MAX_ROWS: usize = 60 * 1024;
/// The longest line of a blame and the longest message of a list, in characters.
const MAX_LINE: usize = 300;
const MAX_BODY: usize = 1_000;

/// The names of filters among the names of settings (`filter.NAME.clean`), each followed by a NUL.
pub(super) fn filter_names(said: &str) -> Vec<String> {
    let mut names: Vec<String> = said
        .split('\0')
        .filter_map(|setting| Some(setting.strip_prefix("filter.")?.rsplit_once('.')?.0.to_owned()))
        .collect();
    names.sort();
    names.dedup();
    names
}

pub(super) fn read(checked: &Checked, said: &str) -> Value {
    match checked.command {
        Command::Status => status(said),
        Command::Diff => json!({"diff": text(said)}),
        Command::Log => log(said),
        Command::Show => show(said),
        Command::Blame => blame(checked, said),
    }
}

fn text(said: &str) -> String {
    shorten(said, MAX_TEXT, None).into_owned()
}

/// The rows as long as there is room, with the number of those that there is none for.
fn rows(name: &str, rows: impl Iterator<Item = Value>) -> Map<String, Value> {
    let (mut kept, mut left_out, mut room) = (Vec::new(), 0_usize, MAX_ROWS);
    for row in rows {
        let size = row.to_string().len();
        if left_out == 0 && size <= room {
            room -= size;
            kept.push(row);
        } else {
            left_out += 1;
        }
    }
    let mut object = Map::from_iter([(name.to_owned(), Value::from(kept))]);
    if left_out > 0 {
        object.insert("left_out".to_owned(), json!(left_out));
    }
    object
}

/// `git status --porcelain=v2 --branch -z`.
fn status(said: &str) -> Value {
    let mut head = Map::new();
    let mut entries = Vec::new();
    let mut fields = said.split('\0');
    while let Some(field) = fields.next() {
        let (kind, rest) = field.split_once(' ').unwrap_or((field, ""));
        match kind {
            "#" => note_head(&mut head, rest),
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
    head.extend(rows("files", entries.into_iter()));
    Value::Object(head)
}

fn note_head(head: &mut Map<String, Value>, line: &str) {
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

/// An entry whose path comes after so many other fields.
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

/// Six fields a commit, each followed by a NUL, with another NUL between commits.
fn log(said: &str) -> Value {
    let fields: Vec<&str> = said.split('\0').collect();
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
    Value::Object(rows("commits", commits))
}

fn show(said: &str) -> Value {
    let fields: Vec<&str> = said.splitn(6, '\0').collect();
    match fields.as_slice() {
        [id, author, email, date, message, diff] if id.len() >= 40 && is_hexadecimal(id) => json!({
            "commit": id, "author": author, "email": email, "date": date,
            "message": shorten(message.trim_end(), MAX_TEXT / 4, None), "diff": text(diff.trim_start_matches('\n')),
        }),
        _ => json!({"text": text(said)}),
    }
}

fn is_hexadecimal(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// `git blame --porcelain`: what is said of a commit is said once.
fn blame(checked: &Checked, said: &str) -> Value {
    let mut commits: HashMap<&str, (&str, &str)> = HashMap::new();
    let mut lines = Vec::new();
    let (mut commit, mut number) = ("", 0_u64);
    for line in said.lines() {
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
    let mut object = Map::from_iter([("path".to_owned(), json!(checked.paths.first()))]);
    object.extend(rows("lines", lines));
    Value::Object(object)
}

/// The day of a Unix time in seconds, in UTC: `2026-11-22`. Counted as civil days, by eras of 400 years that begin in March.
fn day(seconds: &str) -> Option<String> {
    let days = seconds
        .parse::<i64>()
        .ok()?
        .div_euclid(86_400)
        .checked_add(719_468)?;
    let (era, of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 {
        month_from_march + 3
    } else {
        month_from_march - 9
    };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    Some(format!("{year:04}-{month:02}-{day:02}"))
}
