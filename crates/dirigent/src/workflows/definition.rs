//! The definition of a workflow, and its conversion to a goal.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use dirigent_core::mode::Mode;
use dirigent_core::policy::Rule;
use dirigent_core::spec::UsedWorkflow;

use super::arguments::{ArgumentProblem, Arguments};
use super::claude_template::ClaudeTemplate;
use super::error::{NotUnderstood, WorkflowError};
use super::parameter::{Parameter, ParameterKind};
use super::sentence::{InvocationWords, Reading};
use super::template::{Template, TemplateValue};
use crate::Goal;

/// The only parameter of a Claude Code command: all words after its name.
pub(super) const ALL_ARGUMENTS: &str = "arguments";

/// A goal that users invoke by name.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Workflow {
    /// The name by which users invoke the workflow.
    pub name: String,
    /// The description for users.
    pub description: String,
    /// The category, by which user interfaces filter and group workflows (FLOW-3).
    pub category: String,
    /// The parameters, in the order of positional arguments.
    pub parameters: Vec<Parameter>,
    /// The only sub-agent of the run, to which the lead gives the goal; `None` for no restriction.
    pub agent: Option<String>,
    /// The mode of the run, unless the user chooses a stricter mode.
    pub mode: Mode,
    /// The only tools that the run may have; `None` for no restriction.
    pub tools: Option<Vec<String>>,
    /// Rules that require approval or deny calls, in addition to the user's rules.
    pub rules: Vec<Rule>,
    /// The template of the goal, as written in the file.
    pub template: String,
    /// The source of the definition.
    pub source: WorkflowSource,
    /// Notes about parts of the file that have no effect in Dirigent.
    pub notes: Vec<String>,
    /// The description of the arguments in a Claude Code command.
    pub(super) argument_hint: Option<String>,
    pub(super) body: Body,
}

/// The text of a workflow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Body {
    Template(Template),
    ClaudeCode(ClaudeTemplate),
}

/// The source of a workflow's definition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WorkflowSource {
    /// The workflow ships with Dirigent.
    Shipped,
    /// A file in the user's configuration folder.
    User(PathBuf),
    /// A file in the project that the user has trusted.
    Project(PathBuf),
}

impl WorkflowSource {
    /// Returns the path of the user's or the project's file; `None` for a shipped workflow.
    pub fn file(&self) -> Option<&Path> {
        match self {
            WorkflowSource::Shipped => None,
            WorkflowSource::User(path) | WorkflowSource::Project(path) => Some(path),
        }
    }
}

/// Display format: `shipped`, `yours, path/of/it.md`, `project, path/of/it.md`.
impl fmt::Display for WorkflowSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            WorkflowSource::Shipped => f.write_str("shipped"),
            WorkflowSource::User(path) => write!(f, "yours, {}", path.display()),
            WorkflowSource::Project(path) => write!(f, "project, {}", path.display()),
        }
    }
}

impl Workflow {
    /// Returns how to invoke the workflow, such as `/create_project <name> [kind: rust | python]`.
    pub fn usage(&self) -> String {
        let mut usage = format!("/{}", self.name);
        if let Some(hint) = &self.argument_hint {
            return format!("{usage} {hint}");
        }
        for parameter in &self.parameters {
            let kind = match &parameter.kind {
                ParameterKind::String => parameter.name.clone(),
                ParameterKind::Integer
                | ParameterKind::Number
                | ParameterKind::Boolean
                | ParameterKind::Path
                | ParameterKind::Choice(_) => format!("{}: {}", parameter.name, parameter.kind),
            };
            usage.push_str(&match parameter.needs_value() {
                true => format!(" <{kind}>"),
                false => format!(" [{kind}]"),
            });
        }
        usage
    }

    /// Parses the words after the workflow's name: positional arguments, quoted strings, and `name=value` (FLOW-2).
    /// [`crate::Dirigent::workflow_arguments`] also understands a sentence.
    ///
    /// # Errors
    /// [`WorkflowError::Arguments`] with all problems, such as too many words or invalid values.
    pub fn parse_arguments<'a>(
        &self,
        words: impl Into<InvocationWords<'a>>,
    ) -> Result<Arguments, WorkflowError> {
        match Reading::new(&self.parameters, words.into()) {
            Reading::Arguments(arguments) => Ok(arguments),
            Reading::Sentence(sentence) => Err(self.invalid(sentence.problems, None)),
            Reading::Invalid(problems) => Err(self.invalid(problems, None)),
        }
    }

    /// Returns the required parameters that have no value yet, in order. Ask the user for them, and [`Workflow::set`] the answers.
    pub fn missing<'a>(&'a self, arguments: &'a Arguments) -> impl Iterator<Item = &'a Parameter> {
        self.parameters
            .iter()
            .filter(|parameter| parameter.needs_value() && arguments.get(&parameter.name).is_none())
    }

    /// Sets the value of a parameter, such as the user's answer.
    ///
    /// # Errors
    /// [`ArgumentProblem::Invalid`] if the value is not valid for the parameter, or [`ArgumentProblem::Unknown`].
    pub fn set(&self, arguments: &mut Arguments, name: &str, value: &str) -> Result<(), ArgumentProblem> {
        match self.parameters.iter().find(|parameter| parameter.name == name) {
            Some(parameter) => arguments.set(parameter, value),
            None => Err(ArgumentProblem::Unknown {
                name: name.to_owned(),
                hint: self.usage(),
            }),
        }
    }

    /// Creates the goal of a run. Set its workspace and other options yourself. Files are included only on request, as for every goal
    /// ([`Goal::include_files`]).
    ///
    /// # Errors
    /// [`WorkflowError::Missing`], or [`WorkflowError::TooLong`].
    pub fn goal(&self, arguments: &Arguments) -> Result<Goal, WorkflowError> {
        let missing: Vec<String> = self
            .missing(arguments)
            .map(|parameter| parameter.name.clone())
            .collect();
        if !missing.is_empty() {
            return Err(WorkflowError::Missing {
                workflow: self.name.clone(),
                parameters: missing,
                usage: self.usage(),
            });
        }
        let text = self.render(arguments).ok_or_else(|| WorkflowError::TooLong {
            workflow: self.name.clone(),
        })?;
        let used = UsedWorkflow {
            name: self.name.clone(),
            tools: self.tools.clone(),
            rules: self.rules.clone(),
            agent: self.agent.clone(),
            sentence: arguments.sentence().cloned().map(Box::new),
        };
        Ok(Goal::new(text).mode(self.mode).workflow(used))
    }

    fn render(&self, arguments: &Arguments) -> Option<String> {
        match &self.body {
            Body::Template(template) => {
                let values = self.parameters.iter().map(|parameter| {
                    let given = arguments.get(&parameter.name);
                    let text = given.or(parameter.default.as_deref()).unwrap_or_default();
                    let is_false = parameter.kind == ParameterKind::Boolean && text == "false";
                    let value = TemplateValue {
                        text: text.to_owned(),
                        is_true: !text.is_empty() && !is_false,
                    };
                    (parameter.name.as_str(), value)
                });
                template.render(&values.collect::<BTreeMap<_, _>>())
            }
            Body::ClaudeCode(template) => template.render(arguments.get(ALL_ARGUMENTS).unwrap_or_default()),
        }
    }

    /// Returns the error for arguments with these problems.
    pub(super) fn invalid(
        &self,
        problems: Vec<ArgumentProblem>,
        not_understood: Option<NotUnderstood>,
    ) -> WorkflowError {
        WorkflowError::Arguments {
            workflow: self.name.clone(),
            problems,
            usage: self.usage(),
            not_understood,
        }
    }
}
