//! Errors as `application/problem+json` (RFC 9457), each with a code that stays the same.

use std::error::Error;

use axum::http::StatusCode;
use axum::http::header::{CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE};
use axum::response::{IntoResponse, Response};
use dirigent::approval_rules::ApprovalRuleError;
use dirigent::config::ConfigError;
use dirigent::mcp::McpError;
use dirigent::memory::MemoryError;
use dirigent::services::ServiceError;
use dirigent::system_prompts::SystemPromptError;
use dirigent::{
    DecisionError, DirigentError, RepositoryError, RuntimeError, SelectionError, StoreError, WorkflowError,
};
use serde_json::{Value, json};

/// An error that a client gets. The response has it as an extension as well.
#[derive(Clone, Debug)]
pub(crate) struct Problem {
    status: StatusCode,
    code: &'static str,
    detail: String,
    /// After how many seconds the client may try again; `None` if trying again does not help.
    retry_after: Option<u32>,
    /// Further fields, for programs.
    fields: Vec<(&'static str, Value)>,
}

impl Problem {
    pub(crate) fn new(status: StatusCode, code: &'static str, detail: impl Into<String>) -> Self {
        Problem {
            status,
            code,
            detail: detail.into(),
            retry_after: None,
            fields: Vec::new(),
        }
    }

    /// Gives the problem the status 404 if it has this code: what is unknown is named by the address of the request, not by its body.
    pub(crate) fn with_status_of_address(self, code: &str) -> Self {
        let status = if self.code == code {
            StatusCode::NOT_FOUND
        } else {
            self.status
        };
        Problem { status, ..self }
    }

    /// Returns true if the problem has this code.
    pub(crate) fn is(&self, code: &str) -> bool {
        self.code == code
    }

    /// Adds a field for programs.
    pub(crate) fn with(mut self, name: &'static str, value: Value) -> Self {
        self.fields.push((name, value));
        self
    }

    fn retry_after(self, seconds: u32) -> Self {
        Problem {
            retry_after: Some(seconds),
            ..self
        }
    }

    pub(crate) fn wrong_host(host: &str) -> Self {
        let detail = format!(
            "the request is for the host `{host}`, which is not a name of this server: use its address, or start the server with this name"
        );
        Problem::new(StatusCode::MISDIRECTED_REQUEST, "wrong_host", detail)
    }

    pub(crate) fn cross_site() -> Self {
        let detail = "the request was made by a page of another origin: open the service itself";
        Problem::new(StatusCode::FORBIDDEN, "cross_site", detail)
    }

    pub(crate) fn no_token() -> Self {
        let detail = "the request has no token: send the header `Authorization: Bearer TOKEN`, or open the link with the token in a browser";
        Problem::new(StatusCode::UNAUTHORIZED, "no_token", detail)
    }

    pub(crate) fn wrong_token() -> Self {
        let detail = "the token is wrong: the right one is in the server's token file";
        Problem::new(StatusCode::UNAUTHORIZED, "wrong_token", detail)
    }

    pub(crate) fn no_session() -> Self {
        let detail = "the session has ended: open the link with the token again";
        Problem::new(StatusCode::UNAUTHORIZED, "no_session", detail)
    }

    pub(crate) fn head_too_large(limit: usize) -> Self {
        let detail =
            format!("the address and the headers of the request are longer than {limit} bytes: shorten them");
        Problem::new(
            StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE,
            "headers_too_large",
            detail,
        )
    }

    pub(crate) fn too_many_requests() -> Self {
        let detail = "too many requests and event streams are under way: try again later";
        Problem::new(StatusCode::TOO_MANY_REQUESTS, "too_many_requests", detail).retry_after(1)
    }

    pub(crate) fn too_many_runs(limit: usize) -> Self {
        let detail = format!(
            "{limit} runs of this server are active, which is the limit: try again when one has ended"
        );
        Problem::new(StatusCode::TOO_MANY_REQUESTS, "too_many_runs", detail).retry_after(10)
    }

    pub(crate) fn shutting_down() -> Self {
        let detail = "the server is shutting down: its runs can be resumed when it is started again";
        Problem::new(StatusCode::SERVICE_UNAVAILABLE, "shutting_down", detail).retry_after(10)
    }

    pub(crate) fn unknown_address() -> Self {
        let detail = "there is nothing at this address: docs/service.md lists the addresses";
        Problem::new(StatusCode::NOT_FOUND, "unknown_address", detail)
    }

    pub(crate) fn wrong_method() -> Self {
        let detail =
            "this address does not support the method: the header `Allow` lists those that it supports";
        Problem::new(StatusCode::METHOD_NOT_ALLOWED, "wrong_method", detail)
    }

    /// The error for a part of a request that has no valid value.
    pub(crate) fn invalid(detail: impl Into<String>) -> Self {
        Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "invalid_value", detail)
    }

    /// The error for a failure that the client did not cause. It is logged.
    pub(crate) fn internal(error: &dyn Error) -> Self {
        let detail = with_causes(error);
        tracing::error!("a request failed: {detail}");
        Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", detail)
    }

    /// The error for a body that is not declared as JSON.
    pub(crate) fn not_json() -> Self {
        let detail = "the body is not declared as JSON: send the header `Content-Type: application/json`";
        Problem::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "not_json", detail)
    }

    pub(crate) fn status(&self) -> StatusCode {
        self.status
    }

    /// The name of the error, which stays the same.
    pub(crate) fn code(&self) -> &'static str {
        self.code
    }

    /// What failed, why, and what to do.
    pub(crate) fn detail(&self) -> &str {
        &self.detail
    }

    /// The fields of the problem in JSON.
    pub(crate) fn to_json(&self) -> Value {
        let mut object = json!({
            "type": format!("urn:dirigent:problem:{}", self.code),
            "title": self.status.canonical_reason().unwrap_or_default(),
            "status": self.status.as_u16(),
            "code": self.code,
            "detail": self.detail,
        });
        for (name, value) in &self.fields {
            object[*name] = value.clone();
        }
        object
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let body = self.to_json().to_string();
        let headers = [(CONTENT_TYPE, "application/problem+json")];
        let mut response = (self.status, headers, body).into_response();
        if let Some(seconds) = self.retry_after {
            response.headers_mut().insert(RETRY_AFTER, seconds.into());
        }
        if self.status == StatusCode::UNAUTHORIZED {
            let scheme = axum::http::HeaderValue::from_static("Bearer realm=\"dirigent\"");
            response.headers_mut().insert(WWW_AUTHENTICATE, scheme);
        }
        response.extensions_mut().insert(self);
        response
    }
}

/// An error with its causes, on one line.
pub(crate) fn with_causes(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(": ");
        text.push_str(&error.to_string());
        cause = error.source();
    }
    text
}

impl From<RuntimeError> for Problem {
    fn from(error: RuntimeError) -> Self {
        DirigentError::from(error).into()
    }
}

impl From<DirigentError> for Problem {
    fn from(error: DirigentError) -> Self {
        if let Some(problem) = active_run(&error) {
            return problem;
        }
        let found = match &error {
            DirigentError::Runtime(RuntimeError::Journal(_)) => error.store_error().and_then(store_code),
            DirigentError::Runtime(error) => runtime_code(error),
            error => library_code(error),
        };
        if let DirigentError::UndoRefused { refused } = &error {
            return Problem::new(StatusCode::CONFLICT, "undo_refused", error.to_string())
                .with("refused", json!(refused));
        }
        match found {
            Some((StatusCode::SERVICE_UNAVAILABLE, "shutting_down")) => Problem::shutting_down(),
            Some((status @ StatusCode::SERVICE_UNAVAILABLE, code)) => {
                Problem::new(status, code, with_causes(&error)).retry_after(5)
            }
            Some((status, code)) => Problem::new(status, code, with_causes(&error)),
            None => Problem::internal(&error),
        }
    }
}

/// The error for a run that a process owns, in words for clients: they cannot end processes, but cancel the run.
fn active_run(error: &DirigentError) -> Option<Problem> {
    let (run, pid) = match (error, error.store_error()) {
        (DirigentError::RunActive { run, pid }, _) | (_, Some(StoreError::AlreadyClaimed { run, pid })) => {
            (run, *pid)
        }
        _ => return None,
    };
    let place = match pid == std::process::id() {
        true => "in this server".to_owned(),
        false => format!("in another process, {pid}"),
    };
    let detail = format!(
        "run {} is active {place}: wait until it ends, or cancel it",
        run.short()
    );
    Some(Problem::new(StatusCode::CONFLICT, "run_active", detail))
}

type Code = Option<(StatusCode, &'static str)>;

/// The status and the code of an error of the library; `None` if the client did not cause it.
fn library_code(error: &DirigentError) -> Code {
    use StatusCode as S;
    Some(match error {
        DirigentError::EmptyGoal => (S::UNPROCESSABLE_ENTITY, "empty_goal"),
        DirigentError::EmptyTitle => (S::UNPROCESSABLE_ENTITY, "empty_title"),
        DirigentError::Workspace { .. } => (S::UNPROCESSABLE_ENTITY, "unusable_workspace"),
        DirigentError::Agent { .. } => (S::UNPROCESSABLE_ENTITY, "invalid_agent"),
        DirigentError::StartsBlocked => (S::SERVICE_UNAVAILABLE, "starts_blocked"),
        DirigentError::StartCancelled => (S::SERVICE_UNAVAILABLE, "shutting_down"),
        DirigentError::WorkspaceShared { .. } => (S::CONFLICT, "workspace_shared"),
        DirigentError::TurnUnfinished { .. } => (S::CONFLICT, "turn_unfinished"),
        DirigentError::ConversationBudget { .. } => (S::CONFLICT, "conversation_budget"),
        DirigentError::UndoRefused { .. } => (S::CONFLICT, "undo_refused"),
        DirigentError::Repository(RepositoryError::Io { .. } | RepositoryError::Git(_)) => return None,
        DirigentError::Repository(_) => (S::UNPROCESSABLE_ENTITY, "unusable_repository"),
        DirigentError::SystemPrompt(SystemPromptError::NoSuchPrompt { .. }) => {
            (S::UNPROCESSABLE_ENTITY, "unknown_system_prompt")
        }
        DirigentError::Config(ConfigError::UnknownModel { .. }) => (S::UNPROCESSABLE_ENTITY, "unknown_model"),
        DirigentError::Config(ConfigError::ModelChanged { .. }) => (S::CONFLICT, "model_changed"),
        DirigentError::Config(ConfigError::Missing { .. }) => (S::UNPROCESSABLE_ENTITY, "model_not_set_up"),
        DirigentError::Service(ServiceError::NoSuchService { .. })
        | DirigentError::Mcp(McpError::UnknownService { .. }) => (S::NOT_FOUND, "unknown_service"),
        DirigentError::Mcp(
            McpError::Disabled { .. } | McpError::Stopped { .. } | McpError::Removed { .. },
        ) => (S::CONFLICT, "service_not_running"),
        DirigentError::Mcp(McpError::Failed { .. }) => (S::BAD_GATEWAY, "service_failed"),
        DirigentError::Memory(MemoryError::NoSuchFact { .. }) => (S::NOT_FOUND, "unknown_fact"),
        DirigentError::ApprovalRule(ApprovalRuleError::NoSuchRule { .. }) => (S::NOT_FOUND, "unknown_rule"),
        DirigentError::Service(_) => (S::UNPROCESSABLE_ENTITY, "unusable_mcp_service"),
        DirigentError::Workflow(error) => (S::UNPROCESSABLE_ENTITY, workflow_code(error)),
        DirigentError::Memory(_) => (S::UNPROCESSABLE_ENTITY, "memory_refused"),
        DirigentError::ApprovalRule(_) => (S::UNPROCESSABLE_ENTITY, "approval_rule_refused"),
        _ => return None,
    })
}

fn workflow_code(error: &WorkflowError) -> &'static str {
    match error {
        WorkflowError::Unknown { .. } => "unknown_workflow",
        WorkflowError::Untrusted { .. } => "untrusted_workflow",
        WorkflowError::Arguments { .. } => "invalid_parameters",
        WorkflowError::Missing { .. } => "missing_parameters",
        _ => "unusable_workflow",
    }
}

fn runtime_code(error: &RuntimeError) -> Code {
    use StatusCode as S;
    Some(match error {
        RuntimeError::Ended { .. } => (S::CONFLICT, "run_ended"),
        RuntimeError::AtLimit { .. } => (S::CONFLICT, "at_limit"),
        RuntimeError::NotRunning { .. } => (S::CONFLICT, "not_running"),
        RuntimeError::NeverBegan { .. } => (S::CONFLICT, "never_began"),
        RuntimeError::NoQuestion { .. } => (S::CONFLICT, "no_such_question"),
        RuntimeError::Question {
            error: SelectionError::Several { .. },
            ..
        } => (S::CONFLICT, "several_questions"),
        RuntimeError::Question { .. } => (S::CONFLICT, "no_such_question"),
        RuntimeError::Answer { .. } => (S::UNPROCESSABLE_ENTITY, "no_such_choice"),
        RuntimeError::NoAgent { .. } => (S::CONFLICT, "no_such_agent"),
        RuntimeError::MessageRejected { .. } => (S::CONFLICT, "message_rejected"),
        RuntimeError::CannotFork { .. } => (S::CONFLICT, "cannot_fork"),
        RuntimeError::DeliveryUnknown { .. } => (S::INTERNAL_SERVER_ERROR, "delivery_unknown"),
        RuntimeError::Stopped { .. } => (S::SERVICE_UNAVAILABLE, "shutting_down"),
        RuntimeError::Decision { error, .. } => match error {
            DecisionError::NotPending { .. } => (S::CONFLICT, "not_pending"),
            DecisionError::DigestMismatch { .. } => (S::CONFLICT, "call_changed"),
            DecisionError::Expired { .. } => (S::CONFLICT, "approval_expired"),
            DecisionError::Parameters(_) => (S::UNPROCESSABLE_ENTITY, "invalid_parameters"),
            DecisionError::Denied(_) => (S::UNPROCESSABLE_ENTITY, "call_denied"),
            _ => (S::CONFLICT, "decision_rejected"),
        },
        _ => return None,
    })
}

fn store_code(error: &StoreError) -> Code {
    use StatusCode as S;
    Some(match error {
        StoreError::NotARunId { .. } | StoreError::NoSuchRun { .. } => (S::NOT_FOUND, "unknown_run"),
        StoreError::AmbiguousRun { .. } => (S::CONFLICT, "ambiguous_run"),
        StoreError::NoSuchConversation { .. } => (S::NOT_FOUND, "unknown_conversation"),
        StoreError::AmbiguousConversation { .. } => (S::CONFLICT, "ambiguous_conversation"),
        StoreError::ConversationActive { .. } => (S::CONFLICT, "conversation_active"),
        StoreError::TurnExists { .. } => (S::CONFLICT, "turn_exists"),
        StoreError::NoSuchEntry { .. } => (S::NOT_FOUND, "unknown_entry"),
        StoreError::Finished { .. } => (S::CONFLICT, "run_ended"),
        StoreError::MessageTooLong { .. } => (S::PAYLOAD_TOO_LARGE, "message_too_long"),
        StoreError::TooManyMessages { .. } => (S::CONFLICT, "too_many_messages"),
        StoreError::OtherMessages { .. } => (S::CONFLICT, "messages_changed"),
        StoreError::Locked { .. } => (S::SERVICE_UNAVAILABLE, "journal_locked"),
        StoreError::Full { .. } => (S::INSUFFICIENT_STORAGE, "journal_full"),
        _ => return None,
    })
}
