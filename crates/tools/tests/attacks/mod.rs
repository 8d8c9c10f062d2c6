//! Attacks on the tools as tables: calls with their outcome. In every case nothing outside the workspace is changed or shown, and a call
//! that fails changes nothing at all. Attacks by commands are in `sandbox`, on SQL in `sql_sqlite` and on HTTP in `http_request`.
#![cfg(unix)]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod code;
mod files;

use std::collections::BTreeMap;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::folder::{Folder, context};
use dirigent_core::tool::{ToolOutcome, ToolResult};
use dirigent_tools::{ToolSettings, ToolSource as _, built_in};
use serde_json::Value;

/// The content of the file `secret` next to the workspace.
const SECRET: &str = "canary-that-must-not-sing";
/// The maximum size of a result, in bytes.
const MAX_RESULT: usize = 70_000;
/// The maximum size of a file whose content is compared.
const MAX_COMPARED: u64 = 1024 * 1024;

/// A tool and its parameters.
type Call = (&'static str, Value);
/// The code of the failure (`done` for a success), text in the result, and the calls with this outcome.
type Attack<'a> = (&'a str, &'a str, &'a [Call]);

/// A workspace, and a folder outside of it.
struct Scene {
    work: Folder,
    outside: Folder,
}

impl Scene {
    fn with(files: &[(&str, &[u8])]) -> Self {
        Scene {
            work: Folder::with(files),
            outside: Folder::with(&[("secret", SECRET.as_bytes())]),
        }
    }

    /// Creates a link in the workspace.
    fn link(&self, target: impl AsRef<Path>, path: &str) {
        symlink(target, self.work.path(path)).unwrap();
    }

    /// Creates a named pipe in the workspace.
    fn pipe(&self, path: &str) {
        let made = Command::new("mkfifo").arg(self.work.path(path)).status();
        assert!(made.unwrap().success());
    }

    /// Makes the calls of each attack and checks the outcomes; a failure lists the attack.
    async fn check(&self, attacks: &[Attack<'_>]) {
        let outside = state(&self.outside.path(""));
        let mut work = state(&self.work.path(""));
        for (code, words, calls) in attacks {
            for (tool, parameters) in *calls {
                let row = format!("{tool} {parameters}");
                let result = call(&self.work.path(""), (tool, parameters.clone())).await;
                let has_changes = !result.changes.is_empty();
                let (found, said) = outcome(result);
                let short: String = said.chars().take(1000).collect();
                assert_eq!(&found, code, "{row:.1000}: {short}");
                assert!(said.contains(words), "{row:.1000}: {short}");
                assert!(said.len() < MAX_RESULT, "{row:.1000}: {} bytes", said.len());
                assert!(!said.contains(SECRET), "{row:.1000}: {short}");
                assert_eq!(state(&self.outside.path("")), outside, "{row:.1000}");
                let now = state(&self.work.path(""));
                if *code != "done" {
                    assert!(!has_changes, "{row:.1000}");
                    assert_eq!(now, work, "{row:.1000}");
                }
                work = now;
            }
        }
    }
}

async fn call(workspace: &Path, (tool, parameters): Call) -> ToolResult {
    let tool = built_in(&ToolSettings::default()).get(tool).unwrap().tool;
    tool.call(context(workspace), parameters).await
}

/// The code and the message of a failure; `done` and the output of a success.
fn outcome(result: ToolResult) -> (String, String) {
    match result.outcome {
        ToolOutcome::Failure { code, error, .. } => (code, error),
        ToolOutcome::Success { output } => ("done".to_owned(), output.to_string()),
    }
}

/// The permissions, sizes and contents of everything in a folder.
fn state(folder: &Path) -> BTreeMap<PathBuf, (u32, u64, Vec<u8>)> {
    let mut all = BTreeMap::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let (path, metadata) = entry
            .map(|entry| (entry.path(), entry.metadata().unwrap()))
            .unwrap();
        let mut content = Vec::new();
        if metadata.is_dir() {
            all.extend(state(&path));
        } else if metadata.is_symlink() {
            content = std::fs::read_link(&path)
                .unwrap()
                .into_os_string()
                .into_encoded_bytes();
        } else if metadata.is_file() && metadata.len() < MAX_COMPARED {
            content = std::fs::read(&path).unwrap();
        }
        let size = if metadata.is_dir() { 0 } else { metadata.len() };
        all.insert(path, (metadata.mode(), size, content));
    }
    all
}

/// The names in a folder.
fn names(folder: &Folder) -> Vec<String> {
    let entries = std::fs::read_dir(folder.path("")).unwrap();
    let mut names: Vec<String> = entries
        .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}
