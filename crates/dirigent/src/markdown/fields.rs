//! Access to front matter fields by key, and formatting of names for messages.

use super::front_matter::{Field, FileError, Value};

/// Maximum number of names in a note.
const MAX_LISTED: usize = 10;
/// Maximum length of a name in a message, in characters.
const MAX_SHOWN: usize = 64;

/// Front matter fields, accessed by key.
pub(crate) struct Fields<'a>(&'a [Field]);

impl<'a> Fields<'a> {
    pub(crate) fn new(fields: &'a [Field]) -> Self {
        Fields(fields)
    }

    pub(crate) fn get(&self, key: &str) -> Option<&'a Field> {
        self.0.iter().find(|field| field.key == key)
    }

    /// Returns a field's text and line; `None` if it is empty or missing.
    pub(crate) fn text(&self, key: &str) -> Result<Option<(String, usize)>, FileError> {
        let Some(field) = self.get(key) else {
            return Ok(None);
        };
        match &field.value {
            Value::Text(text) if text.trim().is_empty() => Ok(None),
            Value::Text(text) => Ok(Some((text.trim().to_owned(), field.line))),
            Value::List(_) | Value::Table(_) | Value::Nested => {
                Err(FileError::new(field.line, format!("`{key}` must be a string")))
            }
        }
    }

    /// Returns the value of a field that must be a whole number of at least 1; `None` if it is missing.
    pub(crate) fn count(&self, key: &str) -> Result<Option<u32>, FileError> {
        let Some((text, line)) = self.text(key)? else {
            return Ok(None);
        };
        match text.parse() {
            Ok(count) if count > 0 => Ok(Some(count)),
            Ok(_) | Err(_) => Err(FileError::new(
                line,
                format!("`{key}` must be a whole number of at least 1"),
            )),
        }
    }
}

impl Field {
    /// Returns the names in a list or in a comma-separated string.
    pub(crate) fn names(&self) -> Result<Vec<String>, FileError> {
        match &self.value {
            Value::Text(text) => Ok(names(text)),
            Value::List(items) => Ok(items.iter().map(|item| item.trim().to_owned()).collect()),
            Value::Table(_) | Value::Nested => Err(FileError::new(
                self.line,
                format!(
                    "`{}` must be a list of names, such as [search, file_operations]",
                    self.key
                ),
            )),
        }
    }
}

/// Splits a list such as `Read, Bash(git diff:*, git log:*), Grep` into its names.
fn names(text: &str) -> Vec<String> {
    let mut names = vec![String::new()];
    let mut depth = 0_usize;
    for c in text.chars() {
        match c {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            ',' if depth == 0 => {
                names.push(String::new());
                continue;
            }
            _ => {}
        }
        if let Some(name) = names.last_mut() {
            name.push(c);
        }
    }
    let names = names
        .iter()
        .map(|name| name.trim().trim_matches(['"', '\'', '[', ']']).trim());
    names.filter(|name| !name.is_empty()).map(str::to_owned).collect()
}

/// Joins the first [`MAX_LISTED`] names, and counts the others.
pub(crate) fn join_names(names: &[String]) -> String {
    let told = names.iter().take(MAX_LISTED);
    let told: Vec<String> = told.map(|name| format!("`{}`", truncated(name))).collect();
    match names.len().saturating_sub(MAX_LISTED) {
        0 => told.join(", "),
        others => format!("{} and {others} others", told.join(", ")),
    }
}

/// Truncates a long word.
pub(crate) fn truncated(word: &str) -> String {
    match word.char_indices().nth(MAX_SHOWN) {
        None => word.to_owned(),
        Some((end, _)) => format!("{}…", &word[..end]),
    }
}

/// Converts a name to lowercase, with hyphens instead of whitespace.
pub(crate) fn hyphenated(name: &str) -> String {
    let words = name.to_lowercase();
    words.split_whitespace().collect::<Vec<_>>().join("-")
}
