//! Finds the workflow that a message invokes: `/create_project my-app`.

use std::path::Path;

use super::definition::Workflow;
use super::error::WorkflowError;
use super::registry::Workflows;

/// A message that invokes a workflow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Invocation<'a> {
    /// The invoked workflow.
    pub workflow: &'a Workflow,
    /// The words after the workflow's name, for [`crate::Dirigent::workflow_arguments`] or [`Workflow::parse_arguments`].
    pub words: &'a str,
}

/// Splits a message that begins with `/name` into the name and the words after it; `None` for any other message.
pub(super) fn split(text: &str) -> Option<(&str, &str)> {
    let rest = text.trim_start().strip_prefix('/')?;
    let end = rest.find(char::is_whitespace).unwrap_or(rest.len());
    let (name, words) = rest.split_at(end);
    let is_name = name.starts_with(|c: char| c.is_alphanumeric())
        && name.chars().all(|c| c.is_alphanumeric() || c == '-' || c == '_');
    is_name.then_some((name, words.trim()))
}

impl Workflows {
    /// Returns the workflow that a message invokes. `None` if the message does not begin with `/name`, or if there is no such workflow and
    /// `/name` is an existing path. Reads the disk in the latter case.
    ///
    /// # Errors
    /// The errors of [`Workflows::find`].
    pub fn invocation<'a>(&'a self, text: &'a str) -> Result<Option<Invocation<'a>>, WorkflowError> {
        let Some((name, words)) = split(text) else {
            return Ok(None);
        };
        match self.find(name) {
            Ok(workflow) => Ok(Some(Invocation { workflow, words })),
            Err(WorkflowError::Unknown { .. }) if Path::new("/").join(name).exists() => Ok(None),
            Err(error) => Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::split;

    #[test]
    fn flow_1_an_invocation_begins_with_a_slash_and_a_name() {
        let cases = [
            (
                "/create_project my-app  x ",
                Some(("create_project", "my-app  x")),
            ),
            ("  /explain\nthis", Some(("explain", "this"))),
            ("/explain", Some(("explain", ""))),
            ("/etc/hosts: explain it", None),
            ("/ explain", None),
            ("//comment", None),
            ("explain /tmp", None),
            ("/-x", None),
            ("/a.b", None),
            ("", None),
        ];
        for (text, expected) in cases {
            assert_eq!(split(text), expected, "{text}");
        }
    }
}
