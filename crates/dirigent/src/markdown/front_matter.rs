//! Parses the front matter of a Markdown file: fields between two lines `---`, and the body below them.
//!
//! The front matter is YAML with strings, lists of strings and, on request, tables down to [`MAX_DEPTH`]. Values nested more deeply are
//! skipped and aliases are not followed, so that no file can exhaust memory or the stack.

use yaml_rust2::parser::{Event, Parser};
use yaml_rust2::scanner::{Marker, ScanError};

/// Maximum number of fields of a front matter or of a table in it.
const MAX_FIELDS: usize = 100;
/// Maximum depth of tables. The front matter itself is the first table.
const MAX_DEPTH: usize = 3;

/// The front matter and the body of a file.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Document {
    pub(crate) fields: Vec<Field>,
    pub(crate) body: String,
}

/// One field of the front matter.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Field {
    pub(crate) key: String,
    pub(crate) value: Value,
    /// The line in the file, from 1.
    pub(crate) line: usize,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Value {
    Text(String),
    List(Vec<String>),
    Table(Vec<Field>),
    /// A nested value or an alias, whose content is skipped.
    Nested,
}

/// Whether tables in the values of fields are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Nested {
    /// The content of tables is skipped.
    Skipped,
    /// The fields of tables are read like those of the front matter.
    Tables,
}

/// An error in a file. `line` is `None` if the error concerns the whole file.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct FileError {
    pub(crate) line: Option<usize>,
    pub(crate) problem: String,
}

impl FileError {
    pub(crate) fn new(line: impl Into<Option<usize>>, problem: impl Into<String>) -> Self {
        FileError {
            line: line.into(),
            problem: problem.into(),
        }
    }
}

/// Parses a file whose front matter must be YAML.
pub(crate) fn strict(text: &str, nested: Nested) -> Result<Document, FileError> {
    let (front, body) = split(text)?;
    Ok(Document {
        fields: yaml(&front, nested)?,
        body,
    })
}

/// Parses a file whose front matter may be invalid YAML: Claude Code's files often have colons, quotes and whole examples in an unquoted
/// string. In invalid YAML, each line that begins with one of the `known` keys and a colon begins a field, which ends before the next such
/// line.
pub(crate) fn lenient(text: &str, known: &[&str]) -> Result<Document, FileError> {
    let (front, body) = split(text)?;
    Ok(Document {
        fields: yaml(&front, Nested::Skipped).unwrap_or_else(|_| lines(&front, known)),
        body,
    })
}

/// Splits a file into front matter and body, and converts all line ends to `\n`.
fn split(text: &str) -> Result<(String, String), FileError> {
    let text = text
        .strip_prefix('\u{feff}')
        .unwrap_or(text)
        .replace("\r\n", "\n");
    let is_fence = |line: &str| line.trim_end() == "---";
    let mut lines = text.split_inclusive('\n');
    if !lines.next().is_some_and(is_fence) {
        return Err(FileError::new(
            1,
            "it has no front matter: begin it with a line `---`, fields such as `name: …` and `description: …`, and another line `---`",
        ));
    }
    let mut front = String::new();
    for line in lines.by_ref() {
        if is_fence(line) {
            return Ok((front, lines.collect()));
        }
        front.push_str(line);
    }
    Err(FileError::new(
        1,
        "its front matter is not closed: put a line `---` after it",
    ))
}

fn yaml(front: &str, nested: Nested) -> Result<Vec<Field>, FileError> {
    let mut events = Events {
        parser: Parser::new_from_str(front),
    };
    loop {
        match events.next()? {
            (Event::MappingStart(..), _) => break,
            (Event::Nothing | Event::StreamStart | Event::DocumentStart, _) => {}
            // Empty front matter.
            (Event::StreamEnd | Event::DocumentEnd, _) => return Ok(Vec::new()),
            (Event::Scalar(text, ..), _) if text.is_empty() || text == "~" => return Ok(Vec::new()),
            (
                Event::Scalar(..)
                | Event::Alias(_)
                | Event::SequenceStart(..)
                | Event::SequenceEnd
                | Event::MappingEnd,
                mark,
            ) => {
                return Err(FileError::new(
                    line_of(&mark),
                    "this is not a field: write `key: value`",
                ));
            }
        }
    }
    let depth = match nested {
        Nested::Skipped => 1,
        Nested::Tables => MAX_DEPTH,
    };
    events.fields(depth)
}

/// Returns the line in the file; the front matter begins in the second line.
fn line_of(mark: &Marker) -> usize {
    mark.line() + 1
}

struct Events<'a> {
    parser: Parser<std::str::Chars<'a>>,
}

impl Events<'_> {
    fn next(&mut self) -> Result<(Event, Marker), FileError> {
        self.parser.next_token().map_err(|error: ScanError| {
            FileError::new(
                line_of(error.marker()),
                format!(
                    "this is not YAML: {}; a value with a colon or a quote in it must be quoted",
                    error.info()
                ),
            )
        })
    }

    /// Reads the next field's key and line; `None` at the end of the fields.
    fn key(&mut self) -> Result<Option<(String, usize)>, FileError> {
        match self.next()? {
            (Event::MappingEnd, _) => Ok(None),
            (Event::Scalar(key, ..), mark) => Ok(Some((key, line_of(&mark)))),
            (_, mark) => Err(FileError::new(
                line_of(&mark),
                "this is not a field: write `key: value`",
            )),
        }
    }

    /// Reads the fields of a table to its end. `depth` is the number of levels of tables that are read, including this one.
    fn fields(&mut self, depth: usize) -> Result<Vec<Field>, FileError> {
        let mut fields: Vec<Field> = Vec::new();
        while let Some((key, line)) = self.key()? {
            if fields.iter().any(|field| field.key == key) {
                return Err(FileError::new(line, format!("`{key}` is set twice: remove one")));
            }
            if fields.len() == MAX_FIELDS {
                return Err(FileError::new(
                    line,
                    format!("there are more than {MAX_FIELDS} fields: remove some"),
                ));
            }
            let value = self.value(depth.saturating_sub(1))?;
            fields.push(Field { key, value, line });
        }
        Ok(fields)
    }

    /// Reads a value, with this number of levels of tables.
    fn value(&mut self, depth: usize) -> Result<Value, FileError> {
        match self.next()?.0 {
            Event::Scalar(text, ..) => Ok(Value::Text(text)),
            Event::SequenceStart(..) => self.list(),
            Event::MappingStart(..) if depth > 0 => self.fields(depth).map(Value::Table),
            Event::MappingStart(..) => self.nested(1),
            _ => Ok(Value::Nested),
        }
    }

    fn list(&mut self) -> Result<Value, FileError> {
        let mut items = Vec::new();
        loop {
            match self.next()?.0 {
                Event::Scalar(text, ..) => items.push(text),
                Event::SequenceEnd => return Ok(Value::List(items)),
                Event::SequenceStart(..) | Event::MappingStart(..) => return self.nested(2),
                _ => return self.nested(1),
            }
        }
    }

    /// Skips to the end of a nested value. `depth` is the number of levels that are open.
    fn nested(&mut self, mut depth: usize) -> Result<Value, FileError> {
        while depth > 0 {
            match self.next()?.0 {
                Event::SequenceStart(..) | Event::MappingStart(..) => depth += 1,
                Event::SequenceEnd | Event::MappingEnd => depth -= 1,
                _ => {}
            }
        }
        Ok(Value::Nested)
    }
}

/// Splits front matter into fields by its lines. If a key occurs twice, the first field is used.
fn lines(front: &str, known: &[&str]) -> Vec<Field> {
    let mut fields: Vec<(&str, usize, String)> = Vec::new();
    for (number, line) in front.lines().enumerate() {
        let begun = line
            .split_once(':')
            .filter(|(key, _)| known.contains(key) && !fields.iter().any(|(other, ..)| other == key));
        match (begun, fields.last_mut()) {
            // Line 1 is the fence, and `number` starts at 0.
            (Some((key, rest)), _) => fields.push((key, number + 2, rest.trim().to_owned())),
            (None, Some((_, _, text))) => {
                text.push('\n');
                text.push_str(line);
            }
            (None, None) => {}
        }
    }
    let field = |(key, line, text): (&str, usize, String)| Field {
        key: key.to_owned(),
        value: Value::Text(unquoted(text.trim()).to_owned()),
        line,
    };
    fields.into_iter().map(field).collect()
}

fn unquoted(text: &str) -> &str {
    let within = |quote: char| text.strip_prefix(quote)?.strip_suffix(quote);
    within('"').or_else(|| within('\'')).unwrap_or(text)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn field(key: &str, line: usize, value: Value) -> Field {
        Field {
            key: key.to_owned(),
            value,
            line,
        }
    }

    fn text(text: &str) -> Value {
        Value::Text(text.to_owned())
    }

    #[test]
    fn fields_and_body_are_separated() {
        let read = strict(
            "\u{feff}---\r\nname: look\r\ntools: [search, \"read\"]\r\ndescription: |\r\n  One.\r\n  Two.\r\nhooks:\r\n  a: {b: [1]}\r\nlist:\r\n  - x\r\n---\r\nYou look.\r\n---\r\nMore.\r\n",
            Nested::Skipped,
        );
        assert_eq!(
            read,
            Ok(Document {
                fields: vec![
                    field("name", 2, text("look")),
                    field(
                        "tools",
                        3,
                        Value::List(vec!["search".to_owned(), "read".to_owned()])
                    ),
                    field("description", 4, text("One.\nTwo.\n")),
                    field("hooks", 7, Value::Nested),
                    field("list", 9, Value::List(vec!["x".to_owned()])),
                ],
                body: "You look.\n---\nMore.\n".to_owned(),
            })
        );
    }

    #[test]
    fn front_matter_that_is_not_yaml_is_read_line_by_line() {
        let read = lenient(
            "---\nname: \"quoted\"\ndescription: Use this agent when: it's late.\n\nExample: user: 'hi'\nmodel: opus\n---\nBody\n",
            &["name", "description", "model"],
        );
        assert_eq!(
            read.unwrap().fields,
            [
                field("name", 2, text("quoted")),
                field(
                    "description",
                    3,
                    text("Use this agent when: it's late.\n\nExample: user: 'hi'")
                ),
                field("model", 6, text("opus")),
            ]
        );
    }

    #[test]
    fn faults_name_their_line() {
        for (file, line, problem) in [
            ("no fence\n", 1, "it has no front matter"),
            ("", 1, "it has no front matter"),
            ("---\nname: a\n", 1, "its front matter is not closed"),
            ("---\nname: a\nname: b\n---\n", 3, "`name` is set twice"),
            ("---\nname: a\ndescription: b: c\n---\n", 3, "this is not YAML"),
            ("---\n- a\n---\n", 2, "this is not a field"),
            ("---\n? [a]\n: b\n---\n", 2, "this is not a field"),
        ] {
            let fault = strict(file, Nested::Skipped).unwrap_err();
            assert_eq!(fault.line, Some(line), "{file}: {fault:?}");
            assert!(fault.problem.starts_with(problem), "{file}: {fault:?}");
        }
    }

    #[test]
    fn fields_are_bounded() {
        let of = |count: usize| {
            let fields = (0..count).map(|number| format!("key{number}: x\n"));
            format!("---\n{}---\n", fields.collect::<String>())
        };
        assert_eq!(strict(&of(100), Nested::Skipped).unwrap().fields.len(), 100);
        let fault = strict(&of(101), Nested::Skipped).unwrap_err();
        assert_eq!(fault.line, Some(102));
        assert!(
            fault.problem.starts_with("there are more than 100 fields"),
            "{fault:?}"
        );
    }

    #[test]
    fn tables_are_read_to_their_depth_on_request() {
        let file = "---\nparameters:\n  name: {type: string, choices: [a, b]}\n  deep:\n    a:\n      b: c\nend: x\n---\n";
        let fields = strict(file, Nested::Tables).unwrap().fields;
        let choices = Value::List(vec!["a".to_owned(), "b".to_owned()]);
        assert_eq!(
            fields,
            [
                field(
                    "parameters",
                    2,
                    Value::Table(vec![
                        field(
                            "name",
                            3,
                            Value::Table(vec![
                                field("type", 3, text("string")),
                                field("choices", 3, choices)
                            ])
                        ),
                        field("deep", 4, Value::Table(vec![field("a", 5, Value::Nested)])),
                    ])
                ),
                field("end", 7, text("x")),
            ]
        );
        let twice = "---\na:\n  b: 1\n  b: 2\n---\n";
        assert_eq!(strict(twice, Nested::Tables).unwrap_err().line, Some(4));
        assert!(strict(twice, Nested::Skipped).is_ok());
    }

    #[test]
    fn deeply_nested_values_and_aliases_are_not_expanded() {
        let deep = format!("---\na: {}\nb: 1\n---\n", "[".repeat(100_000));
        assert!(strict(&deep, Nested::Tables).is_err());
        let dashes = format!("---\na:\n  {}x\nb: 1\n---\n", "- ".repeat(20_000));
        assert_eq!(
            strict(&dashes, Nested::Tables).unwrap().fields[0].value,
            Value::Nested
        );
        let bomb = "---\na: &x [1]\nb: [*x, *x]\nc: *x\n---\n";
        let fields = strict(bomb, Nested::Tables).unwrap().fields;
        assert_eq!(
            (&fields[1].value, &fields[2].value),
            (&Value::Nested, &Value::Nested)
        );
    }
}
