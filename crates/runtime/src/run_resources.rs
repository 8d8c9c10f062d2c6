//! The resources that a run's agents and tool calls share.

use std::path::PathBuf;
use std::sync::{Arc, Weak};

use dirigent_core::id::{EffectId, RunId};
use dirigent_core::spec::RunSpec;
use dirigent_core::time::Timestamp;
use dirigent_core::tool::Access;
use dirigent_tools::ToolContext;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::content_recorder::ContentRecorder;
use crate::deltas::Listeners;
use crate::run_log::RunClaim;
use crate::run_mailbox::RunMailbox;
use crate::services::Services;
use crate::shared_budget::SharedBudget;

/// The resources of a run that has started.
#[derive(Clone)]
pub(crate) struct RunResources {
    pub(crate) run: RunId,
    pub(crate) spec: Arc<RunSpec>,
    pub(crate) services: Arc<Services>,
    pub(crate) claim: Weak<dyn RunClaim>,
    pub(crate) cancel: CancellationToken,
    pub(crate) tasks: TaskTracker,
    pub(crate) budget: Arc<SharedBudget>,
    pub(crate) listeners: Listeners,
    pub(crate) mailbox: Arc<RunMailbox>,
}

impl RunResources {
    pub(crate) fn tool_context(
        &self,
        effect: EffectId,
        access: Access,
        deadline: Timestamp,
        cancel: CancellationToken,
    ) -> ToolContext {
        ToolContext {
            workspace: PathBuf::from(&self.spec.workspace),
            access,
            run: self.run,
            effect,
            seen: None,
            content_store: Some(Arc::new(ContentRecorder::new(
                &self.services.journal,
                self.run,
                effect,
            ))),
            deadline: Some(self.services.clock.instant(deadline)),
            user: None,
            service_endpoints: self.spec.service_endpoints.clone(),
            cancel,
        }
    }
}
