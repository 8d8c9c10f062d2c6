//! The workflows from all sources, the refused files, and the project's files that the user has not trusted.
//!
//! A project's workflow cannot replace another one, so `/name` always invokes the workflow that the user knows.

use std::collections::BTreeSet;
use std::fmt;
use std::path::{Path, PathBuf};

use dirigent_core::digest::sha256_hex;

use super::definition::{Workflow, WorkflowSource};
use super::error::WorkflowError;
use super::file::{self, Dialect, KnownNames};
use super::shipped::SHIPPED;
use crate::markdown::{self, MarkdownFile};
use crate::suggest;

/// Maximum number of workflow files in a project.
const MAX_PROJECT: usize = 50;
/// Maximum total size of a project's workflow files, in bytes.
const MAX_PROJECT_BYTES: usize = 1024 * 1024;

/// The workflows that a user can invoke, and the files that are not used.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Workflows {
    /// The workflows, sorted by name.
    pub workflows: Vec<Workflow>,
    /// The refused files, with the reasons.
    pub refused: Vec<RefusedWorkflow>,
    /// The project's files whose current content the user has not trusted.
    pub untrusted: Vec<UntrustedWorkflow>,
    /// Notes for users about files that could not be read.
    pub notes: Vec<String>,
}

/// A refused workflow file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RefusedWorkflow {
    /// The workflow's name, derived from the file name.
    pub name: String,
    /// The user's or the project's file.
    pub path: PathBuf,
    /// The line of the error, from 1; `None` if the error concerns the whole file.
    pub line: Option<usize>,
    /// The reason, and how to fix the file.
    pub reason: String,
}

/// Display format: `path/of/it.md:3: …`.
impl fmt::Display for RefusedWorkflow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.path.display())?;
        if let Some(line) = self.line {
            write!(f, ":{line}")?;
        }
        write!(f, ": {}", self.reason)
    }
}

/// A workflow file of the project whose current content the user has not trusted. Show its text when you ask the user to trust it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UntrustedWorkflow {
    /// The name of the workflow.
    pub name: String,
    /// The absolute path of the file.
    pub path: PathBuf,
    /// The SHA-256 of the content.
    pub digest: String,
    /// The content.
    pub text: String,
}

impl From<&UntrustedWorkflow> for WorkflowError {
    fn from(file: &UntrustedWorkflow) -> Self {
        WorkflowError::Untrusted {
            name: file.name.clone(),
            path: file.path.clone(),
        }
    }
}

impl Workflows {
    /// Returns true if a workflow with this name ships with Dirigent. A user's file with this name replaces the shipped workflow.
    pub fn is_shipped(name: &str) -> bool {
        SHIPPED
            .iter()
            .any(|(file, _)| file.strip_suffix(".md") == Some(name))
    }

    /// Returns the workflow with this name.
    ///
    /// # Errors
    /// [`WorkflowError::Unknown`] with the most similar name, [`WorkflowError::Untrusted`] or [`WorkflowError::Refused`].
    pub fn find(&self, name: &str) -> Result<&Workflow, WorkflowError> {
        if let Some(workflow) = self.workflows.iter().find(|workflow| workflow.name == name) {
            return Ok(workflow);
        }
        if let Some(untrusted) = self.untrusted.iter().find(|file| file.name == name) {
            return Err(untrusted.into());
        }
        if let Some(refused) = self.refused.iter().find(|file| file.name == name) {
            return Err(WorkflowError::Refused {
                name: name.to_owned(),
                refused: refused.to_string(),
            });
        }
        let name = markdown::truncated(name);
        let names: Vec<&str> = self.names().collect();
        Err(WorkflowError::Unknown {
            hint: suggest::hint(&name, names),
            name,
        })
    }

    /// Returns the names of all workflows that a user can invoke, sorted, for the completion of a message.
    pub fn names(&self) -> impl Iterator<Item = &str> + Clone {
        self.workflows.iter().map(|workflow| workflow.name.as_str())
    }

    /// Returns the workflows of a category, or of all categories if `category` is `None` (FLOW-3).
    pub fn in_category<'a>(&'a self, category: Option<&'a str>) -> impl Iterator<Item = &'a Workflow> {
        self.workflows
            .iter()
            .filter(move |workflow| category.is_none_or(|category| workflow.category == category))
    }

    /// Returns the categories of the workflows, sorted.
    pub fn categories(&self) -> BTreeSet<&str> {
        let categories = self.workflows.iter().map(|workflow| workflow.category.as_str());
        categories.collect()
    }

    /// Reads the shipped, the user's and the project's workflows. `is_trusted` decides whether a project's file is trusted, by its absolute
    /// path and its digest. Reads the disk.
    pub(crate) fn read(
        folder: Option<&Path>,
        workspace: Option<&Path>,
        known: KnownNames<'_>,
        is_trusted: &dyn Fn(&Path, &str) -> bool,
    ) -> Workflows {
        let mut registry = Workflows::default();
        registry.add_shipped(known);
        if let Some(folder) = folder {
            registry.add_user_files(folder, known);
        }
        if let Some(workspace) = workspace {
            registry.add_project_files(workspace, known, is_trusted);
        }
        registry.workflows.sort_by(|a, b| a.name.cmp(&b.name));
        registry
    }

    fn add_shipped(&mut self, known: KnownNames<'_>) {
        for (name, text) in SHIPPED {
            match file::read(
                text,
                Path::new(name),
                Dialect::Dirigent,
                WorkflowSource::Shipped,
                known,
            ) {
                Ok(workflow) => self.workflows.push(workflow),
                // The program has replaced or removed something that the shipped workflow refers to.
                Err(error) => self.refuse(Path::new(name), error.line, error.problem),
            }
        }
    }

    fn add_user_files(&mut self, folder: &Path, known: KnownNames<'_>) {
        for found in markdown::files(folder, None) {
            let path = &found.path;
            let source = WorkflowSource::User(path.clone());
            let read = found
                .read(None)
                .map_err(|problem| (None, problem))
                .and_then(|text| {
                    let read = file::read(&text, path, Dialect::Dirigent, source, known);
                    read.map_err(|error| (error.line, error.problem))
                });
            match read {
                Ok(workflow) => match self.other_than_shipped(&workflow.name) {
                    Some(taken) => self.refuse(path, None, taken),
                    None => {
                        self.workflows.retain(|other| other.name != workflow.name);
                        self.workflows.push(workflow);
                    }
                },
                Err((line, reason)) => self.refuse(path, line, reason),
            }
        }
    }

    fn add_project_files(
        &mut self,
        workspace: &Path,
        known: KnownNames<'_>,
        is_trusted: &dyn Fn(&Path, &str) -> bool,
    ) {
        let real = workspace.canonicalize().unwrap_or_else(|_| workspace.to_owned());
        let (mut count, mut bytes) = (0, 0);
        for (folder, dialect) in [
            (".dirigent/workflows", Dialect::Dirigent),
            (".claude/commands", Dialect::ClaudeCode),
        ] {
            for found in markdown::files(&real.join(folder), Some(&real)) {
                count += 1;
                if count > MAX_PROJECT || bytes > MAX_PROJECT_BYTES {
                    let reason = format!(
                        "a project is limited to {MAX_PROJECT} workflows with {} KiB in total",
                        MAX_PROJECT_BYTES / 1024
                    );
                    self.refuse(&found.path, None, reason);
                    continue;
                }
                let text = found.read(Some(&real));
                bytes += text.as_ref().map_or(0, String::len);
                self.add_project_file(&found, text, dialect, known, is_trusted);
            }
        }
    }

    fn add_project_file(
        &mut self,
        found: &MarkdownFile,
        text: Result<String, String>,
        dialect: Dialect,
        known: KnownNames<'_>,
        is_trusted: &dyn Fn(&Path, &str) -> bool,
    ) {
        let path = &found.path;
        let source = WorkflowSource::Project(path.clone());
        let text = match text {
            Ok(text) => text,
            Err(problem) => return self.refuse(path, None, problem),
        };
        let workflow = match file::read(&text, path, dialect, source, known) {
            Ok(workflow) => workflow,
            Err(error) => return self.refuse(path, error.line, error.problem),
        };
        let name = workflow.name.clone();
        if let Some(other) = self.workflows.iter().find(|other| other.name == name) {
            let reason = format!(
                "the name `{name}` is taken ({}), and a project's file can't replace another workflow: rename the workflow in this file",
                other.source
            );
            return self.refuse(path, None, reason);
        }
        let digest = sha256_hex(text.as_bytes());
        if is_trusted(path, &digest) {
            self.workflows.push(workflow);
        } else {
            self.untrusted.push(UntrustedWorkflow {
                name,
                path: path.clone(),
                digest,
                text,
            });
        }
    }

    /// Returns the reason why the user's file cannot define a workflow with this name; `None` if it can.
    fn other_than_shipped(&self, name: &str) -> Option<String> {
        let other = self.workflows.iter().find(|other| other.name == name)?;
        (other.source != WorkflowSource::Shipped).then(|| {
            format!(
                "a workflow named `{name}` already exists ({}): rename the workflow in this file",
                other.source
            )
        })
    }

    fn refuse(&mut self, path: &Path, line: Option<usize>, reason: String) {
        self.refused.push(RefusedWorkflow {
            name: file::default_name(path),
            path: path.to_owned(),
            line,
            reason,
        });
    }
}
