//! Parts of a stream that `genai` does not pass on: the model's name, the time of each event, and Gemini's reason for refusing.

use std::sync::{Mutex, MutexGuard, PoisonError};

use genai::chat::{ChatFrameSink, FrameCtx, RawFrameRef};
use serde::Deserialize;
use tokio::time::Instant;

use super::HostedApi;

/// Receives each event of one stream before `genai` parses it.
pub(super) struct RawFrameSink {
    api: HostedApi,
    metadata: Mutex<StreamMetadata>,
}

/// Metadata that the frame sink has collected from a stream.
#[derive(Clone, Debug, Default)]
pub(super) struct StreamMetadata {
    /// Time of the latest event.
    pub(super) last_event_at: Option<Instant>,
    /// Name of the model that generates the reply.
    pub(super) model: Option<String>,
    /// Gemini's reason for refusing to answer.
    pub(super) block_reason: Option<String>,
    /// Gemini's explanation of the stop reason, such as the text of a call that it could not parse.
    pub(super) finish_message: String,
    /// Set if `genai` misread Anthropic's stream: it mixed up pieces of blocks that overlapped, or it skipped an event without a name.
    pub(super) garbled: bool,
    /// Set between the start and the stop of a block of Anthropic's reply.
    in_block: bool,
}

#[derive(Deserialize)]
struct MessageStart {
    message: Message,
}

#[derive(Deserialize)]
struct Message {
    model: String,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct GeminiEvent {
    model_version: Option<String>,
    prompt_feedback: PromptFeedback,
    candidates: Vec<Candidate>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct PromptFeedback {
    block_reason: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Candidate {
    finish_message: String,
}

impl RawFrameSink {
    pub(super) fn new(api: HostedApi) -> Self {
        RawFrameSink {
            api,
            metadata: Mutex::default(),
        }
    }

    /// Returns the metadata collected so far.
    pub(super) fn metadata(&self) -> StreamMetadata {
        self.lock().clone()
    }

    /// Returns the time of the latest event.
    pub(super) fn last_event_at(&self) -> Option<Instant> {
        self.lock().last_event_at
    }

    fn lock(&self) -> MutexGuard<'_, StreamMetadata> {
        self.metadata.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ChatFrameSink for RawFrameSink {
    fn on_frame(&self, _: &FrameCtx, frame: RawFrameRef<'_>) {
        // A frame without data is a comment, which only keeps the connection open.
        if frame.data.is_empty() {
            return;
        }
        let mut metadata = self.lock();
        metadata.last_event_at = Some(Instant::now());
        match self.api {
            HostedApi::Anthropic => metadata.anthropic(frame.event, frame.data),
            HostedApi::Gemini => metadata.gemini(frame.data),
        }
    }
}

impl StreamMetadata {
    fn anthropic(&mut self, event: Option<&str>, data: &str) {
        match event {
            None => self.garbled = true,
            Some("message_start") => {
                if let Ok(start) = serde_json::from_str::<MessageStart>(data) {
                    self.model = Some(start.message.model);
                }
            }
            Some("content_block_start") => {
                self.garbled |= self.in_block;
                self.in_block = true;
            }
            Some("content_block_stop") => self.in_block = false,
            Some(_) => {}
        }
    }

    fn gemini(&mut self, data: &str) {
        let Ok(event) = serde_json::from_str::<GeminiEvent>(data) else {
            return;
        };
        self.model = event.model_version.or_else(|| self.model.take());
        self.block_reason = event
            .prompt_feedback
            .block_reason
            .or_else(|| self.block_reason.take());
        for candidate in event.candidates {
            self.finish_message.push_str(&candidate.finish_message);
        }
    }
}
