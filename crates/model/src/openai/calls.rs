//! Putting native calls together from the pieces that a server sends (CALL-2), however it sends them: pieces of several calls in any
//! order, without an index, under one index for all, with the name whole, repeated, growing or split, ids missing or the same for
//! several calls. Arguments are read when all is there, and nothing in them is mended.

use std::collections::HashSet;

use dirigent_core::call::read_arguments;
use dirigent_core::message::{MalformedCall, ToolCall};
use dirigent_core::token_ratio::estimated_tokens;

use super::reply::CallPiece;
use crate::secrets::Secrets;

/// More calls are no reply of a model: they count as more than can be held.
const MAX_CALLS: usize = 1_000;

/// The calls that are under way.
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
    progress: Progress,
}

/// How far the JSON of a call's arguments has come: enough to know when its object is closed, and each byte is looked at once.
#[derive(Debug, Default)]
struct Progress {
    depth: usize,
    in_string: bool,
    escaped: bool,
    closed: bool,
}

impl Progress {
    fn read(&mut self, text: &str) {
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
    /// Takes a piece.
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
        call.progress.read(&function.arguments.0);
        call.arguments.push_str(&function.arguments.0);
        self.buffered_bytes +=
            (call.id.len() + call.name.len() + call.arguments.len()).saturating_sub(before);
    }

    /// Where the call stands to which a piece belongs: an earlier one, or a new one.
    fn position_of(&mut self, piece: &CallPiece) -> usize {
        let earlier = match piece.index {
            Some(index) => self.calls.iter().rposition(|call| call.index == index),
            None if !piece.id.is_empty() => self.calls.iter().rposition(|call| call.id == piece.id),
            None => self.calls.len().checked_sub(1),
        };
        if let Some(position) = earlier
            && let Some(call) = self.calls.get(position)
            && !call.is_followed_by(piece)
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
            progress: Progress::default(),
        });
        self.calls.len() - 1
    }

    /// The bytes that are held; more than any limit where there are too many calls.
    pub(super) fn buffered_bytes(&self) -> usize {
        if self.calls.len() > MAX_CALLS {
            usize::MAX
        } else {
            self.buffered_bytes
        }
    }

    /// About how many tokens all names and arguments have.
    pub(super) fn estimated_tokens(&self) -> u64 {
        let sizes = self
            .calls
            .iter()
            .map(|call| estimated_tokens(&call.name) + estimated_tokens(&call.arguments));
        sizes.sum()
    }

    /// Whether there is none.
    pub(super) fn is_empty(&self) -> bool {
        self.calls.is_empty()
    }

    /// The calls in the order of their indexes, each with an id of its own, and those that can't be read; all without secrets.
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
    /// Whether a piece that would belong here begins another call, as from servers that give all calls one index: it names a tool,
    /// and either has another id or brings arguments after ours were complete.
    fn is_followed_by(&self, piece: &CallPiece) -> bool {
        let other_id = !piece.id.is_empty() && !self.id.is_empty() && piece.id != self.id;
        let begins_anew = self.progress.closed && !piece.function.arguments.0.trim().is_empty();
        !piece.function.name.is_empty() && (other_id || begins_anew)
    }
}

/// The call's id if it has one that no other has, or one like it.
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

    /// Each call as `id tool arguments`, then each malformed one as `! tool arguments`.
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
    fn call_2_one_index_for_all_calls() {
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
    fn call_2_no_index_at_all() {
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
    fn call_2_a_name_may_be_repeated_grow_or_be_split() {
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
    fn call_2_each_call_has_an_id_of_its_own() {
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
    fn call_2_arguments_are_not_mended() {
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
