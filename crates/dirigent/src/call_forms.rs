//! Finds out, before a run starts, the call form of models whose configuration does not set one (`calls = "auto"`; CALL-4).
//!
//! A model is asked once to call a tool that is offered natively (a probe). The result is stored in the journal for all later runs.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use dirigent_core::call::CallForm;
use dirigent_core::message::{Message, ModelFailureKind, ModelReply};
use dirigent_core::spec::PreparatoryRequest;
use dirigent_core::tool::{Access, Repeat, ToolCategory, ToolSpec};
use dirigent_model::ChatRequest;
use dirigent_store::{FoundCallForm, Journal};
use serde_json::{Value, json};

use crate::DirigentError;
use crate::blocking::blocking;
use crate::config::{ConfiguredModels, ModelSettings};
use crate::time::now;

/// The tool that a probe asks the model to call.
const TOOL: &str = "confirm_tool_calling";
/// Maximum number of tokens of the reply to a probe. Some models think before they call.
const MAX_TOKENS: u64 = 1_024;

/// A model's identity: the server's address, and the model's name on this server.
type Model = (String, String);

/// The call forms that have been found. Clones share them.
#[derive(Clone, Default)]
pub(crate) struct CallForms {
    found: Arc<Mutex<BTreeMap<Model, CallForm>>>,
    /// Held while models are probed, so that each model is probed only once.
    asking: Arc<tokio::sync::Mutex<()>>,
}

impl CallForms {
    /// Returns the form in which a model calls tools: the configured form, else the form found by a probe, else [`CallForm::Auto`].
    pub(crate) fn form(&self, settings: &ModelSettings) -> CallForm {
        match settings.calls {
            CallForm::Auto => self.get(&key(settings)).unwrap_or(CallForm::Auto),
            configured => configured,
        }
    }

    /// The number of forms found so far. The number grows whenever a form is found.
    pub(crate) fn count(&self) -> usize {
        self.lock().len()
    }

    /// Finds the unknown forms of models, in the store or by a probe. Returns the probes that were made. A model that cannot be reached is
    /// probed again before the next run.
    ///
    /// # Errors
    /// A failure of the journal.
    pub(crate) async fn find(
        &self,
        models: &ConfiguredModels,
        journal: &Journal,
        wanted: Vec<ModelSettings>,
    ) -> Result<Vec<PreparatoryRequest>, DirigentError> {
        let is_open =
            |settings: &ModelSettings| settings.calls == CallForm::Auto && self.get(&key(settings)).is_none();
        if !wanted.iter().any(is_open) {
            return Ok(Vec::new());
        }
        let _asking = self.asking.lock().await;
        let mut probes = Vec::new();
        // Whether a form is unknown is checked again for each reference, because several references can name the same model.
        for settings in wanted.iter().filter(|settings| is_open(settings)) {
            let model = key(settings);
            if let Some(form) = stored(journal, &model).await? {
                self.insert(model, form);
                continue;
            }
            let Some(probed) = probe(models, settings).await else {
                continue;
            };
            probes.push(probed.probe);
            store(journal, &model, probed.form).await?;
            self.insert(model, probed.form);
        }
        Ok(probes)
    }

    fn get(&self, model: &Model) -> Option<CallForm> {
        self.lock().get(model).copied()
    }

    fn insert(&self, model: Model, form: CallForm) {
        self.lock().insert(model, form);
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<Model, CallForm>> {
        self.found.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn key(settings: &ModelSettings) -> Model {
    (settings.display_url().to_owned(), settings.name.clone())
}

/// The result of a probe.
struct Probed {
    form: CallForm,
    probe: PreparatoryRequest,
}

/// Asks a model once to call a tool; `None` if the model does not answer. Does not retry, because the run could not show the retries.
async fn probe(models: &ConfiguredModels, settings: &ModelSettings) -> Option<Probed> {
    let probed = |form, model: Option<String>, usage| Probed {
        form,
        probe: PreparatoryRequest {
            model: model.unwrap_or_else(|| settings.name.clone()),
            usage,
        },
    };
    match models.chat_once(&settings.reference, request()).await {
        Ok(reply) => Some(probed(
            shown_form(&reply),
            reply.model.clone(),
            reply.metered_usage(),
        )),
        // Servers reject requests that offer tools to a model that cannot call them.
        Err(failure) if failure.kind == ModelFailureKind::Rejected => {
            Some(probed(CallForm::Auto, None, ModelReply::text("").metered_usage()))
        }
        Err(failure) => {
            tracing::warn!(
                model = settings.name,
                "could not find out how the model calls tools: {failure}"
            );
            None
        }
    }
}

/// The form that a reply to the probe shows.
fn shown_form(reply: &ModelReply) -> CallForm {
    let calls = reply.calls.iter().map(|call| call.tool.as_str());
    let malformed = reply.malformed_calls.iter().map(|call| call.name.as_str());
    if calls.chain(malformed).any(|tool| tool == TOOL) {
        CallForm::AutoNative
    } else {
        CallForm::Auto
    }
}

fn request() -> ChatRequest {
    let tool = ToolSpec {
        category: ToolCategory::Other,
        changes_where: None,
        read_only: None,
        name: TOOL.to_owned(),
        description: "Confirms that you can call tools.".to_owned(),
        parameters: json!({
            "type": "object",
            "properties": {"ready": {"type": "boolean"}},
            "required": ["ready"],
        }),
        repeat: Repeat::Safe,
        access: Access::ReadOnly,
        requires_approval: false,
        approval_where: None,
        rules: Vec::new(),
        example: Value::Null,
    };
    let message = Message::User {
        content: format!("Call the tool `{TOOL}` with `ready` set to true. Do nothing else."),
    };
    ChatRequest::new(Arc::new(vec![message]))
        .call_form(CallForm::AutoNative)
        .tools(Arc::new(vec![tool]))
        .max_output_tokens(MAX_TOKENS)
}

async fn stored(journal: &Journal, model: &Model) -> Result<Option<CallForm>, DirigentError> {
    let (journal, (address, name)) = (journal.clone(), model.clone());
    let found = blocking(move || Ok::<_, DirigentError>(journal.call_form(&address, &name)?)).await?;
    Ok(found.map(|found| found.form))
}

async fn store(journal: &Journal, model: &Model, form: CallForm) -> Result<(), DirigentError> {
    let (journal, (address, model)) = (journal.clone(), model.clone());
    let found = FoundCallForm {
        address,
        model,
        form,
        at: now(),
    };
    blocking(move || Ok::<_, DirigentError>(journal.store_call_form(found)?)).await
}
