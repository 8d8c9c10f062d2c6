//! Files of the service that no agent may read: the token and the journal.

use std::path::{Path, PathBuf};

use axum::http::StatusCode;
use dirigent::Dirigent;
use serde::Deserialize;
use utoipa::IntoParams;

use crate::problem::Problem;
use crate::service::Service;

/// The paths of the token file and the journal, with links resolved.
pub(crate) struct PrivateFiles(Vec<PathBuf>);

impl PrivateFiles {
    pub(crate) fn new(dirigent: &Dirigent, token_file: Option<&Path>) -> Self {
        let files = [Some(dirigent.journal_path()), token_file];
        PrivateFiles(files.into_iter().flatten().map(resolved).collect())
    }

    /// The first private file that is in a folder whose links are resolved, at any depth.
    pub(crate) fn file_in(&self, folder: &Path) -> Option<&Path> {
        self.0
            .iter()
            .map(PathBuf::as_path)
            .find(|file| file.starts_with(folder))
    }
}

/// The path with the links of its folder resolved. The file itself may be a link: then it is its place that matters, as much as that of its target.
fn resolved(file: &Path) -> PathBuf {
    let folder = match file.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        Some(_) | None => Path::new("."),
    };
    match (folder.canonicalize(), file.file_name()) {
        (Ok(folder), Some(name)) => folder.join(name),
        _ => file.to_owned(),
    }
}

/// The query of requests that depend on the workspace.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct WorkspaceQuery {
    /// Absolute path of the folder; that of the server if absent.
    #[param(value_type = Option<String>)]
    pub(crate) workspace: Option<PathBuf>,
}

/// Returns the folder that a request names, or the default one. File tools of agents read everything in it, so it must not contain a private file.
pub(crate) async fn workspace(service: &Service, named: Option<PathBuf>) -> Result<PathBuf, Problem> {
    let Some(named) = named else {
        return Ok(service.options.workspace.clone());
    };
    if !named.is_absolute() {
        return Err(Problem::invalid(format!(
            "`workspace` is invalid: {} is not an absolute path",
            named.display()
        )));
    }
    // A folder that does not exist is reported when it is used.
    let folder = tokio::fs::canonicalize(&named)
        .await
        .unwrap_or_else(|_| named.clone());
    match service.private.file_in(&folder) {
        Some(_) => Err(Problem::new(
            StatusCode::UNPROCESSABLE_ENTITY,
            "unusable_workspace",
            format!(
                "the workspace {} cannot be used: it contains the token or the journal of this service, which agents must not read; name another folder",
                named.display()
            ),
        )),
        None => Ok(named),
    }
}
