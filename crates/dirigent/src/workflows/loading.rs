//! Reads workflows, and stores which of a project's files the user trusts.

use std::path::Path;

use dirigent_store::TrustedFile;

use super::registry::{UntrustedWorkflow, Workflows};
use crate::time::now;
use crate::{Dirigent, DirigentError};

impl Dirigent {
    /// Reads the workflows that users can invoke: the shipped and the user's, and those of the project in `workspace` whose files the user has
    /// trusted. Invalid files are listed with the reasons.
    ///
    /// ```
    /// use dirigent::Dirigent;
    ///
    /// # async fn start(dirigent: &Dirigent, workspace: &std::path::Path) -> Result<(), dirigent::DirigentError> {
    /// let workflows = dirigent.workflows(Some(workspace)).await?;
    /// if let Some(invoked) = workflows.invocation("/create_project my-app")? {
    ///     let arguments = dirigent.workflow_arguments(invoked.workflow, invoked.words).await?;
    ///     let goal = invoked.workflow.goal(&arguments)?.workspace(workspace);
    ///     let run = dirigent.start(goal).await?;
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// An error of the journal, in which trusted files are stored.
    pub async fn workflows(&self, workspace: Option<&Path>) -> Result<Workflows, DirigentError> {
        let services = self.load_services(workspace).await?.access();
        let (factory, workspace) = (self.run_spec_factory.clone(), workspace.map(Path::to_owned));
        self.reading(move |journal| {
            let trusted = journal.trusted_files()?;
            let with_services = factory.for_services(services)?;
            let factory = with_services.as_ref().unwrap_or(&factory);
            Ok::<_, DirigentError>(factory.workflows(workspace.as_deref(), &|path, digest| {
                is_trusted(&trusted, path, digest)
            }))
        })
        .await
    }

    /// Marks a workflow file as trusted with its current content. After a change, it must be trusted again.
    ///
    /// # Errors
    /// An error of the journal.
    pub async fn trust_workflow(&self, file: &UntrustedWorkflow) -> Result<(), DirigentError> {
        let trusted = TrustedFile {
            path: file.path.to_string_lossy().into_owned(),
            digest: file.digest.clone(),
            at: now(),
        };
        self.reading(move |journal| journal.trust_file(trusted)).await
    }
}

/// Returns true if the user has trusted the file at this path with the content of this digest.
pub(crate) fn is_trusted(trusted: &[TrustedFile], path: &Path, digest: &str) -> bool {
    let path = path.to_string_lossy();
    trusted
        .iter()
        .any(|file| file.path == path && file.digest == digest)
}
