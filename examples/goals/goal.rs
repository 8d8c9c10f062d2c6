//! A goal: its text, its workspace, its script, and what must hold when it is reached.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde::Deserialize;

use crate::AnyError;
use crate::replies::Replies;

/// A goal with its script.
pub struct Goal {
    /// The name of its folder.
    pub name: String,
    /// The content of its `goal.toml`.
    pub file: GoalFile,
    /// The replies of its models.
    pub replies: Replies,
    /// The folder of the projects.
    projects: PathBuf,
}

/// A `goal.toml`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GoalFile {
    /// The goal, in the user's words.
    pub goal: String,
    /// The project that is copied as the workspace: a folder next to the goals.
    workspace: String,
    /// A shell line that completes the workspace before the run.
    prepare: Option<String>,
    /// Further settings, as in a `dirigent.toml`.
    #[serde(default)]
    pub settings: String,
    /// What must hold after the run.
    expect: Expectation,
}

/// What must hold after a run.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Expectation {
    /// Strings that the run's summary must contain.
    summary: Vec<String>,
    /// The files that were created, changed or deleted, in order.
    #[serde(default)]
    changed: Vec<String>,
    /// A shell line that succeeds in the workspace.
    check: Option<String>,
}

/// The files of a workspace, by their paths.
type Files = BTreeMap<String, Vec<u8>>;

/// A goal's workspace in its own folder.
pub struct Workspace {
    folder: PathBuf,
    /// The files before the run.
    before: Files,
}

impl Goal {
    /// Reads the goals of a folder: those with these names, or all.
    pub fn read_all(folder: &Path, names: &[String]) -> Result<Vec<Goal>, AnyError> {
        let mut found = Vec::new();
        for entry in fs::read_dir(folder)? {
            let entry = entry?;
            if entry.path().join("goal.toml").exists() {
                found.push(entry.file_name().to_string_lossy().into_owned());
            }
        }
        found.sort();
        if let Some(unknown) = names.iter().find(|name| !found.contains(name)) {
            return Err(format!("there is no goal {unknown}: the goals are {}", found.join(", ")).into());
        }
        let wanted = found
            .into_iter()
            .filter(|name| names.is_empty() || names.contains(name));
        wanted.map(|name| Goal::read(folder, name)).collect()
    }

    fn read(projects: &Path, name: String) -> Result<Goal, AnyError> {
        let folder = projects.join(&name);
        Ok(Goal {
            name,
            file: read_toml(&folder.join("goal.toml"))?,
            replies: read_toml(&folder.join("replies.toml"))?,
            projects: projects.to_owned(),
        })
    }

    /// Creates the workspace.
    pub fn workspace(&self, folder: PathBuf) -> Result<Workspace, AnyError> {
        copy(&self.projects.join(&self.file.workspace), &folder)?;
        if let Some(line) = &self.file.prepare {
            shell(line, &folder)?;
        }
        let before = files(&folder)?;
        Ok(Workspace { folder, before })
    }

    /// Checks what must hold after the run.
    pub fn check(&self, summary: &str, workspace: &Workspace) -> Result<(), AnyError> {
        let expect = &self.file.expect;
        if let Some(missing) = expect.summary.iter().find(|text| !summary.contains(*text)) {
            return Err(format!("the summary does not contain {missing:?}:\n{summary}").into());
        }
        let changed = workspace.changed()?;
        if changed != expect.changed {
            return Err(format!("the run changed {changed:?}, not {:?}", expect.changed).into());
        }
        match &expect.check {
            Some(line) => shell(line, &workspace.folder),
            None => Ok(()),
        }
    }
}

impl Workspace {
    /// Returns its folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Returns the paths of the files that were created, changed or deleted since the workspace was created.
    fn changed(&self) -> Result<Vec<String>, AnyError> {
        let after = files(&self.folder)?;
        let mut paths: Vec<String> = self.before.keys().chain(after.keys()).cloned().collect();
        paths.sort();
        paths.dedup();
        paths.retain(|path| self.before.get(path) != after.get(path));
        Ok(paths)
    }
}

fn read_toml<T: serde::de::DeserializeOwned>(path: &Path) -> Result<T, AnyError> {
    let text = fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
    toml::from_str(&text).map_err(|error| format!("{}: {error}", path.display()).into())
}

fn copy(from: &Path, to: &Path) -> Result<(), AnyError> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy(&entry.path(), &target)?;
        } else {
            fs::copy(entry.path(), target)?;
        }
    }
    Ok(())
}

fn files(folder: &Path) -> Result<Files, AnyError> {
    let (mut found, mut folders) = (Files::new(), vec![folder.to_owned()]);
    while let Some(next) = folders.pop() {
        for entry in fs::read_dir(next)? {
            let entry = entry?;
            if entry.file_type()?.is_dir() {
                folders.push(entry.path());
            } else {
                let path = entry.path();
                let relative = path.strip_prefix(folder)?.to_string_lossy().into_owned();
                found.insert(relative, fs::read(&path)?);
            }
        }
    }
    Ok(found)
}

/// Runs a shell line in a folder.
fn shell(line: &str, folder: &Path) -> Result<(), AnyError> {
    let output = Command::new("sh")
        .args(["-ec", line])
        .current_dir(folder)
        .stdin(Stdio::null())
        .output()?;
    if output.status.success() {
        return Ok(());
    }
    let (stdout, stderr) = (
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr),
    );
    Err(format!("`{line}` failed:\n{stdout}{stderr}").into())
}
