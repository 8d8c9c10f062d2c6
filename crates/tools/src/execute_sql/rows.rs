//! The rows of a result as JSON, of which there is never more than a model can read.

use std::ops::ControlFlow;

use serde_json::{Number, Value, json};

use super::error::SqlError;
use super::parameter::to_hex;

/// The most bytes of JSON that the columns and all rows together have.
const MAX_BYTES: usize = 256 * 1024;
/// The most bytes of a text that are shown.
const MAX_TEXT: usize = 16 * 1024;
/// The most bytes of a value of bytes that are shown.
const MAX_BINARY: usize = 1024;
/// The greatest integer up to which a double holds each exactly.
const MAX_EXACT: u64 = 1 << 53;

/// The first rows of a result.
pub(super) struct Rows {
    columns: Vec<Value>,
    rows: Vec<Value>,
    bytes: usize,
    max_rows: usize,
    cells: CellEncoder,
    full: Option<LimitReached>,
    notes: Vec<&'static str>,
}

/// What there was no more room for.
#[derive(Clone, Copy)]
enum LimitReached {
    Rows,
    Bytes,
}

impl Rows {
    /// None yet.
    pub(super) fn new(max_rows: usize) -> Self {
        Rows {
            columns: Vec::new(),
            rows: Vec::new(),
            bytes: 0,
            max_rows,
            cells: CellEncoder::default(),
            full: None,
            notes: Vec::new(),
        }
    }

    /// What the columns are called and, where the database says, of what type they are.
    pub(super) fn set_columns<'a>(&mut self, columns: impl Iterator<Item = (&'a str, Option<&'a str>)>) {
        self.columns = columns
            .map(|(name, kind)| json!({"name": name, "type": kind}))
            .collect();
        // Names can be of any length, as whoever made the database chose them.
        self.bytes = self
            .columns
            .iter()
            .map(|column| column.to_string().len() + 1)
            .sum();
        if self.bytes > MAX_BYTES {
            self.columns.truncate(1);
            self.full = Some(LimitReached::Bytes);
        }
    }

    /// Whether there are columns: a statement without them returns no rows.
    pub(super) fn has_columns(&self) -> bool {
        !self.columns.is_empty()
    }

    /// Adds a row where there is room. [`ControlFlow::Break`] where there is none and none will be.
    pub(super) fn push(
        &mut self,
        cells: impl FnOnce(&mut CellEncoder) -> Result<Vec<Value>, SqlError>,
    ) -> Result<ControlFlow<()>, SqlError> {
        if self.full.is_none() && self.rows.len() == self.max_rows {
            self.full = Some(LimitReached::Rows);
        }
        if self.full.is_some() {
            return Ok(ControlFlow::Break(()));
        }
        let row = Value::Array(cells(&mut self.cells)?);
        let bytes = row.to_string().len() + 1;
        if self.bytes + bytes > MAX_BYTES {
            self.full = Some(LimitReached::Bytes);
            return Ok(ControlFlow::Break(()));
        }
        self.bytes += bytes;
        self.rows.push(row);
        Ok(ControlFlow::Continue(()))
    }

    /// Something else that the model should know.
    pub(super) fn note(&mut self, note: &'static str) {
        if !self.notes.contains(&note) {
            self.notes.push(note);
        }
    }

    /// What the model reads.
    pub(super) fn into_output(self, affected: Option<u64>) -> Result<Value, SqlError> {
        let shown = self.rows.len();
        let mut notes: Vec<String> = Vec::new();
        match self.full {
            Some(LimitReached::Bytes) if shown == 0 => return Err(SqlError::RowTooBig),
            Some(LimitReached::Rows) => notes.push(format!(
                "there are more rows than these {shown}: narrow it with WHERE, or read on with LIMIT and OFFSET"
            )),
            Some(LimitReached::Bytes) => notes.push(format!(
                "there are more rows than these {shown}, which are {} KiB already: select fewer columns, or use WHERE and LIMIT",
                self.bytes / 1024
            )),
            None => {}
        }
        if self.cells.truncated_values > 0 {
            notes.push(format!(
                "{} of the values are cut: select a part of them, as with substr",
                self.cells.truncated_values
            ));
        }
        let truncated = !notes.is_empty();
        notes.extend(self.notes.into_iter().map(str::to_owned));
        let mut output = json!({"columns": self.columns, "rows": self.rows, "row_count": shown});
        if let Some(affected) = affected {
            output["rows_affected"] = json!(affected);
        }
        if truncated {
            output["truncated"] = json!(true);
        }
        if !notes.is_empty() {
            output["note"] = json!(notes.join("; "));
        }
        Ok(output)
    }
}

/// Makes JSON of values, and counts those that are cut.
#[derive(Default)]
pub(super) struct CellEncoder {
    truncated_values: usize,
}

impl CellEncoder {
    /// A text, or the beginning of a long one.
    pub(super) fn text(&mut self, text: &str) -> Value {
        if text.len() <= MAX_TEXT {
            return Value::from(text);
        }
        self.truncated_values += 1;
        let shown = &text[..text.floor_char_boundary(MAX_TEXT)];
        Value::from(format!("{shown}… [{} of {} bytes]", shown.len(), text.len()))
    }

    /// Bytes, or the first of many.
    pub(super) fn bytes(&mut self, bytes: &[u8]) -> Value {
        let shown = &bytes[..bytes.len().min(MAX_BINARY)];
        self.binary(&to_hex(shown), bytes.len())
    }

    /// That many bytes, of which at least the first that are shown are there as hexadecimal digits.
    pub(super) fn hex(&mut self, digits: &str) -> Value {
        let shown = digits.get(..2 * MAX_BINARY).unwrap_or(digits);
        self.binary(shown, digits.len() / 2)
    }

    fn binary(&mut self, shown: &str, bytes: usize) -> Value {
        if shown.len() < 2 * bytes {
            self.truncated_values += 1;
        }
        json!({"hex": shown, "bytes": bytes})
    }
}

/// An integer: a string where a double would not hold it exactly.
pub(super) fn integer(integer: i64) -> Value {
    if integer.unsigned_abs() <= MAX_EXACT {
        Value::from(integer)
    } else {
        Value::from(integer.to_string())
    }
}

/// An integer without a sign, likewise.
pub(super) fn unsigned(integer: u64) -> Value {
    if integer <= MAX_EXACT {
        Value::from(integer)
    } else {
        Value::from(integer.to_string())
    }
}

/// A real number: a string where JSON has no number for it.
pub(super) fn real(real: f64) -> Value {
    match Number::from_f64(real) {
        Some(number) => Value::Number(number),
        None if real.is_nan() => Value::from("NaN"),
        None if real > 0.0 => Value::from("Infinity"),
        None => Value::from("-Infinity"),
    }
}
