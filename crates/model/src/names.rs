//! Names in requests and replies: replacement of tool names that the API does not accept, and validation of model names.
//!
//! OpenAI's API accepts tool names of 1 to 64 letters, digits, `_` and `-`. Any other name is replaced with a similar name, which depends
//! only on the original name: invalid characters become `_`, and a checksum of the whole name is appended. Names in replies are translated
//! back, so the rest of Dirigent never sees the replacements.

use std::borrow::Cow;
use std::collections::BTreeMap;

use dirigent_core::message::ModelReply;
use dirigent_core::tool::ToolSpec;

/// Longest accepted tool name, in bytes.
const MAX_TOOL_NAME_LEN: usize = 64;

/// Longest accepted model name, in characters.
const MAX_MODEL_NAME_CHARS: usize = 200;

/// Returns a tool's wire name: its name in requests.
pub(crate) fn wire_name(name: &str) -> Cow<'_, str> {
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    if (1..=MAX_TOOL_NAME_LEN).contains(&name.len()) && name.chars().all(is_allowed) {
        return Cow::Borrowed(name);
    }
    let suffix = format!("_{:08x}", checksum(name));
    let replaced = name.chars().map(|c| if is_allowed(c) { c } else { '_' });
    let mut wire: String = replaced.take(MAX_TOOL_NAME_LEN - suffix.len()).collect();
    wire.push_str(&suffix);
    Cow::Owned(wire)
}

/// Map from wire names to tool names. It contains only the tools whose wire name differs from their name.
#[derive(Debug, Default)]
pub(crate) struct WireNames(BTreeMap<String, String>);

impl WireNames {
    /// Collects the tools whose wire name differs from their name.
    ///
    /// # Errors
    /// Returns the names of two tools that have the same wire name.
    pub(crate) fn new(tools: &[ToolSpec]) -> Result<WireNames, (String, String)> {
        let mut by_wire = BTreeMap::<Cow<'_, str>, &str>::new();
        for tool in tools {
            if let Some(other) = by_wire.insert(wire_name(&tool.name), &tool.name) {
                return Err((other.to_owned(), tool.name.clone()));
            }
        }
        let changed = by_wire.into_iter().filter(|(wire, name)| wire != name);
        Ok(WireNames(
            changed
                .map(|(wire, name)| (wire.into_owned(), name.to_owned()))
                .collect(),
        ))
    }

    /// Replaces wire names in a reply with the tools' names.
    pub(crate) fn restore(&self, reply: &mut ModelReply) {
        let calls = reply.calls.iter_mut().map(|call| &mut call.tool);
        let malformed = reply.malformed_calls.iter_mut().map(|call| &mut call.name);
        for name in calls.chain(malformed) {
            if let Some(own) = self.0.get(name) {
                name.clone_from(own);
            }
        }
    }
}

/// Computes the FNV-1a hash. The algorithm must never change: all requests of a conversation must use the same wire names.
fn checksum(text: &str) -> u32 {
    text.bytes().fold(0x811c_9dc5, |sum, byte| {
        (sum ^ u32::from(byte)).wrapping_mul(0x0100_0193)
    })
}

/// Returns true if the text can be a model's name: one line of at most 200 visible characters.
pub(crate) fn is_model_name(text: &str) -> bool {
    !text.trim().is_empty()
        && text.chars().count() <= MAX_MODEL_NAME_CHARS
        && text.chars().all(|c| !c.is_control() && !is_invisible(c))
}

/// Returns true for characters that are invisible or reorder the text around them.
fn is_invisible(c: char) -> bool {
    matches!(c,
        '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e0fff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn call_2_an_accepted_name_is_kept_and_any_other_is_replaced_by_a_similar_one() {
        for name in ["look", "a-B_9", &"x".repeat(64)] {
            assert_eq!(wire_name(name), name);
        }
        assert_eq!(wire_name("files.read"), "files_read_feef3122");
        assert_eq!(wire_name("files/read"), "files_read_d2acbc6d");
        assert_eq!(wire_name("größe"), "gr__e_cd38f49a");
        assert_eq!(wire_name(""), "_811c9dc5");
        let long = wire_name(&"x".repeat(65)).into_owned();
        assert_eq!(long, format!("{}_b42b1787", "x".repeat(55)));
    }
}
