//! Tools that record how calls run: which ones, in which order, how many at once, and how they end.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::fs::OpenOptions;
use std::io::Write as _;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use dirigent::tools::{Tool, ToolContext, typed};
use dirigent_core::tool::{Access, Repeat, ToolResult};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;
use tokio::sync::Barrier;

use crate::scripted::Gate;

/// The parameters of `note`.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Note {
    /// The text to record.
    text: String,
}

#[derive(Deserialize, JsonSchema)]
struct Nothing {}

/// The texts that tools recorded, shared by all clones.
#[derive(Clone, Default)]
pub struct Notes(Arc<Mutex<Vec<String>>>);

impl Notes {
    /// All recorded texts, in order.
    pub fn all(&self) -> Vec<String> {
        self.0.lock().unwrap().clone()
    }

    /// Waits until this text has been recorded.
    pub async fn until(&self, text: &str) {
        while !self.0.lock().unwrap().iter().any(|note| note == text) {
            tokio::task::yield_now().await;
        }
    }

    fn add(&self, text: impl Into<String>) {
        self.0.lock().unwrap().push(text.into());
    }
}

/// `note`: records its text. Not safe to repeat.
pub fn note(notes: &Notes) -> impl Tool {
    let notes = notes.clone();
    typed("note", "Writes a text down.", move |_, Note { text }| {
        notes.add(&text);
        async move { ToolResult::success(json!(format!("noted {text}"))) }
    })
    .access(Access::ReadOnly)
}

/// `read_meter`: succeeds with 42, changes nothing, and logs a message.
pub fn read_meter() -> impl Tool {
    typed("read_meter", "Reads the meter.", |_, Nothing {}| async {
        let mut result = ToolResult::success(json!({"meter": 42}));
        result.metadata.insert("station".to_owned(), json!("north"));
        result
    })
    .repeat(Repeat::Safe)
    .access(Access::ReadOnly)
}

/// `fail`: fails with its own error message.
pub fn fail() -> impl Tool {
    typed("fail", "Fails.", |_, Nothing {}| async {
        ToolResult::failure("the valve is shut; open it first")
    })
    .repeat(Repeat::Safe)
    .access(Access::ReadOnly)
}

/// `break_down`: panics.
pub fn break_down() -> impl Tool {
    async fn panics(_: ToolContext, _: Nothing) -> ToolResult {
        panic!("the valve came off")
    }
    typed("break_down", "Panics.", panics)
        .repeat(Repeat::Safe)
        .access(Access::ReadOnly)
}

/// `wait`: records `started`, and ends once the gate is open; records `cancelled` if its future is dropped before.
pub fn wait(name: &str, repeat: Repeat, notes: &Notes, gate: &Gate) -> impl Tool {
    let (notes, gate) = (notes.clone(), gate.clone());
    typed(name, "Waits.", move |context, Nothing {}| {
        let (notes, gate) = (notes.clone(), gate.clone());
        async move {
            notes.add("started");
            tokio::select! {
                () = gate.passed() => {
                    notes.add("ended");
                    ToolResult::success(json!("waited"))
                }
                () = context.cancel.cancelled() => {
                    notes.add("cancelled");
                    ToolResult::failure("cancelled")
                }
            }
        }
    })
    .repeat(repeat)
    .access(Access::ReadOnly)
}

/// The parameters of `launch`.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Launch {
    /// The name of the thing to launch.
    what: String,
}

/// The file in the workspace to which `launch` adds a line for each call.
pub const LAUNCHED: &str = "launched.txt";

/// `launch`: cannot be undone, so each call needs a person's approval, whichever agent makes it. Not safe to repeat.
pub fn launch() -> impl Tool {
    typed(
        "launch",
        "Launches something.",
        |context, Launch { what }| async move {
            let path = context.workspace.join(LAUNCHED);
            let file = OpenOptions::new().create(true).append(true).open(path);
            writeln!(file.unwrap(), "{what}").unwrap();
            ToolResult::success(json!(format!("launched {what}")))
        },
    )
    .access(Access::ReadOnly)
    .requires_approval()
}

/// `flood`: returns this many bytes of text.
pub fn flood(bytes: usize) -> impl Tool {
    typed("flood", "Returns too much.", move |_, Nothing {}| async move {
        ToolResult::success(json!("flood ".repeat(bytes / 6)))
    })
    .repeat(Repeat::Safe)
    .access(Access::ReadOnly)
}

/// Counts how many calls of `meet` run at once.
#[derive(Clone, Default)]
pub struct Crowd {
    now: Arc<AtomicUsize>,
    most: Arc<AtomicUsize>,
}

impl Crowd {
    /// The highest number of simultaneous calls so far.
    pub fn most(&self) -> usize {
        self.most.load(Ordering::SeqCst)
    }
}

/// `meet`: ends once this many calls of it run at the same time.
pub fn meet(calls: usize, crowd: &Crowd) -> impl Tool {
    let (barrier, crowd) = (Arc::new(Barrier::new(calls)), crowd.clone());
    typed("meet", "Meets another call.", move |_, Nothing {}| {
        let (barrier, crowd) = (barrier.clone(), crowd.clone());
        async move {
            let now = crowd.now.fetch_add(1, Ordering::SeqCst) + 1;
            crowd.most.fetch_max(now, Ordering::SeqCst);
            barrier.wait().await;
            crowd.now.fetch_sub(1, Ordering::SeqCst);
            ToolResult::success(json!("met"))
        }
    })
    .repeat(Repeat::Safe)
    .access(Access::ReadOnly)
}
