//! The rows of a result as JSON, limited in size for models.

use std::ops::ControlFlow;

use serde_json::{Number, Value, json};

use super::error::SqlError;
use super::hex::to_hex;

/// Maximum size of the columns and all rows together, in bytes of JSON.
const MAX_BYTES: usize = 256 * 1024;
/// Maximum number of bytes of a text value to show.
const MAX_TEXT: usize = 16 * 1024;
/// Maximum number of bytes of a binary value to show.
const MAX_BINARY: usize = 1024;
/// Largest integer up to which a double represents every integer exactly.
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

/// The limit that the rows of a result exceed.
#[derive(Clone, Copy)]
enum LimitReached {
    Rows,
    Bytes,
}

impl Rows {
    /// Creates an empty result.
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

    /// Sets the columns' names and types. A type is `None` if the database does not report it.
    pub(super) fn set_columns<'a>(&mut self, columns: impl Iterator<Item = (&'a str, Option<&'a str>)>) {
        self.columns = columns
            .map(|(name, kind)| json!({"name": name, "type": kind}))
            .collect();
        // Column names have no length limit, so they count towards the size.
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

    /// Returns true if there are columns; a statement without columns returns no rows.
    pub(super) fn has_columns(&self) -> bool {
        !self.columns.is_empty()
    }

    /// Adds a row. Returns [`ControlFlow::Break`] if the result is full and takes no more rows.
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

    /// Returns the rows, each as an array, and whether they are complete.
    pub(super) fn into_rows(self) -> (Vec<Value>, bool) {
        (self.rows, self.full.is_none())
    }

    /// Adds a note for the model.
    pub(super) fn note(&mut self, note: &'static str) {
        if !self.notes.contains(&note) {
            self.notes.push(note);
        }
    }

    /// Renders the output for the model.
    pub(super) fn into_output(self, affected: Option<u64>) -> Result<Value, SqlError> {
        let shown = self.rows.len();
        let mut notes: Vec<String> = Vec::new();
        match self.full {
            Some(LimitReached::Bytes) if shown == 0 => return Err(SqlError::RowTooBig),
            Some(LimitReached::Rows) => notes.push(format!(
                "there are more rows than these {shown}: narrow the query with WHERE, or read on with LIMIT and OFFSET"
            )),
            Some(LimitReached::Bytes) => notes.push(format!(
                "there are more rows than these {shown}, which already take {} KiB: select fewer columns, or use WHERE and LIMIT",
                self.bytes / 1024
            )),
            None => {}
        }
        if self.cells.truncated_values > 0 {
            notes.push(format!(
                "{} of the values are truncated: select a part of them, for example with substr",
                self.cells.truncated_values
            ));
        }
        let truncated = !notes.is_empty();
        notes.extend(self.notes.into_iter().map(str::to_owned));
        // A statement without a result has no columns and no rows to show.
        let mut output = match affected {
            Some(affected) => json!({"rows_affected": affected}),
            None => json!({"columns": self.columns, "rows": self.rows, "row_count": shown}),
        };
        if truncated {
            output["truncated"] = json!(true);
        }
        if !notes.is_empty() {
            output["note"] = json!(notes.join("; "));
        }
        Ok(output)
    }
}

/// Converts values to JSON and counts the truncated ones.
#[derive(Default)]
pub(super) struct CellEncoder {
    truncated_values: usize,
}

impl CellEncoder {
    /// Converts a string, truncating a long one.
    pub(super) fn text(&mut self, text: &str) -> Value {
        if text.len() <= MAX_TEXT {
            return Value::from(text);
        }
        self.truncated_values += 1;
        let shown = &text[..text.floor_char_boundary(MAX_TEXT)];
        Value::from(format!("{shown}… [{} of {} bytes]", shown.len(), text.len()))
    }

    /// Converts bytes, truncating long values.
    pub(super) fn bytes(&mut self, bytes: &[u8]) -> Value {
        let shown = &bytes[..bytes.len().min(MAX_BINARY)];
        self.binary(&to_hex(shown), bytes.len())
    }

    /// Converts bytes given as hexadecimal digits, truncating long values.
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

/// Converts an integer: to a string if a double cannot represent it exactly.
pub(super) fn integer(integer: i64) -> Value {
    if integer.unsigned_abs() <= MAX_EXACT {
        Value::from(integer)
    } else {
        Value::from(integer.to_string())
    }
}

/// Converts an unsigned integer like [`integer`].
pub(super) fn unsigned(integer: u64) -> Value {
    if integer <= MAX_EXACT {
        Value::from(integer)
    } else {
        Value::from(integer.to_string())
    }
}

/// Converts a real number: to a string if JSON cannot represent it.
pub(super) fn real(real: f64) -> Value {
    match Number::from_f64(real) {
        Some(number) => Value::Number(number),
        None if real.is_nan() => Value::from("NaN"),
        None if real > 0.0 => Value::from("Infinity"),
        None => Value::from("-Infinity"),
    }
}
