//! JSON serialization for the journal.

use serde::Serialize;

/// Serializes plain data with string keys, which cannot fail.
#[expect(clippy::expect_used, reason = "plain data with string keys always serializes")]
pub(crate) fn to_json(data: &impl Serialize) -> String {
    serde_json::to_string(data).expect("plain data serializes")
}
