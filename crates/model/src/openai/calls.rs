//! Assembly of native calls from the pieces that servers send (CALL-2). Servers differ: pieces of several calls come in any order,
//! without an index or with the same index for all calls; the name comes whole, repeated, growing or split; ids are missing or the same for
//! several calls. Arguments are parsed once they are complete, and never repaired.

use std::collections::HashSet;

use dirigent_core::call::read_arguments;
use dirigent_core::message::{MalformedCall, ToolCall};
use dirigent_core::token_ratio::estimated_tokens;

use super::chunk::CallPiece;
use crate::secrets::Secrets;

/// Maximum number of calls in a reply; a reply with more calls counts as oversized.
const MAX_CALLS: usize = 1_000;

/// The calls of a reply in progress.
#[derive(Debug, Default)]
pub(super) struct CallAssembler {
    calls: Vec<PartialCall>,
    buffered_bytes: usize,
}

#[derive(Debug)]
struct PartialCall {
    index: u64,
    id: String,
    name: String,
    arguments: String,
    scanner: JsonScanner,
}

/// A scanner that detects where the JSON object of a call's arguments ends. It reads each byte once.
#[derive(Debug, Default)]
struct JsonScanner {
    depth: usize,
    in_string: bool,
    escaped: bool,
    closed: bool,
}

impl JsonScanner {
    fn scan(&mut self, text: &str) {
        for byte in text.bytes() {
            if std::mem::take(&mut self.escaped) {
                continue;
            }
            match (self.in_string, byte) {
                (true, b'\\') => self.escaped = true,
                (true, b'"') => self.in_string = false,
                (false, b'"') => self.in_string = true,
                (false, b'{' | b'[') => self.depth += 1,
                (false, b'}' | b']') => {
                    self.depth = self.depth.saturating_sub(1);
                    self.closed = self.depth == 0;
                }
                (true | false, _) => {}
            }
        }
    }
}

impl CallAssembler {
    /// Adds a piece to its call, or starts a new call.
    pub(super) fn add(&mut self, piece: CallPiece) {
        let position = self.position_of(&piece);
        let Some(call) = self.calls.get_mut(position) else {
            return;
        };
        let function = piece.function;
        let before = call.id.len() + call.name.len() + call.arguments.len();
        if call.id.is_empty() {
            call.id = piece.id;
        }
        if call.name.is_empty()
            || (function.name.len() > call.name.len() && function.name.starts_with(&call.name))
        {
            call.name = function.name;
        } else if function.name != call.name {
            call.name.push_str(&function.name);
        }
        call.scanner.scan(&function.arguments.0);
        call.arguments.push_str(&function.arguments.0);
        self.buffered_bytes +=
            (call.id.len() + call.name.len() + call.arguments.len()).saturating_sub(before);
    }

    /// Returns the position of the call that a piece belongs to. Adds a new call if the piece belongs to none of the calls so far.
    fn position_of(&mut self, piece: &CallPiece) -> usize {
        let earlier = match piece.index {
            Some(index) => self.calls.iter().rposition(|call| call.index == index),
            None if !piece.id.is_empty() => self.calls.iter().rposition(|call| call.id == piece.id),
            None => self.calls.len().checked_sub(1),
        };
        if let Some(position) = earlier
            && let Some(call) = self.calls.get(position)
            && !call.ends_before(piece)
        {
            return position;
        }
        let next = || {
            self.calls
                .iter()
                .map(|call| call.index.saturating_add(1))
                .max()
                .unwrap_or(0)
        };
        let index = piece.index.unwrap_or_else(next);
        self.calls.push(PartialCall {
            index,
            id: String::new(),
            name: String::new(),
            arguments: String::new(),
            scanner: JsonScanner::default(),
        });
        self.calls.len() - 1
    }

    /// Number of buffered bytes; `usize::MAX` if there are more than [`MAX_CALLS`] calls.
    pub(super) fn buffered_bytes(&self) -> usize {
        if self.calls.len() > MAX_CALLS {
            usize::MAX
        } else {
            self.buffered_bytes
        }
    }

    /// Estimates the tokens of all names and arguments.
    pub(super) fn estimated_tokens(&self) -> u64 {
        let sizes = self
            .calls
            .iter()
            .map(|call| estimated_tokens(&call.name) + estimated_tokens(&call.arguments));
        sizes.sum()
    }

    /// Returns true if there are no calls.
    pub(super) fn is_empty(&self) -> bool {
        self.calls.is_empty()
    }

    /// Returns the calls in the order of their indexes, each with a unique id, and the malformed calls; both without secrets.
    pub(super) fn finish(mut self, secrets: &Secrets) -> (Vec<ToolCall>, Vec<MalformedCall>) {
        self.calls.sort_by_key(|call| call.index);
        let mut taken = HashSet::new();
        let (mut calls, mut malformed) = (Vec::new(), Vec::new());
        for (number, call) in (1..).zip(self.calls) {
            let [id, name, arguments] =
                [&call.id, &call.name, &call.arguments].map(|text| secrets.redact(text));
            let parameters = match read_arguments(&arguments) {
                _ if name.is_empty() => Err("it names no tool".to_owned()),
                read => read,
            };
            match parameters {
                Ok(parameters) => calls.push(ToolCall {
                    id: unique_call_id(id, number, &mut taken),
                    tool: name,
                    parameters,
                    terminate: false,
                }),
                Err(problem) => malformed.push(MalformedCall {
                    name,
                    arguments,
                    problem,
                }),
            }
        }
        (calls, malformed)
    }
}

impl PartialCall {
    /// Returns true if a piece with this call's index or id begins another call: it names a tool, and it has another id, or it has
    /// arguments although this call's arguments are complete. Some servers give all calls the same index.
    fn ends_before(&self, piece: &CallPiece) -> bool {
        let other_id = !piece.id.is_empty() && !self.id.is_empty() && piece.id != self.id;
        let begins_anew = self.scanner.closed && !piece.function.arguments.0.trim().is_empty();
        !piece.function.name.is_empty() && (other_id || begins_anew)
    }
}

/// Returns the call's id, or a similar one if it is empty or taken.
fn unique_call_id(id: String, number: usize, taken: &mut HashSet<String>) -> String {
    let stem = if id.is_empty() {
        format!("call-{number}")
    } else {
        id
    };
    let mut own = stem.clone();
    let mut next = number;
    while !taken.insert(own.clone()) {
        own = format!("{stem}-{next}");
        next += 1;
    }
    own
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use serde_json::{Value, json};

    /// Checks the assembled calls, each as `id tool arguments`, and after them the malformed ones, each as `! tool arguments`.
    fn check(pieces: Value, expected: &[&str]) {
        let mut assembler = CallAssembler::default();
        for piece in pieces.as_array().unwrap() {
            assembler.add(serde_json::from_value(piece.clone()).unwrap());
        }
        let (calls, malformed) = assembler.finish(&Secrets::default());
        let calls = calls
            .iter()
            .map(|call| format!("{} {} {}", call.id, call.tool, call.parameters));
        let malformed = malformed
            .iter()
            .map(|call| format!("! {} {}", call.name, call.arguments));
        assert_eq!(calls.chain(malformed).collect::<Vec<_>>(), expected);
    }

    #[test]
    fn call_2_pieces_of_several_calls_may_come_in_any_order() {
        check(
            json!([
                {"index": 1, "id": "b", "function": {"name": "two", "arguments": "{\"x\""}},
                {"index": 0, "id": "a", "function": {"name": "one", "arguments": ""}},
                {"index": 1, "function": {"arguments": ":1}"}},
                {"index": 0, "function": {"arguments": "{}"}},
            ]),
            &["a one {}", r#"b two {"x":1}"#],
        );
    }

    #[test]
    fn call_2_calls_with_the_same_index_are_told_apart() {
        check(
            json!([
                {"index": 0, "id": "a", "function": {"name": "look", "arguments": "{\"x\":1}"}},
                {"index": 0, "id": "b", "function": {"name": "look", "arguments": "{\"x\":2}"}},
                {"index": 0, "function": {"name": "look", "arguments": "{\"x\":3}"}},
            ]),
            &[r#"a look {"x":1}"#, r#"b look {"x":2}"#, r#"call-3 look {"x":3}"#],
        );
    }

    #[test]
    fn call_2_calls_without_an_index_are_told_apart() {
        check(
            json!([
                {"id": "a", "function": {"name": "one", "arguments": "{\"x\":"}},
                {"function": {"arguments": "1}"}},
                {"id": "b", "function": {"name": "two", "arguments": "{"}},
                {"id": "b", "function": {"arguments": "}"}},
                {"function": {"name": "three", "arguments": "{}"}},
            ]),
            &[r#"a one {"x":1}"#, "b two {}", "call-3 three {}"],
        );
    }

    #[test]
    fn call_2_the_pieces_of_a_name_may_repeat_extend_or_split_it() {
        check(
            json!([
                {"index": 0, "function": {"name": "look", "arguments": "{\"x\": \"}"}},
                {"index": 0, "function": {"name": "look", "arguments": "{\"}"}},
                {"index": 0, "function": {"name": "look", "arguments": ""}},
                {"index": 1, "function": {"name": "find"}},
                {"index": 1, "function": {"name": "find_all"}},
                {"index": 2, "function": {"name": "re"}},
                {"index": 2, "function": {"name": "name", "arguments": null}},
            ]),
            &[
                r#"call-1 look {"x":"}{"}"#,
                "call-2 find_all {}",
                "call-3 rename {}",
            ],
        );
    }

    #[test]
    fn call_2_each_call_has_a_unique_id() {
        check(
            json!([
                {"index": 0, "id": "same", "function": {"name": "look"}},
                {"index": 1, "id": "same", "function": {"name": "look"}},
                {"index": 2, "id": "", "function": {"name": "look"}},
                {"index": 3, "id": 7, "function": {"name": "look"}},
            ]),
            &[
                "same look {}",
                "same-2 look {}",
                "call-3 look {}",
                "call-4 look {}",
            ],
        );
    }

    #[test]
    fn call_2_malformed_arguments_are_not_repaired() {
        check(
            json!([
                {"index": 0, "id": "a", "function": {"name": "one", "arguments": "{\"x\": 1,}"}},
                {"index": 1, "id": "b", "function": {"name": "two", "arguments": {"y": 2}}},
                {"index": 2, "id": "c", "function": {"arguments": "{}"}},
                {"index": 3, "id": "d", "function": {"name": "four", "arguments": "[]"}},
            ]),
            &[r#"b two {"y":2}"#, r#"! one {"x": 1,}"#, "!  {}", "! four []"],
        );
    }
}
