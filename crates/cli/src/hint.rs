//! The hint after an error: the command to run next. The errors of the libraries do not name CLI commands.

use dirigent::approval_rules::ApprovalRuleError;
use dirigent::mcp::{McpError, ServiceName};
use dirigent::memory::MemoryError;
use dirigent::services::{ServiceError, ServiceOrigin};
use dirigent::system_prompts::SystemPromptError;
use dirigent::{ConfigError, DecisionError, DirigentError, RuntimeError, StoreError, WorkflowError};

use crate::output::sanitize;
use crate::pending_requests::PendingRequests;
use crate::summary::next_command;

/// The line to print after an error, such as `next: dirigent show 0190a1b2`.
pub(crate) fn next_step(error: &anyhow::Error) -> Option<String> {
    let command = match error.downcast_ref::<DirigentError>()? {
        DirigentError::Runtime(error) => after_runtime_error(error)?,
        DirigentError::Workflow(error) => after_workflow_error(error)?,
        DirigentError::Memory(MemoryError::NoSuchFact { .. }) => "dirigent memory list --all".to_owned(),
        DirigentError::ApprovalRule(ApprovalRuleError::NoSuchRule { .. }) => {
            "dirigent approvals list".to_owned()
        }
        DirigentError::SystemPrompt(SystemPromptError::NoSuchBasePrompt { .. }) => {
            "dirigent prompts list".to_owned()
        }
        DirigentError::SystemPrompt(SystemPromptError::NoSuchPrompt { .. }) => {
            "dirigent prompts list; dirigent prompts show --agent NAME shows what an agent's model gets; --system-prompt sets the prompt of a \
             run or a conversation".to_owned()
        }
        DirigentError::SystemPrompt(
            SystemPromptError::NoSuchVersion { name, .. } | SystemPromptError::Conflict { name, .. },
        ) => format!("dirigent prompts show {name}"),
        DirigentError::Service(error) => after_service_error(error)?,
        DirigentError::Mcp(McpError::Failed { name, .. }) => format!("dirigent mcp logs {name}"),
        DirigentError::RunActive { run, .. } => format!("dirigent cancel {}", run.short()),
        DirigentError::Config(ConfigError::Value { key, problem, .. })
            if key.starts_with("model") && key.ends_with(".name") && problem.starts_with("is not set") =>
        {
            "dirigent models --model PROVIDER/any lists the models of a provider".to_owned()
        }
        _ => return None,
    };
    Some(format!("next: {command}"))
}

fn after_service_error(error: &ServiceError) -> Option<String> {
    match error {
        ServiceError::NoSuchService { .. } => Some("dirigent mcp list".to_owned()),
        ServiceError::Exists {
            name,
            origin: ServiceOrigin::Store { .. },
        } => Some(format!("dirigent mcp update {name}")),
        ServiceError::Exists { name, .. } => Some(format!("dirigent mcp show {name}")),
        ServiceError::NotStored { name, origin } => Some(change_service(name, origin)),
        _ => None,
    }
}

/// How the user changes the settings of a service.
pub(crate) fn change_service(name: &ServiceName, origin: &ServiceOrigin) -> String {
    match origin {
        ServiceOrigin::Store { .. } => format!("dirigent mcp update {name}"),
        ServiceOrigin::Configuration => format!("change [mcp.{name}] in your configuration"),
        ServiceOrigin::Project(path) => format!(
            "change {}, then dirigent mcp trust",
            sanitize(&path.to_string_lossy())
        ),
    }
}

fn after_workflow_error(error: &WorkflowError) -> Option<String> {
    match error {
        WorkflowError::Unknown { .. } | WorkflowError::Refused { .. } => {
            Some("dirigent workflow list".to_owned())
        }
        WorkflowError::Untrusted { path, .. } => Some(format!(
            "dirigent workflow trust {}",
            sanitize(&path.to_string_lossy())
        )),
        WorkflowError::Arguments { workflow, .. } | WorkflowError::Missing { workflow, .. } => {
            Some(format!("dirigent workflow show {workflow}"))
        }
        _ => None,
    }
}

fn after_runtime_error(error: &RuntimeError) -> Option<String> {
    match error {
        RuntimeError::Ended { run }
        | RuntimeError::NoQuestion { run }
        | RuntimeError::Question { run, .. }
        | RuntimeError::DeliveryUnknown { run } => Some(format!("dirigent show {}", run.short())),
        RuntimeError::NoAgent { run, .. } => Some(format!("dirigent show {} --verbose", run.short())),
        RuntimeError::NotRunning { run } | RuntimeError::SupervisorCrashed { run, .. } => {
            Some(format!("dirigent resume {}", run.short()))
        }
        RuntimeError::AtLimit { run, reason } => next_command(*run, reason, &PendingRequests::default()),
        RuntimeError::Decision {
            run,
            error:
                DecisionError::NotPending { .. }
                | DecisionError::DigestMismatch { .. }
                | DecisionError::Expired { .. },
        } => Some(format!("dirigent approve {}", run.short())),
        RuntimeError::CannotFork { run, .. } => Some(format!("dirigent show {} --steps", run.short())),
        RuntimeError::ReplayMismatch(_) => Some(
            "if the difference is unintended, revert the change to your prompts, configuration or code that caused it; otherwise record \
             again with `dirigent run GOAL --record FILE`"
                .to_owned(),
        ),
        RuntimeError::Journal(error) => match error.downcast_ref() {
            Some(StoreError::AlreadyClaimed { run, .. }) => {
                Some(format!("dirigent watch {run}, or dirigent cancel {run}", run = run.short()))
            }
            Some(StoreError::NotARunId { .. } | StoreError::NoSuchRun { .. }) => Some("dirigent runs".to_owned()),
            Some(StoreError::NoSuchConversation { .. }) => Some("dirigent conversations list".to_owned()),
            // The journal's other errors already say what to do.
            _ => None,
        },
        _ => None,
    }
}
