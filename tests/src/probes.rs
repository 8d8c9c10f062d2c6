//! Tools that show how calls are carried out: which ran, in which order, how many at once, and how they end.
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

/// What `note` takes.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Note {
    /// What to write down.
    text: String,
}

#[derive(Deserialize, JsonSchema)]
struct Nothing {}

/// What tools wrote down. Clones are the same.
#[derive(Clone, Default)]
pub struct Notes(Arc<Mutex<Vec<String>>>);

impl Notes {
    /// All of them, in order.
    pub fn all(&self) -> Vec<String> {
        self.0.lock().unwrap().clone()
    }

    /// Waits until there is that note.
    pub async fn until(&self, text: &str) {
        while !self.0.lock().unwrap().iter().any(|note| note == text) {
            tokio::task::yield_now().await;
        }
    }

    fn add(&self, text: impl Into<String>) {
        self.0.lock().unwrap().push(text.into());
    }
}

/// `note`: writes a text down. Not safe to repeat.
pub fn note(notes: &Notes) -> impl Tool {
    let notes = notes.clone();
    typed("note", "Writes a text down.", move |_, Note { text }| {
        notes.add(&text);
        async move { ToolResult::success(json!(format!("noted {text}"))) }
    })
    .access(Access::ReadOnly)
}

/// `read_meter`: succeeds with 42, changes nothing, and says something for operators.
pub fn read_meter() -> impl Tool {
    typed("read_meter", "Reads the meter.", |_, Nothing {}| async {
        let mut result = ToolResult::success(json!({"meter": 42}));
        result.metadata.insert("station".to_owned(), json!("north"));
        result
    })
    .repeat(Repeat::Safe)
    .access(Access::ReadOnly)
}

/// `fail`: fails with its own words.
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

/// `wait`: notes `started`, and ends only when the gate is open; notes `cancelled` when nobody waits for it any more.
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

/// What `launch` takes.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Launch {
    /// What to launch.
    what: String,
}

/// The file in the workspace to which `launch` adds a line for each call.
pub const LAUNCHED: &str = "launched.txt";

/// `launch`: cannot be undone, so a person must approve each call, whoever makes it. Not safe to repeat.
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

/// `flood`: returns a text of so many bytes.
pub fn flood(bytes: usize) -> impl Tool {
    typed("flood", "Returns too much.", move |_, Nothing {}| async move {
        ToolResult::success(json!("flood ".repeat(bytes / 6)))
    })
    .repeat(Repeat::Safe)
    .access(Access::ReadOnly)
}

/// How many calls of `meet` ran at once.
#[derive(Clone, Default)]
pub struct Crowd {
    now: Arc<AtomicUsize>,
    most: Arc<AtomicUsize>,
}

impl Crowd {
    /// The most there ever were.
    pub fn most(&self) -> usize {
        self.most.load(Ordering::SeqCst)
    }
}

/// `meet`: ends only when that many calls of it run at the same time.
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
