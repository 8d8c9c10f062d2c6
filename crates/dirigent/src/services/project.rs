//! The services of a project's `.mcp.json`. None is started before the user has trusted the file's content.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use dirigent_core::digest::sha256_hex;
use dirigent_mcp::{Endpoint, Import, ServiceConfig, ServiceName, SkippedService, import};
use dirigent_store::TrustedFile;

use super::{ServiceSettings, secrets};
use crate::markdown;

/// The name of the file.
const FILE: &str = ".mcp.json";

/// A project's services file whose current content the user has not trusted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UntrustedServices {
    /// The file.
    pub path: PathBuf,
    /// The content.
    pub text: String,
    /// The names of its services: as Dirigent calls them or, if a name cannot be used, as in the file.
    pub services: Vec<String>,
    /// The settings of the services that can be used, without values that may be secrets.
    pub settings: BTreeMap<ServiceName, ServiceSettings>,
    /// The services that cannot be used.
    pub skipped: Vec<SkippedService>,
    /// True if the user has trusted the file with other content before.
    pub changed: bool,
    /// The SHA-256 of the content in hexadecimal digits.
    pub(super) digest: String,
}

/// The content of a project's services file.
#[derive(Clone, Debug, Default)]
pub(super) struct ProjectServices {
    /// The file's path; `None` if there is no such file.
    pub(super) path: Option<PathBuf>,
    /// The services, if the file is trusted.
    pub(super) configs: Vec<ServiceConfig>,
    pub(super) untrusted: Option<UntrustedServices>,
    pub(super) skipped: Vec<SkippedService>,
    pub(super) notes: Vec<String>,
}

/// Returns the path of a project's services file. Reads the disk.
pub(super) fn file_in(workspace: &Path) -> PathBuf {
    let real = workspace.canonicalize().unwrap_or_else(|_| workspace.to_owned());
    real.join(FILE)
}

/// Reads the services file of the project in a workspace. Reads the disk.
pub(super) fn read(workspace: &Path, trusted: &[TrustedFile]) -> ProjectServices {
    let path = file_in(workspace);
    if path.symlink_metadata().is_err() {
        return ProjectServices::default();
    }
    let mut project = ProjectServices {
        path: Some(path.clone()),
        ..ProjectServices::default()
    };
    let read = markdown::read_file(&path, path.parent());
    let read = read.and_then(|text| match import(&text, path.parent().unwrap_or(&path)) {
        Ok(import) => Ok((text, import)),
        Err(error) => Err(error.to_string()),
    });
    let (text, import) = match read {
        Ok(read) => read,
        Err(reason) => {
            let name = path.display().to_string();
            project.skipped.push(SkippedService { name, reason });
            return project;
        }
    };
    let digest = sha256_hex(text.as_bytes());
    let shown = path.to_string_lossy();
    let earlier = trusted.iter().find(|file| file.path == shown);
    if earlier.is_some_and(|file| file.digest == digest) {
        project.add(import);
    } else {
        let named = import.services.iter().map(|service| service.name.to_string());
        let shown = |config: &ServiceConfig| {
            (
                config.name.clone(),
                secrets::hide_before_trust(ServiceSettings::from(config)),
            )
        };
        let settings = import.services.iter().map(shown).collect();
        project.untrusted = Some(UntrustedServices {
            services: named
                .chain(import.skipped.iter().map(|skipped| skipped.name.clone()))
                .collect(),
            skipped: import.skipped,
            changed: earlier.is_some(),
            settings,
            path,
            text,
            digest,
        });
    }
    project
}

impl ProjectServices {
    /// Adds the services of a trusted file. Their programs run in the project's folder.
    fn add(&mut self, import: Import) {
        let folder = self.path.as_deref().and_then(Path::parent).map(Path::to_owned);
        for mut config in import.services {
            if let Endpoint::Command(command) = &mut config.endpoint {
                command.cwd = command.cwd.take().or_else(|| folder.clone());
            }
            self.configs.push(config);
        }
        self.skipped.extend(import.skipped);
        self.notes.extend(import.notes);
    }
}
