//! Replies of other APIs in OpenAI's words: a `chat.completion` object, or the chunks of a stream.

use dirigent_core::message::Usage;
use serde_json::{Value, json};

/// Writes the chunks of a stream with their common fields.
#[derive(Debug)]
pub(crate) struct ChunkWriter {
    id: String,
    /// Seconds since 1970-01-01 UTC.
    created: i64,
    model: String,
    includes_usage: bool,
    has_role: bool,
    calls: usize,
}

/// A whole call.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct FinishedCall {
    pub(crate) id: String,
    pub(crate) name: String,
    /// JSON text.
    pub(crate) arguments: String,
}

impl ChunkWriter {
    /// Starts a stream. If the client asked for the usage, the last chunk has it.
    pub(crate) fn new(model: &str, includes_usage: bool) -> Self {
        ChunkWriter {
            id: unique_id("chatcmpl-"),
            created: now(),
            model: model.to_owned(),
            includes_usage,
            has_role: false,
            calls: 0,
        }
    }

    /// Returns the chunk with a piece of the text.
    pub(crate) fn text(&mut self, piece: &str) -> String {
        self.delta(json!({"content": piece}))
    }

    /// Returns the chunk with a whole call.
    pub(crate) fn call(&mut self, call: &FinishedCall) -> String {
        let FinishedCall { id, name, arguments } = call;
        let index = self.calls;
        self.calls += 1;
        let function = json!({"name": name, "arguments": arguments});
        let call = json!({"index": index, "id": id, "type": "function", "function": function});
        self.delta(json!({"tool_calls": [call]}))
    }

    /// Returns the last chunks: the finish reason and, if the client asked for it, the usage.
    pub(crate) fn finish(&mut self, reason: &str, usage: &Usage) -> Vec<String> {
        let mut last = vec![self.chunk(
            json!([{
                "index": 0, "delta": {}, "logprobs": null, "finish_reason": reason,
            }]),
            Value::Null,
        )];
        if self.includes_usage {
            last.push(self.chunk(json!([]), usage_json(usage)));
        }
        last
    }

    fn delta(&mut self, mut delta: Value) -> String {
        // The first chunk names the role.
        if !std::mem::replace(&mut self.has_role, true) {
            delta["role"] = "assistant".into();
        }
        let choice = json!([{"index": 0, "delta": delta, "logprobs": null, "finish_reason": null}]);
        self.chunk(choice, Value::Null)
    }

    fn chunk(&self, choices: Value, usage: Value) -> String {
        let mut chunk = json!({
            "id": self.id,
            "object": "chat.completion.chunk",
            "created": self.created,
            "model": self.model,
            "choices": choices,
        });
        if self.includes_usage {
            chunk["usage"] = usage;
        }
        chunk.to_string()
    }
}

/// Returns the `chat.completion` object of a reply.
pub(crate) fn whole_reply(
    model: &str,
    text: &str,
    calls: &[FinishedCall],
    reason: &str,
    usage: &Usage,
) -> String {
    let content = (!text.is_empty() || calls.is_empty()).then_some(text);
    let mut message = json!({"role": "assistant", "content": content, "refusal": null});
    if !calls.is_empty() {
        let calls = calls.iter().map(|FinishedCall { id, name, arguments }| {
            json!({"id": id, "type": "function", "function": {"name": name, "arguments": arguments}})
        });
        message["tool_calls"] = calls.collect();
    }
    json!({
        "id": unique_id("chatcmpl-"),
        "object": "chat.completion",
        "created": now(),
        "model": model,
        "choices": [{"index": 0, "message": message, "logprobs": null, "finish_reason": reason}],
        "usage": usage_json(usage),
    })
    .to_string()
}

fn usage_json(usage: &Usage) -> Value {
    json!({
        "prompt_tokens": usage.input_tokens,
        "completion_tokens": usage.output_tokens,
        "total_tokens": usage.tokens(),
        "prompt_tokens_details": {"cached_tokens": usage.cached_input_tokens},
    })
}

fn now() -> i64 {
    jiff::Timestamp::now().as_second()
}

/// Returns an id for a reply or a call whose provider sends none.
pub(crate) fn unique_id(prefix: &str) -> String {
    use std::sync::atomic::{AtomicU64, Ordering};
    static REPLIES: AtomicU64 = AtomicU64::new(1);
    let number = REPLIES.fetch_add(1, Ordering::Relaxed);
    let now = jiff::Timestamp::now().as_nanosecond();
    format!("{prefix}{now:x}{number:x}")
}
