//! Tools' names as OpenAI's API takes them: 1 to 64 letters, digits, `_` and `-`.
//!
//! Any other name goes over the wire as one that resembles it, and that a name always has: what was refused in it becomes `_`, and
//! a number made of the whole name is appended. A reply's names are translated back, so that nothing past the wire knows of it.

use std::borrow::Cow;
use std::collections::BTreeMap;

use dirigent_core::message::ModelReply;
use dirigent_core::tool::ToolSpec;

/// The longest name that is taken.
const MAX_NAME_LEN: usize = 64;

/// A tool's name as it goes over the wire.
pub(crate) fn wire_name(name: &str) -> Cow<'_, str> {
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    if (1..=MAX_NAME_LEN).contains(&name.len()) && name.chars().all(is_allowed) {
        return Cow::Borrowed(name);
    }
    let number = format!("_{:08x}", checksum(name));
    let resembling = name.chars().map(|c| if is_allowed(c) { c } else { '_' });
    let mut wire: String = resembling.take(MAX_NAME_LEN - number.len()).collect();
    wire.push_str(&number);
    Cow::Owned(wire)
}

/// The tools offered in a request whose names are others on the wire.
#[derive(Debug, Default)]
pub(crate) struct WireNames(BTreeMap<String, String>);

impl WireNames {
    /// Those among these tools. The error names two that would be one on the wire.
    pub(crate) fn new(tools: &[ToolSpec]) -> Result<WireNames, (String, String)> {
        let mut by_wire = BTreeMap::<Cow<'_, str>, &str>::new();
        for tool in tools {
            if let Some(other) = by_wire.insert(wire_name(&tool.name), &tool.name) {
                return Err((other.to_owned(), tool.name.clone()));
            }
        }
        let wire_names = by_wire.into_iter().filter(|(wire, name)| wire != name);
        Ok(WireNames(
            wire_names
                .map(|(wire, name)| (wire.into_owned(), name.to_owned()))
                .collect(),
        ))
    }

    /// Gives the tools in a reply their own names.
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

/// FNV-1a, the same everywhere and for ever: a conversation's names must not change from one request to the next.
fn checksum(text: &str) -> u32 {
    text.bytes().fold(0x811c_9dc5, |sum, byte| {
        (sum ^ u32::from(byte)).wrapping_mul(0x0100_0193)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn call_2_a_name_that_is_taken_stays_and_another_resembles_it() {
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
