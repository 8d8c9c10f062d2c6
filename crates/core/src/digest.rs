//! SHA-256 digests, and the canonical form of JSON values over which they are computed.

use std::fmt::Write as _;

use serde_json::Value;
use sha2::{Digest as _, Sha256};

/// Returns the SHA-256 of the bytes as 64 lowercase hexadecimal digits.
pub fn sha256_hex(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

/// Returns the bytes as lowercase hexadecimal digits.
pub fn hex(bytes: &[u8]) -> String {
    let mut digits = String::with_capacity(2 * bytes.len());
    for byte in bytes {
        // Writing to a string cannot fail.
        let _ = write!(digits, "{byte:02x}");
    }
    digits
}

/// Returns the value with the fields of every object sorted by name.
pub(crate) fn canonical(value: &Value) -> Value {
    match value {
        Value::Object(fields) => {
            let mut fields: Vec<_> = fields.iter().collect();
            fields.sort_by_key(|(name, _)| *name);
            let fields = fields
                .into_iter()
                .map(|(name, value)| (name.clone(), canonical(value)));
            Value::Object(fields.collect())
        }
        Value::Array(elements) => elements.iter().map(canonical).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => value.clone(),
    }
}
