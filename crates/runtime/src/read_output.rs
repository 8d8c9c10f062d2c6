//! The tool `read_output`: the whole of an output that was shortened in a prompt, by its handle (PAOR-6).

use dirigent_core::agent::AgentInput;
use dirigent_core::id::{EffectId, RunId};
use dirigent_core::journal::{Entry, Input};
use dirigent_core::run::RunInput;
use dirigent_core::tool::{Access, Repeat, ToolResult, ToolSpec};
use dirigent_store::{Journal, StoreError};
use dirigent_tools::{Tool, ToolContext};
use futures::FutureExt;
use futures::future::BoxFuture;
use serde::Deserialize;
use serde_json::{Value, json};

/// Characters that one call returns if it does not say.
const DEFAULT_LENGTH: usize = 8_000;
/// Characters that one call returns at the most.
const MAX_LENGTH: usize = 32_000;

pub(crate) struct ReadOutput {
    journal: Journal,
}

#[derive(Deserialize)]
struct Parameters {
    handle: EffectId,
    #[serde(default)]
    offset: usize,
    length: Option<usize>,
}

impl ReadOutput {
    pub(crate) fn new(journal: Journal) -> Self {
        ReadOutput { journal }
    }
}

impl Tool for ReadOutput {
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: "read_output".to_owned(),
            description: "Reads an earlier tool call's whole result, by the handle that stands where it was shortened. \
                          Returns `length` characters from `offset` on, and the offset to read on from."
                .to_owned(),
            parameters: json!({
                "type": "object",
                "properties": {
                    "handle": {"type": "string", "description": "The handle, such as `run.7` or `a3.2`."},
                    "offset": {"type": "integer", "minimum": 0, "description": "The first character, from 0."},
                    "length": {"type": "integer", "minimum": 1, "maximum": MAX_LENGTH, "description": "How many characters."}
                },
                "required": ["handle"],
                "additionalProperties": false
            }),
            repeat: Repeat::Safe,
            access: Access::ReadOnly,
            requires_approval: false,
            example: json!({"handle": "run.7", "offset": 0}),
        }
    }

    fn call(&self, context: ToolContext, parameters: Value) -> BoxFuture<'static, ToolResult> {
        let journal = self.journal.clone();
        async move {
            let parameters: Parameters = match serde_json::from_value(parameters) {
                Ok(parameters) => parameters,
                Err(error) => return ToolResult::failure(error.to_string()),
            };
            let (run, handle) = (context.run, parameters.handle);
            match tokio::task::spawn_blocking(move || find_result(&journal, run, handle)).await {
                Ok(Ok(Some(result))) => excerpt(&result, &parameters),
                Ok(Ok(None)) => ToolResult::failure(format!("no call of this run has the handle `{handle}`")),
                Ok(Err(error)) => ToolResult::failure(error.to_string()),
                Err(error) => ToolResult::failure(error.to_string()),
            }
        }
        .boxed()
    }
}

fn excerpt(result: &ToolResult, parameters: &Parameters) -> ToolResult {
    let text = result.for_model().to_string();
    let length = parameters.length.unwrap_or(DEFAULT_LENGTH).min(MAX_LENGTH);
    let part: String = text.chars().skip(parameters.offset).take(length).collect();
    let (read, total) = (parameters.offset + part.chars().count(), text.chars().count());
    let mut output = json!({"text": part, "total_characters": total});
    if read < total {
        output["next_offset"] = json!(read);
    }
    ToolResult::success(output)
}

/// The result that the journal has under that handle.
fn find_result(journal: &Journal, run: RunId, handle: EffectId) -> Result<Option<ToolResult>, StoreError> {
    let entries = crate::handle::read_entries(journal, run)?;
    Ok(entries.into_iter().find_map(|Entry { input, .. }| match input {
        Input::Run(RunInput::ToolFinished { effect, result })
        | Input::Agent(AgentInput::ToolFinished { effect, result })
            if effect == handle =>
        {
            Some(result)
        }
        Input::Run(_) | Input::Agent(_) => None,
    }))
}
