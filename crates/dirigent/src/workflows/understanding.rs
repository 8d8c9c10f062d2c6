//! Understands the words after a workflow's name as a sentence: a model finds the values of the parameters in it (FLOW-2).
//!
//! The request is made before the run exists. Its usage is part of the [`UnderstoodSentence`], which the run is started with and journals.
//! The model only finds values: each must be in the sentence, and is checked like a typed value.

use std::sync::Arc;
use std::time::Duration;

use dirigent_core::agent_spec::AgentSpec;
use dirigent_core::call::{CallForm, ContextCalls, ReplyContent, ReplyParser, read_arguments, reply_schema};
use dirigent_core::message::{Message, ModelReply};
use dirigent_core::prompt::{
    ExtractionRequest, ParameterLine, ParameterType, SET_PARAMETERS, extraction_prompt, extraction_request,
    extraction_tool,
};
use dirigent_core::spec::{PreparatoryRequest, UnderstoodSentence};
use dirigent_core::tool::ToolSpec;
use dirigent_model::{ChatModel, ChatRequest, ReplyFormat};
use serde_json::{Map, Value};

use super::arguments::{ArgumentProblem, Arguments};
use super::definition::Workflow;
use super::error::NotUnderstood;
use super::parameter::{Parameter, ParameterKind};
use super::sentence::{InvocationWords, Reading, Sentence};
use super::spoken_value::{self, SpokenValue};
use crate::blocking::blocking;
use crate::markdown::truncated;
use crate::{Dirigent, DirigentError};

/// Maximum number of requests: the first, and one more if its reply cannot be used.
const MAX_REQUESTS: usize = 2;
/// Maximum number of tokens of a reply. Some models think before they call.
const MAX_TOKENS: u64 = 2_048;
/// Maximum time for one request, with its retries.
const TIMEOUT: Duration = Duration::from_secs(60);

impl Dirigent {
    /// Sets a workflow's parameters from the words after its name (FLOW-2).
    ///
    /// Words that fit the parameters, as [`Workflow::parse_arguments`] reads them, are used as they are. Any other words without `name=value`
    /// count as a sentence: the lead's model is asked which values it contains. Values that the sentence does not contain are not used; the
    /// others are checked like typed values. [`Arguments::sentence`] tells what was understood, to be shown to the user.
    ///
    /// The model is asked once, and once more if its reply cannot be used. The usage counts towards each run that is started with
    /// [`Workflow::goal`] for these arguments, and is journaled with it.
    ///
    /// # Errors
    /// [`WorkflowError::Arguments`](super::WorkflowError::Arguments) with all problems of the words and, for a sentence, the reason why it was
    /// not understood.
    pub async fn workflow_arguments<'a>(
        &self,
        workflow: &Workflow,
        words: impl Into<InvocationWords<'a>>,
    ) -> Result<Arguments, DirigentError> {
        let sentence = match Reading::new(&workflow.parameters, words.into()) {
            Reading::Arguments(arguments) => return Ok(arguments),
            Reading::Invalid(problems) => return Err(workflow.invalid(problems, None).into()),
            Reading::Sentence(sentence) => sentence,
        };
        let factory = self.run_spec_factory.clone();
        let setup = blocking(move || factory.default_setup()).await?;
        let extraction = Extraction::new(self.orchestrator.services().model(), &setup.lead, workflow);
        Ok(match extraction.values(&sentence.text).await {
            Ok(found) => workflow.understood(sentence, found)?,
            Err(reason) => return Err(workflow.invalid(sentence.problems, Some(reason)).into()),
        })
    }
}

/// The values that a model found, as it wrote them, with the requests to it.
struct FoundValues {
    values: Vec<(String, String)>,
    requests: Vec<PreparatoryRequest>,
}

/// The request to find the values of a workflow's parameters in a sentence.
struct Extraction<'a> {
    model: &'a Arc<dyn ChatModel>,
    /// The agent whose model is asked.
    lead: &'a AgentSpec,
    workflow: &'a Workflow,
    parameters: Vec<ParameterLine>,
    tools: Arc<Vec<ToolSpec>>,
}

impl<'a> Extraction<'a> {
    fn new(model: &'a Arc<dyn ChatModel>, lead: &'a AgentSpec, workflow: &'a Workflow) -> Self {
        let parameters: Vec<ParameterLine> = workflow.parameters.iter().map(line).collect();
        Extraction {
            model,
            lead,
            workflow,
            tools: Arc::new(vec![extraction_tool(&parameters)]),
            parameters,
        }
    }

    async fn values(&self, sentence: &str) -> Result<FoundValues, NotUnderstood> {
        let mut requests = Vec::new();
        let mut problem = None;
        while requests.len() < MAX_REQUESTS {
            let messages = self.messages(sentence, problem.as_deref());
            let mut context = ContextCalls::new(&self.tools);
            messages.iter().for_each(|message| context.add(message.content()));
            let reply = self.ask(messages).await?;
            let model = reply.model.clone().or_else(|| self.lead.model.clone());
            requests.push(PreparatoryRequest {
                model: model.unwrap_or_else(|| "default".to_owned()),
                usage: reply.metered_usage(),
            });
            match self.read(&reply, &context) {
                Ok(values) => return Ok(FoundValues { values, requests }),
                Err(reason) => problem = Some(reason),
            }
        }
        Err(NotUnderstood::Unusable(problem.unwrap_or_default()))
    }

    fn messages(&self, sentence: &str, problem: Option<&str>) -> Vec<Message> {
        let request = ExtractionRequest {
            workflow: &self.workflow.name,
            description: &self.workflow.description,
            parameters: &self.parameters,
            words: sentence,
            problem,
        };
        vec![
            Message::System {
                content: extraction_prompt(self.lead.profile.calls),
            },
            Message::User {
                content: extraction_request(&request),
            },
        ]
    }

    async fn ask(&self, messages: Vec<Message>) -> Result<ModelReply, NotUnderstood> {
        let form = self.lead.profile.calls;
        let mut request = ChatRequest::new(Arc::new(messages))
            .model(self.lead.model.clone())
            .call_form(form)
            .max_output_tokens(MAX_TOKENS);
        match form {
            CallForm::Native | CallForm::AutoNative => request = request.tools(self.tools.clone()),
            CallForm::JsonSchema => {
                request = request.format(ReplyFormat::JsonSchema {
                    name: "reply".to_owned(),
                    schema: Arc::new(reply_schema(&self.tools, false)),
                });
            }
            CallForm::Json | CallForm::ToolCall | CallForm::Auto => {}
        }
        match tokio::time::timeout(TIMEOUT, self.model.chat(request)).await {
            Ok(Ok(reply)) => Ok(reply),
            Ok(Err(failure)) => Err(NotUnderstood::NoAnswer(failure.to_string())),
            Err(_) => {
                let reason = format!("no reply within {} s", TIMEOUT.as_secs());
                Err(NotUnderstood::NoAnswer(reason))
            }
        }
    }

    /// Reads the values in a reply: the call of the tool, or its parameters alone. An error is for the model.
    fn read(&self, reply: &ModelReply, context: &ContextCalls) -> Result<Vec<(String, String)>, String> {
        let parser = ReplyParser {
            form: self.lead.profile.calls,
            tools: &self.tools,
            context,
        };
        let object = match (self.bare_parameters(reply), parser.parse(reply)) {
            (_, Ok(ReplyContent::Calls(calls))) => match calls.as_slice() {
                [call] if call.tool == SET_PARAMETERS => call.parameters.clone(),
                [_] => return Err(format!("there is no other tool than `{SET_PARAMETERS}`")),
                _ => return Err("it has more than one call".to_owned()),
            },
            (Some(object), _) => object,
            (None, Ok(ReplyContent::Text(_) | ReplyContent::CallInProse(_))) => {
                return Err(format!("it is not a call of `{SET_PARAMETERS}` alone"));
            }
            (None, Err(malformed)) => return Err(malformed.to_string()),
        };
        match object {
            Value::Object(object) => self.texts(&object),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
                Err("its parameters must be an object".to_owned())
            }
        }
    }

    /// Returns the parameters if an object with nothing else is the whole reply, with or without a code fence.
    fn bare_parameters(&self, reply: &ModelReply) -> Option<Value> {
        let text = reply.content.trim();
        let fenced = text.strip_prefix("```json").or_else(|| text.strip_prefix("```"));
        let inside = fenced.and_then(|rest| rest.strip_suffix("```"));
        let text = inside.unwrap_or(text).trim();
        let object = text.starts_with('{').then(|| read_arguments(text))?.ok()?;
        let is_parameter = |name: &String| self.parameters.iter().any(|parameter| parameter.name == *name);
        object.as_object()?.keys().all(is_parameter).then_some(object)
    }

    /// Returns the values as texts. Empty values count as absent.
    fn texts(&self, object: &Map<String, Value>) -> Result<Vec<(String, String)>, String> {
        let mut texts = Vec::new();
        for (name, value) in object {
            if !self.parameters.iter().any(|parameter| parameter.name == *name) {
                let names: Vec<&str> = self.parameters.iter().map(|it| it.name.as_str()).collect();
                return Err(format!(
                    "there is no parameter `{}`, only {}",
                    truncated(name),
                    names.join(", ")
                ));
            }
            let text = match value {
                Value::Null => continue,
                Value::String(text) => text.trim().to_owned(),
                Value::Bool(value) => value.to_string(),
                Value::Number(number) => number.to_string(),
                Value::Array(_) | Value::Object(_) => {
                    return Err(format!("`{name}` must be a string, a number, true or false"));
                }
            };
            if !text.is_empty() {
                texts.push((name.clone(), text));
            }
        }
        Ok(texts)
    }
}

impl Workflow {
    /// Checks the values that a model found in a sentence.
    fn understood(
        &self,
        sentence: Sentence,
        found: FoundValues,
    ) -> Result<Arguments, super::error::WorkflowError> {
        let mut understood = UnderstoodSentence {
            text: sentence.text.clone(),
            requests: found.requests,
            ..UnderstoodSentence::default()
        };
        let mut arguments = Arguments::default();
        let mut problems = Vec::new();
        for (name, value) in found.values {
            let Some(parameter) = self.parameters.iter().find(|parameter| parameter.name == name) else {
                continue;
            };
            match spoken_value::check(parameter, &sentence.text, &value) {
                SpokenValue::Valid(valid) => {
                    problems.extend(arguments.set(parameter, &valid).err());
                    understood.values.insert(name, valid);
                }
                SpokenValue::Invalid { value, reason } => problems.push(ArgumentProblem::Invalid {
                    parameter: name,
                    value: truncated(&value),
                    reason,
                }),
                SpokenValue::Invented if parameter.default.as_ref() == Some(&value) => {}
                SpokenValue::Invented => understood.invented.push(name),
            }
        }
        if !problems.is_empty() {
            return Err(self.invalid(problems, None));
        }
        let is_used = |word: &String| {
            let mut values = understood.values.values();
            values.any(|value| spoken_value::contains(value, word))
        };
        if understood.values.is_empty() || !sentence.meant.iter().all(is_used) {
            return Err(self.invalid(sentence.problems, Some(NotUnderstood::Unclear)));
        }
        Ok(arguments.with_sentence(understood))
    }
}

fn line(parameter: &Parameter) -> ParameterLine {
    let (kind, choices) = match &parameter.kind {
        ParameterKind::String => (ParameterType::String, Vec::new()),
        ParameterKind::Integer => (ParameterType::Integer, Vec::new()),
        ParameterKind::Number => (ParameterType::Number, Vec::new()),
        ParameterKind::Boolean => (ParameterType::Boolean, Vec::new()),
        ParameterKind::Path => (ParameterType::Path, Vec::new()),
        ParameterKind::Choice(choices) => (ParameterType::Choice, choices.clone()),
    };
    ParameterLine {
        name: parameter.name.clone(),
        kind,
        required: parameter.needs_value(),
        choices,
        default: parameter.default.clone(),
        pattern: parameter.pattern.clone(),
        description: parameter.description.clone(),
    }
}
