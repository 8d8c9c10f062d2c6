//! Values for the placeholders of a statement.

use serde_json::Value;

use super::error::SqlError;
use super::hex::from_hex;

/// A value for a placeholder.
#[derive(Debug)]
pub(super) enum Parameter {
    Null,
    Bool(bool),
    Integer(i64),
    /// An integer beyond [`i64::MAX`].
    Unsigned(u64),
    Real(f64),
    Text(String),
    Bytes(Vec<u8>),
    /// A list or an object, sent as JSON.
    Json(Value),
}

impl Parameter {
    /// Converts the value at `index`, counted from 1.
    pub(super) fn from_json(index: usize, value: &Value) -> Result<Self, SqlError> {
        Ok(match value {
            Value::Null => Parameter::Null,
            Value::Bool(value) => Parameter::Bool(*value),
            Value::Number(number) => match (number.as_i64(), number.as_u64(), number.as_f64()) {
                (Some(integer), ..) => Parameter::Integer(integer),
                (None, Some(integer), _) => Parameter::Unsigned(integer),
                (None, None, Some(real)) => Parameter::Real(real),
                (None, None, None) => Parameter::Text(number.to_string()),
            },
            Value::String(text) if text.contains('\0') => {
                return Err(SqlError::Parameters(format!(
                    "parameter {index} contains a NUL character: for a column of bytes, send it as {{\"hex\": …}}"
                )));
            }
            Value::String(text) => Parameter::Text(text.clone()),
            Value::Object(object) if object.len() == 1 && object.contains_key("hex") => {
                let bytes = object["hex"].as_str().and_then(from_hex);
                Parameter::Bytes(bytes.ok_or_else(|| {
                    SqlError::Parameters(format!(
                        "parameter {index}: `hex` is not an even number of hexadecimal digits"
                    ))
                })?)
            }
            Value::Array(_) | Value::Object(_) => Parameter::Json(value.clone()),
        })
    }
}
