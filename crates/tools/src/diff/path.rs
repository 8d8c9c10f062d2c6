//! Paths in the headers of diffs.

use std::fmt::Write as _;

/// The path that stands for a missing file.
pub(super) const NULL: &str = "/dev/null";

/// Escapes control characters, so that a path with line breaks cannot be mistaken for lines of the diff.
pub(super) fn on_one_line(path: &str) -> String {
    if path.contains(char::is_control) {
        path.escape_debug().to_string()
    } else {
        path.to_owned()
    }
}

/// Returns `side/path` as git prints it: in quotes if the path contains special characters.
pub(super) fn quoted(side: &str, path: &str) -> String {
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
                // Writing to a string cannot fail.
                let _ = write!(text, "\\{:03o}", u32::from(c));
            }
            c => text.push(c),
        }
    }
    text.push('"');
    text
}

/// Parses a path as git prints it, with or without quotes.
pub(super) fn unquoted(name: &str) -> String {
    let Some(quoted) = name.strip_prefix('"').and_then(|name| name.strip_suffix('"')) else {
        return name.to_owned();
    };
    let mut bytes = Vec::with_capacity(quoted.len());
    let mut rest = quoted.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        if byte != b'\\' {
            bytes.push(byte);
            continue;
        }
        let octal = rest.get(..3).and_then(|digits| str::from_utf8(digits).ok());
        if let Some(value) = octal.and_then(|digits| u8::from_str_radix(digits, 8).ok()) {
            bytes.push(value);
            rest = rest.get(3..).unwrap_or_default();
        } else if let Some((&escaped, after)) = rest.split_first() {
            bytes.push(match escaped {
                b'n' => b'\n',
                b't' => b'\t',
                b'r' => b'\r',
                other => other,
            });
            rest = after;
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}
