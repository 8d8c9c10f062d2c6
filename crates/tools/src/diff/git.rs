//! Writes diffs that `git apply` accepts.

use std::fmt::Write as _;

use similar::TextDiff;

use super::DIFF_TIMEOUT;
use super::path::{NULL, quoted};

/// Returns the diff between two versions of a file in git's format; empty if the versions are equal. A
/// version consists of the file's bytes, in any encoding, and its mode (`st_mode`). `None` stands for a file
/// that does not exist. For binary files (those that contain a NUL byte), the diff only states that the
/// versions differ.
pub fn git_diff(path: &str, before: Option<(&[u8], u32)>, after: Option<(&[u8], u32)>) -> Vec<u8> {
    let (old_mode, new_mode) = (
        before.map(|(_, mode)| git_mode(mode)),
        after.map(|(_, mode)| git_mode(mode)),
    );
    let (old, new) = (
        before.map_or(&[][..], |(bytes, _)| bytes),
        after.map_or(&[][..], |(bytes, _)| bytes),
    );
    if old == new && old_mode == new_mode {
        return Vec::new();
    }
    let (a, b) = (quoted("a", path), quoted("b", path));
    let mut head = format!("diff --git {a} {b}\n");
    // Writing to a string cannot fail.
    let _ = match (old_mode, new_mode) {
        (None, Some(mode)) => writeln!(head, "new file mode {mode}"),
        (Some(mode), None) => writeln!(head, "deleted file mode {mode}"),
        (Some(old), Some(new)) if old != new => writeln!(head, "old mode {old}\nnew mode {new}"),
        (Some(_), Some(_)) | (None, None) => Ok(()),
    };
    if old == new {
        return head.into_bytes();
    }
    let name = |side: &str, name: &str, mode: Option<&str>| match mode {
        // As in git's output, a tab marks the end of a name that contains spaces.
        Some(_) if name.contains(' ') => format!("{side} {name}\t\n"),
        Some(_) => format!("{side} {name}\n"),
        None => format!("{side} {NULL}\n"),
    };
    if old.contains(&0) || new.contains(&0) {
        let _ = writeln!(head, "Binary files {a} and {b} differ");
        return head.into_bytes();
    }
    head.push_str(&name("---", &a, old_mode));
    head.push_str(&name("+++", &b, new_mode));
    let mut text = head.into_bytes();
    match (str::from_utf8(old), str::from_utf8(new)) {
        (Ok(old), Ok(new)) => text.extend(hunks(old, new).into_bytes()),
        // `similar` compares only text, so each byte is mapped to the character with the same code point, and
        // the result is mapped back.
        (Ok(_) | Err(_), Ok(_) | Err(_)) => {
            let latin = |bytes: &[u8]| bytes.iter().copied().map(char::from).collect::<String>();
            let hunks = hunks(&latin(old), &latin(new));
            text.extend(hunks.chars().filter_map(|character| u8::try_from(character).ok()));
        }
    }
    text
}

fn hunks(old: &str, new: &str) -> String {
    let lines = |text| str::split_inclusive(text, '\n').collect::<Vec<&str>>();
    let (old, new) = (lines(old), lines(new));
    TextDiff::configure()
        .timeout(DIFF_TIMEOUT)
        .newline_terminated(true)
        .diff_slices(&old, &new)
        .unified_diff()
        .to_string()
}

/// Converts `st_mode` to the mode that git shows.
fn git_mode(mode: u32) -> &'static str {
    match (mode & 0o170_000, mode & 0o111) {
        (0o120_000, _) => "120000",
        (_, 0) => "100644",
        (_, _) => "100755",
    }
}
