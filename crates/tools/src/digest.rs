//! The digest by which tools tell whether a file is as an agent last saw it.

use std::fmt::Write as _;

use sha2::{Digest, Sha256};

/// The SHA-256 of these bytes as 64 hexadecimal digits.
pub(crate) fn digest(bytes: &[u8]) -> String {
    let mut digits = String::with_capacity(64);
    for byte in Sha256::digest(bytes) {
        // Writing to a string cannot fail.
        let _ = write!(digits, "{byte:02x}");
    }
    digits
}
