//! Describes a run's project to its agents: the project's instructions, and the environment (LEAD-4). The project is
//! read once, when the run starts, and journaled with the run's spec.

use serde::{Deserialize, Serialize};

use crate::tool::Access;

/// The description of the project that all agents of a run receive.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Project {
    /// The project's instructions.
    #[serde(default, skip_serializing_if = "Instructions::is_empty")]
    pub instructions: Instructions,
    /// The environment in which the run works.
    pub environment: Environment,
}

/// The instructions in a project's files, such as `AGENTS.md`. The user's own instructions take precedence over these.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Instructions {
    /// The files in the order in which agents read them: files of outer folders first, each followed by the files that it imports.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<InstructionFile>,
    /// Notes for the user: which instructions were not read or were truncated, and why.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

impl Instructions {
    fn is_empty(&self) -> bool {
        self.files.is_empty() && self.notes.is_empty()
    }
}

/// A file with instructions.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct InstructionFile {
    /// The path relative to the workspace.
    pub path: String,
    /// The text without control characters, truncated if it is too long.
    pub text: String,
}

/// The environment in which a run works. Absent facts are left out of prompts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Environment {
    /// Absolute path of the workspace.
    pub workspace: String,
    /// Operating system and architecture, such as `linux x86_64`.
    pub system: String,
    /// The date on which the run started, such as `2026-11-24`.
    pub date: String,
    /// Branch and state of the workspace's repository, such as `branch main, 2 modified`; `None` without a repository.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub git: Option<String>,
    /// Names in the workspace, folders with a `/` at the end.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub entries: Vec<String>,
    /// The number of names in the workspace that are not listed.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub entries_left_out: usize,
    /// The files and hosts that commands may access; `None` if the run has no commands.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commands: Option<String>,
    /// The databases that agents can use.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub databases: Vec<ProjectDatabase>,
}

/// A database that agents can use.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProjectDatabase {
    /// The name by which agents use it.
    pub name: String,
    /// The database system, such as `PostgreSQL`.
    pub kind: String,
    /// The access that agents have to the database.
    pub access: Access,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
fn is_zero(number: &usize) -> bool {
    *number == 0
}
