//! What a user requests: a goal in words, or a workflow. All user interfaces interpret requests here, so that the same words mean the same in each.

use std::path::Path;

use super::arguments::{ArgumentProblem, Arguments};
use super::definition::Workflow;
use super::error::WorkflowError;
use super::parameter::Parameter;
use super::registry::{UntrustedWorkflow, Workflows};
use super::sentence::InvocationWords;
use crate::{Dirigent, DirigentError, Goal};

/// A user's request.
#[derive(Clone, Copy, Debug)]
pub enum UserRequest<'a> {
    /// A goal in words, or a message that invokes a workflow, such as `/create_project my-app`.
    Text(&'a str),
    /// A workflow by its name, with words that a shell has split.
    Words {
        /// The workflow's name, without `/`.
        name: &'a str,
        /// The words after the name.
        words: &'a [String],
    },
    /// A workflow by its name, with the values of its parameters.
    Values {
        /// The workflow's name, without `/`.
        name: &'a str,
        /// The parameters with their values.
        values: &'a [(String, String)],
    },
}

/// What a request means.
#[derive(Clone, Debug)]
pub enum RequestedGoal {
    /// A goal in the user's own words.
    Goal(Box<Goal>),
    /// A workflow, perhaps with parameters that have no value yet.
    Workflow(Box<InvokedWorkflow>),
    /// A workflow of the project whose file the user has not trusted. Show its text, and interpret the request again once the user trusts it
    /// ([`Dirigent::trust_workflow`]).
    Untrusted(UntrustedWorkflow),
}

/// A workflow with the values of its parameters.
#[derive(Clone, Debug)]
pub struct InvokedWorkflow {
    /// The workflow.
    pub workflow: Workflow,
    /// The values so far.
    pub arguments: Arguments,
}

impl InvokedWorkflow {
    /// Returns the required parameters that have no value yet, in order.
    pub fn missing(&self) -> impl Iterator<Item = &Parameter> {
        self.workflow.missing(&self.arguments)
    }

    /// Sets the value of a parameter, such as the user's answer.
    ///
    /// # Errors
    /// As [`Workflow::set`].
    pub fn set(&mut self, parameter: &str, value: &str) -> Result<(), ArgumentProblem> {
        self.workflow.set(&mut self.arguments, parameter, value)
    }

    /// Creates the goal of a run, as [`Workflow::goal`] does.
    ///
    /// # Errors
    /// As [`Workflow::goal`].
    pub fn goal(&self) -> Result<Goal, WorkflowError> {
        self.workflow.goal(&self.arguments)
    }
}

impl Dirigent {
    /// Interprets a user's request: a text that begins with the name of a workflow, such as `/create_project my-app`, invokes it; any other text is a goal. If `workspace`
    /// is given, the workflows of its project are known, too. Asks the model only if the words after the name are a sentence
    /// ([`Dirigent::workflow_arguments`]).
    ///
    /// ```
    /// use dirigent::workflows::{RequestedGoal, UserRequest};
    ///
    /// # async fn start(dirigent: &dirigent::Dirigent, workspace: &std::path::Path) -> Result<(), dirigent::DirigentError> {
    /// let request = UserRequest::Text("/create_project my-app");
    /// let goal = match dirigent.requested_goal(request, Some(workspace)).await? {
    ///     RequestedGoal::Goal(goal) => *goal,
    ///     // `missing` lists the parameters to ask for, `set` takes the answers.
    ///     RequestedGoal::Workflow(invoked) => invoked.goal()?,
    ///     RequestedGoal::Untrusted(file) => return Ok(println!("Read {} first.", file.path.display())),
    /// };
    /// dirigent.start(goal.workspace(workspace)).await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`DirigentError::Workflow`]: there is no such workflow, its file is refused, or the values are not valid. An error of the journal.
    pub async fn requested_goal(
        &self,
        request: UserRequest<'_>,
        workspace: Option<&Path>,
    ) -> Result<RequestedGoal, DirigentError> {
        if let UserRequest::Text(text) = request
            && !text.trim_start().starts_with('/')
        {
            return Ok(RequestedGoal::Goal(Box::new(Goal::new(text))));
        }
        let workflows = self.workflows(workspace).await?;
        let selected = match select(&workflows, request) {
            Ok(selected) => selected,
            Err(WorkflowError::Untrusted { name, path }) => {
                let file = workflows.untrusted.iter().find(|file| file.name == name);
                let untrusted = WorkflowError::Untrusted { name, path };
                return Ok(RequestedGoal::Untrusted(file.cloned().ok_or(untrusted)?));
            }
            Err(error) => return Err(error.into()),
        };
        let (workflow, arguments) = match selected {
            Selected::Goal(text) => return Ok(RequestedGoal::Goal(Box::new(Goal::new(text)))),
            Selected::Words(workflow, words) => (workflow, self.workflow_arguments(workflow, words).await?),
            Selected::Values(workflow, values) => (workflow, with_values(workflow, values)?),
        };
        Ok(RequestedGoal::Workflow(Box::new(InvokedWorkflow {
            workflow: workflow.clone(),
            arguments,
        })))
    }
}

/// A request with the workflow that it names.
enum Selected<'a> {
    Goal(&'a str),
    Words(&'a Workflow, InvocationWords<'a>),
    Values(&'a Workflow, &'a [(String, String)]),
}

fn select<'a>(workflows: &'a Workflows, request: UserRequest<'a>) -> Result<Selected<'a>, WorkflowError> {
    Ok(match request {
        UserRequest::Text(text) => match workflows.invocation(text)? {
            Some(invocation) => Selected::Words(invocation.workflow, InvocationWords::Text(invocation.words)),
            None => Selected::Goal(text),
        },
        UserRequest::Words { name, words } => {
            Selected::Words(workflows.find(name)?, InvocationWords::Shell(words))
        }
        UserRequest::Values { name, values } => Selected::Values(workflows.find(name)?, values),
    })
}

/// The arguments with these values, or an error with all problems.
fn with_values(workflow: &Workflow, values: &[(String, String)]) -> Result<Arguments, WorkflowError> {
    let mut arguments = Arguments::default();
    let problems: Vec<ArgumentProblem> = values
        .iter()
        .filter_map(|(name, value)| workflow.set(&mut arguments, name, value).err())
        .collect();
    match problems.is_empty() {
        true => Ok(arguments),
        false => Err(workflow.invalid(problems, None)),
    }
}
