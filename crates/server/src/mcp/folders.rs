//! The folders that a client may use.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use dirigent::{Dirigent, RunRecord};

use crate::private_files;
use crate::problem::Problem;
use crate::service::Service;

/// The folders that a client may use.
pub(crate) enum Folders {
    /// Any folder that the service lets its clients use. Goals that name none work in its workspace.
    Any(Service),
    /// One folder and the roots of the client, with everything in them.
    Within(Allowed),
}

/// One folder and the roots of the client. All paths are free of links.
#[derive(Debug)]
pub(crate) struct Allowed {
    own: PathBuf,
    /// The folders that the client works in, as it said last.
    roots: Mutex<Vec<PathBuf>>,
}

impl Folders {
    /// Allows a folder, which must be free of links, and the roots of the client.
    pub(crate) fn within(own: PathBuf) -> Self {
        let roots = Mutex::default();
        Folders::Within(Allowed { own, roots })
    }

    /// Returns true if the roots of the client matter.
    pub(crate) fn have_roots(&self) -> bool {
        match self {
            Folders::Any(_) => false,
            Folders::Within(_) => true,
        }
    }

    /// Replaces the roots of the client.
    pub(crate) fn set_roots(&self, roots: Vec<PathBuf>) {
        if let Folders::Within(allowed) = self {
            let real = roots.iter().filter_map(|root| root.canonicalize().ok());
            *allowed.roots.lock().unwrap_or_else(PoisonError::into_inner) = real.collect();
        }
    }

    /// Returns the folder for a new run.
    pub(crate) async fn for_goal(&self, named: Option<PathBuf>) -> Result<PathBuf, Problem> {
        match (self, named) {
            (Folders::Any(service), named) => private_files::workspace(service, named).await,
            (Folders::Within(allowed), None) => Ok(allowed.own.clone()),
            (Folders::Within(allowed), Some(named)) => allowed.folder(&allowed.own.join(named)),
        }
    }

    /// Refuses a run of another folder: its goal, its answers and its changes are none of the client's business.
    pub(crate) async fn check_run(&self, dirigent: &Dirigent, record: &RunRecord) -> Result<(), Problem> {
        let Folders::Within(allowed) = self else {
            return Ok(());
        };
        if allowed.contains(Path::new(&record.workspace)) {
            return Ok(());
        }
        // A run in a worktree belongs to the folder for which the worktree was made.
        if dirigent.worktree_folder(record).is_some() && record.entries > 0 {
            let (view, _) = dirigent.read(record.run).await?;
            let worktree = view.run().spec().worktree.as_ref();
            if worktree.is_some_and(|worktree| allowed.contains(Path::new(&worktree.origin))) {
                return Ok(());
            }
        }
        Err(Problem::invalid(format!(
            "run {} works in {}, and this server is limited to {}: list the runs to see those that you can use",
            record.run.short(),
            record.workspace,
            allowed.names()
        )))
    }

    /// Returns true if a run of this workspace may be listed.
    pub(crate) fn lists(&self, workspace: &str) -> bool {
        match self {
            Folders::Any(_) => true,
            Folders::Within(allowed) => allowed.contains(Path::new(workspace)),
        }
    }

    /// The only folder whose runs may be listed; `None` if there are several.
    pub(crate) fn only(&self) -> Option<&Path> {
        match self {
            Folders::Any(_) => None,
            Folders::Within(allowed) => allowed.roots().is_empty().then_some(&*allowed.own),
        }
    }
}

impl Allowed {
    fn roots(&self) -> Vec<PathBuf> {
        self.roots.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn contains(&self, folder: &Path) -> bool {
        folder.starts_with(&self.own) || self.roots().iter().any(|root| folder.starts_with(root))
    }

    fn names(&self) -> String {
        let mut names = vec![self.own.display().to_string()];
        names.extend(self.roots().iter().map(|root| root.display().to_string()));
        names.dedup();
        names.join(" and ")
    }

    /// Returns the folder, free of links, if it is allowed.
    fn folder(&self, named: &Path) -> Result<PathBuf, Problem> {
        let refused = |problem: &str| {
            Problem::invalid(format!(
                "`workspace` is invalid: {} {problem}: use a folder in {}, or leave it out",
                named.display(),
                self.names()
            ))
        };
        let real = named.canonicalize().ok().filter(|folder| folder.is_dir());
        let real = real.ok_or_else(|| refused("is not a folder"))?;
        match self.contains(&real) {
            true => Ok(real),
            false => Err(refused("is outside the folders that you may use")),
        }
    }
}
