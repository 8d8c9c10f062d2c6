//! Values for the placeholders of a statement, and hexadecimal, the form in which bytes come and go.

use serde_json::Value;

use super::error::SqlError;

/// A value for a placeholder.
#[derive(Debug)]
pub(super) enum Parameter {
    Null,
    Bool(bool),
    Integer(i64),
    /// Beyond [`i64::MAX`].
    Unsigned(u64),
    Real(f64),
    Text(String),
    Bytes(Vec<u8>),
    /// A list or an object.
    Json(Value),
}

impl Parameter {
    /// The value at that index, counted from 1.
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
                    "parameter {index} has a NUL character in it: send it as {{\"hex\": …}} for a column of bytes"
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

/// Two digits for each byte.
pub(super) fn to_hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digit = |four: u8| char::from(DIGITS[usize::from(four & 15)]);
    bytes
        .iter()
        .flat_map(|byte| [digit(byte >> 4), digit(*byte)])
        .collect()
}

/// The bytes of an even number of hexadecimal digits.
pub(super) fn from_hex(digits: &str) -> Option<Vec<u8>> {
    let digits: Vec<u8> = digits
        .chars()
        .map(|digit| u8::try_from(digit.to_digit(16)?).ok())
        .collect::<Option<_>>()?;
    let (pairs, []) = digits.as_chunks::<2>() else {
        return None;
    };
    Some(pairs.iter().map(|[high, low]| high << 4 | low).collect())
}
