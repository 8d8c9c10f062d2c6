//! Files of the service that no agent may read: the token and the journal.

use std::path::{Path, PathBuf};

use axum::extract::FromRequestParts;
use axum::http::StatusCode;
use axum::http::request::Parts;
use dirigent::Dirigent;
use serde::Deserialize;
use utoipa::IntoParams;

use crate::files::folder_of;
use crate::input::Parameters;
use crate::problem::Problem;
use crate::service::Service;

/// The paths of the token file and the journal, with links resolved.
pub(crate) struct PrivateFiles(Vec<PathBuf>);

impl PrivateFiles {
    pub(crate) fn new(dirigent: &Dirigent, token_file: Option<&Path>) -> Self {
        let files = [Some(dirigent.journal_path()), token_file];
        // If the file itself is a link, both its place and its target matter.
        let files = files.into_iter().flatten();
        let places = files.flat_map(|file| [Some(resolved(file)), file.canonicalize().ok()]);
        PrivateFiles(places.flatten().collect())
    }

    /// The first private file that is in a folder whose links are resolved, at any depth.
    pub(crate) fn file_in(&self, folder: &Path) -> Option<&Path> {
        self.0
            .iter()
            .map(PathBuf::as_path)
            .find(|file| file.starts_with(folder))
    }
}

/// The path with the links of its folder resolved, but not the file itself.
fn resolved(file: &Path) -> PathBuf {
    match (folder_of(file).canonicalize(), file.file_name()) {
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

/// The folder that a [`WorkspaceQuery`] names, or the default one.
pub(crate) struct WorkspaceFolder(pub(crate) PathBuf);

impl FromRequestParts<Service> for WorkspaceFolder {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, service: &Service) -> Result<Self, Problem> {
        let Parameters(query) = Parameters::<WorkspaceQuery>::from_request_parts(parts, service).await?;
        workspace(service, query.workspace).await.map(WorkspaceFolder)
    }
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
    check_folder(service, &named).await?;
    Ok(named)
}

/// Refuses a folder that contains a private file.
pub(crate) async fn check_folder(service: &Service, named: &Path) -> Result<(), Problem> {
    // A folder that does not exist is reported when it is used.
    let folder = tokio::fs::canonicalize(named).await;
    let folder = folder.unwrap_or_else(|_| named.to_owned());
    match service.private.file_in(&folder) {
        Some(_) => Err(Problem::new(
            StatusCode::UNPROCESSABLE_ENTITY,
            "unusable_workspace",
            format!(
                "the workspace {} cannot be used: it contains the token or the journal of this service, which agents must not read; name another folder",
                named.display()
            ),
        )),
        None => Ok(()),
    }
}
