//! Dirigent's answers to the requests of services: lists the workspaces as roots, asks the user on behalf of a call, and refuses
//! sampling.
#![expect(
    deprecated,
    reason = "services of today ask for roots, which newer versions of the protocol leave out"
)]

use std::collections::{BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use dirigent_core::id::{EffectId, RunId};
use dirigent_tools::AskUser;
use rmcp::model::{
    ClientCapabilities, ClientConfig, ElicitRequestParams, ElicitResult, ElicitationCapability, ErrorData,
    FormElicitationCapability, Implementation, ListRootsResult, ProgressNotificationParam, ProgressToken,
    ProtocolVersion, Root, RootsCapabilities,
};
use rmcp::service::{NotificationContext, RequestContext};
use rmcp::{ClientHandler, RoleClient};
use tokio::sync::{Notify, broadcast, watch};
use url::Url;

use crate::config::ServiceName;
use crate::elicitation;
use crate::status::ServiceEvent;
use crate::text::clean_line;
use crate::user_waits::UserWaits;

/// Maximum length of a progress message, in characters.
const MAX_PROGRESS: usize = 500;

/// The client's side of a connection.
pub(crate) struct Client {
    pub(crate) service: ServiceName,
    pub(crate) roots: Arc<Roots>,
    pub(crate) calls: Arc<Calls>,
    pub(crate) events: broadcast::Sender<ServiceEvent>,
    /// Notified when the service says that its tools have changed.
    pub(crate) tools_changed: Arc<Notify>,
}

/// The roots: the workspaces of the runs that use a service. The service may work in these folders.
#[derive(Debug)]
pub(crate) struct Roots {
    folders: Mutex<BTreeSet<PathBuf>>,
    /// The number of times that the service has requested its roots.
    asked: watch::Sender<u64>,
}

/// The active calls, by the token that identifies each call in progress reports.
#[derive(Debug, Default)]
pub(crate) struct Calls {
    calls: Mutex<HashMap<ProgressToken, ActiveCall>>,
}

/// An active call: the data for its progress events, and its way to ask the user.
#[derive(Clone, Debug)]
pub(crate) struct ActiveCall {
    pub(crate) tool: String,
    pub(crate) run: RunId,
    pub(crate) effect: EffectId,
    pub(crate) user: Option<Arc<dyn AskUser>>,
    pub(crate) waits: Arc<UserWaits>,
}

impl Roots {
    pub(crate) fn new() -> Self {
        Roots {
            folders: Mutex::default(),
            asked: watch::Sender::new(0),
        }
    }

    /// Adds a folder; returns true if it is new.
    pub(crate) fn add(&self, folder: &Path) -> bool {
        lock(&self.folders).insert(folder.to_owned())
    }

    /// Returns a receiver of the number of times that the service has requested its roots.
    pub(crate) fn asked(&self) -> watch::Receiver<u64> {
        self.asked.subscribe()
    }

    fn answer(&self) -> Vec<Root> {
        let folders = lock(&self.folders).clone();
        let root = |folder: PathBuf| {
            let uri = Url::from_file_path(&folder).ok()?;
            let name = folder.file_name().unwrap_or(folder.as_os_str());
            Some(Root::new(uri).with_name(name.to_string_lossy()))
        };
        let roots = folders.into_iter().filter_map(root).collect();
        self.asked.send_modify(|asked| *asked += 1);
        roots
    }
}

impl Calls {
    pub(crate) fn insert(&self, token: ProgressToken, call: ActiveCall) {
        lock(&self.calls).insert(token, call);
    }

    pub(crate) fn remove(&self, token: &ProgressToken) {
        lock(&self.calls).remove(token);
    }

    pub(crate) fn is_empty(&self) -> bool {
        lock(&self.calls).is_empty()
    }

    fn get(&self, token: &ProgressToken) -> Option<ActiveCall> {
        lock(&self.calls).get(token).cloned()
    }

    /// The only active call; `None` if none or several are active.
    fn only(&self) -> Option<ActiveCall> {
        let calls = lock(&self.calls);
        match calls.len() {
            1 => calls.values().next().cloned(),
            _ => None,
        }
    }
}

impl ClientHandler for Client {
    async fn list_roots(&self, _: RequestContext<RoleClient>) -> Result<ListRootsResult, ErrorData> {
        Ok(ListRootsResult::new(self.roots.answer()))
    }

    /// Asks the user, as a question of the active call. The protocol does not say which call a question belongs to, so it is declined
    /// unless exactly one call is active.
    async fn create_elicitation(
        &self,
        form: ElicitRequestParams,
        context: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        let Some(ActiveCall {
            user: Some(user),
            waits,
            ..
        }) = self.calls.only()
        else {
            return Ok(elicitation::declined());
        };
        let answer = elicitation::ask(&self.service, &*user, form);
        tokio::select! {
            biased;
            () = context.ct.cancelled() => Ok(elicitation::declined()),
            answer = waits.count(answer) => Ok(answer.unwrap_or_else(elicitation::declined)),
        }
    }

    async fn on_progress(&self, progress: ProgressNotificationParam, _: NotificationContext<RoleClient>) {
        // Ignores the progress of a call that has ended or was never made.
        if let Some(ActiveCall {
            tool, run, effect, ..
        }) = self.calls.get(&progress.progress_token)
        {
            // Fails only if there is no receiver.
            let _ = self.events.send(ServiceEvent::Progress {
                service: self.service.clone(),
                tool,
                run,
                effect,
                progress: progress.progress,
                total: progress.total,
                message: progress.message.map(|text| clean_line(&text, MAX_PROGRESS)),
            });
        }
    }

    async fn on_tool_list_changed(&self, _: NotificationContext<RoleClient>) {
        self.tools_changed.notify_one();
    }

    fn get_info(&self) -> ClientConfig {
        let mut roots = RootsCapabilities::default();
        roots.list_changed = Some(true);
        let mut capabilities = ClientCapabilities::default();
        capabilities.roots = Some(roots);
        let form = FormElicitationCapability::new().with_schema_validation(true);
        capabilities.elicitation = Some(ElicitationCapability::new().with_form(form));
        let client = Implementation::new("dirigent", env!("CARGO_PKG_VERSION"));
        ClientConfig::new(capabilities, client).with_protocol_version(ProtocolVersion::LATEST_WITH_INITIALIZE)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // The data is always consistent, so a poisoned lock can still be used.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
