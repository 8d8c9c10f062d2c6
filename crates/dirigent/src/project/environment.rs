//! The environment of a run: facts about its folder and its machine, and what its tools may access.

use std::path::{Path, PathBuf};

use dirigent_core::project::{Environment, ProjectDatabase};
use dirigent_core::tool::ToolSpec;
use dirigent_tools::workspace::{Depth, EntryKind, Hidden, Workspace};
use dirigent_tools::{Confinement, Sandbox, ToolSettings};

/// Maximum number of names to list.
const MAX_ENTRIES: usize = 40;
/// Maximum length of a listed name, in characters. Longer names are left out.
const MAX_NAME: usize = 80;

/// The parts of the environment that all runs of one configuration have in common.
#[derive(Clone, Debug, Default)]
pub(crate) struct EnvironmentFacts {
    sandbox: Sandbox,
    databases: Vec<ProjectDatabase>,
}

impl EnvironmentFacts {
    pub(crate) fn new(settings: &ToolSettings) -> Self {
        let databases = settings.connections.iter();
        let database = |(name, connection): (&String, &dirigent_tools::Connection)| ProjectDatabase {
            name: name.clone(),
            kind: connection.database.name().to_owned(),
            access: connection.access,
        };
        EnvironmentFacts {
            sandbox: settings.sandbox.clone(),
            databases: databases.map(database).collect(),
        }
    }

    /// Returns the environment of a run with these tools in a workspace, without the state of its repository. Reads the disk and the clock.
    pub(crate) fn environment(&self, workspace: &str, tools: &[ToolSpec]) -> Environment {
        let has_tool = |name: &str| tools.iter().any(|tool| tool.name == name);
        let (entries, entries_left_out) = top_level(Path::new(workspace));
        Environment {
            workspace: workspace.to_owned(),
            system: format!("{} {}", std::env::consts::OS, std::env::consts::ARCH),
            date: jiff::Zoned::now().date().to_string(),
            git: None,
            entries,
            entries_left_out,
            commands: has_tool("execute_command").then(|| commands(&self.sandbox)),
            databases: match has_tool("execute_sql") {
                true => self.databases.clone(),
                false => Vec::new(),
            },
        }
    }
}

/// Lists the names in a folder, except hidden and ignored ones, and counts the names that are left out of the list.
fn top_level(folder: &Path) -> (Vec<String>, usize) {
    let walk =
        Workspace::open(folder).and_then(|workspace| workspace.entries(&[], Hidden::Skip, Depth::Levels(1)));
    let Ok(walk) = walk else {
        return (Vec::new(), 0);
    };
    let (mut names, mut left_out) = (Vec::new(), 0);
    for entry in walk {
        let is_shown = names.len() < MAX_ENTRIES
            && entry.path.chars().count() <= MAX_NAME
            && !entry.path.chars().any(char::is_control);
        match (is_shown, entry.kind) {
            (false, _) => left_out += 1,
            (true, EntryKind::Folder) => names.push(entry.path + "/"),
            (true, EntryKind::File | EntryKind::Other) => names.push(entry.path),
        }
    }
    (names, left_out)
}

/// Describes what commands may access.
fn commands(sandbox: &Sandbox) -> String {
    match sandbox.confinement {
        Confinement::Off => "not confined".to_owned(),
        Confinement::Required => {
            let network = if sandbox.network {
                "with network"
            } else {
                "no network"
            };
            format!(
                "write only to the workspace, $TMPDIR{}; read the system, toolchains{}; {network}",
                listed(&sandbox.write),
                listed(&sandbox.read)
            )
        }
    }
}

fn listed(paths: &[PathBuf]) -> String {
    paths.iter().map(|path| format!(", {}", path.display())).collect()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn lead_4_the_top_level_is_bounded_and_leaves_out_what_is_ignored_or_hidden() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        std::fs::write(path(".gitignore"), "target/\n").unwrap();
        std::fs::create_dir_all(path("target/debug")).unwrap();
        std::fs::create_dir_all(path("src/deep")).unwrap();
        std::fs::write(path("a\nb"), "").unwrap();
        std::fs::write(path(&"n".repeat(200)), "").unwrap();
        assert_eq!(top_level(folder.path()), (vec!["src/".to_owned()], 2));

        for number in 0..100 {
            std::fs::write(path(&format!("file-{number:03}")), "").unwrap();
        }
        let (names, left_out) = top_level(folder.path());
        assert_eq!((names.len(), left_out), (40, 63));
        assert_eq!(names[39], "file-039");
    }

    #[test]
    fn lead_4_the_described_access_of_commands_follows_the_sandbox_settings() {
        let narrow = Sandbox::default();
        assert_eq!(
            commands(&narrow),
            "write only to the workspace, $TMPDIR; read the system, toolchains; no network"
        );
        let wide = Sandbox {
            network: true,
            read: vec!["~/.m2".into()],
            write: vec!["~/.cache/go-build".into()],
            ..Sandbox::default()
        };
        assert_eq!(
            commands(&wide),
            "write only to the workspace, $TMPDIR, ~/.cache/go-build; read the system, toolchains, ~/.m2; with network"
        );
        let off = Sandbox {
            confinement: Confinement::Off,
            ..Sandbox::default()
        };
        assert_eq!(commands(&off), "not confined");
    }
}
