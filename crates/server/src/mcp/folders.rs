//! The folders that a client may use.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

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
    roots: Roots,
}

/// The folders that the client works in, as it said last.
#[derive(Debug, Default)]
pub(crate) struct Roots {
    folders: Mutex<Vec<PathBuf>>,
    /// The number of times that the client has said that they changed.
    changes: AtomicU64,
    /// The number of changes that the client had told before it answered; `None` until then. Locked while it is asked.
    asked_after: tokio::sync::Mutex<Option<u64>>,
}

impl Roots {
    /// The client has other roots now.
    pub(crate) fn have_changed(&self) {
        self.changes.fetch_add(1, Ordering::SeqCst);
    }

    /// Lets `ask` ask the client, unless its roots are known and `may_differ` is false. Calls that come together wait for the same answer.
    pub(crate) async fn learn(&self, may_differ: bool, ask: impl Future<Output = Option<Vec<PathBuf>>>) {
        let mut asked_after = self.asked_after.lock().await;
        let changes = self.changes.load(Ordering::SeqCst);
        if *asked_after == Some(changes) && !may_differ {
            return;
        }
        // A client that does not answer keeps the roots that it had, and is asked again.
        if let Some(folders) = ask.await {
            *asked_after = Some(changes);
            let real = folders.iter().filter_map(|root| root.canonicalize().ok());
            *self.lock() = real.collect();
        }
    }

    fn folders(&self) -> Vec<PathBuf> {
        self.lock().clone()
    }

    fn lock(&self) -> MutexGuard<'_, Vec<PathBuf>> {
        self.folders.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Folders {
    /// Allows a folder, which must be free of links, and the roots of the client.
    pub(crate) fn within(own: PathBuf) -> Self {
        let roots = Roots::default();
        Folders::Within(Allowed { own, roots })
    }

    /// The roots of the client; `None` if they do not matter.
    pub(crate) fn roots(&self) -> Option<&Roots> {
        match self {
            Folders::Any(_) => None,
            Folders::Within(allowed) => Some(&allowed.roots),
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
        self.roots.folders()
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
