//! The commands that check a project.

use serde_json::Value;

use super::conversation::{Call, Conversation};
use super::file_kinds::FileKind;
use super::outputs::{ListOutput, ReadOutput, SearchOutput};
use super::scope::Scope;
use super::tools::{self, Pattern};

/// A command that checks the project.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Check {
    /// The program and its arguments.
    pub command: Vec<String>,
    pub kind: CheckKind,
}

/// The kinds of evidence that a successful check gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CheckKind {
    /// The project compiles.
    Build,
    /// The project's tests pass.
    Tests,
}

/// Number of folder levels in which to look for project files and tests.
const DEPTH: u32 = 3;

/// Returns the checks that cover these files; all checks of the project if no files are given.
pub(crate) fn project_checks(
    conversation: &Conversation<'_>,
    covered: &[String],
) -> Result<Vec<Check>, Call> {
    let listed = ListOutput::from(&conversation.result_of(tools::list(".", DEPTH))?);
    let files = listed.into_files();
    let has = |name: &str| files.iter().any(|file| file == name);
    let covers = |kinds: &[FileKind]| {
        covered.is_empty()
            || covered
                .iter()
                .any(|path| FileKind::from_path(path).is_some_and(|kind| kinds.contains(&kind)))
    };
    let mut checks = Vec::new();
    if has("Cargo.toml")
        && (covers(&[FileKind::Rust]) || covered.iter().any(|path| path.ends_with("Cargo.toml")))
    {
        checks.push(check(CheckKind::Build, &["cargo", "check", "--all-targets"]));
        checks.push(check(CheckKind::Tests, &["cargo", "test"]));
    }
    if covers(&[FileKind::Python]) {
        checks.extend(python_tests(conversation, &files)?);
    }
    if has("package.json") && covers(&[FileKind::JavaScript, FileKind::TypeScript]) {
        let manifest = conversation.result_of(tools::read("package.json", None))?;
        if has_test_script(&ReadOutput::from(&manifest).content) {
            checks.push(check(CheckKind::Tests, &["npm", "test"]));
        }
    }
    if has("go.mod") && covers(&[FileKind::Go]) {
        checks.push(check(CheckKind::Build, &["go", "vet", "./..."]));
        checks.push(check(CheckKind::Tests, &["go", "test", "./..."]));
    }
    Ok(checks)
}

fn check(kind: CheckKind, command: &[&str]) -> Check {
    Check {
        command: command.iter().map(|&word| word.to_owned()).collect(),
        kind,
    }
}

/// Returns the tests of a Python project, run by pytest or unittest; `None` if there are no tests.
fn python_tests(conversation: &Conversation<'_>, files: &[String]) -> Result<Option<Check>, Call> {
    let name = |file: &str| file.rsplit('/').next().unwrap_or(file).to_owned();
    let is_test = |file: &&String| {
        let name = name(file);
        name.ends_with(".py") && (name.starts_with("test") || name.ends_with("_test.py"))
    };
    let Some(test) = files.iter().find(is_test) else {
        return Ok(None);
    };
    let is_configured = files
        .iter()
        .any(|file| ["conftest.py", "pytest.ini"].contains(&name(file).as_str()));
    let uses_pytest = is_configured || {
        let pattern = Pattern::Lines(r"^\s*(import pytest|from pytest)\b|^\[tool\.pytest");
        let found = conversation.result_of(tools::search(pattern, &Scope::default()))?;
        SearchOutput::from(&found).total > 0
    };
    // If the project is not installed, Python finds the packages of a `src` layout only with this path.
    let in_src = files
        .iter()
        .any(|file| file.starts_with("src/") && file.ends_with(".py"));
    let mut command: Vec<&str> = if in_src {
        vec!["env", "PYTHONPATH=src"]
    } else {
        vec![]
    };
    command.extend(["python3", "-B", "-m"]);
    if uses_pytest {
        command.extend(["pytest", "-q", "-p", "no:cacheprovider"]);
    } else {
        command.extend(["unittest", "discover"]);
        if let Some((folder, _)) = test.rsplit_once('/') {
            command.extend(["-s", folder]);
            if files.contains(&format!("{folder}/__init__.py")) {
                command.extend(["-t", "."]);
            }
        }
        if test.ends_with("_test.py") {
            command.extend(["-p", "*_test.py"]);
        }
    }
    Ok(Some(check(CheckKind::Tests, &command)))
}

fn has_test_script(manifest: &str) -> bool {
    let manifest: Value = serde_json::from_str(manifest).unwrap_or_default();
    // `npm init` writes a script with this text if there are no tests.
    manifest["scripts"]["test"]
        .as_str()
        .is_some_and(|script| !script.contains("no test specified"))
}
