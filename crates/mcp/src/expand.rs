//! References to variables in the settings of a service: `${NAME}`, `${NAME:-default}` and `${env:NAME}`, as other clients write them.

use std::path::Path;

/// A reference that cannot be resolved.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ExpandError {
    /// There is no such variable, and the reference has no default.
    #[error(
        "the variable {name} is not set: set it before Dirigent starts, or write a default as ${{{name}:-…}}"
    )]
    Unset {
        /// The variable.
        name: String,
    },
    /// The reference stands for a value that another client asks its user for.
    #[error("{}", describe_input(input))]
    Input {
        /// The name of the value.
        input: String,
    },
    /// The reference stands for the folder that an editor shows.
    #[error(
        "${{workspaceFolder}} stands for a folder only in files that are imported, and in the file of a project: write the path itself"
    )]
    WorkspaceFolder,
    /// The reference has an unsupported form.
    #[error(
        "${{{reference}}} is not supported: write the value itself, or ${{NAME}} for a variable of the environment"
    )]
    Unsupported {
        /// The text between the braces.
        reference: String,
    },
}

/// Describes a reference to a value that VS Code asks its user for.
fn describe_input(input: &str) -> String {
    let is_name = |c: char| c.is_ascii_alphanumeric();
    let name = input.replace(|c| !is_name(c), "_").to_ascii_uppercase();
    format!(
        "${{input:{input}}} asks for the input `{input}`, which Dirigent cannot ask for: put its value into an environment variable, and write \
         ${{{name}}} in its place"
    )
}

/// Replaces the references that only other clients know by what they stand for in a workspace: `${workspaceFolder}`,
/// `${workspaceFolderBasename}`, `${userHome}`, `${pathSeparator}` and `${env:NAME}`. Refuses `${input:ID}`, and keeps the other references.
pub(crate) fn expand_client(text: &str, workspace: &Path) -> Result<String, ExpandError> {
    replace(text, |reference| {
        Ok(match reference {
            "workspaceFolder" => workspace.to_string_lossy().into_owned(),
            "workspaceFolderBasename" => workspace
                .file_name()
                .unwrap_or_default()
                .to_string_lossy()
                .into_owned(),
            "userHome" => "${HOME}".to_owned(),
            "pathSeparator" | "/" => "/".to_owned(),
            other => match (other.strip_prefix("env:"), other.strip_prefix("input:")) {
                (Some(name), _) => format!("${{{name}}}"),
                (None, Some(input)) => {
                    return Err(ExpandError::Input {
                        input: input.to_owned(),
                    });
                }
                (None, None) => format!("${{{other}}}"),
            },
        })
    })
}

/// Replaces all references in a text.
pub(crate) fn expand(text: &str, variable: impl Fn(&str) -> Option<String>) -> Result<String, ExpandError> {
    replace(text, |reference| resolve(reference, &variable))
}

fn replace(text: &str, resolve: impl Fn(&str) -> Result<String, ExpandError>) -> Result<String, ExpandError> {
    let mut expanded = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("${") {
        let Some((reference, behind)) = after.split_once('}') else {
            break;
        };
        expanded.push_str(before);
        expanded.push_str(&resolve(reference)?);
        rest = behind;
    }
    expanded.push_str(rest);
    Ok(expanded)
}

fn resolve(reference: &str, variable: &impl Fn(&str) -> Option<String>) -> Result<String, ExpandError> {
    if let Some(input) = reference.strip_prefix("input:") {
        return Err(ExpandError::Input {
            input: input.to_owned(),
        });
    }
    if reference == "workspaceFolder" {
        return Err(ExpandError::WorkspaceFolder);
    }
    let (name, default) = match reference.split_once(":-") {
        Some((name, default)) => (name, Some(default)),
        None => (reference, None),
    };
    let name = name.strip_prefix("env:").unwrap_or(name);
    let is_name = name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') && !name.is_empty();
    if !is_name {
        return Err(ExpandError::Unsupported {
            reference: reference.to_owned(),
        });
    }
    let value = variable(name).filter(|value| !value.is_empty() || default.is_none());
    value
        .or_else(|| default.map(str::to_owned))
        .ok_or_else(|| ExpandError::Unset {
            name: name.to_owned(),
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: &str) {
        let variable = |name: &str| match name {
            "TOKEN" => Some("s3cret".to_owned()),
            "EMPTY" => Some(String::new()),
            _ => None,
        };
        let found = expand(text, variable).unwrap_or_else(|error| error.to_string());
        assert_eq!(found, expected);
    }

    #[test]
    fn mcp_1_settings_may_refer_to_variables() {
        check("plain $HOME text", "plain $HOME text");
        check("Bearer ${TOKEN}!", "Bearer s3cret!");
        check("${env:TOKEN}${TOKEN}", "s3crets3cret");
        check("${PORT:-8080}/${EMPTY:-x}/${EMPTY}", "8080/x/");
        check("half ${TOKEN", "half ${TOKEN");
        check(
            "${PORT}",
            "the variable PORT is not set: set it before Dirigent starts, or write a default as ${PORT:-…}",
        );
        check(
            "${input:key}",
            "${input:key} asks for the input `key`, which Dirigent cannot ask for: put its value into an environment variable, and write \
             ${KEY} in its place",
        );
        check(
            "${config:x}",
            "${config:x} is not supported: write the value itself, or ${NAME} for a variable of the environment",
        );
    }
}
