//! Converts git's output to text for models. Output that does not have the expected format is omitted.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::os::unix::ffi::OsStrExt;

use dirigent_core::text::shorten;
use dirigent_core::tool::{OmittedPart, ToolResult, display_path};
use jiff::Timestamp;

use super::process::GitOutput;
use super::request::{Command, GitRequest};

/// Maximum length of text in a result, in characters.
const MAX_TEXT: usize = 60 * 1024;
/// Maximum size of all rows of a list together, in bytes.
const MAX_ROWS: usize = 60 * 1024;
/// Maximum length of a line in a blame and of a commit's subject in a log, in characters.
const MAX_LINE: usize = 300;
/// Maximum length of a commit's body in a log, in characters.
const MAX_BODY: usize = 1_000;
/// Number of characters shown of a commit's id in a list.
const SHORT_ID: usize = 12;

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

/// Returns the result of a call.
pub(super) fn parse(request: &GitRequest, output: &GitOutput) -> ToolResult {
    let stdout = &*String::from_utf8_lossy(&output.bytes);
    let truncated = output.truncated;
    let (text, omit) = match request.command {
        Command::Diff if stdout.is_empty() => ("No differences".to_owned(), OmittedPart::Middle),
        Command::Diff => (text(stdout, truncated), OmittedPart::Middle),
        Command::Show => (show(stdout, truncated), OmittedPart::Middle),
        Command::Status => {
            let (head, files) = status(complete_rows(stdout, '\0', output));
            let files = match files.is_empty() {
                true => vec!["Nothing differs from the last commit".to_owned()],
                false => files.iter().map(ToString::to_string).collect(),
            };
            (limit_rows(head.line(), files, truncated), OmittedPart::End)
        }
        Command::Log => {
            let commits = log(complete_rows(stdout, '\0', output));
            (limit_rows(None, commits, truncated), OmittedPart::End)
        }
        Command::Blame => {
            let lines = blame(complete_rows(stdout, '\n', output));
            (limit_rows(None, lines, truncated), OmittedPart::End)
        }
    };
    ToolResult {
        omit,
        ..ToolResult::success(text.into())
    }
}

/// Returns the output without an incomplete row or field at its end: if the output is truncated, everything after the last `end` is
/// dropped.
pub(super) fn complete_rows<'a>(stdout: &'a str, end: char, output: &GitOutput) -> &'a str {
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

/// Returns the first line, if any, and the rows that fit into [`MAX_ROWS`], with the number of omitted rows.
fn limit_rows(first: Option<String>, rows: Vec<String>, truncated: bool) -> String {
    let (mut shown, mut left_out, mut room) = (Vec::from_iter(first), 0_usize, MAX_ROWS);
    for row in rows {
        if left_out == 0 && row.len() <= room {
            room -= row.len();
            shown.push(row);
        } else {
            left_out += 1;
        }
    }
    if truncated {
        shown.push(format!("… at least {} more are left out", left_out.max(1)));
    } else if left_out > 0 {
        shown.push(format!("… {left_out} more are left out"));
    }
    shown.join("\n")
}

/// The state of the branch.
#[derive(Default)]
pub(super) struct Head {
    /// `(detached)` without a branch.
    pub(super) branch: String,
    /// `(initial)` without a commit.
    pub(super) commit: String,
    upstream: Option<String>,
    ahead: i64,
    behind: i64,
}

impl Head {
    /// Formats the state on one line; `None` if git did not report it.
    fn line(&self) -> Option<String> {
        if self.branch.is_empty() {
            return None;
        }
        let mut line = format!("On {} at {}", display_path(&self.branch), short_id(&self.commit));
        if let Some(upstream) = &self.upstream {
            line.push_str(&format!("; upstream {}", display_path(upstream)));
        }
        for (name, count) in [("ahead", self.ahead), ("behind", self.behind)] {
            if count > 0 {
                line.push_str(&format!(", {name} {count}"));
            }
        }
        Some(line)
    }
}

/// A file that differs from the last commit, in the form of `git status --short`.
pub(super) struct ChangedFile {
    /// Git's letter for the state in the index; a space if the file does not differ.
    index: char,
    /// Git's letter for the state in the working tree; a space if the file does not differ.
    working_tree: char,
    /// The path; `OLD -> NEW` for a renamed or copied file.
    path: String,
}

impl fmt::Display for ChangedFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{} {}", self.index, self.working_tree, self.path)
    }
}

impl ChangedFile {
    /// Returns the state in the working tree or, if the file does not differ there, in the index.
    pub(super) fn state(&self) -> &'static str {
        let letter = match self.working_tree {
            ' ' => self.index,
            letter => letter,
        };
        match letter {
            'M' => "modified",
            'A' => "added",
            'D' => "deleted",
            'R' => "renamed",
            'C' => "copied",
            'T' => "type changed",
            'U' => "unmerged",
            '?' => "untracked",
            _ => "",
        }
    }
}

/// Parses the output of `git status --porcelain=v2 --branch -z`.
pub(super) fn status(stdout: &str) -> (Head, Vec<ChangedFile>) {
    let mut head = Head::default();
    let mut entries = Vec::new();
    let mut fields = stdout.split('\0');
    while let Some(field) = fields.next() {
        let (kind, rest) = field.split_once(' ').unwrap_or((field, ""));
        match kind {
            "#" => head.read_header(rest),
            "1" => entries.extend(changed(rest, 6, None)),
            "2" => entries.extend(changed(rest, 7, fields.next())),
            "u" => entries.extend(changed(rest, 8, None).map(|file| ChangedFile {
                index: 'U',
                working_tree: 'U',
                ..file
            })),
            "?" => entries.push(ChangedFile {
                index: '?',
                working_tree: '?',
                path: display_path(rest),
            }),
            _ => {}
        }
    }
    (head, entries)
}

impl Head {
    fn read_header(&mut self, line: &str) {
        let (name, value) = line.split_once(' ').unwrap_or((line, ""));
        match name {
            "branch.oid" => self.commit = value.to_owned(),
            "branch.head" => self.branch = value.to_owned(),
            "branch.upstream" => self.upstream = Some(value.to_owned()),
            "branch.ab" => {
                let mut counts = value.split(' ').filter_map(|count| count.parse::<i64>().ok());
                self.ahead = counts.next().unwrap_or_default().abs();
                self.behind = counts.next().unwrap_or_default().abs();
            }
            _ => {}
        }
    }
}

/// Parses the entry of a changed file: its states, `fields` other fields, and its path. `from` is the old path of a renamed or copied file.
fn changed(rest: &str, fields: usize, from: Option<&str>) -> Option<ChangedFile> {
    let mut parts = rest.splitn(fields + 2, ' ');
    let states = parts.next()?.replace('.', " ");
    let mut letters = states.chars();
    let path = display_path(parts.nth(fields)?);
    Some(ChangedFile {
        index: letters.next()?,
        working_tree: letters.next()?,
        path: match from {
            Some(from) => format!("{} -> {path}", display_path(from)),
            None => path,
        },
    })
}

/// Returns the beginning of a commit's id.
pub(super) fn short_id(commit: &str) -> String {
    commit.chars().take(SHORT_ID).collect()
}

/// Parses a log: each commit has six fields, each followed by a NUL, with another NUL between commits.
fn log(stdout: &str) -> Vec<String> {
    let fields: Vec<&str> = stdout.split('\0').collect();
    let commits = fields.chunks(7).filter_map(|commit| {
        let [id, author, email, date, subject, body, ..] = commit else {
            return None;
        };
        let subject = shorten(subject, MAX_LINE, None);
        let mut row = format!("{} {date} {author} <{email}> {subject}", short_id(id));
        for line in shorten(body.trim(), MAX_BODY, None).lines() {
            row.push_str(&format!("\n    {line}"));
        }
        Some(row)
    });
    commits.collect()
}

fn show(stdout: &str, truncated: bool) -> String {
    let fields: Vec<&str> = stdout.splitn(6, '\0').collect();
    match fields.as_slice() {
        [id, author, email, date, message, diff] if id.len() >= 40 && is_hexadecimal(id) => {
            let message: String = shorten(message.trim_end(), MAX_TEXT / 4, None)
                .lines()
                .map(|line| format!("    {line}\n"))
                .collect();
            format!(
                "commit {id}\nAuthor: {author} <{email}>\nDate: {date}\n\n{message}\n{}",
                text(diff.trim_start_matches('\n'), truncated)
            )
        }
        _ => text(stdout, truncated),
    }
}

fn is_hexadecimal(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// Parses the output of `git blame --porcelain`, which describes each commit only once.
/// A row is `12<tab>COMMIT DAY AUTHOR<tab>TEXT`.
fn blame(stdout: &str) -> Vec<String> {
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
        let (commit, day) = (short_id(commit), day(date).unwrap_or_default());
        format!(
            "{number}\t{commit} {day} {author}\t{}",
            shorten(text, MAX_LINE, None)
        )
    });
    lines.collect()
}

/// Formats the day of a Unix time in seconds, in UTC: `2026-11-22`.
fn day(seconds: &str) -> Option<String> {
    let time = Timestamp::from_second(seconds.parse().ok()?).ok()?;
    Some(time.strftime("%Y-%m-%d").to_string())
}
