//! What a stream says that `genai` doesn't pass on: which model answers, that something came at all, why Gemini refused to answer.

use std::sync::{Mutex, MutexGuard, PoisonError};

use genai::chat::{ChatFrameSink, FrameCtx, RawFrameRef};
use serde::Deserialize;
use tokio::time::Instant;

use super::HostedApi;

/// Sees each event of one stream before `genai` reads it.
pub(super) struct RawFrameSink {
    api: HostedApi,
    metadata: Mutex<StreamMetadata>,
}

/// What was seen of a stream.
#[derive(Clone, Debug, Default)]
pub(super) struct StreamMetadata {
    /// When its latest event came.
    pub(super) last_event_at: Option<Instant>,
    /// The model that answers.
    pub(super) model: Option<String>,
    /// Why Gemini doesn't answer.
    pub(super) block_reason: Option<String>,
    /// What Gemini says of the end of its reply, such as the text of a call that can't be read.
    pub(super) finish_message: String,
    /// Whether `genai` read less than came, or other than was meant: Anthropic's blocks came in each other, so that their pieces were
    /// mixed up, or an event came without its name, and was passed over.
    pub(super) garbled: bool,
    /// Whether a block of Anthropic's is open.
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

    /// What was seen so far.
    pub(super) fn metadata(&self) -> StreamMetadata {
        self.lock().clone()
    }

    /// When the latest event came.
    pub(super) fn last_event_at(&self) -> Option<Instant> {
        self.lock().last_event_at
    }

    fn lock(&self) -> MutexGuard<'_, StreamMetadata> {
        self.metadata.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ChatFrameSink for RawFrameSink {
    fn on_frame(&self, _: &FrameCtx, frame: RawFrameRef<'_>) {
        // A comment, which keeps the connection open.
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
