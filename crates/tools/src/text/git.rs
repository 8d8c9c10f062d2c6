//! Diffs that `git apply` takes, of whole contents.

use std::fmt::Write as _;

use similar::TextDiff;

use super::DIFF_TIMEOUT;

/// The diff between two contents of a file, in git's form, with the modes (`st_mode`); none for no file. Lines are bytes, in whatever encoding.
/// A content with a NUL is binary: that it differs is all that is said. Empty where nothing differs.
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
        // As git writes it, so that the name's end is known.
        Some(_) if name.contains(' ') => format!("{side} {name}\t\n"),
        Some(_) => format!("{side} {name}\n"),
        None => format!("{side} /dev/null\n"),
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
        // Each byte as the character of its number, and back.
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

/// The mode that git knows for a file.
fn git_mode(mode: u32) -> &'static str {
    match (mode & 0o170_000, mode & 0o111) {
        (0o120_000, _) => "120000",
        (_, 0) => "100644",
        (_, _) => "100755",
    }
}

/// A path as git writes it: in quotes where it has characters that need them.
fn quoted(side: &str, path: &str) -> String {
    if !path.contains(|c: char| c.is_ascii_control() || c == '"' || c == '\\') {
        return format!("{side}/{path}");
    }
    let mut text = format!("\"{side}/");
    for c in path.chars() {
        match c {
            '"' | '\\' => text.extend(['\\', c]),
            '\n' => text.push_str("\\n"),
            '\t' => text.push_str("\\t"),
            c if c.is_ascii_control() => {
                let _ = write!(text, "\\{:03o}", u32::from(c));
            }
            c => text.push(c),
        }
    }
    text.push('"');
    text
}
