//! Writes a workflow file for the user to edit.

use std::fs::{self, OpenOptions};
use std::io::{ErrorKind, Write as _};
use std::path::{Path, PathBuf};

use super::error::WorkflowError;
use super::file::is_workflow_name;
use super::registry::Workflows;
use crate::DirigentError;
use crate::blocking::blocking;
use crate::config::Config;

/// The content of a new file after the `name` field.
const CONTENT: &str = "\
description: Explains a file of the project
category: general
parameters:
  file: {type: path, description: the file}
  question: {type: string, required: false, description: what you want to know about it}
# agent: explore
# mode: plan
# tools: [file_operations, search, read_output]
# approval: {ask: [execute_command]}
---
Explain `{{ file }}`{% if question %}, in particular: {{ question }}{% endif %}.
";

impl Workflows {
    /// Writes a file for a new workflow into the user's folder, with an example of each field. Returns its path. An existing file is not
    /// changed.
    ///
    /// # Errors
    /// [`WorkflowError::Write`].
    pub async fn create_file(config: &Config, name: &str) -> Result<PathBuf, DirigentError> {
        let (folder, name) = (config.workflows_folder(), name.to_owned());
        blocking(move || {
            let path = folder.unwrap_or_default().join(format!("{name}.md"));
            write(&path, &name).map_err(|reason| WorkflowError::Write {
                path: path.clone(),
                reason,
            })?;
            Ok::<_, DirigentError>(path)
        })
        .await
    }
}

fn write(path: &Path, name: &str) -> Result<(), String> {
    if !is_workflow_name(name) {
        return Err(
            "its name must have only letters a to z, digits, `-` and `_`, such as `create_project`"
                .to_owned(),
        );
    }
    let Some(folder) = path.parent().filter(|folder| folder.is_absolute()) else {
        return Err("your configuration folder is unknown: set HOME or XDG_CONFIG_HOME".to_owned());
    };
    fs::create_dir_all(folder).map_err(|error| error.to_string())?;
    let file = OpenOptions::new().write(true).create_new(true).open(path);
    let mut file = file.map_err(|error| match error.kind() {
        ErrorKind::AlreadyExists => "it already exists: edit it, or choose another name".to_owned(),
        _ => error.to_string(),
    })?;
    let content = format!("---\nname: {name}\n{CONTENT}");
    file.write_all(content.as_bytes())
        .map_err(|error| error.to_string())
}
