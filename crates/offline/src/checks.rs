//! Which commands tell whether a project is sound.

use serde_json::Value;

use super::conversation::{Call, Conversation};
use super::scope::Scope;
use super::tools::{self, Pattern, SearchOutput, file_text, listed_files, read_output};

/// A command that checks the project.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Check {
    /// The program and its arguments.
    pub command: Vec<String>,
    /// What its success shows.
    pub kind: CheckKind,
}

/// What a check's success shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CheckKind {
    /// That the project compiles.
    Build,
    /// That its tests pass.
    Tests,
}

/// How deep the project is looked at to see what it is.
const DEPTH: u32 = 3;

/// The files of the workspace near its root.
pub(crate) fn files(conversation: &Conversation<'_>) -> Result<Vec<String>, Call> {
    let answer = conversation.result_of(tools::list(".", DEPTH))?;
    Ok(listed_files(&answer.output))
}

/// The checks that tell something about these files; of all the project's where none are given.
pub(crate) fn project_checks(conversation: &Conversation<'_>, about: &[String]) -> Result<Vec<Check>, Call> {
    let files = files(conversation)?;
    let has = |name: &str| files.iter().any(|file| file == name);
    let concerns = |endings: &[&str]| {
        about.is_empty()
            || about
                .iter()
                .any(|path| endings.iter().any(|ending| path.ends_with(ending)))
    };
    let mut checks = Vec::new();
    if has("Cargo.toml") && concerns(&[".rs", "Cargo.toml"]) {
        checks.push(check(CheckKind::Build, &["cargo", "check", "--all-targets"]));
        checks.push(check(CheckKind::Tests, &["cargo", "test"]));
    }
    if concerns(&[".py", ".pyi"]) {
        checks.extend(python(conversation, &files)?);
    }
    if has("package.json") && concerns(&[".js", ".mjs", ".cjs", ".jsx", ".ts", ".mts", ".tsx"]) {
        let manifest = conversation.result_of(tools::read("package.json", None))?;
        if has_test_script(&manifest.output) {
            checks.push(check(CheckKind::Tests, &["npm", "test"]));
        }
    }
    if has("go.mod") && concerns(&[".go"]) {
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

/// The tests of a Python project, with the runner that they are written for.
fn python(conversation: &Conversation<'_>, files: &[String]) -> Result<Option<Check>, Call> {
    let name = |file: &str| file.rsplit('/').next().unwrap_or(file).to_owned();
    let is_test = |file: &&String| {
        let name = name(file);
        name.ends_with(".py") && (name.starts_with("test") || name.ends_with("_test.py"))
    };
    let Some(test) = files.iter().find(is_test) else {
        return Ok(None);
    };
    let configured = files
        .iter()
        .any(|file| ["conftest.py", "pytest.ini"].contains(&name(file).as_str()));
    let uses_pytest = configured || {
        let pattern = Pattern::Lines(r"^\s*(import pytest|from pytest)\b|^\[tool\.pytest");
        read_output::<SearchOutput>(
            &conversation
                .result_of(tools::search(pattern, &Scope::default()))?
                .output,
        )
        .total
            > 0
    };
    // Without an installation a `src` layout is found only where the path names it.
    let in_src = files
        .iter()
        .any(|file| file.starts_with("src/") && file.ends_with(".py"));
    let mut command: Vec<&str> = if in_src {
        vec!["env", "PYTHONPATH=src"]
    } else {
        vec![]
    };
    command.extend(["python3", "-B", "-m"]);
    let folder = test.rsplit_once('/').map(|(folder, _)| folder);
    if uses_pytest {
        command.extend(["pytest", "-q", "-p", "no:cacheprovider"]);
    } else {
        command.extend(["unittest", "discover"]);
        if let Some(folder) = folder {
            command.extend(["-s", folder]);
            if files.contains(&format!("{folder}/__init__.py")) {
                command.extend(["-t", "."]);
            }
        }
        if name(test).ends_with("_test.py") {
            command.extend(["-p", "*_test.py"]);
        }
    }
    Ok(Some(check(CheckKind::Tests, &command)))
}

fn has_test_script(output: &Value) -> bool {
    let manifest: Option<Value> = file_text(output).and_then(|text| serde_json::from_str(text).ok());
    let script = manifest
        .as_ref()
        .and_then(|manifest| manifest.get("scripts")?.get("test")?.as_str());
    // What `npm init` writes where there are no tests.
    script.is_some_and(|script| !script.contains("no test specified"))
}
